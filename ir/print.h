// Canonical JSON (one instruction a line; reading and printing again gives the same bytes) and the form
// for people (`shardproof show`).
#pragma once

#include <iosfwd>
#include <string>

#include "ir/plan.h"

namespace shardproof::ir {

void print_json(const Document& document, std::ostream& out);
// One instruction (not a loop) as it stands on its line of a plan file.
std::string instruction_json(const Program& program, const Instruction& instruction);
void print_text(const Document& document, std::ostream& out);
// One instruction as text: "%y = einsum[bsh,fh->bsf](%x, %w) : f32[1,8192,512]".
std::string describe(const Program& program, const Instruction& instruction);

}  // namespace shardproof::ir

// Canonical JSON (one instruction a line; reading and printing again gives the same bytes) and the form
// for people (`shardproof show`).
#pragma once

#include <iosfwd>
#include <string>

#include "ir/plan.h"

namespace shardproof::ir {

void print_json(const Document& document, std::ostream& out);
// Parts of the canonical form: an instruction (not a loop), a carry of a loop, and an entry of the plan's (first) stage or of a buffer.
std::string instruction_json(const Program& program, const Instruction& instruction);
std::string carry_json(const Program& program, const Carry& carry);
std::string input_json(const Document& document, const PlanInput& input);
std::string state_json(const Document& document, const PlanState& state);
std::string output_json(const Document& document, const PlanOutput& output);
std::string member_json(const Document& document, const BufferMember& member);
void print_text(const Document& document, std::ostream& out);
// One instruction as text: "%y = einsum[bsh,fh->bsf](%x, %w) : f32[1,8192,512]".
std::string describe(const Program& program, const Instruction& instruction);

}  // namespace shardproof::ir

// Changes of a macro instruction (adamw, softmax, rope, ..) that is at fault: other attributes, as the reference has them,
// operands exchanged or replaced. The prover works on what macros unfold to, so these are tried on the whole plan.
#pragma once

#include <optional>
#include <vector>

#include "verifier/blame.h"
#include "verifier/repairs.h"

namespace shardproof::verifier {

// The macro of the plan whose part or result the suspect is, with one change each; likeliest first. Terms are not filled in.
std::vector<Repair> macro_changes(Session& session, const Suspect& suspect);

}  // namespace shardproof::verifier

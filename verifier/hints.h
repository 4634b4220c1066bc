// Repairs that execution suggests: what an instruction reads is summands of a reference value, or a multiple of one.
#pragma once

#include <vector>

#include "verifier/repairs.h"

namespace shardproof::verifier {

// From the alignment of a run in the prime field (execution/alignment.h), at smaller sizes if the plan is large; nothing if
// that takes too long. Conjectures about the whole plan: without terms, so only to be verified as a changed plan.
std::vector<Repair> hinted_changes(const Session& session);

}  // namespace shardproof::verifier

// Numbers that are written down in one of the programs only.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "ir/plan.h"
#include "ir/rational.h"

namespace shardproof::verifier {

// A number that stands in the reference or in the plan and not in the other, in `full` and, as it is, in `small` too, and that may
// come from sizes: neither a small integer or fraction of such nor a short decimal (0.9, 1e-5). When sizes shrink, it
// would have to shrink with them, and what was equal to it (a sum over positions) does. `kept`: sizes that do not shrink.
// Both documents in core ops.
std::optional<ir::Rational> size_that_stays(const ir::Document& full, const ir::Document& small, const std::set<std::int64_t>& kept);

}  // namespace shardproof::verifier

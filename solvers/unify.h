// Proposing how a definition could be instantiated to a given term. Nothing here is trusted: a proposal is
// only used if AtomTable::accept agrees.
#pragma once

#include <functional>
#include <vector>

#include "solvers/term_pool.h"

namespace shardproof::solvers {

// Calls `accept` with one index term per dimension for each way found to match `pattern` (over pattern variables
// of `shape`) with `term`, until it returns true or `max_tries` ways were tried. Dimensions that the pattern
// does not mention get index 0. `guards` multiply the term. Returns whether a proposal was accepted.
bool propose_instances(TermPool& pool, TermId pattern, TermId term, const std::vector<std::int64_t>& shape,
                       const std::vector<TermId>& guards, int max_tries,
                       const std::function<bool(const std::vector<IndexId>&)>& accept);

}  // namespace shardproof::solvers

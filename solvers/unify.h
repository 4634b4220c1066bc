// Proposing how a definition could be instantiated to a given term. Nothing here is trusted: a proposal is
// only used if AtomTable::accept agrees.
#pragma once

#include <functional>
#include <vector>

#include "solvers/kernel/atoms.h"

namespace shardproof::solvers {

// Calls `accept` with one index term per dimension of the variant's tensor for each way found to match the variant's key
// with `term`, until it returns true or `max_tries` ways were tried. Dimensions that the variant does not mention get
// index 0. `guards` multiply the term. Returns whether a proposal was accepted.
bool propose_instances(TermPool& pool, const Variant& variant, TermId term, const std::vector<TermId>& guards, int max_tries,
                       const std::function<bool(const std::vector<IndexId>&)>& accept);

}  // namespace shardproof::solvers

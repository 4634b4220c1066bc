// What a term reads.
#pragma once

#include <functional>
#include <set>

#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {

// Whether the term has an access to a tensor for which `select` holds, at any depth; definitions are not opened.
bool accesses(const TermPool& pool, TermId term, const std::function<bool(TensorId)>& select);

// All of them.
std::set<TensorId> tensors_in(const TermPool& pool, TermId term);

}  // namespace shardproof::solvers

#include "solvers/kernel/accesses.h"

#include <unordered_set>

namespace shardproof::solvers {

bool accesses(const TermPool& pool, TermId term, const std::function<bool(TensorId)>& select) {
  std::unordered_set<std::int32_t> seen;
  const std::function<bool(TermId)> visit = [&](TermId t) {
    if (!seen.insert(t.value).second) return false;
    const TermNode& n = pool.node(t);
    if (n.kind == TermKind::access && select(n.tensor)) return true;
    for (const Monomial& m : n.monomials)
      for (const Factor& f : m.factors)
        if (visit(f.term)) return true;
    for (TermId a : n.arguments)
      if (visit(a)) return true;
    return n.kind == TermKind::reduce && visit(n.body);
  };
  return visit(term);
}

std::set<TensorId> tensors_in(const TermPool& pool, TermId term) {
  std::set<TensorId> found;
  accesses(pool, term, [&](TensorId t) {
    found.insert(t);
    return false;
  });
  return found;
}

}  // namespace shardproof::solvers

// Substitution of variables by index terms. The result is normalised again: equalities found by the prover
// are always equalities of normal forms after instantiation.
#include <algorithm>

#include "ir/check.h"
#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {

TermId TermPool::substitute(TermId term, Substitution& substitution) {
  const VarSetId free = node(term).free;
  bool touched = false;
  for (const auto& [v, unused] : substitution.entries_) {
    if (contains(free, v)) {
      touched = true;
      break;
    }
  }
  if (!touched) return term;
  if (auto it = substitution.term_memo_.find(term.value); it != substitution.term_memo_.end()) return it->second;
  const TermId result = substitute_uncached(term, substitution);
  substitution.term_memo_.emplace(term.value, result);
  return result;
}

TermId TermPool::substitute_uncached(TermId term, Substitution& substitution) {
  // Pool nodes live in a deque: references stay valid while new nodes are added.
  const TermNode& n = node(term);
  switch (n.kind) {
    case TermKind::poly: {
      std::vector<Monomial> result;
      for (const Monomial& m : n.monomials) {
        std::vector<Monomial> current{{m.coefficient, {}}};
        for (const Factor& f : m.factors) {
          const TermId replaced = substitute(f.term, substitution);
          if (node(replaced).kind == TermKind::poly) {
            current = multiply_all(current, power_of(replaced, f.power));
          } else {
            std::vector<Monomial> next;
            next.reserve(current.size());
            for (Monomial& c : current) multiply_factor(next, std::move(c), Factor{replaced, f.power});
            current = std::move(next);
          }
        }
        result.insert(result.end(), std::make_move_iterator(current.begin()), std::make_move_iterator(current.end()));
      }
      return poly(std::move(result));
    }
    case TermKind::access: {
      std::vector<IndexId> indices;
      for (IndexId i : n.indices) indices.push_back(substitute_index(i, substitution));
      return access(n.tensor, std::move(indices));
    }
    case TermKind::apply: {
      std::vector<TermId> arguments;
      for (TermId a : n.arguments) arguments.push_back(substitute(a, substitution));
      return apply(n.function, std::move(arguments));
    }
    case TermKind::range: return range(substitute_index(n.form, substitution), n.lo, n.hi);
    case TermKind::index_value: return index_value(substitute_index(n.form, substitution));
    case TermKind::reduce: {
      if (substitution.raw_) {
        TermNode copy = n;
        copy.body = substitute(n.body, substitution);
        return intern(std::move(copy));
      }
      FreshScope scope(*this);
      std::vector<VarId> vars;
      const TermId body = open(term, scope, vars);
      return reduce(n.reduction, std::move(vars), substitute(body, substitution));
    }
  }
  SHARDPROOF_CHECK(false);
}

TermId TermPool::open(TermId reduction, FreshScope& scope, std::vector<VarId>& vars) {
  const TermNode& n = node(reduction);
  SHARDPROOF_CHECK(n.kind == TermKind::reduce);
  Substitution names(true);
  for (VarId b : n.bound) {
    vars.push_back(scope.fresh(var(b).extent));
    names.set(b, index_var(vars.back()));
  }
  return substitute(n.body, names);
}

}  // namespace shardproof::solvers

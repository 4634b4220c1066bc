// Bound variables of reductions: merging, digit splits, canonical names. See reduce.cpp for the rules.
#include <algorithm>
#include <set>

#include "ir/check.h"
#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {

using ir::checked_mul;

// All index terms below a term, also inside divisions, loads and inner reductions.
void TermPool::collect_forms(TermId term, std::vector<IndexId>& forms) const {
  std::set<TermId> seen_terms;
  std::set<IndexId> seen;
  const std::function<void(IndexId)> visit_index = [&](IndexId e) {
    if (!seen.insert(e).second) return;
    forms.push_back(e);
    for (const auto& [a, k] : index(e).terms) {
      const IndexAtom& at = atom(a);
      if (at.kind == AtomKind::floor_div || at.kind == AtomKind::modulo) visit_index(at.inner);
      for (IndexId i : at.indices) visit_index(i);
    }
  };
  const std::function<void(TermId)> visit = [&](TermId t) {
    if (!seen_terms.insert(t).second) return;
    const TermNode& n = node(t);
    for (const Monomial& m : n.monomials)
      for (const Factor& f : m.factors) visit(f.term);
    for (IndexId i : n.indices) visit_index(i);
    for (TermId a : n.arguments) visit(a);
    if (n.kind == TermKind::reduce) visit(n.body);
    if (n.kind == TermKind::range || n.kind == TermKind::index_value) visit_index(n.form);
  };
  visit(term);
}

// Divisions and moduli below a term that mention one of the variables.
std::size_t TermPool::count_digit_atoms(TermId term, const std::vector<VarId>& vars) const {
  std::vector<IndexId> forms;
  collect_forms(term, forms);
  std::set<AtomId> found;
  for (IndexId e : forms)
    for (const auto& [a, unused] : index(e).terms) {
      const IndexAtom& at = atom(a);
      if (at.kind != AtomKind::floor_div && at.kind != AtomKind::modulo) continue;
      for (VarId v : vars)
        if (contains(at.free, v)) found.insert(a);
    }
  return found.size();
}

// Whether a guard of the term depends on `a` and not on `b`.
bool TermPool::guarded_alone(TermId term, VarId a, VarId b) const {
  for (const Monomial& m : monomials_of(term))
    for (const Factor& f : m.factors)
      if (is_guard(f.term) && contains(node(f.term).free, a) && !contains(node(f.term).free, b)) return true;
  return false;
}

bool TermPool::merge_variables(std::vector<VarId>& vars, TermId& body, FreshScope& scope) {
  std::vector<IndexId> forms;
  collect_forms(body, forms);
  const auto coefficient = [&](IndexId e, VarId v) {
    for (const auto& [a, k] : index(e).terms)
      if (atom(a).kind == AtomKind::variable && atom(a).var == v) return k;
    return std::int64_t{0};
  };
  for (VarId a : vars) {
    for (VarId b : vars) {
      if (a == b) continue;
      const std::int64_t eb = var(b).extent, ea = var(a).extent;
      bool forward = false, backward = false;
      for (IndexId e : forms) {
        const std::int64_t ka = coefficient(e, a), kb = coefficient(e, b);
        if (ka == 0 || kb == 0) continue;
        forward = forward || ka == checked_mul(eb, kb);
        backward = backward || ka == checked_mul(-eb, kb);
      }
      for (const bool reversed : {false, true}) {
        if (reversed ? !backward : !forward) continue;
        const VarId t = scope.fresh(checked_mul(ea, eb));
        Substitution s;
        if (reversed) s.set(b, index_linear(index_var(t), 1, index_var(a), eb, -checked_mul(eb, ea - 1)));
        else s.set(b, index_linear(index_var(t), 1, index_var(a), -eb));
        const TermId merged = substitute(body, s);
        if (contains(node(merged).free, a)) continue;
        // Not the inverse of a digit split: the merged variable may not bring divisions that were not there.
        if (count_digit_atoms(merged, {t}) > count_digit_atoms(body, {a, b})) continue;
        body = merged;
        std::erase_if(vars, [&](VarId v) { return v == a || v == b; });
        vars.push_back(t);
        return true;
      }
      // A guard on the high digit alone, [a < r], is one on t: a = t div ext(b), b = t mod ext(b), if no division is left.
      if (!forward || !guarded_alone(body, a, b)) continue;
      const VarId t = scope.fresh(checked_mul(ea, eb));
      Substitution s;
      s.set(a, index_div(index_var(t), eb));
      s.set(b, index_mod(index_var(t), eb));
      const TermId merged = substitute(body, s);
      if (count_digit_atoms(merged, {t}) != 0) continue;
      body = merged;
      std::erase_if(vars, [&](VarId v) { return v == a || v == b; });
      vars.push_back(t);
      return true;
    }
  }
  return false;
}

// A bound variable that occurs inside k*v + .. div c or mod c with c/k a proper divisor of its extent.
bool TermPool::find_digit_split(TermId body, const std::vector<VarId>& vars, VarId& found_var, std::int64_t& digit) const {
  std::vector<IndexId> forms;
  collect_forms(body, forms);
  for (IndexId e : forms) {
    for (const auto& [a, unused] : index(e).terms) {
      const IndexAtom& at = atom(a);
      if (at.kind != AtomKind::floor_div && at.kind != AtomKind::modulo) continue;
      for (const auto& [b, kb] : index(at.inner).terms) {
        const IndexAtom& inner = atom(b);
        if (inner.kind != AtomKind::variable || std::find(vars.begin(), vars.end(), inner.var) == vars.end()) continue;
        const std::int64_t k = kb < 0 ? -kb : kb;
        const std::int64_t extent = var(inner.var).extent;
        const std::int64_t wanted = at.divisor % k == 0 ? at.divisor / k : 0;
        if (wanted > 1 && wanted < extent && extent % wanted == 0) {
          found_var = inner.var;
          digit = wanted;
          return true;
        }
      }
    }
  }
  return false;
}

std::uint64_t TermPool::signature(IndexId e, VarId v, const std::vector<VarId>& bound, std::int64_t sign) const {
  std::uint64_t total = 0;
  for (const auto& [a, k] : index(e).terms) {
    const IndexAtom& at = atom(a);
    std::uint64_t h = 0;
    switch (at.kind) {
      case AtomKind::variable:
        h = at.var == v ? 11 : std::find(bound.begin(), bound.end(), at.var) != bound.end() ? 13 : 17;
        break;
      case AtomKind::load:
        h = combine(19, hash_int(at.tensor.value));
        for (IndexId i : at.indices) h = combine(h, signature(i, v, bound));
        break;
      default:
        h = combine(combine(static_cast<std::uint64_t>(at.kind), hash_int(at.divisor)), signature(at.inner, v, bound));
    }
    total += combine(h, hash_int(sign * k));
  }
  return mix(total);
}

std::uint64_t TermPool::signature(TermId term, VarId v, const std::vector<VarId>& bound) const {
  const TermNode& n = node(term);
  if (!contains(n.free, v)) return n.skeleton;
  switch (n.kind) {
    case TermKind::poly: {
      std::uint64_t total = 0;
      for (const Monomial& m : n.monomials) {
        std::uint64_t product = 0;
        bool oriented = false;
        for (const Factor& f : m.factors) {
          product += combine(signature(f.term, v, bound), hash_int(f.power));
          oriented = oriented || node(f.term).kind == TermKind::index_value;
        }
        const std::int64_t num = oriented && m.coefficient.num < 0 ? -m.coefficient.num : m.coefficient.num;
        total += combine(product, combine(hash_int(num), hash_int(m.coefficient.den)));
      }
      return mix(total);
    }
    case TermKind::access: {
      std::uint64_t h = combine(5, hash_int(n.tensor.value));
      for (IndexId i : n.indices) h = combine(h, signature(i, v, bound));
      return h;
    }
    case TermKind::apply: {
      std::uint64_t h = combine(6, static_cast<std::uint64_t>(n.function));
      std::uint64_t unordered = 0;
      for (TermId a : n.arguments) {
        if (n.function == Function::max) unordered += signature(a, v, bound);
        else h = combine(h, signature(a, v, bound));
      }
      return combine(h, unordered);
    }
    case TermKind::reduce: return combine(7, signature(n.body, v, bound));
    default:  // which of e and -e stands in a guard or a number depends on the age of its variables
      return combine(combine(8, static_cast<std::uint64_t>(n.kind)), signature(n.form, v, bound, 1) + signature(n.form, v, bound, -1));
  }
}

TermId TermPool::seal(Reduction op, std::vector<VarId> vars, TermId body) {
  std::vector<std::tuple<std::int64_t, std::uint64_t, VarId>> order;
  for (VarId v : vars) order.emplace_back(var(v).extent, signature(body, v, vars), v);
  std::sort(order.begin(), order.end());
  const std::int32_t height = node(body).height + 1;
  Substitution names(true);
  TermNode n;
  n.kind = TermKind::reduce;
  n.reduction = op;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int64_t extent = std::get<0>(order[i]);
    auto [it, added] = variable_ids_.try_emplace({VarKind::bound, height, static_cast<std::int64_t>(i), extent});
    if (added) {
      it->second = VarId{static_cast<std::int32_t>(variables_.size())};
      variables_.push_back({VarKind::bound, extent, "b" + std::to_string(height) + "_" + std::to_string(i)});
    }
    n.bound.push_back(it->second);
    names.set(std::get<2>(order[i]), index_var(it->second));
  }
  n.body = substitute(body, names);
  if (op == Reduction::sum) {  // numbers may change their sign with the names
    const std::vector<Monomial> monomials = monomials_of(n.body);
    if (monomials.size() == 1 && !monomials[0].coefficient.is_one()) {
      n.body = poly_from_sorted({Monomial{Rational(1), monomials[0].factors}});
      return scale(intern(std::move(n)), monomials[0].coefficient);
    }
  }
  return intern(std::move(n));
}

}  // namespace shardproof::solvers

// Reductions with bound variables: the exact rules that give sums and maxima one normal form.
//
// Sum rules (v ranges over [0, ext v)):
//   1 linearity; factors and coefficients without a bound variable leave; a variable that does not occur
//     multiplies by its extent; independent groups of factors become a product of sums
//   2 nested sums of power 1 flatten
//   3 a guard that fixes v (lo <= k*v + e <= hi with hi - lo + 1 = |k|) substitutes v = (hi - e) div k, or its
//     mirror image for k < 0, and keeps [0 <= value < ext v]; but rule 6 first, if it takes v
//   4 a guard on v alone, or one that bounds v statically, narrows its range
//   5 v split into digits where v div c or v mod c occurs and c divides ext v
//   6 two variables merge into one, t = ext(b)*a + b (or with a reversed), if the body then no longer
//     mentions a: this one rule completes sums over chunks, ranks and microbatches
//   7 bound variables are named by height and position, ordered by extent and by a signature of their
//     occurrences that does not depend on free variables
//   8 a guard lo <= e + r(v) <= hi inside implies lo - max r <= e <= hi - min r outside
// Maxima: terms free of bound variables leave; guards free of them split the maximum; guards on one bound
// variable split its range; narrowing only where the removed part is -infinity; rules 2, 5, 6, 7.
//
// Rule 6, soundness: substituting b := t - ext(b)*a rewrites by identities valid on the whole box of t and a.
// If a vanishes, the value at t is the value at the one valid pair (a, b) with t = ext(b)*a + b. Where a guard has a
// alone, that pair is substituted as it is, a = t div ext(b), b = t mod ext(b), if both then disappear.
#include <algorithm>
#include <numeric>
#include <set>

#include "ir/check.h"
#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {

using ir::ceil_div;
using ir::checked_add;
using ir::checked_mul;
using ir::floor_div;

namespace {

constexpr int kMaxSplits = 6;  // digit splits of one reduction; beyond them the sum keeps its variables

bool among(const std::vector<VarId>& vars, VarId v) { return std::find(vars.begin(), vars.end(), v) != vars.end(); }

std::vector<VarId> without(const std::vector<VarId>& vars, VarId v) {
  std::vector<VarId> rest;
  for (VarId w : vars)
    if (w != v) rest.push_back(w);
  return rest;
}

}  // namespace

TermId TermPool::reduce(Reduction op, std::vector<VarId> vars, TermId body) { return reduce_at(op, std::move(vars), body, 0); }

TermId TermPool::reduce_at(Reduction op, std::vector<VarId> vars, TermId body, int splits) {
  Substitution units;
  std::vector<VarId> proper;
  for (VarId v : vars) {
    if (var(v).extent == 1) units.set(v, index_constant(0));
    else proper.push_back(v);
  }
  if (proper.size() != vars.size()) body = substitute(body, units);
  if (proper.empty()) return body;
  if (op == Reduction::max) return reduce_max(std::move(proper), body, splits);
  std::vector<TermId> terms;
  for (const Monomial& m : monomials_of(body)) terms.push_back(scale(reduce_sum_monomial(proper, m.factors, splits), m.coefficient));
  return sum(terms);
}

TermId TermPool::reduce_sum_monomial(const std::vector<VarId>& vars, const std::vector<Factor>& factors, int splits) {
  const VarSetId bound = var_set(vars);
  std::vector<Factor> outside, inside;
  for (const Factor& f : factors) (intersects(node(f.term).free, bound) ? inside : outside).push_back(f);
  Rational multiplicity(1);
  std::vector<VarId> used;
  for (VarId v : vars) {
    const bool occurs = std::any_of(inside.begin(), inside.end(), [&](const Factor& f) { return contains(node(f.term).free, v); });
    if (occurs) used.push_back(v);
    else multiplicity = multiplicity * Rational(var(v).extent);
  }
  // Connected components of factors that share bound variables.
  std::vector<std::size_t> component(inside.size());
  std::iota(component.begin(), component.end(), 0U);
  for (VarId v : used) {
    std::size_t first = inside.size();
    for (std::size_t i = 0; i < inside.size(); ++i) {
      if (!contains(node(inside[i].term).free, v)) continue;
      if (first == inside.size()) {
        first = component[i];
      } else {
        const std::size_t old = component[i];
        for (std::size_t& c : component)
          if (c == old) c = first;
      }
    }
  }
  TermId result = product(outside, multiplicity);
  const std::set<std::size_t> names(component.begin(), component.end());
  for (std::size_t name : names) {
    std::vector<Factor> part;
    VarSetId free{0};
    for (std::size_t i = 0; i < inside.size(); ++i) {
      if (component[i] != name) continue;
      part.push_back(inside[i]);
      free = union_of(free, node(inside[i].term).free);
    }
    std::vector<VarId> part_vars;
    for (VarId v : used)
      if (contains(free, v)) part_vars.push_back(v);
    result = mul(result, reduce_connected_sum(std::move(part_vars), poly_from_sorted({Monomial{Rational(1), part}}), splits));
  }
  return result;
}

// Static bounds that lo <= k*v + rest <= hi puts on v; true if they are tighter than the extent.
bool TermPool::static_range(const TermNode& guard, VarId v, std::int64_t& lo, std::int64_t& hi) {
  std::int64_t k = 0;
  std::vector<LinearTerm> rest_terms;
  for (const auto& [a, ka] : index(guard.form).terms) {
    if (atom(a).kind == AtomKind::variable && atom(a).var == v) k = ka;
    else rest_terms.emplace_back(a, ka);
  }
  if (k == 0) return false;
  const IndexId rest = intern_index(index(guard.form).constant, std::move(rest_terms));
  if (contains(index(rest).free, v)) return false;
  const std::int64_t rest_lo = index(rest).lo, rest_hi = index(rest).hi;
  lo = 0;
  hi = var(v).extent - 1;
  if (guard.lo != -kUnbounded) {  // k*v >= guard.lo - rest_hi
    const std::int64_t bound = checked_add(guard.lo, -rest_hi);
    if (k > 0) lo = std::max(lo, ceil_div(bound, k));
    else hi = std::min(hi, floor_div(-bound, -k));
  }
  if (guard.hi != kUnbounded) {  // k*v <= guard.hi - rest_lo
    const std::int64_t bound = checked_add(guard.hi, -rest_lo);
    if (k > 0) hi = std::min(hi, floor_div(bound, k));
    else lo = std::max(lo, ceil_div(-bound, -k));
  }
  return lo > 0 || hi < var(v).extent - 1;
}

// body with v restricted to [lo, hi]: v := lo + w, w < hi - lo + 1; replaces v by w in vars.
TermId TermPool::restrict_var(TermId body, std::vector<VarId>& vars, VarId v, std::int64_t lo, std::int64_t hi, FreshScope& scope) {
  const VarId w = scope.fresh(hi - lo + 1);
  Substitution s;
  s.set(v, index_scale(index_var(w), 1, lo));
  for (VarId& x : vars)
    if (x == v) x = w;
  return substitute(body, s);
}

TermId TermPool::reduce_connected_sum(std::vector<VarId> vars, TermId body, int splits) {
  FreshScope scope(*this);
  const std::vector<Monomial> monomials = monomials_of(body);
  if (monomials.size() != 1) return reduce_at(Reduction::sum, std::move(vars), body, splits);
  const Monomial& m = monomials[0];
  const auto rest_of = [&](std::size_t skip) {
    Monomial rest{m.coefficient, m.factors};
    rest.factors.erase(rest.factors.begin() + static_cast<std::ptrdiff_t>(skip));
    return poly_from_sorted({std::move(rest)});
  };
  for (std::size_t i = 0; i < m.factors.size(); ++i) {  // rule 2
    const TermNode& f = node(m.factors[i].term);
    if (f.kind != TermKind::reduce || f.reduction != Reduction::sum || m.factors[i].power != 1) continue;
    const TermId rest = rest_of(i);
    const TermId inner = open(m.factors[i].term, scope, vars);
    return reduce_at(Reduction::sum, std::move(vars), mul(rest, inner), splits);
  }
  for (std::size_t i = 0; i < m.factors.size(); ++i) {  // rule 4, a guard on v alone
    const TermNode& g = node(m.factors[i].term);
    if (g.kind != TermKind::range || index(g.form).terms.size() != 1) continue;
    const auto [a, k] = index(g.form).terms[0];
    if (k != 1 || atom(a).kind != AtomKind::variable || !among(vars, atom(a).var)) continue;
    const VarId v = atom(a).var;
    const std::int64_t lo = std::max<std::int64_t>(g.lo, 0), hi = std::min(g.hi, var(v).extent - 1);
    const TermId replaced = restrict_var(rest_of(i), vars, v, lo, hi, scope);
    return reduce_at(Reduction::sum, std::move(vars), replaced, splits);
  }
  for (std::size_t i = 0; i < m.factors.size(); ++i) {  // rule 3
    const TermNode& g = node(m.factors[i].term);
    if (g.kind != TermKind::range) continue;
    for (const auto& [a, k] : index(g.form).terms) {
      if (atom(a).kind != AtomKind::variable || !among(vars, atom(a).var)) continue;
      const VarId v = atom(a).var;
      const std::int64_t magnitude = k < 0 ? -k : k;
      if (g.lo == -kUnbounded || g.hi == kUnbounded || checked_add(g.hi, -g.lo) + 1 != magnitude) continue;
      std::vector<LinearTerm> others;
      for (const LinearTerm& t : index(g.form).terms)
        if (t.first != a) others.push_back(t);
      const IndexId rest = index_normal(index(g.form).constant, std::move(others));
      if (contains(index(rest).free, v)) continue;
      // A number whose digits are both bound is better fixed as a whole.
      const bool digit = std::any_of(vars.begin(), vars.end(), [&](VarId w) { return w != v && contains(index(rest).free, w); });
      if (digit && merge_variables(vars, body, scope)) return reduce_at(Reduction::sum, std::move(vars), body, splits);
      // |k| consecutive integers hold exactly one multiple of k: the guard fixes v.
      const IndexId numerator = k > 0 ? index_scale(rest, -1, g.hi) : index_scale(rest, 1, -g.lo);
      const IndexId value = index_div(numerator, magnitude);
      Substitution s;
      s.set(v, value);
      const TermId replaced = mul(substitute(rest_of(i), s), range(value, 0, var(v).extent - 1));
      return reduce_at(Reduction::sum, without(vars, v), replaced, splits);
    }
  }
  if (vars.size() > 1 && merge_variables(vars, body, scope)) return reduce_at(Reduction::sum, std::move(vars), body, splits);
  for (const Factor& f : m.factors) {  // rule 4, after merging
    const TermNode& g = node(f.term);
    if (g.kind != TermKind::range) continue;
    for (VarId v : std::vector<VarId>(members(g.free))) {
      std::int64_t lo = 0, hi = 0;
      if (!among(vars, v) || !static_range(g, v, lo, hi)) continue;
      if (lo > hi) return zero_;
      const TermId replaced = restrict_var(body, vars, v, lo, hi, scope);
      return reduce_at(Reduction::sum, std::move(vars), replaced, splits);
    }
  }
  VarId digit_var;
  std::int64_t digit = 0;
  if (splits < kMaxSplits && find_digit_split(body, vars, digit_var, digit)) {  // rule 5
    const VarId high = scope.fresh(var(digit_var).extent / digit), low = scope.fresh(digit);
    Substitution s;
    s.set(digit_var, index_linear(index_var(high), digit, index_var(low), 1));
    std::vector<VarId> split = without(vars, digit_var);
    split.push_back(high);
    split.push_back(low);
    return reduce_at(Reduction::sum, std::move(split), substitute(body, s), splits + 1);
  }
  // Rule 8: what a guard says about the free part of its form holds outside as well.
  TermId outside = one_;
  const VarSetId bound = var_set(vars);
  for (const Factor& f : m.factors) {
    const TermNode& g = node(f.term);
    if (g.kind != TermKind::range) continue;
    std::vector<LinearTerm> free_terms, bound_terms;
    for (const LinearTerm& t : index(g.form).terms) (intersects(atom(t.first).free, bound) ? bound_terms : free_terms).push_back(t);
    if (free_terms.empty()) continue;
    const IndexId rest = index_normal(0, std::move(bound_terms));
    const std::int64_t lo = g.lo == -kUnbounded ? -kUnbounded : checked_add(g.lo, -index(rest).hi);
    const std::int64_t hi = g.hi == kUnbounded ? kUnbounded : checked_add(g.hi, -index(rest).lo);
    outside = mul(outside, range(index_normal(index(g.form).constant, std::move(free_terms)), lo, hi));
  }
  if (outside == zero_) return zero_;
  return mul(outside, seal(Reduction::sum, std::move(vars), body));
}

TermId TermPool::reduce_max(std::vector<VarId> vars, TermId body, int splits) {
  FreshScope scope(*this);
  const VarSetId bound = var_set(vars);
  const std::vector<Monomial> monomials = monomials_of(body);
  // A guard without bound variables splits the maximum.
  for (const Monomial& m : monomials)
    for (const Factor& f : m.factors)
      if (node(f.term).kind == TermKind::range && !intersects(node(f.term).free, bound)) {
        std::vector<TermId> pieces;
        for (const Case& piece : cases_on(node(f.term).form, {body}))
          pieces.push_back(mul(piece.guard, reduce_at(Reduction::max, vars, piece.terms[0], splits)));
        return sum(pieces);
      }
  // Summands without bound variables leave: max(x + c) = max(x) + c.
  std::vector<Monomial> inside, outside;
  for (const Monomial& m : monomials) {
    const bool depends = std::any_of(m.factors.begin(), m.factors.end(), [&](const Factor& f) { return intersects(node(f.term).free, bound); });
    (depends ? inside : outside).push_back(m);
  }
  if (inside.empty()) return body;
  if (!outside.empty()) return add(reduce_at(Reduction::max, std::move(vars), poly(std::move(inside)), splits), poly(std::move(outside)));
  std::erase_if(vars, [&](VarId v) { return !contains(node(body).free, v); });
  if (const TermNode& n = node(body); n.kind == TermKind::reduce && n.reduction == Reduction::max) {  // rule 2
    const TermId inner = open(body, scope, vars);
    return reduce_at(Reduction::max, std::move(vars), inner, splits);
  }
  std::vector<TermId> guards;
  for (const Monomial& m : monomials)
    for (const Factor& f : m.factors)
      if (node(f.term).kind == TermKind::range) guards.push_back(f.term);
  // Guards on one bound variable alone split its range.
  for (TermId guard : guards) {
    const IndexNode& form = index(node(guard).form);
    if (form.terms.size() != 1 || form.terms[0].second != 1 || atom(form.terms[0].first).kind != AtomKind::variable) continue;
    const VarId v = atom(form.terms[0].first).var;
    if (!among(vars, v)) continue;
    std::set<std::int64_t> cuts{0, var(v).extent};
    for (TermId other : guards) {
      if (node(other).form != node(guard).form) continue;
      if (node(other).lo != -kUnbounded) cuts.insert(node(other).lo);
      if (node(other).hi != kUnbounded) cuts.insert(node(other).hi + 1);
    }
    std::vector<TermId> pieces;
    for (auto it = cuts.begin(); std::next(it) != cuts.end(); ++it) {
      std::vector<VarId> piece_vars = vars;
      const TermId piece = restrict_var(body, piece_vars, v, *it, *std::next(it) - 1, scope);
      pieces.push_back(reduce_at(Reduction::max, std::move(piece_vars), piece, splits));
    }
    return apply(Function::max, std::move(pieces));
  }
  if (vars.size() > 1 && merge_variables(vars, body, scope)) return reduce_at(Reduction::max, std::move(vars), body, splits);
  // Narrowing, only if all that is removed is -infinity and something is left.
  const TermId masked = apply(Function::negative_infinity, {});
  for (TermId guard : guards) {
    for (VarId v : std::vector<VarId>(members(node(guard).free))) {
      std::int64_t lo = 0, hi = 0;
      if (!among(vars, v) || !static_range(node(guard), v, lo, hi) || lo > hi) continue;
      std::vector<VarId> unused = vars;
      bool removable = true;
      if (lo > 0) removable = restrict_var(body, unused, v, 0, lo - 1, scope) == masked;
      unused = vars;
      if (removable && hi < var(v).extent - 1) removable = restrict_var(body, unused, v, hi + 1, var(v).extent - 1, scope) == masked;
      if (!removable) continue;
      const TermId replaced = restrict_var(body, vars, v, lo, hi, scope);
      return reduce_at(Reduction::max, std::move(vars), replaced, splits);
    }
  }
  VarId digit_var;
  std::int64_t digit = 0;
  if (splits < kMaxSplits && find_digit_split(body, vars, digit_var, digit)) {
    const VarId high = scope.fresh(var(digit_var).extent / digit), low = scope.fresh(digit);
    Substitution s;
    s.set(digit_var, index_linear(index_var(high), digit, index_var(low), 1));
    std::vector<VarId> split = without(vars, digit_var);
    split.push_back(high);
    split.push_back(low);
    return reduce_at(Reduction::max, std::move(split), substitute(body, s), splits + 1);
  }
  return seal(Reduction::max, std::move(vars), body);
}

}  // namespace shardproof::solvers

// Terms under assumptions: where guards hold, divisions and moduli whose argument lies in one cell are decided.
//
// Exact where all guards are 1: e in [c*q, c*q + c) gives e div c = q and e mod c = e - c*q, and a guard that the others
// imply is 1, one that they exclude 0. A monomial may also assume its own guards for its other factors, since it is 0
// where they fail.
//
// The argument may be spread over several terms: where a guard says f in [c*q, c*q + c), f div c = q and
// f mod c = f - c*q hold for what f div c and f mod c look like after normalisation (x div 16 + 3*d for
// (x + 48*d) div 16); f is the form of the guard plus a constant. Likewise (f div d) mod c = f div d - c*q for f in
// [c*d*q, c*d*q + c*d).
#include <algorithm>

#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {

IndexId TermPool::assume_index(IndexId e, const std::vector<TermId>& guards, Detail detail) {
  const IndexNode n = index(e);
  IndexId result = index_constant(n.constant);
  for (const auto& [a, k] : n.terms) {
    const IndexAtom at = atom(a);
    IndexId value = intern_index(0, {{a, 1}});
    if (at.kind == AtomKind::floor_div || at.kind == AtomKind::modulo) {
      const IndexId inner = assume_index(at.inner, guards, detail);
      const auto [lo, hi] = bounds_under(inner, guards);
      const std::int64_t q = ir::floor_div(lo, at.divisor);
      if (q == ir::floor_div(hi, at.divisor)) {
        value = at.kind == AtomKind::floor_div ? index_constant(q) : index_scale(inner, 1, -ir::checked_mul(q, at.divisor));
      } else if (inner != at.inner) {
        value = at.kind == AtomKind::floor_div ? index_div(inner, at.divisor) : index_mod(inner, at.divisor);
      } else if (detail != Detail::whole && at.kind == AtomKind::modulo) {
        // e mod n known to lie in [S*q, S*q + S-1] for a part S of n is e mod S + S*q.
        const auto [mod_lo, mod_hi] = bounds_under(value, guards);
        if (mod_lo == mod_hi) {
          value = index_constant(mod_lo);
        } else if (mod_lo > 0 || mod_hi < at.divisor - 1) {
          for (std::int64_t parts = 64; parts >= 2; --parts) {
            const std::int64_t s = at.divisor / parts;
            if (at.divisor % parts != 0 || ir::floor_div(mod_lo, s) != ir::floor_div(mod_hi, s)) continue;
            value = index_scale(index_mod(inner, s), 1, ir::checked_mul(s, ir::floor_div(mod_lo, s)));
            break;
          }
        }
      }
    } else if (at.kind == AtomKind::load) {
      std::vector<IndexId> indices;
      for (IndexId i : at.indices) indices.push_back(assume_index(i, guards, detail));
      value = index_load(at.tensor, std::move(indices));
    }
    result = index_linear(result, 1, value, k);
  }
  return detail != Detail::whole ? assume_digits(result, guards, 8) : result;
}

// Divisions first: what a modulus becomes would hide the parts of a division.
IndexId TermPool::assume_digits(IndexId e, const std::vector<TermId>& guards, int steps) {
  const IndexNode& n = index(e);
  for (const AtomKind kind : {AtomKind::floor_div, AtomKind::modulo})
    for (const auto& [a, k] : n.terms) {
      if (atom(a).kind != kind) continue;
      // f div c, or (f div d) mod c, where f is the form of a guard plus `offset`.
      const std::int64_t c = atom(a).divisor;
      const IndexNode& inner = index(atom(a).inner);
      std::int64_t d = 1, offset = inner.constant;
      for (const auto& [b, kb] : inner.terms) {
        if (kind != AtomKind::modulo || kb != 1 || atom(b).kind != AtomKind::floor_div) continue;
        d = atom(b).divisor;
        offset = ir::checked_add(ir::checked_mul(d, offset), index(atom(b).inner).constant);
        break;
      }
      const std::int64_t cell = ir::checked_mul(c, d);
      for (TermId g : guards) {
        const TermNode& guard = node(g);
        if (guard.kind != TermKind::range || !intersects(atom(a).free, guard.free)) continue;
        const std::int64_t lo = std::max(guard.lo, index(guard.form).lo), hi = std::min(guard.hi, index(guard.form).hi);
        if (hi - lo >= cell) continue;
        const std::int64_t q = ir::floor_div(ir::checked_add(lo, offset), cell);
        if (q != ir::floor_div(ir::checked_add(hi, offset), cell)) continue;
        const IndexId number = index_div(index_scale(guard.form, 1, offset), d);
        const IndexId digit = kind == AtomKind::floor_div ? index_div(number, c) : index_mod(number, c);
        const IndexNode& found = index(digit);
        // k * digit leaves e only if all of it is there.
        const bool whole = !found.terms.empty() && std::all_of(found.terms.begin(), found.terms.end(), [&, factor = k](const LinearTerm& t) {
          const auto it = std::find_if(n.terms.begin(), n.terms.end(), [&](const LinearTerm& u) { return u.first == t.first; });
          return it != n.terms.end() && it->second == ir::checked_mul(factor, t.second);
        });
        if (!whole) continue;
        const IndexId value = kind == AtomKind::floor_div ? index_constant(q) : index_scale(number, 1, -ir::checked_mul(c, q));
        const IndexId result = index_linear(e, 1, index_linear(value, 1, digit, -1), k);
        if (result != e && steps > 0) return assume_digits(result, guards, steps - 1);
      }
    }
  return e;
}

TermId TermPool::assume(TermId term, const std::vector<TermId>& guards, Detail detail) {
  const TermId result = assume_at(term, guards, detail);
  if (detail != Detail::values) return result;
  // Variables of which the guards leave one value, here and in the guards. Last, since a guard that mentions such a
  // variable says something about digits.
  VarSetId mentioned{0};
  for (TermId g : guards) mentioned = union_of(mentioned, node(g).free);
  Substitution fixed;
  for (VarId v : std::vector<VarId>(members(mentioned))) {
    const auto [lo, hi] = bounds_under(index_var(v), guards);
    if (lo == hi) fixed.set(v, index_constant(lo));
  }
  if (fixed.empty()) return result;
  std::vector<TermId> rest;
  for (TermId g : guards)
    if (const TermId left = substitute(g, fixed); is_guard(left)) rest.push_back(left);
  return assume(substitute(result, fixed), rest, detail);
}

TermId TermPool::assume_at(TermId term, const std::vector<TermId>& guards, Detail detail) {
  const TermNode& n = node(term);
  switch (n.kind) {
    case TermKind::poly: {
      std::vector<TermId> parts;
      for (const Monomial& m : n.monomials) {
        // Guards one after the other, each under the current form of the others: the product stays the same.
        std::vector<TermId> own;
        for (const Factor& f : m.factors)
          if (is_guard(f.term)) own.push_back(f.term);
        for (std::size_t i = 0; i < own.size(); ++i) {
          std::vector<TermId> others = guards;
          for (std::size_t j = 0; j < own.size(); ++j)
            if (j != i && is_guard(own[j])) others.push_back(own[j]);
          own[i] = assume_at(own[i], others, detail);
        }
        std::vector<TermId> inner = guards;
        std::vector<Factor> factors;
        for (TermId g : own) {
          factors.push_back({g, 1});
          if (is_guard(g)) inner.push_back(g);
        }
        for (const Factor& f : m.factors)
          if (!is_guard(f.term)) factors.push_back({assume_at(f.term, inner, detail), f.power});
        parts.push_back(product(factors, m.coefficient));
      }
      return sum(parts);
    }
    case TermKind::access: {
      std::vector<IndexId> indices;
      for (IndexId i : n.indices) indices.push_back(assume_index(i, guards, detail));
      return access(n.tensor, std::move(indices));
    }
    case TermKind::apply: {
      std::vector<TermId> arguments;
      for (TermId a : n.arguments) arguments.push_back(assume_at(a, guards, detail));
      return apply(n.function, std::move(arguments));
    }
    case TermKind::reduce: {
      FreshScope scope(*this);
      std::vector<VarId> vars;
      const TermId body = open(term, scope, vars);
      const TermId assumed = assume_at(body, guards, detail);
      return assumed == body ? term : reduce(n.reduction, std::move(vars), assumed);
    }
    case TermKind::range: {
      const TermId guard = range(assume_index(n.form, guards, detail), n.lo, n.hi);
      if (guards.empty() || !is_guard(guard)) return guard;
      const TermNode& g = node(guard);
      const auto [lo, hi] = bounds_under(g.form, guards);
      return lo >= g.lo && hi <= g.hi ? one_ : hi < g.lo || lo > g.hi ? zero_ : guard;
    }
    case TermKind::index_value: return index_value(assume_index(n.form, guards, detail));
  }
  return term;
}

}  // namespace shardproof::solvers

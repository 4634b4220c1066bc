// Adjacent sums: sum over [0, e1) of P(v) plus sum over [0, e2) of Q(v) is one sum over [0, e1 + e2) of B(v), if
// B(v) = P(v) for v < e1 and B(e1 + v) = Q(v) for v < e2. B is guessed as P (or Q, shifted) read over the longer
// range; both equations are checked by normalising the restrictions, so the guess need not be trusted. Pieces of
// a contraction that was cut unevenly, and unrolled loops, become one sum this way. The same holds for maxima.
//
// Candidates share coefficient, other factors and the skeleton of the reduction; they are ordered by the constant
// of the first index that mentions the variable, so that n pieces take n checks, not n^2.
#include <algorithm>
#include <map>
#include <set>

#include "ir/check.h"
#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {

namespace {

constexpr std::ptrdiff_t kMaxMaxima = 16;  // arguments of one maximum that are tried in pairs

struct SumPiece {
  std::size_t monomial;
  TermId sum;
  std::int64_t offset;
};

}  // namespace

// The sum, or maximum, of both over the joined range of variable p of `a` and variable q of `b`, or invalid.
TermId TermPool::join_reductions(TermId a, std::size_t p, TermId b, std::size_t q) {
  const Reduction op = node(a).reduction;
  FreshScope scope(*this);
  std::vector<VarId> va, vb;
  const TermId first = open(a, scope, va);
  TermId second = open(b, scope, vb);
  // The other variables correspond in order, with equal extents.
  std::vector<VarId> others;
  Substitution rename;
  for (std::size_t i = 0, j = 0; i < va.size(); ++i) {
    if (i == p) continue;
    if (j == q) ++j;
    if (j >= vb.size() || var(va[i]).extent != var(vb[j]).extent) return {};
    rename.set(vb[j], index_var(va[i]));
    others.push_back(va[i]);
    ++j;
  }
  second = substitute(second, rename);
  const std::int64_t e1 = var(va[p]).extent, e2 = var(vb[q]).extent;
  const VarId whole = scope.fresh(ir::checked_add(e1, e2));
  const auto restricted = [&](TermId body, VarId v, std::int64_t from) {
    Substitution s;
    s.set(whole, index_scale(index_var(v), 1, from));
    return substitute(body, s);
  };
  Substitution widen_first, widen_second;
  widen_first.set(va[p], index_var(whole));
  widen_second.set(vb[q], index_scale(index_var(whole), 1, -e1));
  for (const TermId guess : {substitute(first, widen_first), substitute(second, widen_second)}) {
    if (restricted(guess, va[p], 0) != first || restricted(guess, vb[q], e1) != second) continue;
    others.push_back(whole);
    return reduce(op, std::move(others), guess);
  }
  return {};
}

// Arguments of a maximum that are maxima over adjacent ranges become one, as sums do.
void TermPool::merge_maxima(std::vector<TermId>& arguments) {
  const auto is_maximum = [&](TermId t) { return node(t).kind == TermKind::reduce && node(t).reduction == Reduction::max; };
  const auto joined = [&](TermId a, TermId b) -> TermId {
    if (!is_maximum(a) || !is_maximum(b) || node(a).skeleton != node(b).skeleton) return {};
    for (std::size_t p = 0; p < node(a).bound.size(); ++p)
      for (std::size_t q = 0; q < node(b).bound.size(); ++q)
        if (const TermId whole = join_reductions(a, p, b, q); whole.valid()) return whole;
    return {};
  };
  if (std::count_if(arguments.begin(), arguments.end(), is_maximum) > kMaxMaxima) return;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < arguments.size() && !changed; ++i)
      for (std::size_t j = 0; j < arguments.size() && !changed; ++j) {
        if (i == j) continue;
        const TermId whole = joined(arguments[i], arguments[j]);
        if (!whole.valid()) continue;
        arguments[i] = whole;
        arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(j));
        changed = true;
      }
  }
}

// Law: B(0) + B(1) = sum over t in [0, 2) of B(t). Both instances are checked by normalising them.
std::optional<TermId> TermPool::sum_of_two(TermId body, VarId t, TermId first, TermId second) {
  SHARDPROOF_CHECK(var(t).extent == 2);
  for (const auto& [at, part] : {std::pair(0, first), std::pair(1, second)}) {
    Substitution instance;
    instance.set(t, index_constant(at));
    if (substitute(body, instance) != part) return std::nullopt;
  }
  return reduce(Reduction::sum, {t}, body);
}

// Law: c * sum over [0, e) of B(v) plus c * B(e) is c * sum over [0, e + 1) of B(v), where c is free of v; and likewise
// with one more at the beginning. B over the longer range is guessed; that it is the summand on the shorter one and
// `next` on what is added is checked by normalising both.
std::optional<TermId> TermPool::extend_sum(TermId total, TermId next) {
  const std::vector<Monomial> monomials = monomials_of(total);
  if (monomials.size() != 1) return std::nullopt;
  TermId sum;
  std::vector<Factor> outside;
  for (const Factor& f : monomials[0].factors) {
    const bool candidate = !sum.valid() && f.power == 1 && node(f.term).kind == TermKind::reduce && node(f.term).reduction == Reduction::sum;
    if (candidate) sum = f.term;
    else outside.push_back(f);
  }
  if (!sum.valid()) return std::nullopt;
  const TermId factor = product(outside, monomials[0].coefficient);
  FreshScope scope(*this);
  std::vector<VarId> vars;
  const TermId body = open(sum, scope, vars);
  for (VarId v : vars) {
    std::vector<VarId> others;
    for (VarId w : vars)
      if (w != v) others.push_back(w);
    const std::int64_t extent = var(v).extent;
    const VarId whole = scope.fresh(ir::checked_add(extent, 1));
    for (const std::int64_t shift : {0, 1}) {  // appended, put in front
      Substitution widen, narrow, added;
      widen.set(v, index_scale(index_var(whole), 1, -shift));
      const TermId guess = substitute(body, widen);
      added.set(whole, index_constant(shift == 0 ? extent : 0));
      if (mul(factor, reduce(Reduction::sum, others, substitute(guess, added))) != next) continue;
      narrow.set(whole, index_scale(index_var(v), 1, shift));
      if (substitute(guess, narrow) != body) continue;
      others.push_back(whole);
      return mul(factor, reduce(Reduction::sum, std::move(others), guess));
    }
  }
  return std::nullopt;
}

// Law: where 0 <= c and c + L <= N, the sum over v in [0, N) of F(v) is that of [v < c] F(v) over the same range plus that
// of F(c + w) over w in [0, L), if F(v) = 0 for all v >= c + L. F is guessed from the second sum; that it gives both sums
// and vanishes beyond them is checked by normalising. Running sums over shards come together like this.
std::optional<TermId> TermPool::continue_sum(TermId before, TermId window) {
  const auto is_sum = [&](TermId t) { return node(t).kind == TermKind::reduce && node(t).reduction == Reduction::sum && node(t).bound.size() == 1; };
  // Guards on what is free may stand outside the first sum: it is compared as a whole.
  TermId inner;
  for (const Monomial& m : monomials_of(before))
    for (const Factor& f : m.factors)
      if (is_sum(f.term)) inner = f.term;
  if (!inner.valid() || !is_sum(window)) return std::nullopt;
  FreshScope scope(*this);
  std::vector<VarId> variables;
  const std::vector<Monomial> first = monomials_of(open(inner, scope, variables));
  const TermId second = open(window, scope, variables);
  const VarId old = variables[0], w = variables[1];
  const std::int64_t length = var(w).extent;
  for (const Factor& f : first[0].factors) {
    if (!is_guard(f.term)) continue;
    const TermNode guard = node(f.term);
    std::int64_t k = 0;
    for (const auto& [a, coefficient] : index(guard.form).terms)
      if (atom(a).kind == AtomKind::variable && atom(a).var == old) k = coefficient;
    const std::int64_t bound = k == 1 ? guard.hi : guard.lo;
    if ((k != 1 && k != -1) || bound == kUnbounded || bound == -kUnbounded) continue;
    // old + rest <= hi, or -old + rest >= lo, up to c - 1.
    const IndexId rest = index_linear(guard.form, 1, index_var(old), -k);
    const IndexId c = index_scale(rest, -k, ir::checked_add(ir::checked_mul(k, bound), 1));
    if (contains(index(c).free, old) || index(c).lo < 0) continue;
    const VarId v = scope.fresh(std::max(var(old).extent, ir::checked_add(index(c).hi, length)));
    const IndexId place = index_sub(index_var(v), c);
    Substitution widen, narrow;
    widen.set(w, place);
    narrow.set(v, index_add(c, index_var(w)));
    const TermId open_ended = substitute(second, widen);
    for (const TermId whole : {open_ended, mul(open_ended, range(place, -kUnbounded, length - 1))}) {
      if (mul(whole, range(place, length, kUnbounded)) != zero_) continue;
      if (substitute(whole, narrow) != second) continue;
      if (reduce(Reduction::sum, {v}, mul(whole, range(place, -kUnbounded, -1))) != before) continue;
      return reduce(Reduction::sum, {v}, whole);
    }
  }
  return std::nullopt;
}

bool TermPool::merge_sums(std::vector<Monomial>& monomials) {
  std::map<std::tuple<std::int64_t, std::int64_t, std::uint64_t, std::size_t, std::vector<Factor>>, std::vector<SumPiece>> groups;
  for (std::size_t i = 0; i < monomials.size(); ++i) {
    TermId sum;
    int sums = 0;
    std::vector<Factor> rest;
    for (const Factor& f : monomials[i].factors) {
      const TermNode& n = node(f.term);
      if (n.kind == TermKind::reduce && n.reduction == Reduction::sum && f.power == 1) {
        sum = f.term;
        ++sums;
      } else {
        rest.push_back(f);
      }
    }
    if (sums != 1) continue;
    // Guards inside do not count: one piece may lie where a guard of the other holds throughout.
    const TermNode& n = node(sum);
    std::vector<Factor> unguarded;
    const std::vector<Monomial> bodies = monomials_of(n.body);
    for (const Factor& f : bodies[0].factors)
      if (!is_guard(f.term)) unguarded.push_back(f);
    const std::uint64_t shape = bodies.size() == 1 ? skeleton_of_product(unguarded) : n.skeleton;
    groups[{monomials[i].coefficient.num, monomials[i].coefficient.den, shape, n.bound.size(), std::move(rest)}].push_back({i, sum, 0});
  }
  for (auto& [key, pieces] : groups) {
    if (pieces.size() < 2) continue;
    const std::size_t positions = node(pieces[0].sum).bound.size();
    for (std::size_t p = 0; p < positions; ++p) {
      for (SumPiece& piece : pieces) {
        piece.offset = 0;
        std::vector<IndexId> forms;
        const VarId v = node(piece.sum).bound[p];
        collect_forms(node(piece.sum).body, forms);
        bool found = false;
        for (IndexId e : forms) {
          for (const auto& [a, k] : index(e).terms) {
            if (found || atom(a).kind != AtomKind::variable || atom(a).var != v) continue;
            piece.offset = index(e).constant / k;
            found = true;
          }
        }
      }
      std::stable_sort(pieces.begin(), pieces.end(), [](const SumPiece& a, const SumPiece& b) { return a.offset < b.offset; });
      std::set<std::size_t> removed;
      std::vector<Monomial> added;
      for (std::size_t i = 0; i < pieces.size();) {
        TermId current = pieces[i].sum;
        std::size_t j = i + 1;
        while (j < pieces.size() && node(current).kind == TermKind::reduce && node(current).bound.size() == positions) {
          // The joined variable may have moved among the bound variables of `current`.
          TermId joined;
          for (std::size_t at = 0; at < positions && !joined.valid(); ++at) joined = join_reductions(current, at, pieces[j].sum, p);
          if (!joined.valid()) break;
          current = joined;
          ++j;
        }
        if (j > i + 1) {
          for (std::size_t k = i; k < j; ++k) removed.insert(pieces[k].monomial);
          for (const Monomial& m : multiply_all({Monomial{Rational(std::get<0>(key), std::get<1>(key)), std::get<4>(key)}}, monomials_of(current)))
            added.push_back(m);
        }
        i = j;
      }
      if (removed.empty()) continue;
      for (auto it = removed.rbegin(); it != removed.rend(); ++it) monomials.erase(monomials.begin() + static_cast<std::ptrdiff_t>(*it));
      monomials.insert(monomials.end(), std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
      return true;
    }
  }
  return false;
}

}  // namespace shardproof::solvers

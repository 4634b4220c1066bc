// Sums and maxima over a part of a range, where the rest is masked.
//
// Law: op over v in [0, N) of B(v) is the op of the parts, op over w in [0, e_i) of P_i(w), wherever the guards hold, if there
// the intervals [o_i, o_i + e_i) lie in [0, N) and apart, B(o_i + w) = P_i(w) for each of them, and for every v in none of
// them B(v) is 0 (sums) or minus infinity (maxima). With further variables, which correspond, the same holds for each of
// their values.
//
// Offsets are guessed from the indices in a part. Both equations are checked in normal form under the guards; that B vanishes
// may show only when its elementwise atoms are unfolded: a probability is exp(score - maximum), and the score is masked.
#include <algorithm>
#include <set>

#include "ir/check.h"
#include "solvers/kernel/atoms.h"

namespace shardproof::solvers {

namespace {

constexpr int kMaxLevels = 8;                // of definitions
constexpr std::int32_t kMaxUnfolded = 400;   // nodes
constexpr std::size_t kMaxParts = 8;
constexpr std::size_t kMaxVariables = 4;

bool is_reduction(const TermPool& pool, TermId t, Reduction op) {
  return pool.node(t).kind == TermKind::reduce && pool.node(t).reduction == op;
}

// factors * reduction, or factors * max(reductions); or nothing.
struct Split {
  Rational coefficient;
  std::vector<Factor> others;
  std::vector<TermId> reductions;
};

std::optional<Split> split(const TermPool& pool, const Monomial& m, Reduction op) {
  Split result{m.coefficient, {}, {}};
  for (const Factor& f : m.factors) {
    const TermNode& n = pool.node(f.term);
    const bool maximum = op == Reduction::max && n.kind == TermKind::apply && n.function == Function::max;
    if (f.power != 1 || !result.reductions.empty() || !(maximum || is_reduction(pool, f.term, op))) {
      result.others.push_back(f);
      continue;
    }
    result.reductions = maximum ? n.arguments : std::vector<TermId>{f.term};
    for (TermId r : result.reductions)
      if (!is_reduction(pool, r, op)) return std::nullopt;
  }
  return result.reductions.empty() ? std::nullopt : std::optional(result);
}

// Where a part may begin: 0, or what is added to its variable in an index.
void offsets(const TermPool& pool, TermId term, VarId v, std::set<std::int64_t>& found) {
  const TermNode& n = pool.node(term);
  if (!pool.contains(n.free, v)) return;
  for (IndexId e : n.indices)
    for (const auto& [a, k] : pool.index(e).terms)
      if (pool.atom(a).kind == AtomKind::variable && pool.atom(a).var == v && pool.index(e).constant % k == 0)
        found.insert(pool.index(e).constant / k);
  for (const Monomial& m : n.monomials)
    for (const Factor& f : m.factors) offsets(pool, f.term, v, found);
  for (TermId a : n.arguments) offsets(pool, a, v, found);
  if (n.kind == TermKind::reduce) offsets(pool, n.body, v, found);
}

}  // namespace

// Whether the term is 0, or minus infinity, wherever the guards hold.
bool AtomTable::is_masked(TermId term, Reduction op, const std::vector<TermId>& guards) {
  const TermId masked = op == Reduction::sum ? pool_.zero() : pool_.apply(Function::negative_infinity, {});
  for (int level = 0;; ++level) {
    term = pool_.assume(term, guards);
    if (term == masked) return true;
    if (level == kMaxLevels || pool_.node(term).size > kMaxUnfolded) return false;
    const TermId next = unfold(term, [this](TensorId t) { return !has_reduction(t) && !pool_.tensor(t).shape.empty(); });
    if (next == term) return false;
    term = next;
  }
}

// The interval of variable v that the part covers, if it does.
std::optional<std::pair<std::int64_t, std::int64_t>> AtomTable::covered(TermId body, const std::vector<VarId>& vars, VarId v, TermId part,
                                                                        const std::vector<TermId>& guards) {
  TermPool::FreshScope scope(pool_);
  std::vector<VarId> own;
  const TermId summand = pool_.open(part, scope, own);
  if (own.size() != vars.size()) return std::nullopt;
  TermId context = pool_.one();
  for (TermId g : guards) context = pool_.mul(context, g);
  const auto under_guards = [&](TermId t) { return pool_.assume(pool_.mul(context, t), guards, TermPool::Detail::values); };
  for (VarId w : own) {
    const std::int64_t extent = pool_.var(w).extent;
    Substitution names;  // the other variables correspond in order, with equal extents
    bool fits = true;
    for (std::size_t i = 0, j = 0; i < vars.size() && fits; ++i) {
      if (vars[i] == v) continue;
      if (own[j] == w) ++j;
      fits = pool_.var(vars[i]).extent == pool_.var(own[j]).extent;
      names.set(vars[i], pool_.index_var(own[j++]));
    }
    if (!fits) continue;
    std::set<std::int64_t> candidates{0};
    offsets(pool_, summand, w, candidates);
    const TermId renamed = pool_.substitute(body, names);
    for (const std::int64_t offset : candidates) {
      Substitution place;
      place.set(v, pool_.index_scale(pool_.index_var(w), 1, offset));
      const TermId instance = pool_.substitute(renamed, place);
      if (instance == summand || under_guards(instance) == under_guards(summand)) return std::pair(offset, offset + extent);
    }
  }
  return std::nullopt;
}

bool AtomTable::parts_cover(TermId whole, const std::vector<TermId>& parts, const std::vector<TermId>& guards) {
  const Reduction op = pool_.node(whole).reduction;
  TermPool::FreshScope scope(pool_);
  std::vector<VarId> vars;
  const TermId body = pool_.open(whole, scope, vars);
  if (vars.size() > kMaxVariables) return false;
  for (VarId v : vars) {
    std::vector<std::pair<std::int64_t, std::int64_t>> intervals;
    for (TermId part : parts) {
      const auto interval = covered(body, vars, v, part, guards);
      if (!interval) break;
      intervals.push_back(*interval);
    }
    if (intervals.size() != parts.size()) continue;
    std::sort(intervals.begin(), intervals.end());
    const std::int64_t end = pool_.var(v).extent;
    intervals.emplace_back(end, end);  // and none beyond
    std::int64_t from = 0;
    bool covers = true;
    for (const auto& [lo, hi] : intervals) {
      covers = covers && lo >= from;  // apart
      if (covers && lo > from) {
        Substitution place;
        place.set(v, pool_.index_scale(pool_.index_var(scope.fresh(lo - from)), 1, from));
        covers = is_masked(pool_.substitute(body, place), op, guards);
      }
      from = hi;
    }
    if (covers) return true;
  }
  return false;
}

bool AtomTable::covers(TermId whole, TermId part, const std::vector<TermId>& guards) {
  for (const Reduction op : {Reduction::sum, Reduction::max}) {
    const std::vector<Monomial> all = pool_.monomials_of(whole), pieces = pool_.monomials_of(part);
    if (all.size() != 1 || pieces.empty() || pieces.size() > kMaxParts || (op == Reduction::max && pieces.size() > 1)) continue;
    const auto one = split(pool_, all[0], op);
    if (!one || one->reductions.size() != 1) continue;
    std::vector<TermId> parts;
    bool alike = true;
    for (const Monomial& m : pieces) {
      const auto other = split(pool_, m, op);
      alike = alike && other && other->coefficient == one->coefficient && other->others == one->others;
      if (!alike) break;
      parts.insert(parts.end(), other->reductions.begin(), other->reductions.end());
    }
    if (!alike || parts.size() > kMaxParts) continue;
    // What the rewrites on the way require matters only if they were of use.
    const std::vector<Obligation> before = pool_.take_obligations();
    bool found = false;
    try {
      found = parts_cover(one->reductions[0], parts, guards);
    } catch (const BudgetExceeded& e) {
      if (e.what_kind != BudgetExceeded::What::size) throw;
    } catch (const std::overflow_error&) {
    }
    std::vector<Obligation> own = pool_.take_obligations();
    for (const Obligation& o : before) pool_.require(o.kind, o.term);
    if (!found) continue;
    for (const Obligation& o : own) pool_.require(o.kind, o.term);
    return true;
  }
  return false;
}

}  // namespace shardproof::solvers

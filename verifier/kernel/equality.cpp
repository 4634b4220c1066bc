#include "verifier/kernel/equality.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace shardproof::verifier {

using solvers::AtomTable;
using solvers::TermId;
using solvers::TermPool;

namespace {

constexpr int kMaxDepth = 3;                 // forms cut within each other
constexpr int kMaxLevels = 8;                // of definitions
constexpr std::int32_t kMaxUnfoldedSize = 300;

// Whether some guard fails wherever the others hold, as intervals tell.
bool is_empty(TermPool& pool, const std::vector<TermId>& guards) {
  for (std::size_t i = 0; i < guards.size(); ++i) {
    std::vector<TermId> others = guards;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const solvers::TermNode& g = pool.node(guards[i]);
    const auto [lo, hi] = pool.bounds_under(g.form, others);
    if (lo > g.hi || hi < g.lo) return true;
  }
  return false;
}

// The same, or that -1 lies in [0, 0] follows from the guards.
bool has_no_points(AtomTable& atoms, const std::vector<TermId>& guards) {
  return !guards.empty() && (is_empty(atoms.pool(), guards) || atoms.in_range(atoms.pool().index_constant(-1), 1, guards));
}

// The term with its elementwise atoms unfolded, and those in there in turn; scalars and what sums over indices stay.
TermId elementwise(AtomTable& atoms, TermId term, const std::vector<TermId>& guards) {
  TermPool& pool = atoms.pool();
  const auto unfolds = [&](solvers::TensorId t) { return !atoms.has_reduction(t) && !pool.tensor(t).shape.empty(); };
  for (int level = 0; level < kMaxLevels && pool.node(term).size <= kMaxUnfoldedSize; ++level) {
    const TermId next = pool.assume(atoms.unfold(term, unfolds), guards, TermPool::Detail::values);
    if (next == term) break;
    term = next;
  }
  return term;
}

// What differs on a piece may still be two spellings of one elementwise computation, the plan's from an operand that is
// simple there (the rows of a position embedding that no token reads have no gradient): both are then `expanded`, once.
bool equal_under(AtomTable& atoms, TermId a, TermId b, const std::vector<TermId>& guards, int depth, bool expanded) {
  TermPool& pool = atoms.pool();
  if (is_empty(pool, guards)) return true;
  const auto detail = TermPool::Detail::values;
  const TermId x = pool.assume(a, guards, detail), y = pool.assume(b, guards, detail);
  if (x == y) return true;
  auto form = pool.guard_form(x);
  if (!form) form = pool.guard_form(y);
  if (!form) {  // a piecewise definition may be simple on this piece
    if (pool.node(x).size > kMaxUnfoldedSize || pool.node(y).size > kMaxUnfoldedSize) return has_no_points(atoms, guards);
    const auto unfolded = [&](TermId t) { return pool.assume(atoms.unfold(t, [](solvers::TensorId) { return true; }), guards, detail); };
    if (unfolded(x) == y || x == unfolded(y)) return true;
    if (expanded) return has_no_points(atoms, guards);
    return equal_under(atoms, elementwise(atoms, x, guards), elementwise(atoms, y, guards), guards, depth, true);
  }
  if (depth >= kMaxDepth) return has_no_points(atoms, guards);
  for (const TermPool::Case& piece : pool.cases_on(*form, {x, y})) {
    std::vector<TermId> inner = guards;
    if (pool.is_guard(piece.guard)) inner.push_back(piece.guard);
    if (!equal_under(atoms, piece.terms[0], piece.terms[1], inner, depth + 1, expanded)) return false;
  }
  return true;
}

}  // namespace

bool equal_by_cases(AtomTable& atoms, TermId a, TermId b) { return equal_under(atoms, a, b, {}, 0, false); }

bool is_zero_everywhere(AtomTable& atoms, TermId term) {
  const TermPool& pool = atoms.pool();
  const std::vector<solvers::Monomial> monomials = pool.monomials_of(term);
  return std::all_of(monomials.begin(), monomials.end(), [&](const solvers::Monomial& m) {
    std::vector<TermId> guards;
    for (const solvers::Factor& f : m.factors)
      if (pool.is_guard(f.term)) guards.push_back(f.term);
    return has_no_points(atoms, guards);
  });
}

}  // namespace shardproof::verifier

#include "verifier/equality.h"

#include <cstddef>
#include <vector>

namespace shardproof::verifier {

using solvers::AtomTable;
using solvers::TermId;
using solvers::TermPool;

namespace {

constexpr int kMaxDepth = 3;                 // forms cut within each other
constexpr std::int32_t kMaxUnfoldedSize = 300;

// Whether some guard fails wherever the others hold.
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

bool equal_under(AtomTable& atoms, TermId a, TermId b, const std::vector<TermId>& guards, int depth) {
  TermPool& pool = atoms.pool();
  if (is_empty(pool, guards)) return true;
  const auto detail = TermPool::Detail::values;
  const TermId x = pool.assume(a, guards, detail), y = pool.assume(b, guards, detail);
  if (x == y) return true;
  auto form = pool.guard_form(x);
  if (!form) form = pool.guard_form(y);
  if (!form) {  // a piecewise definition may be simple on this piece
    if (pool.node(x).size > kMaxUnfoldedSize || pool.node(y).size > kMaxUnfoldedSize) return false;
    const auto unfolded = [&](TermId t) { return pool.assume(atoms.unfold(t, [](solvers::TensorId) { return true; }), guards, detail); };
    return unfolded(x) == y || x == unfolded(y);
  }
  if (depth >= kMaxDepth) return false;
  for (const TermPool::Case& piece : pool.cases_on(*form, {x, y})) {
    std::vector<TermId> inner = guards;
    if (pool.is_guard(piece.guard)) inner.push_back(piece.guard);
    if (!equal_under(atoms, piece.terms[0], piece.terms[1], inner, depth + 1)) return false;
  }
  return true;
}

}  // namespace

bool equal_by_cases(AtomTable& atoms, TermId a, TermId b) { return equal_under(atoms, a, b, {}, 0); }

}  // namespace shardproof::verifier

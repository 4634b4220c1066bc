// Sums and maxima over parts of a range whose rest is masked, against evaluation.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "tests/unit/solvers/defined_contents.h"
#include "tests/unit/solvers/term_generator.h"

namespace shardproof::solvers::testing {
namespace {

constexpr std::int64_t kRows = 6, kMost = 9;  // rows of a score matrix, and the most columns

// Masked scores [row, column], their exponentials, and a vector of values.
class Scores {
 public:
  Scores(TermPool& pool, AtomTable& atoms, std::int64_t columns, Random& random) : pool_(pool) {
    const VarId row = pool.element(0, kRows), column = pool.element(1, columns);
    const TermId x = pool.access(atoms.opaque({"x", {kRows, columns}, false, 0}), {pool.index_var(row), pool.index_var(column)});
    // Columns up to the row's own, a window of them, or an even one.
    const std::int64_t step = random.between(1, 2);
    const IndexId distance = pool.index_linear(pool.index_var(row), step, pool.index_var(column), -1, random.between(-2, 2));
    const TermId seen = pool.range(distance, 0, random.chance(30) ? random.between(0, 4) : kUnbounded);
    const TermId hidden = pool.mul(pool.complement(seen), pool.apply(Function::negative_infinity, {}));
    score_ = atoms.define("score", {row, column}, pool.add(pool.mul(seen, x), hidden));
    plain_ = pool.add(pool.mul(seen, x), hidden);
    row_ = row;
    column_ = column;
    const TermId exp = pool.apply(Function::exp, {pool.access(score_, {pool.index_var(row), pool.index_var(column)})});
    exp_ = atoms.define("exp", {row, column}, exp);
    values_ = atoms.opaque({"y", {columns, 3}, false, 0});
  }
  TermId score(IndexId row, IndexId column, bool unfolded) const {
    if (!unfolded) return pool_.access(score_, {row, column});
    Substitution at;
    at.set(row_, row);
    at.set(column_, column);
    return pool_.substitute(plain_, at);
  }
  TermId exp(IndexId row, IndexId column) const { return pool_.access(exp_, {row, column}); }
  TermId value(IndexId column, IndexId other) const { return pool_.access(values_, {column, other}); }

 private:
  TermPool& pool_;
  TensorId score_, exp_, values_;
  TermId plain_;
  VarId row_, column_;
};

TEST(CoverFuzz, PartsOfMaskedRanges) {
  std::uint64_t cases = 0, covered = 0, compared = 0, differ = 0;
  for (std::uint64_t seed = first_seed(); seed <= last_seed(20'000); ++seed) {
    TermPool pool({3000, 600});
    AtomTable atoms(pool, {});
    Random random(seed);
    const std::int64_t columns = random.between(4, kMost), others = random.between(2, 3);
    const Scores scores(pool, atoms, columns, random);
    const Reduction op = random.chance(70) ? Reduction::sum : Reduction::max;
    const bool two = op == Reduction::sum && random.chance(30);
    const bool unfolded = random.chance(50);
    const VarId r = pool.named(VarKind::mesh, "r", kRows);
    const IndexId row = pool.index_var(r);
    std::vector<TermId> guards;
    const std::int64_t low = random.between(0, kRows - 1);
    const TermId guard = pool.range(row, random.chance(70) ? -kUnbounded : low - random.between(0, 2), random.chance(80) ? low : kUnbounded);
    if (pool.is_guard(guard)) guards.push_back(guard);
    if (guard == pool.zero()) continue;
    const auto body = [&](IndexId column, IndexId other, bool plain) {
      if (op == Reduction::max) return scores.score(row, column, plain);
      TermId term = scores.exp(row, column);
      if (two || seed % 3 == 0) term = pool.mul(term, scores.value(column, other));
      return term;
    };
    const auto over = [&](std::int64_t from, std::int64_t extent, std::int64_t other_extent) {
      const VarId w = pool.named(VarKind::loop, "w" + std::to_string(extent), extent);
      const VarId u = pool.named(VarKind::loop, "u" + std::to_string(other_extent), other_extent);
      std::vector<VarId> vars{w};
      if (two) vars.push_back(u);
      const TermId inside = body(pool.index_scale(pool.index_var(w), 1, from), two ? pool.index_var(u) : pool.index_constant(0), unfolded);
      return pool.reduce(op, std::move(vars), inside);
    };
    try {
      const TermId factor = random.chance(50) ? pool.one() : pool.access(atoms.opaque({"f", {kRows}, false, 0}), {row});
      const TermId whole = pool.mul(factor, over(0, columns, others));
      // Intervals in order, some with a gap, some that overlap.
      std::vector<TermId> parts;
      std::int64_t from = random.chance(60) ? 0 : random.between(0, 2);
      while (from < columns && parts.size() < 3) {
        const std::int64_t extent = std::min(random.between(2, columns), columns - from);
        if (extent < 2) break;
        const TermId part = over(random.chance(95) ? from : std::min(from + 1, columns - extent), extent, random.chance(95) ? others : 2);
        const TermId beside = random.chance(95) ? factor : pool.scale(factor, Rational(2));
        const TermId shown = random.chance(50) ? pool.assume(part, guards) : part;
        parts.push_back(op == Reduction::sum ? pool.mul(beside, shown) : shown);
        from += extent + (random.chance(80) ? 0 : random.between(-1, 2));
        if (random.chance(40)) break;
      }
      if (parts.empty()) continue;
      const TermId part = op == Reduction::sum ? pool.sum(parts) : pool.mul(random.chance(95) ? factor : pool.one(), pool.apply(Function::max, parts));
      ++cases;
      const bool yes = atoms.covers(whole, part, guards);
      covered += yes;
      DefinedContents contents(atoms, seed);
      bool same = true;
      for (std::int64_t i = 0; i < kRows; ++i) {
        Assignment values;
        values.set(r, i);
        if (!guards.empty() && evaluate(pool, guards[0], values, contents.contents()) == 0) continue;
        const double a = evaluate(pool, whole, values, contents.contents()), b = evaluate(pool, part, values, contents.contents());
        const bool equal = close(a, b) || (std::isinf(a) && a == b);
        same = same && equal;
        if (!yes) continue;
        ++compared;
        ASSERT_TRUE(equal) << "seed " << seed << " row " << i << ": " << a << " and " << b << "\n" << pool.to_string(whole) << "\n" << pool.to_string(part);
      }
      differ += !same;
    } catch (const BudgetExceeded&) {
    } catch (const std::overflow_error&) {
    }
  }
  std::cout << "covered " << covered << " of " << cases << ", of which " << differ << " differ; compared " << compared << "\n";
  EXPECT_GT(covered, cases / 10);
  EXPECT_GT(differ, cases / 10);
}

}  // namespace
}  // namespace shardproof::solvers::testing

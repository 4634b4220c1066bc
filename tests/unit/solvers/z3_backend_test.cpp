#include "solvers/z3_backend.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "solvers/kernel/atoms.h"
#include "tests/unit/solvers/term_generator.h"

namespace shardproof::solvers {
namespace {

class Z3RangeTest : public ::testing::Test {
 protected:
  IndexId var(const char* name, std::int64_t extent) {
    return pool_.index_var(pool_.named(VarKind::loop, name, extent));
  }
  // The pool's own interval, without and with guards, leaves the claim open.
  void expect_beyond_intervals(IndexId e, std::int64_t lo, std::int64_t hi, const std::vector<TermId>& guards) {
    const auto [from, to] = pool_.bounds_under(e, guards);
    EXPECT_TRUE(from < lo || to > hi) << pool_.to_string(e);
  }

  TermPool pool_;
  Z3Range z3_{pool_};
};

TEST_F(Z3RangeTest, ExtentsOfVariables) {
  const IndexId x = var("x", 10);
  EXPECT_TRUE(z3_.prove_in_range(x, 0, 9, {}));
  EXPECT_FALSE(z3_.prove_in_range(x, 0, 8, {}));
  EXPECT_FALSE(z3_.prove_in_range(x, 1, 9, {}));
  EXPECT_EQ(z3_.statistics().proved, 1U);
  EXPECT_EQ(z3_.statistics().refuted, 2U);
}

TEST_F(Z3RangeTest, GuardsOfSeveralFormsCombine) {
  // 2x + y <= 20, x + 2y <= 20, x - y >= 0  =>  x + y - 4 <= 9, which takes a combination of three forms.
  const IndexId x = var("x", 100), y = var("y", 100);
  const std::vector<TermId> guards{pool_.range(pool_.index_linear(x, 2, y, 1), -kUnbounded, 20),
                                   pool_.range(pool_.index_linear(x, 1, y, 2), -kUnbounded, 20),
                                   pool_.range(pool_.index_linear(x, 1, y, -1), 0, kUnbounded)};
  const IndexId e = pool_.index_linear(x, 1, y, 1, -4);
  expect_beyond_intervals(e, -4, 9, guards);
  EXPECT_TRUE(z3_.prove_in_range(e, -4, 9, guards));
  EXPECT_FALSE(z3_.prove_in_range(e, -4, 8, guards));       // x = 7, y = 6
  EXPECT_FALSE(z3_.prove_in_range(e, -4, 9, {guards[0]}));  // x = 0, y = 20
}

TEST_F(Z3RangeTest, OffsetUnderGuard) {
  const IndexId x = var("x", 128), y = var("y", 64);
  // x - 64 under 64 <= x + y and y <= 0
  const std::vector<TermId> guards{pool_.range(pool_.index_add(x, y), 64, kUnbounded), pool_.range(y, -kUnbounded, 0)};
  EXPECT_TRUE(z3_.prove_in_range(pool_.index_scale(x, 1, -64), 0, 63, guards));
  EXPECT_FALSE(z3_.prove_in_range(pool_.index_scale(x, 1, -65), 0, 63, guards));
  EXPECT_FALSE(z3_.prove_in_range(pool_.index_scale(x, 1, -64), 0, 63, {guards[0]}));
}

TEST_F(Z3RangeTest, DivisionAndModulus) {
  const IndexId x = var("x", 1000);
  const IndexId quotient = pool_.index_div(x, 7), rest = pool_.index_mod(x, 7);
  // 3*(x div 7) + x mod 7 <= x, an identity only of the pair that shares a quotient
  const IndexId e = pool_.index_sub(x, pool_.index_linear(quotient, 3, rest, 1));
  expect_beyond_intervals(e, 0, 568, {});
  EXPECT_TRUE(z3_.prove_in_range(e, 0, 568, {}));  // 4*(x div 7), x div 7 <= 142
  EXPECT_FALSE(z3_.prove_in_range(e, 0, 567, {}));
  EXPECT_FALSE(z3_.prove_in_range(e, 1, 568, {}));
  // Floor, not truncation: (x - 1) div 7 = -1 at x = 0.
  const IndexId below = pool_.index_div(pool_.index_scale(x, 1, -1), 7);
  EXPECT_FALSE(z3_.prove_in_range(below, 0, 142, {}));
  EXPECT_TRUE(z3_.prove_in_range(below, -1, 142, {}));
  EXPECT_TRUE(z3_.prove_in_range(pool_.index_mod(pool_.index_scale(x, 1, -1), 7), 0, 6, {}));
}

TEST_F(Z3RangeTest, LoadsAreArbitraryWithinTheirBound) {
  const TensorId ids = pool_.new_tensor({"ids", {16}, true, 50});
  const IndexId x = var("x", 16);
  const IndexId load = pool_.index_load(ids, {x});
  EXPECT_TRUE(z3_.prove_in_range(load, 0, 49, {}));
  EXPECT_FALSE(z3_.prove_in_range(load, 0, 48, {}));
  const TermId guard = pool_.range(load, 10, 19);
  EXPECT_TRUE(z3_.prove_in_range(pool_.index_scale(load, 1, -10), 0, 9, {guard}));
  // another element of the same tensor is not covered by the guard
  const IndexId other = pool_.index_load(ids, {pool_.index_mod(pool_.index_scale(x, 1, 1), 16)});
  EXPECT_FALSE(z3_.prove_in_range(pool_.index_scale(other, 1, -10), 0, 9, {guard}));
}

TEST_F(Z3RangeTest, OneSidedGuardsAreNotReadAsConstants) {
  const IndexId x = var("x", 100), y = var("y", 100);
  const IndexId e = pool_.index_linear(x, 1, y, -1);
  const TermId upper = pool_.range(e, -kUnbounded, 5);
  EXPECT_TRUE(z3_.prove_in_range(e, -99, 5, {upper}));
  EXPECT_FALSE(z3_.prove_in_range(e, 0, 5, {upper}));
}

TEST_F(Z3RangeTest, OtherFactorsAreIgnoredAsGuards) {
  const TensorId w = pool_.new_tensor({"w", {10}, false, 0});
  const IndexId x = var("x", 10);
  EXPECT_FALSE(z3_.prove_in_range(x, 1, 9, {pool_.access(w, {x})}));
}

TEST_F(Z3RangeTest, AnswersAreRememberedPerClaim) {
  const IndexId x = var("x", 10);
  const TermId a = pool_.range(x, 2, kUnbounded), b = pool_.range(x, -kUnbounded, 7);
  EXPECT_TRUE(z3_.prove_in_range(x, 2, 7, {a, b}));
  EXPECT_TRUE(z3_.prove_in_range(x, 2, 7, {b, a, a}));
  EXPECT_EQ(z3_.statistics().proved, 1U);
  EXPECT_EQ(z3_.statistics().asked, 2U);
  EXPECT_FALSE(z3_.prove_in_range(x, 2, 7, {a}));
  EXPECT_FALSE(z3_.prove_in_range(x, 2, 6, {a, b}));
  EXPECT_FALSE(z3_.prove_in_range(x, 3, 7, {a, b}));
  EXPECT_FALSE(z3_.prove_in_range(pool_.index_scale(x, 1, 1), 2, 7, {a, b}));
}

TEST_F(Z3RangeTest, LimitsGiveUpInsteadOfProving) {
  Z3Range limited(pool_, {10});
  const IndexId x = var("x", 1000);
  const IndexId e = pool_.index_sub(x, pool_.index_linear(pool_.index_div(x, 7), 3, pool_.index_mod(x, 7), 1));
  EXPECT_FALSE(limited.prove_in_range(e, 0, 568, {}));  // true, see DivisionAndModulus
  EXPECT_EQ(limited.statistics().unknown, 1U);
}

TEST_F(Z3RangeTest, ServesAtomsAsOracle) {
  AtomTable atoms(pool_, z3_.oracle());
  AtomTable blind(pool_, nullptr);
  const IndexId x = var("x", 100), y = var("y", 100);
  const std::vector<TermId> guards{pool_.range(pool_.index_linear(x, 2, y, 1), -kUnbounded, 20),
                                   pool_.range(pool_.index_linear(x, 1, y, 2), -kUnbounded, 20),
                                   pool_.range(pool_.index_linear(x, 1, y, -1), 0, kUnbounded)};
  EXPECT_TRUE(atoms.in_range(pool_.index_add(x, y), 14, guards));
  EXPECT_FALSE(atoms.in_range(pool_.index_add(x, y), 13, guards));
  EXPECT_FALSE(blind.in_range(pool_.index_add(x, y), 14, guards));
}

// On small extents enumeration decides every claim: Z3 must agree, and may only give up.
TEST(Z3RangeFuzz, AgreesWithEnumeration) {
  std::uint64_t proved = 0, refuted = 0, unknown = 0;
  for (std::uint64_t seed = testing::first_seed(); seed <= testing::last_seed(60); ++seed) {
    TermPool pool;
    testing::Random random(seed);
    testing::TermGenerator generator(pool, random, {});
    Z3Range z3(pool);
    const std::vector<Assignment> all = testing::assignments(pool, generator.free_vars(), 1000, random);
    for (int claim = 0; claim < 12; ++claim) {
      const IndexId e = testing::build(pool, generator.index(3));
      std::vector<TermId> guards;
      while (random.chance(60)) guards.push_back(testing::build(pool, generator.guard()));
      // The tightest interval that holds for one choice of the integer tensors, or one less at an end.
      const TensorContents contents = hashed_contents(pool, seed);
      std::int64_t lo = kUnbounded, hi = -kUnbounded;
      for (const Assignment& values : all) {
        bool hold = true;
        for (TermId g : guards) hold = hold && evaluate(pool, g, values, contents) != 0;
        if (!hold) continue;
        lo = std::min(lo, evaluate(pool, e, values, contents));
        hi = std::max(hi, evaluate(pool, e, values, contents));
      }
      const bool vacuous = lo > hi;
      if (vacuous) lo = hi = 0;
      const std::int64_t narrow_lo = random.chance(30) ? 1 : 0, narrow_hi = random.chance(30) ? 1 : 0;
      bool loads = false;  // an element may also take values that this choice does not
      const auto visit = [&](const auto& self, IndexId part) -> void {
        for (const auto& [a, k] : pool.index(part).terms) {
          loads = loads || pool.atom(a).kind == AtomKind::load;
          if (pool.atom(a).inner.valid()) self(self, pool.atom(a).inner);
        }
      };
      visit(visit, e);
      for (TermId g : guards)
        if (pool.is_guard(g)) visit(visit, pool.node(g).form);
      const std::uint64_t given_up = z3.statistics().unknown;
      const bool answer = z3.prove_in_range(e, lo + narrow_lo, hi - narrow_hi, guards);
      if (z3.statistics().unknown > given_up) {
        ++unknown;
        continue;
      }
      ++(answer ? proved : refuted);
      const bool holds = narrow_lo + narrow_hi == 0 || vacuous;
      ASSERT_TRUE(holds || !answer) << "seed " << seed << ": " << pool.to_string(e);
      // A guard that is decided is no range: z3 then claims less, which is allowed only for false ones.
      const bool contradiction = std::find(guards.begin(), guards.end(), pool.zero()) != guards.end();
      ASSERT_TRUE(answer || !holds || loads || contradiction) << "seed " << seed << ": " << pool.to_string(e);
    }
  }
  EXPECT_GT(proved, 200U);
  EXPECT_GT(refuted, 100U);
  EXPECT_LT(unknown, 10U);
}

}  // namespace
}  // namespace shardproof::solvers

// Nothing wraps: what does not fit in 64 bits throws, because a wrapped number could prove a wrong plan.
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "tests/unit/solvers/raw_term.h"

namespace shardproof::solvers::testing {
namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kBig = std::int64_t{1} << 61;

class OverflowTest : public ::testing::Test {
 protected:
  IndexId var(const char* name, std::int64_t extent) {
    return pool_.index_var(pool_.named(VarKind::loop, name, extent));
  }
  TermPool pool_;
};

TEST_F(OverflowTest, SumsAndProductsOfIndexTerms) {
  const IndexId x = var("x", 10), y = var("y", 10);
  EXPECT_THROW(pool_.index_scale(x, kMax), std::overflow_error);
  EXPECT_THROW(pool_.index_scale(pool_.index_scale(x, kBig / 10), 100), std::overflow_error);
  EXPECT_THROW(pool_.index_linear(x, kBig / 4, y, kBig / 4), std::overflow_error);  // the interval does not fit
  EXPECT_THROW(pool_.index_add(pool_.index_constant(kBig), pool_.index_constant(kMax)), std::overflow_error);
  EXPECT_THROW(pool_.index_scale(pool_.index_constant(kBig), 1, kMax), std::overflow_error);
  EXPECT_NO_THROW(pool_.index_scale(x, kBig / 16));
}

// -(-2^63) is not a number: a sign slip there once turned k*e - k*c*(e div c) into a wrong remainder.
TEST_F(OverflowTest, LeastInteger) {
  const IndexId x = var("x", 3);
  EXPECT_THROW(pool_.index_linear(x, kMin / 2, pool_.index_div(x, 2), kMin), std::overflow_error);
  EXPECT_THROW(pool_.index_constant(kMin), std::overflow_error);
  EXPECT_THROW(pool_.index_scale(pool_.index_mod(x, 2), kMin), std::overflow_error);
}

TEST_F(OverflowTest, DivisorsAndNestedDivisions) {
  const IndexId x = var("x", 1'000'000'007);
  // (x div a) div b = x div (a*b) only where a*b fits.
  const IndexId nested = pool_.index_div(
      pool_.index_scale(pool_.index_div(pool_.index_scale(x, 3, 1), std::int64_t{1} << 29), 1, 5), kBig);
  Assignment values;
  values.set(pool_.named(VarKind::loop, "x", 1'000'000'007), 1'000'000'006);
  EXPECT_EQ(evaluate(pool_, nested, values, hashed_contents(pool_, 1)), 0);
  const IndexId e = pool_.index_mod(pool_.index_scale(x, 7, 3), kMax);
  EXPECT_EQ(evaluate(pool_, e, values, hashed_contents(pool_, 1)), 7'000'000'045);
}

TEST_F(OverflowTest, BoundsOfGuards) {
  const IndexId x = var("x", 100);
  // Bounds beyond all values decide the guard, also where negating or shifting them does not fit.
  for (const std::int64_t k : {std::int64_t{1}, std::int64_t{-1}, std::int64_t{-3}}) {
    const IndexId e = pool_.index_scale(x, k);
    EXPECT_EQ(pool_.range(e, kMin, kMax), pool_.one()) << k;
    EXPECT_EQ(pool_.range(e, kMin + 1, kMax - 1), pool_.one()) << k;
    EXPECT_EQ(pool_.range(e, kMin, kMin), pool_.zero()) << k;
    EXPECT_EQ(pool_.range(e, kMin, kMin + 2), pool_.zero()) << k;
    EXPECT_EQ(pool_.range(e, kMax, kMax), pool_.zero()) << k;
    EXPECT_EQ(pool_.range(e, kMax - 2, kMax), pool_.zero()) << k;
  }
  const auto holds_or_throws = [&](IndexId e, std::int64_t lo, std::int64_t hi, bool expected) {
    try {
      EXPECT_EQ(pool_.range(e, lo, hi), expected ? pool_.one() : pool_.zero());
    } catch (const std::overflow_error&) {
    }
  };
  holds_or_throws(pool_.index_scale(x, 1, -5), kMax - 3, kMax - 1, false);
  holds_or_throws(pool_.index_scale(x, 1, 5), kMin + 3, kMin + 4, false);
  holds_or_throws(pool_.index_scale(x, 1, -5), -kBig, kMax - 1, true);
}

TEST_F(OverflowTest, GuardOfADivision) {
  const IndexId x = var("x", 1000), y = var("y", 1000);
  const IndexId e = pool_.index_linear(pool_.index_div(x, 7), 1, y, 5);
  Assignment values;
  values.set(pool_.named(VarKind::loop, "x", 1000), 999);
  values.set(pool_.named(VarKind::loop, "y", 1000), 999);
  EXPECT_EQ(evaluate(pool_, pool_.range(e, 142 + 5 * 999, kMax / 2), values, hashed_contents(pool_, 1)), 1);
  EXPECT_EQ(pool_.range(e, kMax / 2, kMax - 1), pool_.zero());
}

// Looking for a common multiple of two coefficients is only an attempt.
TEST_F(OverflowTest, IntervalsUnderGuardsOfCoprimeScales) {
  const IndexId x = var("x", 100), y = var("y", 100), z = var("z", 100);
  const std::int64_t p = 1'000'000'000'039, q = 1'000'000'000'061;
  const TermId guard = pool_.range(pool_.index_linear(x, p, y, 1), -kUnbounded, 50 * p);
  const IndexId e = pool_.index_linear(x, q, z, 1);
  EXPECT_EQ(pool_.bounds_under(e, {guard}), std::pair(pool_.index(e).lo, pool_.index(e).hi));
  EXPECT_NO_THROW(pool_.mul(guard, pool_.range(e, 7, kUnbounded)));
}

// 2e = k*(2x + z) - k*(z + u) + k*u + 2c with these guards gives 2e >= -2^63, which has no negative.
TEST_F(OverflowTest, IntervalsUnderGuardsAtTheLeastInteger) {
  const IndexId x = var("x", 2), z = var("z", 4), u = var("u", 6144);
  const std::int64_t k = (std::int64_t{1} << 50) + 1, c = 3072 - (std::int64_t{1} << 60);
  const IndexId e = pool_.index_scale(x, k, c);
  const std::vector<TermId> guards{pool_.range(pool_.index_linear(x, 2, z, 1), 1, kUnbounded), pool_.range(pool_.index_add(z, u), -kUnbounded, 6145)};
  const auto [lo, hi] = pool_.bounds_under(e, guards);
  EXPECT_LE(lo, c);  // x = 0, z = 1, u = 0
  EXPECT_GE(hi, c + k);
}

TEST_F(OverflowTest, RationalCoefficients) {
  const TensorId w = pool_.new_tensor({"w", {4}, false, 0});
  const TermId x = pool_.access(w, {var("i", 4)});
  EXPECT_THROW(pool_.scale(pool_.scale(x, Rational(kBig)), Rational(kBig)), std::overflow_error);
  EXPECT_THROW(pool_.scale(pool_.scale(x, Rational(1, kBig)), Rational(1, kBig)), std::overflow_error);
  EXPECT_THROW(pool_.add(pool_.scale(x, Rational(kMax)), pool_.scale(x, Rational(kMax))), std::overflow_error);
  EXPECT_THROW(pool_.integer_power(pool_.scale(x, Rational(1 << 20)), 4), std::overflow_error);
}

// The common denominator of index terms read as numbers: 2^40 * 3^25 does not fit.
TEST_F(OverflowTest, CommonDenominator) {
  const IndexId x = var("x", 10), y = var("y", 10);
  std::int64_t power = 1;
  for (int i = 0; i < 25; ++i) power *= 3;
  const TermId a = pool_.scale(pool_.index_value(x), Rational(1, std::int64_t{1} << 40));
  const TermId b = pool_.scale(pool_.index_value(y), Rational(1, power));
  EXPECT_THROW(pool_.add(a, b), std::overflow_error);
}

TEST_F(OverflowTest, Powers) {
  const TensorId w = pool_.new_tensor({"w", {4}, false, 0});
  TermId x = pool_.access(w, {var("i", 4)});
  for (int i = 0; i < 4; ++i) x = pool_.integer_power(x, 64);  // 2^24
  EXPECT_THROW(pool_.integer_power(x, 64), std::overflow_error);
  x = pool_.integer_power(x, 63);
  EXPECT_THROW(pool_.mul(x, x), std::overflow_error);
  const TermId y = pool_.inverse(x);
  EXPECT_THROW(pool_.mul(y, y), std::overflow_error);
}

// exp(n log x) = x^n as long as n is a power.
TEST_F(OverflowTest, ExponentOfLogarithm) {
  const TensorId w = pool_.new_tensor({"w", {4}, false, 0});
  const TermId x = pool_.access(w, {var("i", 4)});
  const TermId log = pool_.apply(Function::log, {x});
  EXPECT_EQ(pool_.apply(Function::exp, {pool_.scale(log, Rational(3))}), pool_.integer_power(x, 3));
  try {
    EXPECT_NE(pool_.apply(Function::exp, {pool_.scale(log, Rational((std::int64_t{1} << 32) + 1))}), x);
  } catch (const BudgetExceeded&) {
  }
}

TEST_F(OverflowTest, ExtentsOfMergedVariables) {
  const TensorId w = pool_.new_tensor({"w", {kBig}, false, 0});
  const VarId a = pool_.named(VarKind::loop, "a", std::int64_t{1} << 40),
              b = pool_.named(VarKind::loop, "b", std::int64_t{1} << 30);
  EXPECT_THROW(
      pool_.reduce(
          Reduction::sum, {a, b},
          pool_.access(w, {pool_.index_linear(pool_.index_var(a), std::int64_t{1} << 30, pool_.index_var(b), 1)})),
      std::overflow_error);
  EXPECT_THROW(pool_.reduce(Reduction::sum, {a, b}, pool_.one()), std::overflow_error);  // 2^70 times 1
}

}  // namespace
}  // namespace shardproof::solvers::testing

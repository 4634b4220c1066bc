#include "verifier/execution/field_numbers.h"

#include <gtest/gtest.h>

#include <set>

namespace shardproof::execution {
namespace {

using ir::OpCode;
using Number = FieldNumber;

class Field : public testing::Test {
 protected:
  Number any() { return numbers.any(random); }
  Number exp(const Number& x) const { return numbers.apply(OpCode::exp, x); }
  Number log(const Number& x) const { return numbers.apply(OpCode::log, x); }
  Number max(std::vector<Number> values) const { return numbers.greatest(values); }

  FieldNumbers numbers;
  std::mt19937_64 random{7};
};

// Deterministic for 64 bits with these bases (Sinclair 2011).
bool is_prime(std::uint64_t n) {
  __extension__ using Wide = unsigned __int128;
  const auto power = [&](std::uint64_t base, std::uint64_t exponent) {
    Wide result = 1;
    for (Wide b = base % n; exponent > 0; exponent >>= 1U, b = b * b % n)
      if ((exponent & 1U) != 0) result = result * b % n;
    return static_cast<std::uint64_t>(result);
  };
  std::uint64_t odd = n - 1;
  int twos = 0;
  for (; odd % 2 == 0; odd /= 2) ++twos;
  for (const std::uint64_t base : {2ULL, 325ULL, 9375ULL, 28178ULL, 450775ULL, 9780504ULL, 1795265022ULL}) {
    Wide x = power(base, odd);
    bool composite = x != 1 && x != n - 1;
    for (int i = 1; i < twos && composite; ++i) {
      x = x * x % n;
      composite = x != n - 1;
    }
    if (composite) return false;
  }
  return true;
}

TEST(FieldModuli, AreASafePrimeAndItsHalf) {
  const std::uint64_t p = (std::uint64_t{1} << 61) - 2373;
  const std::uint64_t q = (std::uint64_t{1} << 60) - 1187;
  EXPECT_EQ(p, 2 * q + 1);
  EXPECT_TRUE(is_prime(p));
  EXPECT_TRUE(is_prime(q));
  EXPECT_FALSE(is_prime(p - 2));
}

TEST_F(Field, IsAField) {
  for (int i = 0; i < 200; ++i) {
    const Number a = any(), b = any(), c = any();
    EXPECT_EQ(numbers.mul(a, numbers.add(b, c)), numbers.add(numbers.mul(a, b), numbers.mul(a, c)));
    EXPECT_EQ(numbers.mul(numbers.div(a, b), b), a);
    EXPECT_EQ(numbers.add(numbers.sub(a, b), b), a);
    EXPECT_EQ(numbers.add(a, numbers.neg(a)), numbers.from(std::int64_t{0}));
    EXPECT_NE(a, b);
  }
  EXPECT_EQ(numbers.mul(numbers.from(ir::Rational(1, 3)), numbers.from(std::int64_t{6})), numbers.from(std::int64_t{2}));
  for (const std::int64_t i : {0L, 1L, -1L, 12345L, -99999L}) EXPECT_EQ(numbers.to_integer(numbers.from(i)), i);
  EXPECT_THROW(numbers.to_integer(any()), ExecutionError);
}

TEST_F(Field, ExpTurnsSumsIntoProducts) {
  for (int i = 0; i < 50; ++i) {
    const Number a = any(), b = any();
    EXPECT_EQ(exp(numbers.add(a, b)), numbers.mul(exp(a), exp(b)));
    EXPECT_EQ(exp(numbers.sub(a, b)), numbers.div(exp(a), exp(b)));
    EXPECT_NE(exp(a), exp(b));
    // Nested: the exponent of an exponential.
    const Number x = numbers.contracted(numbers.mul(exp(a), b));
    const Number y = numbers.contracted(numbers.mul(b, exp(a)));
    EXPECT_EQ(exp(numbers.add(x, a)), numbers.mul(exp(y), exp(a)));
  }
  EXPECT_EQ(exp(numbers.from(std::int64_t{0})), numbers.from(std::int64_t{1}));
  EXPECT_EQ(exp(numbers.negative_infinity()), numbers.from(std::int64_t{0}));
}

TEST_F(Field, LogIsUndoneByExp) {
  for (int i = 0; i < 50; ++i) {
    const Number s = any(), m = any(), l = any();
    EXPECT_EQ(exp(log(l)), l);
    // The log-sum-exp of flash attention: exp(s - (m + log l)) = exp(s - m) / l.
    EXPECT_EQ(exp(numbers.sub(s, numbers.add(m, log(l)))), numbers.div(exp(numbers.sub(s, m)), l));
  }
}

TEST_F(Field, MaximumIsOfASet) {
  const Number a = any(), b = any(), c = any(), low = numbers.negative_infinity();
  EXPECT_EQ(max({a, b, c}), max({max({c, a}), b, max({b, a})}));
  EXPECT_EQ(max({a, low}), a);
  EXPECT_EQ(max({a, a}), a);
  EXPECT_EQ(max({low, low}), low);
  EXPECT_NE(max({a, b}), max({a, b, c}));
  const std::vector<Number> two = {a, b};
  EXPECT_EQ(numbers.least(two), numbers.neg(max({numbers.neg(a), numbers.neg(b)})));
}

TEST_F(Field, FunctionsKeepTheirParity) {
  for (int i = 0; i < 50; ++i) {
    const Number a = any();
    const Number minus = numbers.neg(a);
    for (const OpCode odd : {OpCode::sin, OpCode::erf, OpCode::tanh})
      EXPECT_EQ(numbers.apply(odd, minus), numbers.neg(numbers.apply(odd, a)));
    for (const OpCode even : {OpCode::cos, OpCode::abs}) EXPECT_EQ(numbers.apply(even, minus), numbers.apply(even, a));
    EXPECT_EQ(numbers.add(numbers.apply(OpCode::sigmoid, a), numbers.apply(OpCode::sigmoid, minus)),
              numbers.from(std::int64_t{1}));
    EXPECT_EQ(numbers.mul(numbers.apply(OpCode::rsqrt, a), numbers.apply(OpCode::sqrt, a)), numbers.from(std::int64_t{1}));
  }
}

TEST_F(Field, OrderIsAntisymmetric) {
  int less = 0;
  for (int i = 0; i < 400; ++i) {
    const Number a = any(), b = any();
    EXPECT_NE(numbers.less(a, b), numbers.less(b, a));
    less += numbers.less(a, b) ? 1 : 0;
  }
  EXPECT_GT(less, 120);
  EXPECT_LT(less, 280);
}

TEST_F(Field, WhatIsUndefinedStaysSo) {
  const Number zero = numbers.from(std::int64_t{0});
  const Number bad = numbers.div(any(), zero);
  EXPECT_TRUE(numbers.undefined(bad));
  EXPECT_TRUE(numbers.undefined(numbers.add(bad, any())));
  EXPECT_TRUE(numbers.undefined(numbers.mul(zero, bad)));
  EXPECT_TRUE(numbers.undefined(numbers.mul(zero, numbers.negative_infinity())));
  EXPECT_TRUE(numbers.undefined(numbers.sub(numbers.negative_infinity(), numbers.negative_infinity())));
  EXPECT_TRUE(numbers.undefined(log(zero)));
}

}  // namespace
}  // namespace shardproof::execution

#include "ir/rational.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <stdexcept>

#include "ir/check.h"

namespace shardproof::ir {
namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(Rational, IsKeptInLowestTermsWithPositiveDenominator) {
  EXPECT_EQ(Rational(6, -8), Rational(-3, 4));
  EXPECT_EQ(Rational(0, -5), Rational(0));
  EXPECT_EQ(Rational(kMin, kMin), Rational(1));
  EXPECT_EQ(Rational(kMin, 2).num, kMin / 2);
  EXPECT_THROW(Rational(1, 0), InternalError);
  EXPECT_THROW(Rational(1, kMin), std::overflow_error);   // denominator 2^63
  EXPECT_THROW(Rational(kMin, -1), std::overflow_error);  // 2^63
}

TEST(Rational, ArithmeticIsExact) {
  EXPECT_EQ(Rational(1, 6) + Rational(1, 3), Rational(1, 2));
  EXPECT_EQ(Rational(1, 6) - Rational(1, 6), Rational(0));
  EXPECT_EQ(Rational(2, 3) * Rational(9, 4), Rational(3, 2));
  EXPECT_EQ(-Rational(1, 3), Rational(-1, 3));
  EXPECT_EQ(inverse(Rational(-2, 3)), Rational(-3, 2));
  EXPECT_THROW(inverse(Rational(0)), InternalError);
  EXPECT_EQ(sign(Rational(-1, 9)), -1);
  EXPECT_EQ(sign(Rational(0)), 0);
  EXPECT_EQ(sign(Rational(7)), 1);
}

TEST(Rational, IntermediatesMayExceed64BitsButResultsMayNot) {
  EXPECT_EQ(Rational(kMax, 3) * Rational(3, kMax), Rational(1));
  EXPECT_EQ(Rational(kMax, kMax - 1) - Rational(1, kMax - 1), Rational(1));
  EXPECT_EQ(Rational(kMin) + Rational(1), Rational(kMin + 1));
  EXPECT_THROW(Rational(kMax) + Rational(1), std::overflow_error);
  EXPECT_THROW(Rational(kMin) - Rational(1), std::overflow_error);
  EXPECT_THROW(-Rational(kMin), std::overflow_error);
  EXPECT_THROW(Rational(kMax) * Rational(2), std::overflow_error);
  EXPECT_THROW(Rational(1, kMax) * Rational(1, 2), std::overflow_error);
  EXPECT_THROW(Rational(1, kMax) + Rational(1, kMax - 1), std::overflow_error);
}

TEST(Rational, FieldLawsOnRandomSmallNumbers) {
  std::mt19937 random(7);
  std::uniform_int_distribution<std::int64_t> number(-50, 50);
  const auto pick = [&] {
    std::int64_t den = number(random);
    if (den == 0) den = 1;
    return Rational(number(random), den);
  };
  for (int i = 0; i < 2000; ++i) {
    const Rational a = pick(), b = pick(), c = pick();
    EXPECT_EQ(a + b, b + a);
    EXPECT_EQ((a + b) + c, a + (b + c));
    EXPECT_EQ((a * b) * c, a * (b * c));
    EXPECT_EQ(a * (b + c), a * b + a * c);
    EXPECT_EQ((a - b) + b, a);
    if (!b.is_zero()) {
      EXPECT_EQ(a * b * inverse(b), a);
    }
    EXPECT_EQ(compare(a, b) < 0, sign(a - b) < 0);
    EXPECT_EQ(compare(a, b) == 0, a == b);
  }
}

TEST(Rational, ComparesExtremesWithoutOverflow) {
  EXPECT_TRUE(compare(Rational(kMax, kMax - 1), Rational(kMax - 1, kMax - 2)) < 0);
  EXPECT_TRUE(compare(Rational(kMin), Rational(kMax)) < 0);
}

TEST(Rational, ReadsTextExactly) {
  EXPECT_EQ(parse_rational("3"), Rational(3));
  EXPECT_EQ(parse_rational("-1/8"), Rational(-1, 8));
  EXPECT_EQ(parse_rational("2/4"), Rational(1, 2));
  EXPECT_EQ(parse_rational("0.1"), Rational(1, 10));
  EXPECT_EQ(parse_rational("1e-5"), Rational(1, 100000));
  EXPECT_EQ(parse_rational("-1.25E+2"), Rational(-125));
  EXPECT_EQ(parse_rational("0.044715"), Rational(44715, 1000000));
  EXPECT_EQ(parse_rational("0e999999999999999999999"), Rational(0));
  EXPECT_EQ(parse_rational("1.0000000000000000000000000000000000000000000"), Rational(1));
  EXPECT_EQ(parse_rational("9223372036854775807"), Rational(kMax));
  EXPECT_EQ(parse_rational("-9223372036854775808"), Rational(kMin));
  EXPECT_EQ(parse_rational("1e18"), Rational(1000000000000000000));
  // 2^-60: a 42-digit numeral that reduces to 64 bits.
  EXPECT_EQ(parse_rational("8.67361737988403547205962240695953369140625e-19"), Rational(1, std::int64_t{1} << 60));
}

TEST(Rational, RefusesMalformedAndUnrepresentableText) {
  for (const char* text : {"", "-", "+1", ".5", "1.", "1e", "1e+", "1/0", "1/", "/2", "1/-2", "1 ", " 1", "1/2/3", "--1", "0x1",
                           "nan", "inf", "1e5e5", "1.5/2", "-/2"}) {
    EXPECT_FALSE(parse_rational(text)) << text;
  }
  for (const char* text : {"9223372036854775808", "-9223372036854775809", "1e19", "1e-19", "1e999999999999999999999999",
                           "1e-999999999999999999999999", "1/9223372036854775808", "0.12345678901234567890123456789"}) {
    EXPECT_FALSE(parse_rational(text)) << text;
  }
  EXPECT_FALSE(parse_rational(std::string(1 << 20, '7')));
  EXPECT_FALSE(parse_rational(std::string("1\0", 2)));
}

TEST(Rational, TextRoundTrips) {
  for (const Rational value : {Rational(0), Rational(-7), Rational(1, 3), Rational(kMin), Rational(kMax, kMax - 1)}) {
    EXPECT_EQ(parse_rational(to_string(value)), value) << to_string(value);
  }
  EXPECT_EQ(to_string(Rational(-1, 8)), "-1/8");
  EXPECT_EQ(to_string(Rational(4, 2)), "2");
}

TEST(CheckedIntegers, ThrowInsteadOfWrapping) {
  EXPECT_EQ(checked_add(kMax, kMin), -1);
  EXPECT_THROW(checked_add(kMax, 1), std::overflow_error);
  EXPECT_THROW(checked_mul(kMin, -1), std::overflow_error);
  EXPECT_THROW(checked_mul(std::int64_t{1} << 32, std::int64_t{1} << 32), std::overflow_error);
}

TEST(CheckedIntegers, DivisionRoundsDownOrUp) {
  for (std::int64_t a = -20; a <= 20; ++a) {
    for (std::int64_t b = 1; b <= 7; ++b) {
      EXPECT_EQ(ceil_div(a, b), -floor_div(-a, b));
      EXPECT_EQ(floor_div(a, b) * b + floor_mod(a, b), a);
      EXPECT_GE(floor_mod(a, b), 0);
      EXPECT_LT(floor_mod(a, b), b);
    }
  }
  EXPECT_EQ(floor_div(kMin, 1), kMin);
  EXPECT_EQ(ceil_div(kMin, 2), kMin / 2);
  EXPECT_EQ(ceil_div(kMin, kMax), -1);
  EXPECT_EQ(ceil_div(kMax, 2), kMax / 2 + 1);
  EXPECT_THROW(ceil_div(1, 0), InternalError);
  EXPECT_THROW(floor_div(1, 0), InternalError);
  EXPECT_THROW(floor_mod(1, -2), InternalError);
}

}  // namespace
}  // namespace shardproof::ir

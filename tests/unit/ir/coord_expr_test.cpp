#include "ir/coord_expr.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <set>
#include <stdexcept>

#include "ir/check.h"
#include "ir/rational.h"

namespace shardproof::ir {
namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

CoordExpr parsed(std::string_view text) {
  std::string error;
  const std::optional<CoordExpr> result = parse_coord_expr(text, &error);
  EXPECT_TRUE(result.has_value()) << text << ": " << error;
  return result.value_or(CoordExpr{});
}

std::int64_t at(const CoordExpr& e, const std::map<std::string, std::int64_t>& values) {
  return evaluate(e, [&](const std::string& name) { return values.at(name); });
}

std::string canonical(std::string_view text) { return to_string(parsed(text)); }

TEST(CoordExpr, ReadsAndEvaluates) {
  EXPECT_EQ(at(parsed("16032*tp"), {{"tp", 3}}), 48096);
  EXPECT_EQ(at(parsed("tp*16032 + 5"), {{"tp", 1}}), 16037);
  EXPECT_EQ(at(parsed("(tp + 7) % 8"), {{"tp", 0}}), 7);
  EXPECT_EQ(at(parsed("(tp - 1) % 8"), {{"tp", 0}}), 7);
  EXPECT_EQ(at(parsed("(tp - 1)/4"), {{"tp", 0}}), -1);
  EXPECT_EQ(at(parsed("2*(tp/2) - 3*(m%2)"), {{"tp", 5}, {"m", 3}}), 1);
  EXPECT_EQ(at(parsed("tp/2%2"), {{"tp", 7}}), 1);
  EXPECT_EQ(at(parsed("  -3 "), {}), -3);
  EXPECT_EQ(at(parsed("1 - -3"), {}), 4);
  EXPECT_EQ(at(parsed("a - b/2"), {{"a", 10}, {"b", 5}}), 8);
}

TEST(CoordExpr, PrintsCanonically) {
  EXPECT_EQ(canonical("0"), "0");
  EXPECT_EQ(canonical("b + a"), "a + b");
  EXPECT_EQ(canonical("tp + tp"), "2*tp");
  EXPECT_EQ(canonical("tp - 1*tp + 4"), "4");
  EXPECT_EQ(canonical("7 - tp"), "7 - tp");
  EXPECT_EQ(canonical("-1*tp"), "-1*tp");
  EXPECT_EQ(canonical("-1*(tp/2) - 3"), "-1*(tp/2) - 3");
  EXPECT_EQ(canonical("(8*tp + 3)/8"), "tp");
  EXPECT_EQ(canonical("(8*tp + 3)%8"), "3");
  EXPECT_EQ(canonical("(4*tp + 2)/8"), "tp/2");
  EXPECT_EQ(canonical("(4*tp + 3)%8"), "4*(tp%2) + 3");
  EXPECT_EQ(canonical("tp/1"), "tp");
  EXPECT_EQ(canonical("tp%1"), "0");
  EXPECT_EQ(canonical("(2*tp)/4"), "tp/2");
  EXPECT_EQ(canonical("2*(tp/4)"), "2*(tp/4)");
  EXPECT_EQ(canonical("(tp/2)%4"), "(tp/2)%4");
}

TEST(CoordExpr, RefusesMalformedText) {
  for (const char* text : {"",       " ",      "+",      "tp +",   "* tp",    "2*",      "2 tp",   "tp tp",  "(tp",    "tp)",
                           "()",     "tp/0",   "tp/-2",  "tp%0",   "tp*tp",   "7/2",     "7%2",    "-tp",    "2*3",    "tp/m",
                           "2*tp/4", "2*tp%4", "tp*2/4", "tp*2%4", "2**tp",   "tp//2",   "1.5*tp", "tp\n+ 1", "a\tb",   "$",
                           "2*2*tp", "a.b",    "a-",     "a b",    "0x10*tp", "1_000", "tp++1"}) {
    std::string error;
    EXPECT_FALSE(parse_coord_expr(text, &error)) << text;
    EXPECT_FALSE(error.empty()) << text;
  }
  EXPECT_FALSE(parse_coord_expr("2*"));  // no place for the reason
  EXPECT_FALSE(parse_coord_expr(std::string_view("tp\0", 3)));
  EXPECT_FALSE(parse_coord_expr(std::string_view("\0", 1)));
}

TEST(CoordExpr, RefusesHostileText) {
  EXPECT_TRUE(parse_coord_expr(std::string(32, '(') + "tp" + std::string(32, ')')));
  EXPECT_FALSE(parse_coord_expr(std::string(33, '(') + "tp" + std::string(33, ')')));
  EXPECT_FALSE(parse_coord_expr(std::string(100000, '(')));
  EXPECT_FALSE(parse_coord_expr(std::string(2000, '(')));
  std::string chain = "tp";
  for (int i = 0; i < 40; ++i) chain += i % 2 == 0 ? "/2" : "%7";
  EXPECT_FALSE(parse_coord_expr(chain));
  std::string error;
  EXPECT_FALSE(parse_coord_expr("9223372036854775808", &error));
  EXPECT_NE(error.find("64 bits"), std::string::npos);
  for (const char* text : {"9223372036854775807*a + 1*a", "9223372036854775807 + 1", "3037000500*(3037000500*a)",
                           "a - -9223372036854775808", "99999999999999999999999999*a", "a/99999999999999999999"}) {
    EXPECT_FALSE(parse_coord_expr(text)) << text;
  }
  std::string many = "a0";
  for (int i = 1; many.size() < 4090; ++i) many += "+a" + std::to_string(i % 10);
  many.resize(many.find_last_of('+'));
  EXPECT_TRUE(parse_coord_expr(many));
}

TEST(CoordExpr, ExtremesRoundTrip) {
  for (const std::int64_t value : {kMin, kMin + 1, std::int64_t{-1}, std::int64_t{0}, kMax}) {
    const CoordExpr number = constant_expr(value);
    EXPECT_TRUE(equal(parsed(to_string(number)), number)) << to_string(number);
    const CoordExpr sum = variable_expr("a", value) + variable_expr("b", value, value);
    EXPECT_TRUE(equal(parsed(to_string(sum)), sum)) << to_string(sum);
  }
}

TEST(CoordExpr, EvaluationThrowsInsteadOfWrapping) {
  EXPECT_THROW(at(variable_expr("a", 2), {{"a", kMax}}), std::overflow_error);
  EXPECT_THROW(at(variable_expr("a", 1, 1), {{"a", kMax}}), std::overflow_error);
  EXPECT_THROW(variable_expr("a", kMax) + variable_expr("a", 1), std::overflow_error);
  EXPECT_THROW(-1 * constant_expr(kMin), std::overflow_error);
  EXPECT_THROW(floor_div(variable_expr("a"), 0), InternalError);
  EXPECT_THROW(modulo(variable_expr("a"), -1), InternalError);
}

TEST(CoordExpr, VisitsVariablesInside) {
  std::set<std::string> names;
  for_each_variable(parsed("a + (b + c/2)%3"), [&](const std::string& name) { names.insert(name); });
  EXPECT_EQ(names, (std::set<std::string>{"a", "b", "c"}));
}

TEST(CoordExpr, EqualityIgnoresTheOrderOfWriting) {
  EXPECT_TRUE(equal(parsed("a + (b + 1)/2"), parsed("(1 + b)/2 + a")));
  EXPECT_FALSE(equal(parsed("a/2"), parsed("a%2")));
  EXPECT_FALSE(equal(parsed("a/2"), parsed("a/3")));
  EXPECT_FALSE(equal(parsed("a"), parsed("b")));
  EXPECT_FALSE(equal(parsed("a"), parsed("a + 1")));
  EXPECT_FALSE(equal(parsed("(a + 1)/3"), parsed("(2*a + 1)/3")));
}

// The smart constructors rewrite; a random expression is built beside its meaning as a closure, and both are
// compared at random points. Text must read back to the same expression.
struct Sample {
  CoordExpr expr;
  std::function<std::int64_t(std::int64_t, std::int64_t)> meaning;
};

Sample random_sample(std::mt19937& random, int depth) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  if (depth == 0) {
    const std::int64_t coefficient = pick(-6, 6), constant = pick(-9, 9);
    if (pick(0, 1) == 0) {
      return {variable_expr("x", coefficient, constant), [=](std::int64_t x, std::int64_t) { return coefficient * x + constant; }};
    }
    return {variable_expr("y", coefficient, constant), [=](std::int64_t, std::int64_t y) { return coefficient * y + constant; }};
  }
  const Sample a = random_sample(random, depth - 1);
  const std::int64_t number = pick(1, 12);
  switch (pick(0, 3)) {
    case 0: {
      const Sample b = random_sample(random, depth - 1);
      return {a.expr + b.expr, [=](std::int64_t x, std::int64_t y) { return a.meaning(x, y) + b.meaning(x, y); }};
    }
    case 1: {
      const std::int64_t factor = number - 6;
      return {factor * a.expr, [=](std::int64_t x, std::int64_t y) { return factor * a.meaning(x, y); }};
    }
    case 2: return {floor_div(a.expr, number), [=](std::int64_t x, std::int64_t y) { return floor_div(a.meaning(x, y), number); }};
    default: return {modulo(a.expr, number), [=](std::int64_t x, std::int64_t y) { return floor_mod(a.meaning(x, y), number); }};
  }
}

TEST(CoordExpr, SmartConstructorsKeepTheMeaning) {
  std::mt19937 random(11);
  for (int i = 0; i < 5000; ++i) {
    const Sample sample = random_sample(random, i % 6);
    for (std::int64_t x = -3; x <= 9; x += 4) {
      for (std::int64_t y = -5; y <= 7; y += 3) {
        ASSERT_EQ(at(sample.expr, {{"x", x}, {"y", y}}), sample.meaning(x, y)) << to_string(sample.expr);
      }
    }
    const std::string text = to_string(sample.expr);
    ASSERT_TRUE(equal(parsed(text), sample.expr)) << text << " became " << canonical(text);
    ASSERT_EQ(canonical(text), text);
  }
}

TEST(CoordExpr, RandomBytesNeverCrash) {
  std::mt19937 random(5);
  const std::string alphabet = "ab019()+-*/% _";
  std::size_t accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (std::size_t n = random() % 12; n > 0; --n) text += alphabet[random() % alphabet.size()];
    const std::optional<CoordExpr> e = parse_coord_expr(text);
    if (!e) continue;
    ++accepted;
    ASSERT_TRUE(equal(parsed(to_string(*e)), *e)) << text;
  }
  EXPECT_GT(accepted, 100U);
}

}  // namespace
}  // namespace shardproof::ir

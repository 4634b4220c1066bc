// What a premise says of other conditions, against values: whatever is derived from it has to hold wherever it does.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "verifier/kernel/side_conditions.h"

namespace shardproof::verifier {
namespace {

using solvers::Obligation;
using solvers::Rational;
using solvers::TermId;

using Kind = Obligation::Kind;
constexpr int kScalars = 3;

// c * product of powers of scalars, as a term and as a function; sums of two of them are also asked about.
struct Product {
  Rational coefficient;
  std::array<std::int32_t, kScalars> powers{};

  double at(const std::array<double, kScalars>& values) const {
    double result = static_cast<double>(coefficient.num) / static_cast<double>(coefficient.den);
    for (int i = 0; i < kScalars; ++i) result *= std::pow(values[static_cast<std::size_t>(i)], powers[static_cast<std::size_t>(i)]);
    return result;
  }
};
using Sum = std::vector<Product>;

class Premises : public ::testing::Test {
 protected:
  Premises() {
    for (int i = 0; i < kScalars; ++i) scalars_.push_back(pool_.access(atoms_.opaque({"s" + std::to_string(i), {}, false, 0}), {}));
  }
  TermId term(const Sum& sum) {
    std::vector<TermId> parts;
    for (const Product& p : sum) {
      std::vector<solvers::Factor> factors;
      for (std::size_t i = 0; i < kScalars; ++i)
        if (p.powers[i] != 0) factors.push_back({scalars_[i], p.powers[i]});
      parts.push_back(pool_.product(factors, p.coefficient));
    }
    return pool_.sum(parts);
  }
  std::int64_t below(std::int64_t n) { return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random_); }
  Sum random_sum() {
    Sum sum(static_cast<std::size_t>(1 + below(2)));
    for (Product& p : sum) {
      const std::int64_t num = below(9) - 4;
      p.coefficient = Rational(num == 0 ? 5 : num, 1 + below(3));
      for (std::int32_t& power : p.powers) power = static_cast<std::int32_t>(below(2) * below(3));
    }
    return sum;
  }

  solvers::TermPool pool_;
  solvers::AtomTable atoms_{pool_, nullptr};
  std::vector<TermId> scalars_;
  std::mt19937_64 random_{7};
};

TEST_F(Premises, SayNothingThatTheyDoNotImply) {
  const auto holds = [](Kind kind, double value) { return kind == Kind::nonzero ? value != 0 : value >= 0; };
  int derived = 0;
  for (int round = 0; round < 20000; ++round) {
    const Sum premise = random_sum();
    Sum question = random_sum();
    if (below(2) == 0) {  // a multiple
      question = premise;
      const Rational factor(below(2) == 0 ? -2 : 3, 1 + below(4));
      for (Product& p : question) p.coefficient = p.coefficient * factor;
    }
    const Kind given = below(2) == 0 ? Kind::nonzero : Kind::nonnegative, asked = below(2) == 0 ? Kind::nonzero : Kind::nonnegative;
    SideConditions conditions(atoms_);
    conditions.suppose({given, term(premise)});
    if (!conditions.holds({asked, term(question)})) continue;
    ++derived;
    const auto value = [](const Sum& sum, const std::array<double, kScalars>& at) {
      double total = 0;
      for (const Product& p : sum) total += p.at(at);
      return std::abs(total) < 1e-9 ? 0.0 : total;
    };
    for (const double a : {-2.0, -1.0, 0.0, 1.0, 2.0})
      for (const double b : {-2.0, -1.0, 0.0, 1.0, 2.0})
        for (const double c : {-2.0, -1.0, 0.0, 1.0, 2.0})
          if (holds(given, value(premise, {a, b, c}))) {
            ASSERT_TRUE(holds(asked, value(question, {a, b, c})))
                << pool_.to_string(term(premise)) << (given == Kind::nonzero ? " != 0" : " >= 0") << " does not make "
                << pool_.to_string(term(question)) << (asked == Kind::nonzero ? " != 0" : " >= 0");
          }
  }
  EXPECT_GT(derived, 2000);
}

TEST_F(Premises, HoldOfMultiples) {
  SideConditions conditions(atoms_);
  const TermId count = scalars_[0];
  conditions.suppose({Kind::nonzero, pool_.scale(count, Rational(-3))});
  conditions.suppose({Kind::nonnegative, pool_.scale(scalars_[1], Rational(2))});
  EXPECT_TRUE(conditions.holds({Kind::nonzero, pool_.scale(count, Rational(65536))}));
  EXPECT_TRUE(conditions.holds({Kind::nonnegative, pool_.scale(scalars_[1], Rational(1, 7))}));
  EXPECT_FALSE(conditions.holds({Kind::nonnegative, pool_.scale(scalars_[1], Rational(-1, 7))}));
  EXPECT_FALSE(conditions.holds({Kind::nonnegative, count}));
  EXPECT_FALSE(conditions.holds({Kind::nonzero, scalars_[1]}));
}

// 1 - c^e is above 0 for 0 <= c < 1 and e > 0, and nothing is known of it where e may be 0.
TEST_F(Premises, PowersOfZero) {
  SideConditions conditions(atoms_);
  const TermId zero = pool_.zero(), step = scalars_[0];
  const auto bias = [&](TermId base, TermId exponent) { return pool_.sub(pool_.one(), pool_.apply(solvers::Function::power, {base, exponent})); };
  conditions.suppose_positive(pool_.node(step).tensor);
  EXPECT_TRUE(conditions.holds({Kind::nonzero, bias(zero, step)}));
  EXPECT_TRUE(conditions.holds({Kind::nonzero, bias(pool_.constant(Rational(9, 10)), step)}));
  EXPECT_FALSE(conditions.holds({Kind::nonzero, bias(pool_.one(), step)}));
  EXPECT_FALSE(conditions.holds({Kind::nonzero, bias(zero, scalars_[1])}));
  EXPECT_FALSE(conditions.holds({Kind::nonnegative, bias(pool_.constant(Rational(2)), step)}));
  const TermId decay = pool_.apply(solvers::Function::power, {pool_.constant(Rational(9, 10)), step});
  EXPECT_FALSE(conditions.holds({Kind::nonzero, pool_.sub(pool_.constant(Rational(1, 2)), decay)}));
  SideConditions not_negative(atoms_);
  not_negative.suppose_nonnegative(pool_.node(step).tensor);
  EXPECT_FALSE(not_negative.holds({Kind::nonzero, bias(zero, step)}));
}

}  // namespace
}  // namespace shardproof::verifier

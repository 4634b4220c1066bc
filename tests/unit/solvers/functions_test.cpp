// Laws of scalar functions: what each needs, and what must not follow without it.
#include <gtest/gtest.h>

#include <algorithm>

#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {
namespace {

class FunctionsTest : public ::testing::Test {
 protected:
  FunctionsTest() {
    const TensorId a = pool_.new_tensor({"a", {8}, false, 0}), b = pool_.new_tensor({"b", {8}, false, 0});
    i_ = pool_.index_var(pool_.named(VarKind::loop, "i", 8));
    x_ = pool_.access(a, {i_});
    y_ = pool_.access(b, {i_});
    masked_ = pool_.apply(Function::negative_infinity, {});
  }
  TermId number(std::int64_t num, std::int64_t den = 1) { return pool_.constant(Rational(num, den)); }
  TermId exp(TermId t) { return pool_.apply(Function::exp, {t}); }
  TermId log(TermId t) { return pool_.apply(Function::log, {t}); }
  TermId sqrt(TermId t) { return pool_.apply(Function::sqrt, {t}); }
  TermId max(std::vector<TermId> t) { return pool_.apply(Function::max, std::move(t)); }
  TermId negate(TermId t) { return pool_.scale(t, Rational(-1)); }
  bool required(Obligation::Kind kind, TermId term) const {
    const auto& all = pool_.obligations();
    return std::find(all.begin(), all.end(), Obligation{kind, term}) != all.end();
  }

  TermPool pool_;
  IndexId i_;
  TermId x_, y_, masked_;
};

TEST_F(FunctionsTest, ExpOfSums) {
  EXPECT_EQ(exp(pool_.add(x_, y_)), pool_.mul(exp(x_), exp(y_)));
  EXPECT_EQ(exp(pool_.scale(x_, Rational(3))), pool_.integer_power(exp(x_), 3));
  EXPECT_EQ(exp(pool_.zero()), pool_.one());
  EXPECT_NE(exp(pool_.mul(x_, y_)), pool_.mul(exp(x_), exp(y_)));
  EXPECT_NE(exp(pool_.scale(x_, Rational(1, 2))), exp(x_));
}

TEST_F(FunctionsTest, ExpCancelsUnderTheObligationThatItsArgumentIsFinite) {
  EXPECT_TRUE(pool_.obligations().empty());
  EXPECT_EQ(pool_.mul(exp(x_), exp(negate(x_))), pool_.one());
  EXPECT_TRUE(required(Obligation::Kind::finite, x_));
}

TEST_F(FunctionsTest, InverseCancelsUnderTheObligationThatItIsNotZero) {
  EXPECT_EQ(pool_.mul(x_, pool_.inverse(x_)), pool_.one());
  EXPECT_TRUE(required(Obligation::Kind::nonzero, x_));
  const TermId s = pool_.add(x_, y_);
  EXPECT_EQ(pool_.inverse(pool_.inverse(s)), s);
  EXPECT_TRUE(required(Obligation::Kind::nonzero, s));
  // x^2 / x also divides by x.
  TermPool fresh;
  const TensorId a = fresh.new_tensor({"a", {}, false, 0});
  const TermId z = fresh.access(a, {});
  EXPECT_EQ(fresh.mul(fresh.mul(z, z), fresh.inverse(z)), z);
  EXPECT_EQ(fresh.obligations().size(), 1U);
}

TEST_F(FunctionsTest, InverseOfASumPullsOutWhatAllTermsShare) {
  const TermId sum = pool_.add(x_, y_);
  EXPECT_EQ(pool_.inverse(pool_.scale(sum, Rational(6))), pool_.scale(pool_.inverse(sum), Rational(1, 6)));
  EXPECT_EQ(pool_.inverse(negate(sum)), negate(pool_.inverse(sum)));
  EXPECT_EQ(pool_.inverse(pool_.mul(exp(x_), sum)), pool_.mul(exp(negate(x_)), pool_.inverse(sum)));
  EXPECT_NE(pool_.inverse(pool_.add(x_, pool_.mul(x_, y_))), pool_.mul(pool_.inverse(x_), pool_.inverse(y_)));
}

// The sign that 1/q takes must not depend on what q was multiplied by.
TEST_F(FunctionsTest, InverseOfAMultipleIsAMultipleOfTheInverse) {
  const TermId z = pool_.access(pool_.new_tensor({"z", {}, false, 0}), {});
  const TermId w = pool_.access(pool_.new_tensor({"w", {}, false, 0}), {});
  const std::vector<TermId> factors{
      x_, y_, z, w, exp(x_), exp(pool_.mul(x_, y_)), sqrt(z), pool_.inverse(w), pool_.integer_power(w, -3), negate(z)};
  const std::vector<TermId> sums{pool_.sub(x_, z), pool_.sub(exp(y_), z), pool_.sub(pool_.mul(x_, y_), number(3)),
                                 pool_.sub(sqrt(x_), exp(z)),
                                 pool_.add(negate(pool_.mul(x_, x_)), pool_.mul(z, exp(y_)))};
  for (TermId f : factors)
    for (TermId q : sums) {
      EXPECT_EQ(pool_.inverse(pool_.mul(f, q)), pool_.mul(pool_.inverse(f), pool_.inverse(q)))
          << pool_.to_string(f) << " * " << pool_.to_string(q);
      EXPECT_EQ(pool_.inverse(pool_.mul(pool_.scale(f, Rational(-2, 3)), q)),
                pool_.scale(pool_.mul(pool_.inverse(f), pool_.inverse(q)), Rational(-3, 2)));
    }
}

// Two terms of one shape: their coefficients decide together, whatever order the terms come in.
TEST_F(FunctionsTest, SignOfAnInverseDoesNotDependOnTheOrderOfTerms) {
  const TensorId a = pool_.new_tensor({"a2", {8}, false, 0});
  const auto at = [&](std::int64_t i) { return pool_.access(a, {pool_.index_constant(i)}); };
  at(1);
  at(0);  // the younger one
  const TermId p = pool_.sub(pool_.scale(at(0), Rational(2)), at(1)),
               q = pool_.sub(pool_.scale(at(1), Rational(2)), at(0));
  const auto coefficient = [&](TermId term) { return pool_.monomials_of(term)[0].coefficient; };
  EXPECT_EQ(coefficient(pool_.inverse(p)), coefficient(pool_.inverse(q)));
}

TEST_F(FunctionsTest, InverseOfZeroStaysUninterpreted) {
  const TermId undefined = pool_.inverse(pool_.zero());
  EXPECT_FALSE(pool_.as_constant(undefined).has_value());
  EXPECT_TRUE(required(Obligation::Kind::nonzero, pool_.zero()));
}

TEST_F(FunctionsTest, Roots) {
  EXPECT_EQ(sqrt(pool_.scale(x_, Rational(9, 4))), pool_.scale(sqrt(x_), Rational(3, 2)));
  EXPECT_NE(sqrt(pool_.scale(x_, Rational(2))), pool_.scale(sqrt(x_), Rational(2)));
  EXPECT_EQ(sqrt(number(49)), number(7));
  EXPECT_EQ(sqrt(pool_.zero()), pool_.zero());
  EXPECT_NE(sqrt(number(-4)), number(2));
  EXPECT_NE(sqrt(negate(x_)), sqrt(x_));
  EXPECT_FALSE(required(Obligation::Kind::nonnegative, x_));
  EXPECT_EQ(pool_.mul(sqrt(x_), sqrt(x_)), x_);
  EXPECT_TRUE(required(Obligation::Kind::nonnegative, x_));
  EXPECT_NE(sqrt(pool_.mul(y_, y_)), y_);  // |y|
  const TermId sum = pool_.add(x_, y_);
  EXPECT_EQ(pool_.mul(pool_.inverse(sqrt(sum)), pool_.inverse(sqrt(sum))), pool_.inverse(sum));
  EXPECT_TRUE(required(Obligation::Kind::nonnegative, sum));
}

TEST_F(FunctionsTest, RootOfAMultiple) {
  EXPECT_EQ(sqrt(pool_.scale(x_, Rational(18))), pool_.scale(sqrt(pool_.scale(x_, Rational(2))), Rational(3)));
  EXPECT_EQ(sqrt(pool_.scale(x_, Rational(1, 2))), pool_.scale(sqrt(pool_.scale(x_, Rational(2))), Rational(1, 2)));
  EXPECT_EQ(sqrt(pool_.scale(x_, Rational(5, 12))), pool_.scale(sqrt(pool_.scale(x_, Rational(15))), Rational(1, 6)));
  EXPECT_EQ(sqrt(pool_.scale(x_, Rational(std::int64_t{1'000'003} * 1009))), pool_.apply(Function::sqrt, {pool_.scale(x_, Rational(std::int64_t{1'000'003} * 1009))}));
  EXPECT_EQ(sqrt(pool_.scale(x_, Rational(2 * 1021 * 1021))), pool_.scale(sqrt(pool_.scale(x_, Rational(2))), Rational(1021)));
  EXPECT_NE(sqrt(pool_.scale(x_, Rational(18))), pool_.scale(sqrt(x_), Rational(3)));
  EXPECT_NE(sqrt(pool_.scale(x_, Rational(-18))), pool_.scale(sqrt(pool_.scale(x_, Rational(2))), Rational(3)));
  // Against the definition, for all small numbers.
  for (std::int64_t num = 1; num <= 60; ++num)
    for (std::int64_t den = 1; den <= 60; ++den) {
      const TermId square = pool_.mul(sqrt(number(num, den)), sqrt(number(num, den)));
      EXPECT_EQ(square, number(num, den));
      for (std::int64_t k = 2; k <= 7; ++k)
        EXPECT_EQ(sqrt(number(num * k * k, den)), pool_.scale(sqrt(number(num, den)), Rational(k)));
    }
}

TEST_F(FunctionsTest, InverseOfAFractionPlusSomething) {
  const TermId z = pool_.access(pool_.new_tensor({"z", {}, false, 0}), {});
  const TermId ratio = pool_.mul(y_, pool_.inverse(z));
  EXPECT_EQ(pool_.inverse(pool_.sub(ratio, pool_.one())), pool_.mul(z, pool_.inverse(pool_.sub(y_, z))));
  EXPECT_TRUE(required(Obligation::Kind::nonzero, z));
  EXPECT_EQ(pool_.inverse(pool_.add(pool_.mul(x_, exp(negate(y_))), pool_.one())),
            pool_.mul(exp(y_), pool_.inverse(pool_.add(x_, exp(y_)))));
  EXPECT_TRUE(required(Obligation::Kind::finite, y_));
  EXPECT_EQ(pool_.inverse(pool_.add(pool_.mul(x_, pool_.inverse(sqrt(z))), pool_.one())),
            pool_.mul(sqrt(z), pool_.inverse(pool_.add(x_, sqrt(z)))));
  EXPECT_NE(pool_.inverse(pool_.sub(ratio, pool_.one())), pool_.inverse(pool_.sub(y_, z)));
  EXPECT_NE(pool_.inverse(pool_.sub(ratio, pool_.one())), pool_.mul(z, pool_.inverse(pool_.sub(y_, pool_.one()))));
}

TEST_F(FunctionsTest, SigmoidByExponentials) {
  const auto sigmoid = [&](TermId t) { return pool_.apply(Function::sigmoid, {t}); };
  EXPECT_EQ(pool_.inverse(pool_.add(pool_.one(), exp(negate(x_)))), sigmoid(x_));
  EXPECT_TRUE(required(Obligation::Kind::finite, x_));
  EXPECT_EQ(pool_.inverse(pool_.add(number(2), pool_.scale(exp(pool_.sub(y_, x_)), Rational(2)))), pool_.scale(sigmoid(pool_.sub(x_, y_)), Rational(1, 2)));
  for (const TermId other : {pool_.inverse(pool_.add(pool_.one(), exp(x_))), pool_.inverse(pool_.add(number(2), exp(negate(x_)))),
                             pool_.inverse(pool_.sub(pool_.one(), exp(negate(x_)))), pool_.inverse(pool_.add(y_, exp(negate(x_)))),
                             pool_.inverse(pool_.add(pool_.one(), pool_.mul(y_, exp(negate(x_))))),
                             pool_.inverse(pool_.add(exp(x_), exp(negate(x_)))),
                             pool_.inverse(pool_.sum({pool_.one(), exp(negate(x_)), exp(y_)}))})
    EXPECT_NE(other, sigmoid(x_));
}

TEST_F(FunctionsTest, Powers) {
  const auto power = [&](TermId base, Rational exponent) {
    return pool_.apply(Function::power, {base, pool_.constant(exponent)});
  };
  EXPECT_EQ(power(x_, 3), pool_.integer_power(x_, 3));
  EXPECT_EQ(power(x_, -2), pool_.inverse(pool_.mul(x_, x_)));
  EXPECT_EQ(power(x_, 0), pool_.one());
  EXPECT_NE(power(x_, Rational(1, 2)), x_);
  EXPECT_NE(power(x_, Rational(3, 2)), pool_.integer_power(x_, 3));
  EXPECT_NE(pool_.apply(Function::power, {x_, y_}), pool_.apply(Function::power, {y_, x_}));
}

TEST_F(FunctionsTest, ExpOfLogarithm) {
  EXPECT_EQ(exp(pool_.apply(Function::log, {x_})), x_);
  EXPECT_TRUE(required(Obligation::Kind::nonzero, x_));
  EXPECT_TRUE(required(Obligation::Kind::nonnegative, x_));
  EXPECT_NE(exp(pool_.scale(pool_.apply(Function::log, {y_}), Rational(1, 2))), y_);
}

TEST_F(FunctionsTest, LogarithmOfAProductWithAnExponential) {
  const TermId q = pool_.add(pool_.mul(x_, x_), number(1));
  EXPECT_EQ(log(exp(x_)), x_);
  EXPECT_TRUE(required(Obligation::Kind::finite, x_));
  EXPECT_EQ(log(pool_.mul(exp(pool_.scale(y_, Rational(-2))), q)), pool_.sub(log(q), pool_.scale(y_, Rational(2))));
  EXPECT_TRUE(required(Obligation::Kind::finite, y_));
  EXPECT_TRUE(required(Obligation::Kind::nonnegative, q));
  // exp(x) + exp(2x) = exp(x) (1 + exp(x))
  EXPECT_EQ(log(pool_.add(exp(x_), pool_.mul(exp(x_), exp(x_)))), pool_.add(x_, log(pool_.add(number(1), exp(x_)))));
  // A log-sum-exp is the same whatever is subtracted from the scores, unless that depends on the summation index.
  const VarId j = pool_.named(VarKind::loop, "j", 8), k = pool_.named(VarKind::loop, "k", 6);
  const TensorId scores = pool_.new_tensor({"s", {8, 6}, false, 0});
  const TermId s = pool_.access(scores, {i_, pool_.index_var(k)});
  const auto log_sum = [&](TermId body) { return log(pool_.reduce(Reduction::sum, {k}, exp(body))); };
  EXPECT_EQ(pool_.add(log_sum(pool_.sub(s, y_)), y_), log_sum(s));
  EXPECT_NE(pool_.add(log_sum(pool_.sub(s, y_)), x_), log_sum(s));
  const TermId other = pool_.access(scores, {pool_.index_var(j), pool_.index_var(k)});
  EXPECT_NE(pool_.add(log_sum(pool_.sub(s, other)), other), log_sum(s));
}

TEST_F(FunctionsTest, LogarithmOfWhatHasNoExponentialInCommon) {
  EXPECT_TRUE(pool_.obligations().empty());
  EXPECT_NE(log(pool_.mul(x_, y_)), pool_.add(log(x_), log(y_)));
  EXPECT_NE(log(pool_.mul(x_, x_)), pool_.scale(log(x_), Rational(2)));  // x may be negative
  EXPECT_NE(log(pool_.inverse(pool_.mul(x_, x_))), pool_.scale(log(x_), Rational(-2)));
  EXPECT_NE(log(pool_.add(exp(x_), y_)), pool_.add(x_, log(y_)));
  EXPECT_NE(log(pool_.add(exp(x_), exp(y_))), pool_.add(x_, y_));
  EXPECT_NE(log(pool_.add(exp(x_), number(1))), x_);
  EXPECT_NE(log(pool_.scale(exp(x_), Rational(-1))), x_);
  EXPECT_NE(log(pool_.scale(exp(x_), Rational(2))), x_);
  EXPECT_NE(log(exp(masked_)), masked_);  // exp(-inf) = 0 first, and log 0 is left alone
  EXPECT_EQ(log(exp(masked_)), log(pool_.zero()));
}

TEST_F(FunctionsTest, LogarithmOfAReciprocal) {
  EXPECT_EQ(log(pool_.inverse(x_)), negate(log(x_)));
  EXPECT_TRUE(required(Obligation::Kind::nonnegative, x_));
  EXPECT_TRUE(required(Obligation::Kind::nonzero, x_));
  EXPECT_EQ(log(pool_.mul(exp(y_), pool_.inverse(x_))), pool_.sub(y_, log(x_)));
  EXPECT_NE(log(pool_.inverse(pool_.mul(x_, y_))), negate(pool_.add(log(x_), log(y_))));
}

TEST_F(FunctionsTest, Maximum) {
  EXPECT_EQ(max({x_, max({y_, x_})}), max({y_, x_}));
  EXPECT_EQ(max({number(2), x_, number(-3)}), max({x_, number(2)}));
  EXPECT_NE(max({x_, number(2)}), max({x_, number(-3)}));
  EXPECT_NE(max({x_, y_}), x_);
  EXPECT_EQ(max({max({x_, number(1)}), number(-1)}), max({x_, number(1)}));
  EXPECT_EQ(max({max({x_, number(1)}), max({y_, number(2)})}), max({x_, y_, number(2)}));
}

TEST_F(FunctionsTest, MaskedScoresVanishFromMaximaAndExponentials) {
  EXPECT_EQ(max({x_, masked_}), x_);
  EXPECT_EQ(max({x_, pool_.add(pool_.scale(masked_, Rational(1, 2)), y_)}), x_);
  EXPECT_EQ(max({masked_, masked_}), masked_);
  EXPECT_EQ(exp(pool_.add(x_, masked_)), pool_.zero());
}

// -(-infinity) is +infinity, and -infinity times something is whatever its sign makes it.
TEST_F(FunctionsTest, OnlyMinusInfinityVanishes) {
  EXPECT_NE(max({x_, negate(masked_)}), x_);
  EXPECT_NE(max({x_, pool_.mul(y_, masked_)}), x_);
  EXPECT_NE(max({x_, pool_.add(masked_, pool_.mul(y_, masked_))}), x_);
  EXPECT_NE(max({x_, pool_.mul(masked_, masked_)}), x_);
  EXPECT_NE(max({x_, pool_.inverse(masked_)}), x_);  // 0
  EXPECT_NE(max({negate(masked_)}), masked_);
  EXPECT_NE(exp(negate(masked_)), pool_.zero());
  EXPECT_NE(exp(pool_.mul(y_, masked_)), pool_.zero());
  EXPECT_NE(exp(pool_.add(masked_, pool_.scale(pool_.mul(y_, masked_), Rational(-1)))), pool_.zero());
}

TEST_F(FunctionsTest, ComparisonsOfIntegersAreGuards) {
  const IndexId j = pool_.index_var(pool_.named(VarKind::loop, "j", 8));
  const TermId difference = pool_.sub(pool_.index_value(i_), pool_.index_value(j));
  EXPECT_EQ(pool_.apply(Function::less_equal, {difference}), pool_.range(pool_.index_sub(i_, j), -kUnbounded, 0));
  EXPECT_EQ(pool_.apply(Function::less, {difference}), pool_.range(pool_.index_sub(i_, j), -kUnbounded, -1));
  EXPECT_EQ(pool_.apply(Function::equal_real, {difference}), pool_.range(pool_.index_sub(i_, j), 0, 0));
  EXPECT_EQ(pool_.apply(Function::less, {pool_.zero()}), pool_.zero());
  EXPECT_EQ(pool_.apply(Function::less_equal, {pool_.zero()}), pool_.one());
  // halves are no index terms
  EXPECT_FALSE(pool_.as_index(pool_.scale(difference, Rational(1, 2))).has_value());
  EXPECT_FALSE(pool_.as_index(pool_.mul(pool_.index_value(i_), pool_.index_value(j))).has_value());
  EXPECT_FALSE(pool_.as_index(pool_.mul(pool_.index_value(i_), pool_.index_value(i_))).has_value());
  EXPECT_FALSE(pool_.as_index(pool_.inverse(pool_.index_value(i_))).has_value());
  EXPECT_FALSE(pool_.as_index(pool_.add(difference, x_)).has_value());
}

TEST_F(FunctionsTest, FunctionsOfGuardedValuesSplit) {
  const TermId guard = pool_.range(i_, 3, kUnbounded);
  const TermId e = exp(pool_.mul(guard, x_));
  EXPECT_EQ(e, pool_.add(pool_.mul(guard, exp(x_)), pool_.complement(guard)));  // exp(0) = 1 elsewhere
}

}  // namespace
}  // namespace shardproof::solvers

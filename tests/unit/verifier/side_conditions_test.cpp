// Signs of differences: a mean of squares is at least the square of the mean.
#include "verifier/kernel/side_conditions.h"

#include <gtest/gtest.h>

namespace shardproof::verifier {
namespace {

using ir::Rational;
using solvers::Obligation;
using solvers::Reduction;
using solvers::TermId;

class VarianceTest : public testing::Test {
 protected:
  VarianceTest() {
    row_ = pool_.element(0, 4);
    column_ = pool_.element(1, 6);
    x_ = input("x");
  }
  TermId input(const char* name) {
    return pool_.access(atoms_.opaque({name, {4, 6}, false, 0}), {pool_.index_var(row_), pool_.index_var(column_)});
  }
  TermId define(TermId value) {
    std::vector<solvers::VarId> dims{row_};
    if (pool_.contains(pool_.node(value).free, column_)) dims.push_back(column_);
    std::vector<solvers::IndexId> indices;
    for (solvers::VarId v : dims) indices.push_back(pool_.index_var(v));
    return pool_.access(atoms_.define("v" + std::to_string(++count_), dims, value), std::move(indices));
  }
  TermId square(TermId t) { return pool_.mul(t, t); }
  TermId sum(TermId t) { return pool_.reduce(Reduction::sum, {column_}, t); }
  TermId less(TermId a, TermId b, Rational weight) { return pool_.sub(a, pool_.scale(b, weight)); }
  bool nonnegative(TermId t) {
    SideConditions conditions(atoms_);
    return conditions.holds({Obligation::Kind::nonnegative, t});
  }
  bool nonzero(TermId t) {
    SideConditions conditions(atoms_);
    return conditions.holds({Obligation::Kind::nonzero, t});
  }

  solvers::TermPool pool_;
  solvers::AtomTable atoms_{pool_, nullptr};
  solvers::VarId row_, column_;
  TermId x_;
  int count_ = 0;
};

TEST_F(VarianceTest, OfWhatIsAddedUp) {
  const TermId squares = sum(square(x_)), total = square(sum(x_));
  const TermId eps = pool_.constant(Rational(1, 1000));
  EXPECT_TRUE(nonnegative(less(squares, total, Rational(1, 6))));
  EXPECT_TRUE(nonnegative(less(squares, total, Rational(1, 7))));
  EXPECT_FALSE(nonnegative(less(squares, total, Rational(1, 5))));
  EXPECT_FALSE(nonzero(less(squares, total, Rational(1, 6))));  // of equal numbers it is 0
  EXPECT_TRUE(nonzero(pool_.add(less(squares, total, Rational(1, 6)), eps)));
  EXPECT_FALSE(nonzero(pool_.sub(less(squares, total, Rational(1, 6)), eps)));
  EXPECT_FALSE(nonnegative(pool_.sub(pool_.scale(total, Rational(1, 6)), squares)));
  EXPECT_FALSE(nonnegative(less(squares, sum(x_), Rational(1, 6))));
  EXPECT_FALSE(nonnegative(less(sum(square(input("y"))), total, Rational(1, 6))));
  EXPECT_FALSE(nonnegative(less(sum(x_), total, Rational(1, 6))));
}

TEST_F(VarianceTest, BehindDefinitions) {
  const TermId mean = define(pool_.scale(sum(x_), Rational(1, 6))), squares = define(pool_.scale(sum(define(square(x_))), Rational(1, 6)));
  const TermId variance = define(pool_.sub(squares, define(square(mean))));
  EXPECT_TRUE(nonnegative(variance));
  EXPECT_TRUE(nonzero(define(pool_.add(variance, pool_.constant(Rational(1, 100000))))));
  EXPECT_FALSE(nonnegative(define(pool_.sub(squares, mean))));
  EXPECT_FALSE(nonnegative(define(pool_.sub(squares, define(square(define(sum(x_))))))));
}

TEST_F(VarianceTest, OfMaskedNumbers) {
  const TermId seen = pool_.range(pool_.index_sub(pool_.index_var(row_), pool_.index_var(column_)), 0, solvers::kUnbounded);
  const TermId some = pool_.mul(seen, x_);
  EXPECT_TRUE(nonnegative(less(sum(square(some)), square(sum(some)), Rational(1, 6))));
  EXPECT_TRUE(nonnegative(less(sum(square(some)), square(sum(some)), Rational(1, 4))));  // of 6 numbers 4 at most are not 0
  EXPECT_FALSE(nonnegative(less(sum(square(some)), square(sum(some)), Rational(1, 3))));
  EXPECT_FALSE(nonnegative(less(sum(square(some)), square(sum(x_)), Rational(1, 6))));
  // Of numbers that may be minus infinity it is not defined.
  const TermId low = pool_.apply(solvers::Function::negative_infinity, {});
  const TermId masked = define(pool_.add(pool_.mul(seen, x_), pool_.mul(pool_.complement(seen), low)));
  EXPECT_FALSE(nonnegative(less(sum(square(masked)), square(sum(masked)), Rational(1, 6))));
}

}  // namespace
}  // namespace shardproof::verifier

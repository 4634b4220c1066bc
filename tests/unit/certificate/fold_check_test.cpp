// What a certificate's term may take the place of, and what not.
#include "verifier/certificate/fold_check.h"

#include <gtest/gtest.h>

namespace shardproof::verifier {
namespace {

using solvers::Function;
using solvers::IndexId;
using solvers::Reduction;
using solvers::TensorId;
using solvers::TermId;
using solvers::VarId;
using solvers::VarKind;

class FoldCheckTest : public ::testing::Test {
 protected:
  IndexId v(VarId var) { return pool_.index_var(var); }
  IndexId c(std::int64_t value) { return pool_.index_constant(value); }
  TermId number(std::int64_t value) { return pool_.constant(ir::Rational(value)); }
  TermId at(TensorId tensor, IndexId index) { return pool_.access(tensor, {index}); }
  TermId exp(TermId x) { return pool_.apply(Function::exp, {x}); }
  bool may(TermId computed, TermId recorded) { return check_.may_replace(computed, recorded).empty(); }

  solvers::TermPool pool_;
  solvers::AtomTable atoms_{pool_, nullptr};
  VarId row_ = pool_.element(0, 8), rank_ = pool_.named(VarKind::mesh, "tp", 4), half_ = pool_.element(1, 4);
  TensorId x_ = atoms_.opaque({"x", {8}, false, 0}), y_ = atoms_.opaque({"y", {8}, false, 0});
  TensorId product_ = atoms_.define("product", {row_}, pool_.mul(at(x_, v(row_)), at(y_, v(row_))));
  TensorId total_ = atoms_.define("total", {}, pool_.reduce(Reduction::sum, {row_}, at(product_, v(row_))));
  // Scores of which the last four are masked.
  TermId low_ = pool_.range(v(row_), 0, 3);
  TensorId masked_ = atoms_.define("masked", {row_}, pool_.add(pool_.mul(low_, at(x_, v(row_))), pool_.mul(pool_.complement(low_), pool_.apply(Function::negative_infinity, {}))));
  FoldCheck check_{atoms_};
};

TEST_F(FoldCheckTest, AnAtomMayStandForItsDefinition) {
  const TermId computed = pool_.mul(at(x_, v(row_)), at(y_, v(row_)));
  EXPECT_TRUE(may(computed, at(product_, v(row_))));
  EXPECT_TRUE(may(pool_.reduce(Reduction::sum, {row_}, computed), pool_.access(total_, {})));
  EXPECT_FALSE(may(computed, pool_.scale(at(product_, v(row_)), ir::Rational(2))));
  EXPECT_FALSE(may(computed, at(x_, v(row_))));
  const IndexId shifted = pool_.index_add(v(half_), c(4));
  EXPECT_TRUE(may(pool_.mul(at(x_, shifted), at(y_, shifted)), at(product_, shifted)));
  EXPECT_FALSE(may(pool_.mul(at(x_, shifted), at(y_, shifted)), at(product_, v(half_))));
}

TEST_F(FoldCheckTest, AnIndexMustLieInsideItsTensor) {
  const IndexId beyond = pool_.index_add(v(row_), c(4));
  const TermId guard = pool_.range(v(row_), 0, 3);
  const TermId computed = pool_.mul(at(x_, beyond), at(y_, beyond));
  EXPECT_FALSE(may(computed, at(product_, beyond)));
  EXPECT_TRUE(may(pool_.mul(guard, computed), pool_.mul(guard, at(product_, beyond))));
  EXPECT_FALSE(may(pool_.mul(pool_.range(v(row_), 0, 4), computed), pool_.mul(pool_.range(v(row_), 0, 4), at(product_, beyond))));
}

TEST_F(FoldCheckTest, AVariableThatTheValueDoesNotHaveIsRefused) {
  const TermId computed = pool_.access(total_, {});
  const TermId other = pool_.sub(at(product_, v(row_)), pool_.mul(at(x_, v(row_)), at(y_, v(row_))));  // 0, once unfolded
  EXPECT_FALSE(may(computed, pool_.add(computed, other)));
  EXPECT_TRUE(may(pool_.add(computed, at(x_, v(row_))), pool_.add(pool_.add(computed, at(x_, v(row_))), other)));
}

TEST_F(FoldCheckTest, MinusInfinityMayNotEnterArithmetic) {
  const TermId nothing = pool_.sub(at(masked_, c(5)), at(masked_, c(6)));  // formally 0
  const TermId computed = at(x_, v(row_));
  EXPECT_FALSE(may(computed, pool_.add(computed, nothing)));
  EXPECT_FALSE(may(computed, pool_.mul(computed, exp(nothing))));
  EXPECT_FALSE(may(number(0), exp(pool_.scale(at(masked_, c(5)), ir::Rational(-1)))));
  EXPECT_FALSE(may(computed, pool_.mul(computed, pool_.mul(at(masked_, c(5)), pool_.inverse(at(masked_, c(5)))))) && pool_.obligations().empty());
  EXPECT_TRUE(may(number(0), exp(at(masked_, c(5)))));  // exp(-inf) is 0
  // As a summand by itself it may stay.
  const TermId scores = pool_.add(pool_.mul(low_, at(x_, v(row_))), pool_.mul(pool_.complement(low_), pool_.apply(Function::negative_infinity, {})));
  EXPECT_TRUE(may(scores, at(masked_, v(row_))));
  EXPECT_FALSE(may(scores, pool_.add(at(masked_, v(row_)), nothing)));
  EXPECT_TRUE(may(pool_.reduce(Reduction::max, {row_}, scores), pool_.reduce(Reduction::max, {row_}, at(masked_, v(row_)))));
}

TEST_F(FoldCheckTest, WhatAnEqualityNeedsIsRecorded) {
  const TensorId quotient = atoms_.define("quotient", {row_}, pool_.mul(at(x_, v(row_)), pool_.inverse(at(y_, v(row_)))));
  pool_.take_obligations();
  EXPECT_TRUE(may(at(x_, v(row_)), pool_.mul(at(quotient, v(row_)), at(y_, v(row_)))));
  ASSERT_EQ(pool_.obligations().size(), 1U);
  EXPECT_EQ(pool_.obligations()[0].kind, solvers::Obligation::Kind::nonzero);
  EXPECT_EQ(pool_.obligations()[0].term, at(y_, v(row_)));
}

TEST_F(FoldCheckTest, ASumMayStandForItsInstances) {
  const TermId sum = pool_.access(total_, {});
  std::vector<TermId> instances;
  for (int i = 0; i < 8; ++i) instances.push_back(pool_.mul(at(x_, c(i)), at(y_, c(i))));
  EXPECT_TRUE(may(pool_.sum(instances), sum));
  instances.pop_back();
  EXPECT_FALSE(may(pool_.sum(instances), sum));
}

TEST_F(FoldCheckTest, PiecesOfABufferAreComparedOneByOne) {
  const VarId place = pool_.element(0, 16);
  const TermId first = pool_.range(v(place), 0, 7), second = pool_.range(v(place), 8, 15);
  const IndexId rest = pool_.index_add(v(place), c(-8));
  const TermId computed = pool_.add(pool_.mul(first, pool_.mul(at(x_, v(place)), at(y_, v(place)))), pool_.mul(second, pool_.mul(at(x_, rest), at(y_, rest))));
  EXPECT_TRUE(may(computed, pool_.add(pool_.mul(first, at(product_, v(place))), pool_.mul(second, at(product_, rest)))));
  EXPECT_FALSE(may(computed, pool_.add(pool_.mul(first, at(product_, v(place))), pool_.mul(second, at(product_, pool_.index_mod(v(place), 4))))));
  EXPECT_TRUE(may(computed, at(product_, pool_.index_mod(v(place), 8))));
}

}  // namespace
}  // namespace shardproof::verifier

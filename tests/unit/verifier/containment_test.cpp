// The law of stand-ins (verifier/containment.h), and its three conditions, one test each.
#include "verifier/containment.h"

#include <gtest/gtest.h>

#include "solvers/evaluate.h"
#include "verifier/kernel/side_conditions.h"

namespace shardproof::verifier {
namespace {

using solvers::Function;
using solvers::IndexId;
using solvers::Obligation;
using solvers::TensorId;
using solvers::TermId;
using solvers::TermKind;
using solvers::VarId;
using solvers::VarKind;

class ContainmentTest : public ::testing::Test {
 protected:
  IndexId v(VarId var) { return pool_.index_var(var); }
  TermId at(TensorId tensor, VarId a, VarId b) { return pool_.access(tensor, {v(a), v(b)}); }
  // An elementwise computation that matches nothing and is as long as asked for.
  TermId strange(int length) {
    TermId t = at(x_, rank_, row_);
    for (int i = 0; i < length; ++i) t = pool_.apply(Function::tanh, {pool_.add(pool_.mul(t, t), at(y_, row_, rank_))});
    return t;
  }
  static bool nothing(TermId) { return false; }
  // As if computed by that many instructions of which none matched.
  TermId after(int instructions, TermId term, const Containment::Keep& keep = nothing) {
    TermId before = strange(1);
    for (int i = 0; i < instructions; ++i) {
      before = containment_.contain(strange(2 + i), {before}, true, nothing);
    }
    return containment_.contain(term, {before}, true, keep);
  }

  solvers::TermPool pool_;
  solvers::AtomTable atoms_{pool_, nullptr};
  solvers::Folder folder_{atoms_};
  Containment containment_{folder_};
  VarId rank_ = pool_.named(VarKind::mesh, "tp", 4);
  VarId row_ = pool_.element(0, 8);
  TensorId x_ = atoms_.opaque({"x", {8, 8}, false, 0});
  TensorId y_ = atoms_.opaque({"y", {8, 8}, false, 0});
};

TEST_F(ContainmentTest, ShortAndFreshValuesStay) {
  EXPECT_EQ(containment_.contain(strange(40), {}, true, nothing), strange(40));
  EXPECT_EQ(after(20, at(x_, rank_, row_)), at(x_, rank_, row_));  // matches again
  EXPECT_FALSE(containment_.strayed(strange(40)));
}

TEST_F(ContainmentTest, EqualTermsGetTheSameStandInAndOthersAnother) {
  const TermId a = after(6, strange(40));
  ASSERT_TRUE(containment_.strayed(a));
  EXPECT_EQ(a, after(6, strange(40)));
  const TermId b = after(6, strange(41));
  ASSERT_TRUE(containment_.strayed(b));
  EXPECT_NE(a, b);
}

TEST_F(ContainmentTest, AStandInDependsOnExactlyWhatTheTermDependsOn) {
  const TermId a = after(6, strange(40));
  EXPECT_EQ(pool_.node(a).free, pool_.node(strange(40)).free);
  // What differs from rank to rank stays different.
  solvers::Substitution zero, one;
  zero.set(rank_, pool_.index_constant(0));
  one.set(rank_, pool_.index_constant(1));
  EXPECT_NE(pool_.substitute(a, zero), pool_.substitute(a, one));
}

// Read as the function it stands for, the contained term has the value of the term: also in guarded pieces.
TEST_F(ContainmentTest, TheStandInReadAsItsTermIsTheTerm) {
  const TermId first = pool_.mul(pool_.range(v(row_), 0, 3), strange(3)),
               second = pool_.mul(pool_.range(v(row_), 4, 7), strange(30));
  const TermId term = pool_.add(first, second);
  const TermId contained = after(6, term);
  ASSERT_NE(contained, term);
  EXPECT_EQ(pool_.mul(pool_.range(v(row_), 0, 3), contained), first);  // a small piece stays as it is
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    for (std::int64_t row = 0; row < 8; ++row) {
      solvers::Assignment values;
      values.set(rank_, rank);
      values.set(row_, row);
      const solvers::TensorContents inputs = solvers::hashed_contents(pool_, 7);
      solvers::TensorContents contents = inputs;
      contents.real = [&](TensorId tensor, const std::vector<std::int64_t>& indices) {
        if (!pool_.tensor(tensor).unknown) return inputs.real(tensor, indices);
        EXPECT_EQ(indices.size(), 2U);
        solvers::Assignment own;
        const std::vector<VarId>& variables = pool_.members(pool_.node(strange(30)).free);
        for (std::size_t k = 0; k < variables.size(); ++k) own.set(variables[k], indices[k]);
        return solvers::evaluate(pool_, strange(30), own, inputs);
      };
      EXPECT_DOUBLE_EQ(solvers::evaluate(pool_, contained, values, contents),
                       solvers::evaluate(pool_, term, values, inputs));
    }
  }
}

// Many lost pieces of an arithmetic result become one stand-in, which is still a function of exactly what the sum depends on.
TEST_F(ContainmentTest, ManyLostPiecesBecomeOneFunctionOfTheSum) {
  const VarId wide = pool_.element(1, 40);
  const auto in_pieces = [&](int count, int length) {
    std::vector<TermId> pieces;
    for (int k = 0; k < count; ++k) pieces.push_back(pool_.mul(pool_.range(v(wide), k, k), after(6, strange(length + k))));
    return pool_.sum(pieces);
  };
  const TermId few = in_pieces(5, 40), many = in_pieces(40, 40), others = in_pieces(40, 41);
  EXPECT_EQ(containment_.contain(few, {}, true, nothing), few);
  EXPECT_EQ(containment_.contain(many, {}, false, nothing), many);  // moving elements makes no products
  const TermId merged = containment_.contain(many, {}, true, nothing);
  EXPECT_EQ(pool_.node(merged).kind, TermKind::access);
  EXPECT_TRUE(containment_.strayed(merged));
  EXPECT_EQ(pool_.node(merged).free, pool_.node(many).free);
  EXPECT_EQ(merged, containment_.contain(many, {}, true, nothing));
  EXPECT_NE(merged, containment_.contain(others, {}, true, nothing));
  // A summand that must stay does.
  const TermId kept = pool_.mul(pool_.range(v(wide), 3, 3), after(6, strange(43)));
  const TermId partly = containment_.contain(many, {}, true, [&](TermId t) { return t == after(6, strange(43)); });
  EXPECT_EQ(pool_.mul(pool_.range(v(wide), 3, 3), pool_.sub(partly, kept)), pool_.mul(pool_.range(v(wide), 3, 3), containment_.contain(pool_.sub(many, kept), {}, true, nothing)));
}

// Whether the result of a loop depends on a carried value is read off the term, so a carried value may not hide.
TEST_F(ContainmentTest, CarriedValuesStayVisible) {
  const TensorId carried = atoms_.opaque({"carried", {8, 8}, false, 0});
  const std::function<bool(TermId)> keep = [&](TermId t) {
    const solvers::TermNode& n = pool_.node(t);
    if (n.kind == TermKind::access && n.tensor == carried) return true;
    for (const solvers::Monomial& m : n.monomials)
      for (const solvers::Factor& f : m.factors)
        if (keep(f.term)) return true;
    for (TermId a : n.arguments)
      if (keep(a)) return true;
    return n.kind == TermKind::reduce && keep(n.body);
  };
  const TermId sum = pool_.add(at(carried, rank_, row_), strange(40));
  const TermId contained = after(6, sum, keep);
  EXPECT_TRUE(containment_.strayed(contained));
  const TermId rest = pool_.sub(contained, at(carried, rank_, row_));
  EXPECT_FALSE(keep(rest));  // an accumulation, as before
  EXPECT_EQ(pool_.node(rest).kind, TermKind::access);
  // Where it cannot be taken out, all stays.
  const TermId product = pool_.apply(Function::sin, {pool_.mul(at(carried, rank_, row_), strange(40))});
  EXPECT_EQ(after(6, product, keep), product);
  const TermId scalar_carried = pool_.access(atoms_.opaque({"carried scalar", {}, false, 0}), {});
  const TermId scalar =
      pool_.apply(Function::sin, {pool_.mul(scalar_carried, pool_.apply(Function::cos, {scalar_carried}))});
  EXPECT_EQ(after(20, scalar, [&](TermId t) { return t == scalar || t == scalar_carried; }), scalar);
}

// Minus infinity somewhere in a term must not vanish behind a stand-in.
TEST_F(ContainmentTest, NothingIsAssumedOfAStandIn) {
  const TermId a = after(6, strange(40));
  SideConditions conditions(atoms_);
  for (const auto kind : {Obligation::Kind::finite, Obligation::Kind::nonzero, Obligation::Kind::nonnegative})
    EXPECT_FALSE(conditions.holds({kind, a}));
  EXPECT_TRUE(conditions.holds({Obligation::Kind::finite, at(x_, rank_, row_)}));
}

TEST_F(ContainmentTest, WhatReadsAStandInStraysAtOnce) {
  const TermId a = after(6, strange(40));
  const TermId b = containment_.contain(pool_.mul(a, at(x_, rank_, row_)), {a}, true, nothing);
  EXPECT_EQ(pool_.node(b).kind, TermKind::access);
  EXPECT_FALSE(containment_.matches(b));
  EXPECT_FALSE(containment_.matches(a));
}

}  // namespace
}  // namespace shardproof::verifier

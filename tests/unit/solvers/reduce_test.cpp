// One rule of reduce.cpp at a time: that it fires, that the value stays, and that each of its side conditions holds
// it back.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/solvers/raw_term.h"

namespace shardproof::solvers::testing {
namespace {

class ReduceTest : public ::testing::Test {
 protected:
  ReduceTest() {
    a_ = pool_.new_tensor({"A", {1024}, false, 0});
    b_ = pool_.new_tensor({"B", {1024}, false, 0});
    c_ = pool_.new_tensor({"C", {64, 64}, false, 0});
  }

  VarId bound(const char* name, std::int64_t extent) { return pool_.named(VarKind::loop, name, extent); }
  VarId free(const char* name, std::int64_t extent) {
    free_.push_back(pool_.named(VarKind::mesh, name, extent));
    return free_.back();
  }
  Index v(VarId var) const { return variable(var); }
  Term at(TensorId tensor, Index e) const { return access(tensor, {std::move(e)}); }
  Term masked(Term condition, Term then) const {
    return select(std::move(condition), std::move(then), apply(Function::negative_infinity, {}));
  }

  // The normal form, which has the value of the expression at every assignment of the free variables.
  TermId checked(const Term& raw) {
    const TermId built = build(pool_, raw);
    Random random(7);
    const TensorContents contents = hashed_contents(pool_, 3);
    for (const Assignment& values : assignments(pool_, free_, 300, random)) {
      const double expected = evaluate(pool_, raw, values, contents);
      EXPECT_FALSE(std::isnan(expected)) << to_string(pool_, raw);
      const double found = evaluate(pool_, built, values, contents);
      EXPECT_TRUE(close(expected, found)) << "expected " << expected << ", found " << found << "\n"
                                          << to_string(pool_, raw) << "\n-> " << pool_.to_string(built);
      if (HasFailure()) break;
    }
    return built;
  }

  // Extents of the bound variables of a reduction (not of one inside a product).
  std::vector<std::int64_t> extents(TermId term) const {
    std::vector<std::int64_t> result;
    if (pool_.node(term).kind != TermKind::reduce) return {-1};
    for (VarId var : pool_.node(term).bound) result.push_back(pool_.var(var).extent);
    return result;
  }
  using Extents = std::vector<std::int64_t>;
  // The first reduction among the factors.
  TermId reduce_part(TermId term) const {
    for (const Monomial& m : pool_.monomials_of(term))
      for (const Factor& f : m.factors)
        if (pool_.node(f.term).kind == TermKind::reduce) return f.term;
    return term;
  }

  TermPool pool_;
  TensorId a_, b_, c_;
  std::vector<VarId> free_;
};

// --- rule 1

TEST_F(ReduceTest, CoefficientsAndFreeFactorsLeave) {
  const VarId i = bound("i", 5), f = free("f", 3);
  const TermId sum =
      checked(reduce(Reduction::sum, {i}, multiply({constant(Rational(2, 3)), at(a_, v(i)), at(b_, v(f))})));
  EXPECT_EQ(sum,
            pool_.scale(pool_.mul(build(pool_, at(b_, v(f))), build(pool_, reduce(Reduction::sum, {i}, at(a_, v(i))))),
                        Rational(2, 3)));
}

TEST_F(ReduceTest, VariablesThatDoNotOccurMultiply) {
  const VarId i = bound("i", 5), j = bound("j", 7);
  EXPECT_EQ(checked(reduce(Reduction::sum, {i, j}, constant(1))), pool_.constant(35));
  EXPECT_EQ(checked(reduce(Reduction::sum, {i, j}, at(a_, v(i)))),
            pool_.scale(build(pool_, reduce(Reduction::sum, {i}, at(a_, v(i)))), Rational(7)));
  // a maximum does not multiply
  EXPECT_EQ(checked(reduce(Reduction::max, {i, j}, at(a_, v(i)))),
            build(pool_, reduce(Reduction::max, {i}, at(a_, v(i)))));
  EXPECT_EQ(checked(reduce(Reduction::max, {i, j}, constant(3))), pool_.constant(3));
}

TEST_F(ReduceTest, IndependentFactorsBecomeAProductOfSums) {
  const VarId i = bound("i", 5), j = bound("j", 7);
  const TermId product =
      checked(reduce(Reduction::sum, {i, j}, multiply({at(a_, v(i)), at(b_, v(j)), range(v(j), 1, 5)})));
  EXPECT_EQ(product, pool_.mul(build(pool_, reduce(Reduction::sum, {i}, at(a_, v(i)))),
                               build(pool_, reduce(Reduction::sum, {j}, multiply({at(b_, v(j)), range(v(j), 1, 5)})))));
  // one factor with both keeps them together
  EXPECT_EQ(extents(checked(reduce(Reduction::sum, {i, j}, multiply({at(a_, v(i)), access(c_, {v(i), v(j)})})))),
            (Extents{5, 7}));
  // (max over i, j of x_i * y_j is no product of maxima)
  EXPECT_EQ(extents(checked(reduce(Reduction::max, {i, j}, multiply({at(a_, v(i)), at(b_, v(j))})))), (Extents{5, 7}));
}

TEST_F(ReduceTest, PowersStayInside) {
  const VarId i = bound("i", 4), j = bound("j", 4);
  const Term inner = reduce(Reduction::sum, {j}, access(c_, {v(i), v(j)}));
  const TermId squares = checked(reduce(Reduction::sum, {i}, multiply({inner, inner})));
  EXPECT_EQ(extents(squares), (Extents{4}));  // sum_i (sum_j)^2 is not sum_ij
  EXPECT_NE(squares, build(pool_, reduce(Reduction::sum, {i, j},
                                         multiply({access(c_, {v(i), v(j)}), access(c_, {v(i), v(j)})}))));
}

// --- rule 2

TEST_F(ReduceTest, NestedReductionsOfOneKindFlatten) {
  const VarId i = bound("i", 4), j = bound("j", 5);
  for (const Reduction op : {Reduction::sum, Reduction::max}) {
    const Term inner = reduce(op, {j}, access(c_, {v(i), v(j)}));
    EXPECT_EQ(checked(reduce(op, {i}, inner)), build(pool_, reduce(op, {i, j}, access(c_, {v(i), v(j)}))));
  }
  EXPECT_EQ(checked(reduce(Reduction::sum, {i},
                           multiply({at(a_, v(i)), reduce(Reduction::sum, {j}, access(c_, {v(i), v(j)}))}))),
            build(pool_, reduce(Reduction::sum, {i, j}, multiply({at(a_, v(i)), access(c_, {v(i), v(j)})}))));
  // a sum of maxima, a maximum of sums, a maximum of a scaled maximum
  EXPECT_EQ(extents(checked(reduce(Reduction::sum, {i}, reduce(Reduction::max, {j}, access(c_, {v(i), v(j)}))))),
            (Extents{4}));
  EXPECT_EQ(extents(checked(reduce(Reduction::max, {i}, reduce(Reduction::sum, {j}, access(c_, {v(i), v(j)}))))),
            (Extents{4}));
  EXPECT_EQ(extents(checked(reduce(Reduction::max, {i},
                                   multiply({constant(-1), reduce(Reduction::max, {j}, access(c_, {v(i), v(j)}))})))),
            (Extents{4}));
}

// --- rule 3

TEST_F(ReduceTest, EqualityGuardSubstitutes) {
  const VarId i = bound("i", 8), f = free("f", 8);
  // a gather: sum_i [i = f] A[i] = A[f]
  EXPECT_EQ(
      checked(reduce(Reduction::sum, {i}, multiply({range(linear(0, {{1, v(i)}, {-1, v(f)}}), 0, 0), at(a_, v(i))}))),
      build(pool_, at(a_, v(f))));
  // i = 7 - f
  EXPECT_EQ(
      checked(reduce(Reduction::sum, {i}, multiply({range(linear(0, {{1, v(i)}, {1, v(f)}}), 7, 7), at(a_, v(i))}))),
      build(pool_, at(a_, linear(7, {{-1, v(f)}}))));
}

TEST_F(ReduceTest, EqualityGuardKeepsTheExtent) {
  const VarId i = bound("i", 4), f = free("f", 8);
  // f is out of range half of the time
  EXPECT_EQ(
      checked(reduce(Reduction::sum, {i}, multiply({range(linear(0, {{1, v(i)}, {-1, v(f)}}), 0, 0), at(a_, v(i))}))),
      build(pool_, multiply({range(v(f), 0, 3), at(a_, v(f))})));
  EXPECT_EQ(
      checked(reduce(Reduction::sum, {i}, multiply({range(linear(0, {{1, v(i)}, {-1, v(f)}}), 2, 2), at(a_, v(i))}))),
      build(pool_, multiply({range(v(f), 0, 1), at(a_, linear(2, {{1, v(f)}}))})));
}

TEST_F(ReduceTest, GuardOfOneStrideSubstitutesTheQuotient) {
  const VarId i = bound("i", 8), f = free("f", 40);
  for (const std::int64_t k : {4, -4}) {
    // 0 <= f - 4i <= 3: i = f div 4, kept in range
    const TermId picked = checked(
        reduce(Reduction::sum, {i},
               multiply({range(linear(0, {{1, v(f)}, {k, v(i)}}), k < 0 ? 0 : 20, k < 0 ? 3 : 23), at(a_, v(i))})));
    EXPECT_EQ(pool_.node(picked).height, 0) << pool_.to_string(picked);
  }
}

// A buffer cut over ranks into shards as long as one member: the member's elements, wherever the shards begin.
TEST_F(ReduceTest, GuardOnANumberWithBoundDigitsKeepsItWhole) {
  const VarId h = bound("h", 8), l = bound("l", 4), f = free("f", 5);
  const auto member = [&](const Index& position) { return multiply({range(position, 6, 9), at(a_, linear(-6, {{1, position}})), at(b_, v(f))}); };
  const TermId cut = checked(reduce(Reduction::sum, {h, l}, member(linear(0, {{4, v(h)}, {1, v(l)}}))));
  EXPECT_EQ(cut, checked(reduce(Reduction::sum, {l}, multiply({at(a_, v(l)), at(b_, v(f))})))) << pool_.to_string(cut);
  const TermId reversed = checked(reduce(Reduction::sum, {h, l}, member(linear(31, {{-4, v(h)}, {-1, v(l)}}))));
  EXPECT_EQ(extents(reduce_part(reversed)), Extents{4}) << pool_.to_string(reversed);
  // One element, said of its digits.
  const TermId one = checked(reduce(Reduction::sum, {h, l}, multiply({range(linear(0, {{4, v(h)}, {1, v(l)}}), 6, 6), at(a_, linear(0, {{4, v(h)}, {1, v(l)}}))})));
  EXPECT_EQ(one, checked(at(a_, number(6))));
  // The digits occur on their own: then the rank is fixed.
  checked(reduce(Reduction::sum, {h, l}, multiply({range(linear(0, {{4, v(h)}, {1, v(l)}}), 6, 9), at(a_, v(l)), at(b_, v(h))})));
}

TEST_F(ReduceTest, WiderAndNarrowerGuardsDoNotFixTheVariable) {
  const VarId i = bound("i", 8), f = free("f", 40);
  for (const std::int64_t width : {2, 3, 5, 8}) {
    const TermId sum = checked(
        reduce(Reduction::sum, {i}, multiply({range(linear(0, {{1, v(f)}, {-4, v(i)}}), 0, width - 1), at(a_, v(i))})));
    EXPECT_EQ(pool_.node(sum).height, 1) << width;
  }
}

TEST_F(ReduceTest, EqualityWithTheVariableOnBothSidesIsNotSolved) {
  const VarId i = bound("i", 12), f = free("f", 12);
  // i + (i mod 5) = f has no unique shape; i would be replaced by a term of itself
  const TermId sum =
      checked(reduce(Reduction::sum, {i},
                     multiply({range(linear(0, {{1, v(i)}, {1, mod(v(i), 5)}, {-1, v(f)}}), 0, 0), at(a_, v(i))})));
  EXPECT_EQ(pool_.node(sum).height, 1);
}

// --- rule 4

TEST_F(ReduceTest, GuardOnTheVariableAloneNarrows) {
  const VarId i = bound("i", 10);
  EXPECT_EQ(extents(checked(reduce(Reduction::sum, {i}, multiply({range(v(i), 3, 7), at(a_, v(i))})))), (Extents{5}));
  EXPECT_EQ(extents(checked(reduce(Reduction::sum, {i}, multiply({range(v(i), -kUnbounded, 7), at(a_, v(i))})))),
            (Extents{8}));
  EXPECT_EQ(extents(checked(reduce(Reduction::sum, {i}, multiply({range(v(i), 4, kUnbounded), at(a_, v(i))})))),
            (Extents{6}));
  EXPECT_EQ(checked(reduce(Reduction::sum, {i}, multiply({range(v(i), 4, 4), at(a_, v(i))}))),
            build(pool_, at(a_, number(4))));
}

TEST_F(ReduceTest, GuardWithOthersNarrowsToWhatTheyAllow) {
  const VarId i = bound("i", 10), f = free("f", 4);
  // i <= f + 2: i <= 5 for every f, and the guard stays
  const TermId sum = checked(
      reduce(Reduction::sum, {i}, multiply({range(linear(0, {{1, v(i)}, {-1, v(f)}}), -kUnbounded, 2), at(a_, v(i))})));
  EXPECT_EQ(extents(sum), (Extents{6}));
  EXPECT_EQ(extents(checked(reduce(Reduction::sum, {i},
                                   multiply({range(linear(0, {{2, v(i)}, {1, v(f)}}), 9, kUnbounded), at(a_, v(i))})))),
            (Extents{7}));
  EXPECT_EQ(
      extents(checked(reduce(Reduction::sum, {i},
                             multiply({range(linear(0, {{-3, v(i)}, {1, v(f)}}), -10, kUnbounded), at(a_, v(i))})))),
      (Extents{5}));
  EXPECT_EQ(
      extents(checked(reduce(Reduction::sum, {i},
                             multiply({range(linear(0, {{-3, v(i)}, {1, v(f)}}), -kUnbounded, -10), at(a_, v(i))})))),
      (Extents{6}));
}

// --- rule 5

TEST_F(ReduceTest, DigitsOfAVariableSplitIt) {
  const VarId i = bound("i", 12);
  const TermId table = checked(reduce(Reduction::sum, {i}, access(c_, {div(v(i), 4), mod(v(i), 4)})));
  EXPECT_EQ(extents(table), (Extents{3, 4}));
  // a partition does not change the sum: the same table read in another order of loops
  EXPECT_EQ(checked(reduce(Reduction::sum, {i}, access(c_, {mod(v(i), 3), div(v(i), 3)}))), table);
  EXPECT_EQ(extents(checked(reduce(Reduction::max, {i}, access(c_, {div(v(i), 4), mod(v(i), 4)})))), (Extents{3, 4}));
}

TEST_F(ReduceTest, DigitsThatDoNotDivideTheExtentDoNotSplit) {
  const VarId i = bound("i", 10);
  EXPECT_EQ(extents(checked(reduce(Reduction::sum, {i}, access(c_, {div(v(i), 4), mod(v(i), 4)})))), (Extents{10}));
  EXPECT_EQ(extents(checked(reduce(Reduction::max, {i}, access(c_, {div(v(i), 4), mod(v(i), 4)})))), (Extents{10}));
}

// --- rule 6

TEST_F(ReduceTest, ChunksMerge) {
  const VarId r = bound("r", 4), i = bound("i", 8);
  for (const Reduction op : {Reduction::sum, Reduction::max}) {
    EXPECT_EQ(extents(checked(reduce(op, {r, i}, at(a_, linear(0, {{8, v(r)}, {1, v(i)}}))))), (Extents{32}));
    EXPECT_EQ(extents(checked(reduce(op, {r, i}, at(a_, linear(5, {{-8, v(r)}, {-1, v(i)}, {0, v(r)}}))))),
              (Extents{32}));
    EXPECT_EQ(extents(checked(reduce(op, {r, i}, at(a_, linear(24, {{-8, v(r)}, {1, v(i)}}))))),
              (Extents{32}));  // reversed chunks
  }
  const VarId m = bound("m", 3);
  EXPECT_EQ(extents(checked(reduce(Reduction::sum, {i, m, r}, at(a_, linear(0, {{32, v(m)}, {8, v(r)}, {1, v(i)}}))))),
            (Extents{96}));
}

TEST_F(ReduceTest, ChunksOfAnotherStrideDoNotMerge) {
  const VarId r = bound("r", 4), i = bound("i", 8);
  for (const Reduction op : {Reduction::sum, Reduction::max})
    for (const std::int64_t stride : {4, 7, 9, 16}) {
      EXPECT_EQ(extents(checked(reduce(op, {r, i}, at(a_, linear(0, {{stride, v(r)}, {1, v(i)}}))))).size(), 2U)
          << stride;  // overlap or gap
      EXPECT_EQ(extents(checked(reduce(op, {r, i}, at(a_, linear(64, {{-stride, v(r)}, {1, v(i)}}))))).size(), 2U)
          << stride;
    }
}

// The stride fits one access, but the chunk number is read elsewhere too: merging would leave it behind.
TEST_F(ReduceTest, ChunkNumberThatStaysForbidsMerging) {
  const VarId r = bound("r", 4), i = bound("i", 8);
  const Index joined = linear(0, {{8, v(r)}, {1, v(i)}});
  for (const Reduction op : {Reduction::sum, Reduction::max}) {
    EXPECT_EQ(extents(checked(reduce(op, {r, i}, multiply({at(a_, joined), access(c_, {v(r), v(i)})})))),
              (Extents{4, 8}));
    EXPECT_EQ(
        extents(checked(reduce(op, {r, i}, multiply({at(a_, joined), at(b_, linear(1, {{8, v(r)}, {-1, v(i)}}))}))))
            .size(),
        2U);
    EXPECT_EQ(
        extents(checked(reduce(op, {r, i}, multiply({at(a_, joined), at(b_, linear(0, {{9, v(r)}, {1, v(i)}}))})))),
        (Extents{4, 8}));
    EXPECT_EQ(extents(checked(reduce(op, {r, i}, multiply({at(a_, joined), value(v(i))})))), (Extents{4, 8}));
  }
}

TEST_F(ReduceTest, MergedGuards) {
  const VarId r = bound("r", 4), i = bound("i", 8), f = free("f", 32);
  const Index joined = linear(0, {{8, v(r)}, {1, v(i)}});
  EXPECT_EQ(
      extents(checked(reduce(Reduction::sum, {r, i},
                             multiply({at(a_, joined), range(linear(0, {{1, joined}, {-1, v(f)}}), -kUnbounded, 0)})))),
      (Extents{32}));
  EXPECT_EQ(extents(checked(reduce(Reduction::sum, {r, i}, multiply({at(a_, joined), range(joined, 5, 20)})))),
            (Extents{16}));
}

// --- adjacent sums

TEST_F(ReduceTest, AdjacentSumsJoin) {
  const VarId i = bound("i", 5), j = bound("j", 3), k = bound("k", 8), f = free("f", 4);
  const auto body = [&](Index e) { return multiply({at(a_, e), access(c_, {v(f), linear(1, {{2, e}})})}); };
  const Term head = reduce(Reduction::sum, {i}, body(v(i)));
  const auto tail = [&](std::int64_t from) { return reduce(Reduction::sum, {j}, body(linear(from, {{1, v(j)}}))); };
  const TermId whole = build(pool_, reduce(Reduction::sum, {k}, body(v(k))));
  EXPECT_EQ(checked(add({head, tail(5)})), whole);
  EXPECT_EQ(checked(add({tail(5), head})), whole);
  EXPECT_EQ(checked(multiply({at(b_, v(f)), add({tail(5), head})})), pool_.mul(whole, build(pool_, at(b_, v(f)))));
  for (const std::int64_t from : {0, 4, 6, 12})
    EXPECT_EQ(pool_.monomials_of(checked(add({head, tail(from)}))).size(), 2U) << from;  // overlap, gap
  EXPECT_EQ(pool_.monomials_of(checked(add({head, multiply({constant(2), tail(5)})}))).size(), 2U);
  EXPECT_EQ(pool_.monomials_of(checked(add({multiply({head, at(b_, v(f))}), tail(5)}))).size(), 2U);
  EXPECT_EQ(pool_.monomials_of(checked(add({multiply({head, head}), multiply({head, tail(5)})}))).size(), 2U);
}

TEST_F(ReduceTest, AdjacentSumsNeedTheSameOtherRanges) {
  const VarId i5 = bound("i5", 5), i2 = bound("i2", 2), j3 = bound("j3", 3), j4 = bound("j4", 4);
  const Term head = reduce(Reduction::sum, {i5, j3}, access(c_, {v(i5), v(j3)}));
  const auto tail = [&](VarId j) {
    return reduce(Reduction::sum, {i2, j}, access(c_, {linear(5, {{1, v(i2)}}), v(j)}));
  };
  EXPECT_EQ(extents(checked(add({head, tail(j3)}))), (Extents{3, 7}));
  EXPECT_EQ(pool_.monomials_of(checked(add({head, tail(j4)}))).size(), 2U);
}

TEST_F(ReduceTest, SquaresOfAdjacentSumsStayApart) {
  const VarId i = bound("i", 5), j = bound("j", 3);
  const Term head = reduce(Reduction::sum, {i}, at(a_, v(i))),
             tail = reduce(Reduction::sum, {j}, at(a_, linear(5, {{1, v(j)}})));
  EXPECT_EQ(pool_.monomials_of(checked(add({multiply({head, head}), multiply({tail, tail})}))).size(), 2U);
}

TEST_F(ReduceTest, AdjacentSumsOfDifferentBodiesStayApart) {
  const VarId i = bound("i", 5), j = bound("j", 3);
  const Term head = reduce(Reduction::sum, {i}, multiply({at(a_, v(i)), at(b_, linear(0, {{2, v(i)}}))}));
  const auto with = [&](Index a, Index b) {
    return add({head, reduce(Reduction::sum, {j}, multiply({at(a_, a), at(b_, b)}))});
  };
  EXPECT_EQ(extents(checked(with(linear(5, {{1, v(j)}}), linear(10, {{2, v(j)}})))), (Extents{8}));
  EXPECT_EQ(pool_.monomials_of(checked(with(linear(5, {{1, v(j)}}), linear(9, {{2, v(j)}})))).size(), 2U);
  EXPECT_EQ(pool_.monomials_of(checked(with(linear(5, {{1, v(j)}}), linear(10, {{3, v(j)}})))).size(), 2U);
  EXPECT_EQ(pool_.monomials_of(checked(with(linear(7, {{-1, v(j)}}), linear(14, {{-2, v(j)}})))).size(),
            2U);  // backwards
  // maxima do not add up
  EXPECT_EQ(pool_
                .monomials_of(checked(add({reduce(Reduction::max, {i}, at(a_, v(i))),
                                           reduce(Reduction::max, {j}, at(a_, linear(5, {{1, v(j)}})))})))
                .size(),
            2U);
}

// --- maxima

TEST_F(ReduceTest, SummandsLeaveMaximaButFactorsDoNot) {
  const VarId i = bound("i", 6), f = free("f", 4);
  EXPECT_EQ(checked(reduce(Reduction::max, {i}, add({at(a_, v(i)), at(b_, v(f))}))),
            pool_.add(build(pool_, at(b_, v(f))), build(pool_, reduce(Reduction::max, {i}, at(a_, v(i))))));
  EXPECT_EQ(extents(checked(reduce(Reduction::max, {i}, multiply({at(a_, v(i)), at(b_, v(f))})))),
            (Extents{6}));  // B[f] may be negative
  EXPECT_EQ(extents(checked(reduce(Reduction::max, {i}, multiply({constant(-2), at(a_, v(i))})))), (Extents{6}));
}

TEST_F(ReduceTest, AdjacentMaximaBecomeOne) {
  const VarId f = free("f", 4), p = bound("p", 8), q = bound("q", 5), all = bound("all", 13);
  const auto maximum = [&](VarId w, std::int64_t from, TensorId of) {
    return reduce(Reduction::max, {w}, multiply({at(of, linear(from, {{1, v(w)}, {20, v(f)}})), at(b_, v(f))}));
  };
  const TermId whole = checked(maximum(all, 3, a_));
  EXPECT_EQ(checked(apply(Function::max, {maximum(p, 3, a_), maximum(q, 11, a_)})), whole);
  EXPECT_EQ(checked(apply(Function::max, {maximum(q, 11, a_), maximum(p, 3, a_)})), whole);
  // A gap, an overlap, something else in the second part, a summand on one side only.
  EXPECT_NE(checked(apply(Function::max, {maximum(p, 3, a_), maximum(q, 12, a_)})), whole);
  EXPECT_NE(checked(apply(Function::max, {maximum(p, 3, a_), maximum(q, 10, a_)})), whole);
  EXPECT_NE(checked(apply(Function::max, {maximum(p, 3, a_), maximum(q, 11, b_)})), whole);
  EXPECT_NE(checked(apply(Function::max, {maximum(p, 3, a_), add({maximum(q, 11, a_), constant(1)})})), whole);
  EXPECT_NE(checked(apply(Function::max, {maximum(p, 3, a_), multiply({constant(2), maximum(q, 11, a_)})})), whole);
}

TEST_F(ReduceTest, FreeGuardsSplitMaxima) {
  const VarId i = bound("i", 6), f = free("f", 8);
  const TermId split =
      checked(reduce(Reduction::max, {i},
                     add({multiply({range(v(f), 2, 4), at(a_, v(i))}), multiply({range(v(f), 4, 6), at(b_, v(i))})})));
  EXPECT_EQ(pool_.node(split).kind, TermKind::poly);
}

TEST_F(ReduceTest, GuardsOnTheVariableSplitMaxima) {
  const VarId i = bound("i", 8);
  // what the guard removes is 0, not nothing
  const TermId split = checked(reduce(Reduction::max, {i}, multiply({range(v(i), 2, 5), at(a_, v(i))})));
  EXPECT_EQ(pool_.node(split).function, Function::max);
  checked(reduce(Reduction::max, {i}, multiply({range(v(i), 2, 5), constant(-1), at(a_, v(i)), at(a_, v(i))})));
}

TEST_F(ReduceTest, MaskedRangeLeavesTheMaximum) {
  const VarId i = bound("i", 8);
  EXPECT_EQ(extents(checked(reduce(Reduction::max, {i}, masked(range(v(i), 2, 5), at(a_, v(i)))))), (Extents{4}));
  EXPECT_EQ(checked(reduce(Reduction::max, {i}, masked(range(v(i), 9, 12), at(a_, v(i))))),
            build(pool_, apply(Function::negative_infinity, {})));
}

TEST_F(ReduceTest, MaximaNarrowOnlyWhereEverythingRemovedIsMasked) {
  const VarId i = bound("i", 16), f = free("f", 4);
  const Term causal = range(linear(0, {{1, v(i)}, {-1, v(f)}}), -kUnbounded, 2);  // i <= f + 2 <= 5
  EXPECT_EQ(extents(checked(reduce(Reduction::max, {i}, masked(causal, at(a_, v(i)))))), (Extents{6}));
  // 0 instead of -infinity, or something else, is removed: it counts
  EXPECT_EQ(extents(checked(reduce(Reduction::max, {i}, multiply({causal, at(a_, v(i))})))), (Extents{16}));
  EXPECT_EQ(extents(checked(reduce(Reduction::max, {i}, select(causal, at(a_, v(i)), at(b_, v(i)))))), (Extents{16}));
  EXPECT_EQ(extents(checked(reduce(Reduction::max, {i}, multiply({constant(-1), masked(causal, at(a_, v(i)))})))),
            (Extents{16}));
  // from below: i >= f + 10 >= 10
  const Term late = range(linear(0, {{1, v(i)}, {-1, v(f)}}), 10, kUnbounded);
  EXPECT_EQ(extents(checked(reduce(Reduction::max, {i}, masked(late, at(a_, v(i)))))), (Extents{6}));
  EXPECT_EQ(extents(checked(reduce(Reduction::max, {i}, multiply({late, at(a_, v(i))})))), (Extents{16}));
  // both ends, one of them masked
  const Term window = multiply({causal, range(linear(0, {{1, v(i)}, {-1, v(f)}}), 1, kUnbounded)});
  EXPECT_EQ(extents(checked(reduce(Reduction::max, {i}, masked(window, at(a_, v(i)))))), (Extents{5}));
  // above the window everything is masked, below it is not
  const Index ahead = linear(0, {{1, v(i)}, {-1, v(f)}});
  EXPECT_EQ(extents(checked(
                reduce(Reduction::max, {i},
                       select(range(ahead, -kUnbounded, 0), at(b_, v(i)), masked(range(ahead, 1, 2), at(a_, v(i))))))),
            (Extents{16}));
}

// No index satisfies the guard, though no interval says so: all is masked, and nothing may be cut to an empty range.
TEST_F(ReduceTest, MaximaDoNotNarrowToNothing) {
  const VarId i = bound("i", 4), f = free("f", 2);
  const Term never = range(linear(0, {{3, v(i)}, {1, v(f)}}), 2, 2);
  const TermId max = checked(reduce(Reduction::max, {i}, masked(never, at(a_, v(i)))));
  if (pool_.node(max).kind == TermKind::reduce) {
    for (std::int64_t extent : extents(max)) EXPECT_GE(extent, 1);
  }
}

// --- rule 7

TEST_F(ReduceTest, NamesAndOrderOfBoundVariablesDoNotMatter) {
  const VarId i = bound("i", 5), j = bound("j", 7), k = bound("k", 5);
  const TermId sum = checked(reduce(Reduction::sum, {i, j}, access(c_, {v(i), v(j)})));
  EXPECT_EQ(build(pool_, reduce(Reduction::sum, {j, i}, access(c_, {v(i), v(j)}))), sum);
  EXPECT_EQ(build(pool_, reduce(Reduction::sum, {j, k}, access(c_, {v(k), v(j)}))), sum);
  EXPECT_NE(build(pool_, reduce(Reduction::sum, {j, k}, access(c_, {v(j), v(k)}))), sum);
}

// An inner reduction that mentions the outer variable keeps it apart from its own.
TEST_F(ReduceTest, NoCapture) {
  const VarId i = bound("i", 4), j = bound("j", 4), f = free("f", 4);
  const Term row = reduce(Reduction::max, {j}, multiply({access(c_, {v(i), v(j)}), access(c_, {v(j), v(f)})}));
  const TermId sum = checked(reduce(Reduction::sum, {i}, multiply({row, row, access(c_, {v(f), v(i)})})));
  Substitution swap;
  swap.set(f, pool_.index_var(i));
  const TermId moved = pool_.substitute(sum, swap);  // the free variable becomes one named like a bound one
  const TensorContents contents = hashed_contents(pool_, 11);
  for (std::int64_t n = 0; n < 4; ++n) {
    Assignment before, after;
    before.set(f, n);
    after.set(i, n);
    EXPECT_EQ(evaluate(pool_, sum, before, contents), evaluate(pool_, moved, after, contents));
  }
}

TEST_F(ReduceTest, VariablesOfExtentOneAreZero) {
  const VarId one = bound("one", 1), i = bound("i", 3);
  EXPECT_EQ(checked(reduce(Reduction::sum, {one, i}, access(c_, {v(one), v(i)}))),
            checked(reduce(Reduction::sum, {i}, access(c_, {number(0), v(i)}))));
}

// --- a running sum and the window that continues it

// Below 0 the longer sum has no elements that a window there has.
TEST_F(ReduceTest, WindowsThatMayBeginBeforeTheSumDoNotContinueIt) {
  const VarId x = free("x", 6), w = bound("w", 3), old = bound("v", 8);
  const auto continued = [&](std::int64_t start) {  // the window begins at x + start
    const auto body = [&](IndexId e) { return pool_.apply(Function::sin, {pool_.index_value(e)}); };
    const IndexId begin = pool_.index_scale(pool_.index_var(x), 1, start);
    const IndexId place = pool_.index_sub(pool_.index_var(old), begin);
    const TermId before = pool_.reduce(Reduction::sum, {old}, pool_.mul(pool_.range(place, -kUnbounded, -1), body(pool_.index_var(old))));
    const TermId window = pool_.reduce(Reduction::sum, {w}, body(pool_.index_add(begin, pool_.index_var(w))));
    return pool_.continue_sum(before, window).has_value();
  };
  EXPECT_TRUE(continued(0));
  EXPECT_FALSE(continued(-2));
}

}  // namespace
}  // namespace shardproof::solvers::testing

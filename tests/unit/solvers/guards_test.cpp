// Canonical guards: equal conditions are equal terms, different ones are not.
#include <gtest/gtest.h>

#include "solvers/evaluate.h"
#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {
namespace {

constexpr std::int64_t kInf = kUnbounded;

class GuardsTest : public ::testing::Test {
 protected:
  IndexId var(const char* name, std::int64_t extent) {
    return pool_.index_var(pool_.named(VarKind::loop, name, extent));
  }
  IndexId linear(std::int64_t ka, IndexId a, std::int64_t kb, IndexId b, std::int64_t c = 0) {
    return pool_.index_linear(a, ka, b, kb, c);
  }
  TermId range(IndexId e, std::int64_t lo, std::int64_t hi) { return pool_.range(e, lo, hi); }
  TermId all(std::vector<TermId> guards) {
    TermId product = pool_.one();
    for (TermId g : guards) product = pool_.mul(product, g);
    return product;
  }

  TermPool pool_;
};

TEST_F(GuardsTest, DecidedByTheExtents) {
  const IndexId x = var("x", 10);
  EXPECT_EQ(range(x, 0, 9), pool_.one());
  EXPECT_EQ(range(x, -5, kInf), pool_.one());
  EXPECT_EQ(range(x, 10, kInf), pool_.zero());
  EXPECT_EQ(range(x, -kInf, -1), pool_.zero());
  EXPECT_EQ(range(x, 5, 4), pool_.zero());
  EXPECT_EQ(range(x, 0, 4), range(x, -kInf, 4));
  EXPECT_EQ(range(x, 3, 9), range(x, 3, kInf));
  EXPECT_NE(range(x, 3, 8), range(x, 3, kInf));
  EXPECT_NE(range(x, 1, 4), range(x, -kInf, 4));
  EXPECT_EQ(range(pool_.index_constant(3), 3, 4), pool_.one());
  EXPECT_EQ(range(pool_.index_constant(5), 3, 4), pool_.zero());
}

TEST_F(GuardsTest, ConstantContentAndSign) {
  const IndexId x = var("x", 100), y = var("y", 100);
  const TermId g = range(linear(1, x, -2, y), -3, 7);
  EXPECT_EQ(range(linear(1, x, -2, y, 5), 2, 12), g);
  EXPECT_EQ(range(linear(-1, x, 2, y), -7, 3), g);
  EXPECT_EQ(range(linear(3, x, -6, y), -9, 21), g);
  EXPECT_EQ(range(linear(3, x, -6, y), -11, 23), g);  // rounds inwards
  EXPECT_NE(range(linear(3, x, -6, y), -12, 21), g);
  EXPECT_NE(range(linear(3, x, -6, y), -9, 24), g);
  EXPECT_EQ(range(linear(-3, x, 6, y), -23, 11), g);
  EXPECT_NE(range(linear(-1, x, 2, y), -3, 7), g);
  EXPECT_EQ(range(linear(2, x, 4, y), 5, 5), pool_.zero());  // odd
}

// A group of 32 rows of 64, its first 16 rows: said of the group's rows, of pairs of rows, or of the elements.
TEST_F(GuardsTest, DivisionsUnderAModulusAreUndone) {
  const IndexId x = var("x", 10816), d = var("d", 2);
  const IndexId element = linear(10816, d, 1, x, 896);
  const TermId first_half = range(pool_.index_mod(element, 2048), 0, 1023);
  EXPECT_EQ(range(pool_.index_mod(pool_.index_div(element, 64), 32), 0, 15), first_half);
  EXPECT_EQ(range(pool_.index_mod(pool_.index_div(element, 512), 4), 0, 1), first_half);
  EXPECT_EQ(range(pool_.index_scale(pool_.index_mod(pool_.index_div(element, 128), 16), -1), -7, 0), first_half);
  EXPECT_NE(range(pool_.index_mod(pool_.index_div(element, 64), 32), 0, 14), first_half);
  EXPECT_NE(range(pool_.index_mod(pool_.index_div(pool_.index_scale(element, 1, 1), 64), 32), 0, 15), first_half);
  EXPECT_NE(range(pool_.index_mod(pool_.index_div(element, 512), 8), 0, 1), first_half);
}

TEST_F(GuardsTest, DivisionsAreUndone) {
  const IndexId x = var("x", 100), y = var("y", 20);
  EXPECT_EQ(range(linear(1, pool_.index_div(x, 4), -1, y), -kInf, 0), range(linear(1, x, -4, y), -kInf, 3));
  EXPECT_EQ(range(linear(1, pool_.index_div(x, 4), -1, y), 0, kInf), range(linear(1, x, -4, y), 0, kInf));
  EXPECT_EQ(range(linear(-1, pool_.index_div(x, 4), 1, y), 0, kInf), range(linear(1, x, -4, y), -kInf, 3));
  // vocabulary shards: 8 r <= token < 8 (r + 1) says that the token's shard is r
  const IndexId token = var("token", 64), r = var("r", 8);
  EXPECT_EQ(range(linear(1, token, -8, r), 0, 7), range(linear(1, pool_.index_div(token, 8), -1, r), 0, 0));
  EXPECT_NE(range(linear(1, token, -8, r), 0, 6), range(linear(1, pool_.index_div(token, 8), -1, r), 0, 0));
  EXPECT_NE(range(linear(1, token, -8, r), 1, 8), range(linear(1, pool_.index_div(token, 8), -1, r), 0, 0));
  EXPECT_NE(range(linear(1, pool_.index_div(x, 4), -1, y), -kInf, 0), range(linear(1, x, -4, y), -kInf, 0));
}

TEST_F(GuardsTest, LowDigitsThatCannotMatterLeave) {
  const IndexId high = var("high", 20), y = var("y", 20), low = var("low", 4), five = var("five", 5);
  const IndexId difference = pool_.index_sub(high, y);
  const IndexId digits = pool_.index_add(pool_.index_scale(difference, 4), low);
  EXPECT_EQ(range(digits, 4, kInf), range(difference, 1, kInf));
  EXPECT_EQ(range(digits, -kInf, 7), range(difference, -kInf, 1));
  EXPECT_EQ(range(pool_.index_scale(digits, -1), -7, kInf), range(difference, -kInf, 1));
  EXPECT_EQ(range(digits, 4, 11), range(difference, 1, 2));
  EXPECT_NE(range(digits, 5, kInf), range(difference, 1, kInf));  // not on a border
  EXPECT_NE(range(digits, -kInf, 6), range(difference, -kInf, 1));
  const IndexId overlapping = pool_.index_add(pool_.index_scale(difference, 4), five);  // five may carry
  EXPECT_NE(range(overlapping, 4, kInf), range(difference, 1, kInf));
  EXPECT_NE(range(overlapping, -kInf, 7), range(difference, -kInf, 1));
  const IndexId below = pool_.index_sub(pool_.index_scale(difference, 4), low);  // -4 < -low <= 0
  EXPECT_EQ(range(below, -kInf, 8), range(difference, -kInf, 2));
  EXPECT_EQ(range(below, 5, kInf), range(difference, 2, kInf));
  EXPECT_NE(range(below, 4, kInf), range(difference, 1, kInf));
  EXPECT_NE(range(pool_.index_sub(pool_.index_scale(difference, 4), five), -kInf, 8), range(difference, -kInf, 2));
}

TEST_F(GuardsTest, ProductsIntersect) {
  const IndexId x = var("x", 100), y = var("y", 100);
  EXPECT_EQ(all({range(x, 3, 50), range(x, 20, 70)}), range(x, 20, 50));
  EXPECT_EQ(all({range(x, 3, kInf), range(x, -kInf, 70)}), range(x, 3, 70));
  EXPECT_EQ(all({range(x, 3, 50), range(x, 51, 70)}), pool_.zero());
  EXPECT_EQ(all({range(x, 3, 50), range(x, 50, 70)}), range(x, 50, 50));
  // different forms, one contradiction
  EXPECT_EQ(all({range(linear(1, x, -1, y), 60, kInf), range(x, -kInf, 59)}), pool_.zero());
  EXPECT_NE(all({range(linear(1, x, -1, y), 60, kInf), range(x, -kInf, 60)}), pool_.zero());
  EXPECT_EQ(all({range(linear(2, x, 3, y), -kInf, 10), range(x, 6, kInf)}), pool_.zero());
  EXPECT_NE(all({range(linear(2, x, 3, y), -kInf, 12), range(x, 6, kInf)}), pool_.zero());
}

// x <= 3 bounds x + 4 (x div 4), but not the other way round.
TEST_F(GuardsTest, ContradictionsShowInAnyOrder) {
  const IndexId x = var("x", 6);
  const TermId low = range(x, -kInf, 3), high = range(linear(1, x, 4, pool_.index_div(x, 4)), 7, kInf);
  EXPECT_EQ(all({low, high}), pool_.zero());
  EXPECT_EQ(all({high, low}), pool_.zero());
}

TEST_F(GuardsTest, ImpliedGuardsLeaveProducts) {
  const IndexId x = var("x", 100), y = var("y", 10);
  const TermId strong = range(x, 50, kInf), weak = range(linear(1, x, -1, y), 41, kInf);
  EXPECT_EQ(all({strong, weak}), strong);
  EXPECT_EQ(all({weak, strong}), strong);
  const TermId independent = range(linear(1, x, -1, y), 42, kInf);  // fails at x = 50, y = 9
  EXPECT_NE(all({strong, independent}), strong);
  EXPECT_EQ(all({strong, independent}), all({independent, strong}));
}

TEST_F(GuardsTest, AdjacentRangesMerge) {
  const IndexId x = var("x", 100);
  EXPECT_EQ(pool_.add(range(x, 3, 9), range(x, 10, 20)), range(x, 3, 20));
  EXPECT_EQ(pool_.sum({range(x, 50, kInf), range(x, -kInf, 9), range(x, 10, 49)}), pool_.one());
  EXPECT_NE(pool_.add(range(x, 3, 9), range(x, 11, 20)), range(x, 3, 20));   // a gap
  EXPECT_NE(pool_.add(range(x, 3, 10), range(x, 10, 20)), range(x, 3, 20));  // counted twice
  EXPECT_NE(pool_.add(range(x, 3, 9), pool_.scale(range(x, 10, 20), Rational(2))),
            range(x, 3, 20));  // other coefficients
  const TensorId w = pool_.new_tensor({"w", {100}, false, 0});
  const TermId a = pool_.access(w, {x}), b = pool_.access(w, {pool_.index_scale(x, 1, 1)});
  EXPECT_EQ(pool_.add(pool_.mul(a, range(x, -kInf, 9)), pool_.mul(a, range(x, 10, kInf))), a);
  EXPECT_NE(pool_.add(pool_.mul(a, range(x, -kInf, 9)), pool_.mul(b, range(x, 10, kInf))), a);
}

TEST_F(GuardsTest, Complement) {
  const IndexId x = var("x", 100), y = var("y", 100);
  const TermId g = range(x, 3, 9), h = range(linear(1, x, -1, y), 0, kInf);
  EXPECT_EQ(pool_.complement(pool_.one()), pool_.zero());
  EXPECT_EQ(pool_.complement(pool_.zero()), pool_.one());
  EXPECT_EQ(pool_.complement(h), range(linear(1, x, -1, y), -kInf, -1));
  EXPECT_EQ(pool_.complement(g), pool_.add(range(x, -kInf, 2), range(x, 10, kInf)));
  EXPECT_EQ(pool_.complement(pool_.complement(g)), g);
  EXPECT_EQ(pool_.mul(g, pool_.complement(g)), pool_.zero());
  EXPECT_EQ(pool_.add(g, pool_.complement(g)), pool_.one());
  EXPECT_EQ(pool_.mul(pool_.mul(g, h), pool_.complement(pool_.mul(g, h))), pool_.zero());
  EXPECT_EQ(pool_.add(pool_.mul(g, h), pool_.complement(pool_.mul(g, h))), pool_.one());
}

TEST_F(GuardsTest, CasesSeeTheirPiece) {
  const IndexId x = var("x", 100);
  const TermId value = pool_.add(pool_.scale(range(x, 3, 9), Rational(5)), pool_.scale(range(x, 7, 20), Rational(2)));
  std::vector<Rational> seen;
  const TermId same =
      pool_.by_cases_under({value}, {}, [&](const std::vector<TermId>& pieces, const std::vector<TermId>& guards) {
        EXPECT_EQ(guards.size(), 1U);
        EXPECT_EQ(pool_.mul(guards[0], pieces[0]), pool_.mul(guards[0], value));
        seen.push_back(pool_.as_constant(pieces[0]).value());
        return pieces[0];
      });
  EXPECT_EQ(seen, (std::vector<Rational>{0, 5, 7, 2, 0}));
  const auto piece = [&](std::int64_t k, std::int64_t lo, std::int64_t hi) {
    return pool_.scale(range(x, lo, hi), Rational(k));
  };
  EXPECT_EQ(same, pool_.sum({piece(5, 3, 6), piece(7, 7, 9), piece(2, 10, 20)}));
}

// Of 8x + y, 32 and more is written as x >= 4, where x <= 3 has no points: nothing is asked about such a piece, and what is
// made of the others is the same function.
TEST_F(GuardsTest, CasesWithoutPointsAreLeftOut) {
  const VarId var_x = pool_.named(VarKind::loop, "x", 10), var_y = pool_.named(VarKind::loop, "y", 8);
  const IndexId x = pool_.index_var(var_x), position = linear(8, x, 1, pool_.index_var(var_y));
  const TermId value = pool_.add(pool_.scale(range(position, 5, 31), Rational(2)), pool_.scale(range(x, -kInf, 3), Rational(3)));
  int pieces = 0;
  const TermId inverse = pool_.by_cases_under({pool_.add(value, pool_.one())}, {}, [&](const std::vector<TermId>& piece, const std::vector<TermId>& guards) {
    ++pieces;
    for (TermId g : guards) {
      for (TermId h : guards) EXPECT_FALSE(pool_.node(g).form == pool_.node(h).form && pool_.mul(g, h) == pool_.zero());
    }
    return pool_.inverse(piece[0]);
  });
  EXPECT_EQ(pieces, 5);
  for (std::int64_t i = 0; i < 10; ++i)
    for (std::int64_t j = 0; j < 8; ++j) {
      Substitution at;
      at.set(var_x, pool_.index_constant(i));
      at.set(var_y, pool_.index_constant(j));
      const std::int64_t p = 8 * i + j;
      EXPECT_EQ(pool_.substitute(inverse, at), pool_.constant(Rational(1, (p >= 5 && p <= 31 ? 2 : 0) + (i <= 3 ? 3 : 0) + 1))) << p;
    }
}

TEST_F(GuardsTest, IntervalsUnderGuards) {
  const IndexId x = var("x", 100), y = var("y", 100);
  using Interval = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(pool_.bounds_under(x, {}), Interval(0, 99));
  EXPECT_EQ(pool_.bounds_under(x, {range(x, 10, 20)}), Interval(10, 20));
  EXPECT_EQ(pool_.bounds_under(pool_.index_scale(x, -2, 3), {range(x, 10, 20)}), Interval(-37, -17));
  EXPECT_EQ(pool_.bounds_under(linear(1, x, 1, y), {range(x, 10, 20), range(y, -kInf, 5)}), Interval(10, 25));
  EXPECT_EQ(pool_.bounds_under(x, {range(linear(1, x, -1, y), 0, kInf), range(y, 30, kInf)}), Interval(30, 99));
  EXPECT_EQ(pool_.bounds_under(x, {range(linear(1, x, 1, y), -kInf, 7)}), Interval(0, 7));
  EXPECT_EQ(pool_.bounds_under(y, {range(x, 10, 20)}), Interval(0, 99));
  EXPECT_EQ(pool_.bounds_under(pool_.index_div(x, 4), {range(x, 10, 20)}), Interval(2, 5));
  EXPECT_EQ(pool_.bounds_under(pool_.index_mod(x, 16), {range(x, 18, 30)}), Interval(2, 14));
  EXPECT_EQ(pool_.bounds_under(pool_.index_mod(x, 16), {range(x, 18, 32)}), Interval(0, 15));
}

// x - 2*(x mod 8) >= 8 implies x >= 8, where x mod 8 is x - 8: used on the guard itself, it would become x <= 8.
TEST_F(GuardsTest, AGuardDoesNotAssumeItself) {
  const VarId var_x = pool_.named(VarKind::loop, "x", 16);
  const IndexId x = pool_.index_var(var_x);
  const TensorId w = pool_.new_tensor({"w", {16}, false, 0});
  const TermId guard = range(linear(1, x, -2, pool_.index_mod(x, 8)), 8, kInf);
  EXPECT_EQ(pool_.bounds_under(x, {guard}).first, 8);
  const TermId term = pool_.mul(guard, pool_.access(w, {x}));
  const TermId assumed = pool_.assume(term, {});
  const TensorContents contents = hashed_contents(pool_, 1);
  for (std::int64_t n = 0; n < 16; ++n) {
    Assignment values;
    values.set(var_x, n);
    EXPECT_EQ(evaluate(pool_, term, values, contents), evaluate(pool_, assumed, values, contents)) << n;
  }
}

}  // namespace
}  // namespace shardproof::solvers

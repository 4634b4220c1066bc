#include "solvers/fold.h"

#include <gtest/gtest.h>

namespace shardproof::solvers {
namespace {

class FoldTest : public ::testing::Test {
 protected:
  FoldTest() {
    // Variables of the plan older and younger than the reference's: orientations must not matter.
    old_rank_ = pool_.named(VarKind::mesh, "old", 4);
    row_ = pool_.element(0, 32);
    column_ = pool_.element(1, 32);
    young_rank_ = pool_.named(VarKind::mesh, "young", 4);
    local_ = pool_.element(0, 8);
    x_ = atoms_.opaque({"X", {32, 32}, false, 0});
    slope_ = atoms_.opaque({"s", {}, false, 0});
  }
  IndexId v(VarId var) { return pool_.index_var(var); }
  TermId x() { return pool_.access(x_, {v(row_), v(column_)}); }
  TermId distance() { return pool_.index_value(pool_.index_sub(v(column_), v(row_))); }
  TermId slope() { return pool_.access(slope_, {}); }

  // Whether the tensor that `accessed` accesses occurs in a sum of products.
  bool mentions(TermId term, TermId accessed) {
    for (const Monomial& m : pool_.monomials_of(term))
      for (const Factor& f : m.factors)
        if (pool_.node(f.term).kind == TermKind::access && pool_.node(f.term).tensor == pool_.node(accessed).tensor) return true;
    return false;
  }

  // The value's rows, or columns, as a rank has them.
  TermId shard(TermId value, VarId dimension, VarId rank) {
    Substitution s;
    s.set(dimension, pool_.index_linear(v(rank), 8, v(local_), 1));
    return pool_.substitute(value, s);
  }

  TermPool pool_;
  AtomTable atoms_{pool_, nullptr};
  Folder folder_{atoms_};
  VarId row_, column_, old_rank_, young_rank_, local_;
  TensorId x_, slope_;
};

// Position differences as numbers (linear biases, decays): sharding either position turns i - j into j - i.
TEST_F(FoldTest, DistancesFoldInEitherOrientation) {
  const std::vector<TermId> values{
      pool_.apply(Function::exp, {pool_.add(x(), pool_.mul(slope(), distance()))}),
      pool_.apply(Function::tanh, {pool_.add(x(), pool_.mul(slope(), distance()))}),
      pool_.mul(distance(), x()),
      pool_.mul(pool_.apply(Function::exp, {pool_.mul(slope(), distance())}), x()),
      pool_.add(pool_.mul(x(), x()), pool_.mul(distance(), x())),
      pool_.reduce(Reduction::max, {column_}, pool_.add(x(), pool_.mul(slope(), distance()))),
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    const TermId defined = folder_.define("v" + std::to_string(i), values[i]);
    ASSERT_TRUE(folder_.is_folded(defined));
    for (VarId rank : {old_rank_, young_rank_})
      for (VarId dimension : {row_, column_}) {
        if (!pool_.contains(pool_.node(values[i]).free, dimension)) continue;
        EXPECT_EQ(folder_.fold(shard(values[i], dimension, rank)), shard(defined, dimension, rank))
            << pool_.to_string(values[i]) << " as " << pool_.to_string(shard(values[i], dimension, rank));
      }
  }
}

TEST_F(FoldTest, OppositeDistancesAreNotTheSameValue) {
  const TermId defined =
      folder_.define("v", pool_.apply(Function::tanh, {pool_.add(x(), pool_.mul(slope(), distance()))}));
  ASSERT_TRUE(folder_.is_folded(defined));
  const TermId opposite = pool_.apply(Function::tanh, {pool_.sub(x(), pool_.mul(slope(), distance()))});
  for (VarId rank : {old_rank_, young_rank_})
    for (VarId dimension : {row_, column_})
      EXPECT_FALSE(folder_.is_folded(folder_.fold(shard(opposite, dimension, rank))));
}

// Microbatches added up one by one, in any order, are the sum over all of them.
TEST_F(FoldTest, UnrolledSumsFold) {
  constexpr std::int64_t kBatches = 24;
  const auto tensor = [&](const char* name, std::vector<std::int64_t> shape) { return atoms_.opaque({name, std::move(shape), false, 0}); };
  const TensorId dy = tensor("dy", {kBatches, 6, 32}), in = tensor("in", {kBatches, 6, 32});
  const TensorId tokens = atoms_.opaque({"tokens", {kBatches, 6}, true, 50});
  const IndexId b = v(pool_.named(VarKind::loop, "b", 6)), k = v(pool_.named(VarKind::loop, "k", kBatches));
  const auto gradient = [&](IndexId batch) {
    return pool_.mul(pool_.access(dy, {batch, b, v(row_)}), pool_.access(in, {batch, b, v(column_)}));
  };
  const auto embedding = [&](IndexId batch) {
    return pool_.mul(pool_.range(pool_.index_sub(pool_.index_load(tokens, {batch, b}), v(row_)), 0, 0), pool_.access(dy, {batch, b, v(column_)}));
  };
  const auto sum = [&](TermId body, const char* name, std::int64_t extent) {
    return pool_.reduce(Reduction::sum, {pool_.named(VarKind::loop, name, extent)}, body);
  };
  using Body = std::function<TermId(IndexId)>;
  for (const Body& body : {Body(gradient), Body(embedding)}) {
    const TermId whole = folder_.define("whole", sum(sum(body(k), "k", kBatches), "b", 6));
    ASSERT_TRUE(folder_.is_folded(whole));
    const auto one = [&](std::int64_t batch) { return sum(body(pool_.index_constant(batch)), "b", 6); };
    TermId all = pool_.zero();
    for (std::int64_t n = 0; n < kBatches; ++n) all = pool_.add(all, one((n * 7 + 3) % kBatches));
    EXPECT_EQ(folder_.fold(all), whole);
    EXPECT_EQ(folder_.fold(pool_.scale(all, Rational(-1, 3))), pool_.scale(whole, Rational(-1, 3)));
    EXPECT_FALSE(folder_.is_folded(folder_.fold(pool_.sub(all, one(5)))));
    EXPECT_FALSE(folder_.is_folded(folder_.fold(pool_.add(all, one(0)))));
    EXPECT_FALSE(folder_.is_folded(folder_.fold(pool_.add(pool_.sub(all, one(kBatches - 1)), one(0)))));
    // The last iteration, or the first, outside the loop.
    const IndexId j = v(pool_.named(VarKind::loop, "j", kBatches - 1));
    const TermId but_last = sum(sum(body(j), "j", kBatches - 1), "b", 6), but_first = sum(sum(body(pool_.index_scale(j, 1, 1)), "j", kBatches - 1), "b", 6);
    EXPECT_EQ(folder_.fold(pool_.add(but_last, one(kBatches - 1))), whole);
    EXPECT_EQ(folder_.fold(pool_.add(but_first, one(0))), whole);
    EXPECT_FALSE(folder_.is_folded(folder_.fold(pool_.add(but_last, one(0)))));
    EXPECT_FALSE(folder_.is_folded(folder_.fold(pool_.add(but_first, one(kBatches - 1)))));
    EXPECT_FALSE(folder_.is_folded(folder_.fold(pool_.add(but_last, pool_.scale(one(kBatches - 1), Rational(2))))));
  }
}

// Two values are rotated into each other, and the result contracted; a plan contracts what is rotated term by term.
TEST_F(FoldTest, SumsTakenApartByLinearityFold) {
  const auto tensor = [&](const char* name, std::vector<std::int64_t> shape) { return atoms_.opaque({name, std::move(shape), false, 0}); };
  const TensorId grad = tensor("g", {32, 32, 8}), cos = tensor("cos", {32, 4}), sin = tensor("sin", {32, 4}), in = tensor("in", {32, 32, 16});
  const IndexId b = v(pool_.named(VarKind::loop, "b", 32)), s = v(pool_.named(VarKind::loop, "s", 32));
  const auto rotated = [&](IndexId batch, IndexId position, IndexId at, int sign) {
    return pool_.add(pool_.mul(pool_.access(cos, {position, at}), pool_.access(grad, {batch, position, at})),
                     pool_.scale(pool_.mul(pool_.access(sin, {position, at}), pool_.access(grad, {batch, position, pool_.index_scale(at, 1, 4)})), Rational(sign)));
  };
  const IndexId e0 = v(pool_.element(0, 32)), e1 = v(pool_.element(1, 32)), e2 = v(pool_.element(2, 4));
  const TermId half = folder_.define("half", rotated(e0, e1, e2, 1));
  ASSERT_TRUE(folder_.is_folded(half));
  const auto contracted = [&](const std::function<TermId(IndexId)>& value, IndexId row, IndexId column) {
    return pool_.reduce(Reduction::sum, {pool_.named(VarKind::loop, "b", 32), pool_.named(VarKind::loop, "s", 32)},
                        pool_.mul(value(row), pool_.access(in, {b, s, column})));
  };
  const TensorId half_of = pool_.node(half).tensor;
  const TermId weight = folder_.define("weight", contracted([&](IndexId row) { return pool_.access(half_of, {b, s, row}); }, v(pool_.element(0, 4)), v(pool_.element(1, 16))));
  ASSERT_TRUE(folder_.is_folded(weight));
  // Rows 2..5 of a buffer are those of the weight: the index is in range under that guard only.
  const IndexId local = pool_.index_scale(v(pool_.element(0, 8)), 1, -2), column = v(pool_.element(1, 16));
  const TermId guard = pool_.range(local, 0, 3);
  const auto plan = [&](int sign) { return pool_.mul(guard, contracted([&](IndexId row) { return rotated(b, s, row, sign); }, local, column)); };
  EXPECT_EQ(folder_.refold(plan(1)), pool_.mul(guard, pool_.access(pool_.node(weight).tensor, {local, column})));
  EXPECT_FALSE(folder_.is_folded(folder_.refold(plan(-1))));
  EXPECT_FALSE(folder_.is_folded(folder_.refold(plan(2))));
}

// Heads and positions have one extent, and what stands beside them in an index says in which order they are bound.
TEST_F(FoldTest, SumsOverVariablesOfOneExtentFold) {
  const TensorId weights = atoms_.opaque({"p", {4, 4, 32}, false, 0}), grad = atoms_.opaque({"g", {4, 32}, false, 0});
  const VarId head = pool_.named(VarKind::loop, "h", 4), position = pool_.named(VarKind::loop, "q", 4);
  const auto value = [&](IndexId at, IndexId s, bool transposed) {
    const TermId p = transposed ? pool_.access(weights, {v(position), v(head), s}) : pool_.access(weights, {v(head), v(position), s});
    return pool_.reduce(Reduction::sum, {head, position}, pool_.mul(p, pool_.access(grad, {v(position), pool_.index_linear(v(head), 8, at, 1)})));
  };
  const TermId defined = folder_.define("value", value(v(pool_.element(0, 8)), v(pool_.element(1, 32)), false));
  ASSERT_TRUE(folder_.is_folded(defined));
  for (const VarId rank : {old_rank_, young_rank_})
    for (const std::int64_t step : {8, 16, 64}) {
      // Rows of a buffer in which the value begins at 2 * step.
      const IndexId at = pool_.index_linear(v(rank), step, pool_.index_div(v(pool_.element(0, 8 * step)), 8), 1, -2 * step);
      const TermId guard = pool_.range(at, 0, 7);
      const auto plan = [&](bool transposed) { return pool_.mul(guard, value(at, v(column_), transposed)); };
      EXPECT_EQ(folder_.fold(plan(false)), pool_.mul(guard, pool_.access(pool_.node(defined).tensor, {at, v(column_)})));
      EXPECT_FALSE(folder_.is_folded(folder_.fold(plan(true))));
    }
}

// Even and odd rows are different sums, and no index says which a row is.
TEST_F(FoldTest, PiecesOfOneRemainderFold) {
  const TensorId even = atoms_.opaque({"even", {6, 5}, false, 0}), odd = atoms_.opaque({"odd", {6, 5}, false, 0}), in = atoms_.opaque({"in", {6}, false, 0});
  const VarId b = pool_.named(VarKind::loop, "b", 6);
  const auto sum = [&](TensorId of, IndexId pair) {
    return pool_.reduce(Reduction::sum, {b}, pool_.mul(pool_.access(of, {v(b), pair}), pool_.access(in, {v(b)})));
  };
  const auto rows = [&](IndexId row, TensorId first, TensorId second) {
    const IndexId digit = pool_.index_mod(row, 2), pair = pool_.index_div(row, 2);
    return pool_.add(pool_.mul(pool_.range(digit, 0, 0), sum(first, pair)), pool_.mul(pool_.range(digit, 1, 1), sum(second, pair)));
  };
  const TermId defined = folder_.define("rows", rows(v(pool_.element(0, 8)), even, odd));
  ASSERT_TRUE(folder_.is_folded(defined));
  const auto row = [&](IndexId at) { return pool_.access(pool_.node(defined).tensor, {at}); };
  const IndexId pair = v(pool_.element(0, 4));
  EXPECT_EQ(folder_.fold(sum(even, pair)), row(pool_.index_scale(pair, 2)));
  EXPECT_EQ(folder_.fold(sum(odd, pair)), row(pool_.index_scale(pair, 2, 1)));
  EXPECT_FALSE(folder_.is_folded(folder_.fold(sum(even, pool_.index_scale(pair, 1, 1)))));  // pair 4 is no row
  // Three groups of five rows, of which the second and third are a pair of these.
  const IndexId buffer = v(pool_.element(0, 15)), group = pool_.index_div(buffer, 5), in_group = pool_.index_mod(buffer, 5);
  const auto pieces = [&](TensorId first, TensorId second) {
    return pool_.add(pool_.mul(pool_.range(in_group, 1, 1), sum(first, group)), pool_.mul(pool_.range(in_group, 2, 2), sum(second, group)));
  };
  EXPECT_EQ(folder_.fold(pieces(even, odd)), pool_.mul(pool_.range(in_group, 1, 2), row(pool_.index_linear(group, 2, in_group, 1, -1))));
  EXPECT_NE(folder_.fold(pieces(odd, even)), folder_.fold(pieces(even, odd)));
}

// A flat buffer, cut over ranks: thirds of the columns of a matrix, whose gradient was written third by third, and an
// embedding padded at the end, whose padding is known by a condition on another form than the position in the buffer.
TEST_F(FoldTest, PaddedBuffersFoldMemberByMember) {
  const auto tensor = [&](const char* name, std::vector<std::int64_t> shape) { return atoms_.opaque({name, std::move(shape), false, 0}); };
  const TensorId grad = tensor("G", {16, 24}), mean = tensor("M", {16, 24}), wide_grad = tensor("WG", {30}), wide_mean = tensor("WM", {30}),
                 padding = tensor("padding", {2, 2, 80});
  const auto sum = [&](TermId g, TermId m) { return pool_.add(pool_.scale(g, Rational(1, 10)), pool_.scale(m, Rational(9, 10))); };
  const IndexId i = v(pool_.element(0, 16)), j = v(pool_.element(1, 24)), w = v(pool_.element(0, 30));
  const TermId next = folder_.define("next", sum(pool_.access(grad, {i, j}), pool_.access(mean, {i, j})));
  const TermId wide_next = folder_.define("wide_next", sum(pool_.access(wide_grad, {w}), pool_.access(wide_mean, {w})));
  ASSERT_TRUE(folder_.is_folded(next) && folder_.is_folded(wide_next));

  // Positions 0..143 hold 12 rows of the 4 columns of a rank t in each third; 144.. hold its 16 of 30, padded to 32.
  const IndexId d = v(pool_.named(VarKind::mesh, "d", 2)), t = v(pool_.named(VarKind::mesh, "t", 2));
  const IndexId position = pool_.index_linear(d, 80, v(pool_.element(0, 80)), 1);
  const auto column = [&](std::int64_t third) {
    return pool_.index_linear(pool_.index_mod(position, 12), 1, t, 4, 4 * third);
  };
  const IndexId row = pool_.index_div(position, 12);
  const TermId in_matrix = pool_.range(position, 0, 12 * 12 - 1);
  const auto thirds = [&](TensorId of, std::int64_t shift) {
    TermId total = pool_.zero();
    for (std::int64_t third = 0; third < 3; ++third)
      total = pool_.add(total, pool_.mul(pool_.range(pool_.index_mod(position, 12), 4 * third, 4 * third + 3),
                                         pool_.access(of, {row, pool_.index_scale(column(third), 1, shift)})));
    return pool_.mul(in_matrix, total);
  };
  // The same columns in one formula: 8 * (column div 4) + column mod 4 + 4 t.
  const auto whole = [&](TensorId of) {
    const IndexId local = pool_.index_mod(position, 12);
    const IndexId at = pool_.index_linear(pool_.index_linear(pool_.index_div(local, 4), 8, pool_.index_mod(local, 4), 1), 1, t, 4);
    return pool_.mul(in_matrix, pool_.access(of, {row, at}));
  };
  const IndexId wide = pool_.index_linear(position, 1, t, 16, -144);
  const TermId in_wide = pool_.mul(pool_.range(position, 144, kUnbounded), pool_.range(wide, 0, 29));
  const TermId outside = pool_.sub(pool_.sub(pool_.one(), in_matrix), in_wide);
  const auto update = [&](std::int64_t shift) {
    return pool_.sum({pool_.scale(thirds(grad, shift), Rational(1, 10)), pool_.scale(whole(mean), Rational(9, 10)),
                      pool_.mul(in_wide, sum(pool_.access(wide_grad, {wide}), pool_.access(wide_mean, {wide}))),
                      pool_.mul(outside, pool_.access(padding, {d, t, v(pool_.element(0, 80))}))});
  };
  const TermId right = folder_.refold(update(0));
  EXPECT_TRUE(folder_.is_folded(right)) << pool_.to_string(right);
  EXPECT_TRUE(mentions(right, next) && mentions(right, wide_next)) << pool_.to_string(right);
  EXPECT_FALSE(mentions(right, pool_.access(grad, {i, j}))) << pool_.to_string(right);
  // Gradients one column off are not the gradients of these columns.
  EXPECT_TRUE(mentions(folder_.refold(update(1)), pool_.access(grad, {i, j})));
}

}  // namespace
}  // namespace shardproof::solvers

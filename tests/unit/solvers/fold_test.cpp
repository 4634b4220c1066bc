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

}  // namespace
}  // namespace shardproof::solvers

// Equalities of index terms that layouts rely on, and near misses that must stay apart.
#include <gtest/gtest.h>

#include "ir/check.h"
#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {
namespace {

class IndexTest : public ::testing::Test {
 protected:
  IndexId var(const char* name, std::int64_t extent) {
    return pool_.index_var(pool_.named(VarKind::loop, name, extent));
  }
  IndexId div(IndexId e, std::int64_t c) { return pool_.index_div(e, c); }
  IndexId mod(IndexId e, std::int64_t c) { return pool_.index_mod(e, c); }
  IndexId number(std::int64_t c) { return pool_.index_constant(c); }
  IndexId linear(std::int64_t ka, IndexId a, std::int64_t kb, IndexId b, std::int64_t c = 0) {
    return pool_.index_linear(a, ka, b, kb, c);
  }

  TermPool pool_;
};

TEST_F(IndexTest, DigitsPutTogether) {
  const IndexId x = var("x", 1000);
  EXPECT_EQ(linear(1, mod(x, 7), 7, div(x, 7)), x);
  EXPECT_EQ(linear(3, mod(x, 7), 21, div(x, 7)), pool_.index_scale(x, 3));
  EXPECT_EQ(pool_.index_add(linear(1, mod(x, 4), 4, mod(div(x, 4), 5)), pool_.index_scale(div(x, 20), 20)), x);
  EXPECT_EQ(linear(1, mod(x, 4), 4, mod(div(x, 4), 5)), mod(x, 20));
  EXPECT_EQ(linear(1, x, -7, div(x, 7)), mod(x, 7));
  const IndexId e = linear(5, x, 3, var("y", 50), -2);
  EXPECT_EQ(linear(1, mod(e, 7), 7, div(e, 7)), e);
  EXPECT_EQ(linear(-2, e, 14, div(e, 7)), pool_.index_scale(mod(e, 7), -2));
}

// Rows of 192 in buffer shards of 33 rows that start 320 elements into a row's shard: rank and row within it.
TEST_F(IndexTest, MultiplesEnterADivision) {
  const IndexId x = var("x", 32), y = var("y", 192);
  const IndexId e = linear(192, x, 1, y, 320);
  EXPECT_EQ(linear(33, div(e, 6336), 1, div(pool_.index_scale(mod(e, 6336), 1, 64), 192), -2), x);
  EXPECT_EQ(linear(66, div(e, 6336), 2, div(pool_.index_scale(mod(e, 6336), 1, 64), 192), -4), pool_.index_scale(x, 2));
  EXPECT_NE(linear(32, div(e, 6336), 1, div(pool_.index_scale(mod(e, 6336), 1, 64), 192), -2), x);
  EXPECT_NE(linear(33, div(e, 6336), 1, div(pool_.index_scale(mod(e, 6336), 1, 65), 192), -2), x);
  const IndexId z = var("z", 1000);
  EXPECT_EQ(linear(15, div(z, 10), 1, div(linear(3, mod(z, 10), 1, y), 2)), div(linear(3, z, 1, y), 2));
}

TEST_F(IndexTest, NothingButNegativeTerms) {
  const IndexId x = var("x", 1000), y = var("y", 7);
  EXPECT_EQ(div(linear(-1, x, 0, x, 31), 32), pool_.index_scale(div(x, 32), -1));
  EXPECT_EQ(mod(linear(-1, x, 0, x, 31), 32), pool_.index_scale(mod(x, 32), -1, 31));
  EXPECT_EQ(div(linear(-1, x, -3, y, 2), 5), pool_.index_scale(div(linear(1, x, 3, y, 2), 5), -1));
  EXPECT_NE(div(linear(-1, x, 0, x, 30), 32), pool_.index_scale(div(x, 32), -1));
}

TEST_F(IndexTest, DigitsOfOtherNumbersStayApart) {
  const IndexId x = var("x", 1000), y = var("y", 1000);
  EXPECT_NE(linear(1, mod(x, 7), 6, div(x, 7)), x);
  EXPECT_NE(linear(1, mod(x, 7), 7, div(x, 8)), x);
  EXPECT_NE(linear(1, mod(x, 7), 7, div(y, 7)), x);
  EXPECT_NE(linear(1, mod(x, 4), 5, mod(div(x, 4), 5)), mod(x, 20));
  EXPECT_NE(linear(1, mod(x, 4), 4, mod(div(x, 5), 5)), mod(x, 20));
  EXPECT_NE(linear(1, x, -7, div(pool_.index_scale(x, 1, 1), 7)), mod(x, 7));
}

TEST_F(IndexTest, DivisionsOfScaledSums) {
  const IndexId r = var("r", 10), low = var("low", 4), five = var("five", 5);
  EXPECT_EQ(div(linear(4, r, 1, low), 4), r);
  EXPECT_EQ(mod(linear(4, r, 1, low), 4), low);
  EXPECT_EQ(div(linear(4, r, 1, low, 8), 4), pool_.index_scale(r, 1, 2));
  EXPECT_NE(div(linear(4, r, 1, five), 4), r);  // five may be 4
  EXPECT_NE(mod(linear(4, r, 1, five), 4), five);
  EXPECT_NE(div(linear(4, r, 1, low, 1), 4), r);                           // low + 1 may be 4
  EXPECT_NE(div(linear(4, r, -1, low), 4), r);                             // may be below
  EXPECT_EQ(div(linear(12, r, 4, low), 8), div(linear(3, r, 1, low), 2));  // a common factor leaves
  EXPECT_EQ(mod(linear(12, r, 4, low), 8), pool_.index_scale(mod(linear(3, r, 1, low), 2), 4));
}

TEST_F(IndexTest, NestedDivisions) {
  const IndexId x = var("x", 1000), y = var("y", 30);
  EXPECT_EQ(div(div(x, 4), 6), div(x, 24));
  EXPECT_EQ(div(linear(1, div(x, 4), 1, y), 6), div(linear(1, x, 4, y), 24));
  EXPECT_EQ(div(mod(x, 12), 4), mod(div(x, 4), 3));
  EXPECT_EQ(mod(mod(x, 12), 4), mod(x, 4));
  EXPECT_EQ(mod(linear(5, mod(x, 12), 1, y), 4), mod(linear(5, x, 1, y), 4));
  EXPECT_NE(mod(mod(x, 12), 5), mod(x, 5));
  EXPECT_NE(div(mod(x, 12), 5), mod(div(x, 5), 2));
  EXPECT_EQ(div(pool_.index_scale(div(x, 4), 2), 6), div(x, 12));
  EXPECT_NE(div(pool_.index_scale(div(x, 4), 2), 5), div(x, 10));  // 2*(x div 4) is not x div 2
}

TEST_F(IndexTest, FloorForNegativeNumbers) {
  const IndexId x = var("x", 4);
  EXPECT_EQ(div(pool_.index_scale(x, 1, -4), 4), number(-1));
  EXPECT_EQ(mod(pool_.index_scale(x, 1, -4), 4), x);
  EXPECT_EQ(div(number(-7), 4), number(-2));
  EXPECT_EQ(mod(number(-7), 4), number(1));
  EXPECT_NE(div(pool_.index_scale(x, 1, -1), 4), number(0));
}

TEST_F(IndexTest, OnlyOneValue) {
  EXPECT_EQ(var("one", 1), number(0));
  EXPECT_EQ(div(var("x", 7), 7), number(0));
  EXPECT_NE(div(var("y", 8), 7), number(0));
  EXPECT_EQ(mod(var("x", 7), 7), var("x", 7));
  EXPECT_NE(mod(var("y", 8), 7), var("y", 8));
  const TensorId zeros = pool_.new_tensor({"zeros", {8}, true, 1}), ids = pool_.new_tensor({"ids", {8}, true, 2});
  EXPECT_EQ(pool_.index_load(zeros, {var("y", 8)}), number(0));
  const IndexId id = pool_.index_load(ids, {var("y", 8)});
  EXPECT_EQ(pool_.index(id).lo, 0);
  EXPECT_EQ(pool_.index(id).hi, 1);
  EXPECT_EQ(mod(id, 2), id);
}

TEST_F(IndexTest, MisuseIsAnError) {
  const IndexId x = var("x", 7);
  EXPECT_THROW(div(x, 0), InternalError);
  EXPECT_THROW(mod(x, -1), InternalError);
  EXPECT_THROW(pool_.named(VarKind::loop, "x", 8), InternalError);
  const TensorId real = pool_.new_tensor({"w", {8}, false, 0}), ids = pool_.new_tensor({"ids", {8, 8}, true, 2});
  EXPECT_THROW(pool_.index_load(real, {x}), InternalError);
  EXPECT_THROW(pool_.index_load(ids, {x}), InternalError);
}

}  // namespace
}  // namespace shardproof::solvers

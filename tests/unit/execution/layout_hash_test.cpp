// What ranks hold of a tensor is found from hashes: layouts, summands, scales, parts.
#include <gtest/gtest.h>

#include <random>

#include "verifier/execution/layout_hash.h"

namespace shardproof::execution {
namespace {

const FieldNumbers& numbers() {
  static const FieldNumbers all{false};
  return all;
}

FieldTensor random_tensor(const ir::Shape& shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  FieldTensor tensor{{ir::DType::f32, shape}, {}};
  for (std::int64_t i = ir::element_count(shape); i > 0; --i) tensor.data.push_back(numbers().any(random));
  return tensor;
}

ir::Mesh mesh(std::int64_t dp, std::int64_t tp) {
  ir::Mesh result;
  result.axes = {{"dp", dp, {}}, {"tp", tp, {}}};
  return result;
}

FieldNumber element(const FieldTensor& tensor, std::int64_t row, std::int64_t column) {
  return tensor.data[static_cast<std::size_t>(row * tensor.type.shape[1] + column)];
}

// A block of rows and columns.
FieldTensor block(const FieldTensor& whole, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
  FieldTensor result{{whole.type.dtype, {rows, columns}}, {}};
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) result.data.push_back(element(whole, row + r, column + c));
  return result;
}

std::string found(const TensorIndex& index, const std::vector<FieldTensor>& ranks, const std::vector<Multiplier>& factors = {}) {
  const std::optional<Held> held = index.find(mesh(2, 3), ranks, factors);
  return held ? describe(*held) : "";
}

TEST(LayoutHash, FindsShardsOfAnyDimensionAndOrder) {
  const FieldTensor whole = random_tensor({12, 6}, 1);
  TensorIndex index(5);
  index.add("x", whole, {});
  index.add("y", random_tensor({12, 6}, 2), {});
  std::vector<FieldTensor> rows, columns, both, swapped, all;
  for (std::int64_t dp = 0; dp < 2; ++dp)
    for (std::int64_t tp = 0; tp < 3; ++tp) {
      rows.push_back(block(whole, 6 * dp, 6, 0, 6));
      columns.push_back(block(whole, 6 * dp, 6, 2 * tp, 2));
      both.push_back(block(whole, 2 * (3 * dp + tp), 2, 0, 6));
      swapped.push_back(block(whole, 2 * (2 * tp + dp), 2, 0, 6));
      all.push_back(whole);
    }
  EXPECT_EQ(found(index, all), "`x`");
  EXPECT_EQ(found(index, rows), "`x`, dimension 0 sharded over dp");
  EXPECT_EQ(found(index, columns), "`x`, dimension 1 sharded over tp, dimension 0 sharded over dp");
  EXPECT_EQ(found(index, both), "`x`, dimension 0 sharded over tp, dimension 0 sharded over dp");
  EXPECT_EQ(found(index, swapped), "`x`, dimension 0 sharded over dp, dimension 0 sharded over tp");
  std::swap(columns[0], columns[1]);
  EXPECT_EQ(found(index, columns), "");
}

TEST(LayoutHash, FindsRowsOfOneElement) {
  const FieldTensor whole = random_tensor({6, 4}, 1);
  TensorIndex index(5);
  index.add("x", whole, {});
  std::vector<FieldTensor> ranks;
  for (std::int64_t rank = 0; rank < 6; ++rank) ranks.push_back(block(whole, rank, 1, 0, 4));
  EXPECT_EQ(found(index, ranks), "`x`, dimension 0 sharded over tp, dimension 0 sharded over dp");
}

TEST(LayoutHash, FindsSummandsAndScales) {
  const FieldTensor whole = random_tensor({4, 4}, 1);
  TensorIndex index(5);
  index.add("x", whole, {});
  std::vector<FieldTensor> ranks;
  for (std::int64_t dp = 0; dp < 2; ++dp) {
    std::vector<FieldTensor> summands = {random_tensor({4, 4}, 10), random_tensor({4, 4}, 11), random_tensor({4, 4}, 12)};
    for (std::size_t i = 0; i < whole.data.size(); ++i) {
      const FieldNumber two = numbers().from(std::int64_t{2});
      FieldNumber rest = numbers().mul(two, whole.data[i]);
      for (std::size_t s = 0; s < 2; ++s) rest = numbers().sub(rest, summands[s].data[i]);
      summands[2].data[i] = rest;
    }
    for (FieldTensor& each : summands) ranks.push_back(std::move(each));
  }
  EXPECT_EQ(found(index, ranks), "");
  EXPECT_EQ(found(index, ranks, {multiplier(2)}), "summands over tp of 2 times `x`");
  EXPECT_EQ(found(index, ranks, {multiplier({1, 2})}), "");
}

TEST(LayoutHash, FindsPartsAndOtherShapes) {
  const FieldTensor whole = random_tensor({4, 6}, 1);
  TensorIndex index(5);
  index.add("x", whole, {2});
  std::vector<FieldTensor> second(6, block(whole, 2, 2, 0, 6));
  EXPECT_EQ(found(index, second), "part 2 of 2 along dimension 0 of `x`");
  FieldTensor flat = whole;
  flat.type.shape = {24};
  EXPECT_EQ(found(index, std::vector<FieldTensor>(6, flat)), "`x`");
  std::vector<FieldTensor> zero(6, FieldTensor{{ir::DType::f32, {4, 6}}, std::vector<FieldNumber>(24, numbers().from(std::int64_t{0}))});
  EXPECT_EQ(found(index, zero), "");  // anything is zero somewhere
}

}  // namespace
}  // namespace shardproof::execution

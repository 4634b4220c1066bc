#include "ir/placement.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace shardproof::ir {
namespace {

Digit axis(std::string name, std::int64_t size, std::int64_t pre = 1) { return {std::move(name), pre, size}; }
Digit local(std::int64_t size) { return {{}, 1, size}; }
DimLayout dim(std::vector<Digit> digits) {
  DimLayout layout;
  layout.digits = std::move(digits);
  return layout;
}
Placement placed(std::vector<DimLayout> dims) {
  Placement placement;
  placement.dims = std::move(dims);
  return placement;
}

TEST(Placement, LocalShapeKeepsTheLocalDigits) {
  EXPECT_EQ(local_shape(placed({})), Shape{});
  EXPECT_EQ(local_shape(placed({dim({axis("tp", 8), local(16)}), dim({local(7)})})), (Shape{16, 7}));
  EXPECT_EQ(local_shape(placed({dim({axis("tp", 8), axis("dp", 4), local(3)})})), Shape{3});
  EXPECT_EQ(local_shape(placed({dim({local(2), axis("tp", 8), local(5)})})), Shape{10});  // fused gate-up
  EXPECT_EQ(local_shape(placed({dim({axis("tp", 8, 1), local(1)})})), Shape{1});
  EXPECT_EQ(local_shape(placed({dim({axis("tp", 8)})})), Shape{1});
  EXPECT_EQ(local_shape(placed({dim({})})), Shape{1});
}

TEST(Placement, LocalShapeOfRaggedShardsIsTheLargest) {
  DimLayout ragged = dim({axis("tp", 3)});
  ragged.offsets = {0, 4, 5, 11};
  EXPECT_EQ(local_shape(placed({ragged, dim({local(2)})})), (Shape{6, 2}));
}

TEST(Placement, LocalShapeThrowsInsteadOfWrapping) {
  const std::int64_t big = std::int64_t{1} << 40;
  EXPECT_THROW(local_shape(placed({dim({local(big), local(big)})})), std::overflow_error);
}

TEST(Placement, DescribesForPeople) {
  EXPECT_EQ(describe(placed({dim({local(4)})})), "replicate");
  EXPECT_EQ(describe(placed({dim({axis("tp", 8), local(16)}), dim({local(7)})})), "shard(0) on tp");
  EXPECT_EQ(describe(placed({dim({local(3)}), dim({axis("tp", 2), axis("dp", 4), local(3)})})), "shard(1) on tp, dp");
  EXPECT_EQ(describe(placed({dim({local(2), axis("tp", 8), local(5)})})), "dim 0 as [2][tp 8][5]");
  EXPECT_EQ(describe(placed({dim({axis("tp", 4, 2), local(5)})})), "shard(0) on tp:(2)4");
  DimLayout zigzag = dim({axis("cp", 4), local(2), local(8)});
  zigzag.permutation = Permutation::zigzag;
  EXPECT_EQ(describe(placed({zigzag})), "dim 0 as [cp 4][2][8] zigzag");
  DimLayout padded = dim({axis("dp", 4), local(3)});
  padded.padded_extent = 12;
  EXPECT_EQ(describe(placed({padded})), "shard(0) on dp padded to 12");
  DimLayout ragged = dim({axis("dp", 2)});
  ragged.offsets = {0, 3, 4};
  EXPECT_EQ(describe(placed({ragged})), "shard(0) on dp at offsets 0,3,4");
  Placement partial = placed({dim({axis("tp", 8), local(16)})});
  partial.partial.push_back({"dp", ReduceKind::sum});
  partial.owned.push_back({"pp", {0, 3}});
  EXPECT_EQ(describe(partial), "shard(0) on tp, partial(sum) on dp, only at pp=0,3");
}

TEST(Placement, ReduceNamesRoundTrip) {
  for (const ReduceKind kind : {ReduceKind::sum, ReduceKind::max, ReduceKind::min, ReduceKind::avg, ReduceKind::prod}) {
    EXPECT_EQ(parse_reduce(reduce_name(kind)), kind);
  }
  EXPECT_FALSE(parse_reduce("mean"));
  EXPECT_FALSE(parse_reduce(""));
}

}  // namespace
}  // namespace shardproof::ir

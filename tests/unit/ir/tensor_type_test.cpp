#include "ir/tensor_type.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace shardproof::ir {
namespace {

TEST(TensorType, NamesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(DType::boolean); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
    EXPECT_EQ(is_float(dtype) + is_integer(dtype), dtype == DType::boolean ? 0 : 1) << dtype_name(dtype);
    EXPECT_GE(byte_size(dtype), 1);
  }
  EXPECT_FALSE(parse_dtype("float32"));
  EXPECT_FALSE(parse_dtype(""));
}

TEST(TensorType, TextRoundTrips) {
  EXPECT_EQ(to_string({DType::f32, {16, 8192}}), "f32[16,8192]");
  EXPECT_EQ(to_string({DType::i64, {}}), "i64[]");
  for (const char* text : {"f32[16,8192]", "bool[1]", "i64[]", "f8e4m3[2,3,4,5]"}) {
    const auto type = parse_tensor_type(text);
    ASSERT_TRUE(type) << text;
    EXPECT_EQ(to_string(*type), text);
  }
}

TEST(TensorType, RefusesMalformedText) {
  for (const char* text : {"", "f32", "f32[", "f32]", "[2]", "f32[2", "f32[,]", "f32[2,]", "f32[,2]", "f32[-1]", "f32[2 ,3]",
                           "f32[2][3]", "q32[2]", "f32[2.5]", "f32[99999999999999999999]", "f32[2]x", " f32[2]", "f32[+2]"}) {
    EXPECT_FALSE(parse_tensor_type(text)) << text;
  }
}

TEST(TensorType, CountsElementsWithoutWrapping) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 4, 5}), 60);
  EXPECT_THROW(element_count({kMaxExtent, kMaxExtent}), std::overflow_error);
}

TEST(TensorType, SupportedShapesHaveLimits) {
  EXPECT_TRUE(is_supported({}));
  EXPECT_TRUE(is_supported({kMaxExtent, std::int64_t{1} << 22}));
  EXPECT_FALSE(is_supported({kMaxExtent, (std::int64_t{1} << 22) + 1}));
  EXPECT_FALSE(is_supported({kMaxExtent + 1}));
  EXPECT_FALSE(is_supported({4, 0}));
  EXPECT_FALSE(is_supported({-4, -4}));
  EXPECT_FALSE(is_supported({kMaxExtent, kMaxExtent, kMaxExtent, kMaxExtent}));
}

}  // namespace
}  // namespace shardproof::ir

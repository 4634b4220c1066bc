#include "verifier/execution/rounding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace shardproof::execution {
namespace {

TEST(Rounding, IsThatOfTheMachineForFloat32) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200'000; ++i) {
    const auto x = std::bit_cast<double>(random());
    if (!std::isfinite(x)) continue;
    const auto machine = static_cast<double>(static_cast<float>(x));
    EXPECT_EQ(rounded(x, ir::DType::f32), machine) << x;
    const double near = std::ldexp(1.0 + static_cast<double>(random() % (1U << 25U)) * 0x1p-25, static_cast<int>(random() % 320) - 170);
    EXPECT_EQ(rounded(near, ir::DType::f32), static_cast<double>(static_cast<float>(near))) << near;
  }
}

TEST(Rounding, OfShortTypes) {
  EXPECT_EQ(rounded(1 + 1.0 / 256, ir::DType::bf16), 1);            // a tie, to even
  EXPECT_EQ(rounded(1 + 3.0 / 256, ir::DType::bf16), 1 + 1.0 / 64);  // a tie, to even
  EXPECT_EQ(rounded(1 + 1.01 / 256, ir::DType::bf16), 1 + 1.0 / 128);
  EXPECT_EQ(rounded(65519, ir::DType::f16), 65504);
  EXPECT_TRUE(std::isinf(rounded(65520, ir::DType::f16)));
  EXPECT_EQ(rounded(std::ldexp(1, -24), ir::DType::f16), std::ldexp(1, -24));  // the least subnormal
  EXPECT_EQ(rounded(std::ldexp(1, -25), ir::DType::f16), 0);
  EXPECT_EQ(rounded(460, ir::DType::f8e4m3), 448);
  EXPECT_TRUE(std::isnan(rounded(500, ir::DType::f8e4m3)));
  EXPECT_EQ(rounded(1.2, ir::DType::f8e5m2), 1.25);
  EXPECT_EQ(rounded(12345678901.0, ir::DType::i64), 12345678901.0);
}

TEST(Rounding, IsIdempotentAndKeepsSigns) {
  std::mt19937_64 random(4);
  for (const ir::DType dtype : {ir::DType::f32, ir::DType::bf16, ir::DType::f16, ir::DType::f8e4m3, ir::DType::f8e5m2})
    for (int i = 0; i < 5'000; ++i) {
      const double x = std::ldexp(static_cast<double>(random() % 2000) / 1000 - 1, static_cast<int>(random() % 30) - 20);
      const double once = rounded(x, dtype);
      if (std::isnan(once)) continue;
      EXPECT_EQ(rounded(once, dtype), once);
      EXPECT_EQ(rounded(-x, dtype), -once);
      EXPECT_LE(std::abs(once - x), std::max(std::abs(x) * epsilon(dtype) / 2, std::ldexp(1, -10)));
    }
}

}  // namespace
}  // namespace shardproof::execution

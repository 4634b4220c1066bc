#include "ir/tensor_type.h"

#include <array>
#include <charconv>

#include "ir/check.h"
#include "ir/rational.h"

namespace shardproof::ir {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array<DTypeRow, 12> kDTypes = {{
    {DType::f64, "f64", 8},
    {DType::f32, "f32", 4},
    {DType::bf16, "bf16", 2},
    {DType::f16, "f16", 2},
    {DType::f8e4m3, "f8e4m3", 1},
    {DType::f8e5m2, "f8e5m2", 1},
    {DType::i64, "i64", 8},
    {DType::i32, "i32", 4},
    {DType::i16, "i16", 2},
    {DType::i8, "i8", 1},
    {DType::u8, "u8", 1},
    {DType::boolean, "bool", 1},
}};

const DTypeRow& row(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  SHARDPROOF_CHECK(index < kDTypes.size() && kDTypes[index].dtype == dtype);
  return kDTypes[index];
}

}  // namespace

std::string_view dtype_name(DType dtype) { return row(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DTypeRow& candidate : kDTypes) {
    if (candidate.name == name) return candidate.dtype;
  }
  return std::nullopt;
}

bool is_float(DType dtype) { return dtype <= DType::f8e5m2; }

bool is_integer(DType dtype) { return dtype >= DType::i64 && dtype <= DType::u8; }

std::int64_t byte_size(DType dtype) { return row(dtype).bytes; }

std::string to_string(const TensorType& type) {
  std::string text(dtype_name(type.dtype));
  text += '[';
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    if (i != 0) text += ',';
    text += std::to_string(type.shape[i]);
  }
  text += ']';
  return text;
}

std::optional<TensorType> parse_tensor_type(std::string_view text) {
  const std::size_t open = text.find('[');
  if (open == std::string_view::npos || text.back() != ']') return std::nullopt;
  const std::optional<DType> dtype = parse_dtype(text.substr(0, open));
  if (!dtype) return std::nullopt;
  TensorType type{*dtype, {}};
  std::string_view extents = text.substr(open + 1, text.size() - open - 2);
  while (!extents.empty()) {
    std::int64_t extent = 0;
    const char* end = extents.data() + extents.size();
    const auto [stop, error] = std::from_chars(extents.data(), end, extent);
    if (error != std::errc() || extent < 0 || extents.front() == '-') return std::nullopt;
    type.shape.push_back(extent);
    if (stop == end) break;
    // A comma must be followed by another extent.
    if (*stop != ',' || stop + 1 == end) return std::nullopt;
    extents.remove_prefix(static_cast<std::size_t>(stop + 1 - extents.data()));
  }
  return type;
}

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count = checked_mul(count, extent);
  return count;
}

bool is_supported(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 1 || extent > kMaxExtent) return false;
    if (__builtin_mul_overflow(count, extent, &count) || count > kMaxElements) return false;
  }
  return true;
}

}  // namespace shardproof::ir

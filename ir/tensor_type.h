// Element types and static shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::ir {

enum class DType : std::uint8_t { f64, f32, bf16, f16, f8e4m3, f8e5m2, i64, i32, i16, i8, u8, boolean };

std::string_view dtype_name(DType dtype);  // "f32", ..., "bool"
std::optional<DType> parse_dtype(std::string_view name);
bool is_float(DType dtype);
bool is_integer(DType dtype);  // without boolean
std::int64_t byte_size(DType dtype);

// Extents per dimension; empty means a scalar. Extents are >= 1 and at most 2^40, and the number of
// elements is at most 2^62 (`is_supported`; checked by the type rules and by validation).
using Shape = std::vector<std::int64_t>;

inline constexpr std::int64_t kMaxExtent = std::int64_t{1} << 40;
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 62;

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

std::string to_string(const TensorType& type);                      // "f32[16,8192]", scalar "f32[]"
std::optional<TensorType> parse_tensor_type(std::string_view text);
std::int64_t element_count(const Shape& shape);                     // checked, throws std::overflow_error
bool is_supported(const Shape& shape);                              // within the limits above

}  // namespace shardproof::ir

#include "verifier/execution/tensor.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "ir/check.h"

namespace shardproof::execution {

namespace {

template <typename Draw>
Tensor filled(ir::TensorType type, const Draw& draw) {
  Tensor tensor = zeros(std::move(type));
  for (double& element : tensor.data) element = draw();
  return tensor;
}

}  // namespace

Tensor zeros(ir::TensorType type) {
  const auto count = static_cast<std::size_t>(ir::element_count(type.shape));
  return {std::move(type), std::vector<double>(count, 0.0)};
}

Tensor scalar(ir::DType dtype, double value) {
  return {{dtype, {}}, {value}};
}

std::int64_t flat_index(const ir::Shape& shape, const std::vector<std::int64_t>& index) {
  SHARDPROOF_CHECK(shape.size() == index.size());
  std::int64_t flat = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    SHARDPROOF_CHECK(index[d] >= 0 && index[d] < shape[d]);
    flat = flat * shape[d] + index[d];
  }
  return flat;
}

std::vector<std::int64_t> unflatten(const ir::Shape& shape, std::int64_t flat) {
  std::vector<std::int64_t> index(shape.size(), 0);
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  SHARDPROOF_CHECK(flat == 0);
  return index;
}

std::string describe_index(const ir::Shape& shape, std::int64_t flat) {
  std::string text = "[";
  for (const std::int64_t i : unflatten(shape, flat)) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(i);
  }
  return text + "]";
}

std::string describe_shape(const ir::Shape& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) text += (text.size() > 1 ? "," : "") + std::to_string(extent);
  return text + "]";
}

double uniform(std::mt19937_64& random, double low, double high) {
  const double unit = static_cast<double>(random() >> 11) * 0x1.0p-53;
  return low + (high - low) * unit;
}

double normal(std::mt19937_64& random) {
  // Box-Muller; 1 - u is in (0, 1], so that the logarithm is finite.
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform(random, 0.0, 1.0)));
  return radius * std::cos(2.0 * std::numbers::pi * uniform(random, 0.0, 1.0));
}

std::int64_t uniform_integer(std::mt19937_64& random, std::int64_t below) {
  SHARDPROOF_CHECK(below > 0);
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(below));
}

Tensor random_uniform(std::mt19937_64& random, ir::TensorType type, double low, double high) {
  return filled(std::move(type), [&] { return uniform(random, low, high); });
}

Tensor random_normal(std::mt19937_64& random, ir::TensorType type, double scale) {
  return filled(std::move(type), [&] { return scale * normal(random); });
}

Tensor random_integers(std::mt19937_64& random, ir::TensorType type, std::int64_t below) {
  return filled(std::move(type), [&] { return static_cast<double>(uniform_integer(random, below)); });
}

}  // namespace shardproof::execution

#include "verifier/execution/field_inputs.h"

#include <cmath>

namespace shardproof::execution {

namespace {

// The float itself: an integer times a power of two.
FieldNumber exact(const FieldNumbers& numbers, double x) {
  int exponent = 0;
  const auto mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(x, &exponent), 53));
  return numbers.mul(numbers.from(mantissa), numbers.power(numbers.from(std::int64_t{2}), exponent - 53));
}

}  // namespace

std::map<std::string, TensorOf<FieldNumber>> field_values(const FieldNumbers& numbers, const std::map<std::string, Tensor>& values,
                                                          std::mt19937_64* random) {
  std::map<std::string, TensorOf<FieldNumber>> result;
  for (const auto& [name, tensor] : values) {
    TensorOf<FieldNumber>& field = result[name];
    field.type = tensor.type;
    for (const double x : tensor.data) {
      const bool integer = x == std::floor(x);
      field.data.push_back(integer             ? numbers.from(static_cast<std::int64_t>(x))
                           : random != nullptr ? numbers.any(*random)
                                               : exact(numbers, x));
    }
  }
  return result;
}

}  // namespace shardproof::execution

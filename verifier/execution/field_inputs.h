// Inputs of a step as numbers of the field.
#pragma once

#include <map>
#include <random>
#include <string>

#include "verifier/execution/field_numbers.h"
#include "verifier/execution/tensor.h"

namespace shardproof::execution {

// With `random`, any number stands for a float that is no integer: no label, no mask, not small on purpose. Without, the
// floats themselves.
std::map<std::string, TensorOf<FieldNumber>> field_values(const FieldNumbers& numbers, const std::map<std::string, Tensor>& values,
                                                          std::mt19937_64* random);

}  // namespace shardproof::execution

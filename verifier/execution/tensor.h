// Tensors in exchange form: what goes into and comes out of an execution, without any library behind it.
#pragma once

#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "ir/tensor_type.h"

namespace shardproof::execution {

// An execution that cannot go on: an index out of range, an op that this domain does not run, operands that do not
// fit. The message names the instruction.
class ExecutionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An instruction reads or writes an element that its operand does not have.
class OutOfBounds : public ExecutionError {
 public:
  explicit OutOfBounds(const std::string& message, std::int64_t rank = 0) : ExecutionError(message), rank_(rank) {}
  std::int64_t rank() const { return rank_; }

 private:
  std::int64_t rank_;
};

// Elements in row-major order. All element types travel as the number of the domain (execution/number.h): floats in the
// precision of T, integers and booleans exactly (double: up to 2^53, far beyond what small shapes need).
template <typename T>
struct TensorOf {
  ir::TensorType type;
  std::vector<T> data;
};
using Tensor = TensorOf<double>;

Tensor zeros(ir::TensorType type);
Tensor scalar(ir::DType dtype, double value);

// Row-major position <-> index tuple of an element of `shape`.
std::int64_t flat_index(const ir::Shape& shape, const std::vector<std::int64_t>& index);
std::vector<std::int64_t> unflatten(const ir::Shape& shape, std::int64_t flat);
std::string describe_index(const ir::Shape& shape, std::int64_t flat);  // "[2, 0, 5]"
std::string describe_shape(const ir::Shape& shape);                     // "[2,3]"

// Random contents from a caller's generator: the same seed gives the same tensors on every platform (no
// std::*_distribution, whose output is implementation-defined).
double uniform(std::mt19937_64& random, double low, double high);
double normal(std::mt19937_64& random);
std::int64_t uniform_integer(std::mt19937_64& random, std::int64_t below);
Tensor random_uniform(std::mt19937_64& random, ir::TensorType type, double low, double high);
Tensor random_normal(std::mt19937_64& random, ir::TensorType type, double scale = 1.0);
Tensor random_integers(std::mt19937_64& random, ir::TensorType type, std::int64_t below);

}  // namespace shardproof::execution

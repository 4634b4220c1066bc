// A tensor inside an execution: an opaque handle to LibTorch storage (float64, int64 or bool on the CPU), and the few
// operations that collectives are made of.
#pragma once

#include <any>
#include <span>
#include <vector>

#include "ir/placement.h"
#include "ir/tensor_type.h"
#include "runtime/tensor.h"

namespace shardproof::runtime {

// Immutable by convention: no kernel writes to an operand, so that handles may share storage.
struct Array {
  std::any storage;  // an at::Tensor; empty: no value

  bool has_value() const { return storage.has_value(); }
};

Array upload(const Tensor& tensor);
// A leaf that autograd records; see `gradients`.
Array upload_differentiable(const Tensor& tensor);
// `dtype` is the declared element type: the array knows only float, integer or boolean.
Tensor download(const Array& array, ir::DType dtype);
ir::Shape shape_of(const Array& array);

Array concatenate(std::span<const Array> parts, std::int64_t dim);
// Part `index` of `count` equal ones along `dim`. Throws ExecutionError if the extent does not divide.
Array chunk(const Array& array, std::int64_t dim, std::int64_t count, std::int64_t index);
// Elementwise reduction in the order given.
Array combine(ir::ReduceKind reduce, std::span<const Array> parts);

// LibTorch autograd's gradients of a scalar (one-element) array by leaves from `upload_differentiable`; zeros where
// the scalar does not depend on the leaf. May be called once per recorded execution.
std::vector<Tensor> gradients(const Array& scalar, std::span<const Array> leaves);

}  // namespace shardproof::runtime

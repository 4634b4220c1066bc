#include "runtime/array.h"

#include <ATen/ATen.h>

namespace shardproof::runtime {

namespace {

const at::Tensor& torch(const Array& array) {
  return std::any_cast<const at::Tensor&>(array.storage);
}

at::ScalarType execution_type(ir::DType dtype) {
  if (dtype == ir::DType::boolean) return at::kBool;
  return ir::is_integer(dtype) ? at::kLong : at::kDouble;
}

}  // namespace

Array upload(const Tensor& tensor) {
  const at::Tensor data = at::from_blob(const_cast<double*>(tensor.data.data()), tensor.type.shape, at::kDouble);
  // `copy` because the blob's memory belongs to the caller.
  return Array{data.to(execution_type(tensor.type.dtype), /*non_blocking=*/false, /*copy=*/true)};
}

Array upload_differentiable(const Tensor& tensor) {
  if (!ir::is_float(tensor.type.dtype)) throw ExecutionError("only floating-point tensors have gradients");
  at::Tensor leaf = torch(upload(tensor));
  leaf.set_requires_grad(true);
  return Array{leaf};
}

Tensor download(const Array& array, ir::DType dtype) {
  const at::Tensor values = torch(array).detach().to(at::kDouble).contiguous();
  Tensor result;
  result.type = {dtype, values.sizes().vec()};
  const double* begin = values.data_ptr<double>();
  result.data.assign(begin, begin + values.numel());
  return result;
}

ir::Shape shape_of(const Array& array) {
  return torch(array).sizes().vec();
}

Array concatenate(std::span<const Array> parts, std::int64_t dim) {
  std::vector<at::Tensor> tensors;
  for (const Array& part : parts) tensors.push_back(torch(part));
  return Array{at::cat(tensors, dim)};
}

Array chunk(const Array& array, std::int64_t dim, std::int64_t count, std::int64_t index) {
  const at::Tensor& whole = torch(array);
  const std::int64_t extent = whole.size(dim);
  if (extent % count != 0) {
    throw ExecutionError("extent " + std::to_string(extent) + " of dimension " + std::to_string(dim) +
                         " is not divisible by the group size " + std::to_string(count));
  }
  const std::int64_t length = extent / count;
  return Array{whole.narrow(dim, index * length, length)};
}

Array combine(ir::ReduceKind reduce, std::span<const Array> parts) {
  at::Tensor result = torch(parts.front());
  for (const Array& part : parts.subspan(1)) {
    switch (reduce) {
      case ir::ReduceKind::sum:
      case ir::ReduceKind::avg:
        result = result + torch(part);
        break;
      case ir::ReduceKind::max:
        result = at::maximum(result, torch(part));
        break;
      case ir::ReduceKind::min:
        result = at::minimum(result, torch(part));
        break;
      case ir::ReduceKind::prod:
        result = result * torch(part);
        break;
    }
  }
  if (reduce == ir::ReduceKind::avg) result = result / static_cast<double>(parts.size());
  return Array{result};
}

std::vector<Tensor> gradients(const Array& scalar, std::span<const Array> leaves) {
  const at::Tensor& root = torch(scalar);
  if (root.numel() != 1) throw ExecutionError("gradients of a non-scalar");
  if (root.requires_grad()) root.backward();
  std::vector<Tensor> result;
  for (const Array& leaf : leaves) {
    const at::Tensor& gradient = torch(leaf).grad();
    result.push_back(
        download(gradient.defined() ? Array{gradient} : Array{at::zeros_like(torch(leaf))}, ir::DType::f64));
  }
  return result;
}

}  // namespace shardproof::runtime

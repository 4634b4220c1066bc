#include <ATen/ATen.h>

#include "runtime/torch_kernels.h"

namespace shardproof::runtime {

namespace {

const at::Tensor& torch(const Array& array) {
  return std::any_cast<const at::Tensor&>(array.storage);
}

at::ScalarType execution_type(ir::DType dtype) {
  if (dtype == ir::DType::boolean) return at::kBool;
  return ir::is_integer(dtype) ? at::kLong : at::kDouble;
}

KernelResults run_kernel(const KernelCall& call) {
  if (KernelResults results = run_structure_kernel(call)) return results;
  if (KernelResults results = run_arithmetic_kernel(call)) return results;
  return run_macro_kernel(call);
}

}  // namespace

Array TorchDomain::upload(const Tensor& tensor) const {
  const at::Tensor data = at::from_blob(const_cast<double*>(tensor.data.data()), tensor.type.shape, at::kDouble);
  // `copy` because the blob's memory belongs to the caller.
  return Array{data.to(execution_type(tensor.type.dtype), /*non_blocking=*/false, /*copy=*/true)};
}

Tensor TorchDomain::download(const Array& array, ir::DType dtype) const {
  const at::Tensor values = torch(array).detach().to(at::kDouble).contiguous();
  Tensor result;
  result.type = {dtype, values.sizes().vec()};
  const double* begin = values.data_ptr<double>();
  result.data.assign(begin, begin + values.numel());
  return result;
}

std::vector<Array> TorchDomain::compute(const ir::Program& program, const ir::Instruction& instruction,
                                        std::span<const Array> operands, const VariableValue& variables) const {
  const KernelCall call{instruction, program.value(instruction.outputs.front()).type, operands, variables};
  KernelResults results = run_kernel(call);
  if (!results) throw ExecutionError("no single-rank kernel for this op");
  return std::move(*results);
}

ir::Shape TorchDomain::shape_of(const Array& array) const { return torch(array).sizes().vec(); }

Array TorchDomain::concatenate(std::span<const Array> parts, std::int64_t dim) const {
  std::vector<at::Tensor> tensors;
  for (const Array& part : parts) tensors.push_back(torch(part));
  return Array{at::cat(tensors, dim)};
}

Array TorchDomain::narrow(const Array& array, std::int64_t dim, std::int64_t start, std::int64_t length) const {
  return Array{torch(array).narrow(dim, start, length)};
}

Array TorchDomain::combine(ir::ReduceKind reduce, std::span<const Array> parts) const {
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

Array upload(const Tensor& tensor) { return TorchDomain().upload(tensor); }

Array upload_differentiable(const Tensor& tensor) {
  if (!ir::is_float(tensor.type.dtype)) throw ExecutionError("only floating-point tensors have gradients");
  at::Tensor leaf = torch(upload(tensor));
  leaf.set_requires_grad(true);
  return Array{leaf};
}

std::vector<Tensor> gradients(const Array& scalar, std::span<const Array> leaves) {
  const at::Tensor& root = torch(scalar);
  if (root.numel() != 1) throw ExecutionError("gradients of a non-scalar");
  if (root.requires_grad()) root.backward();
  std::vector<Tensor> result;
  for (const Array& leaf : leaves) {
    const at::Tensor& gradient = torch(leaf).grad();
    result.push_back(
        TorchDomain().download(gradient.defined() ? Array{gradient} : Array{at::zeros_like(torch(leaf))}, ir::DType::f64));
  }
  return result;
}

}  // namespace shardproof::runtime

// The domain of LibTorch tensors (float64, int64, bool on the CPU). Macro ops run LibTorch's own function where it has
// one and never their unfolding, so that macro against unfolded program tests the unfolding.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "ir/program.h"
#include "verifier/execution/domain.h"
#include "verifier/execution/tensor.h"

namespace shardproof::runtime {

using namespace execution;  // this folder is one more domain of it

class TorchDomain final : public DomainOf<double> {
 public:
  Array upload(const Tensor& tensor) const override;
  Tensor download(const Array& array, ir::DType dtype) const override;
  std::vector<Array> compute(const ir::Program& program, const ir::Instruction& instruction,
                             std::span<const Array> operands, const VariableValue& variables) const override;
  ir::Shape shape_of(const Array& array) const override;
  Array concatenate(std::span<const Array> parts, std::int64_t dim) const override;
  Array narrow(const Array& array, std::int64_t dim, std::int64_t start, std::int64_t length) const override;
  Array combine(ir::ReduceKind reduce, std::span<const Array> parts) const override;
};

Array upload(const Tensor& tensor);
// A leaf that autograd records; see `gradients`.
Array upload_differentiable(const Tensor& tensor);

// LibTorch autograd's gradients of a scalar (one-element) array by leaves from `upload_differentiable`; zeros where
// the scalar does not depend on the leaf. May be called once per recorded execution.
std::vector<Tensor> gradients(const Array& scalar, std::span<const Array> leaves);

// Runs a whole program on one device (also loops; a collective throws). `inputs`: every value without a defining
// instruction. Returns the `wanted` values.
std::vector<Array> execute(const ir::Program& program, const std::map<ir::ValueId, Array>& inputs,
                           std::span<const ir::ValueId> wanted);
std::vector<Tensor> execute(const ir::Program& program, const std::map<ir::ValueId, Tensor>& inputs,
                            std::span<const ir::ValueId> wanted);

}  // namespace shardproof::runtime

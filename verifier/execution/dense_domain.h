// Core ops on dense row-major tensors of any kind of number, from their definitions in ir/op_schema.h and nothing else:
// a second implementation beside the terms of the prover and the kernels of LibTorch. Macro ops have to be unfolded
// before (lowering/unfold). Small shapes are what it is for; it favours plainness over speed.
#pragma once

#include <memory>

#include "verifier/execution/domain.h"
#include "verifier/execution/field_numbers.h"
#include "verifier/execution/real_numbers.h"

namespace shardproof::execution {

template <typename Numbers>
class DenseDomain final : public DomainOf<typename Numbers::Number> {
 public:
  using Number = typename Numbers::Number;
  using Dense = TensorOf<Number>;

  // `rounded`: every value is rounded to its declared type, as a device would store it; sums inside one instruction are
  // accumulated without. Otherwise values keep the precision of the numbers.
  explicit DenseDomain(Numbers numbers = Numbers(), bool rounded = false)
      : numbers_(std::move(numbers)), rounded_(rounded) {}
  const Numbers& numbers() const { return numbers_; }

  Array upload(const Dense& tensor) const override;
  Dense download(const Array& array, ir::DType dtype) const override;
  std::vector<Array> compute(const ir::Program& program, const ir::Instruction& instruction,
                             std::span<const Array> operands, const VariableValue& variables) const override;
  ir::Shape shape_of(const Array& array) const override;
  Array concatenate(std::span<const Array> parts, std::int64_t dim) const override;
  Array narrow(const Array& array, std::int64_t dim, std::int64_t start, std::int64_t length) const override;
  Array combine(ir::ReduceKind reduce, std::span<const Array> parts) const override;

 private:
  Array stored(Dense tensor) const;

  Numbers numbers_;
  bool rounded_;
};

extern template class DenseDomain<RealNumbers<double>>;
extern template class DenseDomain<RealNumbers<long double>>;
extern template class DenseDomain<FieldNumbers>;

}  // namespace shardproof::execution

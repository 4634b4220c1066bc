#include "verifier/execution/dense_domain.h"

#include <type_traits>

#include "verifier/execution/dense_kernels.h"
#include "verifier/execution/rounding.h"

namespace shardproof::execution {

namespace {

template <typename T>
const TensorOf<T>& dense(const Array& array) {
  return *std::any_cast<const std::shared_ptr<const TensorOf<T>>&>(array.storage);
}
template <typename T>
Array wrapped(TensorOf<T> tensor) {
  return {std::make_shared<const TensorOf<T>>(std::move(tensor))};
}

// A field has no roundings.
template <typename T>
void round_to(TensorOf<T>& tensor) {
  if constexpr (std::is_floating_point_v<T>)
    for (T& x : tensor.data) x = static_cast<T>(rounded(static_cast<double>(x), tensor.type.dtype));
}

}  // namespace

template <typename Numbers>
Array DenseDomain<Numbers>::stored(Dense tensor) const {
  if (rounded_) round_to(tensor);
  return wrapped(std::move(tensor));
}

template <typename Numbers>
Array DenseDomain<Numbers>::upload(const Dense& tensor) const {
  return stored(tensor);
}

template <typename Numbers>
auto DenseDomain<Numbers>::download(const Array& array, ir::DType dtype) const -> Dense {
  Dense result = dense<Number>(array);
  result.type.dtype = dtype;
  return result;
}

template <typename Numbers>
ir::Shape DenseDomain<Numbers>::shape_of(const Array& array) const {
  return dense<Number>(array).type.shape;
}

template <typename Numbers>
std::vector<Array> DenseDomain<Numbers>::compute(const ir::Program& program, const ir::Instruction& instruction,
                                                 std::span<const Array> operands,
                                                 const VariableValue& variables) const {
  const ir::TensorType& type = program.value(instruction.outputs.front()).type;
  if (instruction.op == ir::OpCode::concat) {
    return {concatenate(operands, instruction.attributes.get<std::int64_t>("dim"))};
  }
  std::vector<const Dense*> tensors;
  for (const Array& operand : operands) tensors.push_back(&dense<Number>(operand));
  return {stored(Kernels<Numbers>(numbers_, instruction, type, std::move(tensors), variables).run())};
}

template <typename Numbers>
Array DenseDomain<Numbers>::concatenate(std::span<const Array> parts, std::int64_t dim) const {
  Dense result{dense<Number>(parts.front()).type, {}};
  std::int64_t& extent = result.type.shape.at(at(dim));
  extent = 0;
  for (const Array& part : parts) extent += dense<Number>(part).type.shape.at(at(dim));
  result.data.resize(at(ir::element_count(result.type.shape)));
  const Integers strides = row_major_strides(result.type.shape);
  std::int64_t start = 0;
  for (const Array& part : parts) {
    const Dense& tensor = dense<Number>(part);
    std::size_t from = 0;
    walk<1>(tensor.type.shape, {start * strides[at(dim)]}, {strides},
            [&](const auto& p) { result.data[at(p[0])] = tensor.data[from++]; });
    start += tensor.type.shape[at(dim)];
  }
  return wrapped(std::move(result));
}

template <typename Numbers>
Array DenseDomain<Numbers>::narrow(const Array& array, std::int64_t dim, std::int64_t start,
                                   std::int64_t length) const {
  const Dense& whole = dense<Number>(array);
  const Integers strides = row_major_strides(whole.type.shape);
  Dense result{whole.type, {}};
  result.type.shape.at(at(dim)) = length;
  walk<1>(result.type.shape, {start * strides[at(dim)]}, {strides},
          [&](const auto& p) { result.data.push_back(whole.data[at(p[0])]); });
  return wrapped(std::move(result));
}

template <typename Numbers>
Array DenseDomain<Numbers>::combine(ir::ReduceKind reduce, std::span<const Array> parts) const {
  Dense result = dense<Number>(parts.front());
  const Number count = numbers_.from(static_cast<std::int64_t>(parts.size()));
  const bool is_float = ir::is_float(result.type.dtype);
  std::vector<Number> elements(parts.size());
  for (std::size_t i = 0; i < result.data.size(); ++i) {
    for (std::size_t k = 0; k < parts.size(); ++k) elements[k] = dense<Number>(parts[k]).data.at(i);
    Number& total = result.data[i];
    switch (reduce) {
      case ir::ReduceKind::sum:
      case ir::ReduceKind::avg:
        for (std::size_t k = 1; k < elements.size(); ++k) total = numbers_.add(total, elements[k]);
        total = numbers_.contracted(total);
        if (reduce == ir::ReduceKind::avg) total = numbers_.div(total, count);
        break;
      case ir::ReduceKind::max:
      case ir::ReduceKind::min: {
        const auto before = [&](const Number& a, const Number& b) {
          return reduce == ir::ReduceKind::max ? numbers_.to_integer(a) < numbers_.to_integer(b)
                                               : numbers_.to_integer(b) < numbers_.to_integer(a);
        };
        if (!is_float) total = *std::max_element(elements.begin(), elements.end(), before);
        else total = reduce == ir::ReduceKind::max ? numbers_.greatest(elements) : numbers_.least(elements);
        break;
      }
      case ir::ReduceKind::prod:
        for (std::size_t k = 1; k < elements.size(); ++k) total = numbers_.mul(total, elements[k]);
        break;
    }
  }
  return stored(std::move(result));
}

template class DenseDomain<RealNumbers<double>>;
template class DenseDomain<RealNumbers<long double>>;
template class DenseDomain<FieldNumbers>;

}  // namespace shardproof::execution

// Elementwise arithmetic and contractions.
#include <ATen/ATen.h>

#include "runtime/torch_kernels.h"

namespace shardproof::runtime {

namespace {

const at::Tensor& operand(const KernelCall& call, std::size_t i) {
  return std::any_cast<const at::Tensor&>(call.operands[i].storage);
}

template <typename Combine>
at::Tensor fold(const KernelCall& call, const Combine& combine) {
  at::Tensor result = operand(call, 0);
  for (std::size_t i = 1; i < call.operands.size(); ++i) {
    // LibTorch would broadcast; the IR has equal shapes only.
    if (operand(call, i).sizes() != result.sizes()) throw ExecutionError("operand shapes differ");
    result = combine(result, operand(call, i));
  }
  return result;
}

at::Tensor compare(const KernelCall& call) {
  const auto& direction = call.instruction.attributes.get<std::string>("direction");
  return fold(call, [&](const at::Tensor& a, const at::Tensor& b) {
    if (direction == "eq") return at::eq(a, b);
    if (direction == "ne") return at::ne(a, b);
    if (direction == "lt") return at::lt(a, b);
    if (direction == "le") return at::le(a, b);
    if (direction == "gt") return at::gt(a, b);
    if (direction == "ge") return at::ge(a, b);
    throw ExecutionError("unknown direction `" + direction + "`");
  });
}

at::Tensor select(const KernelCall& call) {
  if (operand(call, 0).sizes() != operand(call, 1).sizes() || operand(call, 1).sizes() != operand(call, 2).sizes()) {
    throw ExecutionError("operand shapes differ");
  }
  return at::where(operand(call, 0), operand(call, 1), operand(call, 2));
}

at::Tensor einsum(const KernelCall& call) {
  std::vector<at::Tensor> operands;
  for (std::size_t i = 0; i < call.operands.size(); ++i) operands.push_back(operand(call, i));
  return at::einsum(call.instruction.attributes.get<std::string>("spec"), operands);
}

template <typename Reduce>
at::Tensor reduce(const KernelCall& call, const Reduce& function) {
  const auto& dims = call.instruction.attributes.get<std::vector<std::int64_t>>("dims");
  // LibTorch reads an empty list as "all dimensions".
  return dims.empty() ? operand(call, 0) : function(operand(call, 0), at::IntArrayRef(dims));
}

double exponent(const KernelCall& call) {
  const ir::Rational value = call.instruction.attributes.get<ir::Rational>("exponent");
  return static_cast<double>(value.num) / static_cast<double>(value.den);
}

at::Tensor run(const KernelCall& call) {
  using ir::OpCode;
  switch (call.instruction.op) {
    case OpCode::add:
      return fold(call, [](const auto& a, const auto& b) { return a + b; });
    case OpCode::mul:
      return fold(call, [](const auto& a, const auto& b) { return a * b; });
    case OpCode::max:
      return fold(call, [](const auto& a, const auto& b) { return at::maximum(a, b); });
    case OpCode::min:
      return fold(call, [](const auto& a, const auto& b) { return at::minimum(a, b); });
    case OpCode::sub:
      return fold(call, [](const auto& a, const auto& b) { return a - b; });
    case OpCode::div:
      return fold(call, [](const auto& a, const auto& b) { return a / b; });
    case OpCode::neg:
      return at::neg(operand(call, 0));
    case OpCode::exp:
      return at::exp(operand(call, 0));
    case OpCode::log:
      return at::log(operand(call, 0));
    case OpCode::sqrt:
      return at::sqrt(operand(call, 0));
    case OpCode::rsqrt:
      return at::rsqrt(operand(call, 0));
    case OpCode::reciprocal:
      return at::reciprocal(operand(call, 0));
    case OpCode::tanh:
      return at::tanh(operand(call, 0));
    case OpCode::erf:
      return at::erf(operand(call, 0));
    case OpCode::sigmoid:
      return at::sigmoid(operand(call, 0));
    case OpCode::sin:
      return at::sin(operand(call, 0));
    case OpCode::cos:
      return at::cos(operand(call, 0));
    case OpCode::abs:
      return at::abs(operand(call, 0));
    case OpCode::pow:
      return at::pow(operand(call, 0), exponent(call));
    case OpCode::power:
      return at::pow(operand(call, 0), operand(call, 1).to(at::kDouble));
    case OpCode::compare:
      return compare(call);
    case OpCode::select:
      return select(call);
    case OpCode::logical_and:
      return fold(call, [](const auto& a, const auto& b) { return at::logical_and(a, b); });
    case OpCode::logical_or:
      return fold(call, [](const auto& a, const auto& b) { return at::logical_or(a, b); });
    case OpCode::logical_not:
      return at::logical_not(operand(call, 0));
    case OpCode::stop_gradient:
      return operand(call, 0).detach();
    case OpCode::einsum:
      return einsum(call);
    case OpCode::reduce_sum:
      return reduce(call, [](const at::Tensor& x, at::IntArrayRef d) { return at::sum(x, d); });
    case OpCode::reduce_max:
      return reduce(call, [](const at::Tensor& x, at::IntArrayRef d) { return at::amax(x, d); });
    case OpCode::reduce_min:
      return reduce(call, [](const at::Tensor& x, at::IntArrayRef d) { return at::amin(x, d); });
    default:
      return {};
  }
}

}  // namespace

KernelResults run_arithmetic_kernel(const KernelCall& call) {
  at::Tensor result = run(call);
  if (!result.defined()) return std::nullopt;
  return std::vector<Array>{Array{std::move(result)}};
}

}  // namespace shardproof::runtime

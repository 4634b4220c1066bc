// Type rules of elementwise ops. Shapes must be equal: a broadcast is always an instruction of its own, so that
// every index map is written in the plan.
#include "ir/check.h"
#include "ir/infer_rules.h"

namespace shardproof::ir {
namespace {

enum class Class { floats, numbers, bools, any };

void require_class(const TensorType& type, Class wanted) {
  switch (wanted) {
    case Class::floats: return require_float(type, "operand");
    case Class::numbers: return require_numeric(type, "operand");
    case Class::bools: return require_dtype(type, DType::boolean, "operand");
    case Class::any: return;
  }
}

// Operands from `first` on have one shape and one class; the result is their promotion.
TensorType combine(const RuleInput& rule, Class wanted, std::size_t first = 0) {
  TensorType result = rule.operand(first);
  require_class(result, wanted);
  for (std::size_t i = first + 1; i < rule.operands.size(); ++i) {
    const TensorType& next = rule.operand(i);
    require_class(next, wanted);
    require_same_shape(result, next, "operands");
    result.dtype = promote(result.dtype, next.dtype);
  }
  return result;
}

Types infer_power(const RuleInput& rule) {
  require_float(rule.operand(0), "base");
  require_integer(rule.operand(1), "exponent");
  require_same_shape(rule.operand(0), rule.operand(1), "base and exponent");
  return {rule.operand(0)};
}

Types infer_compare(const RuleInput& rule) {
  const std::string& direction = rule.text("direction");
  const bool equality = direction == "eq" || direction == "ne";
  const bool ordering = direction == "lt" || direction == "le" || direction == "gt" || direction == "ge";
  if (!equality && !ordering) fail("`direction` eq ne lt le gt or ge", direction);
  TensorType result = combine(rule, equality ? Class::any : Class::numbers);
  result.dtype = DType::boolean;
  return {result};
}

Types infer_select(const RuleInput& rule) {
  const TensorType& condition = rule.operand(0);
  require_dtype(condition, DType::boolean, "condition");
  const TensorType result = combine(rule, Class::any, 1);
  require_same_shape(condition, result, "condition and operands");
  return {result};
}

}  // namespace

Types infer_elementwise(const RuleInput& rule) {
  switch (rule.instruction.op) {
    case OpCode::add:
    case OpCode::mul:
    case OpCode::max:
    case OpCode::min:
    case OpCode::sub:
    case OpCode::neg:
    case OpCode::abs: return {combine(rule, Class::numbers)};
    // Division of integers is not division of numbers: coordinates divide in coordinate expressions.
    case OpCode::div:
    case OpCode::exp:
    case OpCode::log:
    case OpCode::sqrt:
    case OpCode::rsqrt:
    case OpCode::reciprocal:
    case OpCode::tanh:
    case OpCode::erf:
    case OpCode::sigmoid:
    case OpCode::sin:
    case OpCode::cos:
    case OpCode::pow: return {combine(rule, Class::floats)};
    case OpCode::power: return infer_power(rule);
    case OpCode::compare: return infer_compare(rule);
    case OpCode::select: return infer_select(rule);
    case OpCode::logical_and:
    case OpCode::logical_or:
    case OpCode::logical_not: return {combine(rule, Class::bools)};
    case OpCode::stop_gradient: return {combine(rule, Class::any)};
    default: break;
  }
  SHARDPROOF_CHECK(false);
  return {};
}

}  // namespace shardproof::ir

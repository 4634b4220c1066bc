// Type rules of sources: their result type is written, and the rule checks that the attributes fit it.
#include "ir/check.h"
#include "ir/infer_rules.h"

namespace shardproof::ir {
namespace {

Types infer_constant(const RuleInput& rule) {
  const TensorType& type = declared_type(rule);
  const Attributes& attributes = rule.instruction.attributes;
  const bool infinite = attributes.get_or<bool>("negative_infinity", false);
  if (infinite == attributes.has("value")) {
    fail("exactly one of `value` and `negative_infinity`", infinite ? "both" : "none");
  }
  if (infinite) {
    require_float(type, "result for `negative_infinity`");
  } else {
    require_representable(attributes.get<Rational>("value"), type.dtype, "`value`");
  }
  return {type};
}

Types infer_table(const RuleInput& rule) {
  const TensorType& type = declared_type(rule);
  const auto& values = rule.instruction.attributes.get<std::vector<Rational>>("values");
  const std::int64_t count = element_count(type.shape);
  if (static_cast<std::int64_t>(values.size()) != count) {
    fail(std::to_string(count) + " `values` for " + to_string(type), std::to_string(values.size()));
  }
  for (const Rational value : values) require_representable(value, type.dtype, "`values`");
  return {type};
}

Types infer_iota(const RuleInput& rule) {
  const TensorType& type = declared_type(rule);
  require_numeric(type, "result");
  const std::size_t dim = dimension(rule, "dim", type.shape);
  require_representable(Rational(checked_add(type.shape[dim], -1)), type.dtype, "greatest index");
  return {type};
}

Types infer_rng_uniform(const RuleInput& rule) {
  const TensorType& type = declared_type(rule);
  require_float(type, "result");
  const Attributes& attributes = rule.instruction.attributes;
  if (attributes.has("offsets")) {
    const std::size_t offsets = attributes.get<std::vector<CoordExpr>>("offsets").size();
    if (offsets != type.shape.size()) fail("one of `offsets` per dimension of " + to_string(type), std::to_string(offsets));
  }
  return {type};
}

}  // namespace

Types infer_source(const RuleInput& rule) {
  switch (rule.instruction.op) {
    case OpCode::constant: return infer_constant(rule);
    case OpCode::table: return infer_table(rule);
    case OpCode::iota: return infer_iota(rule);
    case OpCode::coord: return {{DType::i64, {}}};
    case OpCode::rng_uniform: return infer_rng_uniform(rule);
    default: break;
  }
  SHARDPROOF_CHECK(false);
  return {};
}

}  // namespace shardproof::ir

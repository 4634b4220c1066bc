#include "ir/infer_type.h"

#include <limits>

#include "ir/check.h"
#include "ir/infer_rules.h"

namespace shardproof::ir {
namespace {

struct IntegerRange {
  std::int64_t low;
  std::int64_t high;
};

IntegerRange range_of(DType dtype) {
  switch (dtype) {
    case DType::i32: return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
    case DType::i16: return {std::numeric_limits<std::int16_t>::min(), std::numeric_limits<std::int16_t>::max()};
    case DType::i8: return {std::numeric_limits<std::int8_t>::min(), std::numeric_limits<std::int8_t>::max()};
    case DType::u8: return {0, std::numeric_limits<std::uint8_t>::max()};
    case DType::boolean: return {0, 1};
    default: return {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
  }
}

std::string_view kind_name(AttrKind kind) {
  switch (kind) {
    case AttrKind::integer: return "an integer";
    case AttrKind::integers: return "integers";
    case AttrKind::rational: return "a rational number";
    case AttrKind::rationals: return "rational numbers";
    case AttrKind::text: return "a text";
    case AttrKind::texts: return "texts";
    case AttrKind::flag: return "a flag";
    case AttrKind::expr: return "a coordinate expression";
    case AttrKind::exprs: return "coordinate expressions";
    case AttrKind::groups: return "groups of ranks";
  }
  SHARDPROOF_CHECK(false);
  return {};
}

std::string count_text(std::int8_t low, std::int8_t high) {
  if (high < 0) return "at least " + std::to_string(low);
  return low == high ? std::to_string(low) : std::to_string(low) + " to " + std::to_string(high);
}

Types dispatch(const RuleInput& rule) {
  switch (schema_of(rule.instruction.op).family) {
    case OpFamily::source:
    case OpFamily::random: return infer_source(rule);
    case OpFamily::structure: return infer_structure(rule);
    case OpFamily::elementwise: return infer_elementwise(rule);
    case OpFamily::contraction: return infer_contraction(rule);
    case OpFamily::communication: return infer_communication(rule);
    case OpFamily::macro: return infer_macro(rule);
    case OpFamily::lifetime: return {};
    case OpFamily::control: break;
  }
  SHARDPROOF_CHECK(false);  // a loop's types are those of its carries
  return {};
}

}  // namespace

void fail(std::string expected, std::string found) { throw TypeError{std::move(expected), std::move(found)}; }

std::size_t dimension(const RuleInput& rule, std::string_view attribute, const Shape& shape) {
  const std::int64_t dim = rule.instruction.attributes.get_or<std::int64_t>(attribute, 0);
  if (dim < 0 || dim >= static_cast<std::int64_t>(shape.size())) {
    fail("`" + std::string(attribute) + "` below the rank of " + shape_text(shape), std::to_string(dim));
  }
  return static_cast<std::size_t>(dim);
}

std::vector<std::size_t> distinct_dimensions(const RuleInput& rule, std::string_view attribute, std::size_t rank) {
  std::vector<bool> seen(rank, false);
  std::vector<std::size_t> dims;
  for (const std::int64_t dim : rule.instruction.attributes.get<std::vector<std::int64_t>>(attribute)) {
    if (dim < 0 || dim >= static_cast<std::int64_t>(rank)) {
      fail("`" + std::string(attribute) + "` below the rank " + std::to_string(rank), std::to_string(dim));
    }
    const auto index = static_cast<std::size_t>(dim);
    if (seen[index]) fail("distinct `" + std::string(attribute) + "`", std::to_string(dim) + " twice");
    seen[index] = true;
    dims.push_back(index);
  }
  return dims;
}

const TensorType& declared_type(const RuleInput& rule) {
  if (rule.declared.size() != 1) fail("one declared result type", std::to_string(rule.declared.size()));
  return rule.declared.front();
}

void require_float(const TensorType& type, const std::string& what) {
  if (!is_float(type.dtype)) fail("float " + what, to_string(type));
}

void require_integer(const TensorType& type, const std::string& what) {
  if (!is_integer(type.dtype)) fail("integer " + what, to_string(type));
}

void require_numeric(const TensorType& type, const std::string& what) {
  if (type.dtype == DType::boolean) fail("float or integer " + what, to_string(type));
}

void require_same_shape(const TensorType& a, const TensorType& b, const std::string& what) {
  if (a.shape != b.shape) fail(what + " of equal shapes", to_string(a) + " and " + to_string(b));
}

void require_shape(const TensorType& type, const Shape& shape, const std::string& what) {
  if (type.shape != shape) fail(what + " of shape " + shape_text(shape), to_string(type));
}

void require_dtype(const TensorType& type, DType dtype, const std::string& what) {
  if (type.dtype != dtype) fail(what + " of dtype " + std::string(dtype_name(dtype)), to_string(type));
}

void require_rank(const TensorType& type, std::size_t rank, const std::string& what) {
  if (type.shape.size() != rank) fail(what + " of rank " + std::to_string(rank), to_string(type));
}

void require_representable(Rational value, DType dtype, const std::string& what) {
  if (is_float(dtype)) return;
  const IntegerRange range = range_of(dtype);
  if (!value.is_integer() || value.num < range.low || value.num > range.high) {
    fail(what + " that " + std::string(dtype_name(dtype)) + " can hold", to_string(value));
  }
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  const std::string found = std::string(dtype_name(a)) + " and " + std::string(dtype_name(b));
  if (is_float(a) && is_float(b)) {
    if (byte_size(a) == 1 && byte_size(b) == 1) fail("operands of one 8-bit float dtype", found);
    if (byte_size(a) == byte_size(b)) return DType::f32;
    return byte_size(a) > byte_size(b) ? a : b;
  }
  if (is_integer(a) && is_integer(b)) {
    if (byte_size(a) == byte_size(b)) return DType::i16;
    return byte_size(a) > byte_size(b) ? a : b;
  }
  fail("operands that are all float, all integer or all bool (use `cast`)", found);
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  return text + "]";
}

std::variant<std::vector<TensorType>, TypeError> infer_types(const Instruction& instruction,
                                                             const std::vector<TensorType>& operands,
                                                             const std::vector<TensorType>& declared,
                                                             const AxisSize& axis_size) {
  try {
    return dispatch({instruction, operands, declared, axis_size});
  } catch (const TypeError& error) {
    return error;
  }
}

std::optional<TypeError> check_schema(const Instruction& instruction) {
  const OpSchema& schema = schema_of(instruction.op);
  const std::size_t inputs = instruction.inputs.size();
  const bool too_many = schema.max_inputs >= 0 && inputs > static_cast<std::size_t>(schema.max_inputs);
  if (inputs < static_cast<std::size_t>(schema.min_inputs) || too_many) {
    return TypeError{count_text(schema.min_inputs, schema.max_inputs) + " operands", std::to_string(inputs)};
  }
  std::size_t known = 0;
  for (const AttrSchema& attribute : schema.attributes) {
    const AttrValue* value = instruction.attributes.find(attribute.name);
    const std::string name = "attribute `" + std::string(attribute.name) + "`";
    if (value == nullptr) {
      if (attribute.required) return TypeError{name, "none"};
      continue;
    }
    ++known;
    // The alternatives of AttrValue stand in the order of AttrKind.
    if (value->index() != static_cast<std::size_t>(attribute.kind)) {
      return TypeError{name + " as " + std::string(kind_name(attribute.kind)),
                       std::string(kind_name(static_cast<AttrKind>(value->index())))};
    }
  }
  if (known == instruction.attributes.entries().size()) return std::nullopt;
  for (const auto& [name, value] : instruction.attributes.entries()) {
    bool found = false;
    for (const AttrSchema& attribute : schema.attributes) found = found || attribute.name == name;
    if (!found) return TypeError{"an attribute of `" + std::string(schema.name) + "`", "`" + name + "`"};
  }
  return std::nullopt;
}

}  // namespace shardproof::ir

// Private to the type rules (infer_*.cpp): what a rule sees, the checks rules share, and one entry per family.
// A rule reports a problem by `fail`, which infer_types turns into its TypeError result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/infer_type.h"

namespace shardproof::ir {

struct RuleInput {
  const Instruction& instruction;
  const std::vector<TensorType>& operands;
  const std::vector<TensorType>& declared;
  const AxisSize& axis_size;

  const TensorType& operand(std::size_t i) const { return operands.at(i); }
  std::int64_t integer(std::string_view name) const { return instruction.attributes.get<std::int64_t>(name); }
  const std::string& text(std::string_view name) const { return instruction.attributes.get<std::string>(name); }
};

using Types = std::vector<TensorType>;

[[noreturn]] void fail(std::string expected, std::string found);

// An attribute that names a dimension of `shape`.
std::size_t dimension(const RuleInput& rule, std::string_view attribute, const Shape& shape);
// Distinct dimensions below `rank`.
std::vector<std::size_t> distinct_dimensions(const RuleInput& rule, std::string_view attribute, std::size_t rank);
const TensorType& declared_type(const RuleInput& rule);

void require_float(const TensorType& type, const std::string& what);
void require_integer(const TensorType& type, const std::string& what);
void require_numeric(const TensorType& type, const std::string& what);  // float or integer
void require_same_shape(const TensorType& a, const TensorType& b, const std::string& what);
void require_shape(const TensorType& type, const Shape& shape, const std::string& what);
void require_dtype(const TensorType& type, DType dtype, const std::string& what);
void require_rank(const TensorType& type, std::size_t rank, const std::string& what);
// A rational that the dtype can hold: whole and in range for integers, 0 or 1 for bool.
void require_representable(Rational value, DType dtype, const std::string& what);

// Dtype of an elementwise result, by ATen's promotion within one class: the wider operand, f32 for bf16 with
// f16, i16 for i8 with u8. Classes do not mix, nor do two 8-bit floats.
DType promote(DType a, DType b);

std::string shape_text(const Shape& shape);  // "[2,3]"

Types infer_source(const RuleInput& rule);         // also random
Types infer_structure(const RuleInput& rule);
Types infer_elementwise(const RuleInput& rule);
Types infer_contraction(const RuleInput& rule);
Types infer_communication(const RuleInput& rule);
Types infer_macro(const RuleInput& rule);

}  // namespace shardproof::ir

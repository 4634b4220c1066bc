// Type rules of the ops that move elements and compute nothing.
#include <algorithm>

#include "ir/check.h"
#include "ir/infer_rules.h"

namespace shardproof::ir {
namespace {

using Integers = std::vector<std::int64_t>;

Types infer_reshape(const RuleInput& rule) {
  const TensorType& x = rule.operand(0);
  const auto& shape = rule.instruction.attributes.get<Integers>("shape");
  for (const std::int64_t extent : shape) {
    if (extent < 1) fail("positive extents in `shape`", shape_text(shape));
  }
  if (element_count(shape) != element_count(x.shape)) {
    fail("`shape` with the " + std::to_string(element_count(x.shape)) + " elements of " + to_string(x),
         shape_text(shape));
  }
  return {{x.dtype, shape}};
}

Types infer_transpose(const RuleInput& rule) {
  const TensorType& x = rule.operand(0);
  const std::vector<std::size_t> perm = distinct_dimensions(rule, "perm", x.shape.size());
  if (perm.size() != x.shape.size()) {
    fail("`perm` of all dimensions of " + to_string(x), std::to_string(perm.size()) + " dimensions");
  }
  TensorType result{x.dtype, {}};
  for (const std::size_t dim : perm) result.shape.push_back(x.shape[dim]);
  return {result};
}

Types infer_broadcast(const RuleInput& rule) {
  const TensorType& x = rule.operand(0);
  const auto& shape = rule.instruction.attributes.get<Integers>("shape");
  const std::vector<std::size_t> dims = distinct_dimensions(rule, "dims", shape.size());
  if (dims.size() != x.shape.size()) {
    fail("`dims` with one entry per dimension of " + to_string(x), std::to_string(dims.size()));
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (x.shape[i] != 1 && x.shape[i] != shape[dims[i]]) {
      fail("extent " + std::to_string(x.shape[i]) + " or an operand extent of 1 at dimension " +
               std::to_string(dims[i]) + " of `shape`",
           shape_text(shape));
    }
  }
  return {{x.dtype, shape}};
}

// The start is an expression; whether it stays inside for all ranks is a side condition of the prover. What can
// be said from the sizes alone is said here.
Types infer_slice(const RuleInput& rule) {
  const TensorType& x = rule.operand(0);
  const Attributes& attributes = rule.instruction.attributes;
  const std::size_t dim = dimension(rule, "dim", x.shape);
  const std::int64_t size = rule.integer("size");
  const std::int64_t stride = attributes.get_or<std::int64_t>("stride", 1);
  const CoordExpr& start = attributes.get<CoordExpr>("start");
  if (size < 1) fail("`size` of at least 1", std::to_string(size));
  if (stride < 1) fail("`stride` of at least 1", std::to_string(stride));
  const std::int64_t reach = checked_add(checked_mul(size - 1, stride), 1);
  const std::int64_t first = start.is_constant() ? start.constant : 0;
  if (first < 0) fail("`start` of at least 0", std::to_string(first));
  if (checked_add(first, reach) > x.shape[dim]) {
    fail("a slice within extent " + std::to_string(x.shape[dim]) + " of dimension " + std::to_string(dim),
         "elements up to " + std::to_string(checked_add(first, reach - 1)));
  }
  TensorType result = x;
  result.shape[dim] = size;
  return {result};
}

Types infer_concat(const RuleInput& rule) {
  TensorType result = rule.operand(0);
  const std::size_t dim = dimension(rule, "dim", result.shape);
  for (std::size_t i = 1; i < rule.operands.size(); ++i) {
    const TensorType& next = rule.operand(i);
    bool fits = next.dtype == result.dtype && next.shape.size() == result.shape.size();
    for (std::size_t d = 0; fits && d < next.shape.size(); ++d) fits = d == dim || next.shape[d] == result.shape[d];
    if (!fits) {
      fail("operands that differ only in dimension " + std::to_string(dim),
           to_string(rule.operand(0)) + " and " + to_string(next));
    }
    result.shape[dim] = checked_add(result.shape[dim], next.shape[dim]);
  }
  return {result};
}

Types infer_pad(const RuleInput& rule) {
  TensorType result = rule.operand(0);
  const std::size_t dim = dimension(rule, "dim", result.shape);
  const std::int64_t low = rule.integer("low");
  const std::int64_t high = rule.integer("high");
  if (low < 0 || high < 0) fail("`low` and `high` of at least 0", std::to_string(low) + " and " + std::to_string(high));
  require_representable(rule.instruction.attributes.get<Rational>("value"), result.dtype, "`value`");
  result.shape[dim] = checked_add(result.shape[dim], checked_add(low, high));
  return {result};
}

// A cast must be the identity over the reals, because the prover treats it as such. Float to integer truncates
// and anything to bool is a test: write these with arithmetic and compare.
Types infer_cast(const RuleInput& rule) {
  const TensorType& x = rule.operand(0);
  const std::string& text = rule.text("dtype");
  const std::optional<DType> to = parse_dtype(text);
  if (!to) fail("`dtype` f64 f32 bf16 f16 f8e4m3 f8e5m2 i64 i32 i16 i8 u8 or bool", text);
  const bool exact = *to == x.dtype || is_float(*to) || (is_integer(*to) && !is_float(x.dtype));
  if (!exact) fail("a cast that keeps values", std::string(dtype_name(x.dtype)) + " to " + text);
  return {{*to, x.shape}};
}

Types infer_take(const RuleInput& rule) {
  const TensorType& x = rule.operand(0);
  const TensorType& ids = rule.operand(1);
  require_integer(ids, "ids");
  const std::size_t dim = dimension(rule, "dim", x.shape);
  TensorType result{x.dtype, {}};
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    if (d == dim) {
      result.shape.insert(result.shape.end(), ids.shape.begin(), ids.shape.end());
    } else {
      result.shape.push_back(x.shape[d]);
    }
  }
  return {result};
}

// updates = prefix ++ ids ++ suffix, where the prefix has `dim` dimensions; the result has `size` for ids.
Types infer_scatter_add(const RuleInput& rule) {
  const TensorType& updates = rule.operand(0);
  const TensorType& ids = rule.operand(1);
  require_numeric(updates, "updates");
  require_integer(ids, "ids");
  const std::int64_t dim = rule.instruction.attributes.get_or<std::int64_t>("dim", 0);
  const std::int64_t size = rule.integer("size");
  const auto rank = static_cast<std::int64_t>(updates.shape.size());
  const auto id_rank = static_cast<std::int64_t>(ids.shape.size());
  if (size < 1) fail("`size` of at least 1", std::to_string(size));
  if (dim < 0 || dim > rank - id_rank || !std::equal(ids.shape.begin(), ids.shape.end(), updates.shape.begin() + dim)) {
    fail("updates with the dimensions of ids from `dim` on", to_string(updates) + " and " + to_string(ids) + " at " +
                                                                 std::to_string(dim));
  }
  TensorType result{updates.dtype, {updates.shape.begin(), updates.shape.begin() + dim}};
  result.shape.push_back(size);
  result.shape.insert(result.shape.end(), updates.shape.begin() + dim + id_rank, updates.shape.end());
  return {result};
}

Types infer_take_along(const RuleInput& rule) {
  const TensorType& x = rule.operand(0);
  const TensorType& ids = rule.operand(1);
  if (x.shape.empty()) fail("x of rank 1 or more", to_string(x));
  require_integer(ids, "ids");
  require_shape(ids, {x.shape.begin(), x.shape.end() - 1}, "ids");
  return {{x.dtype, ids.shape}};
}

Types infer_put_along(const RuleInput& rule) {
  const TensorType& updates = rule.operand(0);
  const TensorType& ids = rule.operand(1);
  const std::int64_t size = rule.integer("size");
  require_numeric(updates, "updates");
  require_integer(ids, "ids");
  require_same_shape(updates, ids, "updates and ids");
  if (size < 1) fail("`size` of at least 1", std::to_string(size));
  TensorType result = updates;
  result.shape.push_back(size);
  return {result};
}

}  // namespace

Types infer_structure(const RuleInput& rule) {
  switch (rule.instruction.op) {
    case OpCode::reshape: return infer_reshape(rule);
    case OpCode::transpose: return infer_transpose(rule);
    case OpCode::broadcast: return infer_broadcast(rule);
    case OpCode::slice: return infer_slice(rule);
    case OpCode::concat: return infer_concat(rule);
    case OpCode::pad: return infer_pad(rule);
    case OpCode::cast: return infer_cast(rule);
    case OpCode::take: return infer_take(rule);
    case OpCode::scatter_add: return infer_scatter_add(rule);
    case OpCode::take_along: return infer_take_along(rule);
    case OpCode::put_along: return infer_put_along(rule);
    default: break;
  }
  SHARDPROOF_CHECK(false);
  return {};
}

}  // namespace shardproof::ir

// Structure moves elements without arithmetic: the VJP moves cotangents back, and sums where an element was repeated.
#include <algorithm>

#include "lowering/emit.h"
#include "lowering/vjp.h"

namespace shardproof::lowering {
namespace {

using ir::OpCode;
using ir::Rational;
using ir::ValueId;
using Values = std::vector<ValueId>;

Values vjp_reshape(const VjpCall& c) {
  return {emit_reshape(c.builder, c.g(), c.builder.shape(c.in(0)), c.names[0])};
}

ValueId transposed(ir::Builder& builder, ValueId x, Dims perm, std::string name) {
  return builder.op(OpCode::transpose, {x}, {{"perm", std::move(perm)}}, std::move(name));
}

Values vjp_transpose(const VjpCall& c) {
  const Dims& perm = c.instruction.attributes.get<Dims>("perm");
  Dims inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  return {transposed(c.builder, c.g(), std::move(inverse), c.names[0])};
}

// Sums over the result dimensions that repeat the operand; then dimension order and extents of 1 are put back.
Values vjp_broadcast(const VjpCall& c) {
  const Dims& dims = c.instruction.attributes.get<Dims>("dims");
  const ir::Shape operand = c.builder.shape(c.in(0));
  const ir::Shape result = c.builder.shape(c.out());
  Dims order;  // result dimension of each operand dimension that is not repeated
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (operand[i] == result[static_cast<std::size_t>(dims[i])]) order.push_back(dims[i]);
  }
  Dims summed;
  Dims left;
  for (const std::int64_t dim : all_dims(result.size())) {
    (std::find(order.begin(), order.end(), dim) == order.end() ? summed : left).push_back(dim);
  }
  ValueId g = emit_reduce(c.builder, OpCode::reduce_sum, c.g(), std::move(summed), c.names[0]);
  if (order != left) {
    Dims perm;
    for (const std::int64_t dim : order) perm.push_back(std::find(left.begin(), left.end(), dim) - left.begin());
    g = transposed(c.builder, g, std::move(perm), c.names[0]);
  }
  if (c.builder.shape(g) != operand) g = emit_reshape(c.builder, g, operand, c.names[0]);
  return {g};
}

ValueId padded(ir::Builder& builder, ValueId x, std::int64_t dim, std::int64_t low, std::int64_t high,
               std::string name) {
  return builder.op(OpCode::pad, {x}, {{"dim", dim}, {"low", low}, {"high", high}, {"value", Rational(0)}},
                    std::move(name));
}

// A slice at a fixed place is padded back. A strided one, or one whose start depends on the rank, is scattered:
// element i goes to start + stride * i.
Values vjp_slice(const VjpCall& c) {
  const ir::Attributes& attributes = c.instruction.attributes;
  const std::int64_t dim = attributes.get<std::int64_t>("dim");
  const auto axis = static_cast<std::size_t>(dim);
  const std::int64_t extent = c.builder.shape(c.in(0))[axis];
  const std::int64_t size = attributes.get<std::int64_t>("size");
  const std::int64_t stride = attributes.get_or<std::int64_t>("stride", 1);
  const ir::CoordExpr& start = attributes.get<ir::CoordExpr>("start");
  if (start.is_constant() && stride == 1) {
    return {padded(c.builder, c.g(), dim, start.constant, extent - start.constant - size, c.names[0])};
  }
  const ir::TensorType ids_type{ir::DType::i64, {size}};
  const ValueId first = c.builder.typed(OpCode::coord, {ir::DType::i64, {}}, {{"value", start}});
  const ValueId steps = c.builder.typed(OpCode::iota, ids_type, {{"dim", std::int64_t{0}}});
  const ValueId ids = emit_add(
      c.builder, {emit_broadcast(c.builder, first, {size}, {}), emit_scaled(c.builder, steps, Rational(stride))});
  return {c.builder.op(OpCode::scatter_add, {c.g(), ids}, {{"dim", dim}, {"size", extent}}, c.names[0])};
}

Values vjp_concat(const VjpCall& c) {
  const std::int64_t dim = c.instruction.attributes.get<std::int64_t>("dim");
  std::int64_t start = 0;
  Values out;
  for (std::size_t i = 0; i < c.instruction.inputs.size(); ++i) {
    const std::int64_t size = c.builder.shape(c.in(i))[static_cast<std::size_t>(dim)];
    out.push_back(c.wanted[i] ? emit_slice(c.builder, c.g(), dim, ir::constant_expr(start), size, c.names[i])
                              : ValueId{});
    start += size;
  }
  return out;
}

Values vjp_pad(const VjpCall& c) {
  const ir::Attributes& attributes = c.instruction.attributes;
  const std::int64_t dim = attributes.get<std::int64_t>("dim");
  const std::int64_t size = c.builder.shape(c.in(0))[static_cast<std::size_t>(dim)];
  const ir::CoordExpr low = ir::constant_expr(attributes.get<std::int64_t>("low"));
  return {emit_slice(c.builder, c.g(), dim, low, size, c.names[0])};
}

Values vjp_cast(const VjpCall& c) {
  const std::string dtype(ir::dtype_name(c.builder.type(c.in(0)).dtype));
  return {c.builder.op(OpCode::cast, {c.g()}, {{"dtype", dtype}}, c.names[0])};
}

// take and scatter_add, take_along and put_along are transposes of each other in their first operand. Ids are
// integers: no cotangent.
Values vjp_take(const VjpCall& c) {
  const std::int64_t dim = c.instruction.attributes.get_or<std::int64_t>("dim", 0);
  const std::int64_t size = c.builder.shape(c.in(0))[static_cast<std::size_t>(dim)];
  return {c.builder.op(OpCode::scatter_add, {c.g(), c.in(1)}, {{"dim", dim}, {"size", size}}, c.names[0]), {}};
}

Values vjp_scatter_add(const VjpCall& c) {
  const std::int64_t dim = c.instruction.attributes.get_or<std::int64_t>("dim", 0);
  return {c.builder.op(OpCode::take, {c.g(), c.in(1)}, {{"dim", dim}}, c.names[0]), {}};
}

Values vjp_take_along(const VjpCall& c) {
  const std::int64_t size = last_extent(c.builder, c.in(0));
  return {c.builder.op(OpCode::put_along, {c.g(), c.in(1)}, {{"size", size}}, c.names[0]), {}};
}

Values vjp_put_along(const VjpCall& c) {
  return {c.builder.op(OpCode::take_along, {c.g(), c.in(1)}, {}, c.names[0]), {}};
}

constexpr VjpEntry kRules[] = {
    {OpCode::reshape, vjp_reshape},
    {OpCode::transpose, vjp_transpose},
    {OpCode::broadcast, vjp_broadcast},
    {OpCode::slice, vjp_slice},
    {OpCode::concat, vjp_concat},
    {OpCode::pad, vjp_pad},
    {OpCode::cast, vjp_cast},
    {OpCode::take, vjp_take},
    {OpCode::scatter_add, vjp_scatter_add},
    {OpCode::take_along, vjp_take_along},
    {OpCode::put_along, vjp_put_along},
};

}  // namespace

std::span<const VjpEntry> structure_vjps() {
  return kRules;
}

}  // namespace shardproof::lowering

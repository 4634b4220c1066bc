#include "lowering/emit.h"

#include <algorithm>
#include <numeric>

namespace shardproof::lowering {

using ir::OpCode;
using ir::ValueId;

ValueId emit_constant(ir::Builder& builder, ir::TensorType type, ir::Rational value, std::string name) {
  return builder.typed(OpCode::constant, std::move(type), {{"value", value}}, std::move(name));
}

ValueId emit_constant_like(ir::Builder& builder, ValueId like, ir::Rational value) {
  return emit_constant(builder, builder.type(like), value);
}

ValueId emit_negative_infinity_like(ir::Builder& builder, ValueId like) {
  return builder.typed(OpCode::constant, builder.type(like), {{"negative_infinity", true}});
}

ValueId emit_scaled(ir::Builder& builder, ValueId x, ir::Rational factor, std::string name) {
  const ValueId constant = emit_constant_like(builder, x, factor);
  return builder.op(OpCode::mul, {x, constant}, {}, std::move(name));
}

ValueId emit_shifted(ir::Builder& builder, ValueId x, ir::Rational offset, std::string name) {
  const ValueId constant = emit_constant_like(builder, x, offset);
  return builder.op(OpCode::add, {x, constant}, {}, std::move(name));
}

ValueId emit_add(ir::Builder& builder, std::vector<ValueId> terms, std::string name) {
  return builder.op(OpCode::add, std::move(terms), {}, std::move(name));
}

ValueId emit_mul(ir::Builder& builder, std::vector<ValueId> factors, std::string name) {
  return builder.op(OpCode::mul, std::move(factors), {}, std::move(name));
}

ValueId emit_unary(ir::Builder& builder, OpCode op, ValueId x, std::string name) {
  return builder.op(op, {x}, {}, std::move(name));
}

ValueId emit_reduce(ir::Builder& builder, OpCode op, ValueId x, Dims dims, std::string name) {
  if (dims.empty()) return x;
  return builder.op(op, {x}, {{"dims", std::move(dims)}}, std::move(name));
}

ValueId emit_broadcast(ir::Builder& builder, ValueId x, ir::Shape shape, Dims dims, std::string name) {
  return builder.op(OpCode::broadcast, {x}, {{"shape", std::move(shape)}, {"dims", std::move(dims)}}, std::move(name));
}

ValueId emit_restore(ir::Builder& builder, ValueId x, const ir::Shape& shape, const Dims& removed, std::string name) {
  if (removed.empty()) return x;
  Dims kept;
  for (const std::int64_t dim : all_dims(shape.size())) {
    if (std::find(removed.begin(), removed.end(), dim) == removed.end()) kept.push_back(dim);
  }
  return emit_broadcast(builder, x, shape, std::move(kept), std::move(name));
}

ValueId emit_einsum(ir::Builder& builder, std::string spec, std::vector<ValueId> inputs, std::string name) {
  return builder.op(OpCode::einsum, std::move(inputs), {{"spec", std::move(spec)}}, std::move(name));
}

ValueId emit_slice(ir::Builder& builder, ValueId x, std::int64_t dim, ir::CoordExpr start, std::int64_t size,
                   std::string name) {
  return builder.op(OpCode::slice, {x}, {{"dim", dim}, {"start", std::move(start)}, {"size", size}}, std::move(name));
}

ValueId emit_reshape(ir::Builder& builder, ValueId x, ir::Shape shape, std::string name) {
  return builder.op(OpCode::reshape, {x}, {{"shape", std::move(shape)}}, std::move(name));
}

ValueId emit_mean_last(ir::Builder& builder, ValueId x, std::string name) {
  const ValueId sum = emit_reduce(builder, OpCode::reduce_sum, x, {last_dim(builder, x)});
  return emit_scaled(builder, sum, ir::Rational(1, last_extent(builder, x)), std::move(name));
}

ValueId emit_restore_last(ir::Builder& builder, ValueId reduced, ValueId like, std::string name) {
  return emit_restore(builder, reduced, builder.shape(like), {last_dim(builder, like)}, std::move(name));
}

ValueId emit_restore_leading(ir::Builder& builder, ValueId vector, ValueId like, std::string name) {
  return emit_restore(builder, vector, builder.shape(like), leading_dims(builder.shape(like).size()), std::move(name));
}

Dims all_dims(std::size_t rank) {
  Dims dims(rank);
  std::iota(dims.begin(), dims.end(), std::int64_t{0});
  return dims;
}

Dims leading_dims(std::size_t rank) {
  return all_dims(rank - 1);
}

std::int64_t last_dim(const ir::Builder& builder, ValueId x) {
  return static_cast<std::int64_t>(builder.shape(x).size()) - 1;
}

std::int64_t last_extent(const ir::Builder& builder, ValueId x) {
  return builder.shape(x).back();
}

}  // namespace shardproof::lowering

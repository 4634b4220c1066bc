// What a collective across stages computes, in core ops on the values of its members. Position p of the group is the inner rank
// p mod n of member p / n (n: ranks of the group within one stage), as long as members vary slowest in the group's order.
#include <algorithm>

#include "ir/check.h"
#include "ir/placement.h"
#include "lowering/join_parts.h"

namespace shardproof::lowering::join {

using ir::Attributes;
using ir::Instruction;
using ir::OpCode;
using ir::TensorType;
using ir::ValueId;

namespace {

std::int64_t dim_of(const Side& side, const char* name = "dim") { return side.instruction->attributes.get<std::int64_t>(name); }

// What all members have to agree in.
bool alike(const ir::Program& program, const Side& a, const Side& b) {
  const Attributes &x = a.instruction->attributes, &y = b.instruction->attributes;
  if (a.instruction->op != b.instruction->op || program.value(a.operand).type != program.value(b.operand).type ||
      program.value(a.result).type != program.value(b.result).type)
    return false;
  for (const char* name : {"dim", "split_dim", "concat_dim", "root", "shift"})
    if (x.get_or<std::int64_t>(name, -1) != y.get_or<std::int64_t>(name, -1)) return false;
  return x.get_or<std::string>("reduce", {}) == y.get_or<std::string>("reduce", {});
}

}  // namespace

Instruction identity(const ir::Program& program, ValueId result, ValueId value, const Instruction& from) {
  Instruction same;
  same.op = OpCode::reshape;
  same.inputs = {value};
  same.outputs = {result};
  same.attributes.set("shape", program.value(result).type.shape);
  same.source = from.source;
  same.span = from.span;
  return same;
}

ValueId CollectiveWriter::emit(OpCode op, std::vector<ValueId> inputs, TensorType type, Attributes attributes) {
  const ValueId id{static_cast<std::int32_t>(program_.values.size())};
  const ir::Value like = program_.value(result_);
  program_.values.push_back({like.name + "/" + std::to_string(++parts_), std::move(type), from_->span, like.written_name()});
  Instruction instruction;
  instruction.op = op;
  instruction.inputs = std::move(inputs);
  instruction.outputs = {id};
  instruction.attributes = std::move(attributes);
  instruction.source = from_->source;
  instruction.span = from_->span;
  body_.push_back(std::move(instruction));
  return id;
}

void CollectiveWriter::define(ValueId result, ValueId value) {
  SHARDPROOF_CHECK(type(result) == type(value));
  body_.push_back(identity(program_, result, value, *from_));
}

ValueId CollectiveWriter::inner(OpCode op, ValueId x, TensorType type, Attributes attributes) {
  if (inner_size_ == 1) return x;
  if (!group_->inner_lists.empty()) attributes.set("groups", group_->inner_lists);
  else attributes.set("axes", group_->inner_axes);
  return emit(op, {x}, std::move(type), std::move(attributes));
}

ValueId CollectiveWriter::scaled(ValueId x, ir::Rational factor) {
  const TensorType t = type(x);
  Attributes attributes;
  attributes.set("value", factor);
  const ValueId number = emit(OpCode::constant, {}, t, std::move(attributes));
  return emit(OpCode::mul, {x, number}, t);
}

// Sum, maximum or minimum over the members, at each inner rank by itself.
ValueId CollectiveWriter::combined(const std::vector<Side>& sides, const std::string& reduce) {
  std::vector<ValueId> operands;
  for (const Side& side : sides) operands.push_back(side.operand);
  const TensorType t = type(operands.front());
  switch (*ir::parse_reduce(reduce)) {
    case ir::ReduceKind::sum: return emit(OpCode::add, std::move(operands), t);
    case ir::ReduceKind::avg: return scaled(emit(OpCode::add, std::move(operands), t), ir::Rational(1, static_cast<std::int64_t>(sides.size())));
    case ir::ReduceKind::max: return emit(OpCode::max, std::move(operands), t);
    case ir::ReduceKind::min: return emit(OpCode::min, std::move(operands), t);
    case ir::ReduceKind::prod: break;
  }
  throw Refusal("a product over ranks of several stages", from_->span, "`reduce` sum, avg, max or min", "`" + reduce + "`");
}

// Part `part` of `parts` equal ones along `dim`.
ValueId CollectiveWriter::block(ValueId x, std::int64_t dim, std::int64_t part, std::int64_t parts) {
  TensorType t = type(x);
  std::int64_t& extent = t.shape[static_cast<std::size_t>(dim)];
  extent /= parts;
  Attributes attributes;
  attributes.set("dim", dim);
  attributes.set("start", ir::constant_expr(part * extent));
  attributes.set("size", extent);
  return emit(OpCode::slice, {x}, t, std::move(attributes));
}

void CollectiveWriter::all_reduce(const std::vector<Side>& sides) {
  const std::string reduce = sides.front().instruction->attributes.get<std::string>("reduce");
  const ValueId own = combined(sides, reduce);
  Attributes attributes;
  attributes.set("reduce", reduce);
  const ValueId whole = inner(OpCode::all_reduce, own, type(own), std::move(attributes));
  for (const Side& side : sides) define(side.result, whole);
}

void CollectiveWriter::all_gather(const std::vector<Side>& sides) {
  const std::int64_t dim = dim_of(sides.front());
  std::vector<ValueId> parts;
  for (const Side& side : sides) {
    TensorType t = type(side.operand);
    t.shape[static_cast<std::size_t>(dim)] *= inner_size_;
    Attributes attributes;
    attributes.set("dim", dim);
    parts.push_back(inner(OpCode::all_gather, side.operand, t, std::move(attributes)));
  }
  Attributes attributes;
  attributes.set("dim", dim);
  const ValueId whole = emit(OpCode::concat, parts, type(sides.front().result), std::move(attributes));
  for (const Side& side : sides) define(side.result, whole);
}

void CollectiveWriter::reduce_scatter(const std::vector<Side>& sides) {
  const std::string reduce = sides.front().instruction->attributes.get<std::string>("reduce");
  const std::int64_t dim = dim_of(sides.front()), count = static_cast<std::int64_t>(sides.size());
  const ValueId own = combined(sides, reduce);
  for (std::int64_t m = 0; m < count; ++m) {
    const Side& side = sides[static_cast<std::size_t>(m)];
    Attributes attributes;
    attributes.set("dim", dim);
    attributes.set("reduce", reduce);
    define(side.result, inner(OpCode::reduce_scatter, block(own, dim, m, count), type(side.result), std::move(attributes)));
  }
}

void CollectiveWriter::all_to_all(const std::vector<Side>& sides) {
  const std::int64_t split = dim_of(sides.front(), "split_dim"), join = dim_of(sides.front(), "concat_dim"), count = static_cast<std::int64_t>(sides.size());
  for (std::int64_t m = 0; m < count; ++m) {
    std::vector<ValueId> parts;
    for (const Side& from : sides) parts.push_back(block(from.operand, split, m, count));
    const Side& side = sides[static_cast<std::size_t>(m)];
    Attributes attributes;
    attributes.set("dim", join);
    define(side.result, emit(OpCode::concat, parts, type(side.result), std::move(attributes)));
  }
}

void CollectiveWriter::broadcast_from(const std::vector<Side>& sides) {
  const std::int64_t root = sides.front().instruction->attributes.get<std::int64_t>("root");
  const ValueId source = sides[static_cast<std::size_t>(root / inner_size_)].operand;
  Attributes attributes;
  attributes.set("root", root % inner_size_);
  const ValueId whole = inner(OpCode::broadcast_from, source, type(source), std::move(attributes));
  for (const Side& side : sides) define(side.result, whole);
}

void CollectiveWriter::permute(const std::vector<Side>& sides) {
  const auto count = static_cast<std::int64_t>(sides.size());
  const std::int64_t shift = sides.front().instruction->attributes.get<std::int64_t>("shift");
  for (std::int64_t m = 0; m < count; ++m)
    define(sides[static_cast<std::size_t>(m)].result, sides[static_cast<std::size_t>(ir::floor_mod(m - shift % count, count))].operand);
}

void CollectiveWriter::write(const Layout::Group& group, std::int64_t inner_size, const std::vector<Side>& sides) {
  group_ = &group;
  inner_size_ = inner_size;
  from_ = sides.front().instruction;
  result_ = sides.front().result;
  const OpCode op = from_->op;
  for (const Side& side : sides)
    if (!alike(program_, sides.front(), side)) throw Refusal("members of a group start different collectives", side.instruction->span, "the same operation, type and attributes", "others");
  const bool ordered = op != OpCode::all_reduce;
  if (ordered && inner_size > 1 && !group.stages_are_major)
    throw Refusal("a group whose ranks within a stage vary slower than its stages", from_->span, "the axes that place stages first in `axes`", "another order");
  if (inner_size > 1 && (op == OpCode::all_to_all || op == OpCode::permute))
    throw Refusal("`" + std::string(ir::schema_of(op).name) + "` over several ranks of several stages", from_->span, "a group of one rank of each stage", "more");
  switch (op) {
    case OpCode::all_reduce: return all_reduce(sides);
    case OpCode::all_gather: return all_gather(sides);
    case OpCode::reduce_scatter: return reduce_scatter(sides);
    case OpCode::all_to_all: return all_to_all(sides);
    case OpCode::broadcast_from: return broadcast_from(sides);
    case OpCode::permute: return permute(sides);
    default: throw InternalError("no collective");
  }
}

}  // namespace shardproof::lowering::join

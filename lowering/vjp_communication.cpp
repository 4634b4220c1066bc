// Collectives that only move data between ranks, or sum it into disjoint shards, have one transpose when the loss is
// the sum of what the ranks compute. all_reduce and broadcast_from do not: it depends on whether the ranks'
// cotangents are copies or summands, which a planner knows and a rule does not.
#include "lowering/emit.h"
#include "lowering/vjp.h"

namespace shardproof::lowering {
namespace {

using ir::OpCode;
using ir::ValueId;
using Values = std::vector<ValueId>;

// The collective `op` over the same group, with `own` as its other attributes; synchronous.
Values over_same_group(const VjpCall& c, OpCode op, std::vector<std::pair<const char*, ir::AttrValue>> own) {
  const char* group = c.instruction.attributes.has("groups") ? "groups" : "axes";
  const ir::AttrValue& members = *c.instruction.attributes.find(group);
  if (own.size() == 1) return {c.builder.op(op, {c.g()}, {{group, members}, own[0]}, c.names[0])};
  return {c.builder.op(op, {c.g()}, {{group, members}, own[0], own[1]}, c.names[0])};
}

Values vjp_all_gather(const VjpCall& c) {
  return over_same_group(c, OpCode::reduce_scatter,
                         {{"dim", *c.instruction.attributes.find("dim")}, {"reduce", std::string("sum")}});
}

Values vjp_reduce_scatter(const VjpCall& c) {
  if (c.instruction.attributes.get<std::string>("reduce") != "sum") {
    throw ir::BuildError("reduce_scatter has a derivative only for reduce = sum");
  }
  return over_same_group(c, OpCode::all_gather, {{"dim", *c.instruction.attributes.find("dim")}});
}

Values vjp_all_to_all(const VjpCall& c) {
  return over_same_group(c, OpCode::all_to_all,
                         {{"split_dim", *c.instruction.attributes.find("concat_dim")},
                          {"concat_dim", *c.instruction.attributes.find("split_dim")}});
}

Values vjp_permute(const VjpCall& c) {
  return over_same_group(c, OpCode::permute, {{"shift", -c.instruction.attributes.get<std::int64_t>("shift")}});
}

Values vjp_wait(const VjpCall& c) {
  return {c.g()};
}

constexpr VjpEntry kRules[] = {
    {OpCode::all_gather, vjp_all_gather},
    {OpCode::reduce_scatter, vjp_reduce_scatter},
    {OpCode::all_to_all, vjp_all_to_all},
    {OpCode::permute, vjp_permute},
    {OpCode::wait, vjp_wait},
};

}  // namespace

std::span<const VjpEntry> communication_vjps() {
  return kRules;
}

}  // namespace shardproof::lowering

// Communication: collectives left out, repeated, over other axes, with other reductions, in another order.
#include <algorithm>

#include "mutations/mutate.h"

namespace shardproof::mutations {
namespace {

using ir::OpCode;
using Axes = std::vector<std::string>;
using Ints = std::vector<std::int64_t>;

const Axes& axes_of(const ir::Instruction& i) {
  return i.attributes.get<Axes>("axes");
}
std::string reduce_of(const ir::Instruction& i) {
  return i.attributes.get<std::string>("reduce");
}
bool is_tp(const std::string& axis) {
  return axis.starts_with("tp");
}

// A collective `op` whose axes are all accepted.
Accept collective(OpCode op, std::function<bool(const Axes&)> accept, std::string reduce = {}) {
  return [op, accept = std::move(accept), reduce = std::move(reduce)](const Subject&, const Subject::Entry& e) {
    if (e.instruction->op != op || !accept(axes_of(*e.instruction))) return false;
    return reduce.empty() || reduce_of(*e.instruction) == reduce;
  };
}
bool any(const Axes&) {
  return true;
}
bool all_tp(const Axes& axes) {
  return std::all_of(axes.begin(), axes.end(), is_tp);
}
bool all_dp(const Axes& axes) {
  return std::none_of(axes.begin(), axes.end(), is_tp);
}
bool one(const Axes& axes) {
  return axes.size() == 1;
}
bool several(const Axes& axes) {
  return axes.size() > 1;
}

// Position of a rank in the group that spans `axes`, and the group's size.
ir::CoordExpr group_position(Editor& e, const Axes& axes, std::int64_t& size) {
  ir::CoordExpr position = ir::constant_expr(0);
  size = 1;
  for (const std::string& axis : axes) {
    position = e.axis_size(axis) * position + ir::variable_expr(axis);
    size *= e.axis_size(axis);
  }
  return position;
}

void identity(Editor& e, const std::string& at) {
  e.become_operand(at, 0);
}

// What a forgotten reduce_scatter leaves: the own part of the own summands.
void own_part(Editor& e, const std::string& at) {
  const ir::Instruction i = e.at(at);
  const auto dim = i.attributes.get<std::int64_t>("dim");
  const std::int64_t size = e.type(i.outputs[0]).shape[static_cast<std::size_t>(dim)];
  std::int64_t ranks = 1;
  const ir::CoordExpr position = group_position(e, axes_of(i), ranks);
  e.redefine(at, OpCode::slice, {i.inputs[0]}, {{"dim", dim}, {"start", size * position}, {"size", size}});
}

// What a forgotten all_gather leaves: the own part everywhere.
void own_copies(Editor& e, const std::string& at) {
  const ir::Instruction i = e.at(at);
  std::int64_t ranks = 1;
  group_position(e, axes_of(i), ranks);
  e.redefine(at, OpCode::concat, std::vector<ir::ValueId>(static_cast<std::size_t>(ranks), i.inputs[0]),
             {{"dim", i.attributes.get<std::int64_t>("dim")}});
}

void twice(Editor& e, const std::string& at) {
  const Axes axes = axes_of(e.at(at));
  const std::string reduce = reduce_of(e.at(at));
  const ir::ValueId once = e.displace(at);
  e.define(at, OpCode::all_reduce, {once}, {{"axes", axes}, {"reduce", reduce}});
}

void reduce_first(Editor& e, const std::string& at) {
  const ir::Instruction i = e.at(at);
  e.before(at);
  const ir::ValueId reduced =
      e.emit(OpCode::all_reduce, {i.inputs[0]}, {{"axes", axes_of(i)}, {"reduce", std::string("sum")}});
  e.use(at, 0, reduced);
}

Edit set_reduce(std::string reduce) {
  return [reduce = std::move(reduce)](Editor& e, const std::string& at) { e.set(at, "reduce", reduce); };
}

void other_axis(Editor& e, const std::string& at) {
  const Axes axes = axes_of(e.at(at));
  if (all_dp(axes)) {
    e.set(at, "axes", Axes{e.has_axis("tp") ? "tp" : "tpk"});
  } else {
    e.set(at, "axes", Axes{"dp"});
  }
}

void more_axes(Editor& e, const std::string& at) {
  Axes axes = axes_of(e.at(at));
  if (all_tp(axes)) {
    axes.insert(axes.begin(), "dp");
  } else if (all_dp(axes)) {
    axes.push_back(e.has_axis("tp") ? "tp" : "tpk");
  } else {
    throw NotApplicable();
  }
  e.set(at, "axes", axes);
}

Edit without_axis(bool tensor_parallel) {
  return [tensor_parallel](Editor& e, const std::string& at) {
    Axes axes = axes_of(e.at(at));
    const auto end = std::remove_if(axes.begin(), axes.end(), [&](const std::string& a) { return is_tp(a) == tensor_parallel; });
    if (end == axes.end() || end == axes.begin()) throw NotApplicable();
    axes.erase(end, axes.end());
    e.set(at, "axes", axes);
  };
}

void last_axis_only(Editor& e, const std::string& at) {
  e.set(at, "axes", Axes{axes_of(e.at(at)).back()});
}

void reversed_axes(Editor& e, const std::string& at) {
  Axes axes = axes_of(e.at(at));
  std::reverse(axes.begin(), axes.end());
  e.set(at, "axes", axes);
}

// Along the next dimension, then forced into the wanted shape: same number of elements, other places.
void other_dim(Editor& e, const std::string& at) {
  const ir::Instruction i = e.at(at);
  const std::int64_t dim = i.attributes.get<std::int64_t>("dim") + 1;
  const ir::TensorType wanted = e.type(i.outputs[0]);
  if (dim >= static_cast<std::int64_t>(wanted.shape.size())) throw NotApplicable();
  AttrPairs attributes = {{"axes", axes_of(i)}, {"dim", dim}};
  if (i.op == OpCode::reduce_scatter) attributes.emplace_back("reduce", reduce_of(i));
  e.before(at);
  const ir::ValueId other = e.emit(i.op, {i.inputs[0]}, std::move(attributes));
  e.redefine(at, OpCode::reshape, {other}, {{"shape", wanted.shape}});
}

void neighbours_part(Editor& e, const std::string& at) {
  const Axes axes = axes_of(e.at(at));
  const ir::ValueId part = e.displace(at);
  e.define(at, OpCode::permute, {part}, {{"axes", axes}, {"shift", std::int64_t{1}}});
}

void gather_neighbours(Editor& e, const std::string& at) {
  const ir::Instruction i = e.at(at);
  e.before(at);
  e.use(at, 0, e.emit(OpCode::permute, {i.inputs[0]}, {{"axes", axes_of(i)}, {"shift", std::int64_t{1}}}));
}

void first_rank_only(Editor& e, const std::string& at) {
  const ir::Instruction i = e.at(at);
  e.redefine(at, OpCode::broadcast_from, {i.inputs[0]}, {{"axes", axes_of(i)}, {"root", std::int64_t{0}}});
}

// Ranks exchange their partial sums instead of adding them.
void rotated(Editor& e, const std::string& at) {
  const ir::Instruction i = e.at(at);
  e.redefine(at, OpCode::permute, {i.inputs[0]}, {{"axes", axes_of(i)}, {"shift", std::int64_t{1}}});
}

void scattered_by_all_to_all(Editor& e, const std::string& at) {
  const ir::Instruction i = e.at(at);
  const auto dim = i.attributes.get<std::int64_t>("dim");
  if (dim != 0) throw NotApplicable();
  std::int64_t ranks = 1;
  group_position(e, axes_of(i), ranks);
  const ir::TensorType wanted = e.type(i.outputs[0]);
  e.before(at);
  const ir::ValueId parts = e.emit(OpCode::all_to_all, {i.inputs[0]}, {{"axes", axes_of(i)}, {"split_dim", dim}, {"concat_dim", dim}});
  e.redefine(at, OpCode::slice, {parts}, {{"dim", dim}, {"start", ir::constant_expr(0)}, {"size", wanted.shape[0]}});
}

}  // namespace

// The maximum of the logits is only ever subtracted from all of them, so any common value does in its place:
// repeating its reduction, widening it or replacing it by a minimum or a sum is no fault.
Kinds collective_kinds() {
  return {
      at_instructions("drop_tp_all_reduce_sum", collective(OpCode::all_reduce, all_tp, "sum"), identity),
      at_instructions("drop_dp_all_reduce_sum", collective(OpCode::all_reduce, all_dp, "sum"), identity),
      at_instructions("kv_replica_gradient_not_summed",
                      collective(OpCode::all_reduce, [](const Axes& a) { return a == Axes{"tpr"}; }), identity),
      at_instructions("drop_all_reduce_max", collective(OpCode::all_reduce, any, "max"), identity),
      at_instructions("drop_tp_reduce_scatter", collective(OpCode::reduce_scatter, all_tp), own_part),
      at_instructions("drop_dp_reduce_scatter", collective(OpCode::reduce_scatter, all_dp), own_part),
      at_instructions("drop_tp_all_gather", collective(OpCode::all_gather, all_tp), own_copies),
      at_instructions("drop_parameter_all_gather", collective(OpCode::all_gather, all_dp), own_copies),
      at_instructions("duplicate_tp_all_reduce", collective(OpCode::all_reduce, all_tp, "sum"), twice),
      at_instructions("duplicate_dp_all_reduce", collective(OpCode::all_reduce, all_dp, "sum"), twice),
      at_instructions("all_reduce_before_reduce_scatter", collective(OpCode::reduce_scatter, any), reduce_first),
      at_instructions("all_reduce_avg_for_sum", collective(OpCode::all_reduce, any, "sum"), set_reduce("avg")),
      at_instructions("all_reduce_max_for_sum", collective(OpCode::all_reduce, any, "sum"), set_reduce("max")),
      at_instructions("all_reduce_prod_for_sum", collective(OpCode::all_reduce, any, "sum"), set_reduce("prod")),
      at_instructions("reduce_scatter_avg_for_sum", collective(OpCode::reduce_scatter, any), set_reduce("avg")),
      at_instructions("reduce_scatter_min_for_sum", collective(OpCode::reduce_scatter, any), set_reduce("min")),
      at_instructions("all_reduce_wrong_axis", collective(OpCode::all_reduce, any), other_axis),
      at_instructions("reduce_scatter_wrong_axis", collective(OpCode::reduce_scatter, one), other_axis),
      at_instructions("all_gather_wrong_axis", collective(OpCode::all_gather, one), other_axis),
      at_instructions("all_reduce_extra_axis", collective(OpCode::all_reduce, any, "sum"), more_axes),
      at_instructions("norm_without_tp", collective(OpCode::all_reduce, several, "sum"), without_axis(true)),
      at_instructions("norm_without_dp", collective(OpCode::all_reduce, several, "sum"), without_axis(false)),
      at_instructions("all_reduce_part_of_tp", collective(OpCode::all_reduce, several), last_axis_only),
      at_instructions("all_gather_axis_order", collective(OpCode::all_gather, several), reversed_axes),
      at_instructions("reduce_scatter_axis_order", collective(OpCode::reduce_scatter, several), reversed_axes),
      at_instructions("reduce_scatter_wrong_dim", collective(OpCode::reduce_scatter, any), other_dim),
      at_instructions("all_gather_wrong_dim", collective(OpCode::all_gather, any), other_dim),
      at_instructions("reduce_scatter_neighbours_part", collective(OpCode::reduce_scatter, any), neighbours_part),
      at_instructions("all_gather_rotated", collective(OpCode::all_gather, any), gather_neighbours),
      at_instructions("broadcast_for_all_reduce", collective(OpCode::all_reduce, any, "sum"), first_rank_only),
      at_instructions("permute_for_all_reduce", collective(OpCode::all_reduce, any, "sum"), rotated),
      at_instructions("all_to_all_for_reduce_scatter", collective(OpCode::reduce_scatter, all_dp),
                      scattered_by_all_to_all),
  };
}

}  // namespace shardproof::mutations

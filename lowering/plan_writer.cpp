#include "lowering/plan_writer.h"

#include "ir/group_axis.h"

namespace shardproof::lowering {

PlanWriter::PlanWriter(ir::Program& program, const ModelConfig& model, const PlanDegrees& degrees,
                       const ParameterTable& table)
    : model_(model),
      degrees_(degrees),
      table_(table),
      mesh_(degrees.mesh()),
      builder_(program, [mesh = degrees.mesh()](const std::string& axis) -> std::int64_t {
        const auto found = mesh.find_axis(axis);
        return found ? mesh.axes[*found].size : 0;
      }) {}

void PlanWriter::at(const std::string& module, const std::string& phase, std::string prefix) {
  builder_.set_source(module + " " + phase);
  prefix_ = std::move(prefix);
}

ValueId PlanWriter::op(OpCode code, Values inputs, ir::AttrList attributes, const std::string& name) {
  return builder_.op(code, std::move(inputs), attributes, prefix_.empty() ? name : prefix_ + "." + name);
}

ValueId PlanWriter::select(ValueId condition, ValueId a, ValueId b, const std::string& name) {
  return op(OpCode::select, {condition, a, b}, name);
}

ValueId PlanWriter::compare(ValueId a, ValueId b, const std::string& direction, const std::string& name) {
  return op(OpCode::compare, {a, b}, {{"direction", direction}}, name);
}

ValueId PlanWriter::einsum(const std::string& spec, Values inputs, const std::string& name) {
  return op(OpCode::einsum, std::move(inputs), {{"spec", spec}}, name);
}

ValueId PlanWriter::reduce_sum(ValueId x, std::vector<std::int64_t> dims, const std::string& name) {
  return op(OpCode::reduce_sum, {x}, {{"dims", std::move(dims)}}, name);
}

ValueId PlanWriter::broadcast(ValueId x, const Shape& to, std::vector<std::int64_t> dims, const std::string& name) {
  return op(OpCode::broadcast, {x}, {{"shape", to}, {"dims", std::move(dims)}}, name);
}

ValueId PlanWriter::slice(ValueId x, std::int64_t dim, ir::CoordExpr start, std::int64_t size,
                          const std::string& name) {
  return op(OpCode::slice, {x}, {{"dim", dim}, {"start", std::move(start)}, {"size", size}}, name);
}

ValueId PlanWriter::reshape(ValueId x, const Shape& to, const std::string& name) {
  if (shape(x) == to) return x;
  return op(OpCode::reshape, {x}, {{"shape", to}}, name);
}

ValueId PlanWriter::cast(ValueId x, ir::DType to, const std::string& name) {
  if (dtype(x) == to) return x;
  return op(OpCode::cast, {x}, {{"dtype", std::string(ir::dtype_name(to))}}, name);
}

ValueId PlanWriter::concat(Values parts, std::int64_t dim, const std::string& name) {
  if (parts.size() == 1) return parts.front();
  return op(OpCode::concat, std::move(parts), {{"dim", dim}}, name);
}

ValueId PlanWriter::constant(ir::Rational value, ir::DType dtype, const Shape& shape) {
  const auto [place, is_new] = constants_.try_emplace(ConstantKey(value.num, value.den, dtype, shape));
  if (is_new)
    place->second =
        builder_.typed(OpCode::constant, {dtype, shape}, {{"value", value}}, "const_" + ir::to_string(value));
  return place->second;
}

ValueId PlanWriter::spread(ValueId scalar, const Shape& to) {
  if (to.empty()) return scalar;
  const auto [place, is_new] = spreads_.try_emplace(SpreadKey(scalar, to));
  if (is_new) {
    const std::string name = builder_.program().value(scalar).name + "_b";
    place->second =
        builder_.op(OpCode::broadcast, {scalar}, {{"shape", to}, {"dims", std::vector<std::int64_t>{}}}, name);
  }
  return place->second;
}

ValueId PlanWriter::coordinate(const ir::CoordExpr& value) {
  return builder_.op(OpCode::coord, {}, {{"value", value}}, "coord");
}

Values PlanWriter::begin_loop(const std::string& index, std::int64_t trip, Values inits,
                              std::vector<std::string> names) {
  outer_constants_ = constants_;
  outer_spreads_ = spreads_;
  outer_weights_f32_ = weights_f32_;
  return builder_.begin_loop(index, trip, std::move(inits), std::move(names));
}

void PlanWriter::begin_action(const std::string& label) {
  builder_.set_action(label);
  constants_ = outer_constants_;
  spreads_ = outer_spreads_;
  weights_f32_ = outer_weights_f32_;
}

Values PlanWriter::end_loop(Values next) {
  constants_ = outer_constants_;
  spreads_ = outer_spreads_;
  weights_f32_ = outer_weights_f32_;
  builder_.set_action({});
  return builder_.end_loop(std::move(next));
}

std::vector<std::string> PlanWriter::groups_above_one(const std::vector<std::string>& axes) const {
  std::vector<std::string> kept;
  for (const std::string& axis : axes) {
    const std::optional<ir::GroupAxis> group = ir::parse_group_axis(axis);
    const auto found = mesh_.find_axis(group ? group->axis : axis);
    if (found && mesh_.axes[*found].size > 1 && (!group || group->coordinates.size() != 1)) kept.push_back(axis);
  }
  return kept;
}

ValueId PlanWriter::all_reduce(ValueId x, std::vector<std::string> axes, const std::string& reduce,
                               const std::string& name) {
  axes = groups_above_one(axes);
  if (axes.empty()) return x;
  return op(OpCode::all_reduce, {x}, {{"axes", std::move(axes)}, {"reduce", reduce}}, name);
}

ValueId PlanWriter::all_gather(ValueId x, std::vector<std::string> axes, std::int64_t dim, const std::string& name) {
  axes = groups_above_one(axes);
  if (axes.empty()) return x;
  return op(OpCode::all_gather, {x}, {{"axes", std::move(axes)}, {"dim", dim}}, name);
}

ValueId PlanWriter::reduce_scatter(ValueId x, std::vector<std::string> axes, std::int64_t dim,
                                   const std::string& name) {
  axes = groups_above_one(axes);
  if (axes.empty()) return x;
  return op(OpCode::reduce_scatter, {x}, {{"axes", std::move(axes)}, {"dim", dim}, {"reduce", std::string("sum")}},
            name);
}

ValueId PlanWriter::tp_all_reduce(ValueId x, const std::string& reduce, const std::string& name) {
  return all_reduce(x, degrees_.tp_axes(), reduce, name);
}

ValueId PlanWriter::gather_sequence(ValueId x, const std::string& name) {
  return degrees_.sequence_parallel ? all_gather(x, degrees_.tp_axes(), 1, name) : x;
}

ValueId PlanWriter::reduce_to_sequence(ValueId x, const std::string& name) {
  return degrees_.sequence_parallel ? reduce_scatter(x, degrees_.tp_axes(), 1, name) : tp_all_reduce(x, "sum", name);
}

ValueId PlanWriter::weight_f32(std::size_t parameter) {
  if (compute() == ir::DType::f32) return weight(parameter);
  const auto [place, is_new] = weights_f32_.try_emplace(parameter);
  if (is_new) {
    place->second = builder_.op(OpCode::cast, {weight(parameter)}, {{"dtype", std::string("f32")}},
                                table_.all[parameter].name + ".f32");
  }
  return place->second;
}

void PlanWriter::accumulate(std::size_t parameter, ValueId gradient) {
  const std::string& name = table_.all[parameter].name;
  ValueId& total = gradients_.at(parameter);
  if (dtype(gradient) != ir::DType::f32) {
    gradient = builder_.op(OpCode::cast, {gradient}, {{"dtype", std::string("f32")}}, name + ".grad_f32");
  }
  total = total.valid() ? builder_.op(OpCode::add, {total, gradient}, {}, name + ".grad_sum") : gradient;
}

}  // namespace shardproof::lowering

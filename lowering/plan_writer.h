// Emission of plan instructions: short forms of the ops the planner uses, shared constants, parameters and their
// gradient accumulators, and the collectives at the borders of tensor and sequence parallel regions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "lowering/model_config.h"
#include "lowering/plan_degrees.h"
#include "lowering/plan_parameters.h"

namespace shardproof::lowering {

using ir::OpCode;
using ir::Shape;
using ir::ValueId;
using Values = std::vector<ValueId>;

class PlanWriter {
 public:
  // All must outlive the writer.
  PlanWriter(ir::Program& program, const ModelConfig& model, const PlanDegrees& degrees, const ParameterTable& table);

  const ModelConfig& model() const { return model_; }
  const PlanDegrees& degrees() const { return degrees_; }
  const ParameterTable& table() const { return table_; }
  ir::Builder& builder() { return builder_; }
  Shape shape(ValueId id) const { return builder_.shape(id); }  // by value: emitting moves the program's values
  ir::DType dtype(ValueId id) const { return builder_.type(id).dtype; }

  // Later instructions belong to `module` ("model.layers.3.mlp") in `phase` ("forward"); their values are named
  // "<prefix>.<name>".
  void at(const std::string& module, const std::string& phase, std::string prefix);

  ValueId op(OpCode code, Values inputs, const std::string& name) { return op(code, std::move(inputs), {}, name); }
  ValueId op(OpCode code, Values inputs, ir::AttrList attributes, const std::string& name);
  ValueId add(Values terms, const std::string& name) { return op(OpCode::add, std::move(terms), name); }
  ValueId sub(ValueId a, ValueId b, const std::string& name) { return op(OpCode::sub, {a, b}, name); }
  ValueId mul(Values factors, const std::string& name) { return op(OpCode::mul, std::move(factors), name); }
  ValueId select(ValueId condition, ValueId a, ValueId b, const std::string& name);
  ValueId compare(ValueId a, ValueId b, const std::string& direction, const std::string& name);
  ValueId einsum(const std::string& spec, Values inputs, const std::string& name);
  ValueId reduce_sum(ValueId x, std::vector<std::int64_t> dims, const std::string& name);
  ValueId broadcast(ValueId x, const Shape& to, std::vector<std::int64_t> dims, const std::string& name);
  ValueId slice(ValueId x, std::int64_t dim, ir::CoordExpr start, std::int64_t size, const std::string& name);
  // These return x itself where there is nothing to do.
  ValueId reshape(ValueId x, const Shape& to, const std::string& name);
  ValueId cast(ValueId x, ir::DType to, const std::string& name);
  ValueId concat(Values parts, std::int64_t dim, const std::string& name);

  // Shared: one instruction for all equal requests within a loop level.
  ValueId constant(ir::Rational value, ir::DType dtype, const Shape& shape);
  ValueId spread(ValueId scalar, const Shape& to);  // broadcast of a scalar
  ValueId coordinate(const ir::CoordExpr& value);   // i64 scalar

  // A batch of microbatches runs as one loop; constants made inside stay inside.
  Values begin_loop(const std::string& index, std::int64_t trip, Values inits, std::vector<std::string> names);
  Values end_loop(Values next);
  // Within a loop: later instructions run with action `label` of the schedule ("3F"). Nothing is shared between actions but what
  // one hands to another.
  void begin_action(const std::string& label);

  // Collectives; the identity on a group of one rank.
  ValueId all_reduce(ValueId x, std::vector<std::string> axes, const std::string& reduce, const std::string& name);
  ValueId all_gather(ValueId x, std::vector<std::string> axes, std::int64_t dim, const std::string& name);
  ValueId reduce_scatter(ValueId x, std::vector<std::string> axes, std::int64_t dim, const std::string& name);
  ValueId tp_all_reduce(ValueId x, const std::string& reduce, const std::string& name);
  // Entrance of a column-parallel layer: the whole sequence of [b, s, ..], from sequence shards if it is cut.
  ValueId gather_sequence(ValueId x, const std::string& name);
  // Exit of a row-parallel layer, and of the backward of a column-parallel one: the sum over tensor parallel ranks, of
  // the own sequence shard if the sequence is cut.
  ValueId reduce_to_sequence(ValueId x, const std::string& name);

  // Parameters: `weights` in table order; gradients are those of the running loop iteration.
  void set_weights(Values weights) { weights_ = std::move(weights); }
  // Invalid gradients are none so far.
  void set_gradients(Values gradients) { gradients_ = std::move(gradients); }
  const Values& gradients() const { return gradients_; }
  ValueId weight(std::size_t parameter) const { return weights_.at(parameter); }
  ValueId weight_f32(std::size_t parameter);  // one cast for all microbatches if asked for before the loop
  void accumulate(std::size_t parameter, ValueId gradient);

 private:
  using ConstantKey = std::tuple<std::int64_t, std::int64_t, ir::DType, Shape>;
  using SpreadKey = std::pair<ValueId, Shape>;

  std::vector<std::string> groups_above_one(const std::vector<std::string>& axes) const;
  ir::DType compute() const { return degrees_.compute; }

  const ModelConfig& model_;
  const PlanDegrees& degrees_;
  const ParameterTable& table_;
  ir::Mesh mesh_;
  ir::Builder builder_;
  std::string prefix_;
  Values weights_;
  Values gradients_;
  std::map<std::size_t, ValueId> weights_f32_;
  std::map<ConstantKey, ValueId> constants_;
  std::map<SpreadKey, ValueId> spreads_;
  // As they were outside of the loop, while inside.
  std::map<ConstantKey, ValueId> outer_constants_;
  std::map<SpreadKey, ValueId> outer_spreads_;
  std::map<std::size_t, ValueId> outer_weights_f32_;
};

}  // namespace shardproof::lowering

#include "tests/semantics/sharded_replay.h"

#include <algorithm>

#include "ir/infer_type.h"
#include "verifier/execution/tensor.h"

namespace shardproof::semantics_test {

namespace {

using ir::OpCode;
using ir::Shape;
using ir::ValueId;
using Axes = std::vector<std::string>;

class Replayer {
 public:
  Replayer(std::mt19937_64& random, const ir::Program& reference, const ir::Mesh& mesh, std::size_t most)
      : random_(random), reference_(reference), mesh_(mesh), most_(most),
        builder_(replay_.program, [this](const std::string& axis) { return axis_size(axis); }) {}

  Replay run(const std::vector<ProgramInput>& inputs) {
    for (const ProgramInput& input : inputs) {
      const ir::Value& v = reference_.value(input.id);
      const ValueId copy = builder_.input(v.name, v.type);
      replay_.inputs[input.id] = copy;
      replay_.copies[input.id].push_back(copy);
      vary(input.id);
    }
    for (const ir::Instruction& i : reference_.body) {
      // The whole value first, so that every operand has one copy of its own type.
      const ValueId out = i.outputs.at(0);
      replay_.copies[out].push_back(redo(i, [&](ValueId v) { return replay_.copies.at(v).front(); }).value());
      for (int attempt = 0; attempt < 4 && replay_.copies[out].size() < 4 && room(); ++attempt) {
        const auto copy = redo(i, [&](ValueId v) { return pick(replay_.copies.at(v)); });
        if (copy) replay_.copies[out].push_back(*copy);
      }
      if (i.op == OpCode::reduce_sum && room() && chance(60)) roll(i);
      for (std::int64_t n = 1 + below(3); n > 0; --n) vary(out);
    }
    return std::move(replay_);
  }

 private:
  std::int64_t below(std::int64_t count) { return execution::uniform_integer(random_, count); }
  bool chance(int percent) { return below(100) < percent; }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(below(static_cast<std::int64_t>(from.size())))];
  }
  bool room() const { return replay_.program.body.size() < most_; }
  std::int64_t axis_size(const std::string& axis) const {
    const auto position = mesh_.find_axis(axis);
    return position ? mesh_.axes[*position].size : 0;
  }
  const Shape& shape(ValueId id) { return builder_.shape(id); }

  // The instruction on other operands; nothing if they do not fit.
  template <typename Choose>
  std::optional<ValueId> redo(const ir::Instruction& i, const Choose& choose) {
    ir::Instruction again;
    again.op = i.op;
    again.attributes = i.attributes;
    std::vector<ir::TensorType> types;
    for (ValueId in : i.inputs) {
      again.inputs.push_back(choose(in));
      types.push_back(builder_.type(again.inputs.back()));
    }
    if (i.op == OpCode::broadcast && types[0].shape.size() == reference_.value(i.inputs[0]).type.shape.size()) {
      // A shard stays a shard.
      Shape to = i.attributes.get<Shape>("shape");
      const auto& dims = i.attributes.get<std::vector<std::int64_t>>("dims");
      const Shape& whole = reference_.value(i.inputs[0]).type.shape;
      for (std::size_t d = 0; d < dims.size(); ++d)
        if (whole[d] > 1) to[static_cast<std::size_t>(dims[d])] = types[0].shape[d];
      again.attributes.set("shape", to);
    }
    const ir::Value& out = reference_.value(i.outputs[0]);
    const auto result = ir::infer_types(again, types, {out.type}, {});
    if (std::holds_alternative<ir::TypeError>(result)) return std::nullopt;
    if (i.op == OpCode::take || i.op == OpCode::take_along) {
      // Ids that fit the whole need not fit a part.
      if (shape(again.inputs[0]) != reference_.value(i.inputs[0]).type.shape) return std::nullopt;
    }
    const ir::TensorType type = std::get<0>(result)[0];
    if (ir::element_count(type.shape) > std::max<std::int64_t>(150, ir::element_count(out.type.shape))) return std::nullopt;
    const ValueId id{static_cast<std::int32_t>(replay_.program.values.size())};
    replay_.program.values.push_back({out.name + "#" + std::to_string(id.index), type, {}});
    again.outputs = {id};
    replay_.program.body.push_back(std::move(again));
    return id;
  }

  Axes axes() {
    Axes result;
    for (const ir::MeshAxis& axis : mesh_.axes)
      if (chance(50)) result.insert(result.begin() + below(static_cast<std::int64_t>(result.size()) + 1), axis.name);
    if (result.empty()) result.push_back(pick(mesh_.axes).name);
    return result;
  }

  // One more copy of a value, by moving data between or on ranks.
  void vary(ValueId value) {
    std::vector<ValueId>& copies = replay_.copies[value];
    if (!room() || copies.size() > 6) return;
    const ValueId x = chance(50) ? copies.back() : pick(copies);
    if (builder_.type(x).dtype != ir::DType::f32) return;
    const Shape s = shape(x);
    const Axes group = axes();
    std::int64_t size = 1;
    ir::CoordExpr position = ir::constant_expr(0);
    for (const std::string& axis : group) {
      size *= axis_size(axis);
      position = axis_size(axis) * position + ir::variable_expr(axis);
    }
    std::vector<std::int64_t> divisible;
    for (std::size_t d = 0; d < s.size(); ++d)
      if (s[d] % size == 0) divisible.push_back(static_cast<std::int64_t>(d));
    const bool small = ir::element_count(s) * size <= 150;
    switch (below(7)) {
      case 0:
      case 1:  // this rank's shard
        if (divisible.empty()) return;
        {
          const std::int64_t dim = pick(divisible);
          const std::int64_t shard = s[static_cast<std::size_t>(dim)] / size;
          copies.push_back(builder_.op(OpCode::slice, {x}, {{"dim", dim}, {"start", shard * position}, {"size", shard}}));
        }
        return;
      case 2:
      case 3:
        if (s.empty() || !small) return;
        copies.push_back(builder_.op(OpCode::all_gather, {x}, {{"axes", group}, {"dim", below(static_cast<std::int64_t>(s.size()))}}));
        return;
      case 4: copies.push_back(builder_.op(OpCode::all_reduce, {x}, {{"axes", group}, {"reduce", pick(Axes{"sum", "sum", "max", "avg"})}})); return;
      case 5:
        if (divisible.empty()) return;
        copies.push_back(builder_.op(OpCode::reduce_scatter, {x}, {{"axes", group}, {"dim", pick(divisible)}, {"reduce", std::string("sum")}}));
        return;
      default:
        if (divisible.empty()) return;
        copies.push_back(builder_.op(OpCode::all_to_all, {x}, {{"axes", group}, {"split_dim", pick(divisible)}, {"concat_dim", below(static_cast<std::int64_t>(s.size()))}}));
    }
  }

  // reduce_sum as an accumulation over slices of its first reduced dimension.
  void roll(const ir::Instruction& i) {
    const auto& dims = i.attributes.get<std::vector<std::int64_t>>("dims");
    const ValueId x = pick(replay_.copies.at(i.inputs[0]));
    if (dims.empty() || shape(x).size() != reference_.value(i.inputs[0]).type.shape.size() || builder_.type(x).dtype != ir::DType::f32) return;
    const std::int64_t extent = shape(x)[static_cast<std::size_t>(dims[0])];
    const std::int64_t chunk = extent % 2 == 0 && chance(50) ? 2 : 1;
    Shape result;
    for (std::size_t d = 0; d < shape(x).size(); ++d)
      if (std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) == dims.end()) result.push_back(shape(x)[d]);
    const ValueId zero = builder_.typed(OpCode::constant, {ir::DType::f32, result}, {{"value", ir::Rational(0)}});
    const std::string index = "m" + std::to_string(replay_.program.values.size());
    const std::vector<ValueId> carried = builder_.begin_loop(index, extent / chunk, {zero}, {""});
    const ValueId part = builder_.op(OpCode::slice, {x}, {{"dim", dims[0]}, {"start", ir::variable_expr(index, chunk)}, {"size", chunk}});
    const ValueId sum = builder_.op(OpCode::reduce_sum, {part}, {{"dims", dims}});
    replay_.copies[i.outputs[0]].push_back(builder_.end_loop({builder_.op(OpCode::add, {carried[0], sum})})[0]);
  }

  std::mt19937_64& random_;
  const ir::Program& reference_;
  const ir::Mesh& mesh_;
  std::size_t most_;
  Replay replay_;
  ir::Builder builder_;
};

}  // namespace

Replay replay_sharded(std::mt19937_64& random, const ir::Program& reference, const std::vector<ProgramInput>& inputs,
                      const ir::Mesh& mesh, std::size_t most) {
  return Replayer(random, reference, mesh, most).run(inputs);
}

}  // namespace shardproof::semantics_test

#include "attack/programs.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "attack/generator.h"
#include "attack/shrink.h"

namespace shardproof::attack {

namespace {

ir::Document on_a_mesh(Dice& dice) {
  ir::Document document;
  ir::Mesh mesh{"mesh", {}, {}, {}};
  static constexpr std::array<std::int64_t, 6> kSizes = {2, 2, 2, 3, 3, 4};
  mesh.axes.push_back({"dp", dice.one_of(kSizes), {}});
  if (dice.chance(60)) mesh.axes.push_back({"tp", 2 + dice.below(2), {}});
  document.plan.meshes.push_back(std::move(mesh));
  document.plan.stages.emplace_back();
  document.plan.stages[0].name = "main";
  return document;
}

ir::Binding binding(const std::string& of, const Layout& layout) {
  ir::Binding result;
  result.of = of;
  result.placement.dims = layout.dims;
  for (const std::string& axis : layout.partial) result.placement.partial.push_back({axis, layout.reduce});
  return result;
}

}  // namespace

Generator::Generator(std::mt19937_64& random)
    : dice_(random),
      document_(on_a_mesh(dice_)),
      reference_(document_.reference.program),
      plan_(document_, dice_) {
  const std::int64_t count = 1 + dice_.below(3);
  for (std::int64_t i = 0; i < count; ++i) keep(source(random_shape(static_cast<std::size_t>(1 + dice_.below(3)))));
}

// ---- values

ir::Shape Generator::random_shape(std::size_t rank) {
  static constexpr std::array<std::int64_t, 8> kExtents = {2, 3, 4, 4, 4, 6, 6, 5};
  ir::Shape shape;
  for (std::size_t d = 0; d < rank; ++d) shape.push_back(dice_.one_of(kExtents));
  return shape;
}

Value Generator::source(const ir::Shape& shape, const std::string& name) {
  if (name.empty() && dice_.chance(40)) {
    params_.push_back("w" + std::to_string(inputs_++));
    return state(shape, params_.back(), "param", "", ir::DType::f32);
  }
  const std::string own = !name.empty() ? name : (dice_.chance(15) ? "mask" : "x") + std::to_string(inputs_++);
  Layout layout = plan_.random_layout(shape, {}, PlanWriter::Kind::uneven);
  if (dice_.chance(2)) {
    for (const ir::MeshAxis& axis : plan_.mesh().axes)
      if (!uses(axes_of(layout), axis.name)) layout.partial.push_back(axis.name);
  }
  Value v;
  v.reference = reference_.input(own, {ir::DType::f32, shape});
  v.plan = {plan_.builder().input(own, {ir::DType::f32, local_shape(layout)}), shape, layout};
  document_.reference.inputs.push_back({v.reference, 0, {}});
  ir::Binding bound = binding(own, layout);
  if (dice_.chance(30)) bound.placement.pad = ir::PadValue::zero;
  document_.plan.stages[0].inputs.push_back({v.plan.id, std::move(bound), {}});
  return v;
}

Value Generator::state(const ir::Shape& shape, const std::string& name, const std::string& role, const std::string& param,
                       ir::DType dtype) {
  const Layout layout = plan_.random_layout(shape, {}, PlanWriter::Kind::uneven);
  Value v;
  v.reference = reference_.input(name, {dtype, shape});
  v.plan = {plan_.builder().input(name, {dtype, local_shape(layout)}), shape, layout};
  document_.reference.state.push_back({name, v.reference, v.reference, role, param, {}});
  document_.plan.stages[0].state.push_back({name, v.plan.id, v.plan.id, binding(name, layout), "accelerator", {}});
  return v;
}

Value Generator::indices(const ir::Shape& shape, std::int64_t below) {
  for (const Value& v : values_)
    if (v.below == below && v.plan.shape == shape && dice_.chance(70)) return v;
  const std::string name = "ids" + std::to_string(inputs_++);
  const Layout layout = plan_.random_layout(shape, {});
  Value v;
  v.below = below;
  v.reference = reference_.input(name, {ir::DType::i32, shape});
  v.plan = {plan_.builder().input(name, {ir::DType::i32, local_shape(layout)}), shape, layout};
  document_.reference.inputs.push_back({v.reference, below, {}});
  document_.plan.stages[0].inputs.push_back({v.plan.id, binding(name, layout), {}});
  if (!in_loop_) keep(v);
  return v;
}

Value Generator::constant(const ir::Shape& shape, ir::Rational value) {
  const Layout layout = plan_.random_layout(shape, {});
  Value v;
  v.reference = reference_.typed(OpCode::constant, {ir::DType::f32, shape}, {{"value", value}});
  v.plan = {plan_.fill(local_shape(layout), value), shape, layout};
  v.degree = 0;
  v.positive = ir::sign(value) > 0;
  return v;
}

Value Generator::iota(const ir::Shape& shape, std::size_t dim) {
  const auto along = static_cast<std::int64_t>(dim);
  const Layout layout = plan_.random_layout(shape, {});
  const ir::Shape local = local_shape(layout);
  Value v;
  v.reference = reference_.typed(OpCode::iota, {ir::DType::i64, shape}, {{"dim", along}});
  ValueId id = plan_.builder().typed(OpCode::iota, {ir::DType::i64, local}, {{"dim", along}});
  if (!axes_of(layout.dims[dim]).empty()) {
    const ValueId first = plan_.coordinate(plan_.first_element(layout.dims[dim]), local);
    id = plan_.builder().op(OpCode::add, {id, first});
  }
  v.plan = {id, shape, layout};
  return v;
}

Value Generator::pick() {
  Values floats;
  for (const Value& v : values_)
    if (is_float(v)) floats.push_back(v);
  // Late values twice as often, so that programs are deep.
  if (floats.size() > 3 && dice_.chance(50)) floats.erase(floats.begin(), floats.end() - 3);
  return dice_.one_of(floats);
}

Value Generator::small() {
  for (int tries = 0; tries < 10; ++tries)
    if (Value v = pick(); v.degree <= 2) return v;
  return source(random_shape(2));
}

Value Generator::like(const Value& v) {
  Values candidates;
  for (const Value& other : values_)
    if (is_float(other) && shape(other) == shape(v)) candidates.push_back(other);
  if (!candidates.empty() && dice_.chance(60)) return dice_.one_of(candidates);
  const std::int64_t choice = dice_.below(4);
  if (choice == 0) return constant(shape(v), ir::Rational(1 + dice_.below(5), 1 + dice_.below(3)));
  if (choice == 1) {
    // A value that is spread along the dimensions it lacks.
    for (const Value& other : values_) {
      if (!is_float(other) || shape(other).size() >= shape(v).size()) continue;
      Ints dims;
      for (std::size_t d = 0; d < shape(v).size() && dims.size() < shape(other).size(); ++d)
        if (shape(other)[dims.size()] == shape(v)[d]) dims.push_back(static_cast<std::int64_t>(d));
      if (dims.size() == shape(other).size()) return spread(other, shape(v), dims);
    }
  }
  if (in_loop_) return constant(shape(v), ir::Rational(1 + dice_.below(5), 2));
  keep(source(shape(v)));
  return values_.back();
}

Value Generator::positive(const Value& v) {
  if (v.positive) return v;
  Value result = elementwise(OpCode::add, {elementwise(OpCode::mul, {v, v}), constant(shape(v), ir::Rational(1, 1 + dice_.below(3)))});
  result.positive = true;
  return result;
}

Value Generator::placed(Value v, const Layout& layout) {
  v.plan = plan_.place(std::move(v.plan), layout);
  return v;
}

Value Generator::settled(Value v) {
  Layout layout = v.plan.layout;
  layout.partial.clear();
  layout.reduce = ir::ReduceKind::sum;
  return placed(std::move(v), layout);
}

Value Generator::rounded(Value v, std::size_t dim) {
  Layout layout = v.plan.layout;
  if (layout.reduce != ir::ReduceKind::sum) layout.partial.clear();
  layout.reduce = ir::ReduceKind::sum;
  layout.dims[dim] = whole(shape(v)[dim]);
  return placed(std::move(v), layout);
}

Texts Generator::sorted(Texts axes) const {
  Texts result;
  for (const ir::MeshAxis& axis : plan_.mesh().axes)
    if (uses(axes, axis.name)) result.push_back(axis.name);
  return result;
}

// Of part of an axis there are equal copies, which no reduction over the axis may count twice.
bool Generator::may_contract(const ir::DimLayout& dim) const {
  return std::ranges::all_of(dim.digits, [&](const ir::Digit& digit) { return digit.is_local() || plan_.is_whole_axis(digit); });
}

// ---- loops

ValueId Generator::sum_over(ir::Builder& builder, std::size_t first, const std::string& index, std::int64_t trip,
                            ValueId summand) {
  ir::Program& program = builder.program();
  const ir::TensorType type = builder.type(summand);
  const std::string unique = std::to_string(program.values.size());
  ir::Carry carry;
  carry.argument = builder.input("sum" + unique, type);
  carry.next = builder.op(OpCode::add, {carry.argument, summand});
  carry.result = builder.input("total" + unique, type);
  ir::Instruction loop;
  loop.op = OpCode::loop;
  loop.region = std::make_shared<ir::Region>();
  loop.region->index = index;
  loop.region->trip = trip;
  const auto begin = program.body.begin() + static_cast<std::ptrdiff_t>(first);
  loop.region->body.assign(std::make_move_iterator(begin), std::make_move_iterator(program.body.end()));
  program.body.erase(begin, program.body.end());
  carry.init = builder.typed(OpCode::constant, type, {{"value", ir::Rational(0)}});
  loop.region->carries = {carry};
  loop.inputs = {carry.init};
  loop.outputs = {carry.result};
  program.body.push_back(std::move(loop));
  return carry.result;
}

bool Generator::microbatches() {
  if (in_loop_) return false;
  const Value drawn = pick();
  const ir::Shape all = shape(drawn);
  if (all.size() < 2) return false;
  const Value batch = rounded(drawn, 0);
  const std::string index = "m" + std::to_string(reference_.program().values.size());
  const std::size_t first = reference_.program().body.size(), first_of_plan = plan_.builder().program().body.size();
  const std::size_t known = values_.size();
  in_loop_ = true;
  const auto microbatch = [&](ir::Builder& builder, ValueId x) {
    x = builder.op(OpCode::slice, {x}, {{"dim", std::int64_t{0}}, {"start", ir::variable_expr(index)}, {"size", std::int64_t{1}}});
    const ir::Shape& s = builder.shape(x);
    return builder.op(OpCode::reshape, {x}, {{"shape", Ints(s.begin() + 1, s.end())}});
  };
  Value v = batch;
  v.reference = microbatch(reference_, batch.reference);
  v.plan.id = microbatch(plan_.builder(), batch.plan.id);
  v.plan.shape.erase(v.plan.shape.begin());
  v.plan.layout.dims.erase(v.plan.layout.dims.begin());
  keep(v);
  const std::int64_t steps = 1 + dice_.below(3);
  for (std::int64_t i = 0; i < steps; ++i) step();
  Value summand = values_.back();
  values_.resize(known);
  in_loop_ = false;
  if (!is_float(summand)) summand = v;
  // Summands of ranks may be added up over the iterations before the ranks are.
  if (summand.plan.layout.reduce != ir::ReduceKind::sum || dice_.chance(30)) summand = settled(summand);
  summand.reference = sum_over(reference_, first, index, all[0], summand.reference);
  summand.plan.id = sum_over(plan_.builder(), first_of_plan, index, all[0], summand.plan.id);
  keep(summand);
  return true;
}

// ---- the end of a program

// Something of this shape that depends on the program.
Value Generator::gradient(const ir::Shape& wanted) {
  Values candidates;
  for (const Value& v : values_)
    if (is_float(v) && shape(v) == wanted) candidates.push_back(v);
  if (!candidates.empty() && dice_.chance(80)) return dice_.one_of(candidates);
  const Value v = pick();
  Ints all;
  for (std::size_t d = 0; d < shape(v).size(); ++d) all.push_back(static_cast<std::int64_t>(d));
  return spread(all.empty() ? v : summed(v, all), wanted, {});
}

void Generator::update(const std::string& name) {
  std::vector<ir::ReferenceState>& states = document_.reference.state;
  const auto at = [&](const std::string& wanted) {
    return static_cast<std::size_t>(std::ranges::find(states, wanted, &ir::ReferenceState::name) - states.begin());
  };
  const auto value_of = [&](const std::string& wanted) {
    const ir::PlanState& own = document_.plan.stages[0].state[at(wanted)];
    Value v;
    v.reference = states[at(wanted)].value;
    Layout layout{own.binding.placement.dims, {}, ir::ReduceKind::sum};
    v.plan = {own.value, reference_.shape(v.reference), layout};
    return v;
  };
  const auto next = [&](const std::string& wanted, const Value& v) {
    const Layout layout = value_of(wanted).plan.layout;
    Value last = v;
    for (std::size_t d = 0; d < layout.dims.size(); ++d)  // uneven shards are kept or not there
      if (!layout.dims[d].offsets.empty() && last.plan.layout.dims[d] != layout.dims[d]) return;
    last = placed(last, layout);
    states[at(wanted)].next = last.reference;
    document_.plan.stages[0].state[at(wanted)].next = last.plan.id;
  };
  const Value w = value_of(name);
  const std::int64_t choice = dice_.below(10);
  if (choice < 2) return;  // frozen
  const Value g = gradient(shape(w));
  const auto descend = [&](const Value& by, ir::Rational rate) { return elementwise(OpCode::sub, {w, scaled(by, rate)}, {}, Linear::in_all); };
  if (choice < 6) {
    next(name, descend(g, ir::Rational(1, 100)));
    return;
  }
  const Value m = state(shape(w), name + ".m", "exp_avg", name, ir::DType::f32);
  if (choice < 8) {
    const Value kept = elementwise(OpCode::add, {scaled(m, ir::Rational(9, 10)), g}, {}, Linear::in_all);
    next(name + ".m", kept);
    next(name, descend(kept, ir::Rational(1, 10)));
    return;
  }
  const Value v = state(shape(w), name + ".v", "exp_avg_sq", name, ir::DType::f32);
  if (choice == 8) {
    const Value kept = elementwise(OpCode::add, {scaled(m, ir::Rational(9, 10)), scaled(g, ir::Rational(1, 10))}, {}, Linear::in_all);
    const Value squares = elementwise(OpCode::add, {scaled(v, ir::Rational(99, 100)), scaled(elementwise(OpCode::mul, {g, g}), ir::Rational(1, 100))});
    const Value root = elementwise(OpCode::add, {elementwise(OpCode::sqrt, {squares}), constant(shape(w), ir::Rational(1, 1000))});
    next(name + ".m", kept);
    next(name + ".v", squares);
    next(name, descend(elementwise(OpCode::div, {kept, root}), ir::Rational(1, 100)));
    return;
  }
  Value count = state({}, name + ".step", "step", name, ir::DType::i64);
  const auto counted = [&](ir::Builder& builder, ValueId x) {
    const ValueId one = builder.typed(OpCode::constant, {ir::DType::i64, {}}, {{"value", ir::Rational(1)}});
    return builder.op(OpCode::add, {x, one});
  };
  count.reference = counted(reference_, count.reference);
  count.plan.id = counted(plan_.builder(), count.plan.id);
  Values operands = {w, g, m, v};
  const Layout layout = align(operands, Linear::in_none);
  const Value rate = settled(constant({}, ir::Rational(1, 50)));
  const auto adamw = [&](ir::Builder& builder, std::vector<ValueId> ids) {
    return builder.multi(OpCode::adamw, std::move(ids),
                         {{"beta1", ir::Rational(9, 10)}, {"beta2", ir::Rational(99, 100)}, {"eps", ir::Rational(1, 1000)}, {"weight_decay", ir::Rational(1, 10)}},
                         {});
  };
  const std::vector<ValueId> wanted =
      adamw(reference_, {w.reference, g.reference, m.reference, v.reference, count.reference, rate.reference});
  const std::vector<ValueId> made = adamw(plan_.builder(), {operands[0].plan.id, operands[1].plan.id, operands[2].plan.id,
                                                            operands[3].plan.id, count.plan.id, rate.plan.id});
  const std::array<std::string, 3> names = {name, name + ".m", name + ".v"};
  for (std::size_t i = 0; i < 3; ++i) {
    Value result = w;
    result.reference = wanted[i];
    result.plan = {made[i], shape(w), layout};
    next(names[i], result);
  }
  next(name + ".step", count);
}

void Generator::output(Value v) {
  const std::string name = "out" + std::to_string(document_.reference.outputs.size());
  if (!v.plan.layout.partial.empty() && dice_.chance(85)) v = settled(v);
  if (v.plan.layout.partial.empty() && dice_.chance(30)) v = placed(v, plan_.random_layout(shape(v), {}));
  document_.reference.outputs.push_back({name, v.reference, {}});
  document_.plan.stages[0].outputs.push_back({name, v.plan.id, binding(name, v.plan.layout), {}});
}

ir::Document Generator::finish() && {
  const Texts params = params_;
  for (const std::string& name : params) update(name);
  output(values_.back());
  std::set<ValueId> shown = {values_.back().reference};
  for (std::int64_t i = dice_.below(3); i > 0; --i)
    if (const Value v = pick(); shown.insert(v.reference).second) output(v);
  // What nobody reads can be edited at will, and shows nothing.
  remove_dead(document_);
  return std::move(document_);
}

ir::Document random_program(std::mt19937_64& random) {
  Generator generator(random);
  const std::int64_t steps = 2 + Dice(random).below(7);
  for (std::int64_t i = 0; i < steps; ++i) generator.step();
  return std::move(generator).finish();
}

}  // namespace shardproof::attack

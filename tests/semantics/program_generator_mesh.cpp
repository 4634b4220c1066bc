// Collectives and loops of the program generator.
#include <algorithm>

#include "tests/semantics/program_generator.h"

namespace shardproof::semantics_test {

using ir::OpCode;
using ir::Shape;
using ir::ValueId;

namespace {

// The groups of ordered mesh axes as explicit rank lists, written down by counting.
std::vector<std::vector<std::int64_t>> groups_of_axes(const ir::Mesh& mesh, const std::vector<std::string>& axes) {
  std::vector<std::vector<std::int64_t>> groups;
  std::int64_t count = 1;
  for (const std::string& axis : axes) count *= mesh.axes[*mesh.find_axis(axis)].size;
  for (std::int64_t position = 0; position < mesh.size(); ++position) {
    const std::int64_t rank = mesh.devices.empty() ? position : mesh.devices[static_cast<std::size_t>(position)];
    ir::Coordinate c = ir::coordinate_of(mesh, rank);
    if (std::any_of(axes.begin(), axes.end(), [&](const std::string& axis) { return c[*mesh.find_axis(axis)] != 0; })) continue;
    groups.emplace_back();
    for (std::int64_t member = 0; member < count; ++member) {
      std::int64_t rest = member;
      for (std::size_t a = axes.size(); a-- > 0;) {
        const std::size_t axis = *mesh.find_axis(axes[a]);
        c[axis] = rest % mesh.axes[axis].size;
        rest /= mesh.axes[axis].size;
      }
      groups.back().push_back(ir::rank_of(mesh, c));
    }
  }
  return groups;
}

}  // namespace

ValueId ProgramGenerator::communicate(OpCode op, ValueId operand, const std::vector<std::string>& axes, const Attr& own,
                                      const std::optional<Attr>& second) {
  Attr group{"axes", axes};
  if (chance(25)) group = {"groups", groups_of_axes(*mesh_, axes)};
  const bool async = chance(25);
  const ValueId started = second ? builder_.op(op, {operand}, {group, own, *second, {"async", async}})
                                 : builder_.op(op, {operand}, {group, own, {"async", async}});
  return async ? builder_.op(OpCode::wait, {started}) : started;
}

ValueId ProgramGenerator::collective(OpCode op) {
  SHARDPROOF_CHECK(mesh_ != nullptr);
  std::vector<std::string> axes;
  for (const ir::MeshAxis& axis : mesh_->axes)
    if (chance(60)) axes.insert(axes.begin() + below(static_cast<std::int64_t>(axes.size()) + 1), axis.name);
  if (axes.empty()) axes.push_back(pick(mesh_->axes).name);
  std::int64_t size = 1;
  for (const std::string& axis : axes) size *= mesh_->axes[*mesh_->find_axis(axis)].size;
  const std::string reduce = pick(std::vector<std::string>{"sum", "sum", "max", "min", "avg"});
  Facts result;
  const auto reduced_facts = [&](ValueId x) {
    Facts f = facts(x);
    f.below = 0;
    f.index = false;
    if (reduce == "avg") f.degree = kInexact;
    return f;
  };
  // An operand with a dimension that the group divides.
  const auto splittable = [&](std::int64_t& dim) {
    const auto found = find([&](const Facts& f, const ir::TensorType& t) {
      return ir::is_float(t.dtype) && !f.infinite && std::any_of(t.shape.begin(), t.shape.end(), [&](std::int64_t e) { return e % size == 0; });
    }, nullptr);
    Shape s = random_shape(1);
    if (s.size() == 3) s.pop_back();
    s[static_cast<std::size_t>(below(static_cast<std::int64_t>(s.size())))] = size * between(1, 2);
    const ValueId x = found ? *found : new_real(s, chance(30));
    std::vector<std::int64_t> dims;
    for (std::size_t d = 0; d < shape(x).size(); ++d)
      if (shape(x)[d] % size == 0) dims.push_back(static_cast<std::int64_t>(d));
    dim = pick(dims);
    return x;
  };
  switch (op) {
    case OpCode::all_reduce: {
      const ValueId x = reduce == "max" ? score() : real();
      result = reduced_facts(x);
      return known(communicate(op, x, axes, {"reduce", reduce}), result);
    }
    case OpCode::all_gather: {
      const ValueId x = anything(1);
      result = facts(x);
      return known(communicate(op, x, axes, {"dim", below(static_cast<std::int64_t>(shape(x).size()))}), result);
    }
    case OpCode::reduce_scatter: {
      std::int64_t dim = 0;
      const ValueId x = splittable(dim);
      result = reduced_facts(x);
      return known(communicate(op, x, axes, {"dim", dim}, Attr{"reduce", reduce}), result);
    }
    case OpCode::all_to_all: {
      std::int64_t dim = 0;
      const ValueId x = splittable(dim);
      result = facts(x);
      return known(communicate(op, x, axes, {"split_dim", dim}, Attr{"concat_dim", below(static_cast<std::int64_t>(shape(x).size()))}), result);
    }
    case OpCode::broadcast_from: {
      const ValueId x = anything(0);
      result = facts(x);
      return known(communicate(op, x, axes, {"root", below(size)}), result);
    }
    case OpCode::permute: {
      const ValueId x = anything(0);
      result = facts(x);
      return known(communicate(op, x, axes, {"shift", between(-3, 7)}), result);
    }
    case OpCode::wait: {
      const ValueId x = anything(0);
      result = facts(x);
      const ValueId started = builder_.op(OpCode::permute, {x}, {{"axes", axes}, {"shift", std::int64_t{1}}, {"async", true}});
      return known(builder_.op(op, {started}), result);
    }
    default: break;
  }
  SHARDPROOF_CHECK(false);
}

std::vector<ValueId> ProgramGenerator::append_loop(int length) {
  const std::string index = "i" + std::to_string(loops_++);
  const std::int64_t trip = between(1, 4);
  const std::int64_t carries = between(1, 3);
  std::vector<ValueId> inits;
  for (std::int64_t c = 0; c < carries; ++c) inits.push_back(real());
  std::vector<Facts> init_facts;
  for (ValueId init : inits) init_facts.push_back(facts(init));
  const std::vector<ValueId> arguments = builder_.begin_loop(index, trip, inits, std::vector<std::string>(inits.size()));
  const std::vector<ValueId> outside = visible_;
  variables_.emplace_back(index, trip);
  for (int k = 0; k < length; ++k) {
    std::vector<OpCode> ops = supported(mesh_ != nullptr);
    append(chance(30) ? OpCode::slice : pick(ops));
  }
  std::vector<ValueId> next;
  std::vector<Facts> result_facts;
  for (std::size_t c = 0; c < inits.size(); ++c) {
    const Shape s = shape(inits[c]);
    const ir::DType dtype = program_.value(inits[c]).type.dtype;
    const auto found = find([&](const Facts& f, const ir::TensorType& t) { return t.dtype == dtype && !f.infinite; }, &s);
    ValueId step = found ? *found : inits[c];
    if (!found && dtype == ir::DType::f32) step = new_real(s, chance(30));
    if (dtype == ir::DType::f32 && chance(50)) {  // another value in every iteration, perhaps on every rank
      const ValueId number = builder_.typed(OpCode::coord, {ir::DType::i64, {}}, {{"value", ir::variable_expr(index) + coordinate(3).expr}});
      const ValueId scale = builder_.op(OpCode::cast, {number}, {{"dtype", std::string("f32")}});
      const ValueId wide = builder_.op(OpCode::broadcast, {scale}, {{"shape", s}, {"dims", std::vector<std::int64_t>{}}});
      Facts f = facts(step);
      f.positive = false;
      step = known(builder_.op(OpCode::mul, {step, wide}), f);
    }
    Facts f;
    f.degree = std::max(init_facts[c].degree, facts(step).degree);
    f.positive = init_facts[c].positive && facts(step).positive;
    switch (below(4)) {
      case 0:  // the last iteration's value
        next.push_back(step);
        f = facts(step);
        break;
      case 1: next.push_back(builder_.op(OpCode::add, {step, arguments[c]})); break;
      case 2:
        next.push_back(builder_.op(OpCode::sub, {arguments[c], step}));
        f.positive = false;
        break;
      default: {  // regrouped
        const ValueId again = real(&s);
        f.degree = std::max(f.degree, facts(again).degree);
        f.positive = f.positive && facts(again).positive && program_.value(again).type.dtype == dtype;
        const ValueId first = builder_.op(OpCode::add, {arguments[c], step});
        next.push_back(program_.value(again).type.dtype == dtype ? builder_.op(OpCode::add, {first, again}) : first);
      }
    }
    result_facts.push_back(f);
  }
  const std::vector<ValueId> results = builder_.end_loop(next);
  variables_.pop_back();
  // Inputs made on the way stay visible.
  visible_ = outside;
  for (const ProgramInput& input : inputs_)
    if (std::find(visible_.begin(), visible_.end(), input.id) == visible_.end()) visible_.push_back(input.id);
  for (std::size_t c = 0; c < results.size(); ++c) known(results[c], result_facts[c]);
  return results;
}

}  // namespace shardproof::semantics_test

#include "case.h"

#include <sstream>

namespace shardproof::bugs {

Sizes full_sizes() {
  return {16, 8, 64, 4096, 8192, 28672, 128256, 64, 128, 32};
}
Sizes small_sizes() {
  return {2, 3, 4, 6, 12, 18, 24, 6, 4, 4};
}

ValueId Ops::fill(const ir::Shape& shape, ir::Rational value, ir::DType dtype) {
  return builder_.typed(OpCode::constant, {dtype, shape}, {{"value", value}});
}

ValueId Ops::coordinate(ir::CoordExpr value, const ir::Shape& shape, ir::DType dtype) {
  ValueId scalar = builder_.typed(OpCode::coord, {ir::DType::i64, {}}, {{"value", std::move(value)}});
  if (dtype != ir::DType::i64) scalar = op(OpCode::cast, {scalar}, {{"dtype", std::string(ir::dtype_name(dtype))}});
  return spread(scalar, shape, {});
}

ValueId Ops::compare(ValueId a, ValueId b, const std::string& direction) {
  return op(OpCode::compare, {a, b}, {{"direction", direction}});
}

ValueId Ops::total(ValueId x) {
  Ints dims(shape(x).size());
  for (std::size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<std::int64_t>(d);
  return sum(x, std::move(dims));
}

ValueId Ops::slice(ValueId x, std::int64_t dim, ir::CoordExpr start, std::int64_t size) {
  return op(OpCode::slice, {x}, {{"dim", dim}, {"start", std::move(start)}, {"size", size}});
}

ValueId Ops::part(ValueId x, std::int64_t dim, std::int64_t index, std::int64_t count) {
  const std::int64_t size = shape(x).at(static_cast<std::size_t>(dim)) / count;
  return slice(x, dim, ir::constant_expr(index * size), size);
}

ValueId Ops::pick(ValueId x, ir::CoordExpr index) {
  const ir::Shape from = shape(x);
  return reshape(slice(x, 0, std::move(index), 1), Ints(from.begin() + 1, from.end()));
}

Values Ops::accumulate(const std::string& index, std::int64_t trip, const std::vector<ir::Shape>& shapes,
                       const std::function<Values()>& body) {
  Values zeros;
  for (const ir::Shape& shape : shapes) zeros.push_back(fill(shape, 0));
  const Values carried = builder_.begin_loop(index, trip, zeros, Texts(shapes.size(), "sum"));
  Values next = body();
  for (std::size_t i = 0; i < next.size(); ++i) next[i] = add({carried[i], next[i]});
  return builder_.end_loop(next);
}

ValueId Ops::all_reduce(ValueId x, Texts axes, const std::string& reduce) {
  return op(OpCode::all_reduce, {x}, {{"axes", std::move(axes)}, {"reduce", reduce}});
}

ValueId Ops::all_gather(ValueId x, Texts axes, std::int64_t dim) {
  return op(OpCode::all_gather, {x}, {{"axes", std::move(axes)}, {"dim", dim}});
}

ValueId Ops::reduce_scatter(ValueId x, Texts axes, std::int64_t dim, const std::string& reduce) {
  return op(OpCode::reduce_scatter, {x}, {{"axes", std::move(axes)}, {"dim", dim}, {"reduce", reduce}});
}

ValueId Ops::normalised(ValueId x, std::int64_t width) {
  const ir::Shape to = shape(x);
  Ints outer(to.size() - 1);
  for (std::size_t d = 0; d < outer.size(); ++d) outer[d] = static_cast<std::int64_t>(d);
  const ValueId squares = sum(mul({x, x}), {static_cast<std::int64_t>(outer.size())});
  const ValueId mean = scale(squares, {1, width});
  const ValueId shifted = add({mean, fill(shape(mean), {1, 100000})});
  return mul({x, spread(op(OpCode::rsqrt, {shifted}), to, outer)});
}

Case::Case(bool wrong, const Sizes& sizes, const std::vector<std::pair<std::string, std::int64_t>>& axes)
    : wrong_(wrong),
      sizes_(sizes),
      document_([&] {
        ir::Document document;
        ir::Mesh mesh{"mesh", {}, {}, {}};
        for (const auto& [name, size] : axes) mesh.axes.push_back({name, size, {}});
        document.plan.meshes.push_back(std::move(mesh));
        document.plan.stages.emplace_back();
        document.plan.stages[0].name = "main";
        return document;
      }()),
      reference(Side::reference, document_.reference.program, {}),
      plan(Side::plan, document_.plan.stages[0].program, [mesh = document_.plan.meshes[0]](const std::string& axis) {
        const auto at = mesh.find_axis(axis);
        return at ? mesh.axes[*at].size : 0;
      }) {}

std::int64_t Case::size_of(const std::string& axis) const {
  const ir::Mesh& mesh = document_.plan.meshes[0];
  const auto at = mesh.find_axis(axis);
  if (!at) throw ir::BuildError("no axis " + axis);
  return mesh.axes[*at].size;
}

ir::Binding Case::binding(const std::string& of, const ir::Shape& shape, const std::string& dims) const {
  ir::Binding binding;
  binding.of = of;
  std::istringstream words(dims);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::string word = "_";
    if (!dims.empty() && !(words >> word)) throw ir::BuildError("too few words in placement " + dims);
    ir::DimLayout layout;
    std::int64_t rest = shape[d];
    std::istringstream digits(word);
    for (std::string digit; word != "_" && std::getline(digits, digit, '+');) {
      const bool local = digit.find_first_not_of("0123456789") == std::string::npos;
      const std::int64_t size = local ? std::stoll(digit) : size_of(digit);
      layout.digits.push_back({local ? std::string() : digit, 1, size});
      rest /= size;
    }
    layout.digits.push_back({"", 1, rest});
    binding.placement.dims.push_back(std::move(layout));
  }
  return binding;
}

Both Case::input(const std::string& name, const ir::Shape& shape, const std::string& dims, ir::DType dtype,
                 std::int64_t below) {
  const ir::Binding bound = binding(name, shape, dims);
  const Both value{reference.builder().input(name, {dtype, shape}),
                   plan.builder().input(name, {dtype, ir::local_shape(bound.placement)})};
  document_.reference.inputs.push_back({value.reference, below, {}});
  document_.plan.stages[0].inputs.push_back({value.plan, bound, {}});
  return value;
}

Both Case::state(const std::string& name, const ir::Shape& shape, const std::string& dims, const std::string& role,
                 const std::string& param, ir::DType dtype) {
  const ir::Binding bound = binding(name, shape, dims);
  const Both value{reference.builder().input(name, {dtype, shape}),
                   plan.builder().input(name, {dtype, ir::local_shape(bound.placement)})};
  shapes_[name] = shape;
  document_.reference.state.push_back({name, value.reference, value.reference, role, param, {}});
  document_.plan.stages[0].state.push_back({name, value.plan, value.plan, bound, "accelerator", {}});
  return value;
}

ValueId Case::copy_of(const std::string& of, const std::string& name, const std::string& dims) {
  const ir::Binding bound = binding(of, shapes_.at(of), dims);
  const ValueId value = plan.builder().input(name, {ir::DType::f32, ir::local_shape(bound.placement)});
  document_.plan.stages[0].state.push_back({name, value, value, bound, "accelerator", {}});
  return value;
}

void Case::next(const std::string& state, const Both& value) {
  for (ir::ReferenceState& s : document_.reference.state)
    if (s.name == state) s.next = value.reference;
  next_copy(state, value.plan);
}

void Case::next_copy(const std::string& name, ValueId value) {
  for (ir::PlanState& s : document_.plan.stages[0].state)
    if (s.name == name) s.next = value;
}

void Case::output(const std::string& name, const Both& value, const std::string& dims) {
  document_.reference.outputs.push_back({name, value.reference, {}});
  document_.plan.stages[0].outputs.push_back(
      {name, value.plan, binding(name, reference.shape(value.reference), dims), {}});
}

ir::Document Case::document() && {
  return std::move(document_);
}

void PrintTo(const Bug& bug, std::ostream* out) {
  *out << bug.id << " " << bug.name;
}

}  // namespace shardproof::bugs

#include "verifier/execution/scale_rewrite.h"

#include <algorithm>
#include <cstdlib>

namespace shardproof::execution {

namespace {

using ir::Instruction;
using ir::OpCode;

// Positions in a group, and shifts: both ends and what is next to the first one keep their meaning.
std::int64_t end_preserving(std::int64_t at, std::int64_t full, std::int64_t small) {
  if (at == full - 1) return small - 1;
  if (at == 0 || at < small - 1) return at;
  return std::max<std::int64_t>(1, small - 2);
}

}  // namespace

Rewriter::Rewriter(const Sizes& sizes, const Slots& slots, const std::vector<std::int64_t>& small)
    : sizes_(sizes), slots_(slots), small_(small) {
  for (const SizeProduct& product : sizes.products()) {
    if (product.left.size() == 1 && product.right.size() > 1) factors_.try_emplace(sizes.find(product.left[0]), &product);
  }
}

void Rewriter::note(std::string text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(std::move(text));
}

ir::Document Rewriter::rewrite(const ir::Document& document) {
  ir::Document small = document;
  full_meshes_ = &document.plan.meshes;
  meshes(small.plan);
  meshes_ = &small.plan.meshes;
  program(small.reference.program, slots_.reference);
  for (ir::ReferenceInput& input : small.reference.inputs) {
    if (input.below > 1) input.below = number(input.below);
  }
  for (std::size_t i = 0; i < small.plan.stages.size(); ++i) program(small.plan.stages[i].program, slots_.stages[i]);
  buffers(small.plan);
  for (ir::StageProgram& stage : small.plan.stages) {
    for (ir::PlanInput& input : stage.inputs) binding(input.binding);
    for (ir::PlanState& state : stage.state) binding(state.binding);
    for (ir::PlanOutput& output : stage.outputs) binding(output.binding);
  }
  return small;
}

std::int64_t Rewriter::number(std::int64_t full) const {
  const Node node = sizes_.known_number(std::abs(full));
  if (full >= -1 && full <= 1) return full;
  if (node == no_node) return full;
  return full < 0 ? -value(node) : value(node);
}

ir::Rational Rewriter::constant(ir::Rational full) const {
  std::int64_t numerator = full.num;
  std::int64_t denominator = full.den;
  const std::vector<std::int64_t> named = sizes_of_constant(full, sizes_);
  if (named.empty()) return full;
  const bool both = std::abs(full.num) > 1 && full.den > 1;
  std::int64_t product = 1;
  for (const std::int64_t size : named) product *= number(size);
  if (both) return {number(full.num), number(full.den)};
  if (full.den > 1) denominator = product;
  if (full.den == 1) numerator = full.num < 0 ? -product : product;
  return {numerator, denominator};
}

ir::Rational Rewriter::count(ir::Rational full, const SizeCount& count) const {
  ir::Rational small(count.rest);
  for (const Node node : count.over) small = small * ir::Rational(value(node));
  for (const Node node : count.under) small = small * ir::inverse(value(node));
  if (full.den > 1) small = ir::inverse(small);
  return full.num < 0 ? -small : small;
}

std::int64_t Rewriter::position(Node whole, std::int64_t at, const std::string& what) const {
  const auto small = sizes_.position(whole, at, small_);
  if (!small) throw NotScaled("no small position for " + std::to_string(at) + " in " + what);
  return *small;
}

void Rewriter::meshes(ir::Plan& plan) {
  for (ir::Mesh& mesh : plan.meshes) {
    for (ir::MeshAxis& axis : mesh.axes) axis.size = value(slots_.axes.at(axis.name));
  }
}

void Rewriter::program(ir::Program& program, const ProgramSlots& slots) {
  for (std::size_t v = 0; v < program.values.size(); ++v) {
    ir::Shape& shape = program.values[v].type.shape;
    for (std::size_t d = 0; d < shape.size(); ++d) shape[d] = value(slots.dims[v][d]);
  }
  program_ = &program;
  program_slots_ = &slots;
  next_instruction_ = 0;
  body(program.body);
}

void Rewriter::body(std::vector<Instruction>& body) {
  for (Instruction& each : body) instruction(each);
}

void Rewriter::instruction(Instruction& each) {
  const InstructionSlots& slots = program_slots_->instructions[next_instruction_++];
  const auto shape = [&](std::size_t output) -> const ir::Shape& { return program_->value(each.outputs[output]).type.shape; };
  const auto dim = [&] { return static_cast<std::size_t>(each.attributes.get_or<std::int64_t>("dim", 0)); };
  switch (each.op) {
    case OpCode::constant:
      if (each.attributes.has("value")) {
        const auto& full = each.attributes.get<ir::Rational>("value");
        const bool counts = ir::is_integer(program_->value(each.outputs[0]).type.dtype);
        each.attributes.set("value", counts ? ir::Rational(number(full.num)) : slots.count ? count(full, *slots.count) : constant(full));
      }
      return;
    case OpCode::table: return table(each, slots);
    case OpCode::coord: {
      std::size_t at = 0;
      const ir::CoordExpr full = each.attributes.get<ir::CoordExpr>("value");
      return each.attributes.set("value", expression(full, slots.numbers, at));
    }
    case OpCode::reshape:
    case OpCode::broadcast: return each.attributes.set("shape", shape(0));
    case OpCode::slice: return slice(each, slots);
    case OpCode::concat:
      if (!slots.numbers.empty()) each.inputs.resize(static_cast<std::size_t>(value(slots.numbers[0])));
      return;
    case OpCode::pad: {
      const std::vector<Node>& out = program_slots_->dims[static_cast<std::size_t>(each.outputs[0].index)];
      const std::int64_t low = position(out[dim()], each.attributes.get<std::int64_t>("low"), "a pad");
      const std::int64_t size = program_->value(each.inputs[0]).type.shape[dim()];
      each.attributes.set("low", low);
      return each.attributes.set("high", shape(0)[dim()] - low - size);
    }
    case OpCode::scatter_add: return each.attributes.set("size", shape(0)[dim()]);
    case OpCode::put_along: return each.attributes.set("size", shape(0).back());
    case OpCode::rng_uniform: {
      std::size_t at = 0;
      for (const char* name : {"key", "offsets"}) {
        if (!each.attributes.has(name)) continue;
        std::vector<ir::CoordExpr> all = each.attributes.get<std::vector<ir::CoordExpr>>(name);
        for (ir::CoordExpr& e : all) e = expression(ir::CoordExpr(e), slots.numbers, at);
        each.attributes.set(name, std::move(all));
      }
      return;
    }
    case OpCode::loop: {
      auto region = std::make_shared<ir::Region>(*each.region);
      region->trip = value(slots.numbers.at(0));
      body(region->body);
      each.region = std::move(region);
      return;
    }
    default:
      if (ir::schema_of(each.op).family == ir::OpFamily::communication) collective(each, slots);
  }
}

void Rewriter::slice(Instruction& each, const InstructionSlots& slots) {
  const auto dim = static_cast<std::size_t>(each.attributes.get<std::int64_t>("dim"));
  const Node whole = program_slots_->dims[static_cast<std::size_t>(each.inputs[0].index)][dim];
  const std::int64_t size = program_->value(each.outputs[0]).type.shape[dim];
  const ir::CoordExpr start = each.attributes.get<ir::CoordExpr>("start");
  std::size_t at = 0;
  if (!start.is_constant()) {
    each.attributes.set("start", expression(start, slots.numbers, at));
  } else if (slots.stride == no_node) {
    each.attributes.set("start", ir::constant_expr(position(whole, start.constant, "slice `" + program_->value(each.outputs[0]).name + "`")));
  } else {
    each.attributes.set("start", ir::constant_expr(end_preserving(start.constant, sizes_.full(slots.stride), value(slots.stride))));
  }
  each.attributes.set("size", size);
  if (slots.stride != no_node) each.attributes.set("stride", value(slots.stride));
}

void Rewriter::table(Instruction& each, const InstructionSlots& slots) {
  const auto full = each.attributes.get<std::vector<ir::Rational>>("values");
  const ir::Value& value_here = program_->value(each.outputs[0]);
  const std::vector<Node>& dims = program_slots_->dims[static_cast<std::size_t>(each.outputs[0].index)];
  std::vector<ir::Rational> values;
  ir::Shape index(dims.size(), 0);
  const std::int64_t count = ir::element_count(value_here.type.shape);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    for (std::size_t d = dims.size(); d-- > 0;) {
      index[d] = rest % value_here.type.shape[d];
      rest /= value_here.type.shape[d];
    }
    std::int64_t at = 0;
    for (std::size_t d = 0; d < dims.size(); ++d) at = at * sizes_.full(dims[d]) + full_index(dims[d], index[d]);
    ir::Rational element = full.at(static_cast<std::size_t>(at));
    if (slots.counted != no_node) element = small_index(slots.counted, element.num, "table `" + value_here.name + "`");
    values.push_back(element);
  }
  each.attributes.set("values", std::move(values));
}

std::int64_t Rewriter::full_index(Node node, std::int64_t index) {
  const Node root = sizes_.find(node);
  if (sizes_.full(root) == value(root)) return index;
  const auto product = factors_.find(root);
  if (product != factors_.end()) {
    std::int64_t result = 0, step = 1;
    const auto& factors = product->second->right;
    for (std::size_t i = factors.size(); i-- > 0;) {
      result += step * full_index(factors[i], index % value(factors[i]));
      index /= value(factors[i]);
      step *= sizes_.full(factors[i]);
    }
    return result;
  }
  if (const auto* borders = sizes_.borders(root)) {
    std::int64_t begin = 0, small_begin = 0;
    for (const auto& [end, node_there] : *borders) {
      if (index < value(node_there)) {
        const Node part = sizes_.piece_at(root, begin, end);
        return begin + (part == no_node ? index - small_begin : full_index(part, index - small_begin));
      }
      begin = end;
      small_begin = value(node_there);
    }
  }
  return index;
}

// Positions that the small dimension has no room for are spread over it in proportion.
std::int64_t Rewriter::small_index(Node node, std::int64_t index, const std::string& what) {
  const std::int64_t full = sizes_.full(node);
  const std::int64_t small = value(node);
  for (std::int64_t i = 0; i < small; ++i) {
    if (full_index(node, i) == index) return i;
  }
  if (index == full) return small;
  if (index == full - 1) return small - 1;
  if (index < 0 || index > full) return index;
  note("numbers of " + what + " that the small dimension has no room for are spread over it");
  return index * small / full;
}

void Rewriter::collective(Instruction& each, const InstructionSlots& slots) {
  if (each.attributes.has("number")) {
    std::size_t at = 0;
    const ir::CoordExpr full = each.attributes.get<ir::CoordExpr>("number");
    each.attributes.set("number", expression(full, slots.numbers, at));
  }
  std::vector<std::string> axes = slots.group_axes;
  if (!axes.empty()) {
    for (const ir::Mesh& mesh : *meshes_) {
      if (std::all_of(axes.begin(), axes.end(), [&](const std::string& a) { return mesh.find_axis(a).has_value(); })) {
        each.attributes.set("groups", groups_along(mesh, axes));
        break;
      }
    }
  }
  if (each.attributes.has("axes")) axes = each.attributes.get<std::vector<std::string>>("axes");
  std::int64_t full = 1, small = 1;
  for (const std::string& axis : axes) {
    full *= sizes_.full(slots_.axes.at(axis));
    small *= value(slots_.axes.at(axis));
  }
  if (full == small) return;
  for (const char* name : {"root", "shift"}) {
    if (!each.attributes.has(name)) continue;
    const auto at = each.attributes.get<std::int64_t>(name);
    each.attributes.set(name, at < 0 ? -end_preserving(-at, full, small) : end_preserving(at, full, small));
  }
}

ir::CoordExpr Rewriter::expression(const ir::CoordExpr& full, const std::vector<Node>& numbers, std::size_t& at) const {
  const auto next = [&](std::int64_t number) {
    const Node node = numbers.at(at++);
    if (node == no_node) return number;
    return number < 0 ? -value(node) : value(node);
  };
  ir::CoordExpr result = ir::constant_expr(next(full.constant));
  for (const ir::CoordTerm& term : full.terms) {
    const std::int64_t coefficient = next(term.coefficient);
    ir::CoordExpr atom;
    if (term.kind == ir::CoordTerm::Kind::variable) {
      atom = ir::variable_expr(term.variable);
    } else {
      const std::int64_t divisor = next(term.divisor);
      const ir::CoordExpr inner = expression(*term.inner, numbers, at);
      atom = term.kind == ir::CoordTerm::Kind::floor_div ? ir::floor_div(inner, divisor) : ir::modulo(inner, divisor);
    }
    result = result + coefficient * atom;
  }
  return result;
}

void Rewriter::placement(ir::Placement& placement) {
  for (ir::DimLayout& layout : placement.dims) {
    const LayoutSlots& slots = slots_.layouts.at(next_layout_++);
    for (std::size_t i = 0; i < layout.digits.size(); ++i) {
      layout.digits[i].size = value(slots.digits[i]);
      if (slots.before[i] != no_node) layout.digits[i].pre = value(slots.before[i]);
    }
    if (layout.padded_extent != 0) layout.padded_extent = value(slots.padded);
    for (std::int64_t& offset : layout.offsets) offset = position(slots.logical, offset, "uneven shards");
  }
}

void Rewriter::fused(std::vector<ir::FusedPart>& parts) {
  for (ir::FusedPart& part : parts) placement(part.placement);
}

void Rewriter::binding(ir::Binding& binding) {
  if (!binding.fused.empty()) return fused(binding.fused);
  placement(binding.placement);
}

void Rewriter::buffers(ir::Plan& plan) {
  for (ir::FlatBuffer& buffer : plan.buffers) {
    const Node whole = slots_.buffers.at(buffer.name);
    buffer.size = value(whole);
    for (ir::BufferMember& member : buffer.members) {
      if (member.fused.empty()) {
        placement(member.placement);
      } else {
        fused(member.fused);
      }
      member.offset = position(whole, member.offset, "buffer `" + buffer.name + "`");
    }
  }
}

}  // namespace shardproof::execution

#include "verifier/execution/scale_collect.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "ir/infer_type.h"
#include "verifier/execution/scale_means.h"

namespace shardproof::execution {

namespace {

using ir::Instruction;
using ir::OpCode;
using Integers = std::vector<std::int64_t>;

bool is_small(std::int64_t number) { return number >= -1 && number <= 1; }

}  // namespace

bool is_repetition(const Instruction& concat) {
  return concat.inputs.size() > 2 &&
         std::all_of(concat.inputs.begin(), concat.inputs.end(), [&](ir::ValueId id) { return id == concat.inputs[0]; });
}

// 1/4096 is one over a size, 0.9 and 1e-6 are not. 1/32768 may be one over a product of two.
std::vector<std::int64_t> sizes_of_constant(ir::Rational value, const Sizes& sizes) {
  const auto is_decimal = [](std::int64_t number) {
    while (number % 10 == 0) number /= 10;
    return number == 1;
  };
  const std::int64_t numerator = std::abs(value.num);
  if (numerator > 1 && value.den > 1) {
    if (sizes.has_extent(numerator) && sizes.has_extent(value.den) && !is_decimal(value.den)) return {numerator, value.den};
    return {};
  }
  const std::int64_t number = std::max(numerator, value.den);
  if (number < 3 || is_decimal(number)) return {};
  if (sizes.has_extent(number)) return {number};
  for (const std::int64_t a : sizes.extents()) {
    if (a > 1 && number % a == 0 && a >= number / a && sizes.has_extent(number / a)) return {a, number / a};
  }
  return {};
}

Collector::Collector(const ir::Document& document, Sizes& sizes)
    : document_(document), sizes_(sizes), index_(document.reference) {}

Slots Collector::collect() {
  meshes();
  program(document_.reference.program, all_.reference);
  for (const ir::StageProgram& stage : document_.plan.stages) program(stage.program, all_.stages.emplace_back());
  for (const ir::ReferenceState& state : document_.reference.state) same(reference_dims(state.value), reference_dims(state.next));
  buffers();
  for (std::size_t i = 0; i < document_.plan.stages.size(); ++i) {
    stage_bindings(document_.plan.stages[i], all_.stages[i]);
  }
  order_numbers();
  // Last, when all extents are known.
  constants(document_.reference.program.body);
  for (const ir::StageProgram& stage : document_.plan.stages) constants(stage.program.body);
  std::set<std::int64_t> of_plan;
  for (const ir::StageProgram& stage : document_.plan.stages) of_plan.merge(counts_of(stage.program));
  const std::set<std::int64_t> of_reference = counts_of(document_.reference.program);
  counts(document_.reference.program, all_.reference, of_plan);
  for (std::size_t i = 0; i < document_.plan.stages.size(); ++i)
    counts(document_.plan.stages[i].program, all_.stages[i], of_reference);
  return std::move(all_);
}

void Collector::note(std::string text) {
  if (std::find(all_.notes.begin(), all_.notes.end(), text) == all_.notes.end()) all_.notes.push_back(std::move(text));
}

void Collector::program(const ir::Program& program, ProgramSlots& slots) {
  program_ = &program;
  slots_ = &slots;
  for (const ir::Value& value : program.values) {
    std::vector<Node>& nodes = slots.dims.emplace_back();
    for (const std::int64_t extent : value.type.shape) nodes.push_back(fresh(extent));
  }
  unit_.resize(program.values.size());
  std::iota(unit_.begin(), unit_.end(), 0);
  counted_.clear();
  tables_.clear();
  coordinates_.clear();
  body(program.body);
  if (&program == &document_.reference.program) {
    for (const ir::ReferenceInput& input : document_.reference.inputs) {
      if (input.below > 1) counted_.emplace_back(input.value.index, sizes_.number(input.below));
    }
  }
  order_integers();
}

void Collector::body(const std::vector<Instruction>& body) {
  for (const Instruction& each : body) instruction(each);
}

void Collector::same(const std::vector<Node>& a, const std::vector<Node>& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) sizes_.unite(a[i], b[i]);
}

void Collector::instruction(const Instruction& each) {
  const std::size_t at = slots_->instructions.size();
  slots_->instructions.emplace_back();
  integers(each);
  if (each.op == OpCode::loop) return loop(each, at);
  InstructionSlots& slots = slots_->instructions[at];
  switch (ir::schema_of(each.op).family) {
    case ir::OpFamily::structure: return structure(each, slots);
    case ir::OpFamily::communication: return collective(each, slots);
    case ir::OpFamily::elementwise:
      for (const ir::ValueId input : each.inputs) same(dims(input), dims(each.outputs[0]));
      return;
    case ir::OpFamily::contraction:
      if (each.op == OpCode::einsum) return einsum(each);
      {
        const auto& reduced = each.attributes.get<Integers>("dims");
        std::vector<Node> kept;
        for (std::size_t d = 0; d < dims(each.inputs[0]).size(); ++d) {
          if (std::find(reduced.begin(), reduced.end(), static_cast<std::int64_t>(d)) == reduced.end()) {
            kept.push_back(dims(each.inputs[0])[d]);
          }
        }
        same(kept, dims(each.outputs[0]));
      }
      return;
    case ir::OpFamily::source:
      if (each.op == OpCode::constant) constant(each);
      if (each.op == OpCode::table && ir::is_integer(program_->value(each.outputs[0]).type.dtype)) {
        tables_.emplace_back(at, each.outputs[0].index);
      }
      if (each.op == OpCode::coord) {
        expression(each.attributes.get<ir::CoordExpr>("value"), no_node, no_node, slots.numbers);
        for (const Node number : slots.numbers) {
          if (number != no_node) counted_.emplace_back(each.outputs[0].index, number);
        }
        coordinate(each);
      }
      return;
    case ir::OpFamily::random:
      for (const char* name : {"key", "offsets"}) {
        if (!each.attributes.has(name)) continue;
        for (const ir::CoordExpr& e : each.attributes.get<std::vector<ir::CoordExpr>>(name)) {
          expression(e, no_node, no_node, slots.numbers);
        }
      }
      return;
    default: return;
  }
}

void Collector::structure(const Instruction& each, InstructionSlots& slots) {
  const std::vector<Node>& x = dims(each.inputs[0]);
  const std::vector<Node>& out = dims(each.outputs[0]);
  const auto dim = static_cast<std::size_t>(each.attributes.has("dim") ? each.attributes.get<std::int64_t>("dim") : 0);
  switch (each.op) {
    case OpCode::reshape: return reshaped(x, out);
    case OpCode::transpose: {
      const auto& perm = each.attributes.get<Integers>("perm");
      for (std::size_t i = 0; i < perm.size(); ++i) sizes_.unite(out[i], x[static_cast<std::size_t>(perm[i])]);
      return;
    }
    case OpCode::broadcast: {
      const auto& to = each.attributes.get<Integers>("dims");
      for (std::size_t i = 0; i < to.size(); ++i) {
        if (sizes_.full(x[i]) != 1) sizes_.unite(x[i], out[static_cast<std::size_t>(to[i])]);
      }
      return;
    }
    case OpCode::slice: return slice(each, slots);
    case OpCode::concat: {
      std::int64_t begin = 0;
      if (is_repetition(each)) {
        for (std::size_t d = 0; d < out.size(); ++d) {
          if (d != dim) sizes_.unite(x[d], out[d]);
        }
        slots.numbers = {fresh(static_cast<std::int64_t>(each.inputs.size()))};
        return sizes_.product({out[dim]}, {slots.numbers[0], x[dim]});
      }
      for (const ir::ValueId input : each.inputs) {
        for (std::size_t d = 0; d < out.size(); ++d) {
          if (d != dim) sizes_.unite(dims(input)[d], out[d]);
        }
        sizes_.piece(out[dim], begin, dims(input)[dim]);
        begin += sizes_.full(dims(input)[dim]);
      }
      return;
    }
    case OpCode::pad:
      for (std::size_t d = 0; d < out.size(); ++d) {
        if (d != dim) sizes_.unite(x[d], out[d]);
      }
      return sizes_.piece(out[dim], each.attributes.get<std::int64_t>("low"), x[dim]);
    case OpCode::take: {
      const std::vector<Node>& ids = dims(each.inputs[1]);
      std::vector<Node> result(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(dim));
      result.insert(result.end(), ids.begin(), ids.end());
      result.insert(result.end(), x.begin() + static_cast<std::ptrdiff_t>(dim) + 1, x.end());
      return same(result, out);
    }
    case OpCode::scatter_add: {
      const std::vector<Node>& ids = dims(each.inputs[1]);
      for (std::size_t i = 0; i < ids.size(); ++i) sizes_.unite(ids[i], x[dim + i]);
      for (std::size_t d = 0; d < out.size(); ++d) {
        if (d < dim) sizes_.unite(out[d], x[d]);
        if (d > dim) sizes_.unite(out[d], x[d + ids.size() - 1]);
      }
      return;
    }
    case OpCode::take_along: {
      same(dims(each.inputs[1]), out);
      return same(x, out);
    }
    case OpCode::put_along: {
      same(dims(each.inputs[1]), out);
      return same(x, out);
    }
    default: return same(x, out);  // cast
  }
}

void Collector::slice(const Instruction& each, InstructionSlots& slots) {
  const std::vector<Node>& x = dims(each.inputs[0]);
  const std::vector<Node>& out = dims(each.outputs[0]);
  const auto dim = static_cast<std::size_t>(each.attributes.get<std::int64_t>("dim"));
  for (std::size_t d = 0; d < out.size(); ++d) {
    if (d != dim) sizes_.unite(x[d], out[d]);
  }
  const auto stride = each.attributes.get_or<std::int64_t>("stride", 1);
  const auto& start = each.attributes.get<ir::CoordExpr>("start");
  const std::int64_t size = sizes_.full(out[dim]);
  if (stride == 1 && start.is_constant()) return sizes_.piece(x[dim], start.constant, out[dim]);
  if (stride == 1) return expression(start, x[dim], out[dim], slots.numbers);
  slots.stride = fresh(stride);
  if (size * stride == sizes_.full(x[dim])) {
    sizes_.product({x[dim]}, {out[dim], slots.stride});
  } else {
    note("the stride of slice `" + program_->value(each.outputs[0]).name + "` does not divide its dimension");
  }
  if (!start.is_constant()) expression(start, x[dim], no_node, slots.numbers);
}

// Minimal runs of dimensions with equal products: [4096, 8] to [32, 128, 8] is 4096 = 32 * 128 and 8 = 8.
void Collector::reshaped(const std::vector<Node>& from, const std::vector<Node>& to) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < from.size() || j < to.size()) {
    std::vector<Node> left, right;
    std::int64_t a = 1;
    std::int64_t b = 1;
    do {
      const bool take_left = j == to.size() || (i < from.size() && a <= b);
      if (take_left) {
        left.push_back(from[i]);
        a *= sizes_.full(from[i++]);
      } else {
        right.push_back(to[j]);
        b *= sizes_.full(to[j++]);
      }
    } while (a != b && (i < from.size() || j < to.size()));
    if (a != b) return;  // a faulty program: validation says so
    std::erase(left, 0);
    std::erase(right, 0);
    if (left.size() == 1 && right.size() == 1) {
      sizes_.unite(left[0], right[0]);
    } else if (left.size() == 1) {
      sizes_.product(std::move(left), std::move(right));
    } else if (!left.empty() || !right.empty()) {
      sizes_.product(std::move(right), std::move(left));
    }
  }
}

void Collector::einsum(const Instruction& each) {
  const auto spec = ir::parse_einsum(each.attributes.get<std::string>("spec"));
  if (!spec) return;
  std::map<char, Node> label;
  const auto read = [&](const std::string& labels, const std::vector<Node>& nodes) {
    for (std::size_t i = 0; i < std::min(labels.size(), nodes.size()); ++i) {
      const auto [at, is_new] = label.try_emplace(labels[i], nodes[i]);
      if (!is_new) sizes_.unite(at->second, nodes[i]);
    }
  };
  for (std::size_t i = 0; i < each.inputs.size(); ++i) read(spec->operands[i], dims(each.inputs[i]));
  read(spec->result, dims(each.outputs[0]));
}

std::vector<Node> Collector::group(const Instruction& each, InstructionSlots& slots) {
  std::vector<std::string> axes;
  if (each.attributes.has("axes")) {
    axes = each.attributes.get<std::vector<std::string>>("axes");
  } else {
    const auto& groups = each.attributes.get<std::vector<Integers>>("groups");
    axes = slots.group_axes = axes_of(document_.plan.meshes, groups);
    if (axes.empty() && groups.front().size() > 1) {
      note("the groups of `" + program_->value(each.outputs[0]).name + "` are those of no mesh axes: all axes keep their sizes");
      for (const auto& [name, node] : all_.axes) sizes_.keep(node);
      return {fresh(static_cast<std::int64_t>(groups.front().size()))};
    }
  }
  std::vector<Node> nodes;
  for (const std::string& axis : axes) nodes.push_back(all_.axes.at(axis));
  return nodes;
}

void Collector::collective(const Instruction& each, InstructionSlots& slots) {
  if (each.op == OpCode::send || each.op == OpCode::recv) {
    if (each.attributes.has("number")) {
      expression(each.attributes.get<ir::CoordExpr>("number"), no_node, no_node, slots.numbers);
    }
    return;
  }
  const std::vector<Node>& x = dims(each.inputs[0]);
  const std::vector<Node>& out = dims(each.outputs[0]);
  if (each.op == OpCode::wait) return same(x, out);
  const std::vector<Node> members = group(each, slots);
  const auto attribute = [&](const char* name) { return static_cast<std::size_t>(each.attributes.get<std::int64_t>(name)); };
  const auto all_but = [&](std::size_t a, std::size_t b) {
    for (std::size_t d = 0; d < out.size(); ++d) {
      if (d != a && d != b) sizes_.unite(x[d], out[d]);
    }
  };
  const auto blocks = [&](Node whole, Node part) {
    std::vector<Node> factors = members;
    factors.push_back(part);
    sizes_.product({whole}, std::move(factors));
  };
  switch (each.op) {
    case OpCode::all_gather:
      all_but(attribute("dim"), attribute("dim"));
      return blocks(out[attribute("dim")], x[attribute("dim")]);
    case OpCode::reduce_scatter:
      all_but(attribute("dim"), attribute("dim"));
      return blocks(x[attribute("dim")], out[attribute("dim")]);
    case OpCode::all_to_all: {
      const std::size_t split = attribute("split_dim");
      const std::size_t joined = attribute("concat_dim");
      all_but(split, joined);
      if (split == joined) {
        sizes_.unite(x[split], out[split]);
        return blocks(x[split], fresh(sizes_.full(x[split]) / [&] {
          std::int64_t n = 1;
          for (const Node member : members) n *= sizes_.full(member);
          return n;
        }()));
      }
      blocks(x[split], out[split]);
      return blocks(out[joined], x[joined]);
    }
    default: return same(x, out);
  }
}

void Collector::loop(const Instruction& each, std::size_t at) {
  const ir::Region& region = *each.region;
  const Node trip = fresh(region.trip);
  slots_->instructions[at].numbers = {trip};
  for (const ir::Carry& carry : region.carries) {
    for (const ir::ValueId id : {carry.argument, carry.next, carry.result}) same(dims(carry.init), dims(id));
  }
  indices_.emplace_back(region.index, Count{"loop " + std::to_string(loops_++), trip});
  body(region.body);
  indices_.pop_back();
}

// Numbers among the values: of integers a position or a bound, of floats a size if some extent has it.
void Collector::constant(const Instruction& each) {
  if (!each.attributes.has("value")) return;
  const ir::Rational value = each.attributes.get<ir::Rational>("value");
  if (!ir::is_integer(program_->value(each.outputs[0]).type.dtype) || is_small(value.num)) return;
  counted_.emplace_back(each.outputs[0].index, sizes_.number(std::abs(value.num)));
}

void Collector::constants(const std::vector<Instruction>& body) {
  for (const Instruction& each : body) {
    if (each.op == OpCode::loop) constants(each.region->body);
    if (each.op != OpCode::constant || !each.attributes.has("value")) continue;
    for (const std::int64_t size : sizes_of_constant(each.attributes.get<ir::Rational>("value"), sizes_)) {
      all_.constants.insert(sizes_.number(size));
    }
  }
}

// Counts that the other side writes down, too, may stay as they are, or be tied to extents; others have to follow the sizes.
void Collector::counts(const ir::Program& program, ProgramSlots& slots, const std::set<std::int64_t>& elsewhere) {
  std::vector<Node> axes;
  for (const auto& [name, node] : all_.axes) axes.push_back(node);
  for (const ScaledSum& scaled : scaled_sums(program, slots)) {
    InstructionSlots& constant = slots.instructions[scaled.instruction];
    if (elsewhere.contains(scaled.count) || sizes_.has_extent(scaled.count) || constant.count) continue;
    constant.count = as_sizes(scaled, axes, sizes_);
    // A factor of two too many must not be the size of an axis by chance.
    constexpr std::int64_t largest_axis = 16;
    if (constant.count && constant.count->rest > 1 && constant.count->rest <= largest_axis) {
      const Node rest = fresh(constant.count->rest);
      sizes_.keep(rest);
      all_.constants.insert(rest);
    }
  }
}

Collector::Count Collector::variable(const std::string& name) const {
  for (std::size_t i = indices_.size(); i-- > 0;) {
    if (indices_[i].first == name) return indices_[i].second;
  }
  const auto axis = all_.axes.find(name);
  return axis == all_.axes.end() ? Count{} : Count{name, axis->second};
}

std::pair<Node, Node> Collector::factors(const Count& count, std::int64_t first) {
  const auto [at, is_new] = factors_.try_emplace({count.key, first});
  if (is_new) {
    const std::int64_t rest = sizes_.full(count.node) / first;
    at->second = {first == sizes_.full(count.node) ? count.node : fresh(first), rest == sizes_.full(count.node) ? count.node : fresh(rest)};
    if (first != 1 && rest != 1) sizes_.product({count.node}, {at->second.first, at->second.second});
  }
  return at->second;
}

// How many values the atom of a term takes; unknown if it is nested or does not divide.
Collector::Count Collector::count_of(const ir::CoordTerm& term) {
  if (term.kind == ir::CoordTerm::Kind::variable) return variable(term.variable);
  const auto& inner = term.inner->terms;
  if (inner.size() != 1 || inner[0].kind != ir::CoordTerm::Kind::variable || inner[0].coefficient != 1) return {};
  const Count whole = variable(inner[0].variable);
  if (whole.node == no_node || sizes_.full(whole.node) % term.divisor != 0) return {};
  const auto [above, below] = factors(whole, sizes_.full(whole.node) / term.divisor);
  return {{}, term.kind == ir::CoordTerm::Kind::floor_div ? above : below};
}

// A slice that moves over a part of its dimension, or from a later start: over three of four microbatches.
void Collector::short_reach(Node whole, std::int64_t start, Node count, Node step) {
  const std::int64_t reach = sizes_.full(count) * sizes_.full(step);
  Node end = fresh(reach);
  if (reach > 1) sizes_.product({end}, {count, step});
  if (start > 0) {
    const Node from = start == sizes_.full(step) ? step : sizes_.number(start);
    const Node shifted = fresh(start + reach);
    sizes_.sum(shifted, {from, end});
    end = shifted;
  }
  if (sizes_.full(end) == sizes_.full(whole)) {
    sizes_.unite(end, whole);
  } else if (sizes_.full(end) < sizes_.full(whole)) {
    sizes_.order(end, whole);
  } else {
    sizes_.order(whole, end);
  }
}

// start - step * c with c below `count` goes down to 0, or, in the second chunks of a zigzag layout, to count * step.
void Collector::counted_down(Node start, Node count, Node step) {
  const std::int64_t reach = sizes_.full(count) * sizes_.full(step), top = sizes_.full(start) + sizes_.full(step);
  if (top != reach && top != 2 * reach) return;
  const Node whole = fresh(reach);
  sizes_.product({whole}, {count, step});
  Node end = whole;
  if (top == 2 * reach) {
    end = fresh(top);
    sizes_.sum(end, {whole, whole});
  }
  sizes_.sum(end, {start, step});
}

// The numbers of an expression that is a position along `whole` (of `size` elements), in this order: the constant,
// then for each term its coefficient, and for a division its divisor and what is divided.
void Collector::expression(const ir::CoordExpr& e, Node whole, Node size, std::vector<Node>& numbers) {
  const Node constant = is_small(e.constant) ? no_node : sizes_.number(std::abs(e.constant));
  numbers.push_back(constant);
  std::map<std::int64_t, Node> coefficients;
  for (const ir::CoordTerm& term : e.terms) {
    const std::int64_t c = std::abs(term.coefficient);
    if (is_small(c) || coefficients.contains(c)) continue;
    coefficients[c] = size != no_node && sizes_.full(size) == c ? size : whole != no_node ? fresh(c) : sizes_.number(c);
  }
  for (const ir::CoordTerm& term : e.terms) {
    const std::int64_t c = std::abs(term.coefficient);
    const Count count = count_of(term);
    const auto own = coefficients.find(c);
    numbers.push_back(own == coefficients.end() ? no_node : own->second);
    const Node step = own == coefficients.end() ? 0 : own->second;
    bool is_linked = step == size;
    if (term.coefficient < 0 && count.node != no_node && own != coefficients.end() && constant != no_node) counted_down(constant, count.node, step);
    if (count.node != no_node) {
      // Mixed radix: the reach of one term is the step of the next, and that of the first is the dimension.
      const std::int64_t reach = c * sizes_.full(count.node);
      const auto next = coefficients.find(reach);
      if (whole != no_node && sizes_.full(whole) == reach) {
        sizes_.product({whole}, {count.node, step});
        is_linked = true;
      } else if (next != coefficients.end() && next->second != step) {
        sizes_.product({next->second}, {count.node, step});
        is_linked = true;
      } else if (whole != no_node) {
        short_reach(whole, e.constant, count.node, step);
      }
    }
    if (!is_linked && own != coefficients.end()) sizes_.unite(step, sizes_.number(c));
    if (term.kind == ir::CoordTerm::Kind::variable) continue;
    if (count.node != no_node) {
      const Count divided = variable(term.inner->terms[0].variable);
      numbers.push_back(factors(divided, sizes_.full(divided.node) / term.divisor).second);
    } else {
      numbers.push_back(sizes_.number(term.divisor));
    }
    expression(*term.inner, no_node, no_node, numbers);
  }
}

}  // namespace shardproof::execution

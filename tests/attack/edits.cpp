#include "attack/edits.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "attack/dice.h"

namespace shardproof::attack {

namespace {

using ir::Instruction;
using ir::OpCode;
using ir::ValueId;
using Body = std::vector<Instruction>;
using Integers = std::vector<std::int64_t>;

class Edit : private Dice {
 public:
  Edit(ir::Document& document, std::mt19937_64& random) : Dice(random), document_(document) {}

  std::string apply() {
    // Most of what can go wrong is in the plan's program.
    const std::int64_t choice = below(20);
    if (choice < 3) return edit_binding();
    if (choice < 4) return edit_results();
    ir::Program& program = choice < 6 ? document_.reference.program : stage().program;
    return edit_program(program);
  }

 private:
  ir::StageProgram& stage() { return document_.plan.stages.front(); }
  std::vector<std::string> axes() {
    std::vector<std::string> names;
    for (const ir::Mesh& mesh : document_.plan.meshes)
      for (const ir::MeshAxis& axis : mesh.axes) names.push_back(axis.name);
    return names;
  }

  // Nearby, double, half, or something else that occurs.
  std::int64_t other(std::int64_t value) {
    switch (below(7)) {
      case 0: return value + 1;
      case 1: return value - 1;
      case 2: return 2 * value;
      case 3: return value / 2;
      case 4: return 0;
      case 5: return -value;
      default: return below(8);
    }
  }
  ir::Rational other(ir::Rational value) {
    switch (below(6)) {
      case 0: return -value;
      case 1: return value * ir::Rational(2);
      case 2: return value.is_zero() ? ir::Rational(1) : ir::inverse(value);
      case 3: return value + ir::Rational(1);
      case 4: return value * ir::Rational(1, 2);
      default: return ir::Rational(0);
    }
  }
  ir::CoordExpr other(const ir::CoordExpr& expression) {
    ir::CoordExpr result = expression;
    if (result.terms.empty() || chance(30)) {
      if (chance(60)) {
        result.constant = other(result.constant);
      } else {
        std::vector<std::string> names = axes();
        result = result + ir::variable_expr(one_of(names), 1 + below(4));
      }
      return result;
    }
    ir::CoordTerm& term = one_of(result.terms);
    std::vector<std::string> names = axes();
    if (term.kind == ir::CoordTerm::Kind::variable && chance(30)) term.variable = one_of(names);
    else if (term.kind != ir::CoordTerm::Kind::variable && chance(50)) term.divisor = std::max<std::int64_t>(1, other(term.divisor));
    else term.coefficient = other(term.coefficient);
    return result;
  }

  // ---- programs

  // Instructions of the program and of its loops; each body by itself.
  static void bodies(Body& body, std::vector<Body*>& all) {
    all.push_back(&body);
    for (Instruction& i : body)
      if (i.region) bodies(i.region->body, all);
  }
  Instruction* instruction(ir::Program& program, Body** owner = nullptr) {
    std::vector<Body*> all;
    bodies(program.body, all);
    std::int64_t count = 0;
    for (const Body* body : all) count += static_cast<std::int64_t>(body->size());
    if (count == 0) return nullptr;
    std::int64_t n = below(count);
    for (Body* body : all) {
      if (n < static_cast<std::int64_t>(body->size())) {
        if (owner != nullptr) *owner = body;
        return &(*body)[static_cast<std::size_t>(n)];
      }
      n -= static_cast<std::int64_t>(body->size());
    }
    return nullptr;
  }
  Instruction* instruction_with(ir::Program& program, const std::string& attribute) {
    for (int tries = 0; tries < 40; ++tries) {
      Instruction* i = instruction(program);
      if (i != nullptr && i->attributes.has(attribute)) return i;
    }
    return nullptr;
  }
  static void replace_uses(Body& body, ValueId from, ValueId to) {
    for (Instruction& i : body) {
      for (ValueId& input : i.inputs)
        if (input == from) input = to;
      if (!i.region) continue;
      for (ir::Carry& c : i.region->carries) {
        if (c.init == from) c.init = to;
        if (c.next == from) c.next = to;
      }
      replace_uses(i.region->body, from, to);
    }
  }
  void replace_everywhere(ir::Program& program, ValueId from, ValueId to) {
    replace_uses(program.body, from, to);
    if (&program == &document_.reference.program) {
      for (ir::ReferenceState& s : document_.reference.state)
        if (s.next == from) s.next = to;
      for (ir::ReferenceOutput& o : document_.reference.outputs)
        if (o.value == from) o.value = to;
    } else {
      for (ir::PlanState& s : stage().state)
        if (s.next == from) s.next = to;
      for (ir::PlanOutput& o : stage().outputs)
        if (o.value == from) o.value = to;
    }
  }
  // A value of the same type that is there before the instruction; invalid if none was found.
  ValueId like(const ir::Program& program, ValueId id) {
    for (int tries = 0; tries < 60; ++tries) {
      const ValueId candidate{static_cast<std::int32_t>(below(static_cast<std::int64_t>(program.values.size())))};
      if (candidate != id && program.value(candidate).type == program.value(id).type) return candidate;
    }
    return {};
  }

  std::string edit_program(ir::Program& program) {
    switch (below(13)) {
      case 0: return drop(program);
      case 1: return other_operand(program);
      case 2: return swap_operands(program);
      case 3: return other_attribute(program);
      case 4: return other_axes(program);
      case 5: return other_reduction(program);
      case 6: return other_op(program);
      case 7: return other_spec(program);
      case 8: return insert(program);
      case 9: return insert_collective(program);
      case 10: return other_loop(program);
      case 11: return drop_collective(program);
      default: return other_attribute(program);
    }
  }

  std::string drop(ir::Program& program) {
    const Instruction* i = instruction(program);
    if (i == nullptr || i->outputs.size() != 1 || i->op == OpCode::loop) return "";
    for (const ValueId input : i->inputs) {
      if (program.value(input).type != program.value(i->outputs[0]).type) continue;
      replace_everywhere(program, i->outputs[0], input);
      return "drop";
    }
    return "";
  }
  std::string drop_collective(ir::Program& program) {
    for (int tries = 0; tries < 40; ++tries) {
      const Instruction* i = instruction(program);
      if (i == nullptr || ir::schema_of(i->op).family != ir::OpFamily::communication || i->outputs.empty()) continue;
      if (program.value(i->inputs[0]).type != program.value(i->outputs[0]).type) continue;
      replace_everywhere(program, i->outputs[0], i->inputs[0]);
      return "drop_collective";
    }
    return "";
  }
  std::string other_operand(ir::Program& program) {
    Instruction* i = instruction(program);
    if (i == nullptr || i->inputs.empty() || i->op == OpCode::loop) return "";
    ValueId& operand = one_of(i->inputs);
    const ValueId candidate = like(program, operand);
    if (!candidate.valid()) return "";
    operand = candidate;
    return "other_operand";
  }
  std::string swap_operands(ir::Program& program) {
    for (int tries = 0; tries < 20; ++tries) {
      Instruction* i = instruction(program);
      if (i == nullptr || i->inputs.size() < 2 || i->op == OpCode::loop) continue;
      std::swap(one_of(i->inputs), one_of(i->inputs));
      return "swap_operands";
    }
    return "";
  }
  std::string other_attribute(ir::Program& program) {
    Instruction* i = nullptr;
    for (int tries = 0; tries < 20 && (i == nullptr || i->attributes.entries().empty()); ++tries) i = instruction(program);
    if (i == nullptr || i->attributes.entries().empty()) return "";
    std::vector<std::pair<std::string, ir::AttrValue>> entries = i->attributes.entries();
    auto& [name, value] = one_of(entries);
    if (auto* integer = std::get_if<std::int64_t>(&value)) *integer = other(*integer);
    else if (auto* integers = std::get_if<Integers>(&value); integers != nullptr && !integers->empty()) {
      if (integers->size() > 1 && chance(60)) std::swap(one_of(*integers), one_of(*integers));
      else { std::int64_t& entry = one_of(*integers); entry = other(entry); }
    } else if (auto* rational = std::get_if<ir::Rational>(&value)) *rational = other(*rational);
    else if (auto* rationals = std::get_if<std::vector<ir::Rational>>(&value); rationals != nullptr && !rationals->empty()) {
      ir::Rational& entry = one_of(*rationals);
      entry = other(entry);
    } else if (auto* expression = std::get_if<ir::CoordExpr>(&value)) *expression = other(*expression);
    else if (auto* flag = std::get_if<bool>(&value)) *flag = !*flag;
    else if (name == "direction") {
      static constexpr std::array<const char*, 6> kDirections = {"eq", "ne", "lt", "le", "gt", "ge"};
      value = std::string(kDirections[static_cast<std::size_t>(below(6))]);
    } else return "";
    const std::string kind = "other_" + name;
    i->attributes.set(name, value);
    return kind;
  }
  std::string other_axes(ir::Program& program) {
    Instruction* i = instruction_with(program, "axes");
    if (i == nullptr) return "";
    auto list = i->attributes.get<std::vector<std::string>>("axes");
    std::vector<std::string> names = axes();
    switch (below(4)) {
      case 0: list.push_back(one_of(names)); break;
      case 1: if (list.size() > 1) list.pop_back(); break;
      case 2: std::reverse(list.begin(), list.end()); break;
      default: one_of(list) = one_of(names);
    }
    i->attributes.set("axes", list);
    return "other_axes";
  }
  std::string other_reduction(ir::Program& program) {
    Instruction* i = instruction_with(program, "reduce");
    if (i == nullptr) return "";
    static constexpr std::array<const char*, 4> kKinds = {"sum", "avg", "max", "min"};
    i->attributes.set("reduce", std::string(kKinds[static_cast<std::size_t>(below(4))]));
    return "other_reduction";
  }
  std::string other_op(ir::Program& program) {
    static const std::vector<std::vector<OpCode>> kFamilies = {
        {OpCode::add, OpCode::mul, OpCode::sub, OpCode::div, OpCode::max, OpCode::min},
        {OpCode::neg, OpCode::exp, OpCode::sigmoid, OpCode::tanh, OpCode::abs, OpCode::sin, OpCode::stop_gradient, OpCode::silu},
        {OpCode::log, OpCode::sqrt, OpCode::rsqrt, OpCode::reciprocal, OpCode::exp},
        {OpCode::reduce_sum, OpCode::reduce_max, OpCode::reduce_min},
        {OpCode::logical_and, OpCode::logical_or}};
    for (int tries = 0; tries < 40; ++tries) {
      Instruction* i = instruction(program);
      if (i == nullptr) return "";
      for (const std::vector<OpCode>& family : kFamilies) {
        if (std::find(family.begin(), family.end(), i->op) == family.end()) continue;
        i->op = family[static_cast<std::size_t>(below(static_cast<std::int64_t>(family.size())))];
        return "other_op";
      }
    }
    return "";
  }
  std::string other_spec(ir::Program& program) {
    Instruction* i = instruction_with(program, "spec");
    if (i == nullptr) return "";
    auto spec = i->attributes.get<std::string>("spec");
    std::vector<std::size_t> letters;
    for (std::size_t k = 0; k < spec.size(); ++k)
      if (spec[k] >= 'a' && spec[k] <= 'z') letters.push_back(k);
    if (letters.size() < 2) return "";
    std::swap(spec[one_of(letters)], spec[one_of(letters)]);
    i->attributes.set("spec", spec);
    return "other_spec";
  }
  // Puts a new instruction behind an existing one: all uses read its result.
  std::string insert_after(ir::Program& program, const std::string& kind, const auto& make) {
    Body* owner = nullptr;
    Instruction* i = instruction(program, &owner);
    if (i == nullptr || i->outputs.size() != 1 || !ir::is_float(program.value(i->outputs[0]).type.dtype)) return "";
    const ValueId old = i->outputs[0];
    const std::ptrdiff_t at = i - owner->data();
    Instruction added;
    make(added, old);
    ir::Value value = program.value(old);
    value.name = "added" + std::to_string(program.values.size());
    const ValueId fresh{static_cast<std::int32_t>(program.values.size())};
    program.values.push_back(std::move(value));
    replace_everywhere(program, old, fresh);
    added.inputs.assign(added.op == OpCode::add || added.op == OpCode::mul ? 2 : 1, old);
    added.outputs = {fresh};
    owner->insert(owner->begin() + at + 1, std::move(added));
    return kind;
  }
  std::string insert(ir::Program& program) {
    return insert_after(program, "insert", [&](Instruction& added, ValueId) {
      static constexpr std::array<OpCode, 6> kOps = {OpCode::neg, OpCode::abs, OpCode::add, OpCode::mul, OpCode::exp, OpCode::reciprocal};
      added.op = kOps[static_cast<std::size_t>(below(6))];
    });
  }
  std::string insert_collective(ir::Program& program) {
    if (&program == &document_.reference.program) return "";
    return insert_after(program, "insert_collective", [&](Instruction& added, ValueId) {
      std::vector<std::string> names = axes();
      added.op = chance(70) ? OpCode::all_reduce : chance(50) ? OpCode::permute : OpCode::broadcast_from;
      added.attributes.set("axes", std::vector<std::string>{one_of(names)});
      if (added.op == OpCode::all_reduce) added.attributes.set("reduce", std::string(chance(50) ? "sum" : chance(50) ? "avg" : "max"));
      if (added.op == OpCode::permute) added.attributes.set("shift", std::int64_t{1});
      if (added.op == OpCode::broadcast_from) added.attributes.set("root", std::int64_t{0});
    });
  }
  std::string other_loop(ir::Program& program) {
    for (int tries = 0; tries < 60; ++tries) {
      const Instruction* i = instruction(program);
      if (i == nullptr || !i->region) continue;
      ir::Region& region = *i->region;
      if (region.carries.empty() || chance(30)) {
        region.trip = std::max<std::int64_t>(1, other(region.trip));
        return "other_trip";
      }
      ir::Carry& carry = one_of(region.carries);
      ValueId& changed = chance(50) ? carry.init : carry.next;
      const ValueId candidate = like(program, changed);
      if (!candidate.valid()) return "";
      changed = candidate;
      return "other_carry";
    }
    return "";
  }

  // ---- what the plan claims

  std::vector<ir::Placement*> placements() {
    std::vector<ir::Placement*> all;
    const auto binding = [&](ir::Binding& b) {
      all.push_back(&b.placement);
      for (ir::FusedPart& part : b.fused) all.push_back(&part.placement);
    };
    for (ir::PlanInput& input : stage().inputs) binding(input.binding);
    for (ir::PlanState& state : stage().state) binding(state.binding);
    for (ir::PlanOutput& output : stage().outputs) binding(output.binding);
    for (ir::FlatBuffer& buffer : document_.plan.buffers)
      for (ir::BufferMember& member : buffer.members) {
        all.push_back(&member.placement);
        for (ir::FusedPart& part : member.fused) all.push_back(&part.placement);
      }
    return all;
  }
  std::string edit_binding() {
    if (!document_.plan.buffers.empty() && chance(25)) {
      ir::FlatBuffer& buffer = one_of(document_.plan.buffers);
      if (buffer.members.empty()) return "";
      if (chance(50)) {
        std::swap(one_of(buffer.members).offset, one_of(buffer.members).offset);
        return "members_exchanged";
      }
      std::int64_t& offset = one_of(buffer.members).offset;
      offset = other(offset);
      return "member_moved";
    }
    std::vector<ir::Placement*> all = placements();
    if (all.empty()) return "";
    ir::Placement& placement = *one_of(all);
    std::vector<std::string> names = axes();
    const std::int64_t choice = below(5);
    if (choice == 0) {
      placement.pad = placement.pad == ir::PadValue::any ? ir::PadValue::zero : ir::PadValue::any;
      return "other_padding";
    }
    if (choice == 1) {
      if (!placement.partial.empty() && chance(50)) placement.partial.pop_back();
      else placement.partial.push_back({one_of(names), chance(70) ? ir::ReduceKind::sum : ir::ReduceKind::avg});
      return "other_partial";
    }
    if (placement.dims.empty()) return "";
    ir::DimLayout& layout = one_of(placement.dims);
    if (layout.digits.empty()) return "";
    if (choice == 2 && layout.digits.size() > 1) {
      std::swap(one_of(layout.digits), one_of(layout.digits));
      return "digits_exchanged";
    }
    ir::Digit& digit = one_of(layout.digits);
    if (digit.is_local()) return "";
    digit.axis = one_of(names);
    return "other_axis_of_digit";
  }
  std::string edit_results() {
    ir::Program& program = stage().program;
    if (!stage().state.empty() && chance(70)) {
      ValueId& next = one_of(stage().state).next;
      const ValueId candidate = like(program, next);
      if (!candidate.valid()) return "";
      next = candidate;
      return "other_next";
    }
    if (stage().outputs.empty()) return "";
    ValueId& value = one_of(stage().outputs).value;
    const ValueId candidate = like(program, value);
    if (!candidate.valid()) return "";
    value = candidate;
    return "other_output";
  }

  ir::Document& document_;
};

void own_regions(std::vector<Instruction>& body) {
  for (Instruction& i : body) {
    if (!i.region) continue;
    i.region = std::make_shared<ir::Region>(*i.region);
    own_regions(i.region->body);
  }
}

}  // namespace

ir::Document deep_copy(const ir::Document& document) {
  ir::Document copy = document;
  own_regions(copy.reference.program.body);
  for (ir::StageProgram& stage : copy.plan.stages) own_regions(stage.program.body);
  return copy;
}

std::string edit(ir::Document& document, std::mt19937_64& random) { return Edit(document, random).apply(); }

}  // namespace shardproof::attack

#include "attack/shrink.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "attack/edits.h"
#include "ir/builder.h"
#include "ir/infer_type.h"
#include "ir/validate.h"

namespace shardproof::attack {

namespace {

using ir::Instruction;
using ir::OpCode;
using ir::ValueId;
using Body = std::vector<Instruction>;
using Integers = std::vector<std::int64_t>;

std::int64_t count(const Body& body) {
  std::int64_t total = static_cast<std::int64_t>(body.size());
  for (const Instruction& i : body)
    if (i.region) total += count(i.region->body);
  return total;
}

// Visits every place that names a value.
template <typename Visit>
void for_each_use(Body& body, const Visit& visit) {
  for (Instruction& i : body) {
    for (ValueId& input : i.inputs) visit(input);
    if (!i.region) continue;
    for (ir::Carry& carry : i.region->carries) {
      visit(carry.init);
      visit(carry.next);
    }
    for_each_use(i.region->body, visit);
  }
}
template <typename Visit>
void for_each_result(ir::Document& document, bool reference, const Visit& visit) {
  if (reference) {
    for (ir::ReferenceState& s : document.reference.state) visit(s.next);
    for (ir::ReferenceOutput& o : document.reference.outputs) visit(o.value);
  } else {
    for (ir::PlanState& s : document.plan.stages[0].state) visit(s.next);
    for (ir::PlanOutput& o : document.plan.stages[0].outputs) visit(o.value);
  }
}

ir::Program& program_of(ir::Document& document, bool reference) {
  return reference ? document.reference.program : document.plan.stages[0].program;
}

void bodies(Body& body, std::vector<Body*>& all) {
  all.push_back(&body);
  for (Instruction& i : body)
    if (i.region) bodies(i.region->body, all);
}

// Instructions whose results nothing reads, also in loops.
void remove_dead(ir::Document& document, bool reference) {
  ir::Program& program = program_of(document, reference);
  for (bool changed = true; changed;) {
    std::set<ValueId> used;
    for_each_use(program.body, [&](ValueId id) { used.insert(id); });
    for_each_result(document, reference, [&](ValueId id) { used.insert(id); });
    changed = false;
    std::vector<Body*> all;
    bodies(program.body, all);
    for (Body* body : all) {
      const auto dead = [&](const Instruction& i) {
        return std::ranges::none_of(i.outputs, [&](ValueId id) { return used.contains(id); });
      };
      if (std::erase_if(*body, dead) == 0) continue;
      changed = true;
      break;  // the other bodies may have been in one of these
    }
  }
}

class Shrinker {
 public:
  Shrinker(ir::Document document, const Property& property, std::int64_t attempts)
      : best_(std::move(document)), property_(property), left_(attempts) {}

  ir::Document run() {
    for (bool smaller = true; smaller && left_ > 0;) {
      smaller = fewer_results();
      for (const bool reference : {false, true}) smaller = fewer_instructions(reference) || smaller;
      smaller = fewer_inputs() || smaller;
      smaller = smaller_numbers() || smaller;
    }
    return std::move(best_);
  }

 private:
  bool keep(ir::Document candidate) {
    attack::remove_dead(candidate);
    ir::DiagnosticSink sink;
    ir::validate(candidate, sink);
    if (!sink.ok() || left_ <= 0) return false;
    --left_;
    if (!property_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  // ---- outputs and states, on both sides

  bool fewer_results() {
    bool any = false;
    for (std::size_t i = best_.reference.outputs.size(); i-- > 0;) {
      ir::Document candidate = deep_copy(best_);
      const std::string name = candidate.reference.outputs[i].name;
      candidate.reference.outputs.erase(candidate.reference.outputs.begin() + static_cast<std::ptrdiff_t>(i));
      std::erase_if(candidate.plan.stages[0].outputs, [&](const ir::PlanOutput& o) { return o.name == name || o.binding.of == name; });
      any = keep(std::move(candidate)) || any;
    }
    for (std::size_t i = best_.reference.state.size(); i-- > 0;) any = fewer_states(i) || any;
    return any;
  }
  // Without the state, as it entered, or as an input.
  bool fewer_states(std::size_t index) {
    const std::string name = best_.reference.state[index].name;
    const auto holds = [&](const ir::PlanState& s) { return s.binding.of == name; };
    for (int way = 0; way < 3; ++way) {
      ir::Document candidate = deep_copy(best_);
      ir::StageProgram& stage = candidate.plan.stages[0];
      ir::ReferenceState& state = candidate.reference.state[index];
      if (way == 2 && state.next == state.value) continue;
      if (way == 2) {
        state.next = state.value;
        for (ir::PlanState& s : stage.state)
          if (holds(s)) s.next = s.value;
      } else {
        if (way == 1) {
          candidate.reference.inputs.push_back({state.value, 0, {}});
          for (const ir::PlanState& s : stage.state)
            if (holds(s)) stage.inputs.push_back({s.value, s.binding, {}});
        }
        std::erase_if(candidate.plan.checkpoint, [&](const ir::CheckpointEntry& e) {
          return std::ranges::any_of(stage.state, [&](const ir::PlanState& s) { return holds(s) && s.name == e.state; });
        });
        std::erase_if(stage.state, holds);
        candidate.reference.state.erase(candidate.reference.state.begin() + static_cast<std::ptrdiff_t>(index));
      }
      if (keep(std::move(candidate))) return true;
    }
    return false;
  }

  bool fewer_inputs() {
    bool any = false;
    for (std::size_t i = best_.plan.stages[0].inputs.size(); i-- > 0;) {
      ir::Document candidate = deep_copy(best_);
      auto& inputs = candidate.plan.stages[0].inputs;
      inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(i));
      any = keep(std::move(candidate)) || any;
    }
    for (std::size_t i = best_.reference.inputs.size(); i-- > 0;) {
      ir::Document candidate = deep_copy(best_);
      auto& inputs = candidate.reference.inputs;
      const std::string name = candidate.reference.program.value(inputs[i].value).name;
      inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(i));
      std::erase_if(candidate.plan.stages[0].inputs, [&](const ir::PlanInput& p) { return p.binding.of == name; });
      any = keep(std::move(candidate)) || any;
    }
    return any;
  }

  // ---- instructions

  bool fewer_instructions(bool reference) {
    bool any = false;
    // From the end, as what only a removed instruction needed goes with it.
    for (std::size_t n = instructions(best_, reference).size(); n-- > 0;) {
      if (n >= instructions(best_, reference).size()) continue;
      any = replaced(reference, n) || any;
    }
    return any;
  }
  static std::vector<Instruction*> instructions(ir::Document& document, bool reference) {
    std::vector<Body*> all;
    bodies(program_of(document, reference).body, all);
    std::vector<Instruction*> result;
    for (Body* body : all)
      for (Instruction& i : *body) result.push_back(&i);
    return result;
  }
  bool replaced(bool reference, std::size_t n) {
    const Instruction found = *instructions(best_, reference)[n];
    const ir::Program& program = program_of(best_, reference);
    // By an operand; where one instruction reads it, by what that read.
    for (const ValueId out : found.outputs)
      for (const ValueId input : found.inputs)
        if (program.value(input).type == program.value(out).type && with_uses(reference, out, input)) return true;
    if (found.op == OpCode::loop && found.region->trip > 1) {
      ir::Document candidate = deep_copy(best_);
      instructions(candidate, reference)[n]->region->trip = 1;
      if (keep(std::move(candidate))) return true;
    }
    for (std::size_t k = 0; found.inputs.size() > 1 && found.op != OpCode::loop && k < found.inputs.size(); ++k) {
      ir::Document candidate = deep_copy(best_);
      std::vector<ValueId>& inputs = instructions(candidate, reference)[n]->inputs;
      inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(k));
      if (keep(std::move(candidate))) return true;
    }
    if (found.op == OpCode::constant || found.op == OpCode::loop || found.outputs.size() != 1) return false;
    for (const std::int64_t value : {0, 1}) {
      if (program.value(found.outputs[0]).type.dtype == ir::DType::boolean) break;
      ir::Document candidate = deep_copy(best_);
      Instruction& changed = *instructions(candidate, reference)[n];
      changed.op = OpCode::constant;
      changed.inputs.clear();
      changed.attributes = {};
      changed.attributes.set("value", ir::Rational(value));
      if (keep(std::move(candidate))) return true;
    }
    return false;
  }
  bool with_uses(bool reference, ValueId from, ValueId to) {
    ir::Document candidate = deep_copy(best_);
    const auto change = [&](ValueId& id) {
      if (id == from) id = to;
    };
    for_each_use(program_of(candidate, reference).body, change);
    for_each_result(candidate, reference, change);
    return keep(std::move(candidate));
  }

  // ---- sizes

  // Every number n that a document has, as m, alone or with its multiples; whether that is a document turns out.
  bool smaller_numbers() {
    std::set<std::int64_t> numbers;
    for (const bool reference : {true, false})
      for (const ir::Value& value : program_of(best_, reference).values)
        numbers.insert(value.type.shape.begin(), value.type.shape.end());
    for (const ir::MeshAxis& axis : best_.plan.meshes[0].axes) numbers.insert(axis.size);
    bool any = false;
    for (auto n = numbers.rbegin(); n != numbers.rend(); ++n) {
      for (std::int64_t m = 1; m < *n; m = m < 3 ? m + 1 : *n - m > 1 ? *n - 1 : *n) {
        bool done = false;
        for (const bool multiples : {true, false}) done = done || renumbered(*n, m, multiples);
        any = any || done;
        if (done) break;
      }
    }
    return any;
  }
  bool renumbered(std::int64_t n, std::int64_t m, bool multiples) {
    const auto renumber = [&](std::int64_t& x) {
      if (multiples ? x >= n && x % n == 0 : x == n) x = x / n * m;
    };
    ir::Document candidate = deep_copy(best_);
    const auto placement = [&](ir::Placement& p) {
      for (ir::DimLayout& dim : p.dims) {
        for (ir::Digit& digit : dim.digits) renumber(digit.size);
        renumber(dim.padded_extent);
      }
    };
    const auto binding = [&](ir::Binding& b) {
      placement(b.placement);
      for (ir::FusedPart& part : b.fused) placement(part.placement);
    };
    for (ir::Mesh& mesh : candidate.plan.meshes)
      for (ir::MeshAxis& axis : mesh.axes) renumber(axis.size);
    ir::StageProgram& stage = candidate.plan.stages[0];
    for (ir::PlanInput& input : stage.inputs) binding(input.binding);
    for (ir::PlanState& state : stage.state) binding(state.binding);
    for (ir::PlanOutput& output : stage.outputs) binding(output.binding);
    for (ir::ReferenceInput& input : candidate.reference.inputs) renumber(input.below);
    for (const bool reference : {true, false}) {
      for (ir::Value& value : program_of(candidate, reference).values)
        for (std::int64_t& extent : value.type.shape) renumber(extent);
      for (Instruction* i : instructions(candidate, reference)) {
        if (i->region) renumber(i->region->trip);
        std::vector<std::pair<std::string, ir::AttrValue>> entries = i->attributes.entries();
        for (auto& [name, value] : entries) {
          if (name == "dim" || name == "dims" || name == "perm") continue;
          if (auto* number = std::get_if<std::int64_t>(&value)) renumber(*number);
          if (auto* list = std::get_if<Integers>(&value))
            for (std::int64_t& number : *list) renumber(number);
          if (auto* expression = std::get_if<ir::CoordExpr>(&value)) {
            renumber(expression->constant);
            for (ir::CoordTerm& term : expression->terms) renumber(term.coefficient);
          }
          i->attributes.set(name, value);
        }
      }
    }
    return keep(std::move(candidate));
  }

  ir::Document best_;
  const Property& property_;
  std::int64_t left_;
};

}  // namespace

void remove_dead(ir::Document& document) {
  for (const bool reference : {true, false}) remove_dead(document, reference);
}

std::int64_t instruction_count(const ir::Document& document) {
  return count(document.reference.program.body) + count(document.plan.stages[0].program.body);
}

ir::Document shrink(ir::Document document, const Property& property, std::int64_t attempts) {
  return Shrinker(deep_copy(document), property, attempts).run();
}

}  // namespace shardproof::attack

#include "disguise/disguise.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace shardproof::disguise {
namespace {

using ir::Instruction;
using ir::OpCode;
using ir::Program;
using ir::ValueId;

std::size_t below(Random& random, std::size_t bound) {
  return static_cast<std::size_t>(random() % bound);
}

template <typename T>
void shuffle(std::vector<T>& list, Random& random) {
  for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[below(random, i)]);
}

std::size_t at(ValueId id) {
  return static_cast<std::size_t>(id.index);
}

void own_regions(std::vector<Instruction>& body) {
  for (Instruction& instruction : body) {
    if (instruction.region == nullptr) continue;
    instruction.region = std::make_shared<ir::Region>(*instruction.region);
    own_regions(instruction.region->body);
  }
}

template <typename Visit>
void each_instruction(std::vector<Instruction>& body, const Visit& visit) {
  for (Instruction& instruction : body) {
    visit(instruction);
    if (instruction.region != nullptr) each_instruction(instruction.region->body, visit);
  }
}

// ---- names

// Distinct words; an old name always gets the same new one.
class Names {
 public:
  explicit Names(Random& random) : random_(random) {}

  std::string fresh() {
    for (;;) {
      std::string word;
      for (int i = 0; i < 9; ++i) word += static_cast<char>('a' + below(random_, 26));
      if (taken_.insert(word).second) return word;
    }
  }
  void rename(std::string& name) {
    if (name.empty()) return;
    std::string& known = known_[name];
    if (known.empty()) known = fresh();
    name = known;
  }

 private:
  Random& random_;
  std::set<std::string> taken_;
  std::unordered_map<std::string, std::string> known_;
};

void rename_variables(ir::CoordExpr& expression, Names& variables) {
  for (ir::CoordTerm& term : expression.terms) {
    if (term.kind == ir::CoordTerm::Kind::variable) {
      variables.rename(term.variable);
      continue;
    }
    auto inner = std::make_shared<ir::CoordExpr>(*term.inner);
    rename_variables(*inner, variables);
    term.inner = std::move(inner);
  }
}

void rename_attributes(Instruction& instruction, Names& variables) {
  const auto entries = instruction.attributes.entries();
  for (const auto& [name, value] : entries) {
    ir::AttrValue renamed = value;
    if (auto* expression = std::get_if<ir::CoordExpr>(&renamed)) {
      rename_variables(*expression, variables);
    } else if (auto* expressions = std::get_if<std::vector<ir::CoordExpr>>(&renamed)) {
      for (ir::CoordExpr& one : *expressions) rename_variables(one, variables);
    } else if (auto* axes = std::get_if<std::vector<std::string>>(&renamed); axes != nullptr && name == "axes") {
      for (std::string& axis : *axes) variables.rename(axis);
    } else {
      continue;
    }
    instruction.attributes.set(name, std::move(renamed));
  }
}

void rename_placement(ir::Placement& placement, Names& variables, Names& meshes) {
  meshes.rename(placement.mesh);
  for (ir::DimLayout& dim : placement.dims)
    for (ir::Digit& digit : dim.digits) variables.rename(digit.axis);
  for (ir::PartialAxis& partial : placement.partial) variables.rename(partial.axis);
  for (ir::OwnedAxis& owned : placement.owned) variables.rename(owned.axis);
}

}  // namespace

ir::Document copy(const ir::Document& document) {
  ir::Document result = document;
  own_regions(result.reference.program.body);
  for (ir::StageProgram& stage : result.plan.stages) own_regions(stage.program.body);
  return result;
}

void rename(ir::Document& document, Random& random) {
  ir::Reference& reference = document.reference;
  ir::Plan& plan = document.plan;
  Names variables(random), meshes(random), buffers(random), tensors(random), outputs(random);
  for (ir::Value& value : reference.program.values) tensors.rename(value.name);
  for (ir::ReferenceState& state : reference.state) {
    tensors.rename(state.name);
    tensors.rename(state.param);
  }
  for (ir::ReferenceOutput& output : reference.outputs) outputs.rename(output.name);
  each_instruction(reference.program.body, [&](Instruction& i) {
    rename_attributes(i, variables);
    if (i.region != nullptr) variables.rename(i.region->index);
  });
  for (ir::Mesh& mesh : plan.meshes) {
    meshes.rename(mesh.name);
    for (ir::MeshAxis& axis : mesh.axes) variables.rename(axis.name);
  }
  const auto rename_fused = [&](std::vector<ir::FusedPart>& parts) {
    for (ir::FusedPart& part : parts) {
      tensors.rename(part.of);
      rename_placement(part.placement, variables, meshes);
    }
  };
  const auto rename_binding = [&](ir::Binding& binding, Names& of) {
    of.rename(binding.of);
    rename_fused(binding.fused);
    buffers.rename(binding.buffer);
    rename_placement(binding.placement, variables, meshes);
  };
  for (ir::FlatBuffer& buffer : plan.buffers) {
    buffers.rename(buffer.name);
    for (ir::BufferMember& member : buffer.members) {
      tensors.rename(member.param);
      rename_placement(member.placement, variables, meshes);
      rename_fused(member.fused);
    }
  }
  Names values(random);
  for (ir::StageProgram& stage : plan.stages) {
    for (ir::Value& value : stage.program.values) values.rename(value.name);
    each_instruction(stage.program.body, [&](Instruction& i) {
      rename_attributes(i, variables);
      if (i.region != nullptr) variables.rename(i.region->index);
    });
    for (ir::PlanInput& input : stage.inputs) rename_binding(input.binding, tensors);
    for (ir::PlanState& state : stage.state) {
      values.rename(state.name);
      rename_binding(state.binding, tensors);
    }
    for (ir::PlanOutput& output : stage.outputs) {
      outputs.rename(output.name);
      rename_binding(output.binding, outputs);
    }
  }
  for (ir::CheckpointEntry& entry : plan.checkpoint) {
    entry.key = values.fresh();
    entry.file = values.fresh();
    values.rename(entry.state);
  }
}

// ---- order

namespace {

void used_values(const Instruction& instruction, std::unordered_set<std::int32_t>& used) {
  for (const ValueId id : instruction.inputs) used.insert(id.index);
  if (instruction.region == nullptr) return;
  for (const ir::Carry& carry : instruction.region->carries) used.insert(carry.next.index);
  for (const Instruction& inner : instruction.region->body) used_values(inner, used);
}

void reorder_body(std::vector<Instruction>& body, Random& random) {
  std::unordered_map<std::int32_t, std::size_t> definition;
  for (std::size_t i = 0; i < body.size(); ++i)
    for (const ValueId id : body[i].outputs) definition[id.index] = i;
  std::vector<std::vector<std::size_t>> later(body.size());
  std::vector<std::size_t> waits(body.size(), 0);
  const auto first_then = [&](std::size_t a, std::size_t b) {
    later[a].push_back(b);
    ++waits[b];
  };
  std::unordered_map<std::int32_t, std::vector<std::size_t>> readers, releases;
  for (std::size_t i = 0; i < body.size(); ++i) {
    std::unordered_set<std::int32_t> used;
    used_values(body[i], used);
    for (const std::int32_t id : used) {
      (body[i].op == OpCode::release ? releases : readers)[id].push_back(i);
      if (const auto found = definition.find(id); found != definition.end()) first_then(found->second, i);
    }
  }
  for (const auto& [id, released] : releases)
    for (const std::size_t reader : readers[id])
      for (const std::size_t release : released) first_then(reader, release);
  // Either any instruction that may come next, or by priorities drawn in advance, which strands some for long.
  const bool by_priority = below(random, 2) == 0;
  std::vector<std::uint64_t> priority(body.size());
  for (std::uint64_t& p : priority) p = random();
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < body.size(); ++i)
    if (waits[i] == 0) ready.push_back(i);
  std::vector<Instruction> result;
  result.reserve(body.size());
  while (!ready.empty()) {
    std::size_t pick = below(random, ready.size());
    if (by_priority) {
      const auto least = [&](std::size_t a, std::size_t b) { return priority[a] < priority[b]; };
      pick = static_cast<std::size_t>(std::min_element(ready.begin(), ready.end(), least) - ready.begin());
    }
    const std::size_t next = ready[pick];
    ready[pick] = ready.back();
    ready.pop_back();
    for (const std::size_t i : later[next])
      if (--waits[i] == 0) ready.push_back(i);
    result.push_back(std::move(body[next]));
  }
  body = std::move(result);
}

void reorder_instruction(Instruction& instruction, Random& random) {
  if (instruction.op == OpCode::add || instruction.op == OpCode::mul || instruction.op == OpCode::max ||
      instruction.op == OpCode::min)
    shuffle(instruction.inputs, random);
  if (instruction.region == nullptr) return;
  ir::Region& region = *instruction.region;
  shuffle(region.carries, random);
  for (std::size_t i = 0; i < region.carries.size(); ++i) {
    instruction.inputs[i] = region.carries[i].init;
    instruction.outputs[i] = region.carries[i].result;
  }
  reorder_body(region.body, random);
}

void reorder_program(Program& program, Random& random) {
  reorder_body(program.body, random);
  each_instruction(program.body, [&](Instruction& instruction) { reorder_instruction(instruction, random); });
}

}  // namespace

void reorder(ir::Document& document, Random& random) {
  ir::Reference& reference = document.reference;
  reorder_program(reference.program, random);
  shuffle(reference.inputs, random);
  shuffle(reference.state, random);
  shuffle(reference.outputs, random);
  shuffle(document.plan.buffers, random);
  for (ir::FlatBuffer& buffer : document.plan.buffers) shuffle(buffer.members, random);
  for (ir::StageProgram& stage : document.plan.stages) {
    reorder_program(stage.program, random);
    shuffle(stage.inputs, random);
    shuffle(stage.state, random);
    shuffle(stage.outputs, random);
  }
}

// ---- numbers

namespace {

// The new number of each value; the values are moved there.
std::function<void(ValueId&)> renumber_values(Program& program, Random& random) {
  std::vector<std::int32_t> numbers(program.values.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  shuffle(numbers, random);
  std::vector<ir::Value> values(program.values.size());
  for (std::size_t i = 0; i < numbers.size(); ++i)
    values[static_cast<std::size_t>(numbers[i])] = std::move(program.values[i]);
  program.values = std::move(values);
  auto change = [numbers = std::move(numbers)](ValueId& id) { id.index = numbers[at(id)]; };
  each_instruction(program.body, [&](Instruction& instruction) {
    for (ValueId& id : instruction.inputs) change(id);
    for (ValueId& id : instruction.outputs) change(id);
    if (instruction.region == nullptr) return;
    for (ir::Carry& carry : instruction.region->carries)
      for (ValueId* id : {&carry.init, &carry.argument, &carry.next, &carry.result}) change(*id);
  });
  return change;
}

}  // namespace

void renumber(ir::Document& document, Random& random) {
  ir::Reference& reference = document.reference;
  const auto of_reference = renumber_values(reference.program, random);
  for (ir::ReferenceInput& input : reference.inputs) of_reference(input.value);
  for (ir::ReferenceState& state : reference.state) {
    of_reference(state.value);
    of_reference(state.next);
  }
  for (ir::ReferenceOutput& output : reference.outputs) of_reference(output.value);
  for (ir::StageProgram& stage : document.plan.stages) {
    const auto of_plan = renumber_values(stage.program, random);
    for (ir::PlanInput& input : stage.inputs) of_plan(input.value);
    for (ir::PlanState& state : stage.state) {
      of_plan(state.value);
      of_plan(state.next);
    }
    for (ir::PlanOutput& output : stage.outputs) of_plan(output.value);
  }
}

// ---- annotations

void strip(ir::Document& document) {
  const auto strip_program = [](Program& program) {
    for (ir::Value& value : program.values) value.span = {};
    each_instruction(program.body, [](Instruction& instruction) {
      instruction.source.clear();
      instruction.recompute.clear();
      instruction.span = {};
    });
  };
  document.source = nullptr;
  document.plan.name.clear();
  document.plan.notes.clear();
  strip_program(document.reference.program);
  for (ir::StageProgram& stage : document.plan.stages) strip_program(stage.program);
}

}  // namespace shardproof::disguise

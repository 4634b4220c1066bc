#include "verifier/held_values.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "ir/print.h"
#include "verifier/execution/alignment.h"
#include "verifier/execution/step.h"
#include "verifier/render_json.h"

namespace shardproof::verifier {

namespace {

using execution::Alignment;
using execution::Held;

void index_definitions(const std::vector<ir::Instruction>& body, std::map<ir::ValueId, const ir::Instruction*>& definition) {
  for (const ir::Instruction& each : body) {
    for (const ir::ValueId output : each.outputs) definition[output] = &each;
    if (each.region) index_definitions(each.region->body, definition);
  }
}

std::map<ir::ValueId, std::string> declared_placements(const ir::StageProgram& stage) {
  std::map<ir::ValueId, std::string> declared;
  for (const ir::PlanOutput& output : stage.outputs) declared[output.value] = ir::describe(output.binding.placement);
  for (const ir::PlanState& state : stage.state) declared[state.next] = ir::describe(state.binding.placement);
  return declared;
}

// Operands that are not just whole values, which is what most instructions take them for.
std::string odd_operands(const ir::Program& program, const ir::Instruction& instruction, const Alignment& alignment) {
  std::string text;
  for (const ir::ValueId input : instruction.inputs) {
    const std::optional<Held>& held = alignment.values[static_cast<std::size_t>(input.index)];
    const std::string each = held && !held->is_plain() ? "`" + program.value(input).name + "`: " + describe(*held) : "";
    if (!each.empty() && text.find(each) == std::string::npos) text += (text.empty() ? "; it reads " : ", and ") + each;
  }
  return text;
}

}  // namespace

std::vector<Counterexample::HeldValue> held_values(const ir::Document& document, bool sure, std::size_t most) {
  const ir::Document core = execution::in_core_ops(document);
  const std::optional<Alignment> alignment = execution::align(core);
  std::vector<Counterexample::HeldValue> result;
  if (!alignment) return result;
  const ir::StageProgram& stage = execution::only_stage(core.plan);
  std::map<ir::ValueId, const ir::Instruction*> definition;
  index_definitions(stage.program.body, definition);
  const std::map<ir::ValueId, std::string> declared = declared_placements(stage);
  for (const Alignment::Differing& each : alignment->differing) {
    const std::optional<Held>& held = alignment->values[static_cast<std::size_t>(each.value.index)];
    if (!held || result.size() == most) continue;
    const std::string& placement = declared.at(each.value);
    result.push_back({each.name, {}, "holds " + describe(*held) + (placement.empty() ? "" : "; declared: " + placement)});
  }
  struct Alike {
    Counterexample::HeldValue first;
    int count = 0;
  };
  std::vector<Alike> kinds;
  std::map<std::string, std::size_t> known;
  for (const ir::ValueId id : alignment->frontier) {
    const ir::Instruction& instruction = *definition.at(id);
    const std::string odd = odd_operands(stage.program, instruction, *alignment);
    if (sure && odd.empty()) continue;
    Counterexample::HeldValue held{stage.program.value(id).name, ir::describe(stage.program, instruction), "is no value of the reference" + odd};
    const auto [kind, is_new] = known.try_emplace(without_numbers(held.value + held.text), kinds.size());
    if (is_new) kinds.push_back({std::move(held), 0});
    ++kinds[kind->second].count;
  }
  std::stable_sort(kinds.begin(), kinds.end(), [](const Alike& a, const Alike& b) { return a.count < b.count; });
  for (Alike& kind : kinds) {
    if (result.size() == most) break;
    if (kind.count > 1) kind.first.text += "; and so in " + std::to_string(kind.count - 1) + " more places";
    result.push_back(std::move(kind.first));
  }
  return result;
}

}  // namespace shardproof::verifier

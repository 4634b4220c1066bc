// One training step in a domain: the reference on one device, the plan on all ranks of its mesh.
#pragma once

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ir/plan.h"
#include "verifier/execution/cluster.h"
#include "verifier/execution/place.h"

namespace shardproof::execution {

// The reference's values at both ends of one step.
template <typename T>
struct ReferenceRunOf {
  ReferenceTensorsOf<T> entry;  // inputs and states
  ReferenceTensorsOf<T> exit;   // outputs (by their name and by their value's name) and next states
};
using ReferenceRun = ReferenceRunOf<double>;

std::map<std::pair<std::string, std::string>, std::string> names_by_role(const ir::Reference& reference);

// The only program of a plan. Throws ExecutionError if it has several stages, which are not executed yet.
const ir::StageProgram& only_stage(const ir::Plan& plan);

// The same document in core ops, for domains that have no macros. Ids of values stay what they are.
ir::Document in_core_ops(const ir::Document& document);

// `values`: all inputs and states by name. `observe`: see Interpreter.
template <typename T>
ReferenceRunOf<T> run_reference(const DomainOf<T>& domain, const ir::Reference& reference,
                                const std::map<std::string, TensorOf<T>>& values, Observer observe = {}) {
  const ir::Program& program = reference.program;
  ReferenceRunOf<T> run;
  Interpreter interpreter(domain, program, single_device());
  interpreter.observe = std::move(observe);
  const auto give = [&](ir::ValueId id, const std::string& name) {
    const auto found = values.find(name);
    if (found == values.end()) throw ExecutionError("no value for reference tensor `" + name + "`");
    check_given(program, id, found->second.type.shape);
    interpreter.set(id, {domain.upload(found->second)});
    run.entry.by_name[name] = found->second;
  };
  for (const ir::ReferenceInput& input : reference.inputs) give(input.value, program.value(input.value).name);
  for (const ir::ReferenceState& state : reference.state) give(state.value, state.name);
  interpreter.run();
  const auto result = [&](ir::ValueId id) {
    return domain.download(interpreter.get(id).front(), program.value(id).type.dtype);
  };
  for (const ir::ReferenceOutput& output : reference.outputs) {
    run.exit.by_name[output.name] = result(output.value);
    run.exit.by_name[program.value(output.value).name] = run.exit.by_name[output.name];
  }
  for (const ir::ReferenceState& state : reference.state) run.exit.by_name[state.name] = result(state.next);
  run.entry.by_role = run.exit.by_role = names_by_role(reference);
  return run;
}

// Outputs and next states of the stage, in their order, from what `entry` holds under the bindings.
template <typename Numbers>
std::vector<RankTensorsOf<typename Numbers::Number>> run_plan(
    const DomainOf<typename Numbers::Number>& domain, const Numbers& numbers, const ir::Plan& plan,
    const ReferenceTensorsOf<typename Numbers::Number>& entry, std::mt19937_64& random, LocalMaps& maps, Observer observe = {}) {
  const ir::StageProgram& stage = only_stage(plan);
  std::map<ir::ValueId, RankTensorsOf<typename Numbers::Number>> inputs;
  const auto give = [&](ir::ValueId id, const ir::Binding& binding) {
    const ir::Value& value = stage.program.value(id);
    try {
      inputs[id] = place(numbers, plan, entry, binding, value.type, random, maps);
    } catch (const ExecutionError& error) {
      throw ExecutionError("%" + value.name + ": " + error.what());
    }
  };
  for (const ir::PlanInput& input : stage.inputs) give(input.value, input.binding);
  for (const ir::PlanState& state : stage.state) give(state.value, state.binding);
  std::vector<ir::ValueId> wanted;
  for (const ir::PlanOutput& output : stage.outputs) wanted.push_back(output.value);
  for (const ir::PlanState& state : stage.state) wanted.push_back(state.next);
  return run_cluster(domain, plan.meshes, stage.program, inputs, wanted, std::move(observe));
}

}  // namespace shardproof::execution

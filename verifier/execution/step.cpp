#include "verifier/execution/step.h"

#include "lowering/unfold.h"

namespace shardproof::execution {

std::map<std::pair<std::string, std::string>, std::string> names_by_role(const ir::Reference& reference) {
  std::map<std::pair<std::string, std::string>, std::string> names;
  for (const ir::ReferenceState& state : reference.state) {
    if (state.role == "param") {
      names[{state.role, state.name}] = state.name;
    } else if (!state.param.empty()) {
      names[{state.role, state.param}] = state.name;
    }
  }
  return names;
}

const ir::StageProgram& only_stage(const ir::Plan& plan) {
  if (plan.stages.size() != 1 || !plan.stages.front().where.empty()) {
    throw ExecutionError("only plans of one SPMD stage are executed yet, and this one has " +
                         std::to_string(plan.stages.size()) + " stages");
  }
  return plan.stages.front();
}

ir::Document in_core_ops(const ir::Document& document) {
  ir::Document result = document;
  result.reference.program = lowering::unfold(document.reference.program);
  for (ir::StageProgram& stage : result.plan.stages) stage.program = lowering::unfold(stage.program);
  return result;
}

}  // namespace shardproof::execution

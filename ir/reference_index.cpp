#include "ir/reference_index.h"

namespace shardproof::ir {

ReferenceIndex::ReferenceIndex(const Reference& reference) : reference_(&reference) {
  for (const ReferenceInput& input : reference.inputs) {
    inputs_.emplace(reference.program.value(input.value).name, input.value);
  }
  for (const ReferenceState& state : reference.state) {
    states_.emplace(state.name, state.value);
    if (!state.param.empty())
      roles_.emplace(std::pair<std::string_view, std::string_view>(state.role, state.param), state.value);
  }
  for (const ReferenceOutput& output : reference.outputs) outputs_.emplace(output.name, output.value);
  for (const ReferenceOutput& output : reference.outputs) {
    outputs_.emplace(reference.program.value(output.value).name, output.value);
  }
}

ValueId ReferenceIndex::find(const Names& names, std::string_view name) {
  const auto found = names.find(name);
  return found == names.end() ? ValueId{} : found->second;
}

ValueId ReferenceIndex::state_with_role(std::string_view role, std::string_view param) const {
  if (role == "param") return state(param);
  const auto found = roles_.find({role, param});
  return found == roles_.end() ? ValueId{} : found->second;
}

std::vector<std::string_view> ReferenceIndex::input_names() const {
  std::vector<std::string_view> names;
  for (const ReferenceInput& input : reference_->inputs) names.push_back(reference_->program.value(input.value).name);
  return names;
}

std::vector<std::string_view> ReferenceIndex::state_names() const {
  std::vector<std::string_view> names;
  for (const ReferenceState& state : reference_->state) names.push_back(state.name);
  return names;
}

std::vector<std::string_view> ReferenceIndex::output_names() const {
  std::vector<std::string_view> names;
  for (const ReferenceOutput& output : reference_->outputs) names.push_back(output.name);
  return names;
}

}  // namespace shardproof::ir

// Look-up of the reference tensors that a plan's bindings name.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/plan.h"

namespace shardproof::ir {

// The reference must outlive the index and keep its values where they are.
class ReferenceIndex {
 public:
  explicit ReferenceIndex(const Reference& reference);

  // Each returns an invalid id if there is no such tensor.
  ValueId input(std::string_view name) const { return find(inputs_, name); }
  ValueId state(std::string_view name) const { return find(states_, name); }
  // By the output's own name, or by the name of the value it shows.
  ValueId output(std::string_view name) const { return find(outputs_, name); }
  // The state that plays `role` for parameter `param`; role "param" is the parameter itself.
  ValueId state_with_role(std::string_view role, std::string_view param) const;

  const TensorType& type(ValueId id) const { return reference_->program.value(id).type; }
  // Names in order of definition, for messages.
  std::vector<std::string_view> input_names() const;
  std::vector<std::string_view> state_names() const;
  std::vector<std::string_view> output_names() const;

 private:
  using Names = std::unordered_map<std::string_view, ValueId>;
  static ValueId find(const Names& names, std::string_view name);

  const Reference* reference_;
  Names inputs_;
  Names states_;
  Names outputs_;
  std::map<std::pair<std::string_view, std::string_view>, ValueId> roles_;  // (role, param)
};

}  // namespace shardproof::ir

// VJP rules by op family. Internal to differentiate.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/builder.h"

namespace shardproof::lowering {

// One instruction under differentiation. A rule reads the cotangents g of the results and appends those of
// the wanted operands, naming each by `names`.
struct VjpCall {
  ir::Builder& builder;
  const ir::Instruction& instruction;
  const std::vector<ir::ValueId>& cotangents;  // of the results; all valid for ops with one result
  const std::vector<bool>& wanted;
  const std::vector<std::string>& names;

  ir::ValueId in(std::size_t i) const { return instruction.inputs[i]; }
  ir::ValueId out() const { return instruction.outputs[0]; }
  ir::ValueId g() const { return cotangents[0]; }
};

using VjpRule = std::vector<ir::ValueId> (*)(const VjpCall&);
struct VjpEntry {
  ir::OpCode op;
  VjpRule rule;
};

std::span<const VjpEntry> structure_vjps();
std::span<const VjpEntry> elementwise_vjps();
std::span<const VjpEntry> contraction_vjps();
std::span<const VjpEntry> communication_vjps();
std::span<const VjpEntry> norm_vjps();       // softmax, norms, activations
std::span<const VjpEntry> attention_vjps();  // rope, attention, cross entropy

}  // namespace shardproof::lowering

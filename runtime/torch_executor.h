// Executes instructions on concrete values with LibTorch in float64. Macro ops run LibTorch's own function where it
// has one and never their unfolding, so that macro against unfolded program tests the unfolding.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/program.h"
#include "runtime/array.h"
#include "runtime/tensor.h"

namespace shardproof::runtime {

// Value of a mesh axis at the executing rank, or of a loop index. Throws ExecutionError for an unknown name.
using VariableValue = std::function<std::int64_t(const std::string&)>;

// Everything that needs one rank only: all ops except communication and `loop`. One array per result (none for
// `release`). Checks that every result has the shape of its declared type. Throws ExecutionError that names the
// instruction.
std::vector<Array> execute_instruction(const ir::Program& program, const ir::Instruction& instruction,
                                       std::span<const Array> operands, const VariableValue& variables);

// Runs a whole program on one device (also loops; a collective throws). `inputs`: every value without a defining
// instruction. Returns the `wanted` values.
std::vector<Array> execute(const ir::Program& program, const std::map<ir::ValueId, Array>& inputs,
                           std::span<const ir::ValueId> wanted);
std::vector<Tensor> execute(const ir::Program& program, const std::map<ir::ValueId, Tensor>& inputs,
                            std::span<const ir::ValueId> wanted);

}  // namespace shardproof::runtime

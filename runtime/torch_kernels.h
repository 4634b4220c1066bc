// The numeric kernels behind execute_instruction, one function per family. Each returns no result for an op that is
// not its own.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/torch_executor.h"

namespace shardproof::runtime {

struct KernelCall {
  const ir::Instruction& instruction;
  const ir::TensorType& result_type;  // declared type of the first result
  std::span<const Array> operands;
  const VariableValue& variables;
};

using KernelResults = std::optional<std::vector<Array>>;

KernelResults run_structure_kernel(const KernelCall& call);   // sources, structure, random
KernelResults run_arithmetic_kernel(const KernelCall& call);  // elementwise, contraction
KernelResults run_macro_kernel(const KernelCall& call);

}  // namespace shardproof::runtime

// The definition of every macro op as a program of core ops. This is part of what the prover trusts: a macro means
// its unfolding and nothing else.
#pragma once

#include <vector>

#include "ir/program.h"

namespace shardproof::lowering {

// A macro as a program: `inputs` stand for the operands and `results` for the results of the instruction.
struct MacroDefinition {
  ir::Program program;
  std::vector<ir::ValueId> inputs;
  std::vector<ir::ValueId> results;
};

// Definition of one macro instruction at the given operand types. Core ops only. Throws ir::BuildError when the types
// do not fit (validation has run before), InternalError if `instruction` is not a macro.
MacroDefinition define_macro(const ir::Instruction& instruction, const std::vector<ir::TensorType>& operands);

// Replaces every macro instruction, also inside loops. Value ids of `program` keep their meaning in the result;
// intermediates are appended and named "<result>/<part>". `mapping` (may be null) receives old value -> new value.
// Span, source and recompute region of the macro are kept on the instructions it unfolds to.
ir::Program unfold(const ir::Program& program, std::vector<ir::ValueId>* mapping = nullptr);

}  // namespace shardproof::lowering

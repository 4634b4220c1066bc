// Reverse-mode differentiation: one vector-Jacobian product per op.
//
// A cotangent has the type of its value. An invalid id stands for zero, so that nothing is computed for what does not
// depend on the parameters. Integer and boolean values have no cotangent.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"

namespace shardproof::lowering {

// Empty if `op` has a rule; else the reason why a gradient neither passes nor is needed.
std::string_view why_no_derivative(ir::OpCode op);

// Appends the cotangents of the operands of `instruction`, given those of its results. `wanted[i]`: operand i's
// cotangent is asked for; others come back invalid. `names[i]` (optional) names it, else it is called "<operand>.grad".
// Throws ir::BuildError for an op without a rule whose derivative is not zero.
std::vector<ir::ValueId> append_vjp(ir::Builder& builder, const ir::Instruction& instruction,
                                    const std::vector<ir::ValueId>& cotangents, const std::vector<bool>& wanted,
                                    const std::vector<std::string>& names = {});

// Appends the backward of `forward`, last instruction first. `seeds`: cotangents of values of it (which may also be
// used inside). Returns the cotangents of `wrt`, which may be inputs of the instructions or their results. All uses of
// a value contribute to one n-ary sum. The cotangent of value v is named "<v>.grad" where it is computed for v alone,
// and the instructions carry the source text of the forward instruction; the builder's source text afterwards is
// unspecified.
std::vector<ir::ValueId> append_backward(ir::Builder& builder, const std::vector<ir::Instruction>& forward,
                                         const std::map<ir::ValueId, ir::ValueId>& seeds,
                                         const std::vector<ir::ValueId>& wrt);

// The same for instructions [first, last) of the builder's program body.
struct InstructionRange {
  std::size_t first = 0;
  std::size_t last = 0;
};
std::vector<ir::ValueId> append_backward(ir::Builder& builder, InstructionRange range,
                                         const std::map<ir::ValueId, ir::ValueId>& seeds,
                                         const std::vector<ir::ValueId>& wrt);

}  // namespace shardproof::lowering

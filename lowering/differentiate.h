// Reverse-mode differentiation: one vector-Jacobian product per op.
//
// A cotangent has the type of its value. An invalid id stands for zero, so that nothing is computed for what does not
// depend on the parameters. Integer and boolean values have no cotangent.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "ir/builder.h"

namespace shardproof::lowering {

// Empty if `op` has a rule; else the reason why a gradient neither passes nor is needed.
std::string_view why_no_derivative(ir::OpCode op);

// Appends the cotangents of the operands of `instruction` (a copy of one in the builder's program), given those of its
// results. `wanted[i]`: operand i's cotangent is asked for; others come back invalid. Throws ir::BuildError for
// an op without a rule whose cotangent is not zero.
std::vector<ir::ValueId> append_vjp(ir::Builder& builder, const ir::Instruction& instruction,
                                    const std::vector<ir::ValueId>& cotangents, const std::vector<bool>& wanted);

// Instructions [first, last) of the builder's program body.
struct InstructionRange {
  std::size_t first = 0;
  std::size_t last = 0;
};

// Appends the backward of `range`, last instruction first. `seeds`: cotangents of results of the range (a value may
// also be used inside it). Returns the cotangents of `wrt`, which may be inputs of the range or values in it. All uses
// of a value contribute to one n-ary sum. The cotangent of value v is named "<v>.grad" and the instructions carry the
// source text of the forward instruction; the builder's source text afterwards is unspecified.
std::vector<ir::ValueId> append_backward(ir::Builder& builder, InstructionRange range,
                                         const std::map<ir::ValueId, ir::ValueId>& seeds,
                                         const std::vector<ir::ValueId>& wrt);

}  // namespace shardproof::lowering

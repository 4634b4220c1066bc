// One or more executions per op with the result that plain loops over the op's definition give.
#pragma once

#include <string>
#include <vector>

#include "ir/op_schema.h"
#include "runtime/tensor.h"
#include "tests/unit/runtime/reference_loops.h"

namespace shardproof::runtime::testing {

struct OpCase {
  ir::OpCode op;
  std::string label;
  std::vector<Tensor> inputs;
  Attrs attrs;
  std::vector<Tensor> expected;
  bool declared = false;  // the result type is an attribute of the value, not inferred
};

std::vector<OpCase> source_and_structure_cases();
std::vector<OpCase> arithmetic_cases();
std::vector<OpCase> macro_cases();

}  // namespace shardproof::runtime::testing

// One or more executions per op with the result that plain loops over the op's definition give.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "ir/op_schema.h"
#include "runtime/torch_executor.h"
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

inline void PrintTo(const OpCase& c, std::ostream* out) {
  *out << ir::schema_of(c.op).name << " " << c.label;
}

// Label of the case whose ids partly name no position. The op is defined there, the `take` in its VJP is not.
inline constexpr const char* kDroppedIds = "dropped_ids";

std::vector<OpCase> source_and_structure_cases();
std::vector<OpCase> arithmetic_cases();
std::vector<OpCase> macro_cases();

}  // namespace shardproof::runtime::testing

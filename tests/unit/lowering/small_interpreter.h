// Evaluates programs of core ops on tiny tensors, element by element in double. Written for tests of definitions and
// derivatives: it shares nothing with the runtime's kernels or the prover's semantics.
#pragma once

#include <map>
#include <vector>

#include "ir/program.h"

namespace shardproof::lowering::testing {

struct SmallTensor {
  ir::Shape shape;
  std::vector<double> data;  // row-major; booleans are 0 and 1

  double& at(const std::vector<std::int64_t>& index);
  double at(const std::vector<std::int64_t>& index) const;
};

SmallTensor filled(ir::Shape shape, double value = 0.0);
// Deterministic numbers in [low, high), all different.
SmallTensor scattered(ir::Shape shape, double low, double high, int seed);

using SmallValues = std::map<ir::ValueId, SmallTensor>;

// Values of all instructions, given those of the inputs. Macros are unfolded first. Throws std::logic_error on an op
// it does not know.
SmallValues interpret(const ir::Program& program, SmallValues inputs);

}  // namespace shardproof::lowering::testing

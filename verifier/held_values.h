// What execution says of a wrong plan: which values hold something else than a reference value, and what.
#pragma once

#include <vector>

#include "ir/plan.h"
#include "verifier/report.h"

namespace shardproof::verifier {

// Runs the document in the prime field and looks for reference values in all that the ranks hold (execution/alignment.h).
// Results that hold another value, layout or multiple than their binding says; then instructions whose operands are all
// reference values and whose results are none, in program order. At most `most` of both together.
std::vector<Counterexample::HeldValue> held_values(const ir::Document& document, std::size_t most = 6);

}  // namespace shardproof::verifier

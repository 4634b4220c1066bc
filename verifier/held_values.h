// What execution says of a wrong plan: which values hold something else than a reference value, and what.
#pragma once

#include <vector>

#include "ir/plan.h"
#include "verifier/report.h"

namespace shardproof::verifier {

// Runs the document in the prime field and looks for reference values in all that the ranks hold (execution/alignment.h).
// Results that hold another value, layout or multiple than their binding says; then instructions whose operands are all
// reference values and whose results are none: those that are alike in many layers last, as plans group some values in
// another way than their reference in all of them. One of each kind, at most `most` of both together. `sure`: only those that
// read summands or multiples; others may be right values that the reference does not have.
std::vector<Counterexample::HeldValue> held_values(const ir::Document& document, bool sure = false, std::size_t most = 4);

}  // namespace shardproof::verifier

// The second witness: plan and reference are executed, to disprove a plan that is not proved, and to contradict the prover
// where it is wrong.
#pragma once

#include "ir/plan.h"
#include "verifier/report.h"
#include "verifier/verify.h"

namespace shardproof::verifier {

// Looks for a counterexample to a plan whose verdict is unknown. One that is found turns the verdict into
// not_equivalent; else the report says why there is none. `options.timeout_seconds` is what is left for this.
void disprove(const ir::Document& document, const VerifyOptions& options, Report& report);

// Executes a plan that was proved. Throws InternalError with the inputs if it differs from its reference in floats: a bug
// in shardproof, on whichever side.
void cross_check(const ir::Document& document, const VerifyOptions& options, Report& report);

}  // namespace shardproof::verifier

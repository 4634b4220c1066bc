// From "not proved" to "disproved": inputs on which the plan differs from its reference.
#pragma once

#include "ir/plan.h"
#include "verifier/report.h"
#include "verifier/verify.h"

namespace shardproof::verifier {

// Looks for a counterexample to a plan whose verdict is unknown. One that is found turns the verdict into
// not_equivalent; else the report says why there is none.
void disprove(const ir::Document& document, const VerifyOptions& options, Report& report);

}  // namespace shardproof::verifier

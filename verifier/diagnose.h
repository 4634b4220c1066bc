// From failed claims to a report: where the plan leaves its reference, why, and what would repair it.
#pragma once

#include "verifier/report.h"
#include "verifier/session.h"

namespace shardproof::verifier {

// Sets the verdict and adds one diagnostic per independent fault. Repairs are tried by the prover; only those under
// which the plan proves are suggested as verified.
void diagnose(Session& session, const VerifyOptions& options, Report& report);

}  // namespace shardproof::verifier

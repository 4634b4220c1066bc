// The one question: is the plan equal to its reference, for all inputs, over the reals?
//
// Re-entrant and silent: no globals, no output, no exit. Throws only shardproof::InternalError (a bug in
// shardproof) and std::bad_alloc.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "ir/plan.h"
#include "verifier/kernel/limits.h"
#include "verifier/report.h"

namespace shardproof::verifier {

struct SmtOptions {
  std::string answers;  // file of answers from earlier runs; empty: none (verifier/smt_answers.h)
  std::function<void(const SmtQuery&)> dump;  // gets what the solver is asked
};

struct VerifyOptions {
  double timeout_seconds = 0;    // 0: none; when exceeded the verdict is unknown (SP0901)
  std::size_t memory_bytes = 0;  // 0: none; resident memory of the process (SP0902)
  bool suggest_fixes = true;     // look for repairs of a failing plan and verify them
  bool find_counterexample = true;  // execute a plan that is not proved, to disprove it
  bool cross_check = true;  // execute a plan that is proved, too; see verifier/disproof.h
  std::optional<SmtOptions> smt_witness;  // have each step of a proof confirmed by an SMT solver (verifier/smt_witness.h)
  bool assume_defined = false;   // take the plan's operations as defined: what that needs is listed as an assumption
  int max_defects = 16;          // independent faults looked for
  std::string* certificate = nullptr;  // receives a certificate if the plan is proved (verifier/certificate)
  std::function<void(const Progress&)> progress;  // called now and then, from the calling thread
  const std::atomic<bool>* cancel = nullptr;      // set to true to stop: unknown
};

Report verify(const ir::Document& document, const VerifyOptions& options = {});

// The same options for a proof and nothing else: no repairs, no execution, no progress.
VerifyOptions proof_alone(const VerifyOptions& options);

}  // namespace shardproof::verifier

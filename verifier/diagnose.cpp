#include "verifier/diagnose.h"

#include "ir/print.h"

namespace shardproof::verifier {

void diagnose(Session& session, const VerifyOptions& options, Report& report) {
  (void)options;
  bool all = true;
  for (const Fault& fault : session.plan_run().faults()) {
    ir::Diagnostic d;
    d.code = fault.code;
    d.name = fault.name;
    d.message = fault.message;
    d.expected = fault.expected;
    d.found = fault.found;
    d.labels.push_back({fault.instruction->span, ir::describe(session.plan_program(), *fault.instruction), true});
    report.diagnostics.push_back(std::move(d));
    all = false;
  }
  for (const Fault& fault : session.reference_run().faults()) {
    ir::Diagnostic d;
    d.code = fault.code;
    d.name = fault.name;
    d.message = "in the reference: " + fault.message;
    report.diagnostics.push_back(std::move(d));
    all = false;
  }
  for (const Claim& claim : session.claims()) {
    if (claim.proved) continue;
    all = false;
    ir::Diagnostic d;
    d.code = "SP0207";
    d.name = "wrong-value";
    d.message = "`" + claim.name + "` is not proved equal to its reference";
    d.subject.value = claim.name;
    d.subject.reference = claim.reference;
    d.labels.push_back({claim.span, "claimed here", true});
    d.expected = session.pool().to_string(claim.expected);
    d.found = session.pool().to_string(claim.found);
    report.diagnostics.push_back(std::move(d));
  }
  report.verdict = all ? Verdict::equivalent : Verdict::unknown;
  if (!all) report.unknown_reason = report.diagnostics.back().message;
}

}  // namespace shardproof::verifier

#include "verifier/verify.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "ir/check.h"
#include "ir/validate.h"
#include "verifier/certificate/check.h"
#include "verifier/diagnose.h"
#include "verifier/disproof.h"
#include "verifier/precision_audit.h"
#include "verifier/session.h"
#include "verifier/smt_witness.h"
#include "verifier/structure/states.h"
#include "verifier/structure/structure.h"

namespace shardproof::verifier {

namespace {

void give_up(Report& report, const solvers::BudgetExceeded& e, const std::string& where) {
  report.verdict = Verdict::unknown;
  ir::Diagnostic d;
  switch (e.what_kind) {
    case solvers::BudgetExceeded::What::time: d.code = "SP0901"; d.name = "timeout"; break;
    case solvers::BudgetExceeded::What::memory: d.code = "SP0902"; d.name = "memory"; break;
    case solvers::BudgetExceeded::What::cancelled: d.code = "SP0906"; d.name = "cancelled"; break;
    case solvers::BudgetExceeded::What::size: d.code = "SP0903"; d.name = "too-large"; break;
  }
  d.message = "not decided: " + std::string(e.what()) + " while " + where;
  report.unknown_reason = d.message;
  report.diagnostics.push_back(std::move(d));
}

std::size_t peak_bytes() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  const auto peak = static_cast<std::size_t>(usage.ru_maxrss);
#ifdef __APPLE__
  return peak;
#else
  return peak << 10U;  // counted in kilobytes
#endif
}

using Failure = Session::SideConditionResult::Failure;

void vacuous(Report& report, const Failure& condition) {
  report.verdict = Verdict::invalid;
  report.diagnostics.push_back(ir::make_error("SP0120", "vacuous", "no input satisfies what the reference needs: " + condition.text, condition.span,
                                              "an operation that is defined for some inputs", condition.text + ", which never holds"));
}

// Nothing follows from premises that no input satisfies.
void may_be_vacuous(Report& report, const std::vector<Failure>& unshown) {
  report.verdict = Verdict::unknown;
  report.unknown_reason = "no inputs were found for which the reference is defined: it needs that " + unshown.front().text;
  report.diagnostics.push_back(ir::make_error("SP0120", "vacuous", report.unknown_reason, unshown.front().span,
                                              "premises that hold for all positive inputs, so that they are known not to contradict each other",
                                              unshown.front().text, "if there are such inputs, say so with --assume-defined"));
}

// All values agree, but the plan computes some of them by operations that are undefined where the reference is not.
void needs_more(Report& report, std::vector<Failure> unmet, bool assume) {
  const bool assumable = std::all_of(unmet.begin(), unmet.end(), [](const Failure& f) { return f.depends_on_data; });
  std::set<std::string> told;  // several instructions may have one condition
  std::erase_if(unmet, [&](const Failure& f) { return !told.insert(f.text).second; });
  if (assume && assumable) {
    for (const Failure& f : unmet) report.assumptions.push_back(f.text);
    return;
  }
  report.verdict = Verdict::unknown;
  std::string message = "the plan equals its reference only if " + unmet.front().text;
  if (unmet.size() > 1) message += ", and " + std::to_string(unmet.size() - 1) + " more such conditions hold";
  report.unknown_reason = message;
  report.diagnostics.push_back(ir::make_error("SP0210", "narrower-domain", message, unmet.front().span, "no conditions but those of the reference", unmet.front().text,
                                              assumable ? "avoid the operation, or take it as defined with --assume-defined" : "avoid the operation"));
}

// Hands the certificate out if it passes its check.
void certify(const ir::Document& document, const VerifyOptions& options, const TermWriter& written, Report& report) {
  std::string text = certificate_text(document, SHARDPROOF_VERSION, written.text(), written.lines());
  const CertificateReport checked = check_certificate(document, text, {0, options.memory_bytes, {}, options.cancel});
  if (checked.verdict == CertificateReport::Verdict::valid) {
    *options.certificate = std::move(text);
    return;
  }
  ir::Diagnostic d = ir::make_error("SP0804", "no-certificate", "the plan is proved, but its proof rests on more than a certificate can say: " + checked.diagnostics.front().message, {});
  d.severity = ir::Severity::warning;
  report.diagnostics.push_back(std::move(d));
}

}  // namespace

VerifyOptions proof_alone(const VerifyOptions& options) {
  VerifyOptions result = options;
  result.suggest_fixes = result.find_counterexample = result.cross_check = false;
  result.smt_witness.reset();
  result.progress = {};
  result.certificate = nullptr;
  return result;
}

Report verify(const ir::Document& document, const VerifyOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Report report;
  std::optional<ir::Document> joined;  // the stages as one program
  const ir::Document* whole = &document;
  bool stopped = false;  // by a limit of the caller's
  const auto finish = [&] {
    VerifyOptions rest = options;
    if (options.timeout_seconds > 0) {
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      rest.timeout_seconds = std::max(options.timeout_seconds - spent.count(), 0.001);
    }
    if (report.verdict == Verdict::unknown && options.find_counterexample && !stopped) disprove(*whole, rest, report);
    // Under --assume-defined random inputs need not satisfy what is assumed.
    if (report.verdict == Verdict::equivalent && options.cross_check && !options.assume_defined)
      cross_check(*whole, rest, report);
    if (report.verdict != Verdict::invalid)
      for (ir::Diagnostic& warning : audit_precision(document.plan)) report.diagnostics.push_back(std::move(warning));
    report.statistics.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report.statistics.peak_bytes = peak_bytes();
    return report;
  };

  ir::DiagnosticSink sink;
  ir::validate(document, sink);
  if (!sink.ok()) {
    report.verdict = Verdict::invalid;
    report.diagnostics = sink.take();
    return finish();
  }
  structure::Findings structure = structure::check(document);
  report.schedule = std::move(structure.schedule);
  for (ir::Diagnostic& d : structure.warnings) sink.add(std::move(d));
  if (!structure.violations.empty()) {
    report.verdict = Verdict::not_equivalent;
    report.diagnostics = std::move(structure.violations);
    return finish();
  }
  for (ir::Diagnostic& d : structure.undecided) sink.add(std::move(d));
  if (sink.ok()) whole = &provable(document, joined, sink);
  if (!sink.ok()) {
    report.verdict = Verdict::unknown;
    report.diagnostics = sink.take();
    report.unknown_reason = report.diagnostics.front().message;
    return finish();
  }
  report.diagnostics = sink.take();  // warnings

  std::string where = "unfolding macro ops";
  try {
    Session session(*whole, options);
    report.statistics.reference_instructions = static_cast<std::int64_t>(session.reference_program().body.size());
    report.statistics.plan_instructions = static_cast<std::int64_t>(session.plan_program().body.size());
    where = "reading the reference";
    session.run_reference();
    if (const auto contradictions = session.judge_side_conditions().contradictions; !contradictions.empty()) {
      vacuous(report, contradictions.front());
      return finish();
    }
    where = "following the plan";
    session.run_plan();
    where = "comparing outputs and state";
    session.check_claims();
    where = "judging side conditions";
    const Session::SideConditionResult conditions = session.judge_side_conditions();
    report.assumptions = conditions.assumptions;
    report.nonnegative_states = conditions.nonnegative_states;
    if (session.claims().empty()) {
      report.verdict = Verdict::invalid;
      report.diagnostics.push_back(ir::make_error("SP0120", "vacuous", "the reference has no state and no outputs, so the plan claims nothing", {},
                                                  "a `next` of a state, or an output", "none"));
      return finish();
    }
    for (const Claim& claim : session.claims()) report.proved_results.insert(claim.name);
    for (const Claim& claim : session.claims())
      if (!claim.proved) report.proved_results.erase(claim.name);
    if (session.certifier() != nullptr) session.certifier()->stop();
    where = "looking for the cause";
    diagnose(session, options, report);
    structure::name_lost_updates(*whole, report.diagnostics);
    if (report.verdict == Verdict::equivalent && !conditions.unshown.empty() && !options.assume_defined) may_be_vacuous(report, conditions.unshown);
    if (report.verdict == Verdict::equivalent && !conditions.unmet.empty()) needs_more(report, conditions.unmet, options.assume_defined);
    where = "asking the second witness";
    if (report.verdict == Verdict::equivalent && options.smt_witness) report.smt = confirm_by_smt(session, session.seconds_left(), *options.smt_witness, options.cancel);
    report.statistics.z3_queries = static_cast<std::int64_t>(session.z3().statistics().asked);
    report.statistics.folds = static_cast<std::int64_t>(session.atoms().accepted());
    report.obligations.by_z3 = static_cast<std::int64_t>(session.z3().statistics().proved);
    if (session.certifier() != nullptr && report.verdict == Verdict::equivalent) {
      where = "writing the certificate";
      certify(document, options, session.certifier()->written(), report);
    }
  } catch (const solvers::BudgetExceeded& e) {
    give_up(report, e, where);
    stopped = e.what_kind != solvers::BudgetExceeded::What::size;
  } catch (const SemanticsError& e) {
    report.verdict = Verdict::unknown;
    ir::Diagnostic d;
    d.code = e.code;
    d.name = e.name;
    d.message = e.what();
    d.expected = e.expected;
    d.found = e.found;
    report.unknown_reason = d.message;
    report.diagnostics.push_back(std::move(d));
  } catch (const std::overflow_error& e) {
    report.verdict = Verdict::unknown;
    ir::Diagnostic d;
    d.code = "SP0903";
    d.name = "too-large";
    d.message = std::string("integer arithmetic left 64 bits while ") + where;
    report.unknown_reason = d.message;
    report.diagnostics.push_back(std::move(d));
  }
  return finish();
}

}  // namespace shardproof::verifier

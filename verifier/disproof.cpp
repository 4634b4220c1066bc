#include "verifier/disproof.h"

#include <algorithm>
#include <sstream>

#include "ir/check.h"
#include "verifier/execution/counterexample.h"
#include "verifier/render_text.h"

namespace shardproof::verifier {

namespace {

std::string element(const std::vector<std::int64_t>& index) {
  std::string text;
  for (const std::int64_t i : index) text += (text.empty() ? "" : ", ") + std::to_string(i);
  return index.empty() ? "" : "[" + text + "]";
}

Counterexample described(const ir::Document& document, const execution::Counterexample& found) {
  Counterexample result;
  for (const auto& [name, tensor] : found.values) {
    if (std::all_of(tensor.data.begin(), tensor.data.end(), [](double x) { return x == 0; })) {
      ++result.zero_inputs;
    } else {
      result.inputs.push_back({name, ir::to_string(tensor.type), tensor.data});
    }
  }
  result.subject = found.is_state ? "state `" + found.name + "` after the step" : "output `" + found.name + "`";
  result.rank = ir::describe_rank(document.plan.meshes.front(), found.rank);
  result.local_element = element(found.local_index);
  if (!found.tensor.empty()) result.reference_element = found.tensor + element(found.reference_index);
  result.expected = found.expected;
  result.found = found.found;
  result.differing = found.differing;
  return result;
}

execution::SearchLimits limits_of(const VerifyOptions& options, const Report& report) {
  execution::SearchLimits limits;
  limits.cancel = options.cancel;
  limits.nonnegative = {report.nonnegative_states.begin(), report.nonnegative_states.end()};
  return limits;
}

}  // namespace

void disprove(const ir::Document& document, const VerifyOptions& options, Report& report) {
  execution::SearchLimits limits = limits_of(options, report);
  // A root that the reference does not take is undefined for numbers that a field does not have.
  limits.despite_the_field = std::any_of(report.diagnostics.begin(), report.diagnostics.end(),
                                         [](const ir::Diagnostic& d) { return d.code == "SP0210"; });
  const execution::SearchResult result = execution::find_counterexample(document, limits);
  if (!result.counterexample) {
    report.no_counterexample = result.reason;
    return;
  }
  report.verdict = Verdict::not_equivalent;
  report.unknown_reason.clear();
  report.counterexample = described(document, *result.counterexample);
  const std::int64_t refuted = std::min(report.obligations.unknown, report.counterexample->differing);
  report.obligations.unknown -= refuted;
  report.obligations.refuted += refuted;
}

void cross_check(const ir::Document& document, const VerifyOptions& options, Report& report) {
  execution::SearchLimits limits = limits_of(options, report);
  limits.step_work = 3'000'000;  // a fraction of a second beside the proof
  limits.total_work = 6'000'000;
  const execution::SearchResult result = execution::find_counterexample(document, limits);
  if (result.counterexample) {
    std::ostringstream text;
    text << "the prover finds the plan equivalent and execution finds that it is not; ";
    render_counterexample(described(document, *result.counterexample), text);
    throw InternalError(text.str());
  }
  if (result.field_runs > 0 && !result.differs_in_field)
    report.executed = "executed on " + std::to_string(result.field_runs) + " sets of random inputs in a prime field: equal";
}

}  // namespace shardproof::verifier

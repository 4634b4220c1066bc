#include "verifier/disproof.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <sstream>

#include "ir/check.h"
#include "verifier/execution/counterexample.h"
#include "verifier/execution/scale.h"
#include "verifier/execution/step.h"
#include "verifier/held_values.h"
#include "verifier/literals.h"
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
    result.values[name] = tensor.data;
    if (std::all_of(tensor.data.begin(), tensor.data.end(), [](double x) { return x == 0; })) {
      ++result.zero_inputs;
    } else {
      result.inputs.push_back({name, ir::to_string(tensor.type), tensor.data});
    }
  }
  result.rank = ir::describe_rank(document.plan.meshes.front(), found.rank);
  result.differing = found.differing;
  result.out_of_bounds = found.out_of_bounds;
  if (!found.out_of_bounds.empty()) return result;
  result.subject = found.is_state ? "state `" + found.name + "` after the step" : "output `" + found.name + "`";
  result.local_element = element(found.local_index);
  result.open = found.open;
  if (!found.tensor.empty()) result.reference_element = found.tensor + element(found.reference_index);
  result.expected = found.expected;
  result.found = found.found;
  return result;
}

// "at smaller sizes: dp 128 -> 4, tp 8 -> 2, ...", and what they do not keep.
std::vector<std::string> notes_on(const execution::Scaled& scaled) {
  std::vector<std::string> notes;
  std::string sizes;
  int listed = 0;
  for (const auto& [full, smalls] : scaled.numbers) {
    if (smalls.size() == 1 && *smalls.begin() == full) continue;
    if (++listed > 12) {
      sizes += ", ...";
      break;
    }
    sizes += (sizes.empty() ? "at smaller sizes: " : ", ") + std::to_string(full) + " -> ";
    bool first = true;
    for (const std::int64_t small : smalls) {
      sizes += (first ? "" : " or ") + std::to_string(small);
      first = false;
    }
  }
  if (scaled.changed && !sizes.empty()) notes.push_back(std::move(sizes));
  for (const std::string& lost : scaled.not_kept) notes.push_back((scaled.changed ? "not kept: " : "") + lost);
  return notes;
}

std::set<std::int64_t> sizes_kept(const execution::Scaled& scaled) {
  std::set<std::int64_t> kept;
  for (const auto& [full, smalls] : scaled.numbers)
    if (smalls == std::set<std::int64_t>{full}) kept.insert(full);
  return kept;
}

bool has_code(const Report& report, const char* code) {
  return std::any_of(report.diagnostics.begin(), report.diagnostics.end(),
                     [&](const ir::Diagnostic& d) { return d.code == code; });
}

// Where the plan leaves its reference.
bool names_a_place(const Report& report) {
  return std::any_of(report.diagnostics.begin(), report.diagnostics.end(), [](const ir::Diagnostic& d) { return d.code.starts_with("SP02") && !d.labels.empty(); });
}

execution::SearchLimits limits_of(const VerifyOptions& options, const Report& report) {
  execution::SearchLimits limits;
  const auto start = std::chrono::steady_clock::now();
  limits.stop = [&options, start] {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    return (options.cancel != nullptr && options.cancel->load()) ||
           (options.timeout_seconds > 0 && spent.count() > options.timeout_seconds);
  };
  limits.nonnegative = {report.nonnegative_states.begin(), report.nonnegative_states.end()};
  return limits;
}

}  // namespace

void disprove(const ir::Document& document, const VerifyOptions& options, Report& report) {
  execution::SearchLimits limits = limits_of(options, report);
  // A root that the reference does not take is undefined for numbers that a field does not have.
  limits.despite_the_field = has_code(report, "SP0210");
  execution::SearchResult result = execution::find_counterexample(document, limits);
  std::vector<std::string> sizes;
  const ir::Document* executed = &document;
  execution::Scaled scaled;
  if (result.too_large) {
    scaled = execution::scale(document);
    sizes = notes_on(scaled);
    limits.step_work = 400'000'000;
    limits.total_work = 700'000'000;
    const std::optional<ir::Rational> stays =
        scaled.changed ? size_that_stays(execution::in_core_ops(document), scaled.small, sizes_kept(scaled)) : std::nullopt;
    if (stays) {
      report.no_counterexample = "the plan is too large to be executed, and at smaller sizes " + ir::to_string(*stays) +
                                 ", which only one of plan and reference writes down, may be another number";
      return;
    }
    if (scaled.changed) {
      result = execution::find_counterexample(scaled.small, limits);
      executed = &scaled.small;
    }
  }
  // Scaling may move a start outside; the prover has to have its doubts as well.
  if (result.counterexample && !result.counterexample->out_of_bounds.empty() && scaled.changed && !has_code(report, "SP0208")) {
    result.counterexample.reset();
    result.reason = "the scaled plan reads outside of a tensor, and the plan itself does not";
  }
  // What is proved at full size and differs at smaller ones says that scaling lost something.
  const bool undefined = result.counterexample && !std::isfinite(result.counterexample->found);
  if (result.counterexample && scaled.changed && !(undefined && has_code(report, "SP0210")) &&
      report.proved_results.contains(result.counterexample->name)) {
    result.reason = "at smaller sizes `" + result.counterexample->name + "` differs, too, which is proved at the plan's own";
    result.counterexample.reset();
  }
  if (!result.counterexample) {
    report.no_counterexample = result.reason;
    for (const std::string& note : sizes) report.no_counterexample += "; " + note;
    return;
  }
  report.verdict = Verdict::not_equivalent;
  report.unknown_reason.clear();
  report.counterexample = described(*executed, *result.counterexample);
  report.counterexample->sizes = std::move(sizes);
  // As long as a few of the runs that found the counterexample, which is worth more where the prover names no place.
  const bool named = names_a_place(report);
  const std::int64_t affordable = named ? 5'000'000 : 100'000'000;
  if (result.counterexample->out_of_bounds.empty() && execution::estimated_work(*executed) <= affordable)
    report.counterexample->held = held_values(*executed, named);
  if (scaled.changed) report.counterexample->executed = std::make_shared<const ir::Document>(std::move(scaled.small));
  // Equal where the plan is defined (SP0210) is not proved after all.
  const std::int64_t open = std::min(report.obligations.unknown, report.counterexample->differing);
  const std::int64_t conditional = std::min(report.obligations.proved, report.counterexample->differing - open);
  report.obligations.unknown -= open;
  report.obligations.proved -= conditional;
  report.obligations.refuted += open + conditional;
}

void cross_check(const ir::Document& document, const VerifyOptions& options, Report& report) {
  execution::SearchLimits limits = limits_of(options, report);
  limits.step_work = 3'000'000;  // a fraction of a second beside the proof
  limits.total_work = 6'000'000;
  execution::SearchResult result = execution::find_counterexample(document, limits);
  execution::Scaled scaled;
  // Scaling takes a tenth of the proof's time, and the run of a long program as much as the proof.
  constexpr std::int64_t most_instructions = 25'000;
  const std::int64_t instructions = report.statistics.reference_instructions + report.statistics.plan_instructions;
  if (result.too_large && instructions < most_instructions) {
    scaled = execution::scale(document);
    limits.step_work = 20'000'000;
    if (scaled.changed) result = execution::find_counterexample(scaled.small, limits);
    // A small plan that is wrong says that the scaling lost something, unless the prover accepts it, too.
    if (result.counterexample && verify(scaled.small, proof_alone(options)).verdict != Verdict::equivalent) return;
  }
  if (result.counterexample) {
    std::ostringstream text;
    text << "the prover finds the plan equivalent and execution finds that it is not; ";
    Counterexample counterexample = described(scaled.changed ? scaled.small : document, *result.counterexample);
    counterexample.sizes = notes_on(scaled);
    render_counterexample(counterexample, text);
    throw InternalError(text.str());
  }
  if (result.field_runs > 0 && !result.differs_in_field)
    report.executed = "executed on " + std::to_string(result.field_runs) +
                      (result.field_runs == 1 ? " set" : " sets") + " of random inputs in a prime field" +
                      (scaled.changed ? ", at smaller sizes" : "") + ": equal";
}

}  // namespace shardproof::verifier

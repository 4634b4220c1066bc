// Asynchronous schedules: an optimizer step of a stage with work of the stage after it.
#include <algorithm>
#include <map>

#include "verifier/structure/schedule.h"

namespace shardproof::verifier::structure {

using ir::ActionType;

namespace {

// One stage of the model.
struct Weights {
  std::size_t program = 0;
  std::int64_t updates = 0;                 // so far
  std::size_t first_update = 0;             // step
  std::map<std::int64_t, std::int64_t> at_forward;  // updates before the forward pass of each microbatch
  // A microbatch whose forward pass reads updated weights, and one whose gradient is added to weights that it was not taken at.
  std::optional<std::int64_t> ahead, behind;
  std::int64_t ahead_by = 0, most_behind = 0;
  std::optional<std::size_t> stale;         // first step that runs with other weights than the step began with
};

std::string updates_text(std::int64_t n) { return std::to_string(n) + (n == 1 ? " update" : " updates"); }

void follow(Weights& weights, const ScheduledStep& step, std::size_t at) {
  const ir::ScheduleAction& action = step.action;
  if (action.type == ActionType::optimizer) {
    if (weights.updates++ == 0) weights.first_update = at;
    return;
  }
  if (!action.microbatch) return;
  const std::int64_t microbatch = *action.microbatch;
  if (weights.updates > 0 && !weights.stale) weights.stale = at;
  if (action.type == ActionType::forward) {
    weights.at_forward.emplace(microbatch, weights.updates);
    if (weights.updates == 0 || weights.ahead) return;
    weights.ahead = microbatch;
    weights.ahead_by = weights.updates;
    return;
  }
  const auto forward = weights.at_forward.find(microbatch);
  if (forward == weights.at_forward.end()) return;
  const std::int64_t lag = weights.updates - forward->second;
  if (lag > 0 && !weights.behind) weights.behind = microbatch;
  weights.most_behind = std::max(weights.most_behind, lag);
}

std::string staleness(const ir::Plan& plan, std::int64_t stage, const Weights& weights) {
  std::string text = "stage " + std::to_string(stage) + " (`" + plan.stages[weights.program].name + "`): ";
  text += weights.behind ? "weights up to " + updates_text(weights.most_behind) + " behind those that the gradient changes, first for microbatch " + std::to_string(*weights.behind)
                         : "no gradient is behind";
  if (weights.ahead) text += "; the forward pass of microbatch " + std::to_string(*weights.ahead) + " is the first with other weights than the step began with (" + updates_text(weights.ahead_by) + " later)";
  return text;
}

}  // namespace

void check_stale_weights(const ir::Plan& plan, const ScheduledPlan& scheduled, Findings& findings) {
  constexpr std::size_t kMaxNotes = 64;
  std::map<std::int64_t, Weights> stages;
  for (std::size_t p = 0; p < scheduled.programs.size(); ++p)
    for (std::size_t s = 0; s < scheduled.programs[p].steps.size(); ++s) {
      const ScheduledStep& step = scheduled.programs[p].steps[s];
      Weights& weights = stages[step.action.stage];
      weights.program = p;
      follow(weights, step, s);
    }
  const Weights* worst = nullptr;
  std::int64_t worst_stage = 0, count = 0;
  ir::Diagnostic d;
  for (const auto& [stage, weights] : stages) {
    if (!weights.stale) continue;
    ++count;
    if (d.notes.size() < kMaxNotes) d.notes.push_back(staleness(plan, stage, weights));
    if (worst != nullptr && worst->most_behind >= weights.most_behind) continue;
    worst = &weights;
    worst_stage = stage;
  }
  if (worst == nullptr) return;
  const ScheduledProgram& program = scheduled.programs[worst->program];
  const ScheduledStep &update = program.steps[worst->first_update], &stale = program.steps[*worst->stale];
  d.code = "SP0314";
  d.name = "stale-weights";
  d.message = "the schedule updates weights within the step, so that microbatches do not see the same weights: stage " + std::to_string(worst_stage) +
              (worst->behind ? " computes with weights up to " + updates_text(worst->most_behind) + " behind, first for microbatch " + std::to_string(*worst->behind)
                             : " runs " + to_string(stale.action) + " after an update");
  d.labels.push_back({span_of(plan, worst->program, program, update), "the first update", true});
  if (span_of(plan, worst->program, program, stale) != span_of(plan, worst->program, program, update)) d.labels.push_back({span_of(plan, worst->program, program, stale), "runs with other weights", false});
  d.expected = "one set of weights for all microbatches of a step, updated after the last of them";
  d.found = place_of(worst->program, program, update) + ": " + to_string(update.action) + "; " + place_of(worst->program, program, stale) + ": " + to_string(stale.action);
  d.subject.rank = "ranks of stage `" + plan.stages[worst->program].name + "`";
  d.places = count;
  d.fix = ir::Fix{"use a synchronous schedule such as `1f1b`, or update after the last backward pass", {}, ir::Applicability::display_only};
  findings.violations.push_back(std::move(d));
}

}  // namespace shardproof::verifier::structure

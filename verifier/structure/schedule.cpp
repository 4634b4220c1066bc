#include "verifier/structure/schedule.h"

#include <algorithm>
#include <set>

namespace shardproof::verifier::structure {

using ir::ActionType;
using ir::Applicability;

namespace {

std::string quoted(const std::string& name) { return "`" + name + "`"; }

class Coverage {
 public:
  Coverage(const ir::Plan& plan, std::size_t stage, const ScheduledProgram& program, Grouped& found)
      : plan_(plan), stage_(stage), program_(program), found_(found), trip_(program.loop->region->trip), runs_(program.labels.size()) {}

  bool run() {
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      const ScheduledStep& step = program_.steps[s];
      if (step.foreign) foreign(step);
      if (!step.action.microbatch) continue;
      if (*step.action.microbatch >= trip_) {
        beyond(step);
        continue;
      }
      for (const std::size_t label : step.labels)
        if (label != kNoLabel) runs_[label].emplace_back(*step.action.microbatch, s);
    }
    for (std::size_t label = 0; label < runs_.size(); ++label) once(label);
    return good_;
  }

 private:
  // (microbatch, step) of the label, in order; the first gap and the first repetition.
  void once(std::size_t label) {
    auto& runs = runs_[label];
    std::sort(runs.begin(), runs.end());
    std::int64_t expected = 0;
    std::optional<std::int64_t> gap;
    std::int64_t distinct = 0;
    bool told = false;
    for (std::size_t k = 0; k < runs.size(); ++k) {
      if (k > 0 && runs[k].first == runs[k - 1].first) {
        if (!told) twice(label, runs[k - 1].second, runs[k].second);
        told = true;
        continue;
      }
      if (!gap && runs[k].first != expected) gap = expected;
      expected = runs[k].first + 1;
      ++distinct;
    }
    if (!gap && expected < trip_) gap = expected;
    if (gap) missing(label, *gap, trip_ - distinct);
  }

  std::string program_text() const { return "stage " + quoted(plan_.stages[stage_].name); }
  const ir::Instruction& first_of(std::size_t label) const { return program_.loop->region->body[program_.first_of[label]]; }

  void missing(std::size_t label, std::int64_t microbatch, std::int64_t count) {
    const std::string name = to_string(program_.labels[label]), action = name + std::to_string(microbatch);
    ir::Diagnostic d;
    d.message = program_text() + " never runs " + action + (count == 1 ? "" : ", nor " + std::to_string(count - 1) + " more of its " + std::to_string(trip_) + " actions " + name);
    d.labels.push_back({first_of(label).span, "this does not run for microbatch " + std::to_string(microbatch), true});
    d.labels.push_back({plan_.schedule->span, "the schedule", false});
    d.expected = "each of " + name + "0 to " + name + std::to_string(trip_ - 1) + " once";
    d.found = "no " + action;
    d.fix = ir::Fix{"add what is missing to row " + std::to_string(stage_ + 1) + " of the schedule, or correct `trip` of the loop", {}, Applicability::display_only};
    add(std::move(d), "missing");
  }

  void twice(std::size_t label, std::size_t first, std::size_t second) {
    const ScheduledStep &a = program_.steps[first], &b = program_.steps[second];
    const std::string action = to_string(program_.labels[label]) + std::to_string(*b.action.microbatch);
    ir::Diagnostic d;
    d.message = program_text() + " runs " + action + " twice";
    d.labels.push_back({span_of(plan_, stage_, program_, b), "again", true});
    if (span_of(plan_, stage_, program_, a) != span_of(plan_, stage_, program_, b)) d.labels.push_back({span_of(plan_, stage_, program_, a), "the first time", false});
    d.expected = "each action once for each microbatch";
    d.found = place_of(stage_, program_, a) + ": " + to_string(a.action) + "; " + place_of(stage_, program_, b) + ": " + to_string(b.action);
    d.fix = ir::Fix{"take one of the two out", {}, Applicability::display_only};
    add(std::move(d), "twice");
  }

  void beyond(const ScheduledStep& step) {
    ir::Diagnostic d;
    d.message = program_text() + " runs " + to_string(step.action) + ", and its loop ends with microbatch " + std::to_string(trip_ - 1);
    d.labels.push_back({span_of(plan_, stage_, program_, step), "beyond the loop", true});
    d.labels.push_back({program_.loop->span, "the loop", false});
    d.expected = "microbatches 0 to " + std::to_string(trip_ - 1);
    d.found = place_of(stage_, program_, step) + ": " + to_string(step.action);
    d.fix = ir::Fix{"correct the microbatches of the schedule, or `trip` of the loop", {}, Applicability::display_only};
    add(std::move(d), "beyond");
  }

  void foreign(const ScheduledStep& step) {
    ir::Diagnostic d;
    d.message = program_text() + " has no instructions for " + to_string(step.action);
    d.labels.push_back({span_of(plan_, stage_, program_, step), "what no program runs", true});
    d.expected = "actions of the program";
    d.found = place_of(stage_, program_, step) + ": " + to_string(step.action);
    d.fix = ir::Fix{"move the action to the row of its stage", {}, Applicability::display_only};
    add(std::move(d), "foreign");
  }

  void add(ir::Diagnostic d, const std::string& kind) {
    good_ = false;
    d.code = "SP0310";
    d.name = "schedule-coverage";
    d.subject.rank = "ranks of stage " + quoted(plan_.stages[stage_].name);
    found_.add(std::move(d), kind);
  }

  const ir::Plan& plan_;
  std::size_t stage_;
  const ScheduledProgram& program_;
  Grouped& found_;
  std::int64_t trip_;
  std::vector<std::vector<std::pair<std::int64_t, std::size_t>>> runs_;  // of each label: microbatch, step
  bool good_ = true;
};

void check_in_flight(const ir::Plan& plan, const ScheduledPlan& scheduled, Findings& findings) {
  const std::int64_t bound = plan.schedule->max_in_flight;
  if (bound == 0) return;
  Grouped found(findings.violations);
  for (std::size_t p = 0; p < scheduled.programs.size(); ++p) {
    const ScheduledProgram& program = scheduled.programs[p];
    const InFlight peak = most_in_flight(program);
    if (peak.most <= bound) continue;
    const ScheduledStep& step = program.steps[peak.step];
    ir::Diagnostic d;
    d.code = "SP0313";
    d.name = "activations-in-flight";
    d.message = "stage " + quoted(plan.stages[p].name) + " holds the activations of " + std::to_string(peak.most) + " microbatches at " + to_string(step.action) + ", more than the plan allows";
    d.labels.push_back({span_of(plan, p, program, step), "the most are held here", true});
    d.expected = "at most " + std::to_string(bound) + " forward passes that wait for their backward pass (`max_in_flight`)";
    d.found = std::to_string(peak.most) + " at " + place_of(p, program, step);
    d.subject.rank = "ranks of stage " + quoted(plan.stages[p].name);
    d.fix = ir::Fix{"run backward passes earlier, or raise `max_in_flight`", {}, Applicability::display_only};
    found.add(std::move(d), "");
  }
}

}  // namespace

ir::Span span_of(const ir::Plan& plan, std::size_t stage, const ScheduledProgram& program, const ScheduledStep& step) {
  return plan.schedule->span_of(stage, program.columns[step.cell]);
}

std::string place_of(std::size_t stage, const ScheduledProgram& program, const ScheduledStep& step) {
  return "row " + std::to_string(stage + 1) + ", column " + std::to_string(program.columns[step.cell] + 1);
}

InFlight most_in_flight(const ScheduledProgram& program) {
  InFlight peak;
  std::int64_t now = 0;
  std::set<std::int64_t> split;
  for (const ir::ActionLabel& label : program.labels)
    if (label.type == ActionType::backward_input || label.type == ActionType::backward_weight) split.insert(label.stage);
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const ir::ScheduleAction& action = program.steps[s].action;
    if (action.type == ActionType::forward) ++now;
    if (action.type == ActionType::backward || (action.type == ActionType::backward_weight && split.contains(action.stage))) --now;
    if (now > peak.most) peak = {now, s};
  }
  return peak;
}

bool check_schedule(const ir::Plan& plan, const ScheduledPlan& scheduled, Findings& findings) {
  Grouped found(findings.violations);
  bool complete = true;
  for (std::size_t p = 0; p < scheduled.programs.size(); ++p) complete = Coverage(plan, p, scheduled.programs[p], found).run() && complete;
  if (!complete) return false;
  bool ordered = true;
  for (std::size_t p = 0; p < scheduled.programs.size(); ++p) ordered = check_schedule_values(plan, p, scheduled.programs[p], findings) && ordered;
  check_stale_weights(plan, scheduled, findings);
  check_in_flight(plan, scheduled, findings);
  return ordered;
}

}  // namespace shardproof::verifier::structure

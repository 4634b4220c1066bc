#include "verifier/structure/structure.h"

#include <algorithm>

#include "verifier/structure/communication.h"
#include "verifier/structure/deadlock.h"
#include "verifier/structure/lifetimes.h"
#include "verifier/structure/matching.h"
#include "verifier/structure/schedule.h"
#include "verifier/structure/schedule_summary.h"
#include "verifier/structure/states.h"

namespace shardproof::verifier::structure {

namespace {

void check_communication(const ir::Plan& plan, const ScheduledPlan* scheduled, Findings& findings) {
  const RankClasses classes(plan, axes_crossed_by_messages(plan));
  if (classes.count() == 0) {
    findings.undecided.push_back(ir::make_error("SP0905", "unsupported", "stages are placed in too many different ways to match what they say to each other", plan.stages.front().span));
    return;
  }
  const std::size_t before = findings.violations.size() + findings.undecided.size();
  const Communication communication = communication_of(plan, classes, scheduled, findings);
  const bool matched = check_matching(plan, classes, communication, findings);
  if (!matched || findings.violations.size() + findings.undecided.size() != before) return;
  const auto& scripts = communication.scripts;
  if (std::any_of(scripts.begin(), scripts.end(), [](const auto& items) { return !items.empty(); })) check_deadlock(plan, classes, communication, findings);
  if (scheduled != nullptr) findings.schedule->slots = slots_of(*scheduled, communication);
}

void check_order(const ir::Plan& plan, Findings& findings) {
  const std::optional<ScheduledPlan> scheduled = scheduled_plan(plan);
  if (scheduled) {
    findings.schedule = summary_of(plan, *scheduled);
    if (!check_schedule(plan, *scheduled, findings)) return;
  }
  check_communication(plan, scheduled ? &*scheduled : nullptr, findings);
}

}  // namespace

Findings check(const ir::Document& document) {
  Findings findings;
  for (const ir::StageProgram& stage : document.plan.stages) check_lifetimes(stage, findings);
  check_order(document.plan, findings);
  check_states(document, findings);
  check_checkpoint(document, findings);
  return findings;
}

}  // namespace shardproof::verifier::structure

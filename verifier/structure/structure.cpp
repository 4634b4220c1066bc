#include "verifier/structure/structure.h"

#include <algorithm>

#include "verifier/structure/communication.h"
#include "verifier/structure/deadlock.h"
#include "verifier/structure/lifetimes.h"
#include "verifier/structure/matching.h"
#include "verifier/structure/states.h"

namespace shardproof::verifier::structure {

namespace {

void check_communication(const ir::Plan& plan, Findings& findings) {
  const RankClasses classes(plan, axes_crossed_by_messages(plan));
  if (classes.count() == 0) {
    findings.undecided.push_back(ir::make_error("SP0905", "unsupported", "stages are placed in too many different ways to match what they say to each other", plan.stages.front().span));
    return;
  }
  const std::size_t before = findings.violations.size() + findings.undecided.size();
  const Communication communication = communication_of(plan, classes, findings);
  const bool matched = check_matching(plan, classes, communication, findings);
  if (!matched || findings.violations.size() + findings.undecided.size() != before) return;
  const auto& scripts = communication.scripts;
  if (std::all_of(scripts.begin(), scripts.end(), [](const auto& items) { return items.empty(); })) return;
  if (plan.schedule) {
    findings.undecided.push_back(ir::make_error("SP0905", "unsupported", "deadlocks are not excluded: the schedule decides in which order stages communicate, and it is not interpreted",
                                                plan.schedule->span, "no `schedule`", "a schedule"));
    return;
  }
  check_deadlock(plan, classes, communication, findings);
}

}  // namespace

Findings check(const ir::Document& document) {
  Findings findings;
  for (const ir::StageProgram& stage : document.plan.stages) check_lifetimes(stage, findings);
  check_communication(document.plan, findings);
  check_states(document, findings);
  check_checkpoint(document, findings);
  return findings;
}

}  // namespace shardproof::verifier::structure

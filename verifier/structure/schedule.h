// Whether a schedule may stand for the loops that it takes apart. Over the reals the result of a step depends on which
// (action, microbatch) are computed, each from the values that it reads, and not on their order, if
//   SP0310  each action runs once for each iteration of its loop;
//   SP0311  an action that reads a value of another action of the same iteration runs after it;
//   SP0312  what a loop carries is a sum, which has no order: `next` is `arg` plus something for each `add`, and nothing
//           else reads `arg` or a sum on the way. All sums live in one accumulator, so that two actions may add to it.
//           (Products, maxima and minima likewise.) Anything else that is carried is computed in the order of the loop;
//   SP0314  no weight changes before the last action that reads it.
// SP0313 is a bound that the plan itself states. How ranks meet under the schedule is the matter of matching and deadlock, which
// follow scripts in its order. The list of actions is checked, whoever made it.
#pragma once

#include "verifier/structure/findings.h"
#include "verifier/structure/scheduled_plan.h"

namespace shardproof::verifier::structure {

// Reports SP0310 to SP0314. False: actions are missing or run too early, so that no more can be said of what ranks say to each other.
bool check_schedule(const ir::Plan& plan, const ScheduledPlan& scheduled, Findings& findings);

// SP0311 and SP0312 of one program, whose actions run as often as they should.
bool check_schedule_values(const ir::Plan& plan, std::size_t stage, const ScheduledProgram& program, Findings& findings);
// SP0314.
void check_stale_weights(const ir::Plan& plan, const ScheduledPlan& scheduled, Findings& findings);

// Microbatches of stages whose forward pass has run and whose backward pass (W, where it is split) has not: the most there are.
struct InFlight {
  std::int64_t most = 0;
  std::size_t step = 0;  // at which it is reached first
};
InFlight most_in_flight(const ScheduledProgram& program);

// Place of a step in the plan file.
ir::Span span_of(const ir::Plan& plan, std::size_t stage, const ScheduledProgram& program, const ScheduledStep& step);
// "row 2, column 7"
std::string place_of(std::size_t stage, const ScheduledProgram& program, const ScheduledStep& step);

}  // namespace shardproof::verifier::structure

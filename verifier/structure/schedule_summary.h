// What a schedule costs: for reports and for `shardproof schedule`. Nothing is decided here.
#pragma once

#include "lowering/schedule_generators.h"
#include "verifier/structure/communication.h"

namespace shardproof::verifier::structure {

// But for its slots.
ScheduleSummary summary_of(const ir::Plan& plan, const ScheduledPlan& scheduled);

// The actions of all pipeline ranks in slots of time. nullopt: ranks wait in a circle, or messages do not meet.
std::optional<lowering::ScheduleGrid> grid_of(const ScheduledPlan& scheduled, const Communication& communication);
// Of a valid plan with a schedule.
std::optional<lowering::ScheduleGrid> grid_of(const ir::Plan& plan);

std::optional<ScheduleSummary::Slots> slots_of(const ScheduledPlan& scheduled, const Communication& communication);

}  // namespace shardproof::verifier::structure

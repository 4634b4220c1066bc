// What the schedule of a plan makes of its programs: for each the list of actions in the order in which its ranks run them, and
// which instructions of its loop over microbatches each action runs. Nothing here says that the list is a right one.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "ir/schedule_action.h"

namespace shardproof::verifier::structure {

inline constexpr std::size_t kNoLabel = std::numeric_limits<std::size_t>::max();

// One action of a row.
struct ScheduledStep {
  ir::ScheduleAction action;
  std::size_t cell = 0;                                    // in `cells` of its program
  std::array<std::size_t, 2> labels = {kNoLabel, kNoLabel};  // positions in `labels` of its program; none: it runs no instruction
  bool foreign = false;                                    // the program does not have it
  bool runs(std::size_t label) const { return labels[0] == label || labels[1] == label; }
};

struct ScheduledProgram {
  const ir::Instruction* loop = nullptr;     // over microbatches
  std::vector<ir::ActionLabel> labels;       // that its instructions carry, in the order of the text
  std::vector<std::size_t> first_of;         // of each label, the first instruction of the body that carries it
  std::vector<std::size_t> label_of;         // of each instruction of the body, its position in `labels`
  std::vector<ScheduledStep> steps;          // actions that overlap: in the order in which they are listed
  std::vector<ir::ScheduleCell> cells;       // without idle ones
  std::vector<std::size_t> columns;          // of each cell, in the row of the plan
};

struct ScheduledPlan {
  std::string name;  // of the generator, or "explicit"
  std::vector<ScheduledProgram> programs;  // as plan.stages
};

// nullopt: the plan has no schedule, and loops run in the order of their index. `plan` has passed ir::validate.
std::optional<ScheduledPlan> scheduled_plan(const ir::Plan& plan);

}  // namespace shardproof::verifier::structure

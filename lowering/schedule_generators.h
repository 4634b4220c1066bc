// Makes the tables of the schedules that ir/schedule_generator.h names. Each is written as what its authors publish: how
// often a pipeline rank repeats which actions. Nothing here is trusted: verifier/structure checks the list of actions.
//   GPipe             Huang et al. 2019
//   1F1B, PipeDream   Narayanan et al. 2019, 2021
//   interleaved 1F1B  Narayanan et al. 2021 (Megatron-LM); the rounds of PyTorch where the ranks do not divide the microbatches
//   looped BFS        Lamy-Poirier 2023
//   ZB-H1, ZB-H2      Qi et al. 2024 (zero bubble)
//   ZB-V              Qi et al. 2024 (controllable memory)
//   DualPipe(V)       DeepSeek-AI 2025
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "ir/schedule_action.h"
#include "ir/schedule_generator.h"

namespace shardproof::lowering {

// The order of actions on each rank, without idle cells. `size` has no problem (ir::size_problem).
ir::ScheduleTable generate_schedule(const ir::ScheduleGenerator& generator, const ir::ScheduleSize& size);

// Where a cell stands in a table without idle cells.
struct SchedulePlace {
  std::size_t rank = 0, cell = 0;
};
// Cells of other ranks that a cell waits for.
using ScheduleNeeds = std::vector<std::vector<std::vector<SchedulePlace>>>;

// The table with idle cells where ranks wait, if each cell takes one slot and runs as early as it can. All rows are equally long.
struct ScheduleGrid {
  ir::ScheduleTable rows;
  std::int64_t slots = 0;  // of all ranks together
  std::int64_t idle = 0;   // of these, without work
};
std::optional<ScheduleGrid> lay_out(const ir::ScheduleTable& order, const ScheduleNeeds& needs);  // nullopt: they wait in a circle

// What a generated table waits for: activations come from the stage before, gradients from the stage after.
ScheduleNeeds needs_of(const ir::ScheduleGenerator& generator, const ir::ScheduleSize& size, const ir::ScheduleTable& order);

}  // namespace shardproof::lowering

// Tables laid out in slots of time.
#include <algorithm>

#include "lowering/schedule_generators.h"

namespace shardproof::lowering {

using ir::ActionType;
using ir::ScheduleAction;
using ir::ScheduleTable;

namespace {

class Layout {
 public:
  Layout(const ScheduleTable& order, const ScheduleNeeds& needs) : order_(order), needs_(needs), slots_(order.size()), waiting_(order.size()) {
    for (std::size_t r = 0; r < order.size(); ++r) waiting_[r].resize(order[r].size());
  }

  std::optional<ScheduleGrid> run() {
    for (std::size_t r = 0; r < order_.size(); ++r) ready_.push_back(r);
    while (!ready_.empty()) {
      const std::size_t rank = ready_.back();
      ready_.pop_back();
      proceed(rank);
    }
    ScheduleGrid grid;
    std::int64_t length = 0;
    for (std::size_t r = 0; r < order_.size(); ++r) {
      if (slots_[r].size() < order_[r].size()) return std::nullopt;
      if (!slots_[r].empty()) length = std::max(length, slots_[r].back() + 1);
    }
    for (std::size_t r = 0; r < order_.size(); ++r) {
      std::vector<ir::ScheduleCell> row(static_cast<std::size_t>(length));
      for (std::size_t c = 0; c < order_[r].size(); ++c) row[static_cast<std::size_t>(slots_[r][c])] = order_[r][c];
      grid.idle += length - static_cast<std::int64_t>(order_[r].size());
      grid.rows.push_back(std::move(row));
    }
    grid.slots = length * static_cast<std::int64_t>(order_.size());
    return grid;
  }

 private:
  void proceed(std::size_t rank) {
    for (std::size_t cell = slots_[rank].size(); cell < order_[rank].size(); ++cell) {
      std::int64_t slot = cell == 0 ? 0 : slots_[rank].back() + 1;
      for (const SchedulePlace& need : needs_[rank][cell]) {
        if (need.cell >= slots_[need.rank].size()) {
          waiting_[need.rank][need.cell].push_back(rank);
          return;
        }
        slot = std::max(slot, slots_[need.rank][need.cell] + 1);
      }
      slots_[rank].push_back(slot);
      ready_.insert(ready_.end(), waiting_[rank][cell].begin(), waiting_[rank][cell].end());
    }
  }

  const ScheduleTable& order_;
  const ScheduleNeeds& needs_;
  std::vector<std::vector<std::int64_t>> slots_;                // of the cells of each rank that have run
  std::vector<std::vector<std::vector<std::size_t>>> waiting_;  // ranks, by the cell that they wait for
  std::vector<std::size_t> ready_;
};

bool runs_backward(ActionType type) { return type == ActionType::backward || type == ActionType::backward_input; }

}  // namespace

std::optional<ScheduleGrid> lay_out(const ScheduleTable& order, const ScheduleNeeds& needs) { return Layout(order, needs).run(); }

ScheduleNeeds needs_of(const ir::ScheduleGenerator& generator, const ir::ScheduleSize& size, const ScheduleTable& order) {
  const std::int64_t stages = ir::chunks_per_rank(generator, size) * size.ranks;
  const std::int64_t microbatches = ir::microbatches_per_stage(generator, size);
  const auto index = [&](std::int64_t stage, std::int64_t microbatch) { return static_cast<std::size_t>(stage * microbatches + microbatch); };
  std::vector<SchedulePlace> forward(static_cast<std::size_t>(stages * microbatches)), backward = forward;
  for (std::size_t r = 0; r < order.size(); ++r)
    for (std::size_t c = 0; c < order[r].size(); ++c)
      for (const ScheduleAction& action : order[r][c]) {
        if (action.type == ActionType::forward) forward[index(action.stage, *action.microbatch)] = {r, c};
        if (runs_backward(action.type)) backward[index(action.stage, *action.microbatch)] = {r, c};
      }
  std::vector<std::optional<std::int64_t>> before(static_cast<std::size_t>(stages)), after = before;
  for (std::int64_t stage = 0; stage < stages; ++stage)
    if (const auto next = ir::stage_after(generator, size, stage)) {
      after[static_cast<std::size_t>(stage)] = next;
      before[static_cast<std::size_t>(*next)] = stage;
    }
  ScheduleNeeds needs(order.size());
  for (std::size_t r = 0; r < order.size(); ++r) {
    needs[r].resize(order[r].size());
    for (std::size_t c = 0; c < order[r].size(); ++c)
      for (const ScheduleAction& action : order[r][c]) {
        const auto stage = static_cast<std::size_t>(action.stage);
        const auto from = [&](const std::optional<std::int64_t>& other, const std::vector<SchedulePlace>& places) {
          if (!other) return;
          const SchedulePlace place = places[index(*other, *action.microbatch)];
          if (place.rank != r || place.cell >= c) needs[r][c].push_back(place);
        };
        if (action.type == ActionType::forward) from(before[stage], forward);
        if (runs_backward(action.type)) from(after[stage], backward);
      }
  }
  return needs;
}

}  // namespace shardproof::lowering

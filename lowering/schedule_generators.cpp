#include "lowering/schedule_generators.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "ir/check.h"

namespace shardproof::lowering {

using ir::ActionType;
using ir::ScheduleAction;
using ir::ScheduleCell;
using ir::ScheduleGenerator;
using ir::ScheduleSize;
using ir::ScheduleTable;

namespace {

// An action before it is known for which microbatch: the next one of its chunk.
constexpr std::int64_t kAny = -1;  // chunk: in the order of interleaved 1F1B; of W: whose gradient has waited longest
struct Next {
  ActionType type = ActionType::forward;
  std::int64_t chunk = 0;
};
using Step = std::vector<Next>;  // several: they overlap
// `steps` one after the other, `count` times. What there is no microbatch for any more is left out.
struct Phase {
  std::int64_t count = 0;
  std::vector<Step> steps;
};
using Phases = std::vector<Phase>;

Next F(std::int64_t chunk = 0) { return {ActionType::forward, chunk}; }
Next B(std::int64_t chunk = 0) { return {ActionType::backward, chunk}; }
Next I(std::int64_t chunk = 0) { return {ActionType::backward_input, chunk}; }
Next W(std::int64_t chunk = 0) { return {ActionType::backward_weight, chunk}; }

// Numbers the microbatches of one rank.
class Row {
 public:
  Row(const ScheduleGenerator& generator, const ScheduleSize& size, std::int64_t rank)
      : generator_(generator), size_(size), rank_(rank), chunks_(ir::chunks_per_rank(generator, size)), most_(ir::microbatches_per_stage(generator, size)),
        forwards_(static_cast<std::size_t>(chunks_), 0), backwards_(static_cast<std::size_t>(chunks_), 0) {}

  void run(const Phase& phase) {
    for (std::int64_t n = 0; n < phase.count; ++n)
      for (const Step& step : phase.steps) {
        ScheduleCell cell;
        for (const Next& next : step) take(next, cell);
        if (!cell.empty()) cells_.push_back(std::move(cell));
      }
  }
  std::vector<ScheduleCell> take_cells() { return std::move(cells_); }

 private:
  void take(Next next, ScheduleCell& cell) {
    switch (next.type) {
      case ActionType::forward: return pass(next, forwards_, most_, cell);
      case ActionType::backward:
      case ActionType::backward_input: return pass(next, backwards_, kAny, cell);
      case ActionType::backward_weight: return weight(next.chunk, cell);
      default: cell.push_back({stage(next.chunk), next.type, std::nullopt});
    }
  }

  // `below` kAny: below the number of forwards of the chunk.
  void pass(Next next, std::vector<std::int64_t>& done, std::int64_t below, ScheduleCell& cell) {
    std::int64_t chunk = next.chunk;
    if (chunk == kAny) {
      const std::int64_t turn = std::accumulate(done.begin(), done.end(), std::int64_t{0});
      if (turn == chunks_ * most_) return;
      chunk = interleaved_chunk(turn, next.type == ActionType::forward);
    }
    const auto c = static_cast<std::size_t>(chunk);
    if (done[c] >= (below == kAny ? forwards_[c] : below)) return;
    const std::int64_t microbatch = done[c]++;
    cell.push_back({stage(chunk), next.type, microbatch});
    if (next.type == ActionType::backward_input) weights_.emplace_back(chunk, microbatch);
  }

  void weight(std::int64_t chunk, ScheduleCell& cell) {
    const auto oldest = std::find_if(weights_.begin(), weights_.end(), [&](const auto& waiting) { return chunk == kAny || waiting.first == chunk; });
    if (oldest == weights_.end()) return;
    cell.push_back({stage(oldest->first), ActionType::backward_weight, oldest->second});
    weights_.erase(oldest);
  }

  // Round by round, and in it chunk by chunk; backward passes take the chunks from the last.
  std::int64_t interleaved_chunk(std::int64_t turn, bool forward) const {
    const std::int64_t group = most_ / ir::interleaved_rounds(size_);
    const std::int64_t chunk = turn / group % chunks_;
    return forward ? chunk : chunks_ - 1 - chunk;
  }

  std::int64_t stage(std::int64_t chunk) const { return ir::stage_of(generator_, size_, rank_, chunk); }

  const ScheduleGenerator& generator_;
  const ScheduleSize& size_;
  std::int64_t rank_, chunks_, most_;
  std::vector<std::int64_t> forwards_, backwards_;          // of each chunk
  std::deque<std::pair<std::int64_t, std::int64_t>> weights_;  // chunks and microbatches whose weight gradient is put off
  std::vector<ScheduleCell> cells_;
};

// ---------------------------------------------------------------- what ranks repeat

Phases gpipe(std::int64_t microbatches) { return {{microbatches, {{F()}}}, {microbatches, {{B()}}}}; }

// The first backward comes after a forward for each later rank.
Phases one_forward_one_backward(std::int64_t microbatches, std::int64_t later_ranks, bool updates) {
  const std::int64_t warm = std::min(microbatches, later_ranks);
  std::vector<Step> backward{{B()}};
  if (updates) backward.push_back({{ActionType::optimizer, 0}});
  std::vector<Step> both{{F()}};
  both.insert(both.end(), backward.begin(), backward.end());
  return {{warm, {{F()}}}, {microbatches - warm, both}, {warm, backward}};
}

Phases interleaved(const ScheduleSize& size, std::int64_t later_ranks) {
  const std::int64_t group = size.microbatches / ir::interleaved_rounds(size), all = size.microbatches * size.virtual_stages;
  const std::int64_t warm = std::min(all, (size.virtual_stages - 1) * group + 2 * later_ranks);
  return {{warm, {{F(kAny)}}}, {all - warm, {{F(kAny)}, {B(kAny)}}}, {warm, {{B(kAny)}}}};
}

Phases looped_bfs(const ScheduleSize& size) {
  Phases phases;
  for (std::int64_t chunk = 0; chunk < size.virtual_stages; ++chunk) phases.push_back({size.microbatches, {{F(chunk)}}});
  for (std::int64_t chunk = size.virtual_stages; chunk-- > 0;) phases.push_back({size.microbatches, {{B(chunk)}}});
  return phases;
}

// `warm` forwards before the first backward; then the rank puts off `behind` weight gradients, which fill its end.
Phases zero_bubble(std::int64_t microbatches, std::int64_t warm, std::int64_t behind) {
  warm = std::min(warm, microbatches);
  behind = std::min(behind, microbatches - warm);
  return {{warm, {{F()}}}, {behind, {{F()}, {I()}}}, {microbatches - warm - behind, {{F()}, {I()}, {W()}}}, {warm, {{I()}, {W()}}}, {behind, {{W()}}}};
}

Phases zb_v(std::int64_t microbatches, std::int64_t ranks, std::int64_t rank) {
  return {{2 * (ranks - rank) - 1, {{F(0)}}},
          {rank, {{F(1)}, {F(0)}}},
          {ranks - rank, {{F(1)}, {I(1)}, {W(1)}}},
          {microbatches - ranks, {{F(0)}, {I(0)}, {W(0)}, {F(1)}, {I(1)}, {W(1)}}},
          {rank, {{I(0)}, {I(1)}}},
          {ranks - rank, {{I(0)}, {W(0)}}},
          {2 * microbatches, {{W(kAny)}}}};
}

// `width`: ranks from an end of the pipelines to where they meet; `rank` of them come before; chunk `own` enters at the near end.
Phases dual(std::int64_t microbatches, std::int64_t width, std::int64_t rank, std::int64_t own, std::int64_t other) {
  const std::int64_t later = width - 1 - rank;
  const Step forth{F(own), B(other)}, back{F(other), B(own)};
  Phases phases{{2 * later, {{F(own)}}}, {rank + 1, {{F(own)}, {F(other)}}}, {later, {{I(other)}, {W(kAny)}, {F(other)}}}};
  std::int64_t steady = microbatches - 2 * width + rank + 1;
  if (later == 0 && steady > 0) {  // where they meet, the first pair depends on itself
    phases.push_back({1, {{F(own)}, {B(other)}, back}});
    --steady;
  }
  phases.push_back({steady, {forth, back}});
  phases.push_back({later, {{B(other)}, back}});
  // The second half of the last backward passes is split.
  std::vector<Step> last;
  for (std::int64_t i = 0; i < 2 * (rank + 1); ++i) {
    const bool split = i >= rank + 1;
    last.push_back({{split ? ActionType::backward_input : ActionType::backward, i % 2 == 0 ? other : own}});
  }
  phases.push_back({1, last});
  phases.push_back({later, {{W(kAny)}, {I(own)}}});
  phases.push_back({rank + 1, {{W(kAny)}}});
  return phases;
}

Phases phases_of(const ScheduleGenerator& generator, const ScheduleSize& size, std::int64_t rank) {
  const std::int64_t later = size.ranks - 1 - rank, microbatches = size.microbatches;
  if (generator.name == "gpipe") return gpipe(microbatches);
  if (generator.name == "1f1b" || generator.name == "pipedream") return one_forward_one_backward(microbatches, later, generator.asynchronous);
  if (generator.name == "interleaved-1f1b") return interleaved(size, later);
  if (generator.name == "looped-bfs") return looped_bfs(size);
  if (generator.name == "zb-h1") return zero_bubble(microbatches, later, rank);
  if (generator.name == "zb-h2") return zero_bubble(microbatches, 2 * later, 2 * rank);
  if (generator.name == "zb-v") return zb_v(microbatches, size.ranks, rank);
  if (generator.name == "dualpipe-v") return dual(microbatches, size.ranks, rank, 0, 1);
  SHARDPROOF_CHECK(generator.name == "dualpipe");
  const bool near = rank < size.ranks / 2;
  return dual(microbatches / 2, size.ranks / 2, std::min(rank, later), near ? 0 : 1, near ? 1 : 0);
}

}  // namespace

ScheduleTable generate_schedule(const ScheduleGenerator& generator, const ScheduleSize& size) {
  SHARDPROOF_CHECK(!ir::size_problem(generator, size));
  ScheduleTable table;
  for (std::int64_t rank = 0; rank < size.ranks; ++rank) {
    Row row(generator, size, rank);
    for (const Phase& phase : phases_of(generator, size, rank)) row.run(phase);
    table.push_back(row.take_cells());
  }
  return table;
}

}  // namespace shardproof::lowering

#include "ir/schedule_generator.h"

#include <algorithm>
#include <array>

#include "ir/schedule_action.h"

namespace shardproof::ir {

namespace {

using Shape = ScheduleGenerator::Shape;
constexpr std::int64_t kAny = kMaxActionNumber;

constexpr std::array<ScheduleGenerator, 10> kGenerators = {{
    {"gpipe", Shape::looped, 1, 1, false, false, "all forwards, then all backwards"},
    {"1f1b", Shape::looped, 1, 1, false, false, "one forward, one backward"},
    {"interleaved-1f1b", Shape::looped, 2, kAny, false, false, "1F1B with several stages on a rank"},
    {"looped-bfs", Shape::looped, 1, kAny, false, false, "all microbatches of one stage after the other"},
    {"zb-h1", Shape::looped, 1, 1, true, false, "1F1B with weight gradients put off, in the memory of 1F1B"},
    {"zb-h2", Shape::looped, 1, 1, true, false, "the same without idle slots, in about twice that memory"},
    {"zb-v", Shape::v, 2, 2, true, false, "no idle slots in the memory of 1F1B, two stages on a rank in V shape"},
    {"dualpipe", Shape::bidirectional, 2, 2, true, false, "two pipelines in opposite directions, forward over backward"},
    {"dualpipe-v", Shape::v, 2, 2, true, false, "the same, folded into one pipeline in V shape"},
    {"pipedream", Shape::looped, 1, 1, false, true, "1F1B that updates weights after each backward: not synchronous"},
}};

std::string number(std::int64_t n) { return std::to_string(n); }

}  // namespace

std::span<const ScheduleGenerator> schedule_generators() { return kGenerators; }

std::vector<std::string_view> schedule_generator_names() {
  std::vector<std::string_view> names;
  for (const ScheduleGenerator& generator : kGenerators) names.push_back(generator.name);
  return names;
}

const ScheduleGenerator* find_schedule_generator(std::string_view name, std::int64_t virtual_stages) {
  if (virtual_stages > 1 && name == "1f1b") name = "interleaved-1f1b";
  if (virtual_stages > 1 && name == "gpipe") name = "looped-bfs";
  const auto found = std::find_if(kGenerators.begin(), kGenerators.end(), [&](const ScheduleGenerator& g) { return g.name == name; });
  return found == kGenerators.end() ? nullptr : &*found;
}

std::optional<ScheduleSizeProblem> size_problem(const ScheduleGenerator& generator, const ScheduleSize& size) {
  const std::string name = "schedule `" + std::string(generator.name) + "`";
  const auto& [ranks, chunks, microbatches] = size;
  if (ranks < 1 || chunks < 1 || microbatches < 1)
    return ScheduleSizeProblem{name + " needs pipeline ranks, stages and microbatches", "1 or more of each", number(std::min({ranks, chunks, microbatches})), "give a positive number"};
  // Where the number of stages on a rank is fixed, it need not be given.
  const bool implied = generator.least_chunks == generator.most_chunks && chunks == 1;
  if (!implied && (chunks < generator.least_chunks || chunks > generator.most_chunks)) {
    const bool open = generator.most_chunks == kAny;
    return ScheduleSizeProblem{name + " puts " + (open ? "at least " : "") + number(generator.least_chunks) + (generator.least_chunks == 1 ? " stage" : " stages") + " on each rank",
                               "`virtual_stages` of " + number(generator.least_chunks) + (open ? " or more" : ""), number(chunks),
                               generator.name == "interleaved-1f1b" ? "use `1f1b`, or give `virtual_stages`" : "correct `virtual_stages`"};
  }
  // Up to three actions for each stage and microbatch.
  std::int64_t actions = 0;
  const std::int64_t per_rank = std::max(chunks, generator.least_chunks);
  if (__builtin_mul_overflow(ranks, per_rank, &actions) || __builtin_mul_overflow(actions, microbatches, &actions) || actions > kMaxScheduleActions / 3)
    return ScheduleSizeProblem{name + " has too many actions for " + number(ranks) + " ranks, " + number(chunks) + " virtual stages and " + number(microbatches) + " microbatches",
                               "at most " + number(kMaxScheduleActions / 3) + " microbatches of stages", "more", "use fewer microbatches"};
  if (generator.name == "interleaved-1f1b" && microbatches % interleaved_rounds(size) != 0)
    return ScheduleSizeProblem{name + " takes microbatches in rounds of equal size, at least one for each pipeline rank", "a multiple of " + number(ranks) + " microbatches, or of the number of rounds (" + number(interleaved_rounds(size)) + ")",
                               number(microbatches) + " microbatches", "use a multiple of " + number(ranks) + " microbatches"};
  if (generator.name == "dualpipe") {
    if (ranks % 2 != 0) return ScheduleSizeProblem{name + " pairs each pipeline rank with its mirror image", "an even number of pipeline ranks", number(ranks), "use an even number of pipeline ranks, or `dualpipe-v`"};
    if (microbatches % 2 != 0 || microbatches < 2 * ranks)
      return ScheduleSizeProblem{name + " sends half of the microbatches each way and fills both pipelines", "an even number of microbatches, at least " + number(2 * ranks), number(microbatches), "use at least " + number(2 * ranks) + " microbatches"};
  }
  if (generator.name == "dualpipe-v" && microbatches < 2 * ranks)
    return ScheduleSizeProblem{name + " fills its pipeline both ways", "at least " + number(2 * ranks) + " microbatches", number(microbatches), "use at least " + number(2 * ranks) + " microbatches"};
  return std::nullopt;
}

std::int64_t chunks_per_rank(const ScheduleGenerator& generator, const ScheduleSize& size) { return std::max(size.virtual_stages, generator.least_chunks); }

std::int64_t microbatches_per_stage(const ScheduleGenerator& generator, const ScheduleSize& size) {
  return generator.shape == Shape::bidirectional ? size.microbatches / 2 : size.microbatches;
}

std::int64_t stage_of(const ScheduleGenerator& generator, const ScheduleSize& size, std::int64_t rank, std::int64_t chunk) {
  if (chunk == 0) return rank;
  if (generator.shape == Shape::looped) return chunk * size.ranks + rank;
  return 2 * size.ranks - 1 - rank;  // v: back along the ranks; bidirectional: P + s on rank P - 1 - s
}

std::optional<std::int64_t> stage_after(const ScheduleGenerator& generator, const ScheduleSize& size, std::int64_t stage) {
  const std::int64_t next = stage + 1;
  if (next == chunks_per_rank(generator, size) * size.ranks) return std::nullopt;
  if (generator.shape == Shape::bidirectional && next == size.ranks) return std::nullopt;
  return next;
}

std::int64_t interleaved_rounds(const ScheduleSize& size) { return std::max<std::int64_t>(1, size.microbatches / size.ranks); }

}  // namespace shardproof::ir

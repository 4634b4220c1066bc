// What the named schedules ask of a plan: which stages they put on which pipeline rank, and for which sizes they exist. The
// tables themselves are made by lowering/schedule_generators.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::ir {

struct ScheduleGenerator {
  enum class Shape {
    looped,         // stage s on rank s mod P
    v,              // s on rank s, and from P on back: on rank 2P - 1 - s
    bidirectional,  // two pipelines: s on rank s, P + s on rank P - 1 - s; each takes half of the microbatches
  };
  std::string_view name;
  Shape shape = Shape::looped;
  std::int64_t least_chunks = 1, most_chunks = 1;  // stages on a rank
  bool splits_backward = false;  // runs I and W apart
  bool asynchronous = false;     // updates weights within the step
  std::string_view summary;
};

std::span<const ScheduleGenerator> schedule_generators();
std::vector<std::string_view> schedule_generator_names();
// `1f1b` and `gpipe` with several virtual stages are `interleaved-1f1b` and `looped-bfs`. nullptr: no such generator.
const ScheduleGenerator* find_schedule_generator(std::string_view name, std::int64_t virtual_stages);

struct ScheduleSize {
  std::int64_t ranks = 1, virtual_stages = 1, microbatches = 1;
};
// Why the schedule does not exist for a size; nullopt: it does.
struct ScheduleSizeProblem {
  std::string message, expected, found, fix;
};
std::optional<ScheduleSizeProblem> size_problem(const ScheduleGenerator& generator, const ScheduleSize& size);

// Of a size without problem.
std::int64_t chunks_per_rank(const ScheduleGenerator& generator, const ScheduleSize& size);
std::int64_t microbatches_per_stage(const ScheduleGenerator& generator, const ScheduleSize& size);
std::int64_t stage_of(const ScheduleGenerator& generator, const ScheduleSize& size, std::int64_t rank, std::int64_t chunk);
// The stage that a stage's activations go to; nullopt: it is the last of its pipeline.
std::optional<std::int64_t> stage_after(const ScheduleGenerator& generator, const ScheduleSize& size, std::int64_t stage);
// interleaved-1f1b: each chunk of a rank takes its share of the microbatches of a round before the next chunk has its turn.
std::int64_t interleaved_rounds(const ScheduleSize& size);

}  // namespace shardproof::ir

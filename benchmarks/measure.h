// Time and memory of one verification, in a process of its own so that no point inherits memory from another.
#pragma once

#include <cstdint>

#include "lowering/model_config.h"
#include "lowering/parallel_config.h"
#include "lowering/training_config.h"

namespace shardproof::benchmarks {

struct Setup {
  lowering::ModelConfig model;
  lowering::TrainingConfig training;
  lowering::ParallelConfig parallel;
};

struct Measurement {
  bool proved = false;
  double plan_seconds = 0;  // to build reference and plan; CPU time
  double cpu_seconds = 0;   // of verify(): the least of the runs, which other work on the machine disturbs least
  double wall_seconds = 0;  // of that run
  double megabytes = 0;     // peak of the process, with the document in memory
  std::int64_t reference_instructions = 0;  // as verified: macros unfolded
  std::int64_t plan_instructions = 0;
};

// The first run counts for memory. Throws std::runtime_error if the child process did not finish.
Measurement measure(const Setup& setup, int runs);

}  // namespace shardproof::benchmarks

// The program of one pipeline rank: inputs and state, the loop over microbatches with the forward and backward passes of its
// parts of the model, gradient reduction and optimizer. Without pipeline parallelism it is the only one.
#pragma once

#include "ir/plan.h"
#include "lowering/pipeline_layout.h"
#include "lowering/plan_buckets.h"
#include "lowering/plan_degrees.h"
#include "lowering/plan_parameters.h"
#include "lowering/training_config.h"

namespace shardproof::lowering {

struct RankSetup {
  const ModelConfig& model;
  const TrainingConfig& training;
  const ParallelConfig& parallel;
  const PlanDegrees& degrees;
  const PipelineLayout& layout;
  std::int64_t rank = 0;
};

struct RankProgram {
  ir::StageProgram stage;
  std::vector<ir::FlatBuffer> buffers;
  std::vector<ir::CheckpointEntry> checkpoint;  // weights are saved once, whole; optimizer state as the ranks hold it
};

RankProgram plan_rank(const RankSetup& setup, const ParameterTable& table);

}  // namespace shardproof::lowering

// The bundled planner: a model and degrees of parallelism to an explicit plan of one training step, in the manner of
// Megatron-LM. It is one producer of plans among many, and the prover trusts nothing it says.
//
// Mesh       pp (major) x dp x cp x tp (minor, fastest), of which pp and cp are there above 1. With fewer kv heads than tensor parallel ranks tp is written tpk x tpr.
// Program    one SPMD program for all ranks: a rolled loop `m` over microbatches that accumulates f32 gradients of the
//            sum of masked token losses, then reduction, clipping, AdamW and the gathering of the new weights.
// Data       sample m * (mb * dp) + dp * mb + i of the global batch is sample i of microbatch m on rank dp.
// Pipeline   a program for each pipeline rank (plan_rank.h); the order of their actions is left to the schedule's generator.
// Not yet    expert parallelism, sharded weights (ZeRO-3), dropout.
#pragma once

#include "ir/plan.h"
#include "lowering/model_config.h"
#include "lowering/parallel_config.h"
#include "lowering/plan_error.h"
#include "lowering/training_config.h"

namespace shardproof::lowering {

// Throws PlanError if the degrees do not fit the model, the batch or what is supported, or if `reference` is not the
// step of this model and batch.
ir::Plan plan_training(const ModelConfig& model, const TrainingConfig& training, const ParallelConfig& parallel,
                       const ir::Reference& reference);

}  // namespace shardproof::lowering

// What follows the last microbatch: gradient reduction, global norm, clipping, AdamW, new weights.
#pragma once

#include <string>
#include <vector>

#include "ir/plan.h"
#include "lowering/plan_buckets.h"
#include "lowering/plan_writer.h"
#include "lowering/training_config.h"

namespace shardproof::lowering {

// One tensor of optimizer state: a shard of a bucket, or (without the distributed optimizer) one local parameter.
struct OptimizerTensor {
  std::string name;
  ir::Binding binding;  // role not yet set
  Shape shape;
  ValueId param, exp_avg, exp_avg_sq;                 // f32, on entry
  ValueId next_param, next_exp_avg, next_exp_avg_sq;  // on exit
};

// Names, bindings and shapes; values are filled in by the caller (entry) and by `write_optimizer` (exit).
std::vector<OptimizerTensor> optimizer_tensors(const std::vector<PlanBucket>& buckets, const ParameterTable& table,
                                               const PlanDegrees& degrees);

struct OptimizerInputs {
  Values gradients;  // f32, per parameter: sums over the rank's microbatches
  Values sums;       // instead of these, f32, per bucket: reduced already
  ValueId loss_sum;  // f32, of the rank; invalid where the loss is on other pipeline ranks
  ValueId tokens;    // likewise
  std::string loss_ranks;  // entry of `axes`: the pipeline ranks that have losses, if several
  ValueId lr;
  ValueId step;
};

struct OptimizerOutputs {
  Values weights;  // per parameter, compute dtype
  ValueId loss;    // invalid where the loss is on other pipeline ranks
  ValueId grad_norm;
  ValueId step;
};

OptimizerOutputs write_optimizer(PlanWriter& writer, const TrainingConfig& training,
                                 const std::vector<PlanBucket>& buckets, const OptimizerInputs& inputs,
                                 std::vector<OptimizerTensor>& tensors);

}  // namespace shardproof::lowering

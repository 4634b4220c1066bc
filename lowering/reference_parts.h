// The parts of build_reference: one forward per model family, the optimizer. Internal.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/plan.h"
#include "lowering/build_reference.h"
#include "lowering/model_config.h"
#include "lowering/training_config.h"

namespace shardproof::lowering {

struct ForwardInputs {
  const ModelConfig& model;
  const std::unordered_map<std::string, ir::ValueId>& parameters;  // by name
  ir::ValueId tokens;                                              // i32[B,S]

  ir::ValueId parameter(const std::string& name) const;  // InternalError if there is none
};

// Logits f32[B,S,V].
ir::ValueId append_llama_forward(ir::Builder& builder, const ForwardInputs& inputs);
ir::ValueId append_gpt2_forward(ir::Builder& builder, const ForwardInputs& inputs);

std::vector<ParameterInfo> list_llama_parameters(const ModelConfig& model);
std::vector<ParameterInfo> list_gpt2_parameters(const ModelConfig& model);

// cos and sin f32[S, d/2] of position * inverse frequency, positions from 0.
struct RopeTables {
  ir::ValueId cos;
  ir::ValueId sin;
};
RopeTables append_rope_tables(ir::Builder& builder, const ModelConfig& model, std::int64_t seq_length);

// One parameter on its way through the optimizer.
struct OptimizerSlot {
  ParameterInfo info;
  ir::ValueId param;
  ir::ValueId exp_avg;
  ir::ValueId exp_avg_sq;
  ir::ValueId grad;
  ir::ValueId next_param;
  ir::ValueId next_exp_avg;
  ir::ValueId next_exp_avg_sq;
};

// Clips all gradients by their global norm and takes one AdamW step: fills the next_* of `slots`. `step` counts this
// step (from 1). Returns the norm before clipping.
ir::ValueId append_optimizer(ir::Builder& builder, const TrainingConfig& training, ir::ValueId step, ir::ValueId lr,
                             std::vector<OptimizerSlot>& slots);

}  // namespace shardproof::lowering

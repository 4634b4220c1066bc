// The reference: one training step on one device, written out. Forward in macro ops, backward by the VJP rules,
// clipping by the global gradient norm, AdamW.
//
// Inputs   tokens i32[B,S] and labels i32[B,S] below V, loss_mask f32[B,S], lr f32[].
// State    per parameter p (Hugging Face name): p (role param), p.exp_avg, p.exp_avg_sq; one `step` i64[].
// Outputs  loss: sum(mask * ce) / sum(mask) over the whole batch (no mean of means); grad_norm: before clipping.
// Labels are given already shifted: labels[b,s] is the token to be predicted at position s.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "lowering/model_config.h"
#include "lowering/training_config.h"

namespace shardproof::lowering {

// Throws ir::BuildError when the sequence does not fit the model (learned positions).
ir::Reference build_reference(const ModelConfig& model, const TrainingConfig& training, std::int64_t global_batch,
                              std::int64_t seq_length);

// Parameters in the order of the reference's state. Hugging Face names and shapes: Linear weights are [out, in],
// GPT-2's Conv1D weights [in, out]. A tied head has no entry of its own.
struct ParameterInfo {
  std::string name;
  ir::Shape shape;
  std::int64_t layer = -1;  // -1: embedding, final norm, head
};
std::vector<ParameterInfo> list_parameters(const ModelConfig& model);

// Whether AdamW decays the parameter: not one-dimensional ones (norm weights and biases).
bool has_weight_decay(const ParameterInfo& parameter);

// Rotary inverse frequencies, head_dim/2 of them: theta^(-2i/d), scaled as the configuration says; each the exact value
// of a decimal of at most 15 significant digits (fewer where 64 bits do not hold them).
std::vector<ir::Rational> rope_inverse_frequencies(const ModelConfig& model);

}  // namespace shardproof::lowering

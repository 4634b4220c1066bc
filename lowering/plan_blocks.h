// The pieces of a transformer step on one rank: forward, and the backward written out beside it. Each forward returns
// what its backward needs. Activations are [b, s, ..] in the compute dtype; "sequence shard" is the rank's part of s
// under sequence parallelism and all of s otherwise. Backwards accumulate the gradients of the weights in the writer
// and return the cotangent of the input.
#pragma once

#include "lowering/plan_writer.h"

namespace shardproof::lowering {

// ---------------------------------------------------------------- norms (plan_norms.cpp), on sequence shards

struct NormSaved {
  ValueId normalised;  // f32, before the weight
  ValueId scale;       // f32 [b, s]: 1 / root mean square, 1 / standard deviation
  ValueId result;
};
NormSaved rms_norm_forward(PlanWriter& writer, ValueId x, std::size_t weight);
ValueId rms_norm_backward(PlanWriter& writer, const NormSaved& saved, ValueId gradient, std::size_t weight);
NormSaved layer_norm_forward(PlanWriter& writer, ValueId x, std::size_t weight, std::size_t bias);
ValueId layer_norm_backward(PlanWriter& writer, const NormSaved& saved, ValueId gradient, std::size_t weight,
                            std::size_t bias);

// ---------------------------------------------------------------- context parallelism (plan_context.cpp)

// Where the rank's tokens stand in the sequence. Invalid without context parallelism: then they are all of it, in order.
struct PositionsShared {
  ValueId own;       // i64 [s]
  ValueId gathered;  // i64 [whole sequence]: as gather_context puts keys
};
PositionsShared positions_shared(PlanWriter& writer);
// Keys or values [b, s, ..] of all context parallel ranks, rank after rank; and the sum over the ranks of what they
// computed for those, of the own ones.
ValueId gather_context(PlanWriter& writer, ValueId x, const std::string& name);
ValueId reduce_to_context(PlanWriter& writer, ValueId x, const std::string& name);

// ---------------------------------------------------------------- softmax(q k^T) v (plan_attention.cpp), on own heads

// Values that all layers share; made before the loop over microbatches.
struct AttentionShared {
  ValueId visible;  // bool [b, groups, queries, s, t]: key not after query
  ValueId scale;    // f32, same shape
  ValueId hidden;   // f32, same shape: minus infinity
};
// Local kv groups, and query heads of each.
struct HeadCounts {
  std::int64_t groups = 1;
  std::int64_t queries = 1;
};
HeadCounts local_heads(const ModelConfig& model, const PlanDegrees& degrees);
AttentionShared attention_shared(PlanWriter& writer, const PositionsShared& positions);

struct AttentionSaved {
  ValueId q;              // [b, s, groups, queries, d]
  ValueId k, v;           // [b, s, groups, d]
  ValueId probabilities;  // f32 [b, groups, queries, s, t]
  ValueId weights;        // the same in the compute dtype
  ValueId context;        // [b, s, heads * d]
};
AttentionSaved attention_forward(PlanWriter& writer, const AttentionShared& shared, ValueId q, ValueId k, ValueId v);
struct AttentionGradients {
  ValueId q, k, v;  // shapes as saved
};
AttentionGradients attention_backward(PlanWriter& writer, const AttentionShared& shared, const AttentionSaved& saved,
                                      ValueId gradient);

// ---------------------------------------------------------------- layers (plan_layers_llama.cpp, plan_layers_gpt2.cpp)

struct LayerSaved {
  NormSaved norm1, norm2;
  AttentionSaved attention;
  ValueId gate, up;   // llama
  ValueId hidden;     // gpt2: input of the activation
  ValueId activated;  // input of the last projection
  ValueId result;     // sequence shard
};
struct LayerShared {
  PositionsShared positions;
  AttentionShared attention;
  ValueId cos, sin, minus_sin;  // llama: [s, d/2]
};
LayerShared llama_shared(PlanWriter& writer);
LayerSaved llama_layer_forward(PlanWriter& writer, const LayerShared& shared, std::int64_t layer, ValueId x);
ValueId llama_layer_backward(PlanWriter& writer, const LayerShared& shared, std::int64_t layer, const LayerSaved& saved,
                             ValueId gradient);
LayerShared gpt2_shared(PlanWriter& writer);
LayerSaved gpt2_layer_forward(PlanWriter& writer, const LayerShared& shared, std::int64_t layer, ValueId x);
ValueId gpt2_layer_backward(PlanWriter& writer, const LayerShared& shared, std::int64_t layer, const LayerSaved& saved,
                            ValueId gradient);

// ---------------------------------------------------------------- vocabulary (plan_vocab.cpp)

// Values that depend on the rank's part of the vocabulary only; made before the loop. Invalid where not needed.
struct VocabShared {
  ValueId first_row;     // i32 [b, s]: first row of the rank
  ValueId real_columns;  // bool [b, s, v]: not padding
  ValueId hidden;        // f32 [b, s, v]: minus infinity
};
VocabShared vocab_shared(PlanWriter& writer);

// Ids of the rank's own rows.
struct VocabLookup {
  ValueId ids;   // i32 [b, s]: row in the shard; 0 for rows of other ranks
  ValueId here;  // bool [b, s]; invalid: all rows are here
};
struct EmbeddingSaved {
  VocabLookup lookup;
  ValueId here;    // bool [b, s, h]; invalid: all rows are here
  ValueId result;  // sequence shard
};
EmbeddingSaved embedding_forward(PlanWriter& writer, const VocabShared& shared, const PositionsShared& positions,
                                 ValueId tokens);
void embedding_backward(PlanWriter& writer, const PositionsShared& positions, const EmbeddingSaved& saved,
                        ValueId gradient);

// Head and cross entropy. `x` is the sequence shard after the last norm. `loss` is the sum of mask * cross entropy over the
// microbatch; the backward returns the cotangent of x of that sum.
struct HeadSaved {
  ValueId x;
  ValueId exp;  // f32 [b, s, v]: of the own columns, exp(logit - greatest)
  ValueId sum;  // f32 [b, s]: of these, over all columns
  VocabLookup label;
  ValueId mask;
  ValueId loss;
};
HeadSaved head_forward(PlanWriter& writer, const VocabShared& shared, ValueId x, ValueId labels, ValueId mask);
ValueId head_backward(PlanWriter& writer, const HeadSaved& saved);

}  // namespace shardproof::lowering

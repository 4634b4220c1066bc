// Model and parallel configurations that the planner's tests share.
#pragma once

#include <cstdint>

#include "lowering/model_config.h"
#include "lowering/parallel_config.h"

namespace shardproof::lowering::testing {

inline ModelConfig small_llama(std::int64_t layers = 2) {
  ModelConfig model;
  model.family = ModelFamily::llama;
  model.hidden_size = 32;
  model.intermediate_size = 48;
  model.num_layers = layers;
  model.num_heads = 8;
  model.num_kv_heads = 4;
  model.head_dim = 4;
  model.vocab_size = 64;
  model.max_positions = 64;
  model.activation = "silu";
  return model;
}

inline ModelConfig small_gpt2(std::int64_t layers = 2) {
  ModelConfig model = small_llama(layers);
  model.family = ModelFamily::gpt2;
  model.num_kv_heads = 8;
  model.tie_word_embeddings = true;
  model.activation = "gelu_new";
  return model;
}

inline ModelConfig llama_405b() {
  ModelConfig model = small_llama(126);
  model.hidden_size = 16384;
  model.intermediate_size = 53248;
  model.num_heads = 128;
  model.num_kv_heads = 8;
  model.head_dim = 128;
  model.vocab_size = 128256;
  model.max_positions = 131072;
  model.rope_theta = 500000.0;
  model.rope_scaling = RopeScaling{"llama3", 8.0, 1.0, 4.0, 8192};
  return model;
}

// One bucket for everything unless the test sets its size.
inline ParallelConfig degrees(std::int64_t tp, std::int64_t dp, bool sequence_parallel = true, bool sharded = true,
                              std::int64_t microbatches = 2) {
  ParallelConfig parallel;
  parallel.tensor_model_parallel_size = tp;
  parallel.world_size = tp * dp;
  parallel.sequence_parallel = sequence_parallel;
  parallel.use_distributed_optimizer = sharded;
  parallel.global_batch_size = microbatches * dp;
  parallel.seq_length = 16;
  parallel.bucket_size = std::int64_t{1} << 50;
  parallel.make_vocab_size_divisible_by = 8;
  return parallel;
}

// Keys and values gathered over `cp` ranks that share each sample.
inline ParallelConfig context_degrees(std::int64_t cp, std::int64_t tp, std::int64_t dp, bool sequence_parallel = true,
                                      bool sharded = true) {
  ParallelConfig parallel = degrees(tp, dp, sequence_parallel, sharded);
  parallel.context_parallel_size = cp;
  parallel.cp_comm_type = "all_gather";
  parallel.world_size *= cp;
  return parallel;
}

}  // namespace shardproof::lowering::testing

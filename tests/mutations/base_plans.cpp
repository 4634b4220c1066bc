#include "lowering/build_reference.h"
#include "lowering/plan_training.h"
#include "mutations/mutate.h"

namespace shardproof::mutations {
namespace {

using lowering::ModelConfig;
using lowering::ParallelConfig;

ModelConfig llama(std::int64_t kv_heads) {
  ModelConfig model;
  model.family = lowering::ModelFamily::llama;
  model.hidden_size = 64;
  model.intermediate_size = 96;
  model.num_layers = 2;
  model.num_heads = 8;
  model.num_kv_heads = kv_heads;
  model.head_dim = 8;
  model.vocab_size = 250;
  model.max_positions = 64;
  model.activation = "silu";
  return model;
}

ModelConfig gpt2() {
  ModelConfig model = llama(8);
  model.family = lowering::ModelFamily::gpt2;
  model.hidden_size = 32;
  model.num_heads = 4;
  model.num_kv_heads = 4;
  model.intermediate_size = 128;
  model.vocab_size = 130;
  model.tie_word_embeddings = true;
  model.activation = "gelu_new";
  return model;
}

ParallelConfig degrees(std::int64_t tp, std::int64_t dp, bool sequence_parallel, bool sharded) {
  ParallelConfig parallel;
  parallel.tensor_model_parallel_size = tp;
  parallel.world_size = tp * dp;
  parallel.sequence_parallel = sequence_parallel;
  parallel.use_distributed_optimizer = sharded;
  parallel.micro_batch_size = 2;
  parallel.global_batch_size = 2 * dp * 4;
  parallel.seq_length = 16;
  parallel.bucket_size = 20000;
  parallel.make_vocab_size_divisible_by = 16;
  return parallel;
}

ParallelConfig context_degrees(std::int64_t cp, std::int64_t tp, std::int64_t dp, bool sequence_parallel, bool sharded) {
  ParallelConfig parallel = degrees(tp, dp, sequence_parallel, sharded);
  parallel.context_parallel_size = cp;
  parallel.cp_comm_type = "all_gather";
  parallel.world_size *= cp;
  return parallel;
}

Subject subject(std::string name, const ModelConfig& model, const ParallelConfig& parallel) {
  const lowering::TrainingConfig training;
  ir::Document document;
  document.reference =
      lowering::build_reference(model, training, parallel.global_batch_size, parallel.seq_length);
  document.plan = lowering::plan_training(model, training, parallel, document.reference);
  return Subject(std::move(name), std::move(document));
}

}  // namespace

std::vector<Subject> base_plans() {
  std::vector<Subject> plans;
  plans.push_back(subject("llama-zero1", llama(4), degrees(4, 2, true, true)));
  plans.push_back(subject("llama-plain", llama(4), degrees(4, 2, false, false)));
  // tp = dp, so that a collective over the wrong axis keeps every shape; two kv groups a rank.
  plans.push_back(subject("llama-square", llama(4), degrees(2, 2, true, true)));
  plans.push_back(subject("llama-replicated-kv", llama(4), degrees(8, 2, true, true)));
  plans.push_back(subject("gpt2", gpt2(), degrees(2, 4, false, false)));
  // The padding of the tied embedding in a bucket with fused weights; fewer positions than the model has.
  plans.push_back(subject("gpt2-zero1", gpt2(), degrees(2, 4, false, true)));
  return plans;
}

std::vector<Subject> context_plans() {
  std::vector<Subject> plans;
  plans.push_back(subject("llama-context", llama(4), context_degrees(2, 2, 2, true, true)));
  plans.push_back(subject("llama-context-plain", llama(4), context_degrees(4, 1, 2, false, false)));
  plans.push_back(subject("gpt2-context", gpt2(), context_degrees(2, 2, 2, true, true)));
  return plans;
}

}  // namespace shardproof::mutations

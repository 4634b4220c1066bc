// Plans of the bundled planner against the reference, executed on all ranks in float64: every output and every state.
// Sizes are chosen so that no two extents agree by accident and buckets, paddings and gaps all occur.
#include <gtest/gtest.h>

#include "lowering/build_reference.h"
#include "lowering/plan_training.h"
#include "runtime/parity.h"

namespace shardproof::runtime {
namespace {

using lowering::ModelConfig;
using lowering::ModelFamily;
using lowering::ParallelConfig;
using lowering::TrainingConfig;

ModelConfig llama() {
  ModelConfig model;
  model.family = ModelFamily::llama;
  model.hidden_size = 12;
  model.intermediate_size = 20;
  model.num_layers = 2;
  model.num_heads = 4;
  model.num_kv_heads = 2;
  model.head_dim = 6;
  model.vocab_size = 22;
  model.max_positions = 64;
  model.activation = "silu";
  return model;
}

ModelConfig gpt2() {
  ModelConfig model = llama();
  model.family = ModelFamily::gpt2;
  model.num_kv_heads = 4;
  model.head_dim = 3;
  model.vocab_size = 21;
  model.max_positions = 11;
  model.tie_word_embeddings = true;
  model.activation = "gelu_new";
  return model;
}

ParallelConfig degrees(std::int64_t tp, std::int64_t dp, std::int64_t micro_batch, std::int64_t microbatches) {
  ParallelConfig parallel;
  parallel.tensor_model_parallel_size = tp;
  parallel.world_size = tp * dp;
  parallel.micro_batch_size = micro_batch;
  parallel.global_batch_size = dp * micro_batch * microbatches;
  parallel.seq_length = 8;
  parallel.bucket_size = 500;
  parallel.make_vocab_size_divisible_by = 3;
  return parallel;
}

ir::Document document(const ModelConfig& model, const ParallelConfig& parallel, const TrainingConfig& training) {
  ir::Document result;
  result.reference = lowering::build_reference(model, training, parallel.global_batch_size, parallel.seq_length);
  result.plan = lowering::plan_training(model, training, parallel, result.reference);
  return result;
}

void expect_parity(const ModelConfig& model, const ParallelConfig& parallel, const TrainingConfig& training = {}) {
  const ir::Document d = document(model, parallel, training);
  const ParityReport report = run_parity(d);
  EXPECT_TRUE(report.equal()) << d.plan.notes.at(0) << "\n" << describe(d.plan, report);
}

// Both optimizers, with and without sequence parallelism.
void expect_parity_of_all(const ModelConfig& model, ParallelConfig parallel, const TrainingConfig& training = {}) {
  for (const bool sequence_parallel : {false, true}) {
    for (const bool sharded : {false, true}) {
      parallel.sequence_parallel = sequence_parallel;
      parallel.use_distributed_optimizer = sharded;
      expect_parity(model, parallel, training);
    }
  }
}

TEST(PlanParity, LlamaOnOneRank) {
  expect_parity_of_all(llama(), degrees(1, 1, 1, 2));
}
TEST(PlanParity, LlamaTensorParallel) {
  expect_parity_of_all(llama(), degrees(2, 1, 2, 1));
}
TEST(PlanParity, LlamaTensorAndDataParallel) {
  expect_parity_of_all(llama(), degrees(2, 3, 1, 2));
}
TEST(PlanParity, LlamaReplicatedKvHeads) {
  expect_parity_of_all(llama(), degrees(4, 2, 1, 2));
}

TEST(PlanParity, LlamaOneKvHeadForAll) {
  ModelConfig model = llama();
  model.num_kv_heads = 1;
  expect_parity_of_all(model, degrees(4, 2, 1, 1));
}

TEST(PlanParity, LlamaSeveralKvHeadsPerRank) {
  ModelConfig model = llama();
  model.num_heads = 8;
  model.num_kv_heads = 4;
  model.head_dim = 2;
  expect_parity_of_all(model, degrees(2, 2, 1, 1));
}

TEST(PlanParity, LlamaTied) {
  ModelConfig model = llama();
  model.tie_word_embeddings = true;
  expect_parity_of_all(model, degrees(2, 2, 1, 2));
}

TEST(PlanParity, LlamaWithLossScale) {
  ParallelConfig parallel = degrees(2, 2, 1, 2);
  parallel.precision = "fp16";
  expect_parity_of_all(llama(), parallel);
}

TEST(PlanParity, Gpt2OnOneRank) {
  expect_parity_of_all(gpt2(), degrees(1, 1, 2, 2));
}
TEST(PlanParity, Gpt2TensorAndDataParallel) {
  expect_parity_of_all(gpt2(), degrees(2, 3, 1, 2));
}
TEST(PlanParity, Gpt2FourRanks) {
  expect_parity_of_all(gpt2(), degrees(4, 2, 2, 1));
}

TEST(PlanParity, Gpt2UntiedWithAllPositions) {
  ModelConfig model = gpt2();
  model.tie_word_embeddings = false;
  model.max_positions = 8;
  expect_parity_of_all(model, degrees(2, 2, 1, 1));
}

TEST(PlanParity, ARankWithPaddingRowsOnly) {
  ModelConfig model = gpt2();
  model.vocab_size = 7;
  ParallelConfig parallel = degrees(2, 1, 1, 1);
  parallel.make_vocab_size_divisible_by = 8;
  expect_parity_of_all(model, parallel);
}

TEST(PlanParity, ClippingOffTightAndOneBucket) {
  TrainingConfig off;
  off.clip_grad = 0;
  TrainingConfig tight;
  tight.clip_grad = ir::Rational(1, 1000);
  TrainingConfig no_decay;
  no_decay.weight_decay = 0;
  ParallelConfig one_bucket = degrees(2, 2, 1, 2);
  one_bucket.bucket_size = 1000000;
  for (const TrainingConfig& training : {off, tight, no_decay}) expect_parity_of_all(gpt2(), one_bucket, training);
}

// The comparison would see a fault: a plan that reduces one norm gradient over the wrong ranks is not equal.
TEST(PlanParity, AWrongCollectiveIsSeen) {
  ParallelConfig parallel = degrees(2, 2, 1, 2);
  parallel.sequence_parallel = true;
  parallel.use_distributed_optimizer = true;
  ir::Document d = document(llama(), parallel, {});
  bool changed = false;
  for (ir::Instruction& instruction : d.plan.stages.at(0).program.body) {
    if (instruction.op != ir::OpCode::all_reduce || changed) continue;
    if (instruction.source.find("layernorm") == std::string::npos) continue;
    instruction.attributes.set("reduce", std::string("max"));
    changed = true;
  }
  ASSERT_TRUE(changed);
  EXPECT_FALSE(run_parity(d).equal());
}

}  // namespace
}  // namespace shardproof::runtime

#include "lowering/plan_degrees.h"

#include <gtest/gtest.h>

#include <optional>

#include "lowering/plan_error.h"
#include "plan_models.h"

namespace shardproof::lowering {
namespace {

using testing::context_degrees;
using testing::degrees;
using testing::small_gpt2;
using testing::small_llama;

std::optional<PlanError> error_of(const ModelConfig& model, const ParallelConfig& parallel) {
  try {
    plan_degrees(model, parallel);
  } catch (const PlanError& error) {
    return error;
  }
  return std::nullopt;
}

void expect_error(const ModelConfig& model, const ParallelConfig& parallel, const std::string& code,
                  const std::string& part) {
  const std::optional<PlanError> error = error_of(model, parallel);
  ASSERT_TRUE(error) << part;
  EXPECT_EQ(error->code, code);
  EXPECT_NE(std::string(error->what()).find(part), std::string::npos) << error->what();
  EXPECT_FALSE(error->expected.empty());
  EXPECT_FALSE(error->found.empty());
  EXPECT_FALSE(error->fix.empty());
}

TEST(PlanDegrees, TensorParallelIsTheFastestAxis) {
  const ir::Mesh mesh = plan_degrees(small_llama(), degrees(4, 3)).mesh();
  ASSERT_EQ(mesh.axes.size(), 2U);
  EXPECT_EQ(mesh.axes[0].name, "dp");
  EXPECT_EQ(mesh.axes[0].size, 3);
  EXPECT_EQ(mesh.axes[1].name, "tp");
  EXPECT_EQ(mesh.axes[1].size, 4);
}

TEST(PlanDegrees, FewerKvHeadsThanRanksSplitTheAxis) {
  const PlanDegrees split = plan_degrees(small_llama(), degrees(8, 2));
  EXPECT_TRUE(split.splits_tp());
  EXPECT_EQ(split.kv_shards, 4);
  EXPECT_EQ(split.kv_replicas, 2);
  const ir::Mesh mesh = split.mesh();
  ASSERT_EQ(mesh.axes.size(), 3U);
  EXPECT_EQ(mesh.axes[1].name, "tpk");
  EXPECT_EQ(mesh.axes[1].size, 4);
  EXPECT_EQ(mesh.axes[2].name, "tpr");
  EXPECT_EQ(mesh.axes[2].size, 2);
  // Rank 2k + r of the group, in Megatron-LM's order.
  const auto value = [](const std::string& axis) { return std::int64_t{axis == "tpk" ? 3 : 1}; };
  EXPECT_EQ(ir::evaluate(split.tp_coordinate(), value), 7);
}

TEST(PlanDegrees, SequenceParallelNeedsTensorParallel) {
  EXPECT_FALSE(plan_degrees(small_llama(), degrees(1, 4)).sequence_parallel);
  const PlanDegrees on = plan_degrees(small_llama(), degrees(4, 1));
  EXPECT_TRUE(on.sequence_parallel);
  EXPECT_EQ(on.sequence_local, 4);
  EXPECT_EQ(plan_degrees(small_llama(), degrees(4, 1, false)).sequence_local, 16);
}

TEST(PlanDegrees, ContextParallelRanksShareASample) {
  const PlanDegrees cut = plan_degrees(small_llama(), context_degrees(2, 2, 3));
  const ir::Mesh mesh = cut.mesh();
  ASSERT_EQ(mesh.axes.size(), 3U);
  EXPECT_EQ(mesh.axes[0].name, "dp");
  EXPECT_EQ(mesh.axes[0].size, 3);
  EXPECT_EQ(mesh.axes[1].name, "cp");
  EXPECT_EQ(mesh.axes[1].size, 2);
  EXPECT_EQ(mesh.axes[2].name, "tp");
  EXPECT_EQ(cut.microbatches, plan_degrees(small_llama(), degrees(2, 3)).microbatches);
  EXPECT_EQ(cut.sequence_own, 8);
  EXPECT_EQ(cut.chunk(), 4);
  EXPECT_EQ(cut.sequence_local, 4);
  EXPECT_EQ(cut.data_axes(), (std::vector<std::string>{"dp", "cp"}));
  EXPECT_EQ(cut.data_size(), 6);
  const auto value = [](const std::string& axis) { return std::int64_t{axis == "dp" ? 2 : 1}; };
  EXPECT_EQ(ir::evaluate(cut.data_coordinate(), value), 5);
}

TEST(PlanDegrees, ChunksOfTheSequenceAreWhole) {
  ParallelConfig parallel = context_degrees(4, 1, 1);
  parallel.seq_length = 12;  // 8 chunks
  expect_error(small_llama(), parallel, "SP0032", "twice the context parallel size");
  parallel = context_degrees(2, 4, 1);
  parallel.seq_length = 12;  // 6 positions on a rank
  expect_error(small_llama(), parallel, "SP0032", "context parallel rank");
  parallel.sequence_parallel = false;
  EXPECT_FALSE(error_of(small_llama(), parallel));
  parallel = context_degrees(2, 2, 2);
  parallel.world_size = 6;
  expect_error(small_llama(), parallel, "SP0030", "context parallel size");
}

TEST(PlanDegrees, VocabularyIsPaddedToARoundNumberOfRowsPerRank) {
  ModelConfig model = small_gpt2();
  model.vocab_size = 50257;
  ParallelConfig parallel = degrees(2, 1);
  parallel.make_vocab_size_divisible_by = 128;
  EXPECT_EQ(plan_degrees(model, parallel).padded_vocab, 50432);
  parallel.tensor_model_parallel_size = parallel.world_size = 8;
  EXPECT_EQ(plan_degrees(model, parallel).padded_vocab, 51200);
  model.vocab_size = 51200;
  EXPECT_EQ(plan_degrees(model, parallel).padded_vocab, 51200);
}

TEST(PlanDegrees, DefaultBucketGrowsWithDataParallelism) {
  ParallelConfig parallel = degrees(1, 128);
  parallel.bucket_size = 40000000;
  EXPECT_EQ(plan_degrees(small_llama(), parallel).bucket_size, 128000000);
  parallel.bucket_size = 5;
  EXPECT_EQ(plan_degrees(small_llama(), parallel).bucket_size, 5);
}

TEST(PlanDegrees, MisfitsAreErrors) {
  ParallelConfig parallel = degrees(4, 2);
  parallel.world_size = 6;
  expect_error(small_llama(), parallel, "SP0030", "world size");
  parallel.world_size = 0;
  expect_error(small_llama(), parallel, "SP0030", "world_size");

  parallel = degrees(4, 2);
  parallel.global_batch_size = 7;
  expect_error(small_llama(), parallel, "SP0032", "global batch size");
  parallel = degrees(4, 2);
  parallel.seq_length = 18;
  expect_error(small_llama(), parallel, "SP0032", "sequence length");
  parallel.sequence_parallel = false;
  EXPECT_FALSE(error_of(small_llama(), parallel));
  parallel = degrees(4, 2);
  parallel.seq_length = 128;
  expect_error(small_gpt2(), parallel, "SP0032", "positions");
  expect_error(small_llama(), parallel, "SP0032", "positions");
  parallel.seq_length = 64;
  EXPECT_FALSE(error_of(small_llama(), parallel));

  ModelConfig model = small_llama();
  model.num_heads = 6;
  expect_error(model, degrees(4, 1), "SP0031", "attention heads");
  model = small_llama();
  model.intermediate_size = 50;
  expect_error(model, degrees(4, 1), "SP0031", "intermediate size");
  model = small_llama();
  model.num_heads = 12;
  model.num_kv_heads = 6;
  expect_error(model, degrees(4, 1), "SP0031", "kv heads");
}

TEST(PlanDegrees, SizesBeyondTheLimitsAreErrors) {
  constexpr std::int64_t huge = std::int64_t{1} << 40;
  ParallelConfig parallel = degrees(2, 2);
  parallel.global_batch_size = huge;
  ModelConfig model = small_llama();
  model.max_positions = huge;
  parallel.seq_length = huge;
  expect_error(model, parallel, "SP0032", "batch");
  parallel = degrees(2, 2);
  parallel.make_vocab_size_divisible_by = std::int64_t{1} << 31;  // tokens are i32
  expect_error(small_llama(), parallel, "SP0032", "vocabulary");
  parallel.make_vocab_size_divisible_by = std::int64_t{1} << 62;
  expect_error(small_llama(), parallel, "SP0032", "too large");
  model = small_llama();
  model.intermediate_size = huge;
  expect_error(model, degrees(2, 2), "SP0032", "weight");
  model = small_gpt2();
  model.max_positions = huge;
  expect_error(model, degrees(2, 2), "SP0032", "weight");
  model = small_llama(1000);
  model.intermediate_size = std::int64_t{1} << 34;
  expect_error(model, degrees(2, 2), "SP0032", "bucket");
}

TEST(PlanDegrees, WhatIsNotSupportedIsSaidSo) {
  ParallelConfig parallel = degrees(2, 2);
  parallel.context_parallel_size = 2;
  expect_error(small_llama(), parallel, "SP0033", "cp_comm_type");  // the default is p2p
  parallel.cp_comm_type = "a2a";
  expect_error(small_llama(), parallel, "SP0033", "cp_comm_type");
  parallel = degrees(2, 2);
  parallel.expert_model_parallel_size = 2;
  expect_error(small_llama(), parallel, "SP0033", "expert_model_parallel_size");
  parallel = degrees(2, 2);
  parallel.data_parallel_sharding_strategy = DataParallelSharding::optim_grads_params;
  expect_error(small_llama(), parallel, "SP0033", "data_parallel_sharding_strategy");
  parallel = degrees(2, 2);
  parallel.recompute_granularity = "selective";
  parallel.recompute_method = "block";
  expect_error(small_llama(), parallel, "SP0033", "selective recomputation has no method");
}

}  // namespace
}  // namespace shardproof::lowering

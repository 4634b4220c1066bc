#include "lowering/plan_parameters.h"

#include <gtest/gtest.h>

#include "lowering/build_reference.h"
#include "plan_models.h"

namespace shardproof::lowering {
namespace {

using testing::degrees;
using testing::small_gpt2;
using testing::small_llama;
using Digits = std::vector<ir::Digit>;

ParameterTable table(const ModelConfig& model, const ParallelConfig& parallel) {
  return plan_parameters(model, plan_degrees(model, parallel), pipeline_layout(model, parallel), 0);
}

TEST(PlanParameters, QueryKeyValueAreInterleavedPerKvGroup) {
  const ParameterTable t = table(small_llama(), degrees(2, 1));
  const PlanParameter& qkv = t.all[t.blocks[1].qkv];
  EXPECT_EQ(qkv.shape, (ir::Shape{2 * (2 + 2) * 4, 32}));
  EXPECT_EQ(qkv.binding.fuse_axis, 1);
  ASSERT_EQ(qkv.binding.fused.size(), 3U);
  EXPECT_EQ(qkv.binding.fused[0].of, "model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(qkv.binding.fused[0].placement.dims[0].digits, (Digits{{"tp", 1, 2}, {"", 1, 2}, {"", 1, 2}, {"", 1, 4}}));
  EXPECT_EQ(qkv.binding.fused[1].placement.dims[0].digits, (Digits{{"tp", 1, 2}, {"", 1, 2}, {"", 1, 1}, {"", 1, 4}}));
  EXPECT_EQ(qkv.copies, ParameterCopies::none);
}

TEST(PlanParameters, ReplicatedKvHeadsUseTheMajorAxisOnly) {
  const ParameterTable t = table(small_llama(), degrees(8, 1));
  const PlanParameter& qkv = t.all[t.blocks[0].qkv];
  EXPECT_EQ(qkv.shape, (ir::Shape{(1 + 2) * 4, 32}));
  EXPECT_EQ(qkv.binding.fused[0].placement.dims[0].digits,
            (Digits{{"tpk", 1, 4}, {"tpr", 1, 2}, {"", 1, 1}, {"", 1, 1}, {"", 1, 4}}));
  EXPECT_EQ(qkv.binding.fused[2].placement.dims[0].digits, (Digits{{"tpk", 1, 4}, {"", 1, 1}, {"", 1, 1}, {"", 1, 4}}));
  EXPECT_EQ(qkv.copies, ParameterCopies::kv_tail);
  EXPECT_EQ(qkv.tail_rows, 8);
}

TEST(PlanParameters, Gpt2ThirdsAreCutEach) {
  const ParameterTable t = table(small_gpt2(), degrees(4, 1));
  const PlanParameter& qkv = t.all[t.blocks[0].qkv];
  EXPECT_EQ(qkv.shape, (ir::Shape{32, 24}));
  EXPECT_EQ(qkv.binding.placement.dims[1].digits, (Digits{{"", 1, 3}, {"tp", 1, 4}, {"", 1, 8}}));
  EXPECT_EQ(t.all[t.blocks[0].fc2].binding.placement.dims[0].digits, (Digits{{"tp", 1, 4}, {"", 1, 12}}));
}

TEST(PlanParameters, TiedHeadIsTheEmbedding) {
  EXPECT_EQ(table(small_gpt2(), degrees(2, 1)).head, table(small_gpt2(), degrees(2, 1)).embedding);
  const ParameterTable untied = table(small_llama(), degrees(2, 1));
  EXPECT_NE(untied.head, untied.embedding);
  EXPECT_EQ(untied.all[untied.head].name, "lm_head.weight");
}

TEST(PlanParameters, PaddedRowsAreDeclared) {
  ModelConfig model = small_llama();
  model.vocab_size = 61;
  const ParameterTable t = table(model, degrees(2, 1));
  const ir::DimLayout& rows = t.all[t.embedding].binding.placement.dims[0];
  EXPECT_EQ(rows.padded_extent, 64);
  EXPECT_EQ(t.all[t.embedding].shape, (ir::Shape{32, 32}));
  const ParameterTable whole = table(small_llama(), degrees(2, 1));
  EXPECT_EQ(whole.all[whole.embedding].binding.placement.dims[0].padded_extent, 0);
}

// Decay groups and element counts are those of the reference.
TEST(PlanParameters, AgreeWithTheReferenceParameters) {
  for (const ModelConfig& model : {small_llama(), small_gpt2()}) {
    const ParameterTable t = table(model, degrees(2, 1));
    std::map<std::string, bool> decay;
    for (const PlanParameter& parameter : t.all) {
      if (!parameter.binding.of.empty()) decay[parameter.binding.of] = parameter.decay;
      for (const ir::FusedPart& part : parameter.binding.fused) decay[part.of] = parameter.decay;
    }
    const std::vector<ParameterInfo> reference = list_parameters(model);
    EXPECT_EQ(decay.size(), reference.size());
    for (const ParameterInfo& info : reference) {
      ASSERT_TRUE(decay.contains(info.name)) << info.name;
      EXPECT_EQ(decay[info.name], has_weight_decay(info)) << info.name;
    }
  }
}

}  // namespace
}  // namespace shardproof::lowering

#include "lowering/parallel_config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "lowering/setup_fields.h"
#include "lowering/training_config.h"

namespace shardproof::lowering {
namespace {

const char kTwo[] = R"({
  "8b": {"model": "llama-3.1-8b.json", "world_size": 64, "tensor_model_parallel_size": 8, "sequence_parallel": true,
         "use_distributed_optimizer": true, "micro_batch_size": 1, "global_batch_size": 128, "seq_length": 8192},
  "405b": {"world_size": 16384, "tensor_model_parallel_size": 8, "pipeline_model_parallel_size": 16,
           "context_parallel_size": 16, "cp_comm_type": "all_gather", "data_parallel_sharding_strategy": "optim_grads",
           "global_batch_size": 128, "seq_length": 131072, "clip_grad": 0.5, "adam_beta2": 0.999, "adam_eps": 1e-5}
})";

std::shared_ptr<const ir::SourceFile> file(std::string text) {
  return std::make_shared<ir::SourceFile>("parallel.json", std::move(text));
}

TEST(ParallelConfig, SelectsByName) {
  ir::DiagnosticSink sink;
  const auto config = read_parallel_config(file(kTwo), sink, "405b");
  ASSERT_TRUE(config) << (sink.ok() ? "" : sink.diagnostics()[0].message);
  EXPECT_EQ(config->name, "405b");
  EXPECT_EQ(config->data_parallel_size(), 8);
  EXPECT_EQ(config->num_microbatches(), 16);
  EXPECT_EQ(config->cp_comm_type, "all_gather");
  EXPECT_EQ(config->data_parallel_sharding_strategy, DataParallelSharding::optim_grads);
  EXPECT_EQ(config->clip_grad, ir::Rational(1, 2));
  EXPECT_FALSE(config->sequence_parallel);
}

TEST(ParallelConfig, DistributedOptimizerShardsTheOptimizer) {
  ir::DiagnosticSink sink;
  const auto config = read_parallel_config(file(kTwo), sink, "8b");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->data_parallel_sharding_strategy, DataParallelSharding::optim);
  EXPECT_EQ(config->model, "llama-3.1-8b.json");
  EXPECT_TRUE(config->sequence_parallel);
}

TEST(ParallelConfig, SeveralNeedAName) {
  ir::DiagnosticSink sink;
  EXPECT_FALSE(read_parallel_config(file(kTwo), sink));
  EXPECT_FALSE(read_parallel_config(file(kTwo), sink, "70b"));
  ASSERT_EQ(sink.diagnostics().size(), 2u);
  EXPECT_EQ(sink.diagnostics()[0].code, "SP0020");
  EXPECT_EQ(sink.diagnostics()[0].expected, "one of `8b`, `405b`");
  EXPECT_EQ(sink.diagnostics()[1].found, "`70b`");
}

TEST(ParallelConfig, SingleObjectNeedsNoName) {
  ir::DiagnosticSink sink;
  const auto config =
      read_parallel_config(file(R"({"world_size": 4, "global_batch_size": 8, "seq_length": 16})"), sink);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->data_parallel_size(), 4);
  EXPECT_EQ(config->num_microbatches(), 2);
}

struct Misfit {
  const char* text;
  const char* code;
};
class ParallelConfigMisfit : public ::testing::TestWithParam<Misfit> {};

TEST_P(ParallelConfigMisfit, IsRefused) {
  ir::DiagnosticSink sink;
  EXPECT_FALSE(read_parallel_config(file(GetParam().text), sink));
  ASSERT_FALSE(sink.diagnostics().empty());
  EXPECT_EQ(sink.diagnostics()[0].code, GetParam().code);
}

INSTANTIATE_TEST_SUITE_P(
    Degrees, ParallelConfigMisfit,
    ::testing::Values(
        Misfit{R"({"world_size": 6, "tensor_model_parallel_size": 4, "global_batch_size": 8, "seq_length": 8})",
               "SP0023"},
        Misfit{R"({"world_size": 4, "global_batch_size": 6, "seq_length": 8})", "SP0023"},
        Misfit{R"({"world_size": 4, "expert_model_parallel_size": 3, "global_batch_size": 4, "seq_length": 8})",
               "SP0023"},
        Misfit{R"({"world_size": 4, "global_batch_size": 4, "seq_length": 8, "fp16": true, "bf16": true})", "SP0023"},
        Misfit{
            R"({"world_size": 4, "tensor_model_parallel_size": 1099511627776, "pipeline_model_parallel_size": 1099511627776,
                   "global_batch_size": 4, "seq_length": 8})",
            "SP0023"},
        Misfit{R"({"world_size": 1099511627776, "global_batch_size": 8, "seq_length": 8})", "SP0021"},
        Misfit{R"({"global_batch_size": 6, "seq_length": 8})", "SP0020"},
        Misfit{R"({"world_size": 4, "global_batch_size": 4, "seq_length": 8, "cp_comm_type": "ring"})", "SP0022"},
        Misfit{R"({"world_size": 4, "global_batch_size": 4, "seq_length": 8, "clip_grad": -1})", "SP0021"},
        Misfit{R"([1])", "SP0021"}));

TEST(TrainingConfig, ReadsItsKeysExactlyAndKeepsDefaults) {
  ir::DiagnosticSink sink;
  const auto training = read_training_config(file(kTwo), sink, "405b");
  ASSERT_TRUE(training);
  EXPECT_EQ(training->adam_beta1, ir::Rational(9, 10));
  EXPECT_EQ(training->adam_beta2, ir::Rational(999, 1000));
  EXPECT_EQ(training->adam_eps, ir::Rational(1, 100000));
  EXPECT_EQ(training->weight_decay, ir::Rational(1, 10));
  EXPECT_EQ(training->clip_grad, ir::Rational(1, 2));
}

TEST(TrainingConfig, RefusesValuesThatDivideByZero) {
  for (const char* text :
       {R"({"adam_beta1": 1, "a": 0})", R"({"adam_beta2": 1.0, "a": 0})", R"({"adam_eps": 0, "a": 0})",
        R"({"adam_beta1": 1.5, "a": 0})", R"({"weight_decay": "0.1", "a": 0})"}) {
    ir::DiagnosticSink sink;
    EXPECT_FALSE(read_training_config(file(text), sink)) << text;
    ASSERT_FALSE(sink.diagnostics().empty());
    EXPECT_EQ(sink.diagnostics()[0].code, "SP0021") << text;
  }
}

// A small set-up with one more field, which gets exactly one finding.
ir::Diagnostic finding_for(const std::string& field) {
  const auto source = file(R"({"small": {"world_size": 4, "global_batch_size": 8, "seq_length": 16, )" + field + "}}");
  ir::DiagnosticSink sink;
  EXPECT_FALSE(read_parallel_config(source, sink, "small")) << field;
  EXPECT_EQ(sink.diagnostics().size(), 1u) << field;
  return sink.diagnostics().empty() ? ir::Diagnostic{} : sink.diagnostics()[0];
}

TEST(SetupFields, UnknownOnesAreErrorsWithTheirPlaceAndTheNearest) {
  const ir::Diagnostic finding = finding_for(R"("tensor_model_paralell_size": 2)");
  EXPECT_EQ(finding.code, "SP0026");
  EXPECT_EQ(finding.message, "there is no setting `tensor_model_paralell_size`");
  ASSERT_TRUE(finding.fix);
  EXPECT_EQ(finding.fix->message, "did you mean `tensor_model_parallel_size`?");
  ASSERT_EQ(finding.labels.size(), 1u);
  EXPECT_EQ(finding.labels[0].span.end - finding.labels[0].span.begin, 28u);  // the name in its quotes
  ASSERT_EQ(finding.notes.size(), 1u);
  EXPECT_EQ(finding.notes[0], "in set-up `small`");
  EXPECT_FALSE(finding_for(R"("x_of_nothing_known_at_all": 2)").fix);
}

TEST(SetupFields, ASequenceHasTwoTokens) {
  for (const char* length : {"1", "0", "\"x\""}) {
    ir::DiagnosticSink sink;
    EXPECT_FALSE(read_parallel_config(file(std::string(R"({"world_size": 4, "global_batch_size": 8, "seq_length": )") + length + "}"), sink));
    ASSERT_EQ(sink.diagnostics().size(), 1u) << length;
    EXPECT_EQ(sink.diagnostics()[0].code, "SP0021") << length;
  }
}

TEST(SetupFields, WhatIsNotSupportedIsRefusedUnlessNeutral) {
  for (const char* field :
       {R"("optimizer": "sgd")", R"("use_torch_fsdp2": true)", R"("num_layers_per_virtual_pipeline_stage": 2)",
        R"("expert_tensor_parallel_size": 2)", R"("hidden_dropout": 0.1)", R"("attention_dropout": 0.1)",
        R"("num_experts": 8)", R"("optimizer": {})", R"("hidden_dropout": "0")"}) {
    const ir::Diagnostic finding = finding_for(field);
    EXPECT_EQ(finding.code, "SP0025") << field;
    EXPECT_FALSE(finding.notes.empty()) << field;
  }
  EXPECT_EQ(finding_for(R"("data_parallel_size": 2)").code, "SP0023");
  ir::DiagnosticSink sink;
  EXPECT_TRUE(read_parallel_config(
      file(R"({"world_size": 4, "global_batch_size": 8, "seq_length": 16, "optimizer": "adam", "hidden_dropout": 0.0,
             "num_experts": null, "data_parallel_size": 4, "lr": 1e-4, "use_torch_fsdp2": false})"),
      sink));
  EXPECT_TRUE(sink.diagnostics().empty());
}

TEST(SetupFields, FieldsThatRepeatTheModelMustAgree) {
  ModelConfig model;
  model.num_layers = 2;
  const auto agrees = [&](const std::string& field, const std::string& name = {}) {
    ir::DiagnosticSink sink;
    const bool good = check_setup_model(file("{\"s\": {" + field + "}}"), sink, name, model);
    EXPECT_EQ(good, sink.diagnostics().empty());
    for (const ir::Diagnostic& finding : sink.diagnostics()) EXPECT_EQ(finding.code, "SP0023");
    return good;
  };
  EXPECT_TRUE(agrees(R"("num_layers": 2, "untie_embeddings_and_output_weights": true, "swiglu": true)"));
  EXPECT_FALSE(agrees(R"("num_layers": 3)"));
  EXPECT_FALSE(agrees(R"("untie_embeddings_and_output_weights": false)"));
  EXPECT_FALSE(agrees(R"("normalization": "LayerNorm")"));
}

// What runs of Llama models always say, and what it contradicts in another model.
TEST(SetupFields, ArgumentsOfLlamaRunsAreTakenWhereTheyAreTrue) {
  ModelConfig llama;
  llama.num_heads = 32;
  llama.num_kv_heads = 8;
  llama.rope_theta = 500000;
  llama.norm_eps = ir::Rational(1, 100000);
  llama.rope_scaling = RopeScaling{"llama3", 8.0, 1.0, 4.0, 8192};
  ModelConfig multi_head = llama;
  multi_head.num_kv_heads = 32;
  multi_head.rope_scaling.reset();
  ModelConfig gpt2 = multi_head;
  gpt2.family = ModelFamily::gpt2;
  const auto agrees = [](const ModelConfig& model, const std::string& field) {
    ir::DiagnosticSink sink;
    check_setup_model(file("{\"s\": {" + field + "}}"), sink, {}, model);
    for (const ir::Diagnostic& finding : sink.diagnostics()) {
      EXPECT_EQ(finding.code, "SP0023") << field;
      EXPECT_FALSE(finding.found.empty()) << field;
    }
    return sink.diagnostics().empty();
  };
  EXPECT_TRUE(agrees(llama, R"("disable_bias_linear": true, "add_qkv_bias": false, "group_query_attention": true,
      "num_query_groups": 8, "rotary_base": 500000, "norm_epsilon": 1e-05, "use_rotary_position_embeddings": true,
      "no_position_embedding": true, "use_rope_scaling": true, "rope_scaling_factor": 8.0)"));
  for (const char* field :
       {R"("disable_bias_linear": false)", R"("add_qkv_bias": true)", R"("group_query_attention": false)",
        R"("rotary_base": 10000)", R"("norm_epsilon": 1e-06)", R"("use_rotary_position_embeddings": false)",
        R"("use_rope_scaling": false)", R"("rope_scaling_factor": 32)", R"("num_query_groups": 1)"}) {
    EXPECT_FALSE(agrees(llama, field)) << field;
  }
  EXPECT_FALSE(agrees(multi_head, R"("use_rope_scaling": true)"));
  EXPECT_FALSE(agrees(multi_head, R"("group_query_attention": true)"));
  EXPECT_TRUE(agrees(multi_head, R"("group_query_attention": true, "num_query_groups": 32)"));
  EXPECT_TRUE(agrees(gpt2, R"("rotary_base": 10000, "disable_bias_linear": false, "add_qkv_bias": true)"));
  for (const char* field : {R"("disable_bias_linear": true)", R"("use_rotary_position_embeddings": true)",
                            R"("no_position_embedding": true)", R"("use_rope_scaling": true)"}) {
    EXPECT_FALSE(agrees(gpt2, field)) << field;
  }
}

TEST(SetupFields, ANameIsCheckedAlsoInASingleSetup) {
  ir::DiagnosticSink sink;
  EXPECT_FALSE(
      read_parallel_config(file(R"({"world_size": 4, "global_batch_size": 8, "seq_length": 16})"), sink, "foo"));
  ASSERT_EQ(sink.diagnostics().size(), 1u);
  EXPECT_EQ(sink.diagnostics()[0].code, "SP0020");
  EXPECT_EQ(sink.diagnostics()[0].found, "`foo`");
}

TEST(SetupFields, AreDocumented) {
  std::ifstream page(SHARDPROOF_SOURCE_DIR "/tools/README.md");
  std::stringstream text;
  text << page.rdbuf();
  for (const std::string_view field : setup_fields()) {
    EXPECT_NE(text.str().find("`" + std::string(field) + "`"), std::string::npos) << field;
  }
}

}  // namespace
}  // namespace shardproof::lowering

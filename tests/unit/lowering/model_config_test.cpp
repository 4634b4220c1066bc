#include "lowering/model_config.h"

#include <gtest/gtest.h>

namespace shardproof::lowering {
namespace {

const char kLlama405b[] = R"({
  "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
  "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126,
  "num_attention_heads": 128, "num_key_value_heads": 8, "vocab_size": 128256,
  "max_position_embeddings": 131072, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
  "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                   "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": false
})";

const char kGpt2[] = R"({
  "model_type": "gpt2", "activation_function": "gelu_new", "n_embd": 768, "n_layer": 12, "n_head": 12,
  "n_positions": 1024, "vocab_size": 50257, "layer_norm_epsilon": 1e-05,
  "attn_pdrop": 0.1, "embd_pdrop": 0.0, "resid_pdrop": 0.1
})";

struct Read {
  std::shared_ptr<const ir::SourceFile> source;
  ir::DiagnosticSink sink;
  std::optional<ModelConfig> model;

  const ir::Diagnostic& only() const { return sink.diagnostics().at(0); }
  std::string place() const {
    const ir::Span span = only().labels.at(0).span;
    return std::string(source->text().substr(span.begin, span.end - span.begin));
  }
};

Read read(std::string text, bool dropout_to_zero = false) {
  Read result;
  result.source = std::make_shared<ir::SourceFile>("config.json", std::move(text));
  result.model = read_model_config(result.source, result.sink, {dropout_to_zero});
  return result;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ModelConfig, AWidthOfOneHasNoNorm) {
  const Read llama = read(replaced(replaced(kLlama405b, "16384", "1"), "\"attention_bias\"", "\"head_dim\": 128, \"attention_bias\""));
  ASSERT_EQ(llama.sink.diagnostics().size(), 1u);
  EXPECT_EQ(llama.only().code, "SP0021");
  const Read gpt2 = read(replaced(replaced(kGpt2, "768", "1"), "\"n_head\": 12", "\"n_head\": 1"), true);
  ASSERT_EQ(gpt2.sink.diagnostics().size(), 1u);
  EXPECT_EQ(gpt2.only().code, "SP0021");
}

TEST(ModelConfig, ReadsPublishedLlama) {
  const Read r = read(kLlama405b);
  ASSERT_TRUE(r.model);
  EXPECT_TRUE(r.sink.ok());
  EXPECT_EQ(r.model->family, ModelFamily::llama);
  EXPECT_EQ(r.model->hidden_size, 16384);
  EXPECT_EQ(r.model->intermediate_size, 53248);
  EXPECT_EQ(r.model->num_layers, 126);
  EXPECT_EQ(r.model->num_heads, 128);
  EXPECT_EQ(r.model->num_kv_heads, 8);
  EXPECT_EQ(r.model->head_dim, 128);
  EXPECT_EQ(r.model->vocab_size, 128256);
  EXPECT_EQ(r.model->norm_eps, ir::Rational(1, 100000));
  EXPECT_EQ(r.model->rope_theta, 500000.0);
  ASSERT_TRUE(r.model->rope_scaling);
  EXPECT_EQ(r.model->rope_scaling->type, "llama3");
  EXPECT_EQ(r.model->rope_scaling->original_max_position_embeddings, 8192);
  EXPECT_FALSE(r.model->tie_word_embeddings);
}

// The published totals: 405.85 B for Llama 3.1 405B, 124.4 M for GPT-2 small (tied head counted once).
TEST(ModelConfig, ParameterCountsArePublishedOnes) {
  EXPECT_EQ(parameter_count(*read(kLlama405b).model), 405853388800);
  EXPECT_EQ(parameter_count(*read(kGpt2, true).model), 124439808);
}

TEST(ModelConfig, ReadsGpt2WithDefaults) {
  const Read r = read(kGpt2, true);
  ASSERT_TRUE(r.model);
  EXPECT_EQ(r.model->family, ModelFamily::gpt2);
  EXPECT_EQ(r.model->intermediate_size, 3072);
  EXPECT_EQ(r.model->num_kv_heads, 12);
  EXPECT_EQ(r.model->head_dim, 64);
  EXPECT_TRUE(r.model->tie_word_embeddings);
  EXPECT_EQ(r.model->activation, "gelu_new");
}

TEST(ModelConfig, RefusesDropoutUnlessAsked) {
  const Read r = read(kGpt2);
  EXPECT_FALSE(r.model);
  ASSERT_EQ(r.sink.diagnostics().size(), 2u);
  EXPECT_EQ(r.only().code, "SP0024");
  EXPECT_EQ(r.only().found, "0.1");
  EXPECT_EQ(r.place(), "0.1");
}

// GPT2Config's default is 0.1, so an absent field is dropout too.
TEST(ModelConfig, AbsentGpt2DropoutIsTheDefault) {
  const Read r =
      read(replaced(replaced(kGpt2, R"("attn_pdrop": 0.1, )", ""), R"("resid_pdrop": 0.1)", R"("resid_pdrop": 0)"));
  EXPECT_FALSE(r.model);
  ASSERT_EQ(r.sink.diagnostics().size(), 1u);
  EXPECT_EQ(r.only().found, "0.1 (the default)");
}

TEST(ModelConfig, UnknownModelType) {
  const Read r = read(R"({"model_type": "mixtral"})");
  EXPECT_FALSE(r.model);
  ASSERT_EQ(r.sink.diagnostics().size(), 1u);
  EXPECT_EQ(r.only().code, "SP0022");
  EXPECT_EQ(r.only().expected, "one of `llama`, `gpt2`");
  EXPECT_EQ(r.only().found, "\"mixtral\"");
  EXPECT_EQ(r.place(), "\"mixtral\"");
}

TEST(ModelConfig, MissingAndBadNumbersAreAllReported) {
  const Read r = read(replaced(replaced(kLlama405b, R"("hidden_size": 16384,)", ""), "126", "-3"));
  EXPECT_FALSE(r.model);
  ASSERT_GE(r.sink.diagnostics().size(), 2u);
  EXPECT_EQ(r.sink.diagnostics()[0].code, "SP0020");
  EXPECT_NE(r.sink.diagnostics()[0].message.find("`hidden_size`"), std::string::npos);
  EXPECT_EQ(r.sink.diagnostics()[1].code, "SP0021");
  EXPECT_EQ(r.sink.diagnostics()[1].found, "-3");
}

struct BadField {
  const char* from;
  const char* to;
  const char* code;
};

class ModelConfigBadField : public ::testing::TestWithParam<BadField> {};

TEST_P(ModelConfigBadField, IsRefusedWithItsCode) {
  const Read r = read(replaced(kLlama405b, GetParam().from, GetParam().to));
  EXPECT_FALSE(r.model);
  ASSERT_FALSE(r.sink.diagnostics().empty());
  EXPECT_EQ(r.only().code, GetParam().code);
}

INSTANTIATE_TEST_SUITE_P(
    Llama, ModelConfigBadField,
    ::testing::Values(BadField{"16384", "1.5", "SP0021"}, BadField{"16384", "\"16384\"", "SP0021"},
                      BadField{"16384", "99999999999999999999", "SP0021"}, BadField{"126", "0", "SP0021"},
                      BadField{"126", "100000000", "SP0021"}, BadField{"1e-05", "-1e-05", "SP0021"},
                      BadField{"500000.0", "0", "SP0021"}, BadField{"500000.0", "1e13", "SP0021"},
                      BadField{"\"factor\": 8.0", "\"factor\": 1e6", "SP0021"},
                      BadField{"\"silu\"", "\"gelu\"", "SP0022"}, BadField{"\"llama3\"", "\"yarn\"", "SP0022"},
                      BadField{"\"factor\": 8.0,", "", "SP0020"},
                      BadField{"\"num_key_value_heads\": 8", "\"num_key_value_heads\": 7", "SP0023"},
                      BadField{"\"num_attention_heads\": 128", "\"num_attention_heads\": 96", "SP0023"},
                      BadField{"\"high_freq_factor\": 4.0", "\"high_freq_factor\": 1.0", "SP0023"},
                      BadField{"\"attention_bias\": false", "\"attention_bias\": true", "SP0025"},
                      BadField{"\"mlp_bias\": false", "\"mlp_bias\": 1", "SP0021"},
                      BadField{"\"mlp_bias\": false", "\"attention_dropout\": 0.5", "SP0024"},
                      BadField{"{", "[", "SP0001"}));

TEST(ModelConfig, AMissingFieldIsOneError) {
  for (const char* field : {"\"num_attention_heads\": 128, ", "\"hidden_size\": 16384, "}) {
    const Read r = read(replaced(kLlama405b, field, ""));
    EXPECT_FALSE(r.model);
    ASSERT_EQ(r.sink.diagnostics().size(), 1u) << field;
    EXPECT_EQ(r.only().code, "SP0020");
  }
  const Read rope = read(replaced(kLlama405b, R"("high_freq_factor": 4.0, "low_freq_factor": 1.0,)", ""));
  EXPECT_FALSE(rope.model);
  EXPECT_EQ(rope.sink.diagnostics().size(), 2u);  // both are missing
}

std::string with(const char* config, const std::string& field) {
  return replaced(config, "{", "{" + field + ", ");
}

TEST(ModelConfig, FieldsThatChangeTheComputationAreRefusedUnlessNeutral) {
  for (const char* field :
       {R"("sliding_window": 4096)", R"("partial_rotary_factor": 0.5)", R"("use_qk_norm": true)",
        R"("logit_scale": 0.0625)", R"("num_local_experts": 8)", R"("quantization_config": {"bits": 4})",
        R"("pruned_heads": {"0": [1]})", R"("rope_parameters": {"rope_type": "default"})"}) {
    const Read r = read(with(kLlama405b, field));
    EXPECT_FALSE(r.model) << field;
    ASSERT_FALSE(r.sink.diagnostics().empty()) << field;
    EXPECT_EQ(r.sink.diagnostics().back().code, "SP0025") << field;
  }
  const Read neutral =
      read(with(kLlama405b, R"("sliding_window": null, "partial_rotary_factor": 1.0, "pruned_heads": {},
                "torch_dtype": "bfloat16", "transformers_version": "4.43.0", "use_cache": true, "eos_token_id": [1, 2])"));
  EXPECT_TRUE(neutral.model);
  EXPECT_TRUE(neutral.sink.diagnostics().empty());
  EXPECT_FALSE(read(with(kGpt2, R"("head_dim": 32)"), true).model);
  EXPECT_TRUE(read(with(kGpt2, R"("head_dim": 64)"), true).model);
}

TEST(ModelConfig, UnknownFieldsAreWarnings) {
  const Read r = read(with(kLlama405b, R"("num_key_value_head": 4)"));
  EXPECT_TRUE(r.model);
  ASSERT_EQ(r.sink.diagnostics().size(), 1u);
  EXPECT_EQ(r.only().code, "SP0027");
  EXPECT_EQ(r.only().severity, ir::Severity::warning);
  EXPECT_EQ(r.place(), "\"num_key_value_head\"");
  ASSERT_TRUE(r.only().fix);
  EXPECT_EQ(r.only().fix->message, "did you mean `num_key_value_heads`?");
}

TEST(ModelConfig, ExplicitHeadDimNeedNotDivideHidden) {
  const Read r =
      read(replaced(kLlama405b, "\"num_attention_heads\": 128", "\"num_attention_heads\": 96, \"head_dim\": 64"));
  ASSERT_TRUE(r.model);
  EXPECT_EQ(r.model->head_dim, 64);
}

}  // namespace
}  // namespace shardproof::lowering

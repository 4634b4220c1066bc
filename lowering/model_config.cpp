#include "lowering/model_config.h"

#include <vector>

#include "lowering/build_reference.h"
#include "lowering/config_object.h"

namespace shardproof::lowering {
namespace {

constexpr std::int64_t kMostLayers = 1 << 16;  // the reference grows with the layers: keep hostile files small

// Dropout makes the step depend on a random stream that the reference does not have. Publishers leave fields out
// when they equal the default of their configuration class, so the default counts too.
void check_dropout(ConfigObject& config, std::string_view key, std::string_view default_text,
                   const ReadModelOptions& options) {
  const ir::JsonNode* node = config.find(key);
  const std::string found = node != nullptr ? describe_node(*node) : std::string(default_text) + " (the default)";
  const std::optional<ir::Rational> value =
      ir::parse_rational(node == nullptr                      ? default_text
                         : node->kind == ir::JsonKind::number ? node->text
                                                              : std::string_view());
  if (!value || ir::sign(*value) < 0 || ir::compare(*value, ir::Rational(1)) >= 0) {
    config.bad_value(key, "a number from 0 up to, but not including, 1", found);
    return;
  }
  if (value->is_zero() || options.dropout_to_zero) return;
  config.sink().error(
      "SP0024", "dropout",
      "the model is trained with dropout `" + std::string(key) + "`, which the reference step does not have",
      config.span_of(key), "0", found, "set `" + std::string(key) + "` to 0, or ask to read dropout as 0");
}

void refuse_flag(ConfigObject& config, std::string_view key, bool supported, bool default_value) {
  if (config.flag(key, default_value) == supported) return;
  config.unsupported(key, "`" + std::string(key) + "` = " + (supported ? "false" : "true") + " is not supported");
}

void read_rope_scaling(ConfigObject& config, ModelConfig& model) {
  // transformers 5 moved theta and the scaling into one object.
  std::optional<ir::JsonRef> object = config.find_object("rope_parameters");
  const bool merged = object.has_value();
  if (!merged) {
    model.rope_theta = config.real("rope_theta", 10000.0);
    object = config.find_object("rope_scaling");
    if (!object) return;
  }
  ConfigObject rope(*object, config.sink());
  if (merged) model.rope_theta = rope.real("rope_theta", 10000.0);
  const char* type_key = rope.find("rope_type") != nullptr || rope.find("type") == nullptr ? "rope_type" : "type";
  RopeScaling scaling;
  scaling.type = rope.choice(type_key, {"default", "linear", "llama3"},
                             merged ? std::optional<std::string>("default") : std::nullopt);
  if (scaling.type.empty() || scaling.type == "default") return;
  scaling.factor = rope.real("factor");
  if (scaling.type == "llama3") {
    scaling.low_freq_factor = rope.real("low_freq_factor");
    scaling.high_freq_factor = rope.real("high_freq_factor");
    scaling.original_max_position_embeddings = rope.positive("original_max_position_embeddings");
    if (scaling.high_freq_factor <= scaling.low_freq_factor) {
      rope.inconsistent("high_freq_factor", "`high_freq_factor` must exceed `low_freq_factor`",
                        "above " + describe_node(*rope.find("low_freq_factor")),
                        describe_node(*rope.find("high_freq_factor")));
    }
  }
  model.rope_scaling = scaling;
}

void check_heads(ConfigObject& config, const ModelConfig& model, std::string_view hidden_key,
                 std::string_view heads_key) {
  if (config.find("head_dim") == nullptr && model.hidden_size % model.num_heads != 0) {
    config.inconsistent(hidden_key, "the hidden size is not a multiple of the number of heads",
                        "a multiple of " + std::to_string(model.num_heads), std::to_string(model.hidden_size));
  }
  if (model.num_heads % model.num_kv_heads != 0) {
    config.inconsistent("num_key_value_heads", "`num_key_value_heads` does not divide `" + std::string(heads_key) + "`",
                        "a divisor of " + std::to_string(model.num_heads), std::to_string(model.num_kv_heads));
  }
}

ModelConfig read_llama(ConfigObject& config, const ReadModelOptions& options) {
  ModelConfig model;
  model.family = ModelFamily::llama;
  model.hidden_size = config.positive("hidden_size");
  model.intermediate_size = config.positive("intermediate_size");
  model.num_layers = config.positive("num_hidden_layers", std::nullopt, kMostLayers);
  model.num_heads = config.positive("num_attention_heads");
  model.num_kv_heads = config.positive("num_key_value_heads", model.num_heads);
  model.vocab_size = config.positive("vocab_size");
  model.max_positions = config.positive("max_position_embeddings");
  model.head_dim = config.positive("head_dim", std::max<std::int64_t>(1, model.hidden_size / model.num_heads));
  model.norm_eps = config.rational("rms_norm_eps", ir::Rational(1, 1000000), ir::Rational(0), ir::Rational(1));
  model.tie_word_embeddings = config.flag("tie_word_embeddings", false);
  model.activation = config.choice("hidden_act", {"silu"}, "silu");
  read_rope_scaling(config, model);
  check_heads(config, model, "hidden_size", "num_attention_heads");
  if (model.head_dim % 2 != 0) {
    config.inconsistent(config.find("head_dim") != nullptr ? "head_dim" : "hidden_size",
                        "rotary embedding needs an even head dimension", "an even number",
                        std::to_string(model.head_dim));
  }
  refuse_flag(config, "attention_bias", false, false);
  refuse_flag(config, "mlp_bias", false, false);
  check_dropout(config, "attention_dropout", "0", options);
  return model;
}

ModelConfig read_gpt2(ConfigObject& config, const ReadModelOptions& options) {
  ModelConfig model;
  model.family = ModelFamily::gpt2;
  model.hidden_size = config.positive("n_embd");
  model.intermediate_size = config.positive("n_inner", 4 * model.hidden_size);
  model.num_layers = config.positive("n_layer", std::nullopt, kMostLayers);
  model.num_heads = config.positive("n_head");
  model.num_kv_heads = model.num_heads;
  model.vocab_size = config.positive("vocab_size");
  model.max_positions = config.positive("n_positions");
  model.head_dim = std::max<std::int64_t>(1, model.hidden_size / model.num_heads);
  model.norm_eps = config.rational("layer_norm_epsilon", ir::Rational(1, 100000), ir::Rational(0), ir::Rational(1));
  model.tie_word_embeddings = config.flag("tie_word_embeddings", true);
  // gelu_new and gelu_pytorch_tanh are the same function.
  model.activation = config.choice("activation_function", {"gelu_new", "gelu_pytorch_tanh"}, "gelu_new");
  check_heads(config, model, "n_embd", "n_head");
  refuse_flag(config, "scale_attn_weights", true, true);
  refuse_flag(config, "scale_attn_by_inverse_layer_idx", false, false);
  refuse_flag(config, "add_cross_attention", false, false);
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) check_dropout(config, key, "0.1", options);
  return model;
}

}  // namespace

std::string_view family_name(ModelFamily family) {
  return family == ModelFamily::llama ? "llama" : "gpt2";
}

std::optional<ModelConfig> read_model_config(std::shared_ptr<const ir::SourceFile> source, ir::DiagnosticSink& sink,
                                             const ReadModelOptions& options) {
  const std::optional<ir::JsonTree> tree = ir::parse_json(*source, {}, sink);
  if (!tree) return std::nullopt;
  const ir::JsonRef root = tree->root();
  if (root->kind != ir::JsonKind::object) {
    sink.error("SP0021", "bad-setting", "a model configuration is a JSON object", root->span, "an object",
               describe_node(root.node()));
    return std::nullopt;
  }
  const std::size_t errors_before = sink.error_count();
  ConfigObject config(root, sink);
  const std::string type = config.choice("model_type", {"llama", "gpt2"});
  if (type.empty()) return std::nullopt;
  ModelConfig model = type == "llama" ? read_llama(config, options) : read_gpt2(config, options);
  if (sink.error_count() > errors_before) return std::nullopt;
  try {
    parameter_count(model);
  } catch (const std::overflow_error&) {
    config.inconsistent("model_type", "the model has more than 2^63 parameters", "fewer", "more");
    return std::nullopt;
  }
  return model;
}

std::int64_t parameter_count(const ModelConfig& model) {
  std::int64_t total = 0;
  for (const ParameterInfo& parameter : list_parameters(model)) {
    total = ir::checked_add(total, ir::element_count(parameter.shape));
  }
  return total;
}

}  // namespace shardproof::lowering

#include "lowering/model_config.h"

#include <vector>

#include "lowering/build_reference.h"
#include "lowering/config_object.h"
#include "lowering/model_fields.h"

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
      config.span_of(key), "0", found,
      "set `" + std::string(key) + "` to 0, or read dropout as 0 with `--dropout-to-zero`");
}

void refuse_flag(ConfigObject& config, std::string_view key, bool supported, bool default_value) {
  if (config.flag(key, default_value) == supported) return;
  config.unsupported(key, "`" + std::string(key) + "` = " + (supported ? "false" : "true") + " is not supported");
}

// Frequencies are exact fractions of 64 bits (rope_tables.cpp): far outside of these ranges there are none.
void check_range(ConfigObject& config, std::string_view key, double value, double least, double most,
                 std::string_view range) {
  if (config.find(key) == nullptr || (value >= least && value <= most)) return;
  config.bad_value(key, range, describe_node(*config.find(key)));
}

void read_rope_scaling(ConfigObject& config, ModelConfig& model) {
  // transformers 5 moved theta and the scaling into one object.
  std::optional<ir::JsonRef> object = config.find_object("rope_parameters");
  const bool merged = object.has_value();
  model.rope_theta = config.real("rope_theta", 10000.0);
  check_range(config, "rope_theta", model.rope_theta, 1, 1e12, "a number from 1 to 10^12");
  if (!merged) {
    object = config.find_object("rope_scaling");
    if (!object) return;
  }
  ConfigObject rope(*object, config.sink());
  check_rope_fields(rope);
  if (merged) {
    const double outer = model.rope_theta;
    model.rope_theta = rope.real("rope_theta", outer);
    if (model.rope_theta != outer) {
      check_range(rope, "rope_theta", model.rope_theta, 1, 1e12, "a number from 1 to 10^12");
    }
    if (config.find("rope_theta") != nullptr && model.rope_theta != outer) {
      config.inconsistent("rope_theta", "`rope_theta` is given twice",
                          describe_node(*rope.find("rope_theta")) + " (in `rope_parameters`)",
                          describe_node(*config.find("rope_theta")));
    }
    config.only_neutral("rope_scaling", "null", "`rope_parameters` says how positions are scaled");
  }
  const char* type_key = rope.find("rope_type") != nullptr || rope.find("type") == nullptr ? "rope_type" : "type";
  RopeScaling scaling;
  scaling.type = rope.choice(type_key, {"default", "linear", "llama3"},
                             merged ? std::optional<std::string>("default") : std::nullopt);
  if (scaling.type.empty() || scaling.type == "default") return;
  scaling.factor = rope.real("factor");
  check_range(rope, "factor", scaling.factor, 1e-3, 1e5, "a number from 0.001 to 100000");
  if (scaling.type == "llama3") {
    scaling.low_freq_factor = rope.real("low_freq_factor");
    scaling.high_freq_factor = rope.real("high_freq_factor");
    scaling.original_max_position_embeddings = rope.positive("original_max_position_embeddings");
    const bool both = rope.find("low_freq_factor") != nullptr && rope.find("high_freq_factor") != nullptr;
    if (both && scaling.high_freq_factor <= scaling.low_freq_factor) {
      rope.inconsistent("high_freq_factor", "`high_freq_factor` must exceed `low_freq_factor`",
                        "above " + describe_node(*rope.find("low_freq_factor")),
                        describe_node(*rope.find("high_freq_factor")));
    }
  }
  model.rope_scaling = scaling;
}

// Only of settings that were all read: a missing one is one error.
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

// The norm of a single number says nothing of it but its sign.
void check_width(ConfigObject& config, std::string_view hidden_key, const ModelConfig& model) {
  if (model.hidden_size < 2) config.bad_value(hidden_key, "at least 2, for the norms to have a meaning", "1");
}

ModelConfig read_llama(ConfigObject& config, const ReadModelOptions& options) {
  const std::size_t errors_before = config.sink().error_count();
  ModelConfig model;
  model.family = ModelFamily::llama;
  check_llama_fields(config);
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
  const bool complete = config.sink().error_count() == errors_before;
  read_rope_scaling(config, model);
  if (complete) check_heads(config, model, "hidden_size", "num_attention_heads");
  if (complete) check_width(config, "hidden_size", model);
  if (complete && model.head_dim % 2 != 0) {
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
  const std::size_t errors_before = config.sink().error_count();
  ModelConfig model;
  model.family = ModelFamily::gpt2;
  check_gpt2_fields(config);
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
  if (config.sink().error_count() == errors_before) {
    check_heads(config, model, "n_embd", "n_head");
    check_width(config, "n_embd", model);
    if (config.positive("head_dim", model.head_dim) != model.head_dim) {
      config.inconsistent("head_dim", "`head_dim` is not `n_embd` / `n_head`", std::to_string(model.head_dim),
                          describe_node(*config.find("head_dim")));
    }
  }
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

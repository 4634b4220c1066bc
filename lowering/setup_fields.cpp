#include "lowering/setup_fields.h"

#include <iomanip>
#include <iterator>
#include <limits>
#include <sstream>
#include <vector>

namespace shardproof::lowering {
namespace {

constexpr std::string_view kRead[] = {
    "model", "world_size", "tensor_model_parallel_size", "sequence_parallel", "use_distributed_optimizer",
    "data_parallel_sharding_strategy", "micro_batch_size", "global_batch_size", "seq_length",
    "make_vocab_size_divisible_by", "bucket_size", "ddp_bucket_size", "bf16", "fp16", "adam_beta1", "adam_beta2",
    "adam_eps", "weight_decay", "clip_grad", "pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size",
    "context_parallel_size", "cp_comm_type", "expert_model_parallel_size", "schedule", "pipeline_model_parallel_layout", "recompute_granularity",
    "recompute_method", "recompute_num_layers", "data_parallel_size",
    // These repeat the model.
    "num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "num_query_groups", "kv_channels",
    "max_position_embeddings", "vocab_size", "untie_embeddings_and_output_weights", "swiglu", "normalization",
    "position_embedding_type", "disable_bias_linear", "add_qkv_bias", "group_query_attention", "norm_epsilon",
    "rotary_base", "use_rotary_position_embeddings", "no_position_embedding", "use_rope_scaling",
    "rope_scaling_factor"};

// Megatron-LM arguments that change what the step computes or how it is spread. Only the neutral value is taken.
constexpr Unsupported kUnsupported[] = {
    {"optimizer", "adam", "the step of the bundled planner is AdamW"},
    {"decoupled_weight_decay", "true", "the step of the bundled planner is AdamW"},
    {"weight_decay_incr_style", "constant", "weight decay is a constant of the plan"},
    {"start_weight_decay", "null", "weight decay is a constant of the plan"},
    {"end_weight_decay", "null", "weight decay is a constant of the plan"},
    {"use_torch_fsdp2", "false", "sharded weights are not lowered"},
    {"use_megatron_fsdp", "false", "sharded weights are not lowered"},
    {"use_custom_fsdp", "false", "sharded weights are not lowered"},
    {"num_layers_per_virtual_pipeline_stage", "null", "give `virtual_pipeline_model_parallel_size` instead"},
    {"num_virtual_stages_per_pipeline_rank", "1", "give `virtual_pipeline_model_parallel_size` instead"},
    {"decoder_first_pipeline_num_layers", "null", "give `pipeline_model_parallel_layout` instead"},
    {"decoder_last_pipeline_num_layers", "null", "give `pipeline_model_parallel_layout` instead"},
    {"hierarchical_context_parallel_sizes", "null", "context parallelism has one level"},
    {"num_experts", "null", "experts are not lowered"},
    {"expert_tensor_parallel_size", "1", "experts are not lowered"},
    {"num_distributed_optimizer_instances", "1", "one instance of the distributed optimizer is lowered"},
    {"hidden_dropout", "0", "the step has no dropout"},
    {"attention_dropout", "0", "the step has no dropout"},
    {"rampup_batch_size", "null", "a plan has one batch size"},
    {"calculate_per_token_loss", "true", "the loss is the mean over the tokens of the whole batch"},
    {"qk_layernorm", "false", "normalised queries and keys are not lowered"},
    {"apply_residual_connection_post_layernorm", "false", "norms come before the blocks"},
    {"mtp_num_layers", "null", "multi-token prediction is not lowered"},
    {"fp8", "null", "no 8-bit arithmetic is lowered"},
    {"fp8_format", "null", "no 8-bit arithmetic is lowered"},
    {"recompute_activations", "false", "activation recomputation is not lowered"},
    {"apply_layernorm_1p", "false", "norms multiply by their weight"},
    {"squared_relu", "false", "the activation is the model's"},
    {"rotary_percent", "1", "positions turn whole heads"},
    {"rotary_interleaved", "false", "positions turn the halves of a head"},
    {"rotary_seq_len_interpolation_factor", "null", "positions are scaled as the model says"},
    {"reset_position_ids", "false", "positions are counted from the start of a sample"},
    {"reset_attention_mask", "false", "every position attends to all before it"},
};

// These change nothing that a step computes: speed, kernels, logs, data, and what varies from step to step.
constexpr std::string_view kIgnored[] = {
    // free text
    "comment",
    // what varies from step to step, and initial values
    "train_iters", "train_samples", "lr", "min_lr", "lr_decay_style", "lr_decay_iters", "lr_decay_samples",
    "lr_warmup_iters", "lr_warmup_fraction", "lr_warmup_samples", "lr_warmup_init", "init_method_std", "seed",
    // data and files
    "data_path", "split", "data_cache_path", "num_workers", "tokenizer_type", "tokenizer_model", "vocab_file",
    "merge_file", "save", "load", "save_interval", "eval_interval", "eval_iters", "log_interval", "log_throughput",
    "timing_log_level", "tensorboard_dir", "eod_mask_loss", "mock_data", "dataloader_type", "finetune",
    "no_load_optim", "no_load_rng", "no_save_optim", "no_save_rng", "no_create_attention_mask_in_dataloader",
    "wandb_project", "wandb_exp_name", "wandb_save_dir", "exit_duration_in_mins", "exit_interval",
    "use_dist_ckpt", "auto_detect_ckpt_format",
    // speed and rounding
    "distributed_backend", "distributed_timeout_minutes", "overlap_grad_reduce", "overlap_param_gather",
    "tp_comm_overlap", "accumulate_allreduce_grads_in_fp32", "attention_softmax_in_fp32", "use_flash_attn",
    "attention_backend", "transformer_impl", "use_mcore_models", "bias_swiglu_fusion", "bias_gelu_fusion",
    "masked_softmax_fusion", "gradient_accumulation_fusion", "cross_entropy_loss_fusion", "manual_gc", "ckpt_format",
    "no_masked_softmax_fusion", "no_bias_swiglu_fusion", "no_bias_gelu_fusion", "no_rope_fusion", "apply_rope_fusion",
    "no_gradient_accumulation_fusion", "no_persist_layer_norm", "cross_entropy_fusion_impl",
    "ddp_average_in_collective", "manual_gc_interval", "manual_gc_eval", "empty_unused_memory_level",
    "no_check_for_nan_in_loss_and_grad", "use_precision_aware_optimizer", "deterministic_mode"};

void contradicts(ConfigObject& config, std::string_view key, const std::string& expected) {
  config.inconsistent(key, "`" + std::string(key) + "` contradicts the model configuration", expected,
                      describe_node(*config.find(key)));
}

// Fields that repeat a number, a switch or a name of the model.
void agree(ConfigObject& config, std::string_view key, std::int64_t model_value) {
  if (config.find(key) == nullptr || config.positive(key, model_value) == model_value) return;
  contradicts(config, key, std::to_string(model_value));
}

void agree(ConfigObject& config, std::string_view key, double model_value) {
  if (config.find(key) == nullptr || config.real(key, model_value) == model_value) return;
  std::ostringstream expected;
  expected << std::setprecision(std::numeric_limits<double>::max_digits10) << model_value;
  contradicts(config, key, expected.str());
}

void agree(ConfigObject& config, std::string_view key, ir::Rational model_value) {
  if (config.rational(key, model_value, ir::Rational(0), ir::Rational(1)) == model_value) return;
  contradicts(config, key, ir::to_string(model_value));
}

void agree(ConfigObject& config, std::string_view key, bool model_value) {
  if (config.flag(key, model_value) != model_value) contradicts(config, key, model_value ? "true" : "false");
}

void agree(ConfigObject& config, std::string_view key, const std::string& model_value) {
  if (config.text(key, model_value) != model_value) contradicts(config, key, model_value);
}

// Key and value heads: with `group_query_attention` and no `num_query_groups` Megatron-LM takes one group.
void agree_heads(ConfigObject& config, const ModelConfig& model) {
  const bool grouped = model.num_kv_heads != model.num_heads;
  const bool asked = config.flag("group_query_attention", grouped);
  if (!asked && grouped) {
    contradicts(config, "group_query_attention", "true (" + std::to_string(model.num_kv_heads) + " key and value heads)");
  } else if (asked && config.find("num_query_groups") == nullptr && !grouped && model.num_heads != 1) {
    contradicts(config, "group_query_attention", "false (as many key and value heads as heads)");
  }
  agree(config, "num_query_groups", model.num_kv_heads);
}

// Learned positions have no use for a rotary base, which Megatron-LM lists for every model.
void agree_positions(ConfigObject& config, const ModelConfig& model) {
  const bool llama = model.family == ModelFamily::llama;
  agree(config, "position_embedding_type", std::string(llama ? "rope" : "learned_absolute"));
  agree(config, "use_rotary_position_embeddings", llama);
  if (!llama) {
    agree(config, "no_position_embedding", false);
    agree(config, "use_rope_scaling", false);
    return;
  }
  const bool scaled = model.rope_scaling && model.rope_scaling->type == "llama3";
  agree(config, "rotary_base", model.rope_theta);
  agree(config, "use_rope_scaling", scaled);
  if (scaled) agree(config, "rope_scaling_factor", model.rope_scaling->factor);
}

}  // namespace

std::span<const std::string_view> setup_fields() {
  return kRead;
}

void check_setup_fields(ConfigObject& config) {
  std::vector<std::string_view> known(std::begin(kRead), std::end(kRead));
  for (const Unsupported& field : kUnsupported) known.push_back(field.key);
  known.insert(known.end(), std::begin(kIgnored), std::end(kIgnored));
  config.refuse_unknown(known);
  for (const Unsupported& field : kUnsupported) config.only_neutral(field.key, field.neutral, field.reason);
}

bool check_setup_model(const std::shared_ptr<const ir::SourceFile>& source, ir::DiagnosticSink& sink,
                       const std::string& name, const ModelConfig& model) {
  const std::optional<ir::JsonTree> tree = ir::parse_json(*source, {}, sink);
  if (!tree) return false;
  std::string selected;
  const std::optional<ir::JsonRef> object = select_config(*tree, name, sink, &selected);
  if (!object) return false;
  const std::size_t errors_before = sink.error_count();
  ConfigObject config(*object, sink, setup_title(selected));
  const bool llama = model.family == ModelFamily::llama;
  agree(config, "num_layers", model.num_layers);
  agree(config, "hidden_size", model.hidden_size);
  agree(config, "ffn_hidden_size", model.intermediate_size);
  agree(config, "num_attention_heads", model.num_heads);
  agree_heads(config, model);
  agree(config, "kv_channels", model.head_dim);
  agree(config, "max_position_embeddings", model.max_positions);
  agree(config, "vocab_size", model.vocab_size);
  agree(config, "untie_embeddings_and_output_weights", !model.tie_word_embeddings);
  agree(config, "swiglu", llama);
  agree(config, "normalization", std::string(llama ? "RMSNorm" : "LayerNorm"));
  agree(config, "disable_bias_linear", llama);
  if (llama) agree(config, "add_qkv_bias", false);  // with biases everywhere it says nothing
  agree(config, "norm_epsilon", model.norm_eps);
  agree_positions(config, model);
  return sink.error_count() == errors_before;
}

ir::Span setup_place(const ir::SourceFile& source, const std::string& name, std::string_view key) {
  ir::DiagnosticSink sink;
  const std::optional<ir::JsonTree> tree = ir::parse_json(source, {}, sink);
  if (!tree) return {};
  const std::optional<ir::JsonRef> object = select_config(*tree, name, sink);
  return object ? ConfigObject(*object, sink).span_of(key) : ir::Span{};
}

}  // namespace shardproof::lowering

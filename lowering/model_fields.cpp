#include "lowering/model_fields.h"

#include <iterator>
#include <span>
#include <string_view>
#include <vector>

namespace shardproof::lowering {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::string_view kLlamaRead[] = {

    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
    "max_position_embeddings",
    "head_dim",
    "rms_norm_eps",
    "tie_word_embeddings",
    "hidden_act",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "attention_bias",
    "mlp_bias",
    "attention_dropout"};
constexpr std::string_view kGpt2Read[] = {

    "model_type",
    "n_embd",
    "n_inner",
    "n_layer",
    "n_head",
    "vocab_size",
    "n_positions",
    "head_dim",
    "layer_norm_epsilon",
    "tie_word_embeddings",
    "activation_function",
    "scale_attn_weights",
    "scale_attn_by_inverse_layer_idx",
    "add_cross_attention",
    "attn_pdrop",
    "embd_pdrop",
    "resid_pdrop"};

// Names, formats, initial values, text generation, what the forward returns, and heads for other tasks.
// `pretraining_tp` and `reorder_and_upcast_attn` change rounding only.
constexpr std::string_view kHarmless[] = {
    // names and formats
    "architectures", "_name_or_path", "name_or_path", "_commit_hash", "transformers_version", "auto_map", "torch_dtype",
    "dtype",
    // how it is run, and initial values
    "use_cache", "initializer_range", "pretraining_tp",
    // text
    "bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id", "cls_token_id", "mask_token_id",
    "decoder_start_token_id", "tokenizer_class", "prefix",
    // kernels and what the forward returns
    "attn_implementation", "_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal",
    "gradient_checkpointing", "torchscript", "use_bfloat16", "tf_legacy_loss", "output_attentions",
    "output_hidden_states", "output_scores", "return_dict", "return_dict_in_generate", "keys_to_ignore_at_inference",
    "is_decoder", "chunk_size_feed_forward", "task_specific_params",
    // heads for other tasks
    "problem_type", "finetuning_task", "id2label", "label2id", "num_labels", "classifier_dropout", "summary_activation",
    "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj", "n_ctx",
    "reorder_and_upcast_attn",
    // generation
    "do_sample", "early_stopping", "max_length", "min_length", "max_new_tokens", "length_penalty",
    "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "num_beams", "num_beam_groups", "num_return_sequences",
    "diversity_penalty", "repetition_penalty", "temperature", "top_k", "top_p", "typical_p", "bad_words_ids",
    "forced_bos_token_id", "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens",
    "exponential_decay_length_penalty", "remove_invalid_values", "cross_attention_hidden_size"};

constexpr Unsupported kUnsupported[] = {
    {"sliding_window", "null", "every position attends to all before it"},
    {"use_sliding_window", "false", "every position attends to all before it"},
    {"attention_chunk_size", "null", "every position attends to all before it"},
    {"layer_types", "null", "all layers are of one kind"},
    {"no_rope_layers", "null", "all layers are of one kind"},
    {"partial_rotary_factor", "1", "positions turn whole heads"},
    {"use_qk_norm", "false", "queries and keys are not normalised"},
    {"qk_layernorm", "false", "queries and keys are not normalised"},
    {"attn_logit_softcapping", "null", "scores are not capped"},
    {"final_logit_softcapping", "null", "logits are not capped"},
    {"query_pre_attn_scalar", "null", "scores are scaled by 1/sqrt of the head size"},
    {"attention_multiplier", "1", "scores are scaled by 1/sqrt of the head size"},
    {"embedding_multiplier", "1", "embeddings are not scaled"},
    {"residual_multiplier", "1", "residuals are not scaled"},
    {"logits_scaling", "1", "logits are not scaled"},
    {"logit_scale", "1", "logits are not scaled"},
    {"num_local_experts", "null", "experts are not lowered"},
    {"num_experts", "null", "experts are not lowered"},
    {"moe_intermediate_size", "null", "experts are not lowered"},
    {"quantization_config", "null", "quantised weights are not trained"},
    {"multi_query", "false", "key and value heads are given by their number"},
    {"parallel_attn", "false", "the blocks of a layer follow each other"},
    {"use_parallel_residual", "false", "the blocks of a layer follow each other"},
    {"is_encoder_decoder", "false", "only decoders are lowered"},
    {"tie_encoder_decoder", "false", "only decoders are lowered"},
    {"pruned_heads", "[]", "all heads are lowered"},
};

constexpr std::string_view kRopeKnown[] = {"rope_type",
                                           "type",
                                           "rope_theta",
                                           "factor",
                                           "low_freq_factor",
                                           "high_freq_factor",
                                           "original_max_position_embeddings",
                                           "partial_rotary_factor",
                                           "mrope_section"};

void check_fields(ConfigObject& config, Names read) {
  std::vector<std::string_view> known(read.begin(), read.end());
  for (const Unsupported& field : kUnsupported) known.push_back(field.key);
  known.insert(known.end(), std::begin(kHarmless), std::end(kHarmless));
  config.warn_of_unknown(known);
  for (const Unsupported& field : kUnsupported) config.only_neutral(field.key, field.neutral, field.reason);
}

}  // namespace

void check_llama_fields(ConfigObject& config) {
  check_fields(config, kLlamaRead);
}

void check_gpt2_fields(ConfigObject& config) {
  check_fields(config, kGpt2Read);
}

void check_rope_fields(ConfigObject& rope) {
  rope.warn_of_unknown(kRopeKnown);
  rope.only_neutral("partial_rotary_factor", "1", "positions turn whole heads");
  rope.only_neutral("mrope_section", "null", "positions are of one dimension");
}

}  // namespace shardproof::lowering

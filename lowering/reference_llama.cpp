// Llama: pre-norm blocks with RMSNorm, rotary positions, grouped-query attention and SwiGLU; no biases. Names and
// shapes of LlamaForCausalLM; Linear weights are [out, in].
#include "lowering/emit.h"
#include "lowering/reference_parts.h"

namespace shardproof::lowering {
namespace {

using ir::Builder;
using ir::OpCode;
using ir::ValueId;

std::string layer_name(std::int64_t layer) {
  return "model.layers." + std::to_string(layer);
}

class LlamaForward {
 public:
  LlamaForward(Builder& builder, const ForwardInputs& inputs)
      : b_(builder), inputs_(inputs), model_(inputs.model), shape_(builder.shape(inputs.tokens)) {}

  ValueId logits() {
    b_.set_source("model.rotary_emb");
    tables_ = append_rope_tables(b_, model_, shape_[1]);
    b_.set_source("model.embed_tokens");
    const ValueId table = inputs_.parameter("model.embed_tokens.weight");
    ValueId x = b_.op(OpCode::take, {table, inputs_.tokens}, {{"dim", std::int64_t{0}}}, "model.embed_tokens");
    for (std::int64_t i = 0; i < model_.num_layers; ++i) {
      x = attention_block(x, layer_name(i));
      x = mlp_block(x, layer_name(i));
    }
    b_.set_source("model.norm");
    x = norm(x, "model.norm");
    b_.set_source("lm_head");
    const ValueId head = model_.tie_word_embeddings ? table : inputs_.parameter("lm_head.weight");
    return emit_einsum(b_, "bsh,vh->bsv", {x, head}, "logits");
  }

 private:
  ValueId norm(ValueId x, const std::string& name) {
    return b_.op(OpCode::rms_norm, {x, inputs_.parameter(name + ".weight")}, {{"eps", model_.norm_eps}}, name);
  }

  ValueId linear(ValueId x, const std::string& spec, const std::string& name) {
    return emit_einsum(b_, spec, {x, inputs_.parameter(name + ".weight")}, name);
  }

  ValueId heads(ValueId x, std::int64_t count, const std::string& name) {
    return emit_reshape(b_, x, {shape_[0], shape_[1], count, model_.head_dim}, name);
  }

  ValueId attention_block(ValueId x, const std::string& layer) {
    b_.set_source(layer + ".input_layernorm");
    const ValueId n = norm(x, layer + ".input_layernorm");
    const std::string attn = layer + ".self_attn";
    b_.set_source(attn);
    const ValueId q = heads(linear(n, "bsh,ah->bsa", attn + ".q_proj"), model_.num_heads, attn + ".q");
    const ValueId k = heads(linear(n, "bsh,ah->bsa", attn + ".k_proj"), model_.num_kv_heads, attn + ".k");
    const ValueId v = heads(linear(n, "bsh,ah->bsa", attn + ".v_proj"), model_.num_kv_heads, attn + ".v");
    const ValueId q_rope = b_.op(OpCode::rope, {q, tables_.cos, tables_.sin}, {}, attn + ".q_rope");
    const ValueId k_rope = b_.op(OpCode::rope, {k, tables_.cos, tables_.sin}, {}, attn + ".k_rope");
    const ValueId mixed = b_.op(OpCode::attention, {q_rope, k_rope, v}, {{"causal", true}}, attn + ".attention");
    const ValueId flat =
        emit_reshape(b_, mixed, {shape_[0], shape_[1], model_.num_heads * model_.head_dim}, attn + ".merged");
    const ValueId out = linear(flat, "bsa,ha->bsh", attn + ".o_proj");
    b_.set_source(layer);
    return emit_add(b_, {x, out}, layer + ".attention_residual");
  }

  ValueId mlp_block(ValueId x, const std::string& layer) {
    b_.set_source(layer + ".post_attention_layernorm");
    const ValueId n = norm(x, layer + ".post_attention_layernorm");
    const std::string mlp = layer + ".mlp";
    b_.set_source(mlp);
    const ValueId gate = linear(n, "bsh,fh->bsf", mlp + ".gate_proj");
    const ValueId up = linear(n, "bsh,fh->bsf", mlp + ".up_proj");
    const ValueId act = b_.op(OpCode::swiglu, {gate, up}, {}, mlp + ".act");
    const ValueId out = linear(act, "bsf,hf->bsh", mlp + ".down_proj");
    b_.set_source(layer);
    return emit_add(b_, {x, out}, layer);
  }

  Builder& b_;
  const ForwardInputs& inputs_;
  const ModelConfig& model_;
  ir::Shape shape_;  // [B, S]
  RopeTables tables_;
};

}  // namespace

ValueId append_llama_forward(Builder& builder, const ForwardInputs& inputs) {
  return LlamaForward(builder, inputs).logits();
}

std::vector<ParameterInfo> list_llama_parameters(const ModelConfig& model) {
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t ffn = model.intermediate_size;
  const std::int64_t q = ir::checked_mul(model.num_heads, model.head_dim);
  const std::int64_t kv = ir::checked_mul(model.num_kv_heads, model.head_dim);
  std::vector<ParameterInfo> list = {{"model.embed_tokens.weight", {model.vocab_size, hidden}}};
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const std::string layer = layer_name(i);
    list.push_back({layer + ".self_attn.q_proj.weight", {q, hidden}, i});
    list.push_back({layer + ".self_attn.k_proj.weight", {kv, hidden}, i});
    list.push_back({layer + ".self_attn.v_proj.weight", {kv, hidden}, i});
    list.push_back({layer + ".self_attn.o_proj.weight", {hidden, q}, i});
    list.push_back({layer + ".mlp.gate_proj.weight", {ffn, hidden}, i});
    list.push_back({layer + ".mlp.up_proj.weight", {ffn, hidden}, i});
    list.push_back({layer + ".mlp.down_proj.weight", {hidden, ffn}, i});
    list.push_back({layer + ".input_layernorm.weight", {hidden}, i});
    list.push_back({layer + ".post_attention_layernorm.weight", {hidden}, i});
  }
  list.push_back({"model.norm.weight", {hidden}});
  if (!model.tie_word_embeddings) list.push_back({"lm_head.weight", {model.vocab_size, hidden}});
  return list;
}

}  // namespace shardproof::lowering

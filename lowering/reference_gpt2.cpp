// GPT-2: pre-norm blocks with LayerNorm, learned positions, fused QKV projection, GELU; biases everywhere. Names
// and shapes of GPT2LMHeadModel; Conv1D weights are [in, out].
#include "lowering/emit.h"
#include "lowering/reference_parts.h"

namespace shardproof::lowering {
namespace {

using ir::Builder;
using ir::OpCode;
using ir::ValueId;

std::string layer_name(std::int64_t layer) {
  return "transformer.h." + std::to_string(layer);
}

class Gpt2Forward {
 public:
  Gpt2Forward(Builder& builder, const ForwardInputs& inputs)
      : b_(builder), inputs_(inputs), model_(inputs.model), shape_(builder.shape(inputs.tokens)) {}

  ValueId logits() {
    const ValueId table = inputs_.parameter("transformer.wte.weight");
    ValueId x = embedding(table);
    for (std::int64_t i = 0; i < model_.num_layers; ++i) {
      x = attention_block(x, layer_name(i));
      x = mlp_block(x, layer_name(i));
    }
    b_.set_source("transformer.ln_f");
    x = norm(x, "transformer.ln_f");
    b_.set_source("lm_head");
    const ValueId head = model_.tie_word_embeddings ? table : inputs_.parameter("lm_head.weight");
    return emit_einsum(b_, "bsh,vh->bsv", {x, head}, "logits");
  }

 private:
  ValueId embedding(ValueId table) {
    b_.set_source("transformer.wte");
    const ValueId words = b_.op(OpCode::take, {table, inputs_.tokens}, {{"dim", std::int64_t{0}}}, "transformer.wte");
    b_.set_source("transformer.wpe");
    const ValueId positions = emit_slice(b_, inputs_.parameter("transformer.wpe.weight"), 0, ir::constant_expr(0),
                                         shape_[1], "transformer.wpe");
    const ValueId repeated = emit_broadcast(b_, positions, b_.shape(words), {1, 2}, "transformer.wpe.batch");
    b_.set_source("transformer");
    return emit_add(b_, {words, repeated}, "transformer.embedding");
  }

  ValueId norm(ValueId x, const std::string& name) {
    return b_.op(OpCode::layer_norm, {x, inputs_.parameter(name + ".weight"), inputs_.parameter(name + ".bias")},
                 {{"eps", model_.norm_eps}}, name);
  }

  ValueId linear(ValueId x, const std::string& spec, const std::string& name) {
    const ValueId product = emit_einsum(b_, spec, {x, inputs_.parameter(name + ".weight")}, name + ".product");
    const ValueId bias = emit_restore_leading(b_, inputs_.parameter(name + ".bias"), product, name + ".bias.tokens");
    return emit_add(b_, {product, bias}, name);
  }

  // Part `which` of the fused projection, as heads.
  ValueId part(ValueId qkv, std::int64_t which, const std::string& name) {
    const std::int64_t width = model_.hidden_size;
    const ValueId flat = emit_slice(b_, qkv, 2, ir::constant_expr(which * width), width, name + "_flat");
    return emit_reshape(b_, flat, {shape_[0], shape_[1], model_.num_heads, model_.head_dim}, name);
  }

  ValueId attention_block(ValueId x, const std::string& layer) {
    b_.set_source(layer + ".ln_1");
    const ValueId n = norm(x, layer + ".ln_1");
    const std::string attn = layer + ".attn";
    b_.set_source(attn);
    const ValueId qkv = linear(n, "bsh,ha->bsa", attn + ".c_attn");
    const ValueId q = part(qkv, 0, attn + ".q");
    const ValueId k = part(qkv, 1, attn + ".k");
    const ValueId v = part(qkv, 2, attn + ".v");
    const ValueId mixed = b_.op(OpCode::attention, {q, k, v}, {{"causal", true}}, attn + ".attention");
    const ValueId flat = emit_reshape(b_, mixed, {shape_[0], shape_[1], model_.hidden_size}, attn + ".merged");
    const ValueId out = linear(flat, "bsa,ah->bsh", attn + ".c_proj");
    b_.set_source(layer);
    return emit_add(b_, {x, out}, layer + ".attention_residual");
  }

  ValueId mlp_block(ValueId x, const std::string& layer) {
    b_.set_source(layer + ".ln_2");
    const ValueId n = norm(x, layer + ".ln_2");
    const std::string mlp = layer + ".mlp";
    b_.set_source(mlp);
    const ValueId act = emit_unary(b_, OpCode::gelu_tanh, linear(n, "bsh,hf->bsf", mlp + ".c_fc"), mlp + ".act");
    const ValueId out = linear(act, "bsf,fh->bsh", mlp + ".c_proj");
    b_.set_source(layer);
    return emit_add(b_, {x, out}, layer);
  }

  Builder& b_;
  const ForwardInputs& inputs_;
  const ModelConfig& model_;
  ir::Shape shape_;  // [B, S]
};

}  // namespace

ValueId append_gpt2_forward(Builder& builder, const ForwardInputs& inputs) {
  return Gpt2Forward(builder, inputs).logits();
}

std::vector<ParameterInfo> list_gpt2_parameters(const ModelConfig& model) {
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t ffn = model.intermediate_size;
  std::vector<ParameterInfo> list = {{"transformer.wte.weight", {model.vocab_size, hidden}},
                                     {"transformer.wpe.weight", {model.max_positions, hidden}}};
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const std::string layer = layer_name(i);
    const auto add = [&](const char* name, ir::Shape shape) { list.push_back({layer + name, std::move(shape), i}); };
    add(".ln_1.weight", {hidden});
    add(".ln_1.bias", {hidden});
    add(".attn.c_attn.weight", {hidden, 3 * hidden});
    add(".attn.c_attn.bias", {3 * hidden});
    add(".attn.c_proj.weight", {hidden, hidden});
    add(".attn.c_proj.bias", {hidden});
    add(".ln_2.weight", {hidden});
    add(".ln_2.bias", {hidden});
    add(".mlp.c_fc.weight", {hidden, ffn});
    add(".mlp.c_fc.bias", {ffn});
    add(".mlp.c_proj.weight", {ffn, hidden});
    add(".mlp.c_proj.bias", {hidden});
  }
  list.push_back({"transformer.ln_f.weight", {hidden}});
  list.push_back({"transformer.ln_f.bias", {hidden}});
  if (!model.tie_word_embeddings) list.push_back({"lm_head.weight", {model.vocab_size, hidden}});
  return list;
}

}  // namespace shardproof::lowering

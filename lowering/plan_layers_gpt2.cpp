// One GPT-2 layer: LayerNorm, attention, LayerNorm, GELU, every projection with a bias. Weights are [in, out] as
// Hugging Face's Conv1D keeps them. The biases of the row-parallel projections are added once, after the sum over
// ranks; under sequence parallelism each rank then sees its part of the sequence only, so that their gradients are
// summands.
#include "lowering/plan_blocks.h"
#include "lowering/unfold_definitions.h"

namespace shardproof::lowering {

namespace {

using ir::DType;

void enter(PlanWriter& writer, std::int64_t layer, const char* module, const char* prefix, const char* phase) {
  const std::string number = std::to_string(layer);
  writer.at("transformer.h." + number + "." + module, phase, "l" + number + "." + prefix);
}

const BlockParameters& block_of(const PlanWriter& writer, std::int64_t layer) {
  return writer.table().blocks.at(static_cast<std::size_t>(layer));
}

ValueId add_bias(PlanWriter& writer, ValueId x, std::size_t bias, const std::string& name) {
  return writer.add({x, writer.broadcast(writer.weight(bias), writer.shape(x), {2}, name + "_bias_b")}, name);
}

void bias_gradient(PlanWriter& writer, ValueId gradient, std::size_t bias, const std::string& name) {
  const ValueId wide = writer.cast(gradient, DType::f32, name + "_f32");
  writer.accumulate(bias, writer.reduce_sum(wide, {0, 1}, name + "_bias"));
}

// The rank's q, k and v lie side by side in the last dimension.
ValueId heads_of(PlanWriter& writer, ValueId fused, std::int64_t third, const Shape& heads, const std::string& name) {
  const std::int64_t width = writer.shape(fused)[2] / 3;
  const ValueId flat = writer.slice(fused, 2, ir::constant_expr(third * width), width, name + "_flat");
  return writer.reshape(flat, heads, name);
}

ValueId attention_block_forward(PlanWriter& writer, const LayerShared& shared, const BlockParameters& block,
                                LayerSaved& saved) {
  const ValueId x = writer.gather_sequence(saved.norm1.result, "x_whole");
  const ValueId fused = add_bias(writer, writer.einsum("bsh,hf->bsf", {x, writer.weight(block.qkv)}, "qkv_product"),
                                 block.qkv_bias, "qkv");
  const HeadCounts heads = local_heads(writer.model(), writer.degrees());
  const std::int64_t d = writer.model().head_dim;
  const Shape s = writer.shape(x);
  const Shape query_heads{s[0], s[1], heads.groups, heads.queries, d};
  const Shape key_heads{s[0], s[1], heads.groups, d};
  const ValueId q = heads_of(writer, fused, 0, query_heads, "q");
  const ValueId k = heads_of(writer, fused, 1, key_heads, "k");
  const ValueId v = heads_of(writer, fused, 2, key_heads, "v");
  saved.attention = attention_forward(writer, shared.attention, q, k, v);
  const ValueId partial = writer.einsum("bsf,fh->bsh", {saved.attention.context, writer.weight(block.proj)}, "proj");
  return add_bias(writer, writer.reduce_to_sequence(partial, "proj_sum"), block.proj_bias, "out");
}

ValueId attention_block_backward(PlanWriter& writer, const LayerShared& shared, const BlockParameters& block,
                                 const LayerSaved& saved, ValueId gradient) {
  bias_gradient(writer, gradient, block.proj_bias, "d_out");
  const ValueId dy = writer.gather_sequence(gradient, "d_out_whole");
  writer.accumulate(block.proj, writer.einsum("bsf,bsh->fh", {saved.attention.context, dy}, "d_proj_weight"));
  const ValueId context = writer.einsum("bsh,fh->bsf", {dy, writer.weight(block.proj)}, "d_context");
  const AttentionGradients inner = attention_backward(writer, shared.attention, saved.attention, context);
  const Shape flat = writer.shape(saved.attention.context);
  const ValueId fused =
      writer.concat({writer.reshape(inner.q, flat, "d_q_flat"), writer.reshape(inner.k, flat, "d_k_flat"),
                     writer.reshape(inner.v, flat, "d_v_flat")},
                    2, "d_qkv");
  bias_gradient(writer, fused, block.qkv_bias, "d_qkv");
  const ValueId x = writer.gather_sequence(saved.norm1.result, "x_again");
  writer.accumulate(block.qkv, writer.einsum("bsh,bsf->hf", {x, fused}, "d_qkv_weight"));
  const ValueId partial = writer.einsum("bsf,hf->bsh", {fused, writer.weight(block.qkv)}, "d_x_partial");
  return writer.reduce_to_sequence(partial, "d_x");
}

ValueId mlp_forward(PlanWriter& writer, const BlockParameters& block, LayerSaved& saved) {
  const ValueId x = writer.gather_sequence(saved.norm2.result, "x_whole");
  saved.hidden =
      add_bias(writer, writer.einsum("bsh,hf->bsf", {x, writer.weight(block.fc1)}, "fc_product"), block.fc1_bias, "fc");
  saved.activated = writer.op(OpCode::gelu_tanh, {saved.hidden}, "activated");
  const ValueId partial = writer.einsum("bsf,fh->bsh", {saved.activated, writer.weight(block.fc2)}, "proj");
  return add_bias(writer, writer.reduce_to_sequence(partial, "proj_sum"), block.fc2_bias, "out");
}

// gelu(x) = x/2 (1 + t), t = tanh(u), u = c x (1 + a x^2):
// gelu'(x) = 1/2 (1 + t + x (1 - t^2) c (1 + 3 a x^2)).
ValueId gelu_backward(PlanWriter& writer, ValueId hidden, ValueId gradient) {
  const ValueId x = writer.cast(hidden, DType::f32, "x_f32");
  const auto number = [&](ir::Rational value) { return writer.constant(value, DType::f32, writer.shape(x)); };
  const ir::Rational cubic = gelu_tanh_cubic();
  const ValueId factor = number(gelu_tanh_factor());
  const ValueId one = number(1);
  const ValueId square = writer.mul({x, x}, "square");
  const ValueId inner = writer.add({one, writer.mul({square, number(cubic)}, "cubic_part")}, "cubic");
  const ValueId tanh = writer.op(OpCode::tanh, {writer.mul({factor, x, inner}, "inner")}, "tanh");
  const ValueId slope = writer.sub(one, writer.mul({tanh, tanh}, "tanh_square"), "tanh_slope");
  const ValueId inner_slope =
      writer.add({one, writer.mul({square, number(ir::Rational(3) * cubic)}, "cubic_slope_part")}, "cubic_slope");
  const ValueId bend = writer.mul({factor, x, slope, inner_slope}, "gelu_bend");
  const ValueId twice = writer.add({one, tanh, bend}, "gelu_slope_twice");
  const ValueId dy = writer.cast(gradient, DType::f32, "d_activated_f32");
  const ValueId dx = writer.mul({dy, twice, number(ir::Rational(1, 2))}, "d_fc_f32");
  return writer.cast(dx, writer.degrees().compute, "d_fc");
}

ValueId mlp_backward(PlanWriter& writer, const BlockParameters& block, const LayerSaved& saved, ValueId gradient) {
  bias_gradient(writer, gradient, block.fc2_bias, "d_out");
  const ValueId dy = writer.gather_sequence(gradient, "d_out_whole");
  writer.accumulate(block.fc2, writer.einsum("bsf,bsh->fh", {saved.activated, dy}, "d_proj_weight"));
  const ValueId activated = writer.einsum("bsh,fh->bsf", {dy, writer.weight(block.fc2)}, "d_activated");
  const ValueId hidden = gelu_backward(writer, saved.hidden, activated);
  bias_gradient(writer, hidden, block.fc1_bias, "d_fc");
  const ValueId x = writer.gather_sequence(saved.norm2.result, "x_again");
  writer.accumulate(block.fc1, writer.einsum("bsh,bsf->hf", {x, hidden}, "d_fc_weight"));
  const ValueId partial = writer.einsum("bsf,hf->bsh", {hidden, writer.weight(block.fc1)}, "d_x_partial");
  return writer.reduce_to_sequence(partial, "d_x");
}

}  // namespace

LayerShared gpt2_shared(PlanWriter& writer) {
  LayerShared shared;
  shared.positions = positions_shared(writer);
  shared.attention = attention_shared(writer, shared.positions);
  return shared;
}

LayerSaved gpt2_layer_forward(PlanWriter& writer, const LayerShared& shared, std::int64_t layer, ValueId x) {
  const BlockParameters& block = block_of(writer, layer);
  LayerSaved saved;
  enter(writer, layer, "ln_1", "norm1", "forward");
  saved.norm1 = layer_norm_forward(writer, x, block.norm1, block.norm1_bias);
  enter(writer, layer, "attn", "attn", "forward");
  const ValueId attended = writer.add({x, attention_block_forward(writer, shared, block, saved)}, "residual");
  enter(writer, layer, "ln_2", "norm2", "forward");
  saved.norm2 = layer_norm_forward(writer, attended, block.norm2, block.norm2_bias);
  enter(writer, layer, "mlp", "mlp", "forward");
  saved.result = writer.add({attended, mlp_forward(writer, block, saved)}, "residual");
  return saved;
}

ValueId gpt2_layer_backward(PlanWriter& writer, const LayerShared& shared, std::int64_t layer, const LayerSaved& saved,
                            ValueId gradient) {
  const BlockParameters& block = block_of(writer, layer);
  enter(writer, layer, "mlp", "mlp", "backward");
  const ValueId mlp = mlp_backward(writer, block, saved, gradient);
  enter(writer, layer, "ln_2", "norm2", "backward");
  const ValueId norm2 = layer_norm_backward(writer, saved.norm2, mlp, block.norm2, block.norm2_bias);
  const ValueId attended = writer.add({gradient, norm2}, "d_residual");
  enter(writer, layer, "attn", "attn", "backward");
  const ValueId attention = attention_block_backward(writer, shared, block, saved, attended);
  enter(writer, layer, "ln_1", "norm1", "backward");
  const ValueId norm1 = layer_norm_backward(writer, saved.norm1, attention, block.norm1, block.norm1_bias);
  return writer.add({attended, norm1}, "d_residual");
}

}  // namespace shardproof::lowering

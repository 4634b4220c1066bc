// One Llama layer: RMSNorm, grouped-query attention with rotary positions, RMSNorm, SwiGLU. Megatron-LM's column- and
// row-parallel pairs: the whole sequence enters qkv and gate-up (gathered from shards under sequence parallelism, and
// gathered again for the weight gradient rather than kept), sums leave the output and down projections.
#include "lowering/build_reference.h"
#include "lowering/plan_blocks.h"

namespace shardproof::lowering {

namespace {

using ir::DType;

std::string module_name(std::int64_t layer, const char* part) {
  return "model.layers." + std::to_string(layer) + "." + part;
}

std::string prefix_name(std::int64_t layer, const char* part) {
  return "l" + std::to_string(layer) + "." + part;
}

void enter(PlanWriter& writer, std::int64_t layer, const char* module, const char* prefix, const char* phase) {
  writer.at(module_name(layer, module), phase, prefix_name(layer, prefix));
}

const BlockParameters& block_of(const PlanWriter& writer, std::int64_t layer) {
  return writer.table().blocks.at(static_cast<std::size_t>(layer));
}

// The fused projection holds, per kv group, its query heads, its key head and its value head.
ValueId attention_block_forward(PlanWriter& writer, const LayerShared& shared, const BlockParameters& block,
                                LayerSaved& saved) {
  const HeadCounts heads = local_heads(writer.model(), writer.degrees());
  const std::int64_t d = writer.model().head_dim;
  const ValueId x = writer.gather_sequence(saved.norm1.result, "x_whole");
  const ValueId fused = writer.einsum("bsh,fh->bsf", {x, writer.weight(block.qkv)}, "qkv");
  const std::int64_t b = writer.shape(x)[0];
  const std::int64_t s = writer.shape(x)[1];
  const ValueId grouped = writer.reshape(fused, {b, s, heads.groups, (heads.queries + 2) * d}, "qkv_grouped");
  const ValueId q = writer.slice(grouped, 3, ir::constant_expr(0), heads.queries * d, "q_flat");
  const ValueId k = writer.slice(grouped, 3, ir::constant_expr(heads.queries * d), d, "k");
  const ValueId v = writer.slice(grouped, 3, ir::constant_expr((heads.queries + 1) * d), d, "v");
  const ValueId q_heads = writer.reshape(q, {b, s, heads.groups * heads.queries, d}, "q");
  const ValueId q_turned = writer.op(OpCode::rope, {q_heads, shared.cos, shared.sin}, "q_rope");
  const ValueId k_turned = writer.op(OpCode::rope, {k, shared.cos, shared.sin}, "k_rope");
  const ValueId q_grouped = writer.reshape(q_turned, {b, s, heads.groups, heads.queries, d}, "q_grouped");
  saved.attention = attention_forward(writer, shared.attention, q_grouped, k_turned, v);
  const ValueId partial = writer.einsum("bsf,hf->bsh", {saved.attention.context, writer.weight(block.proj)}, "proj");
  return writer.reduce_to_sequence(partial, "out");
}

ValueId attention_block_backward(PlanWriter& writer, const LayerShared& shared, const BlockParameters& block,
                                 const LayerSaved& saved, ValueId gradient) {
  const HeadCounts heads = local_heads(writer.model(), writer.degrees());
  const std::int64_t d = writer.model().head_dim;
  const ValueId dy = writer.gather_sequence(gradient, "d_out");
  writer.accumulate(block.proj, writer.einsum("bsh,bsf->hf", {dy, saved.attention.context}, "d_proj_weight"));
  const ValueId context = writer.einsum("bsh,hf->bsf", {dy, writer.weight(block.proj)}, "d_context");
  const AttentionGradients inner = attention_backward(writer, shared.attention, saved.attention, context);
  const std::int64_t b = writer.shape(dy)[0];
  const std::int64_t s = writer.shape(dy)[1];
  // A rotation's transpose is the rotation by the opposite angle.
  const ValueId q_heads = writer.reshape(inner.q, {b, s, heads.groups * heads.queries, d}, "d_q_rope");
  const ValueId q = writer.op(OpCode::rope, {q_heads, shared.cos, shared.minus_sin}, "d_q_heads");
  const ValueId k = writer.op(OpCode::rope, {inner.k, shared.cos, shared.minus_sin}, "d_k_heads");
  const ValueId q_flat = writer.reshape(q, {b, s, heads.groups, heads.queries * d}, "d_q_flat");
  const ValueId grouped = writer.concat({q_flat, k, inner.v}, 3, "d_qkv_grouped");
  const ValueId fused = writer.reshape(grouped, {b, s, heads.groups * (heads.queries + 2) * d}, "d_qkv");
  const ValueId x = writer.gather_sequence(saved.norm1.result, "x_again");
  writer.accumulate(block.qkv, writer.einsum("bsf,bsh->fh", {fused, x}, "d_qkv_weight"));
  const ValueId partial = writer.einsum("bsf,fh->bsh", {fused, writer.weight(block.qkv)}, "d_x_partial");
  return writer.reduce_to_sequence(partial, "d_x");
}

ValueId mlp_forward(PlanWriter& writer, const BlockParameters& block, LayerSaved& saved) {
  const ValueId x = writer.gather_sequence(saved.norm2.result, "x_whole");
  const ValueId both = writer.einsum("bsh,fh->bsf", {x, writer.weight(block.fc1)}, "gate_up");
  const std::int64_t width = writer.shape(both)[2] / 2;
  saved.gate = writer.slice(both, 2, ir::constant_expr(0), width, "gate");
  saved.up = writer.slice(both, 2, ir::constant_expr(width), width, "up");
  saved.activated = writer.op(OpCode::swiglu, {saved.gate, saved.up}, "activated");
  const ValueId partial = writer.einsum("bsf,hf->bsh", {saved.activated, writer.weight(block.fc2)}, "down");
  return writer.reduce_to_sequence(partial, "out");
}

// With silu(x) = x s, s = sigmoid(x): silu'(x) = s + x s (1 - s).
ValueId swiglu_backward(PlanWriter& writer, const LayerSaved& saved, ValueId gradient) {
  const ValueId sigmoid = writer.op(OpCode::sigmoid, {saved.gate}, "sigmoid");
  const ValueId silu = writer.mul({saved.gate, sigmoid}, "silu");
  const ValueId up = writer.mul({gradient, silu}, "d_up");
  const ValueId one = writer.constant(1, writer.dtype(silu), writer.shape(silu));
  const ValueId bend = writer.mul({silu, writer.sub(one, sigmoid, "one_minus_sigmoid")}, "silu_bend");
  const ValueId slope = writer.add({sigmoid, bend}, "silu_slope");
  const ValueId gate = writer.mul({gradient, saved.up, slope}, "d_gate");
  return writer.concat({gate, up}, 2, "d_gate_up");
}

ValueId mlp_backward(PlanWriter& writer, const BlockParameters& block, const LayerSaved& saved, ValueId gradient) {
  const ValueId dy = writer.gather_sequence(gradient, "d_out");
  writer.accumulate(block.fc2, writer.einsum("bsh,bsf->hf", {dy, saved.activated}, "d_down_weight"));
  const ValueId activated = writer.einsum("bsh,hf->bsf", {dy, writer.weight(block.fc2)}, "d_activated");
  const ValueId both = swiglu_backward(writer, saved, activated);
  const ValueId x = writer.gather_sequence(saved.norm2.result, "x_again");
  writer.accumulate(block.fc1, writer.einsum("bsf,bsh->fh", {both, x}, "d_gate_up_weight"));
  const ValueId partial = writer.einsum("bsf,fh->bsh", {both, writer.weight(block.fc1)}, "d_x_partial");
  return writer.reduce_to_sequence(partial, "d_x");
}

}  // namespace

LayerShared llama_shared(PlanWriter& writer) {
  LayerShared shared;
  shared.positions = positions_shared(writer);
  shared.attention = attention_shared(writer, shared.positions);
  writer.at("model.rotary_emb", "shared values", "rope");
  const std::vector<ir::Rational> frequencies = rope_inverse_frequencies(writer.model());
  const auto half = static_cast<std::int64_t>(frequencies.size());
  const Shape angles{writer.degrees().sequence_own, half};
  ir::Builder& builder = writer.builder();
  const ValueId table =
      builder.typed(OpCode::table, {DType::f32, {half}}, {{"values", frequencies}}, "rope.frequencies");
  const ValueId position =
      shared.positions.own.valid()
          ? writer.broadcast(shared.positions.own, angles, {0}, "position")
          : builder.typed(OpCode::iota, {DType::i64, angles}, {{"dim", std::int64_t{0}}}, "rope.position");
  const ValueId angle = writer.mul(
      {writer.cast(position, DType::f32, "position_f32"), writer.broadcast(table, angles, {1}, "frequencies_b")},
      "angle");
  const DType compute = writer.degrees().compute;
  shared.cos = writer.cast(writer.op(OpCode::cos, {angle}, "cos_f32"), compute, "cos");
  shared.sin = writer.cast(writer.op(OpCode::sin, {angle}, "sin_f32"), compute, "sin");
  shared.minus_sin = writer.op(OpCode::neg, {shared.sin}, "minus_sin");
  return shared;
}

LayerSaved llama_layer_forward(PlanWriter& writer, const LayerShared& shared, std::int64_t layer, ValueId x) {
  const BlockParameters& block = block_of(writer, layer);
  LayerSaved saved;
  enter(writer, layer, "input_layernorm", "norm1", "forward");
  saved.norm1 = rms_norm_forward(writer, x, block.norm1);
  enter(writer, layer, "self_attn", "attn", "forward");
  const ValueId attended = writer.add({x, attention_block_forward(writer, shared, block, saved)}, "residual");
  enter(writer, layer, "post_attention_layernorm", "norm2", "forward");
  saved.norm2 = rms_norm_forward(writer, attended, block.norm2);
  enter(writer, layer, "mlp", "mlp", "forward");
  saved.result = writer.add({attended, mlp_forward(writer, block, saved)}, "residual");
  return saved;
}

ValueId llama_layer_backward(PlanWriter& writer, const LayerShared& shared, std::int64_t layer, const LayerSaved& saved,
                             ValueId gradient) {
  const BlockParameters& block = block_of(writer, layer);
  enter(writer, layer, "mlp", "mlp", "backward");
  const ValueId mlp = mlp_backward(writer, block, saved, gradient);
  enter(writer, layer, "post_attention_layernorm", "norm2", "backward");
  const ValueId norm2 = rms_norm_backward(writer, saved.norm2, mlp, block.norm2);
  const ValueId attended = writer.add({gradient, norm2}, "d_residual");
  enter(writer, layer, "self_attn", "attn", "backward");
  const ValueId attention = attention_block_backward(writer, shared, block, saved, attended);
  enter(writer, layer, "input_layernorm", "norm1", "backward");
  const ValueId norm1 = rms_norm_backward(writer, saved.norm1, attention, block.norm1);
  return writer.add({attended, norm1}, "d_residual");
}

}  // namespace shardproof::lowering

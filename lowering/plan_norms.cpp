// RMSNorm and LayerNorm on sequence shards, computed in f32 as Megatron-LM's kernels do. The hidden dimension is whole
// on every rank, so that both are local; the gradients of weight and bias are summed over ranks after the last
// microbatch (plan_optimizer.cpp).
#include "lowering/plan_blocks.h"

namespace shardproof::lowering {

namespace {

using ir::DType;

Shape rows(const PlanWriter& writer, ValueId x) {
  return {writer.shape(x)[0], writer.shape(x)[1]};
}

// sum / hidden, per row.
ValueId mean(PlanWriter& writer, ValueId sum, const std::string& name) {
  const ir::Rational share(1, writer.model().hidden_size);
  return writer.mul({sum, writer.constant(share, DType::f32, writer.shape(sum))}, name);
}

// 1 / sqrt(mean(x^2) + eps), per row.
ValueId inverse_root(PlanWriter& writer, ValueId x) {
  const ValueId square = mean(writer, writer.einsum("bsh,bsh->bs", {x, x}, "square_sum"), "square_mean");
  const ValueId eps = writer.constant(writer.model().norm_eps, DType::f32, rows(writer, x));
  return writer.op(OpCode::rsqrt, {writer.add({square, eps}, "square_eps")}, "scale");
}

// x * scale, and times the weight in f32.
ValueId apply_scale(PlanWriter& writer, NormSaved& saved, ValueId x, std::size_t weight) {
  saved.scale = inverse_root(writer, x);
  saved.normalised = writer.einsum("bsh,bs->bsh", {x, saved.scale}, "normalised");
  return writer.einsum("bsh,h->bsh", {saved.normalised, writer.weight_f32(weight)}, "weighted");
}

// g - normalised * mean(g * normalised), for the cotangent g of `normalised`.
ValueId without_radial_part(PlanWriter& writer, const NormSaved& saved, ValueId g, ValueId from) {
  const ValueId radial = mean(writer, writer.einsum("bsh,bsh->bs", {g, saved.normalised}, "radial_sum"), "radial");
  const ValueId along = writer.einsum("bsh,bs->bsh", {saved.normalised, radial}, "along");
  return writer.sub(from, along, "across");
}

}  // namespace

NormSaved rms_norm_forward(PlanWriter& writer, ValueId x, std::size_t weight) {
  NormSaved saved;
  const ValueId wide = writer.cast(x, DType::f32, "x_f32");
  saved.result = writer.cast(apply_scale(writer, saved, wide, weight), writer.degrees().compute, "y");
  return saved;
}

// With y = w n, n = r x, r = (mean(x^2) + eps)^(-1/2), g = w dy: dx = r (g - n mean(g n)).
ValueId rms_norm_backward(PlanWriter& writer, const NormSaved& saved, ValueId gradient, std::size_t weight) {
  const ValueId dy = writer.cast(gradient, DType::f32, "d_y_f32");
  writer.accumulate(weight, writer.einsum("bsh,bsh->h", {dy, saved.normalised}, "d_weight"));
  const ValueId g = writer.einsum("bsh,h->bsh", {dy, writer.weight_f32(weight)}, "d_normalised");
  const ValueId across = without_radial_part(writer, saved, g, g);
  const ValueId dx = writer.einsum("bsh,bs->bsh", {across, saved.scale}, "d_x_f32");
  return writer.cast(dx, writer.degrees().compute, "d_x");
}

NormSaved layer_norm_forward(PlanWriter& writer, ValueId x, std::size_t weight, std::size_t bias) {
  NormSaved saved;
  const ValueId wide = writer.cast(x, DType::f32, "x_f32");
  const ValueId centre = mean(writer, writer.reduce_sum(wide, {2}, "sum"), "mean");
  const ValueId centred = writer.sub(wide, writer.broadcast(centre, writer.shape(x), {0, 1}, "mean_b"), "centred");
  const ValueId weighted = apply_scale(writer, saved, centred, weight);
  const ValueId shift = writer.broadcast(writer.weight_f32(bias), writer.shape(x), {2}, "bias_b");
  saved.result = writer.cast(writer.add({weighted, shift}, "y_f32"), writer.degrees().compute, "y");
  return saved;
}

// With y = w n + b, n = r (x - mean(x)), r = (var(x) + eps)^(-1/2), g = w dy: dx = r (g - mean(g) - n mean(g n)).
ValueId layer_norm_backward(PlanWriter& writer, const NormSaved& saved, ValueId gradient, std::size_t weight,
                            std::size_t bias) {
  const ValueId dy = writer.cast(gradient, DType::f32, "d_y_f32");
  writer.accumulate(weight, writer.einsum("bsh,bsh->h", {dy, saved.normalised}, "d_weight"));
  writer.accumulate(bias, writer.reduce_sum(dy, {0, 1}, "d_bias"));
  const ValueId g = writer.einsum("bsh,h->bsh", {dy, writer.weight_f32(weight)}, "d_normalised");
  const ValueId centre = mean(writer, writer.reduce_sum(g, {2}, "d_sum"), "d_mean");
  const ValueId centred = writer.sub(g, writer.broadcast(centre, writer.shape(g), {0, 1}, "d_mean_b"), "d_centred");
  const ValueId across = without_radial_part(writer, saved, g, centred);
  const ValueId dx = writer.einsum("bsh,bs->bsh", {across, saved.scale}, "d_x_f32");
  return writer.cast(dx, writer.degrees().compute, "d_x");
}

}  // namespace shardproof::lowering

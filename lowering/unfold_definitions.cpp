// Trusted: a macro op means what stands here. Each definition is the textbook formula; nothing is fused or reordered.
// Where a maximum is subtracted for the sake of floating point, stop_gradient marks that the value does not depend on
// it, so that differentiating a definition needs no derivative of max.
#include "lowering/unfold_definitions.h"

#include "ir/check.h"
#include "lowering/emit.h"

namespace shardproof::lowering {
namespace {

using ir::Builder;
using ir::Instruction;
using ir::OpCode;
using ir::Rational;
using ir::ValueId;
using Values = std::vector<ValueId>;

// x - stop_gradient(max over dim), and that maximum with `dim` removed.
struct Shifted {
  ValueId x;
  ValueId max;
};
Shifted subtract_max(Builder& b, ValueId x, std::int64_t dim) {
  const ValueId max = emit_unary(b, OpCode::stop_gradient, emit_reduce(b, OpCode::reduce_max, x, {dim}), "max");
  return {b.op(OpCode::sub, {x, emit_restore(b, max, b.shape(x), {dim})}, {}, "shifted"), max};
}

// softmax_i = exp(x_i - m) / sum_j exp(x_j - m), m = max x. Any m gives the same value over the reals.
ValueId define_softmax(Builder& b, ValueId x, std::int64_t dim) {
  const ValueId e = emit_unary(b, OpCode::exp, subtract_max(b, x, dim).x, "exp");
  const ValueId sum = emit_reduce(b, OpCode::reduce_sum, e, {dim}, "sum");
  return b.op(OpCode::div, {e, emit_restore(b, sum, b.shape(x), {dim})}, {}, "softmax");
}

// log_softmax_i = (x_i - m) - log sum_j exp(x_j - m).
ValueId define_log_softmax(Builder& b, ValueId x, std::int64_t dim) {
  const ValueId shifted = subtract_max(b, x, dim).x;
  const ValueId sum = emit_reduce(b, OpCode::reduce_sum, emit_unary(b, OpCode::exp, shifted, "exp"), {dim}, "sum");
  const ValueId log_sum = emit_unary(b, OpCode::log, sum, "log_sum");
  return b.op(OpCode::sub, {shifted, emit_restore(b, log_sum, b.shape(x), {dim})}, {}, "log_softmax");
}

// silu = x sigmoid(x).
ValueId define_silu(Builder& b, ValueId x) {
  return emit_mul(b, {x, emit_unary(b, OpCode::sigmoid, x, "sigmoid")}, "silu");
}

// gelu_tanh = x/2 (1 + tanh(c (x + 0.044715 x^3))): Hugging Face gelu_new, PyTorch approximate="tanh".
ValueId define_gelu_tanh(Builder& b, ValueId x) {
  const ValueId cubic = emit_scaled(b, emit_mul(b, {x, x, x}, "cube"), gelu_tanh_cubic());
  const ValueId inner = emit_scaled(b, emit_add(b, {x, cubic}), gelu_tanh_factor(), "inner");
  const ValueId one_plus = emit_shifted(b, emit_unary(b, OpCode::tanh, inner, "tanh"), Rational(1));
  return emit_mul(b, {emit_scaled(b, x, Rational(1, 2)), one_plus}, "gelu");
}

// gelu_erf = x/2 (1 + erf(x / sqrt 2)).
ValueId define_gelu_erf(Builder& b, ValueId x) {
  const ValueId root = emit_unary(b, OpCode::rsqrt, emit_constant_like(b, x, Rational(2)));
  const ValueId one_plus = emit_shifted(b, emit_unary(b, OpCode::erf, emit_mul(b, {x, root})), Rational(1));
  return emit_mul(b, {emit_scaled(b, x, Rational(1, 2)), one_plus}, "gelu");
}

// rms_norm = x / sqrt(mean(x^2) + eps) * weight, mean over the last dimension.
ValueId define_rms_norm(Builder& b, ValueId x, ValueId weight, Rational eps) {
  const ValueId mean = emit_mean_last(b, emit_mul(b, {x, x}, "square"), "mean_square");
  const ValueId root = emit_unary(b, OpCode::rsqrt, emit_shifted(b, mean, eps), "rsqrt");
  return emit_mul(b, {x, emit_restore_last(b, root, x), emit_restore_leading(b, weight, x)}, "rms_norm");
}

// layer_norm = (x - mean) / sqrt(variance + eps) * weight + bias; variance = mean((x - mean)^2), not Bessel-corrected.
ValueId define_layer_norm(Builder& b, ValueId x, ValueId weight, ValueId bias, Rational eps) {
  const ValueId mean = emit_mean_last(b, x, "mean");
  const ValueId centred = b.op(OpCode::sub, {x, emit_restore_last(b, mean, x)}, {}, "centred");
  const ValueId variance = emit_mean_last(b, emit_mul(b, {centred, centred}), "variance");
  const ValueId root = emit_unary(b, OpCode::rsqrt, emit_shifted(b, variance, eps), "rsqrt");
  const ValueId scaled =
      emit_mul(b, {centred, emit_restore_last(b, root, x), emit_restore_leading(b, weight, x)}, "scaled");
  return emit_add(b, {scaled, emit_restore_leading(b, bias, x)}, "layer_norm");
}

// rope: the halves (x1, x2) of the last dimension turn by the angle of their position and frequency:
// (x1 cos - x2 sin, x2 cos + x1 sin). Hugging Face's rotate_half layout, not the interleaved one.
ValueId define_rope(Builder& b, ValueId x, ValueId cos, ValueId sin) {
  const std::int64_t half = last_extent(b, x) / 2;
  const ValueId x1 = emit_slice(b, x, 3, ir::constant_expr(0), half, "x1");
  const ValueId x2 = emit_slice(b, x, 3, ir::constant_expr(half), half, "x2");
  const ValueId c = emit_broadcast(b, cos, b.shape(x1), {1, 3}, "cos");
  const ValueId s = emit_broadcast(b, sin, b.shape(x1), {1, 3}, "sin");
  const ValueId y1 = b.op(OpCode::sub, {emit_mul(b, {x1, c}), emit_mul(b, {x2, s})}, {}, "y1");
  const ValueId y2 = emit_add(b, {emit_mul(b, {x2, c}), emit_mul(b, {x1, s})}, "y2");
  return b.op(OpCode::concat, {y1, y2}, {{"dim", std::int64_t{3}}}, "rope");
}

// attention = softmax_t(scores) v per query head.
ValueId define_attention(Builder& b, const Instruction& instruction, const Values& in) {
  std::optional<Rational> scale;
  if (instruction.attributes.has("scale")) scale = instruction.attributes.get<Rational>("scale");
  const ValueId scores =
      append_attention_scores(b, in[0], in[1], instruction.attributes.get<bool>("causal"), scale).scores;
  const ValueId p = define_softmax(b, scores, 4);
  const ValueId grouped = emit_einsum(b, "bgrst,btge->bsgre", {p, in[2]}, "grouped");
  const ir::Shape& q = b.shape(in[0]);
  return emit_reshape(b, grouped, {q[0], q[1], q[2], last_extent(b, in[2])}, "attention");
}

// cross_entropy = log sum_v exp(x_v - m) + m - x_label, per token.
ValueId define_cross_entropy(Builder& b, ValueId logits, ValueId labels) {
  const std::int64_t last = last_dim(b, logits);
  const Shifted shifted = subtract_max(b, logits, last);
  const ValueId sum = emit_reduce(b, OpCode::reduce_sum, emit_unary(b, OpCode::exp, shifted.x, "exp"), {last}, "sum");
  const ValueId log_sum_exp = emit_add(b, {emit_unary(b, OpCode::log, sum), shifted.max}, "log_sum_exp");
  const ValueId picked = b.op(OpCode::take_along, {logits, labels}, {}, "label_logit");
  return b.op(OpCode::sub, {log_sum_exp, picked}, {}, "cross_entropy");
}

ValueId scalar_like(Builder& b, ValueId scalar, ValueId like) {
  return emit_broadcast(b, scalar, b.shape(like), {});
}

// beta * old + (1 - beta) * fresh.
ValueId moving_average(Builder& b, ValueId old, ValueId fresh, Rational beta, std::string name) {
  return emit_add(b, {emit_scaled(b, old, beta), emit_scaled(b, fresh, Rational(1) - beta)}, std::move(name));
}

// 1 - beta^step as a scalar of x's element type.
ValueId bias_correction(Builder& b, Rational beta, ValueId step, ValueId x) {
  const ValueId base = emit_constant(b, {b.type(x).dtype, {}}, beta);
  const ValueId one = emit_constant_like(b, base, Rational(1));
  return b.op(OpCode::sub, {one, b.op(OpCode::power, {base, step})});
}

// adamw (Loshchilov & Hutter; torch.optim.AdamW), with `step` counting from 1:
//   m' = beta1 m + (1 - beta1) g,   v' = beta2 v + (1 - beta2) g^2
//   p' = p - lr weight_decay p - lr (m' / (1 - beta1^step)) / (sqrt(v' / (1 - beta2^step)) + eps)
Values define_adamw(Builder& b, const Instruction& instruction, const Values& in) {
  const ir::Attributes& attributes = instruction.attributes;
  const ValueId param = in[0], grad = in[1], step = in[4];
  const Rational beta1 = attributes.get<Rational>("beta1");
  const Rational beta2 = attributes.get<Rational>("beta2");
  const ValueId m = moving_average(b, in[2], grad, beta1, "exp_avg");
  const ValueId v = moving_average(b, in[3], emit_mul(b, {grad, grad}), beta2, "exp_avg_sq");
  const ValueId corrected_m =
      b.op(OpCode::div, {m, scalar_like(b, bias_correction(b, beta1, step, m), m)}, {}, "corrected_exp_avg");
  const ValueId corrected_v =
      b.op(OpCode::div, {v, scalar_like(b, bias_correction(b, beta2, step, v), v)}, {}, "corrected_exp_avg_sq");
  const ValueId root = emit_unary(b, OpCode::sqrt, corrected_v);
  const ValueId denominator = emit_shifted(b, root, attributes.get<Rational>("eps"), "denominator");
  const ValueId update = b.op(OpCode::div, {corrected_m, denominator}, {}, "update");
  const ValueId decayed = emit_scaled(b, param, attributes.get<Rational>("weight_decay"), "decay");
  ValueId lr = in[5];  // an input of the step, maybe wider than the parameter
  if (b.type(lr).dtype != b.type(param).dtype) {
    lr = b.op(OpCode::cast, {lr}, {{"dtype", std::string(ir::dtype_name(b.type(param).dtype))}}, "lr");
  }
  const ValueId rate = scalar_like(b, lr, param);
  const ValueId change = emit_mul(b, {rate, emit_add(b, {update, decayed})}, "change");
  return {b.op(OpCode::sub, {param, change}, {}, "param"), m, v};
}

}  // namespace

Rational gelu_tanh_factor() {
  return Rational(7978845608028654, 10000000000000000);
}
Rational gelu_tanh_cubic() {
  return Rational(44715, 1000000);
}
Rational two_over_sqrt_pi() {
  return Rational(11283791670955126, 10000000000000000);
}

// Grouped-query attention: query head h reads key/value head h / r, r = heads / kv heads, so the query heads are the
// row-major pairs (g, r). Causal: query position i sees key positions j <= i, both counted from 0.
AttentionScores append_attention_scores(Builder& b, ValueId query, ValueId key, bool causal,
                                        const std::optional<Rational>& scale) {
  const ir::Shape q = b.shape(query);
  const ir::Shape k = b.shape(key);
  const ir::DType dtype = b.type(query).dtype;
  AttentionScores out;
  out.grouped_query = emit_reshape(b, query, {q[0], q[1], k[2], q[2] / k[2], q[3]}, "grouped_query");
  out.scale = emit_constant(b, {dtype, {}}, scale ? *scale : Rational(q[3]), scale ? "scale" : "head_dim");
  if (!scale) out.scale = emit_unary(b, OpCode::rsqrt, out.scale, "scale");
  const ValueId raw = emit_einsum(b, "bsgrd,btgd->bgrst", {out.grouped_query, key}, "products");
  out.scores = emit_mul(b, {raw, emit_broadcast(b, out.scale, b.shape(raw), {})}, "scores");
  if (!causal) return out;
  const ir::TensorType positions{ir::DType::i64, {q[1], k[1]}};
  const ValueId i = b.typed(OpCode::iota, positions, {{"dim", std::int64_t{0}}}, "query_position");
  const ValueId j = b.typed(OpCode::iota, positions, {{"dim", std::int64_t{1}}}, "key_position");
  const ValueId visible = b.op(OpCode::compare, {i, j}, {{"direction", std::string("ge")}}, "visible");
  out.scores =
      b.op(OpCode::select,
           {emit_broadcast(b, visible, b.shape(raw), {3, 4}), out.scores, emit_negative_infinity_like(b, out.scores)},
           {}, "masked_scores");
  return out;
}

Values append_definition(Builder& b, const Instruction& instruction, const Values& in) {
  const ir::Attributes& attributes = instruction.attributes;
  switch (instruction.op) {
    case OpCode::softmax:
      return {define_softmax(b, in[0], attributes.get<std::int64_t>("dim"))};
    case OpCode::log_softmax:
      return {define_log_softmax(b, in[0], attributes.get<std::int64_t>("dim"))};
    case OpCode::silu:
      return {define_silu(b, in[0])};
    case OpCode::gelu_tanh:
      return {define_gelu_tanh(b, in[0])};
    case OpCode::gelu_erf:
      return {define_gelu_erf(b, in[0])};
    case OpCode::swiglu:  // silu(gate) * up
      return {emit_mul(b, {define_silu(b, in[0]), in[1]}, "swiglu")};
    case OpCode::rms_norm:
      return {define_rms_norm(b, in[0], in[1], attributes.get<Rational>("eps"))};
    case OpCode::layer_norm:
      return {define_layer_norm(b, in[0], in[1], in[2], attributes.get<Rational>("eps"))};
    case OpCode::rope:
      return {define_rope(b, in[0], in[1], in[2])};
    case OpCode::attention:
      return {define_attention(b, instruction, in)};
    case OpCode::cross_entropy:
      return {define_cross_entropy(b, in[0], in[1])};
    case OpCode::adamw:
      return define_adamw(b, instruction, in);
    default:
      throw InternalError("no definition: " + std::string(ir::schema_of(instruction.op).name) + " is not a macro");
  }
}

}  // namespace shardproof::lowering

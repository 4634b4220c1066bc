// Closed forms for softmax, normalisation and activations: what hand-written backward kernels compute. Tests compare
// each with the derivative of the macro's unfolding.
#include "lowering/emit.h"
#include "lowering/unfold_definitions.h"
#include "lowering/vjp.h"

namespace shardproof::lowering {
namespace {

using ir::Builder;
using ir::OpCode;
using ir::Rational;
using ir::ValueId;
using Values = std::vector<ValueId>;

// y (g - sum y g).
Values vjp_softmax(const VjpCall& c) {
  Builder& b = c.builder;
  const std::int64_t dim = c.instruction.attributes.get<std::int64_t>("dim");
  const ValueId inner = emit_reduce(b, OpCode::reduce_sum, emit_mul(b, {c.out(), c.g()}), {dim});
  const ValueId centred = b.op(OpCode::sub, {c.g(), emit_restore(b, inner, b.shape(c.out()), {dim})});
  return {emit_mul(b, {c.out(), centred}, c.names[0])};
}

// g - exp(y) sum g.
Values vjp_log_softmax(const VjpCall& c) {
  Builder& b = c.builder;
  const std::int64_t dim = c.instruction.attributes.get<std::int64_t>("dim");
  const ValueId total = emit_reduce(b, OpCode::reduce_sum, c.g(), {dim});
  const ValueId p = emit_unary(b, OpCode::exp, c.out());
  const ValueId drift = emit_mul(b, {p, emit_restore(b, total, b.shape(c.out()), {dim})});
  return {b.op(OpCode::sub, {c.g(), drift}, {}, c.names[0])};
}

ValueId one_minus(Builder& b, ValueId x) {
  return b.op(OpCode::sub, {emit_constant_like(b, x, Rational(1)), x});
}

// g s (1 + x (1 - s)), s = sigmoid(x).
ValueId silu_cotangent(Builder& b, ValueId g, ValueId x, ValueId s, std::string name) {
  const ValueId inner = emit_shifted(b, emit_mul(b, {x, one_minus(b, s)}), Rational(1));
  return emit_mul(b, {g, s, inner}, std::move(name));
}

Values vjp_silu(const VjpCall& c) {
  const ValueId s = emit_unary(c.builder, OpCode::sigmoid, c.in(0));
  return {silu_cotangent(c.builder, c.g(), c.in(0), s, c.names[0])};
}

Values vjp_swiglu(const VjpCall& c) {
  Builder& b = c.builder;
  const ValueId gate = c.in(0);
  const ValueId s = emit_unary(b, OpCode::sigmoid, gate);
  Values out(2);
  if (c.wanted[0]) out[0] = silu_cotangent(b, emit_mul(b, {c.g(), c.in(1)}), gate, s, c.names[0]);
  if (c.wanted[1]) out[1] = emit_mul(b, {c.g(), gate, s}, c.names[1]);
  return out;
}

// With u = k (x + a x^3), t = tanh u:  g (1 + t)/2 + g x/2 (1 - t^2) k (1 + 3 a x^2).
Values vjp_gelu_tanh(const VjpCall& c) {
  Builder& b = c.builder;
  const ValueId x = c.in(0);
  const Rational k = gelu_tanh_factor();
  const Rational a = gelu_tanh_cubic();
  const ValueId cube = emit_scaled(b, emit_mul(b, {x, x, x}), a);
  const ValueId t = emit_unary(b, OpCode::tanh, emit_scaled(b, emit_add(b, {x, cube}), k));
  const ValueId first = emit_scaled(b, emit_shifted(b, t, Rational(1)), Rational(1, 2));
  const ValueId slope =
      emit_scaled(b, emit_shifted(b, emit_scaled(b, emit_mul(b, {x, x}), Rational(3) * a), Rational(1)), k);
  const ValueId half = emit_scaled(b, x, Rational(1, 2));
  const ValueId second = emit_mul(b, {half, one_minus(b, emit_mul(b, {t, t})), slope});
  return {emit_mul(b, {c.g(), emit_add(b, {first, second})}, c.names[0])};
}

// With u = x / sqrt 2:  g (1 + erf u)/2 + g x/2 (2/sqrt pi) exp(-u^2) / sqrt 2.
Values vjp_gelu_erf(const VjpCall& c) {
  Builder& b = c.builder;
  const ValueId x = c.in(0);
  const ValueId root = emit_unary(b, OpCode::rsqrt, emit_constant_like(b, x, Rational(2)));
  const ValueId u = emit_mul(b, {x, root});
  const ValueId first = emit_scaled(b, emit_shifted(b, emit_unary(b, OpCode::erf, u), Rational(1)), Rational(1, 2));
  const ValueId bell = emit_unary(b, OpCode::exp, emit_unary(b, OpCode::neg, emit_mul(b, {u, u})));
  const ValueId slope = emit_scaled(b, emit_mul(b, {bell, root}), two_over_sqrt_pi());
  const ValueId second = emit_mul(b, {emit_scaled(b, x, Rational(1, 2)), slope});
  return {emit_mul(b, {c.g(), emit_add(b, {first, second})}, c.names[0])};
}

// Sum over all but the last dimension.
ValueId sum_leading(Builder& b, ValueId x, std::string name) {
  return emit_reduce(b, OpCode::reduce_sum, x, leading_dims(b.shape(x).size()), std::move(name));
}

// With r = rsqrt(mean(x^2) + eps):  dx = r g w - x r^3 mean(g w x),  dw = sum g x r.
Values vjp_rms_norm(const VjpCall& c) {
  Builder& b = c.builder;
  const ValueId x = c.in(0);
  const ValueId mean = emit_mean_last(b, emit_mul(b, {x, x}));
  const ValueId r = emit_unary(b, OpCode::rsqrt, emit_shifted(b, mean, c.instruction.attributes.get<Rational>("eps")));
  const ValueId r_full = emit_restore_last(b, r, x);
  Values out(2);
  if (c.wanted[0]) {
    const ValueId gw = emit_mul(b, {c.g(), emit_restore_leading(b, c.in(1), x)});
    const ValueId inner = emit_mul(b, {emit_mean_last(b, emit_mul(b, {gw, x})), r, r, r});
    const ValueId direct = emit_mul(b, {gw, r_full});
    out[0] = b.op(OpCode::sub, {direct, emit_mul(b, {x, emit_restore_last(b, inner, x)})}, {}, c.names[0]);
  }
  if (c.wanted[1]) out[1] = sum_leading(b, emit_mul(b, {c.g(), x, r_full}), c.names[1]);
  return out;
}

// With h = (x - mean) r, r = rsqrt(variance + eps):
// dx = r (g w - mean(g w) - h mean(g w h)),  dw = sum g h,  dbias = sum g.
Values vjp_layer_norm(const VjpCall& c) {
  Builder& b = c.builder;
  const ValueId x = c.in(0);
  Values out(3);
  if (c.wanted[0] || c.wanted[1]) {
    const ValueId centred = b.op(OpCode::sub, {x, emit_restore_last(b, emit_mean_last(b, x), x)});
    const ValueId variance = emit_mean_last(b, emit_mul(b, {centred, centred}));
    const ValueId r =
        emit_unary(b, OpCode::rsqrt, emit_shifted(b, variance, c.instruction.attributes.get<Rational>("eps")));
    const ValueId r_full = emit_restore_last(b, r, x);
    const ValueId h = emit_mul(b, {centred, r_full});
    if (c.wanted[0]) {
      const ValueId gw = emit_mul(b, {c.g(), emit_restore_leading(b, c.in(1), x)});
      const ValueId mean_gw = emit_restore_last(b, emit_mean_last(b, gw), x);
      const ValueId mean_gwh = emit_restore_last(b, emit_mean_last(b, emit_mul(b, {gw, h})), x);
      const ValueId inner = b.op(OpCode::sub, {b.op(OpCode::sub, {gw, mean_gw}), emit_mul(b, {h, mean_gwh})});
      out[0] = emit_mul(b, {r_full, inner}, c.names[0]);
    }
    if (c.wanted[1]) out[1] = sum_leading(b, emit_mul(b, {c.g(), h}), c.names[1]);
  }
  if (c.wanted[2]) out[2] = sum_leading(b, c.g(), c.names[2]);
  return out;
}

constexpr VjpEntry kRules[] = {
    {OpCode::softmax, vjp_softmax},   {OpCode::log_softmax, vjp_log_softmax}, {OpCode::silu, vjp_silu},
    {OpCode::swiglu, vjp_swiglu},     {OpCode::gelu_tanh, vjp_gelu_tanh},     {OpCode::gelu_erf, vjp_gelu_erf},
    {OpCode::rms_norm, vjp_rms_norm}, {OpCode::layer_norm, vjp_layer_norm},
};

}  // namespace

std::span<const VjpEntry> norm_vjps() {
  return kRules;
}

}  // namespace shardproof::lowering

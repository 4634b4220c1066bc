// Elementwise ops: cotangent times the derivative, written with the result y where that is shorter.
#include "lowering/emit.h"
#include "lowering/unfold_definitions.h"
#include "lowering/vjp.h"

namespace shardproof::lowering {
namespace {

using ir::OpCode;
using ir::Rational;
using ir::ValueId;
using Values = std::vector<ValueId>;

Values vjp_add(const VjpCall& c) {
  return Values(c.instruction.inputs.size(), c.g());
}

Values vjp_sub(const VjpCall& c) {
  return {c.g(), c.wanted[1] ? emit_unary(c.builder, OpCode::neg, c.g(), c.names[1]) : ValueId{}};
}

Values vjp_neg(const VjpCall& c) {
  return {emit_unary(c.builder, OpCode::neg, c.g(), c.names[0])};
}

Values vjp_mul(const VjpCall& c) {
  Values out;
  for (std::size_t i = 0; i < c.instruction.inputs.size(); ++i) {
    Values factors = {c.g()};
    for (std::size_t j = 0; j < c.instruction.inputs.size(); ++j) {
      if (j != i) factors.push_back(c.in(j));
    }
    out.push_back(c.wanted[i] ? emit_mul(c.builder, std::move(factors), c.names[i]) : ValueId{});
  }
  return out;
}

// d(a/b) = da/b - (a/b) db/b.
Values vjp_div(const VjpCall& c) {
  Values out(2);
  if (c.wanted[0]) out[0] = c.builder.op(OpCode::div, {c.g(), c.in(1)}, {}, c.names[0]);
  if (c.wanted[1]) {
    const ValueId quotient = c.builder.op(OpCode::div, {emit_mul(c.builder, {c.g(), c.out()}), c.in(1)});
    out[1] = emit_unary(c.builder, OpCode::neg, quotient, c.names[1]);
  }
  return out;
}

// 1 where `condition`, 0 elsewhere, in the type of `like`.
ValueId indicator(const VjpCall& c, ValueId condition, ValueId like) {
  return c.builder.op(OpCode::select, {condition, emit_constant_like(c.builder, like, Rational(1)),
                                       emit_constant_like(c.builder, like, Rational(0))});
}

// The cotangent goes to the operand that is the extremum, evenly shared by ties (PyTorch's convention for
// maximum and amax).
Values vjp_extremum(const VjpCall& c) {
  Values hits;
  for (const ValueId operand : c.instruction.inputs) {
    const ValueId equal = c.builder.op(OpCode::compare, {operand, c.out()}, {{"direction", std::string("eq")}});
    hits.push_back(indicator(c, equal, operand));
  }
  const ValueId share = c.builder.op(OpCode::div, {c.g(), emit_add(c.builder, hits)});
  Values out(hits.size());
  for (std::size_t i = 0; i < hits.size(); ++i) {
    if (c.wanted[i]) out[i] = emit_mul(c.builder, {share, hits[i]}, c.names[i]);
  }
  return out;
}

Values vjp_exp(const VjpCall& c) {
  return {emit_mul(c.builder, {c.g(), c.out()}, c.names[0])};
}

Values vjp_log(const VjpCall& c) {
  return {c.builder.op(OpCode::div, {c.g(), c.in(0)}, {}, c.names[0])};
}

Values vjp_sqrt(const VjpCall& c) {  // 1 / (2 y)
  return {c.builder.op(OpCode::div, {emit_scaled(c.builder, c.g(), Rational(1, 2)), c.out()}, {}, c.names[0])};
}

Values vjp_rsqrt(const VjpCall& c) {  // -y^3 / 2
  return {emit_mul(c.builder, {emit_scaled(c.builder, c.g(), Rational(-1, 2)), c.out(), c.out(), c.out()}, c.names[0])};
}

Values vjp_reciprocal(const VjpCall& c) {  // -y^2
  const ValueId negative = emit_unary(c.builder, OpCode::neg, c.g());
  return {emit_mul(c.builder, {negative, c.out(), c.out()}, c.names[0])};
}

ValueId one_minus(ir::Builder& builder, ValueId x) {
  const ValueId one = emit_constant_like(builder, x, Rational(1));
  return builder.op(OpCode::sub, {one, x});
}

Values vjp_tanh(const VjpCall& c) {  // 1 - y^2
  const ValueId square = emit_mul(c.builder, {c.out(), c.out()});
  return {emit_mul(c.builder, {c.g(), one_minus(c.builder, square)}, c.names[0])};
}

Values vjp_erf(const VjpCall& c) {  // 2/sqrt(pi) exp(-x^2)
  const ValueId square = emit_mul(c.builder, {c.in(0), c.in(0)});
  const ValueId bell = emit_unary(c.builder, OpCode::exp, emit_unary(c.builder, OpCode::neg, square));
  const ValueId scaled = emit_scaled(c.builder, bell, two_over_sqrt_pi());
  return {emit_mul(c.builder, {c.g(), scaled}, c.names[0])};
}

Values vjp_sigmoid(const VjpCall& c) {  // y (1 - y)
  return {emit_mul(c.builder, {c.g(), c.out(), one_minus(c.builder, c.out())}, c.names[0])};
}

Values vjp_sin(const VjpCall& c) {
  return {emit_mul(c.builder, {c.g(), emit_unary(c.builder, OpCode::cos, c.in(0))}, c.names[0])};
}

Values vjp_cos(const VjpCall& c) {
  const ValueId sine = emit_unary(c.builder, OpCode::sin, c.in(0));
  return {emit_mul(c.builder, {c.g(), emit_unary(c.builder, OpCode::neg, sine)}, c.names[0])};
}

Values vjp_abs(const VjpCall& c) {  // the sign of x, 0 at 0
  const ValueId zero = emit_constant_like(c.builder, c.in(0), Rational(0));
  const ValueId above = c.builder.op(OpCode::compare, {c.in(0), zero}, {{"direction", std::string("gt")}});
  const ValueId below = c.builder.op(OpCode::compare, {c.in(0), zero}, {{"direction", std::string("lt")}});
  const ValueId sign = c.builder.op(OpCode::sub, {indicator(c, above, c.in(0)), indicator(c, below, c.in(0))});
  return {emit_mul(c.builder, {c.g(), sign}, c.names[0])};
}

Values vjp_pow(const VjpCall& c) {  // e x^(e-1)
  const Rational exponent = c.instruction.attributes.get<Rational>("exponent");
  if (exponent.is_zero()) return {ValueId{}};
  const ValueId lower = c.builder.op(OpCode::pow, {c.in(0)}, {{"exponent", exponent - Rational(1)}});
  return {emit_mul(c.builder, {emit_scaled(c.builder, c.g(), exponent), lower}, c.names[0])};
}

Values vjp_power(const VjpCall& c) {  // n b^(n-1); n is an integer tensor
  const std::string dtype(ir::dtype_name(c.builder.type(c.in(0)).dtype));
  const ValueId lower = c.builder.op(OpCode::power, {c.in(0), emit_shifted(c.builder, c.in(1), Rational(-1))});
  const ValueId count = c.builder.op(OpCode::cast, {c.in(1)}, {{"dtype", dtype}});
  return {emit_mul(c.builder, {c.g(), count, lower}, c.names[0]), {}};
}

Values vjp_select(const VjpCall& c) {
  Values out(3);
  const ValueId zero = emit_constant_like(c.builder, c.g(), Rational(0));
  if (c.wanted[1]) out[1] = c.builder.op(OpCode::select, {c.in(0), c.g(), zero}, {}, c.names[1]);
  if (c.wanted[2]) out[2] = c.builder.op(OpCode::select, {c.in(0), zero, c.g()}, {}, c.names[2]);
  return out;
}

constexpr VjpEntry kRules[] = {
    {OpCode::add, vjp_add},      {OpCode::mul, vjp_mul},     {OpCode::max, vjp_extremum},
    {OpCode::min, vjp_extremum}, {OpCode::sub, vjp_sub},     {OpCode::div, vjp_div},
    {OpCode::neg, vjp_neg},      {OpCode::exp, vjp_exp},     {OpCode::log, vjp_log},
    {OpCode::sqrt, vjp_sqrt},    {OpCode::rsqrt, vjp_rsqrt}, {OpCode::reciprocal, vjp_reciprocal},
    {OpCode::tanh, vjp_tanh},    {OpCode::erf, vjp_erf},     {OpCode::sigmoid, vjp_sigmoid},
    {OpCode::sin, vjp_sin},      {OpCode::cos, vjp_cos},     {OpCode::abs, vjp_abs},
    {OpCode::pow, vjp_pow},      {OpCode::power, vjp_power}, {OpCode::select, vjp_select},
};

}  // namespace

std::span<const VjpEntry> elementwise_vjps() {
  return kRules;
}

}  // namespace shardproof::lowering

// Sums of products and reductions.
#include <algorithm>

#include "ir/check.h"
#include "lowering/emit.h"
#include "lowering/vjp.h"

namespace shardproof::lowering {
namespace {

using ir::OpCode;
using ir::Rational;
using ir::ValueId;
using Values = std::vector<ValueId>;

bool occurs(const std::string& labels, char label) {
  return labels.find(label) != std::string::npos;
}

// An einsum is linear in each operand: its cotangent is the einsum of g and the other operands onto its own labels.
// A label that only this operand has was summed alone: the cotangent does not vary along it.
ValueId einsum_operand(const VjpCall& c, const ir::EinsumSpec& spec, std::size_t which) {
  const std::string& own = spec.operands[which];
  Values inputs = {c.g()};
  std::string text = spec.result;
  std::string available = spec.result;
  for (std::size_t i = 0; i < spec.operands.size(); ++i) {
    if (i == which) continue;
    inputs.push_back(c.in(i));
    text += "," + spec.operands[i];
    available += spec.operands[i];
  }
  std::string present;
  Dims missing;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (occurs(available, own[i]))
      present += own[i];
    else
      missing.push_back(static_cast<std::int64_t>(i));
  }
  ValueId g = c.g();
  if (inputs.size() > 1 || present != spec.result) {
    g = emit_einsum(c.builder, text + "->" + present, std::move(inputs), c.names[which]);
  }
  return emit_restore(c.builder, g, ir::Shape(c.builder.shape(c.in(which))), missing, c.names[which]);
}

Values vjp_einsum(const VjpCall& c) {
  const std::optional<ir::EinsumSpec> spec = ir::parse_einsum(c.instruction.attributes.get<std::string>("spec"));
  SHARDPROOF_CHECK(spec.has_value());
  Values out(c.instruction.inputs.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (c.wanted[i]) out[i] = einsum_operand(c, *spec, i);
  }
  return out;
}

Values vjp_reduce_sum(const VjpCall& c) {
  const Dims& dims = c.instruction.attributes.get<Dims>("dims");
  return {emit_restore(c.builder, c.g(), ir::Shape(c.builder.shape(c.in(0))), dims, c.names[0])};
}

// Evenly shared by the elements that equal the extremum (PyTorch's convention for amax).
Values vjp_reduce_extremum(const VjpCall& c) {
  const Dims& dims = c.instruction.attributes.get<Dims>("dims");
  const ir::Shape shape = c.builder.shape(c.in(0));
  const ValueId best = emit_restore(c.builder, c.out(), shape, dims);
  const ValueId equal = c.builder.op(OpCode::compare, {c.in(0), best}, {{"direction", std::string("eq")}});
  const ValueId hit = c.builder.op(OpCode::select, {equal, emit_constant_like(c.builder, c.in(0), Rational(1)),
                                                    emit_constant_like(c.builder, c.in(0), Rational(0))});
  const ValueId share = c.builder.op(OpCode::div, {c.g(), emit_reduce(c.builder, OpCode::reduce_sum, hit, dims)});
  return {emit_mul(c.builder, {emit_restore(c.builder, share, shape, dims), hit}, c.names[0])};
}

constexpr VjpEntry kRules[] = {
    {OpCode::einsum, vjp_einsum},
    {OpCode::reduce_sum, vjp_reduce_sum},
    {OpCode::reduce_max, vjp_reduce_extremum},
    {OpCode::reduce_min, vjp_reduce_extremum},
};

}  // namespace

std::span<const VjpEntry> contraction_vjps() {
  return kRules;
}

}  // namespace shardproof::lowering

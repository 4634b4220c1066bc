// Rotary embedding, attention and the loss.
#include <optional>

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

// sum over batch and heads of p a + q b (or p a - q b): the cotangent of a table [s, d/2].
ValueId table_cotangent(Builder& b, OpCode combine, ValueId p, ValueId a, ValueId q, ValueId other, std::string name) {
  const ValueId both = b.op(combine, {emit_mul(b, {p, a}), emit_mul(b, {q, other})});
  return emit_reduce(b, OpCode::reduce_sum, both, {0, 2}, std::move(name));
}

// A rotation's transpose turns back: dx = rope(g, cos, -sin). With halves g = (g1, g2):
// dcos = sum g1 x1 + g2 x2,  dsin = sum g2 x1 - g1 x2.
Values vjp_rope(const VjpCall& c) {
  Builder& b = c.builder;
  Values out(3);
  if (c.wanted[0]) {
    const ValueId back = emit_unary(b, OpCode::neg, c.in(2));
    out[0] = b.op(OpCode::rope, {c.g(), c.in(1), back}, {}, c.names[0]);
  }
  if (!c.wanted[1] && !c.wanted[2]) return out;
  const std::int64_t half = last_extent(b, c.in(0)) / 2;
  const auto split = [&](ValueId x, std::int64_t start) { return emit_slice(b, x, 3, ir::constant_expr(start), half); };
  const ValueId x1 = split(c.in(0), 0);
  const ValueId x2 = split(c.in(0), half);
  const ValueId g1 = split(c.g(), 0);
  const ValueId g2 = split(c.g(), half);
  if (c.wanted[1]) out[1] = table_cotangent(b, OpCode::add, g1, x1, g2, x2, c.names[1]);
  if (c.wanted[2]) out[2] = table_cotangent(b, OpCode::sub, g2, x1, g1, x2, c.names[2]);
  return out;
}

// With p = softmax(scores) per query head, in the grouped layout of unfold_definitions:
//   dv = p^T g,  dp = g v^T,  ds = p (dp - sum_t p dp),  dq = scale ds k,  dk = scale ds^T q,
// where the sums for dk and dv run over all query heads that read the key/value head.
Values vjp_attention(const VjpCall& c) {
  Builder& b = c.builder;
  const ir::Attributes& attributes = c.instruction.attributes;
  std::optional<Rational> scale;
  if (attributes.has("scale")) scale = attributes.get<Rational>("scale");
  const AttentionScores s = append_attention_scores(b, c.in(0), c.in(1), attributes.get<bool>("causal"), scale);
  const ValueId p = b.op(OpCode::softmax, {s.scores}, {{"dim", std::int64_t{4}}}, "probabilities");
  ir::Shape grouped = b.shape(s.grouped_query);
  grouped.back() = last_extent(b, c.in(2));
  const ValueId g = emit_reshape(b, c.g(), grouped);
  Values out(3);
  if (c.wanted[2]) out[2] = emit_einsum(b, "bgrst,bsgre->btge", {p, g}, c.names[2]);
  if (!c.wanted[0] && !c.wanted[1]) return out;
  const ValueId dp = emit_einsum(b, "bsgre,btge->bgrst", {g, c.in(2)});
  const ValueId inner = emit_reduce(b, OpCode::reduce_sum, emit_mul(b, {p, dp}), {4});
  const ValueId centred = b.op(OpCode::sub, {dp, emit_restore(b, inner, b.shape(dp), {4})});
  const ValueId ds = emit_mul(b, {p, centred, emit_broadcast(b, s.scale, b.shape(dp), {})});
  if (c.wanted[0]) {
    const ValueId dq = emit_einsum(b, "bgrst,btgd->bsgrd", {ds, c.in(1)});
    out[0] = emit_reshape(b, dq, b.shape(c.in(0)), c.names[0]);
  }
  if (c.wanted[1]) out[1] = emit_einsum(b, "bgrst,bsgrd->btgd", {ds, s.grouped_query}, c.names[1]);
  return out;
}

// (softmax(logits) - onehot(label)) g.
Values vjp_cross_entropy(const VjpCall& c) {
  Builder& b = c.builder;
  const ValueId p = b.op(OpCode::softmax, {c.in(0)}, {{"dim", last_dim(b, c.in(0))}});
  const ValueId spread = emit_mul(b, {p, emit_restore_last(b, c.g(), c.in(0))});
  const ValueId hit = b.op(OpCode::put_along, {c.g(), c.in(1)}, {{"size", last_extent(b, c.in(0))}});
  return {b.op(OpCode::sub, {spread, hit}, {}, c.names[0]), {}};
}

constexpr VjpEntry kRules[] = {
    {OpCode::rope, vjp_rope},
    {OpCode::attention, vjp_attention},
    {OpCode::cross_entropy, vjp_cross_entropy},
};

}  // namespace

std::span<const VjpEntry> attention_vjps() {
  return kRules;
}

}  // namespace shardproof::lowering

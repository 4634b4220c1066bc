// Causal attention over the rank's own heads: every rank has all keys of its heads, gathered over context parallel ranks.
// Scores are kept grouped, "bgrst": kv group g, query head r of the group, query s, key t.
#include "lowering/emit.h"
#include "lowering/plan_blocks.h"

namespace shardproof::lowering {

using ir::DType;

HeadCounts local_heads(const ModelConfig& model, const PlanDegrees& degrees) {
  HeadCounts heads;
  heads.groups = model.num_kv_heads / degrees.kv_shards;
  heads.queries = model.num_heads / degrees.tp / heads.groups;
  return heads;
}

AttentionShared attention_shared(PlanWriter& writer, const PositionsShared& positions) {
  writer.at("attention", "shared values", "attention");
  const PlanDegrees& degrees = writer.degrees();
  const HeadCounts heads = local_heads(writer.model(), degrees);
  const Shape pairs{degrees.sequence_own, degrees.sequence};
  const Shape scores{degrees.micro_batch, heads.groups, heads.queries, pairs[0], pairs[1]};
  ir::Builder& builder = writer.builder();
  const auto position = [&](std::int64_t dim, ValueId known, const std::string& name) {
    if (known.valid()) return writer.broadcast(known, pairs, {dim}, name);
    return builder.typed(OpCode::iota, {DType::i64, pairs}, {{"dim", dim}}, "attention." + name);
  };
  const ValueId query = position(0, positions.own, "query_position");
  const ValueId key = position(1, positions.gathered, "key_position");
  AttentionShared shared;
  shared.visible = writer.broadcast(writer.compare(query, key, "ge", "causal"), scores, {3, 4}, "visible");
  const ValueId head_dim = writer.constant(writer.model().head_dim, DType::f32, {});
  shared.scale = writer.spread(writer.op(OpCode::rsqrt, {head_dim}, "scale"), scores);
  shared.hidden = emit_negative_infinity_like(builder, shared.scale);
  return shared;
}

AttentionSaved attention_forward(PlanWriter& writer, const AttentionShared& shared, ValueId q, ValueId k, ValueId v) {
  AttentionSaved saved;
  saved.q = q;
  saved.k = k;
  saved.v = v;
  const ValueId keys = gather_context(writer, k, "k_all");
  const ValueId values = gather_context(writer, v, "v_all");
  const ValueId products =
      writer.cast(writer.einsum("bsgrd,btgd->bgrst", {q, keys}, "products"), DType::f32, "products_f32");
  const ValueId scores = writer.mul({products, shared.scale}, "scores");
  const ValueId masked = writer.select(shared.visible, scores, shared.hidden, "masked_scores");
  saved.probabilities = writer.op(OpCode::softmax, {masked}, {{"dim", std::int64_t{4}}}, "probabilities");
  saved.weights = writer.cast(saved.probabilities, writer.degrees().compute, "weights");
  const ValueId grouped = writer.einsum("bgrst,btgd->bsgrd", {saved.weights, values}, "grouped_context");
  const Shape s = writer.shape(q);
  saved.context = writer.reshape(grouped, {s[0], s[1], s[2] * s[3] * s[4]}, "context");
  return saved;
}

// With p = softmax(scale q k^T): d scores = p (dp - sum_t p dp), zero where masked because p is.
AttentionGradients attention_backward(PlanWriter& writer, const AttentionShared& shared, const AttentionSaved& saved,
                                      ValueId gradient) {
  AttentionGradients result;
  const bool is_cut = writer.degrees().cp > 1;
  const char* const d_k = is_cut ? "d_k_all" : "d_k";
  const char* const d_v = is_cut ? "d_v_all" : "d_v";
  const ValueId grouped = writer.reshape(gradient, writer.shape(saved.q), "d_grouped_context");
  const ValueId keys = gather_context(writer, saved.k, "k_again");
  const ValueId values = gather_context(writer, saved.v, "v_again");
  result.v = reduce_to_context(writer, writer.einsum("bgrst,bsgrd->btgd", {saved.weights, grouped}, d_v), "d_v");
  const ValueId dp =
      writer.cast(writer.einsum("bsgrd,btgd->bgrst", {grouped, values}, "d_weights"), DType::f32, "d_probabilities");
  const ValueId inner = writer.einsum("bgrst,bgrst->bgrs", {saved.probabilities, dp}, "row_sum");
  const ValueId centred =
      writer.sub(dp, writer.broadcast(inner, writer.shape(dp), {0, 1, 2, 3}, "row_sum_b"), "d_centred");
  const ValueId scores = writer.mul({saved.probabilities, centred, shared.scale}, "d_products_f32");
  const ValueId products = writer.cast(scores, writer.degrees().compute, "d_products");
  result.q = writer.einsum("bgrst,btgd->bsgrd", {products, keys}, "d_q");
  result.k = reduce_to_context(writer, writer.einsum("bgrst,bsgrd->btgd", {products, saved.q}, d_k), "d_k");
  return result;
}

}  // namespace shardproof::lowering

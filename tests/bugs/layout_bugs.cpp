// Layout of fused weights over tensor-parallel ranks, and norms over a dimension that is cut.
#include "case.h"

namespace shardproof::bugs {
namespace {

using Document = ir::Document;

std::vector<std::pair<std::string, std::int64_t>> tensor_parallel(const Sizes& n) {
  return {{"dp", n.dp}, {"tp", n.tp}};
}

// The three thirds of the last dimension.
std::vector<Both> thirds(Case& c, const Both& fused) {
  std::vector<Both> parts;
  const std::int64_t last = static_cast<std::int64_t>(c.reference.shape(fused.reference).size()) - 1;
  for (std::int64_t i = 0; i < 3; ++i) parts.push_back(c.both([&](Ops& o) { return o.part(o[fused], last, i, 3); }));
  return parts;
}

// q k + v: any use that tells the three apart.
Both mixed(Case& c, const std::vector<Both>& parts) {
  return c.both([&](Ops& o) { return o.add({o.mul({o[parts[0]], o[parts[1]]}), o[parts[2]]}); });
}

// The weight is [q; k; v]. A plain cut of its rows, read in local thirds, holds other rows than each third cut by
// itself.
Document thirds_of_a_plain_cut(bool wrong, const Sizes& n) {
  Case c(wrong, n, tensor_parallel(n));
  const Both x = c.input("x", {n.batch, n.hidden}, "dp _");
  const Both w = c.state("qkv", {3 * n.hidden, n.hidden}, c.right_or_wrong("3+tp _", "tp _"));
  const Both qkv = c.both([&](Ops& o) { return o.einsum("bh,oh->bo", {o[x], o[w]}); });
  c.output("y", mixed(c, thirds(c, qkv)), "dp tp");
  return std::move(c).document();
}

// Local [q|k|v] are gathered as they are: [q0 k0 v0 | q1 k1 v1], read as [q|k|v].
Document gathered_without_unfusing(bool wrong, const Sizes& n) {
  Case c(wrong, n, tensor_parallel(n));
  const Both x = c.input("x", {n.batch, n.hidden}, "dp _");
  const Both w = c.state("qkv", {3 * n.hidden, n.hidden}, "3+tp _");
  Both qkv = c.both([&](Ops& o) { return o.einsum("bh,oh->bo", {o[x], o[w]}); });
  Ops& o = c.plan;
  const std::int64_t rows = n.batch / n.dp;
  if (wrong) {
    qkv.plan = o.all_gather(qkv.plan, {"tp"}, 1);
  } else {
    qkv.plan =
        o.reshape(o.all_gather(o.reshape(qkv.plan, {rows, 3, n.hidden / n.tp}), {"tp"}, 2), {rows, 3 * n.hidden});
  }
  c.output("y", mixed(c, thirds(c, qkv)), "dp _");
  return std::move(c).document();
}

// The weight is interleaved by head, [heads, 3, d]; it is cut by heads, but read as if it were three blocks.
Document interleaved_heads_read_as_blocks(bool wrong, const Sizes& n) {
  Case c(wrong, n, tensor_parallel(n));
  const Both x = c.input("x", {n.batch, n.hidden}, "dp _");
  const Both w = c.state("qkv", {n.heads * 3 * n.head_dim, n.hidden}, "tp _");
  const Both rows = c.both([&](Ops& o) { return o.einsum("bh,oh->bo", {o[x], o[w]}); });
  const Both qkv = c.both([&](Ops& o) {
    const ir::Shape from = o.shape(o[rows]);
    const std::int64_t heads = from[1] / (3 * n.head_dim);
    if (wrong && o.is_plan()) return o.transpose(o.reshape(o[rows], {from[0], 3, heads, n.head_dim}), {0, 2, 1, 3});
    return o.reshape(o[rows], {from[0], heads, 3, n.head_dim});
  });
  const Both flat = c.both([&](Ops& o) {
    const ir::Shape from = o.shape(o[qkv]);
    return o.reshape(o[qkv], {from[0], from[1], 3 * n.head_dim});
  });
  c.output("y", mixed(c, thirds(c, flat)), "dp tp _");
  return std::move(c).document();
}

// Gate and up in one weight, loaded as one contiguous piece per rank where the consumer splits its local width in two.
Document loaded_without_interleaving(bool wrong, const Sizes& n) {
  Case c(wrong, n, tensor_parallel(n));
  const Both x = c.input("x", {n.batch, n.hidden}, "dp _");
  const Both w = c.state("gate_up", {2 * n.ffn, n.hidden}, c.right_or_wrong("2+tp _", "tp _"));
  const Both down = c.state("down", {n.hidden, n.ffn}, "_ tp");
  const Both both = c.both([&](Ops& o) { return o.einsum("bh,oh->bo", {o[x], o[w]}); });
  const Both inner = c.both([&](Ops& o) {
    return o.op(OpCode::swiglu, {o.part(o[both], 1, 0, 2), o.part(o[both], 1, 1, 2)});
  });
  Both y = c.both([&](Ops& o) { return o.einsum("bf,hf->bh", {o[inner], o[down]}); });
  y.plan = c.plan.all_reduce(y.plan, {"tp"});
  c.output("y", y, "dp _");
  return std::move(c).document();
}

// The loader takes the data-parallel cut of fully sharded parameters for a tensor-parallel one and swaps its pieces.
Document swapped_though_not_tensor_parallel(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Both x = c.input("x", {n.batch, n.hidden}, "dp _");
  const Both w = c.state("gate_up", {2 * n.ffn, n.hidden}, "dp _");
  Both whole = w;
  whole.plan = c.plan.all_gather(w.plan, {"dp"}, 0);
  if (wrong) {
    Ops& o = c.plan;
    const ValueId pieces = o.reshape(whole.plan, {n.dp, 2, n.ffn / n.dp, n.hidden});
    whole.plan = o.reshape(o.transpose(pieces, {1, 0, 2, 3}), {2 * n.ffn, n.hidden});
  }
  const Both both = c.both([&](Ops& o) { return o.einsum("bh,oh->bo", {o[x], o[whole]}); });
  c.output("inner", c.both([&](Ops& o) {
    return o.op(OpCode::swiglu, {o.part(o[both], 1, 0, 2), o.part(o[both], 1, 1, 2)});
  }),
           "dp _");
  return std::move(c).document();
}

// A norm over the whole width, by the statistics of the own shard.
Document norm_by_local_statistics(bool wrong, const Sizes& n) {
  Case c(wrong, n, tensor_parallel(n));
  const Both x = c.input("x", {n.batch, n.sequence, n.hidden}, "dp _ tp");
  const Both weight = c.state("weight", {n.hidden}, "tp");
  const auto norm = [&](Ops& o) {
    ValueId squares = o.sum(o.mul({o[x], o[x]}), {2});
    const bool local = o.is_plan() && wrong;
    if (o.is_plan() && !wrong) squares = o.all_reduce(squares, {"tp"});
    const ValueId mean = o.scale(squares, {1, local ? n.hidden / n.tp : n.hidden});
    const ValueId root = o.op(OpCode::rsqrt, {o.add({mean, o.fill(o.shape(mean), {1, 100000})})});
    const ir::Shape to = o.shape(o[x]);
    return o.mul({o[x], o.spread(root, to, {0, 1}), o.spread(o[weight], to, {2})});
  };
  c.output("y", c.both(norm), "dp _ tp");
  return std::move(c).document();
}

// The same with the statistics summed over ranks, where a mean is due.
Document norm_by_sum_of_squares(bool wrong, const Sizes& n) {
  Case c(wrong, n, tensor_parallel(n));
  const Both x = c.input("x", {n.batch, n.sequence, n.hidden}, "dp _ tp");
  const auto norm = [&](Ops& o) {
    ValueId mean = o.scale(o.sum(o.mul({o[x], o[x]}), {2}), {1, o.shape(o[x])[2]});
    if (o.is_plan()) mean = o.all_reduce(mean, {"tp"}, c.right_or_wrong("avg", "sum"));
    const ValueId root = o.op(OpCode::rsqrt, {o.add({mean, o.fill(o.shape(mean), {1, 100000})})});
    return o.mul({o[x], o.spread(root, o.shape(o[x]), {0, 1})});
  };
  c.output("y", c.both(norm), "dp _ tp");
  return std::move(c).document();
}

}  // namespace

std::vector<Bug> layout_bugs() {
  return {
      {"slapo_46", "B159", thirds_of_a_plain_cut},
      {"nnsight_719", "B160", gathered_without_unfusing},
      {"deepspeed_3844", "B161", interleaved_heads_read_as_blocks},
      {"tt_metal_52818", "B162", loaded_without_interleaving},
      {"megatron_lm_2769", "B163", swapped_though_not_tensor_parallel},
      {"gpt_neox_1424", "B165", norm_by_local_statistics, "SP0201"},
      {"tt_mlir_8798", "B165", norm_by_sum_of_squares},
  };
}

}  // namespace shardproof::bugs

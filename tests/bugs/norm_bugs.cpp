// The global gradient norm and clipping by it.
#include "case.h"

namespace shardproof::bugs {
namespace {

using Document = ir::Document;

ValueId squares(Ops& o, ValueId x) {
  return o.total(o.mul({x, x}));
}

// Gradients come as inputs; the norm is what is looked at.
void finish_norm(Case& c, const Both& squared) {
  c.output("norm", c.both([&](Ops& o) { return o.op(OpCode::sqrt, {o[squared]}); }));
}

// x * min(1, limit / norm)
ValueId clipped(Ops& o, ValueId x, ValueId squared) {
  const ValueId ratio = o.op(OpCode::rsqrt, {squared});
  return o.times(x, o.op(OpCode::min, {ratio, o.fill({}, 1)}));
}

// A weight that all tp ranks hold is tagged as cut, so its squares are added tp times.
Document replicated_weight_tagged_as_cut(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}, {"tp", n.tp}});
  const Both cut = c.input("d_cut", {n.ffn, n.hidden}, "tp _"), whole = c.input("d_whole", {n.hidden, n.hidden});
  Both squared = c.both([&](Ops& o) { return squares(o, o[cut]); });
  const Both more = c.both([&](Ops& o) { return squares(o, o[whole]); });
  if (!wrong) squared.plan = c.plan.all_reduce(squared.plan, {"tp"});
  squared = c.both([&](Ops& o) { return o.add({o[squared], o[more]}); });
  if (wrong) squared.plan = c.plan.all_reduce(squared.plan, {"tp"});
  finish_norm(c, squared);
  return std::move(c).document();
}

// 1 on the ranks whose coordinate along `axis` is 0.
ValueId first_only(Ops& o, const std::string& axis) {
  const ValueId first = o.compare(o.coordinate(ir::variable_expr(axis), {}), o.fill({}, 0, ir::DType::i64), "eq");
  return o.select(first, o.fill({}, 1), o.fill({}, 0));
}

// Expert weights have lost their mark, and the filter against duplicates drops all but the first tp rank's shards.
Document cut_experts_taken_for_duplicates(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"ep", 4}, {"tp", n.tp}});
  const Both experts = c.input("d_experts", {8, n.ffn, n.hidden}, "ep tp _"), dense = c.input("d_norm", {n.hidden});
  Both of_experts = c.both([&](Ops& o) { return squares(o, o[experts]); });
  Both of_dense = c.both([&](Ops& o) { return squares(o, o[dense]); });
  if (wrong) of_experts.plan = c.plan.mul({of_experts.plan, first_only(c.plan, "tp")});
  of_dense.plan = c.plan.mul({of_dense.plan, first_only(c.plan, "tp"), first_only(c.plan, "ep")});
  Both squared = c.both([&](Ops& o) { return o.add({o[of_experts], o[of_dense]}); });
  squared.plan = c.plan.all_reduce(squared.plan, {"ep", "tp"});
  finish_norm(c, squared);
  return std::move(c).document();
}

// The same for a vector with one element per head, cut over tp.
Document cut_sink_taken_for_duplicate(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}, {"tp", n.tp}});
  const Both sink = c.input("d_sink", {n.heads}, "tp"), weight = c.input("d_weight", {n.ffn, n.hidden}, "tp _");
  Both of_sink = c.both([&](Ops& o) { return squares(o, o[sink]); });
  if (wrong) of_sink.plan = c.plan.mul({of_sink.plan, first_only(c.plan, "tp")});
  Both squared = c.both([&](Ops& o) { return o.add({o[of_sink], squares(o, o[weight])}); });
  squared.plan = c.plan.all_reduce(squared.plan, {"tp"});
  finish_norm(c, squared);
  return std::move(c).document();
}

// Squares of expert gradients are not summed over the expert axis: every expert group has a norm of its own, by which
// the same dense gradient is clipped differently.
Document norm_per_expert_group(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}, {"ep", n.tp}});
  const Both experts = c.input("d_experts", {n.tp, n.ffn, n.hidden}, "ep dp _");
  const Both dense = c.input("d_dense", {n.hidden, n.hidden}, "dp _");
  const Both weight = c.state("dense", {n.hidden, n.hidden}, "dp _");
  Both of_experts = c.both([&](Ops& o) { return squares(o, o[experts]); });
  Both of_dense = c.both([&](Ops& o) { return squares(o, o[dense]); });
  of_experts.plan = c.plan.all_reduce(of_experts.plan, c.right_or_wrong<Texts>({"dp", "ep"}, {"dp"}));
  of_dense.plan = c.plan.all_reduce(of_dense.plan, {"dp"});
  const Both squared = c.both([&](Ops& o) { return o.add({o[of_experts], o[of_dense]}); });
  c.next("dense", c.both([&](Ops& o) { return o.descend(o[weight], clipped(o, o[dense], o[squared])); }));
  return std::move(c).document();
}

// The clip routine knows nothing of experts: each rank clips its experts by its own squares.
Document experts_clipped_apart(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"ep", n.tp}});
  const Both grad = c.input("d_experts", {n.tp, n.ffn, n.hidden}, "ep _ _");
  const Both weight = c.state("experts", {n.tp, n.ffn, n.hidden}, "ep _ _");
  Both squared = c.both([&](Ops& o) { return squares(o, o[grad]); });
  if (!wrong) squared.plan = c.plan.all_reduce(squared.plan, {"ep"});
  c.next("experts", c.both([&](Ops& o) { return o.descend(o[weight], clipped(o, o[grad], o[squared])); }));
  return std::move(c).document();
}

// Hybrid sharding: gradients are cut over `shard` and equal over `replica`; the squares are summed over both.
Document squares_summed_over_replicas(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"replica", n.dp}, {"shard", n.tp}});
  const Both grad = c.input("grad", {n.ffn, n.hidden}, "shard _");
  Both squared = c.both([&](Ops& o) { return squares(o, o[grad]); });
  squared.plan = c.plan.all_reduce(squared.plan, c.right_or_wrong<Texts>({"shard"}, {"replica", "shard"}));
  finish_norm(c, squared);
  return std::move(c).document();
}

// Norms of summands are added up instead of taking the norm of the sum.
Document sum_of_norms(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Both dy = c.input("dy", {n.batch, n.ffn}, "dp _"), x = c.input("x", {n.batch, n.hidden}, "dp _");
  Both grad = c.both([&](Ops& o) { return o.einsum("bf,bh->fh", {o[dy], o[x]}); });
  if (!wrong) grad.plan = c.plan.all_reduce(grad.plan, {"dp"});
  Both norm = c.both([&](Ops& o) { return o.op(OpCode::sqrt, {squares(o, o[grad])}); });
  if (wrong) norm.plan = c.plan.all_reduce(norm.plan, {"dp"});
  c.output("norm", norm);
  return std::move(c).document();
}

// Clipped after every microbatch instead of once before the step: what came first is scaled again and again.
Document clipped_in_each_microbatch(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Both dy = c.input("dy", {2, n.batch, n.ffn}, "_ dp _"), x = c.input("x", {2, n.batch, n.hidden}, "_ dp _");
  const Both weight = c.state("weight", {n.ffn, n.hidden});
  Ops& o = c.plan;
  ValueId sum;
  for (std::int64_t m = 0; m < 2; ++m) {
    const ir::CoordExpr at = ir::constant_expr(m);
    ValueId grad = o.all_reduce(o.einsum("bf,bh->fh", {o.pick(dy.plan, at), o.pick(x.plan, at)}), {"dp"});
    if (m > 0) grad = o.add({sum, grad});
    sum = wrong || m == 1 ? clipped(o, grad, squares(o, grad)) : grad;
  }
  const ValueId total = c.reference.einsum("kbf,kbh->fh", {dy.reference, x.reference});
  const Both grad{clipped(c.reference, total, squares(c.reference, total)), sum};
  c.next("weight", c.both([&](Ops& side) { return side.descend(side[weight], side[grad]); }));
  return std::move(c).document();
}

}  // namespace

std::vector<Bug> norm_bugs() {
  return {
      {"rocm_transformer_engine_715", "B072", replicated_weight_tagged_as_cut, "SP0202"},
      {"megatron_lm_5916", "B073", cut_experts_taken_for_duplicates},
      {"megatron_lm_7530", "B074", cut_sink_taken_for_duplicate},
      {"automodel_3816", "B075", norm_per_expert_group, "SP0201"},
      {"colossalai_2192", "B076", experts_clipped_apart, "SP0201"},
      {"veomni_862", "B077", squares_summed_over_replicas, "SP0203"},
      {"pytorch_159856", "B078", sum_of_norms, "SP0201"},
      {"transformers_986", "B079", clipped_in_each_microbatch},
  };
}

}  // namespace shardproof::bugs

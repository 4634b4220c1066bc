// Sharding rules of compilers and adapters, groups, and the assignment of data to ranks.
#include "case.h"

namespace shardproof::bugs {
namespace {

using Document = ir::Document;

// Statistics of eight-bit scaling are reduced over dp only; tp ranks exchange the tensor and scale it differently.
Document greatest_over_the_wrong_group(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}, {"tp", n.tp}});
  const Both x = c.input("x", {n.batch, n.hidden}, "dp tp");
  const Both magnitude = c.both([&](Ops& o) { return o.op(OpCode::abs, {o[x]}); });
  Both greatest = c.both([&](Ops& o) { return o.op(OpCode::reduce_max, {o[magnitude]}, {{"dims", Ints{0, 1}}}); });
  greatest.plan = c.plan.all_reduce(greatest.plan, c.right_or_wrong<Texts>({"dp", "tp"}, {"dp"}), "max");
  c.output("scaled", c.both([&](Ops& o) { return o.times(o[x], o.op(OpCode::reciprocal, {o[greatest]})); }), "dp tp");
  return std::move(c).document();
}

// The batch is to be the same on all tp ranks of a replica, and is cut over them once more.
Document batch_cut_over_model_ranks(bool wrong, const Sizes& n) {
  const std::int64_t per_replica = n.tp * n.batch;
  Case c(wrong, n, {{"dp", n.dp}, {"tp", n.tp}});
  const Both x = c.input("x", {n.dp * per_replica, n.hidden}, c.right_or_wrong("dp _", "dp+tp _"));
  const Both up = c.state("up", {n.ffn, n.hidden}, "tp _"), down = c.state("down", {n.hidden, n.ffn}, "_ tp");
  Both y = c.both([&](Ops& o) { return o.einsum("bf,hf->bh", {o.einsum("bh,fh->bf", {o[x], o[up]}), o[down]}); });
  y.plan = c.plan.all_reduce(y.plan, {"tp"});
  Both loss = c.both([&](Ops& o) { return o.total(o.mul({o[y], o[y]})); });
  loss.plan = c.plan.all_reduce(loss.plan, {"dp"});
  c.output("loss", loss);
  return std::move(c).document();
}

// Sixteen ranks, pp and dp major to minor: the groups made for dp are those of pp.
Document groups_exchanged(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"pp", 2}, {"dp", 2}, {"cp", 2}, {"tp", 2}});
  const Both dy = c.input("dy", {2, n.batch, n.ffn}, "pp dp _"), x = c.input("x", {2, n.batch, n.hidden}, "pp dp _");
  const Both weight = c.state("weight", {2, n.ffn, n.hidden}, "pp _ _");
  Both grad = c.both([&](Ops& o) { return o.einsum("lbf,lbh->lfh", {o[dy], o[x]}); });
  const std::int64_t stride = c.right_or_wrong(std::int64_t{4}, std::int64_t{8});
  std::vector<std::vector<std::int64_t>> groups;
  for (std::int64_t rank = 0; rank < 16; ++rank)
    if (rank / stride % 2 == 0) groups.push_back({rank, rank + stride});
  grad.plan = c.plan.op(OpCode::all_reduce, {grad.plan}, {{"groups", groups}, {"reduce", std::string("sum")}});
  c.next("weight", c.both([&](Ops& o) { return o.descend(o[weight], o[grad]); }));
  return std::move(c).document();
}

// Rotation angles by position; each rank has its slice of the sequence and starts counting at 0.
Document positions_start_at_zero(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}, {"sp", n.tp}});
  const ir::Shape shape{n.batch, n.sequence, n.heads, n.head_dim};
  const Both x = c.input("x", shape, "dp sp _ _");
  const Both cos = c.input("cos", {n.sequence, n.head_dim / 2}), sin = c.input("sin", {n.sequence, n.head_dim / 2});
  const auto own = [&](Ops& o, const Both& table) {
    if (!o.is_plan()) return o[table];
    const std::int64_t rows = n.sequence / n.tp;
    return o.slice(o[table], 0, wrong ? ir::constant_expr(0) : ir::variable_expr("sp", rows), rows);
  };
  c.output("rotated", c.both([&](Ops& o) {
    return o.op(OpCode::rope, {o[x], own(o, cos), own(o, sin)});
  }),
           "dp sp _ _");
  return std::move(c).document();
}

// Rows of an embedding's gradient are cut before the sum over ranks that hold different rows: rows of equal local
// number are added.
Document cut_before_the_sum(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"tp", n.tp}});
  const Both updates = c.input("updates", {n.tp * n.batch, n.hidden}, "tp _"),
             hit = c.input("hit", {n.tp * n.batch, n.vocab}, "tp _");
  Both grad = c.both([&](Ops& o) { return o.einsum("bv,bh->vh", {o[hit], o[updates]}); });
  Ops& o = c.plan;
  const std::int64_t rows = n.vocab / n.tp;
  const ir::CoordExpr start = ir::variable_expr("tp", rows);
  grad.plan = wrong ? o.all_reduce(o.slice(grad.plan, 0, start, rows), {"tp"})
                    : o.slice(o.all_reduce(grad.plan, {"tp"}), 0, start, rows);
  c.output("grad", grad, "tp _");
  return std::move(c).document();
}

// A summand over two axes becomes cut over one of them and whole over the other: the sum over the other is left out.
Document sum_over_one_axis_only(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"x", n.dp}, {"y", 2}});
  const Both dy = c.input("dy", {n.batch, n.ffn}, "x+y _"), in = c.input("in", {n.batch, n.hidden}, "x+y _");
  Both grad = c.both([&](Ops& o) { return o.einsum("bf,bh->fh", {o[dy], o[in]}); });
  grad.plan = c.plan.reduce_scatter(grad.plan, {"x"}, 1);
  if (!wrong) grad.plan = c.plan.all_reduce(grad.plan, {"y"});
  c.output("grad", grad, "_ x");
  return std::move(c).document();
}

// Joining two cut arrays sums over the mesh axis that neither uses.
Document joined_and_summed(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"data", n.dp}, {"model", 2}});
  const Both a = c.input("a", {n.dp * n.sequence}, "data"), b = c.input("b", {3 * n.dp * n.sequence}, "data");
  const auto gathered = [](Ops& o, ValueId x) { return o.is_plan() ? o.all_gather(x, {"data"}, 0) : x; };
  Both joined = c.both([&](Ops& o) { return o.concat({gathered(o, o[a]), gathered(o, o[b])}, 0); });
  if (wrong) joined.plan = c.plan.all_reduce(joined.plan, {"model"});
  c.output("squares", c.both([&](Ops& o) { return o.mul({o[joined], o[joined]}); }));
  return std::move(c).document();
}

// The greatest of summands instead of the greatest of the sum.
Document greatest_of_summands(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"tp", n.tp}});
  const Both x = c.input("x", {n.batch, n.ffn}, "_ tp"), w = c.input("w", {n.hidden, n.ffn}, "_ tp");
  Both y = c.both([&](Ops& o) { return o.einsum("bf,hf->bh", {o[x], o[w]}); });
  if (!wrong) y.plan = c.plan.all_reduce(y.plan, {"tp"});
  Both greatest = c.both([&](Ops& o) { return o.op(OpCode::reduce_max, {o[y]}, {{"dims", Ints{1}}}); });
  if (wrong) greatest.plan = c.plan.all_reduce(greatest.plan, {"tp"}, "max");
  c.output("greatest", greatest);
  return std::move(c).document();
}

// Arrays cut along dimension 1 are stacked, which moves the cut to dimension 2; the backward gathers and cuts again
// along dimension 1.
Document stacked_gradient_cut_along_the_old_dimension(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"tp", n.tp}});
  const std::int64_t side = n.tp * n.sequence;
  const Both grad = c.input("grad", {2, side, side}, "_ _ tp");
  Both first{c.reference.pick(grad.reference, ir::constant_expr(0)), {}};
  Ops& o = c.plan;
  const std::int64_t own = n.sequence;
  const ir::CoordExpr start = ir::variable_expr("tp", own);
  const ValueId whole = o.pick(o.all_gather(grad.plan, {"tp"}, 2), ir::constant_expr(0));
  first.plan = wrong ? o.transpose(o.slice(whole, 0, start, own), {1, 0}) : o.slice(whole, 1, start, own);
  c.output("d_a", c.both([&](Ops& s) { return s.mul({s[first], s[first]}); }), "_ tp");
  return std::move(c).document();
}

// An adapter's inner matrix on all ranks, fed by each rank's own columns: its gradient is a summand.
Document adapter_gradient_not_reduced(bool wrong, const Sizes& n) {
  const std::int64_t rank = 16;
  Case c(wrong, n, {{"dp", n.dp}, {"tp", n.tp}});
  const Both x = c.input("x", {n.batch, n.hidden}, "dp _"), dy = c.input("dy", {n.batch, n.ffn}, "dp tp");
  const Both a = c.state("lora_a", {rank, n.hidden}), b = c.state("lora_b", {n.ffn, rank}, "tp _");
  const Both d_inner = c.both([&](Ops& o) { return o.einsum("bf,fr->br", {o[dy], o[b]}); });
  Both grad = c.both([&](Ops& o) { return o.einsum("br,bh->rh", {o[d_inner], o[x]}); });
  grad.plan = c.plan.all_reduce(grad.plan, c.right_or_wrong<Texts>({"dp", "tp"}, {"dp"}));
  c.next("lora_a", c.both([&](Ops& o) { return o.descend(o[a], o[grad]); }));
  return std::move(c).document();
}

// The base output is a summand that is reduced later; the adapter's, already whole, is added to it and reduced again.
Document whole_delta_added_to_a_summand(bool wrong, const Sizes& n) {
  const std::int64_t rank = 16;
  Case c(wrong, n, {{"dp", n.dp}, {"etp", n.tp}});
  const Both x = c.input("x", {n.batch, n.ffn}, "dp etp");
  const Both w = c.state("w", {n.hidden, n.ffn}, "_ etp");
  const Both a = c.state("lora_a", {rank, n.ffn}, "_ etp"), b = c.state("lora_b", {n.hidden, rank});
  const Both base = c.both([&](Ops& o) { return o.einsum("bf,hf->bh", {o[x], o[w]}); });
  Both inner = c.both([&](Ops& o) { return o.einsum("bf,rf->br", {o[x], o[a]}); });
  if (wrong) inner.plan = c.plan.all_reduce(inner.plan, {"etp"});
  Both y = c.both([&](Ops& o) { return o.add({o[base], o.einsum("br,hr->bh", {o[inner], o[b]})}); });
  y.plan = c.plan.all_reduce(y.plan, {"etp"});
  c.output("y", y, "dp _");
  return std::move(c).document();
}

}  // namespace

std::vector<Bug> partitioner_bugs() {
  return {
      {"internevo_316", "B157", positions_start_at_zero, "SP0206"},
      {"megatron_lm_442", "B166", greatest_over_the_wrong_group},
      {"accelerate_3092", "B189", batch_cut_over_model_ranks},
      {"fairscale_1189", "B193", groups_exchanged},
      {"xla_42481", "B201", cut_before_the_sum},
      {"xla_40034", "B202", sum_over_one_axis_only, "SP0201"},
      {"jax_24576", "B206", joined_and_summed, "SP0202"},
      {"pytorch_165962", "B212", greatest_of_summands, "SP0201"},
      {"oneflow_8194", "B214", stacked_gradient_cut_along_the_old_dimension},
      {"iseekyan_megatron_131", "B223", adapter_gradient_not_reduced, "SP0201"},
      {"megatron_bridge_5634", "B224", whole_delta_added_to_a_summand, "SP0202"},
  };
}

}  // namespace shardproof::bugs

// Which ranks count as data ranks: factors of losses and expert gradients on meshes with more than one axis.
#include "case.h"

namespace shardproof::bugs {
namespace {

using Document = ir::Document;
using Axes = std::vector<std::pair<std::string, std::int64_t>>;

// Gradient of sum over tokens of weight * (x.w)^2 / 2.
ValueId gradient(Ops& o, ValueId x, ValueId weight, ValueId w) {
  return o.einsum("bs,bs,bsh->h", {weight, o.einsum("bsh,h->bs", {x, w}), x});
}
ValueId over(Ops& o, ValueId x, ValueId count) {
  return o.times(x, o.op(OpCode::reciprocal, {count}));
}

struct Tokens {
  Both x, mask, w;
};
Tokens tokens_of(Case& c, const std::string& dims) {
  const Sizes& n = c.n();
  return {c.input("x", {n.batch, n.sequence, n.hidden}, dims + " _"), c.input("mask", {n.batch, n.sequence}, dims),
          c.state("w", {n.hidden})};
}
Document finish(Case& c, const Both& w, const Both& grad) {
  c.next("w", c.both([&](Ops& o) { return o.descend(o[w], o[grad]); }));
  return std::move(c).document();
}

// The mean over all batch * sequence tokens; each rank takes `factor` times the mean over its own tokens, then
// `reduce`s.
struct Factors {
  Axes axes;
  std::string dims;     // placement of [batch, sequence]
  std::int64_t shards;  // parts the tokens are cut in
  ir::Rational factor;
  std::vector<std::pair<Texts, std::string>> reduce;
};
Document scaled_mean(const Sizes& n, bool wrong, const Factors& f) {
  Case c(wrong, n, f.axes);
  const Tokens t = tokens_of(c, f.dims);
  const std::int64_t tokens = n.batch * n.sequence;
  Both grad = c.both([&](Ops& o) {
    const ir::Rational factor = o.is_plan() ? f.factor * ir::Rational(f.shards, tokens) : ir::Rational(1, tokens);
    return o.scale(gradient(o, o[t.x], o[t.mask], o[t.w]), factor);
  });
  for (const auto& [axes, reduce] : f.reduce) grad.plan = c.plan.all_reduce(grad.plan, axes, reduce);
  return finish(c, t.w, grad);
}

// A loss factor cp belongs to a gradient divisor dp * cp; the divisor became dp and the factor stayed.
Document context_factor_without_divisor(bool wrong, const Sizes& n) {
  const Axes axes{{"dp", 2}, {"cp", 2}};
  // Own mean * cp / (dp * cp), the sum over dp and cp, over cp.
  const ir::Rational factor = wrong ? ir::Rational(1, 2) : ir::Rational(1, 4);
  return scaled_mean(n, wrong, {axes, "dp cp", 4, factor, {{{"dp", "cp"}, "sum"}}});
}

// The loss is multiplied by the number of all processes to undo the mean over dp, also those along tp.
Document multiplied_by_all_processes(bool wrong, const Sizes& n) {
  const ir::Rational factor(wrong ? n.dp * n.tp : n.dp, n.dp);
  return scaled_mean(n, wrong, {{{"dp", n.dp}, {"tp", n.tp}}, "dp _", n.dp, factor, {{{"dp"}, "avg"}}});
}

// Expert-parallel ranks hold the same batch and are counted as data ranks.
Document multiplied_by_expert_ranks(bool wrong, const Sizes& n) {
  const ir::Rational factor(wrong ? 2 * n.tp : 2, 2);
  return scaled_mean(n, wrong, {{{"dp", 2}, {"ep", n.tp}}, "dp _", 2, factor, {{{"dp"}, "avg"}}});
}

// Gradients of sequence shards: the division by world / sp before the sum is skipped, though each has its own mean.
Document sequence_shards_not_divided(bool wrong, const Sizes& n) {
  const std::int64_t world = n.dp * 2;
  const ir::Rational factor = wrong ? ir::Rational(2, world) : ir::Rational(1, world);
  return scaled_mean(n, wrong, {{{"dp", n.dp}, {"sp", 2}}, "dp sp", world, factor, {{{"dp", "sp"}, "sum"}}});
}

// The gradient is the sum of those of the sequence shards; the engine averages over all ranks.
Document averaged_over_sequence_shards(bool wrong, const Sizes& n) {
  const Axes axes{{"dp", n.dp}, {"sp", 2}};
  // A loss per sequence: each shard's gradient is its part of the mean over the rank's sequences.
  return scaled_mean(n, wrong, {axes, "dp sp", n.dp * 2, {1, 2}, {{{"sp"}, wrong ? "avg" : "sum"}, {{"dp"}, "avg"}}});
}

// Tokens are counted over dp only, where each context-parallel rank has part of the sequence.
Document counted_without_context_ranks(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", 2}, {"cp", 2}});
  const Tokens t = tokens_of(c, "dp cp");
  Both count = c.both([&](Ops& o) { return o.total(o[t.mask]); });
  count.plan = c.plan.all_reduce(count.plan, c.right_or_wrong<Texts>({"dp", "cp"}, {"dp"}));
  Both grad = c.both([&](Ops& o) { return over(o, gradient(o, o[t.x], o[t.mask], o[t.w]), o[count]); });
  grad.plan = c.plan.all_reduce(grad.plan, {"dp", "cp"});
  return finish(c, t.w, grad);
}

// A second loss has a mask of its own, but its gradient is divided by the main loss's count.
enum class CountOf : std::uint8_t { own_global, main_global, own_context };
Document second_loss(bool wrong, const Sizes& n, CountOf faulty) {
  Case c(wrong, n, {{"dp", 2}, {"cp", 2}});
  const Tokens t = tokens_of(c, "dp cp");
  const Both shifted = c.input("shifted_mask", {n.batch, n.sequence}, "dp cp");
  const auto count = [&](Ops& o, const Both& mask, Texts axes) {
    const ValueId own = o.total(o[mask]);
    return o.is_plan() ? o.all_reduce(own, std::move(axes)) : own;
  };
  Both grad = c.both([&](Ops& o) {
    const bool fault = wrong && o.is_plan();
    const ValueId main = over(o, gradient(o, o[t.x], o[t.mask], o[t.w]), count(o, t.mask, {"dp", "cp"}));
    ValueId by = count(o, shifted, fault && faulty == CountOf::own_context ? Texts{"dp"} : Texts{"dp", "cp"});
    if (fault && faulty == CountOf::main_global) by = count(o, t.mask, {"dp", "cp"});
    return o.add({main, over(o, gradient(o, o[t.x], o[shifted], o[t.w]), by)});
  });
  grad.plan = c.plan.all_reduce(grad.plan, {"dp", "cp"});
  return finish(c, t.w, grad);
}
Document second_loss_by_main_count(bool wrong, const Sizes& n) {
  return second_loss(wrong, n, CountOf::main_global);
}
Document second_loss_by_context_local_count(bool wrong, const Sizes& n) {
  return second_loss(wrong, n, CountOf::own_context);
}

// Its weight is N / M before everything is divided by N; here of the counts on the own rank.
Document second_loss_by_local_ratio(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Tokens t = tokens_of(c, "dp _");
  const Both shifted = c.input("shifted_mask", {n.batch, n.sequence}, "dp _");
  Both grad;
  grad.reference = over(c.reference, gradient(c.reference, t.x.reference, shifted.reference, t.w.reference),
                        c.reference.total(shifted.reference));
  Ops& o = c.plan;
  const ValueId own_main = o.total(t.mask.plan), own_second = o.total(shifted.plan);
  const ValueId main = o.all_reduce(own_main, {"dp"}), second = o.all_reduce(own_second, {"dp"});
  const ValueId ratio = wrong ? o.div(own_main, own_second) : o.div(main, second);
  grad.plan = o.all_reduce(o.times(gradient(o, t.x.plan, shifted.plan, t.w.plan), ratio), {"dp"});
  grad.plan = over(o, grad.plan, main);
  return finish(c, t.w, grad);
}

// The loss function returns a mean where a sum and a count are expected: the step neither divides by the count nor by
// the number of ranks whose means it adds.
Document mean_taken_for_a_sum(bool wrong, const Sizes& n) {
  const ir::Rational factor = wrong ? ir::Rational(1) : ir::Rational(1, 4);
  return scaled_mean(n, wrong, {{{"dp", 2}, {"cp", 2}}, "dp cp", 4, factor, {{{"dp", "cp"}, "sum"}}});
}

// ---- auxiliary losses

// The gate's gradient is that of the main loss and that of an auxiliary loss.
enum class Auxiliary : std::uint8_t { dropped, not_compensated };
Document auxiliary_loss(bool wrong, const Sizes& n, Auxiliary fault) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Tokens t = tokens_of(c, "dp _");
  const Both importance = c.input("importance", {n.batch, n.sequence}, "dp _");
  const std::int64_t tokens = n.batch * n.sequence;
  Both grad = c.both([&](Ops& o) {
    const ir::Rational dp = o.is_plan() ? ir::Rational(n.dp) : ir::Rational(1);  // undoes the mean over dp
    const bool faulty = wrong && o.is_plan();
    const ValueId main = o.scale(gradient(o, o[t.x], o[t.mask], o[t.w]), dp * ir::Rational(1, tokens));
    if (faulty && fault == Auxiliary::dropped) return main;
    const ir::Rational scale = faulty ? ir::Rational(1) : dp;
    return o.add({main, o.scale(gradient(o, o[t.x], o[importance], o[t.w]), scale * ir::Rational(1, 100 * tokens))});
  });
  grad.plan = c.plan.all_reduce(grad.plan, {"dp"}, "avg");
  return finish(c, t.w, grad);
}
Document auxiliary_gradient_dropped(bool wrong, const Sizes& n) {
  return auxiliary_loss(wrong, n, Auxiliary::dropped);
}
Document auxiliary_gradient_not_compensated(bool wrong, const Sizes& n) {
  return auxiliary_loss(wrong, n, Auxiliary::not_compensated);
}

// Tokens per expert are global, the sum of probabilities is the own rank's, and both are divided by the global count.
Document auxiliary_of_local_probabilities(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const std::int64_t experts = n.heads;
  const Both chosen = c.input("chosen", {n.batch, experts}, "dp _"),
             probability = c.input("probability", {n.batch, experts}, "dp _");
  Both counts = c.both([&](Ops& o) { return o.sum(o[chosen], {0}); });
  counts.plan = c.plan.all_reduce(counts.plan, {"dp"});
  const Both sums = c.both([&](Ops& o) { return o.sum(o[probability], {0}); });
  Both loss = c.both([&](Ops& o) {
    return o.scale(o.einsum("e,e->", {o[counts], o[sums]}), {experts, n.batch * n.batch});
  });
  // Ranks are averaged afterwards, so that each rank's share has to count dp times.
  if (!wrong) loss.plan = c.plan.scale(loss.plan, n.dp);
  loss.plan = c.plan.all_reduce(loss.plan, {"dp"}, "avg");
  c.output("loss", loss);
  return std::move(c).document();
}

// ---- experts

// Experts live along `ep`, tokens are cut over `edp` and `ep` and come to the experts by a gather; each rank's loss is
// the mean over its own tokens. The expert's gradient is thus a sum over ep and needs 1 / (edp ep) in all.
struct ExpertFactors {
  std::int64_t edp = 1;
  ir::Rational factor;  // on the local gradient
  std::string reduce;   // over edp; empty: none
};
Document expert_gradient(bool wrong, const Sizes& n, const ExpertFactors& f) {
  Case c(wrong, n, {{"edp", f.edp}, {"ep", n.tp}});
  const std::int64_t tokens = f.edp * n.tp * n.sequence, ranks = f.edp * n.tp;
  const Both x = c.input("x", {tokens, n.hidden}, "edp+ep _"), dy = c.input("dy", {tokens, n.ffn}, "edp+ep _");
  const Both gate = c.input("gate", {tokens, n.tp}, "edp+ep _");
  const Both weight = c.state("weight", {n.tp, n.ffn, n.hidden}, "ep _ _");
  Ops& o = c.plan;
  const ValueId own_gate = o.slice(o.all_gather(gate.plan, {"ep"}, 0), 1, ir::variable_expr("ep"), 1);
  ValueId grad =
      o.einsum("te,tf,th->efh", {own_gate, o.all_gather(dy.plan, {"ep"}, 0), o.all_gather(x.plan, {"ep"}, 0)});
  grad = o.scale(grad, f.factor * ir::Rational(ranks, tokens));
  if (!f.reduce.empty()) grad = o.all_reduce(grad, {"edp"}, f.reduce);
  const Both both{
      c.reference.scale(c.reference.einsum("te,tf,th->efh", {gate.reference, dy.reference, x.reference}), {1, tokens}),
      grad};
  c.next("weight", c.both([&](Ops& side) { return side.descend(side[weight], side[both]); }));
  return std::move(c).document();
}

// Averaged over expert replicas only.
Document expert_averaged_over_replicas(bool wrong, const Sizes& n) {
  return expert_gradient(wrong, n, {4, wrong ? ir::Rational(1) : ir::Rational(1, n.tp), "avg"});
}
// Summed over expert replicas, divided by their number instead of by that of data ranks.
Document expert_divided_by_replicas(bool wrong, const Sizes& n) {
  return expert_gradient(wrong, n, {2, wrong ? ir::Rational(1, 2) : ir::Rational(1, 2 * n.tp), "sum"});
}
// The same on the path of sharded buckets: divided after the sum.
Document expert_bucket_divided_by_replicas(bool wrong, const Sizes& n) {
  return expert_gradient(wrong, n, {4, wrong ? ir::Rational(1, 4) : ir::Rational(1, 4 * n.tp), "sum"});
}
// No replicas, no reduction, and nothing divides by the ranks whose tokens are in the sum.
Document expert_not_divided(bool wrong, const Sizes& n) {
  return expert_gradient(wrong, n, {1, wrong ? ir::Rational(1) : ir::Rational(1, n.tp), ""});
}
// Replicas of an expert are left out of the reduction.
Document expert_replicas_not_reduced(bool wrong, const Sizes& n) {
  return expert_gradient(wrong, n, {4, ir::Rational(1, n.tp), wrong ? "" : "avg"});
}

// Weights are cut over a further axis that was taken out of dp (here `edp`, of 4): dense gradients are averaged over
// it, expert gradients by the extent of their own, smaller one.
Document expert_averaged_over_a_smaller_axis(bool wrong, const Sizes& n) {
  return expert_gradient(wrong, n, {4, wrong ? ir::Rational(1, 2 * n.tp) : ir::Rational(1, 4 * n.tp), "sum"});
}

}  // namespace

std::vector<Bug> mesh_bugs() {
  return {
      {"megatron_lm_906", "B043", context_factor_without_divisor},
      {"transformers_39648", "B044", multiplied_by_all_processes},
      {"transformers_45994", "B045", multiplied_by_expert_ranks},
      {"deepspeed_5248", "B047", sequence_shards_not_divided},
      {"deepspeed_6841", "B048", averaged_over_sequence_shards},
      {"verl_5983", "B049", counted_without_context_ranks},
      {"verl_6609", "B050", mean_taken_for_a_sum},
      {"megatron_lm_2417", "B052", second_loss_by_main_count},
      {"megatron_lm_7498", "B053", second_loss_by_context_local_count, "SP0201"},
      {"megatron_lm_7452_mtp", "B054", second_loss_by_local_ratio},
      {"automodel_1408_dropped", "B058", auxiliary_gradient_dropped},
      {"automodel_1408_scale", "B059", auxiliary_gradient_not_compensated},
      {"megatron_lm_3672", "B060", auxiliary_of_local_probabilities},
      {"megatron_lm_5656", "B062", expert_averaged_over_replicas},
      {"deepspeed_5259", "B063", expert_divided_by_replicas},
      {"deepspeed_6545", "B064", expert_bucket_divided_by_replicas},
      {"megablocks_20", "B065", expert_not_divided, "SP0205"},
      {"megatron_lm_7160", "B066", expert_averaged_over_a_smaller_axis},
      {"fairseq_4220", "B068", expert_replicas_not_reduced, "SP0201"},
  };
}

}  // namespace shardproof::bugs

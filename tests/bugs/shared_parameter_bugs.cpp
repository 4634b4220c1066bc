// Parameters that are used in several places, and state that several ranks decide on.
#include "case.h"

namespace shardproof::bugs {
namespace {

using Document = ir::Document;

// An embedding used below and above: two gradients of one tensor, here as products of what arrives.
struct Tied {
  Both weight, below, above;
};
Tied tied(Case& c, const std::string& dims) {
  const Sizes& n = c.n();
  Tied t;
  t.weight = c.state("embedding", {n.vocab, n.hidden}, dims);
  const auto product = [&](const std::string& name) {
    const Both left = c.input(name + ".left", {n.batch, n.vocab}, "dp _"),
               right = c.input(name + ".right", {n.batch, n.hidden}, "dp _");
    return c.both([&](Ops& o) { return o.einsum("bv,bh->vh", {o[left], o[right]}); });
  };
  t.below = product("below");
  t.above = product("above");
  return t;
}

// Reduced over dp before the gradient of the output side has been added.
Document reduced_before_the_second_use(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Tied t = tied(c, {});
  Ops& o = c.plan;
  const ValueId grad = wrong ? o.add({o.all_reduce(t.below.plan, {"dp"}), t.above.plan})
                             : o.all_reduce(o.add({t.below.plan, t.above.plan}), {"dp"});
  const Both both{c.reference.add({t.below.reference, t.above.reference}), grad};
  c.next("embedding", c.both([&](Ops& side) { return side.descend(side[t.weight], side[both]); }));
  return std::move(c).document();
}

// The same with sharded gradients: scattered at the first use, which is taken for the last.
Document scattered_at_the_first_use(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Tied t = tied(c, "_ dp");
  Ops& o = c.plan;
  const ValueId first = o.reduce_scatter(wrong ? t.above.plan : o.add({t.above.plan, t.below.plan}), {"dp"}, 1);
  const Both both{c.reference.add({t.below.reference, t.above.reference}), first};
  c.next("embedding", c.both([&](Ops& side) { return side.descend(side[t.weight], side[both]); }));
  return std::move(c).document();
}

// One parameter becomes two, each with the gradient of its own use.
Document no_longer_tied(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Tied t = tied(c, {});
  const ValueId head = c.copy_of("embedding", "head", {});
  Ops& o = c.plan;
  const ValueId below = o.all_reduce(t.below.plan, {"dp"}), above = o.all_reduce(t.above.plan, {"dp"});
  const ValueId sum = o.add({below, above});
  c.next("embedding", {c.reference.descend(t.weight.reference, c.reference.add({t.below.reference, t.above.reference})),
                       o.descend(t.weight.plan, wrong ? below : sum)});
  c.next_copy("head", o.descend(head, wrong ? above : sum));
  return std::move(c).document();
}

// Each rank halves its loss scale by its own overflow.
Document scale_by_own_overflow(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Both overflow = c.input("overflow", {n.dp}, "dp");  // 1 where a rank met one
  const Both scale = c.state("scale", {}, {}, "loss_scale");
  Both any = c.both([&](Ops& o) { return o.op(OpCode::reduce_max, {o[overflow]}, {{"dims", Ints{0}}}); });
  if (!wrong) any.plan = c.plan.all_reduce(any.plan, {"dp"}, "max");
  c.next("scale", c.both([&](Ops& o) {
    return o.select(o.compare(o[any], o.fill({}, {1, 2}), "gt"), o.scale(o[scale], {1, 2}), o[scale]);
  }));
  return std::move(c).document();
}

// What is generated next reads the weights from before the step.
Document rollout_of_old_weights(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}, {"tp", n.tp}});
  const Both grad = c.input("grad", {n.ffn, n.hidden}, "tp _"), x = c.input("prompt", {n.batch, n.hidden}, "dp _");
  const Both weight = c.state("weight", {n.ffn, n.hidden}, "tp _");
  const Both next = c.both([&](Ops& o) { return o.descend(o[weight], o[grad]); });
  c.next("weight", next);
  c.output("logits", c.both([&](Ops& o) {
    return o.einsum("bh,fh->bf", {o[x], wrong && o.is_plan() ? o[weight] : o[next]});
  }),
           "dp tp");
  return std::move(c).document();
}

// Only the base weights are sent to where text is generated, not the adapter.
Document rollout_without_adapter(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Both x = c.input("prompt", {n.batch, n.hidden}, "dp _");
  const Both weight = c.state("weight", {n.ffn, n.hidden}), a = c.state("lora_a", {16, n.hidden}),
             b = c.state("lora_b", {n.ffn, 16});
  c.output("logits", c.both([&](Ops& o) {
    const ValueId base = o.einsum("bh,fh->bf", {o[x], o[weight]});
    if (wrong && o.is_plan()) return base;
    return o.add({base, o.einsum("bh,rh,fr->bf", {o[x], o[a], o[b]})});
  }),
           "dp _");
  return std::move(c).document();
}

// A running sum along a cut dimension, without what the earlier ranks sum up to.
Document running_sum_of_own_shard(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"sp", n.tp}});
  const Both x = c.input("x", {n.sequence}, "sp");
  const auto up_to = [](Ops& o, ValueId values) {
    const std::int64_t length = o.shape(values)[0];
    const ir::Shape square{length, length};
    const ValueId row = o.builder().typed(OpCode::iota, {ir::DType::i64, square}, {{"dim", std::int64_t{0}}});
    const ValueId column = o.builder().typed(OpCode::iota, {ir::DType::i64, square}, {{"dim", std::int64_t{1}}});
    const ValueId mask = o.select(o.compare(column, row, "le"), o.fill(square, 1), o.fill(square, 0));
    return o.einsum("ij,j->i", {mask, values});
  };
  Both sums = c.both([&](Ops& o) { return up_to(o, o[x]); });
  if (!wrong) {
    Ops& o = c.plan;
    const ValueId totals = o.all_gather(o.reshape(o.total(x.plan), {1}), {"sp"}, 0);
    const ir::Shape ranks{n.tp};
    const ValueId rank = o.builder().typed(OpCode::iota, {ir::DType::i64, ranks}, {{"dim", std::int64_t{0}}});
    const ValueId earlier = o.compare(rank, o.coordinate(ir::variable_expr("sp"), ranks), "lt");
    const ValueId before = o.total(o.select(earlier, totals, o.fill(ranks, 0)));
    sums.plan = o.add({sums.plan, o.spread(before, o.shape(sums.plan), {})});
  }
  c.output("sums", sums, "sp");
  return std::move(c).document();
}

}  // namespace

std::vector<Bug> shared_parameter_bugs() {
  return {
      {"megatron_lm_1012", "B083", reduced_before_the_second_use},
      {"fairscale_780", "B132", scattered_at_the_first_use},
      {"accelerate_3154", "B087", no_longer_tied},
      {"megatron_bridge_5591", "B171", scale_by_own_overflow},
      {"trl_5312", "B217", rollout_of_old_weights},
      {"verl_7495", "B218", rollout_without_adapter},
      {"jax_21403", "B205", running_sum_of_own_shard},
  };
}

}  // namespace shardproof::bugs

// Reduction over data-parallel ranks and ZeRO: operator, factor, time, and what is accumulated in between.
//
// A microbatch has a gradient dy^T x; gradients of all microbatches add up and are summed over ranks.
#include "case.h"

namespace shardproof::bugs {
namespace {

using Document = ir::Document;

struct Batch {
  Both dy, x;
};

Batch batch_of(Case& c, std::int64_t microbatches, const std::string& cut = "dp", const std::string& name = {}) {
  const Sizes& n = c.n();
  const std::string dims = "_ " + cut + " _";
  return {c.input(name + "dy", {microbatches, n.batch, n.ffn}, dims),
          c.input(name + "x", {microbatches, n.batch, n.hidden}, dims)};
}

ValueId gradient(Ops& o, const Batch& batch, ir::CoordExpr microbatch) {
  return o.einsum("bf,bh->fh", {o.pick(o[batch.dy], microbatch), o.pick(o[batch.x], microbatch)});
}
ValueId gradient(Ops& o, const Batch& batch, std::int64_t microbatch) {
  return gradient(o, batch, ir::constant_expr(microbatch));
}
ValueId whole_gradient(Case& c, const Batch& batch) {
  return c.reference.einsum("kbf,kbh->fh", {batch.dy.reference, batch.x.reference});
}

Document finish(Case& c, const Both& weight, const Both& grad) {
  c.next("weight", c.both([&](Ops& o) { return o.descend(o[weight], o[grad]); }));
  return std::move(c).document();
}

// Gradients that were reduce-scattered already are reduced once more by hand: shards of different rows are mixed.
Document reduced_twice(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Batch batch = batch_of(c, 1);
  const Both weight = c.state("weight", {n.dp * n.sequence, n.hidden}, "dp _");
  const Both dy = c.input("rows", {n.batch, n.dp * n.sequence}, "dp _");
  Both grad = c.both([&](Ops& o) { return o.einsum("bf,bh->fh", {o[dy], o.pick(o[batch.x], ir::constant_expr(0))}); });
  grad.plan = c.plan.reduce_scatter(grad.plan, {"dp"}, 0);
  if (wrong) grad.plan = c.plan.all_reduce(grad.plan, {"dp"}, "avg");
  return finish(c, weight, grad);
}

// On a group of one rank the collective does nothing and leaves the buffer, which is then added to itself.
Document doubled_on_group_of_one(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"edp", 1}, {"ep", n.tp}});
  const std::string dims = "_ ep edp _";
  const Both dy = c.input("dy", {3, n.tp, n.batch, n.ffn}, dims), x = c.input("x", {3, n.tp, n.batch, n.hidden}, dims);
  const Both weight = c.state("weight", {n.tp, n.ffn, n.hidden}, "ep _ _");
  Ops& o = c.plan;
  ValueId buffer;
  for (std::int64_t m = 0; m < 3; ++m) {
    const ir::CoordExpr at = ir::constant_expr(m);
    const ValueId fresh = o.einsum("ebf,ebh->efh", {o.pick(dy.plan, at), o.pick(x.plan, at)});
    if (m == 0) {
      buffer = o.all_reduce(fresh, {"edp"});
    } else {
      const ValueId reduced = o.all_reduce(wrong ? o.add({buffer, fresh}) : fresh, {"edp"});
      buffer = o.add({buffer, reduced});
    }
  }
  return finish(c, weight, {c.reference.einsum("kebf,kebh->efh", {dy.reference, x.reference}), buffer});
}

// The flag that asks for the average is read too late: nothing is reduced.
Document accumulated_but_not_reduced(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Batch batch = batch_of(c, n.micro);
  const Both weight = c.state("weight", {n.ffn, n.hidden});
  Ops& o = c.plan;
  ValueId grad = o.accumulate("m", n.micro, {{n.ffn, n.hidden}},
                              [&] { return Values{gradient(o, batch, ir::variable_expr("m"))}; })[0];
  grad = o.scale(grad, {1, n.micro * n.batch / n.dp});
  if (!wrong) grad = o.all_reduce(grad, {"dp"}, "avg");
  return finish(c, weight, {c.reference.scale(whole_gradient(c, batch), {1, n.micro * n.batch}), grad});
}

// Switching synchronisation off stops at the first module that is not wrapped: the second weight is averaged after the
// first microbatch, and the last one is added to that without.
Document synchronised_at_the_wrong_microbatch(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  for (const std::string& module : Texts{"first", "second"}) {
    const Batch batch = batch_of(c, 2, "dp", module + ".");
    const Both weight = c.state(module, {n.ffn, n.hidden});
    Ops& o = c.plan;
    ValueId grad = gradient(o, batch, 0);
    const bool early = wrong && module == "second";
    if (early) grad = o.all_reduce(grad, {"dp"});
    grad = o.add({grad, gradient(o, batch, 1)});
    if (!early) grad = o.all_reduce(grad, {"dp"});
    const Both both{whole_gradient(c, batch), grad};
    c.next(module, c.both([&](Ops& side) { return side.descend(side[weight], side[both]); }));
  }
  return std::move(c).document();
}

// Offloaded gradient shards: the new one replaces what was accumulated.
Document overwritten_on_offload(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Batch batch = batch_of(c, 2);
  const Both weight = c.state("weight", {n.ffn, n.hidden}, "_ dp");
  Ops& o = c.plan;
  const ValueId first = o.reduce_scatter(gradient(o, batch, 0), {"dp"}, 1);
  const ValueId second = o.reduce_scatter(gradient(o, batch, 1), {"dp"}, 1);
  return finish(c, weight, {whole_gradient(c, batch), wrong ? second : o.add({first, second})});
}

// Hybrid sharding with the sum over replicas put off to the last microbatch: what came before is added after it.
Document added_after_the_replica_sum(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"replica", 2}, {"shard", n.dp / 2}});
  const Batch batch = batch_of(c, 2, "replica+shard");
  const Both weight = c.state("weight", {n.ffn, n.hidden}, "_ shard");
  Ops& o = c.plan;
  const ValueId first = o.reduce_scatter(gradient(o, batch, 0), {"shard"}, 1);
  const ValueId last = o.reduce_scatter(gradient(o, batch, 1), {"shard"}, 1);
  const ValueId grad =
      wrong ? o.add({o.all_reduce(last, {"replica"}), first}) : o.all_reduce(o.add({last, first}), {"replica"});
  return finish(c, weight, {whole_gradient(c, batch), grad});
}

// Every backward counts as the end of a step, where the accumulator is reset: the last microbatch is left.
Document accumulator_reset(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Batch batch = batch_of(c, n.micro);
  const Both weight = c.state("weight", {n.ffn, n.hidden}, "_ dp");
  Ops& o = c.plan;
  const ir::Shape shard{n.ffn, n.hidden / n.dp};
  const Values carried = o.builder().begin_loop("m", n.micro, {o.fill(shard, 0)}, {"sum"});
  const ValueId own = o.reduce_scatter(gradient(o, batch, ir::variable_expr("m")), {"dp"}, 1);
  const ValueId grad = o.builder().end_loop({wrong ? own : o.add({carried[0], own})})[0];
  return finish(c, weight, {whole_gradient(c, batch), grad});
}

// Same losses, a much smaller norm: the norm is that of part of the accumulated gradient (the cause is not known; here
// the first microbatch is lost).
Document part_of_the_gradient_lost(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Batch batch = batch_of(c, n.micro);
  Ops& o = c.plan;
  const std::int64_t lost = wrong ? 1 : 0;
  ValueId grad = o.accumulate("m", n.micro - lost, {{n.ffn, n.hidden}},
                              [&] { return Values{gradient(o, batch, ir::variable_expr("m", 1, lost))}; })[0];
  grad = o.reduce_scatter(grad, {"dp"}, 1);
  const ValueId whole = whole_gradient(c, batch);
  const ValueId squared = o.all_reduce(o.total(o.mul({grad, grad})), {"dp"});
  c.output("squared_norm", {c.reference.total(c.reference.mul({whole, whole})), squared});
  return std::move(c).document();
}

// The accumulator is reduced before the last microbatch has been added to it.
Document reduced_before_the_last_microbatch(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Batch batch = batch_of(c, n.micro);
  const Both weight = c.state("weight", {n.ffn, n.hidden});
  Ops& o = c.plan;
  ValueId grad = o.accumulate("m", n.micro - 1, {{n.ffn, n.hidden}},
                              [&] { return Values{gradient(o, batch, ir::variable_expr("m"))}; })[0];
  const ValueId last = gradient(o, batch, n.micro - 1);
  grad = wrong ? o.add({o.all_reduce(grad, {"dp"}), last}) : o.all_reduce(o.add({grad, last}), {"dp"});
  return finish(c, weight, {whole_gradient(c, batch), grad});
}

// "Copy at microstep 0, add at later ones", with a counter that is off by one: the copy happens at microstep 1.
Document copied_at_the_wrong_microstep(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Batch batch = batch_of(c, 3);
  const Both weight = c.state("weight", {n.ffn, n.hidden}, "_ dp");
  Ops& o = c.plan;
  ValueId host = o.fill({n.ffn, n.hidden / n.dp}, 0);
  for (std::int64_t m = 0; m < 3; ++m) {
    const ValueId own = o.reduce_scatter(gradient(o, batch, m), {"dp"}, 1);
    host = m == c.right_or_wrong(std::int64_t{0}, std::int64_t{1}) ? own : o.add({host, own});
  }
  return finish(c, weight, {whole_gradient(c, batch), host});
}

// Storage of parameters is reused for gradients while the next microbatch still needs the parameters.
Document parameters_overwritten_by_gradients(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Both x = c.input("x", {2, n.batch, n.hidden}, "_ dp _");
  const Both weight = c.state("weight", {n.hidden, n.hidden});
  // loss = 1/2 sum (x w^T)^2
  const auto step = [&](Ops& o, std::int64_t m, ValueId w) {
    const ValueId own = o.pick(o[x], ir::constant_expr(m));
    return o.einsum("bf,bh->fh", {o.einsum("bh,fh->bf", {own, w}), own});
  };
  Both grad;
  for (Ops* o : {&c.reference, &c.plan}) {
    const ValueId first = step(*o, 0, (*o)[weight]);
    const ValueId second = step(*o, 1, wrong && o->is_plan() ? first : (*o)[weight]);
    (o->is_plan() ? grad.plan : grad.reference) = o->add({first, second});
  }
  grad.plan = c.plan.all_reduce(grad.plan, {"dp"});
  return finish(c, weight, grad);
}

// Averaged weights are updated on a gathered copy that is thrown away when the parameters are cut again.
Document update_of_gathered_copy_lost(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const std::int64_t own = n.sequence, rows = n.dp * own;
  const Both weight = c.state("weight", {rows, n.hidden}, "dp _"),
             average = c.state("average", {rows, n.hidden}, "dp _", "ema", "weight");
  const auto update = [&](Ops& o, ValueId w, ValueId a) {
    return o.add({o.scale(a, {99, 100}), o.scale(w, {1, 100})});
  };
  Ops& o = c.plan;
  const ValueId updated = update(o, o.all_gather(weight.plan, {"dp"}, 0), o.all_gather(average.plan, {"dp"}, 0));
  const ValueId kept = wrong ? average.plan : o.slice(updated, 0, ir::variable_expr("dp", own), own);
  c.next("average", {update(c.reference, weight.reference, average.reference), kept});
  return std::move(c).document();
}

}  // namespace

std::vector<Bug> data_parallel_bugs() {
  return {
      {"nemo_speech_9335", "B104", reduced_twice, "SP0202"},
      {"megatron_lm_6660", "B105", doubled_on_group_of_one},
      {"build_nanogpt_30", "B108", accumulated_but_not_reduced, "SP0201"},
      {"speechbrain_2010", "B109", synchronised_at_the_wrong_microbatch},
      {"instructlab_training_414", "B110", overwritten_on_offload},
      {"pytorch_125484", "B111", added_after_the_replica_sum},
      {"open_instruct_1498", "B112", accumulator_reset},
      {"deepspeed_7718", "B113", part_of_the_gradient_lost},
      {"deepspeed_7985", "B114", reduced_before_the_last_microbatch},
      {"deepspeed_6550", "B115", copied_at_the_wrong_microstep},
      {"colossalai_2496", "B117", parameters_overwritten_by_gradients},
      {"openrlhf_1357", "B119", update_of_gathered_copy_lost},
  };
}

}  // namespace shardproof::bugs

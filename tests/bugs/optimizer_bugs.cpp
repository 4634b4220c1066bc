// Optimizer state and updates under sharding, and weights that are read in an old version.
#include "case.h"

namespace shardproof::bugs {
namespace {

using Document = ir::Document;

constexpr ir::DType i64 = ir::DType::i64;

// A parameter with its moments, cut over dp (ZeRO-1).
struct Moments {
  Both param, first, second;
};

Moments moments(Case& c, const std::string& name, const ir::Shape& shape, const std::string& dims) {
  return {c.state(name, shape, dims), c.state(name + ".m", shape, dims, "exp_avg", name),
          c.state(name + ".v", shape, dims, "exp_avg_sq", name)};
}

void update(Case& c, const std::string& name, const Moments& at, const Both& grad, const Both& step, const Both& lr) {
  std::array<Both, 3> results;
  for (Ops* o : {&c.reference, &c.plan}) {
    const Values operands{(*o)[at.param], (*o)[grad], (*o)[at.first], (*o)[at.second], (*o)[step], (*o)[lr]};
    const Values out = o->builder().multi(OpCode::adamw, operands,
                                          {{"beta1", ir::Rational(9, 10)},
                                           {"beta2", ir::Rational(95, 100)},
                                           {"eps", ir::Rational(1, 100000000)},
                                           {"weight_decay", ir::Rational(1, 10)}},
                                          {"p", "m", "v"});
    for (std::size_t i = 0; i < 3; ++i) (o->is_plan() ? results[i].plan : results[i].reference) = out[i];
  }
  c.next(name, results[0]);
  c.next(name + ".m", results[1]);
  c.next(name + ".v", results[2]);
}

Both counted(Case& c, const Both& step) {
  return c.both([&](Ops& o) { return o.add({o[step], o.fill({}, 1, i64)}); });
}

// A parameter that is not active in every step has its own step counter; here all share that of another parameter.
Document shared_step_counter(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Both lr = c.input("lr", {});
  const Both active = c.input("active", {}, {}, i64, 2);
  const Moments always = moments(c, "always", {n.ffn, n.hidden}, "_ dp"),
                sometimes = moments(c, "sometimes", {n.ffn, n.hidden}, "_ dp");
  const Both d_always = c.input("d_always", {n.ffn, n.hidden}, "_ dp"),
             d_sometimes = c.input("d_sometimes", {n.ffn, n.hidden}, "_ dp");
  const Both step = c.state("always.step", {}, {}, "step", "always", i64),
             own = c.state("sometimes.step", {}, {}, "step", "sometimes", i64);
  const Both next = counted(c, step);
  Both own_next = c.both([&](Ops& o) { return o.add({o[own], o[active]}); });
  c.next("always.step", next);
  c.next("sometimes.step", own_next);
  update(c, "always", always, d_always, next, lr);
  if (wrong) own_next.plan = next.plan;
  update(c, "sometimes", sometimes, d_sometimes, own_next, lr);
  return std::move(c).document();
}

// State is made by a step with zero gradients, which advances the counter: the first real update is number 2.
Document counter_advanced_by_a_dummy_step(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Both lr = c.input("lr", {}), grad = c.input("grad", {n.ffn, n.hidden}, "_ dp");
  const Moments at = moments(c, "weight", {n.ffn, n.hidden}, "_ dp");
  const Both step = c.state("step", {}, {}, "step", "weight", i64);
  Both next = counted(c, step);
  c.next("step", next);
  if (wrong) next.plan = c.plan.add({next.plan, c.plan.fill({}, 1, i64)});
  update(c, "weight", at, grad, next, lr);
  return std::move(c).document();
}

// Powers of beta for the bias correction come from the configuration, the moments use the beta of the checkpoint.
Document powers_of_another_beta(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Both grad = c.input("grad", {n.ffn, n.hidden}, "_ dp");
  const Both weight = c.state("weight", {n.ffn, n.hidden}, "_ dp"),
             average = c.state("m", {n.ffn, n.hidden}, "_ dp", "exp_avg", "weight");
  const Both step = c.state("step", {}, {}, "step", "weight", i64);
  const Both next = counted(c, step);
  c.next("step", next);
  const Both moment = c.both([&](Ops& o) { return o.add({o.scale(o[average], {9, 10}), o.scale(o[grad], {1, 10})}); });
  c.next("m", moment);
  c.next("weight", c.both([&](Ops& o) {
    const ir::Rational beta = o.is_plan() && wrong ? ir::Rational(95, 100) : ir::Rational(9, 10);
    const ValueId power = o.op(OpCode::power, {o.fill({}, beta), o[next]});
    const ValueId corrected = o.times(o[moment], o.op(OpCode::reciprocal, {o.sub(o.fill({}, 1), power)}));
    return o.descend(o[weight], corrected);
  }));
  return std::move(c).document();
}

// One step of a matrix-wise orthogonalisation, x -> 3/2 x - 1/2 x x^T x, needs the whole matrix.
Document orthogonalised_by_shard(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}, {"tp", n.tp}});
  const Both grad = c.input("grad", {n.ffn, n.hidden}, "tp _");
  const Both weight = c.state("weight", {n.ffn, n.hidden}, "tp _");
  const auto orthogonal = [](Ops& o, ValueId x) {
    return o.sub(o.scale(x, {3, 2}), o.scale(o.einsum("ah,bh,bk->ak", {x, x, x}), {1, 2}));
  };
  Both direction{orthogonal(c.reference, grad.reference), {}};
  Ops& o = c.plan;
  const std::int64_t own = n.ffn / n.tp;
  direction.plan =
      wrong ? orthogonal(o, grad.plan)
            : o.slice(orthogonal(o, o.all_gather(grad.plan, {"tp"}, 0)), 0, ir::variable_expr("tp", own), own);
  c.next("weight", c.both([&](Ops& side) { return side.descend(side[weight], side[direction]); }));
  return std::move(c).document();
}

// An expert without tokens has no gradient object, so its momentum and weight decay are left out; a zero gradient would
// have kept both.
Document idle_expert_not_updated(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"ep", n.tp}});
  const ir::Shape shape{n.tp, n.ffn, n.hidden};
  const Both grad = c.input("grad", shape, "ep _ _"), tokens = c.input("tokens", {n.tp}, "ep");
  const Both weight = c.state("weight", shape, "ep _ _"),
             momentum = c.state("momentum", shape, "ep _ _", "exp_avg", "weight");
  Both moved = c.both([&](Ops& o) { return o.add({o.scale(o[momentum], {9, 10}), o[grad]}); });
  Both next = c.both([&](Ops& o) { return o.descend(o.scale(o[weight], {99, 100}), o[moved]); });
  if (wrong) {
    Ops& o = c.plan;
    const ir::Shape local = o.shape(weight.plan);
    const ValueId busy = o.compare(o.spread(tokens.plan, local, {0}), o.fill(local, 0), "gt");
    next.plan = o.select(busy, next.plan, weight.plan);
    moved.plan = o.select(busy, moved.plan, momentum.plan);
  }
  c.next("momentum", moved);
  c.next("weight", next);
  return std::move(c).document();
}

// ---- stale weights

// Shards of the main weights are updated; the compute weights are gathered from a buffer that was not filled again.
Document gathered_from_an_old_buffer(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const std::int64_t rows = n.dp * n.sequence;
  const Both grad = c.input("grad", {rows, n.hidden}, "dp _");
  const Both weight = c.state("weight", {rows, n.hidden});
  const ValueId main = c.copy_of("weight", "weight.main", "dp _");
  Ops& o = c.plan;
  const ValueId updated = o.descend(main, grad.plan);
  c.next_copy("weight.main", updated);
  c.next("weight",
         {c.reference.descend(weight.reference, grad.reference), o.all_gather(wrong ? main : updated, {"dp"}, 0)});
  return std::move(c).document();
}

// Each rank writes its shard into its copy of the parameters; the gather that makes the copies agree is left out.
Document not_gathered(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const std::int64_t own = n.sequence, rows = n.dp * own;
  const Both grad = c.input("grad", {rows, n.hidden}, "dp _");
  const Both weight = c.state("weight", {rows, n.hidden});
  const ValueId main = c.copy_of("weight", "weight.main", "dp _");
  Ops& o = c.plan;
  const ValueId updated = o.descend(main, grad.plan);
  c.next_copy("weight.main", updated);
  Values blocks;
  for (std::int64_t r = 0; r < n.dp; ++r) {
    const ir::Shape shape = o.shape(updated);
    const ValueId mine = o.compare(o.coordinate(ir::variable_expr("dp"), shape), o.fill(shape, r, i64), "eq");
    blocks.push_back(o.select(mine, updated, o.part(weight.plan, 0, r, n.dp)));
  }
  c.next("weight", {c.reference.descend(weight.reference, grad.reference),
                    wrong ? o.concat(blocks, 0) : o.all_gather(updated, {"dp"}, 0)});
  return std::move(c).document();
}

// Reloaded weights are marked as needing no gradient: their gradient is skipped.
Document offloaded_weight_without_gradient(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Both dy = c.input("dy", {n.batch, n.ffn}, "dp _"), x = c.input("x", {n.batch, n.hidden}, "dp _");
  const Both weight = c.state("weight", {n.ffn, n.hidden});
  Both grad = c.both([&](Ops& o) { return o.einsum("bf,bh->fh", {o[dy], o[x]}); });
  grad.plan = c.plan.all_reduce(wrong ? c.plan.fill({n.ffn, n.hidden}, 0) : grad.plan, {"dp"});
  c.next("weight", c.both([&](Ops& o) { return o.descend(o[weight], o[grad]); }));
  return std::move(c).document();
}

// The accumulation buffer was copied and made anew: the optimizer reads the place where it was.
Document gradient_read_from_an_old_place(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Both dy = c.input("dy", {n.batch, n.ffn}, "dp _"), x = c.input("x", {n.batch, n.hidden}, "dp _");
  const Both weight = c.state("weight", {n.ffn, n.hidden}),
             kept = c.state("main_grad", {n.ffn, n.hidden}, {}, "grad", "weight");
  Both grad = c.both([&](Ops& o) { return o.einsum("bf,bh->fh", {o[dy], o[x]}); });
  grad.plan = c.plan.all_reduce(grad.plan, {"dp"});
  c.next("main_grad", grad);
  c.next("weight", c.both([&](Ops& o) { return o.descend(o[weight], wrong && o.is_plan() ? o[kept] : o[grad]); }));
  return std::move(c).document();
}

// Forward runs on device copies, gradients go to these, and the optimizer holds the originals: nothing changes.
Document optimizer_of_other_parameters(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Both dy = c.input("dy", {n.batch, n.ffn}, "dp _"), x = c.input("x", {n.batch, n.hidden}, "dp _");
  const Both weight = c.state("weight", {n.ffn, n.hidden});
  Both grad = c.both([&](Ops& o) { return o.einsum("bf,bh->fh", {o[dy], o[x]}); });
  grad.plan = c.plan.all_reduce(grad.plan, {"dp"});
  Both next = c.both([&](Ops& o) { return o.descend(o[weight], o[grad]); });
  if (wrong) next.plan = weight.plan;
  c.next("weight", next);
  return std::move(c).document();
}

// The optimizer was made before wrapping and updates tensors that flat shards have replaced.
Document optimizer_made_before_sharding(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Both lr = c.input("lr", {}), dy = c.input("dy", {n.batch, n.ffn}, "dp _"),
             x = c.input("x", {n.batch, n.hidden}, "dp _");
  const Moments at = moments(c, "weight", {n.ffn, n.hidden}, "_ dp");
  const Both step = c.state("step", {}, {}, "step", "weight", i64);
  const Both next = counted(c, step);
  c.next("step", next);
  Both grad = c.both([&](Ops& o) { return o.einsum("bf,bh->fh", {o[dy], o[x]}); });
  grad.plan = c.plan.reduce_scatter(grad.plan, {"dp"}, 1);
  update(c, "weight", at, grad, next, lr);
  if (wrong) c.next_copy("weight", at.param.plan);
  return std::move(c).document();
}

// A parameter has no gradient in this step; the optimizer's own copy still holds that of the last step.
Document gradient_of_the_last_step(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Both weight = c.state("weight", {n.ffn, n.hidden}, "_ dp"),
             inner = c.state("inner_grad", {n.ffn, n.hidden}, "_ dp", "grad", "weight");
  const Both none = c.both([&](Ops& o) { return o.fill(o.shape(o[inner]), 0); });
  c.next("inner_grad", none);
  c.next("weight", c.both([&](Ops& o) {
    return o.descend(o.scale(o[weight], {99, 100}), wrong && o.is_plan() ? o[inner] : o[none]);
  }));
  return std::move(c).document();
}

}  // namespace

std::vector<Bug> optimizer_bugs() {
  return {
      {"deepspeed_8471", "B183", shared_step_counter},
      {"megatron_lm_5974", "B184", counter_advanced_by_a_dummy_step},
      {"tt_metal_53212", "B185", powers_of_another_beta},
      {"deepspeed_8437", "B187", orthogonalised_by_shard},
      {"automodel_2995_idle", "B188", idle_expert_not_updated},
      {"megatron_lm_4994", "B134", gathered_from_an_old_buffer},
      {"megatron_lm_6920", "B136", not_gathered},
      {"transformer_engine_1026_edge", "B138", offloaded_weight_without_gradient},
      {"transformer_engine_1026_copy", "B138", gradient_read_from_an_old_place},
      {"accelerate_3785", "B139", optimizer_of_other_parameters, "SP0502"},
      {"accelerate_3256", "B140", optimizer_made_before_sharding, "SP0502"},
      {"megatron_lm_6871", "B141", gradient_of_the_last_step},
  };
}

}  // namespace shardproof::bugs

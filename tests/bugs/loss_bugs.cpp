// Normalisation of the loss: accumulated microbatches, unequal token counts, averages over data-parallel ranks.
//
// The model is one linear unit per token with a squared error: z = x.w, loss of a token = z^2 / 2, so the gradient of
// a token is z x. Sequences come as [microbatch, batch, sequence], masks say which tokens count.
#include "case.h"

namespace shardproof::bugs {
namespace {

using Document = ir::Document;

struct Step {
  Both x, mask, w;
};

Step step(Case& c) {
  const Sizes& n = c.n();
  return {c.input("x", {n.micro, n.batch, n.sequence, n.hidden}, "_ dp _ _"),
          c.input("mask", {n.micro, n.batch, n.sequence}, "_ dp _"), c.state("w", {n.hidden})};
}

std::vector<std::pair<std::string, std::int64_t>> data_parallel(const Sizes& n) {
  return {{"dp", n.dp}};
}

// Gradient of sum over tokens of weight * loss, with a weight of x's shape without the last dimension.
ValueId weighted_gradient(Ops& o, ValueId x, ValueId weight, ValueId w) {
  const std::string tokens = o.shape(weight).size() == 3 ? "kbs" : "bs";
  const ValueId z = o.einsum(tokens + "h,h->" + tokens, {x, w});
  return o.einsum(tokens + "," + tokens + "," + tokens + "h->h", {weight, z, x});
}

// Sum over microbatches of gradient(x, mask) of microbatch m.
ValueId over_microbatches(Ops& o, const Step& s, const Sizes& n,
                          const std::function<ValueId(ValueId x, ValueId mask)>& gradient) {
  const ir::CoordExpr m = ir::variable_expr("m");
  return o.accumulate("m", n.micro, {{n.hidden}},
                      [&] { return Values{gradient(o.pick(o[s.x], m), o.pick(o[s.mask], m))}; })[0];
}

ValueId mean_over_tokens(Ops& o, const Step& s) {
  const ValueId count = o.total(o[s.mask]);
  return o.times(weighted_gradient(o, o[s.x], o[s.mask], o[s.w]), o.op(OpCode::reciprocal, {count}));
}

// All valid tokens of the step, on all ranks.
ValueId token_count(Ops& o, const Step& s) {
  return o.all_reduce(o.total(o[s.mask]), {"dp"});
}

Document finish(Case& c, const Step& s, const Both& grad) {
  c.next("w", c.both([&](Ops& o) { return o.descend(o[s.w], o[grad]); }));
  return std::move(c).document();
}

// The reference is the mean over all valid tokens of the step; the plan weighs the gradient of microbatch (x, mask).
Document token_mean(
    bool wrong, const Sizes& n, const std::string& reduce,
    const std::function<ValueId(Ops&, ValueId gradient, ValueId mask, ValueId count, bool wrong)>& weigh) {
  Case c(wrong, n, data_parallel(n));
  const Step s = step(c);
  Both grad;
  grad.reference = mean_over_tokens(c.reference, s);
  const ValueId count = token_count(c.plan, s);
  grad.plan = over_microbatches(c.plan, s, n, [&](ValueId x, ValueId mask) {
    return weigh(c.plan, weighted_gradient(c.plan, x, mask, c.plan[s.w]), mask, count, wrong);
  });
  grad.plan = c.plan.all_reduce(grad.plan, {"dp"}, reduce);
  return finish(c, s, grad);
}

ValueId over(Ops& o, ValueId x, ValueId count) {
  return o.times(x, o.op(OpCode::reciprocal, {count}));
}

// The main loss is divided by the tokens of the whole step, the regulariser is added in full in each microbatch.
Document regulariser_per_microbatch(bool wrong, const Sizes& n) {
  Case c(wrong, n, data_parallel(n));
  const Step s = step(c);
  Both grad;
  grad.reference = c.reference.add({mean_over_tokens(c.reference, s), c.reference.scale(s.w.reference, {1, 100})});
  const ValueId count = token_count(c.plan, s);
  Ops& o = c.plan;
  grad.plan = over_microbatches(o, s, n, [&](ValueId x, ValueId mask) {
    const ValueId decay = o.scale(s.w.plan, {1, 100 * n.dp * c.right_or_wrong(n.micro, std::int64_t{1})});
    return o.add({over(o, weighted_gradient(o, x, mask, s.w.plan), count), decay});
  });
  grad.plan = o.all_reduce(grad.plan, {"dp"});
  return finish(c, s, grad);
}

// Divided by the tokens of the step, and by the number of microbatches as well.
Document divided_twice(bool wrong, const Sizes& n) {
  return token_mean(wrong, n, "sum", [&n](Ops& o, ValueId gradient, ValueId, ValueId count, bool is_wrong) {
    const ValueId mean = over(o, gradient, count);
    return is_wrong ? o.scale(mean, {1, n.micro}) : mean;
  });
}

// Divided by the tokens of the microbatch on this rank instead of those of the step; then the mean of these means.
Document mean_of_local_means(bool wrong, const Sizes& n) {
  return token_mean(wrong, n, "sum", [&n](Ops& o, ValueId gradient, ValueId mask, ValueId count, bool is_wrong) {
    return is_wrong ? o.scale(over(o, gradient, o.total(mask)), {1, n.micro * n.dp}) : over(o, gradient, count);
  });
}

// Token mean of each microbatch, weighed by its share of samples instead of its share of tokens.
Document weighed_by_samples(bool wrong, const Sizes& n) {
  return token_mean(wrong, n, "avg", [&n](Ops& o, ValueId gradient, ValueId mask, ValueId count, bool is_wrong) {
    const ValueId own = o.total(mask);
    const ValueId mean = over(o, gradient, own);
    if (is_wrong) return o.scale(mean, {n.batch / n.dp, n.batch / n.dp * n.micro});
    return o.scale(o.times(mean, o.div(own, count)), n.dp);
  });
}

// The average over dp is undone by a factor dp on the loss; here it divides once more.
Document divided_by_dp_squared(bool wrong, const Sizes& n) {
  Case c(wrong, n, data_parallel(n));
  const Step s = step(c);
  const std::int64_t sequences = n.micro * n.batch;
  Both grad;
  // Mean over sequences of the sum over their tokens.
  grad.reference =
      c.reference.scale(weighted_gradient(c.reference, s.x.reference, s.mask.reference, s.w.reference), {1, sequences});
  Ops& o = c.plan;
  grad.plan = over_microbatches(o, s, n, [&](ValueId x, ValueId mask) {
    const ir::Rational factor = wrong ? ir::Rational(1, sequences * n.dp) : ir::Rational(n.dp, sequences);
    return o.scale(weighted_gradient(o, x, mask, s.w.plan), factor);
  });
  grad.plan = o.all_reduce(grad.plan, {"dp"}, "avg");
  return finish(c, s, grad);
}

// Divided by a fixed horizon (the sequence length) but not by the number of sequences.
Document not_divided_by_sequences(bool wrong, const Sizes& n) {
  Case c(wrong, n, data_parallel(n));
  const Step s = step(c);
  const std::int64_t sequences = n.micro * n.batch;
  Both grad;
  grad.reference = c.reference.scale(weighted_gradient(c.reference, s.x.reference, s.mask.reference, s.w.reference),
                                     {1, n.sequence * sequences});
  Ops& o = c.plan;
  grad.plan = over_microbatches(o, s, n, [&](ValueId x, ValueId mask) {
    return o.scale(weighted_gradient(o, x, mask, s.w.plan), {1, n.sequence * c.right_or_wrong(sequences, n.micro)});
  });
  grad.plan = o.all_reduce(grad.plan, {"dp"});
  return finish(c, s, grad);
}

// The record of token counts is empty, so the own count is taken, and microbatches add up to a sum of means.
Document sum_of_local_means(bool wrong, const Sizes& n) {
  return token_mean(wrong, n, "sum", [](Ops& o, ValueId gradient, ValueId mask, ValueId count, bool is_wrong) {
    return over(o, gradient, is_wrong ? o.total(mask) : count);
  });
}

// Tokens are counted over a window of twice as many microbatches as one optimizer step accumulates.
Document count_of_longer_window(bool wrong, const Sizes& n) {
  Case c(wrong, n, data_parallel(n));
  const Step s = step(c);
  const Both later = c.input("later_mask", {n.micro, n.batch, n.sequence}, "_ dp _");
  Both grad;
  grad.reference = mean_over_tokens(c.reference, s);
  Ops& o = c.plan;
  ValueId count = token_count(o, s);
  if (wrong) count = o.add({count, o.all_reduce(o.total(later.plan), {"dp"})});
  grad.plan =
      over_microbatches(o, s, n, [&](ValueId x, ValueId mask) { return weighted_gradient(o, x, mask, s.w.plan); });
  grad.plan = over(o, o.all_reduce(grad.plan, {"dp"}), count);
  return finish(c, s, grad);
}

// The loss is a sum over tokens; ranks are averaged; the factor dp / tokens is left out.
Document token_sum_not_divided(bool wrong, const Sizes& n) {
  return token_mean(wrong, n, "avg", [&n](Ops& o, ValueId gradient, ValueId, ValueId count, bool is_wrong) {
    return is_wrong ? gradient : o.scale(over(o, gradient, count), n.dp);
  });
}

// Mean over equal microbatches, divided by their number in the script and again in the engine.
Document accumulation_scaled_twice(bool wrong, const Sizes& n) {
  Case c(wrong, n, data_parallel(n));
  const Step s = step(c);
  const std::int64_t tokens = n.batch * n.sequence;
  Both grad;
  grad.reference = c.reference.scale(weighted_gradient(c.reference, s.x.reference, s.mask.reference, s.w.reference),
                                     {1, tokens * n.micro});
  Ops& o = c.plan;
  grad.plan = over_microbatches(o, s, n, [&](ValueId x, ValueId mask) {
    return o.scale(o.scale(weighted_gradient(o, x, mask, s.w.plan), {n.dp, tokens}), {1, n.micro});
  });
  if (wrong) grad.plan = o.scale(grad.plan, {1, n.micro});
  grad.plan = o.all_reduce(grad.plan, {"dp"}, "avg");
  return finish(c, s, grad);
}

}  // namespace

std::vector<Bug> loss_bugs() {
  return {
      {"opennmt_py_2209", "B030", regulariser_per_microbatch},
      {"unsloth_zoo_1023", "B031", divided_twice, "SP0205"},
      {"open_instruct_1161", "B032", mean_of_local_means},
      {"verl_5625", "B033", weighed_by_samples},
      {"verl_5798", "B034", divided_by_dp_squared},
      {"verl_3741", "B035", not_divided_by_sequences},
      {"verl_7200", "B036", sum_of_local_means},
      {"trl_6024", "B037", count_of_longer_window},
      {"miles_3231", "B038", token_sum_not_divided},
      {"megatron_deepspeed_42", "B040", accumulation_scaled_twice},
  };
}

}  // namespace shardproof::bugs

// Gradients of parameters that tensor- or sequence-parallel ranks share.
#include "case.h"

namespace shardproof::bugs {
namespace {

using Document = ir::Document;

std::vector<std::pair<std::string, std::int64_t>> dp_tp(const Sizes& n) {
  return {{"dp", n.dp}, {"tp", n.tp}};
}
std::vector<std::pair<std::string, std::int64_t>> dp_ep(const Sizes& n) {
  return {{"dp", n.dp}, {"ep", n.tp}};
}

// Under sequence parallelism a rank sees its slice of the sequence at the final norm: its weight gradient is a summand.
Document final_norm_not_reduced(bool wrong, const Sizes& n) {
  Case c(wrong, n, dp_tp(n));
  const Both x = c.input("x", {n.batch, n.sequence, n.hidden}, "dp tp _");
  const Both dy = c.input("dy", {n.batch, n.sequence, n.hidden}, "dp tp _");
  const Both weight = c.state("weight", {n.hidden});
  Both grad = c.both([&](Ops& o) { return o.einsum("bsh,bsh->h", {o[dy], o.normalised(o[x], n.hidden)}); });
  grad.plan = c.plan.all_reduce(grad.plan, c.right_or_wrong<Texts>({"dp", "tp"}, {"dp"}));
  c.next("weight", c.both([&](Ops& o) { return o.descend(o[weight], o[grad]); }));
  return std::move(c).document();
}

// Hooks that reduce weight and bias of a layer norm over tp are attached too early and never run.
Document layer_norm_hooks_never_run(bool wrong, const Sizes& n) {
  Case c(wrong, n, dp_tp(n));
  const Both x = c.input("x", {n.batch, n.sequence, n.hidden}, "dp tp _");
  const Both dy = c.input("dy", {n.batch, n.sequence, n.hidden}, "dp tp _");
  const Both weight = c.state("weight", {n.hidden}), bias = c.state("bias", {n.hidden});
  Both d_weight = c.both([&](Ops& o) {
    const ValueId mean = o.scale(o.sum(o[x], {2}), {1, n.hidden});
    const ValueId centred = o.sub(o[x], o.spread(mean, o.shape(o[x]), {0, 1}));
    return o.einsum("bsh,bsh->h", {o[dy], o.normalised(centred, n.hidden)});
  });
  Both d_bias = c.both([&](Ops& o) { return o.sum(o[dy], {0, 1}); });
  for (ValueId* grad : {&d_weight.plan, &d_bias.plan}) {
    *grad = c.plan.all_reduce(*grad, {"dp"});
    if (!wrong) *grad = c.plan.all_reduce(*grad, {"tp"});
  }
  c.next("weight", c.both([&](Ops& o) { return o.descend(o[weight], o[d_weight]); }));
  c.next("bias", c.both([&](Ops& o) { return o.descend(o[bias], o[d_bias]); }));
  return std::move(c).document();
}

// The hook takes the mean over ranks that hold summands: tp times too small, and equal on all ranks.
Document norm_gradient_averaged(bool wrong, const Sizes& n) {
  Case c(wrong, n, dp_tp(n));
  const Both x = c.input("x", {n.batch, n.sequence, n.hidden}, "dp tp _");
  const Both dy = c.input("dy", {n.batch, n.sequence, n.hidden}, "dp tp _");
  const Both weight = c.state("weight", {n.hidden});
  Both grad = c.both([&](Ops& o) { return o.einsum("bsh,bsh->h", {o[dy], o.normalised(o[x], n.hidden)}); });
  grad.plan = c.plan.all_reduce(c.plan.all_reduce(grad.plan, {"tp"}, c.right_or_wrong("sum", "avg")), {"dp"});
  c.next("weight", c.both([&](Ops& o) { return o.descend(o[weight], o[grad]); }));
  return std::move(c).document();
}

// y = sum over experts e of score[e] * (x w[e]); a rank knows d(score) of its experts only, zero elsewhere. What lies
// before the router needs the sum.
Document router_scores_not_reduced(bool wrong, const Sizes& n) {
  Case c(wrong, n, dp_ep(n));
  const std::int64_t experts = 8 * n.tp;
  const Both x = c.input("x", {n.batch, n.hidden}, "dp _");
  const Both dy = c.input("dy", {n.batch, n.hidden}, "dp _");
  const Both router = c.state("router", {experts, n.hidden});
  const Both w = c.state("w", {experts, n.hidden, n.hidden}, "ep _ _");
  Both d_score = c.both([&](Ops& o) { return o.einsum("bo,eoh,bh->be", {o[dy], o[w], o[x]}); });
  // Scores of other ranks' experts were zeroed in forward, so their gradient is zero here.
  const ValueId own = d_score.plan, none = c.plan.fill(c.plan.shape(own), 0);
  Values columns;
  const ir::Shape flat = c.plan.shape(own);
  for (std::int64_t r = 0; r < n.tp; ++r) {
    const ValueId mine =
        c.plan.compare(c.plan.coordinate(ir::variable_expr("ep"), flat), c.plan.fill(flat, r, ir::DType::i64), "eq");
    columns.push_back(c.plan.select(mine, own, none));
  }
  d_score.plan = c.plan.concat(columns, 1);
  if (!wrong) d_score.plan = c.plan.all_reduce(d_score.plan, {"ep"});
  c.output("d_x", c.both([&](Ops& o) { return o.einsum("be,eh->bh", {o[d_score], o[router]}); }), "dp _");
  return std::move(c).document();
}

// The same sum, missing on the path of one expert kernel only: the loss is right, the router's gradient is not.
Document router_gradient_of_one_path(bool wrong, const Sizes& n) {
  Case c(wrong, n, dp_ep(n));
  const std::int64_t experts = 8 * n.tp;
  const Both x = c.input("x", {n.batch, n.hidden}, "dp _");
  const Both dy = c.input("dy", {n.batch, n.hidden}, "dp _");
  const Both score = c.input("score", {n.batch, experts}, "dp ep");
  const Both w = c.state("w", {experts, n.hidden, n.hidden}, "ep _ _");
  const Both router = c.state("router", {experts, n.hidden});
  Both y = c.both([&](Ops& o) { return o.einsum("be,eoh,bh->bo", {o[score], o[w], o[x]}); });
  y.plan = c.plan.all_reduce(y.plan, {"ep"});
  c.output("y", y, "dp _");
  const Both d_score = c.both([&](Ops& o) { return o.einsum("bo,eoh,bh->be", {o[dy], o[w], o[x]}); });
  Both grad = c.both([&](Ops& o) { return o.einsum("be,bh->eh", {o[d_score], o[x]}); });
  grad.plan = c.plan.all_reduce(grad.plan, {"dp"});
  // Each rank has the rows of its experts; the router is whole on all ranks.
  const std::int64_t rows = experts / n.tp;
  const ir::Shape shape{rows, n.hidden};
  Values blocks;
  for (std::int64_t r = 0; r < n.tp; ++r) {
    const ValueId mine =
        c.plan.compare(c.plan.coordinate(ir::variable_expr("ep"), shape), c.plan.fill(shape, r, ir::DType::i64), "eq");
    blocks.push_back(c.plan.select(mine, grad.plan, c.plan.fill(shape, 0)));
  }
  grad.plan = c.plan.concat(blocks, 0);
  if (!wrong) grad.plan = c.plan.all_reduce(grad.plan, {"ep"});
  c.next("router", c.both([&](Ops& o) { return o.descend(o[router], o[grad]); }));
  return std::move(c).document();
}

// Probabilities are gathered over ep by a collective that autograd does not know: no gradient reaches the router.
Document gathered_probabilities_without_gradient(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"ep", n.tp}});
  const std::int64_t experts = 8 * n.tp, tokens = n.tp * n.sequence;
  const Both x = c.input("x", {tokens, n.hidden}, "ep _");
  const Both dy = c.input("dy", {tokens, n.hidden});
  const Both w = c.input("w", {experts, n.hidden}, "ep _");
  const Both router = c.state("router", {experts, n.hidden});
  // y[t] = sum over e of p[t,e] w[e], p = x router^T: d(p) of all tokens for the rank's experts.
  Both d_p = c.both([&](Ops& o) { return o.einsum("th,eh->te", {o[dy], o[w]}); });
  // All experts of the rank's tokens: gather experts, keep tokens.
  d_p.plan = c.plan.all_gather(d_p.plan, {"ep"}, 1);
  d_p.plan = c.plan.slice(d_p.plan, 0, ir::variable_expr("ep", n.sequence), n.sequence);
  if (wrong) d_p.plan = c.plan.fill(c.plan.shape(d_p.plan), 0);
  Both grad = c.both([&](Ops& o) { return o.einsum("te,th->eh", {o[d_p], o[x]}); });
  grad.plan = c.plan.all_reduce(grad.plan, {"ep"});
  c.next("router", c.both([&](Ops& o) { return o.descend(o[router], o[grad]); }));
  return std::move(c).document();
}

// A norm weight shared by all heads, each rank norming its own heads: a summand also without sequence parallelism.
Document weight_shared_by_heads(bool wrong, const Sizes& n) {
  Case c(wrong, n, dp_tp(n));
  const ir::Shape shape{n.batch, n.sequence, n.heads, n.head_dim};
  const Both x = c.input("x", shape, "dp _ tp _"), dy = c.input("dy", shape, "dp _ tp _");
  const Both weight = c.state("weight", {n.head_dim});
  Both grad = c.both([&](Ops& o) { return o.einsum("bshd,bshd->d", {o[dy], o.normalised(o[x], n.head_dim)}); });
  grad.plan = c.plan.all_reduce(grad.plan, c.right_or_wrong<Texts>({"dp", "tp"}, {"dp"}));
  c.next("weight", c.both([&](Ops& o) { return o.descend(o[weight], o[grad]); }));
  return std::move(c).document();
}

// Multi-query attention: one key projection on all ranks, used with each rank's own heads. Its weight gradient is
// summed over tp, its bias gradient is not.
Document shared_key_bias(bool wrong, const Sizes& n) {
  Case c(wrong, n, dp_tp(n));
  const Both x = c.input("x", {n.batch, n.sequence, n.hidden}, "dp _ _");
  const Both q = c.input("q", {n.batch, n.heads, n.sequence, n.head_dim}, "dp tp _ _");
  const Both d_scores = c.input("d_scores", {n.batch, n.heads, n.sequence, n.sequence}, "dp tp _ _");
  const Both weight = c.state("k.weight", {n.head_dim, n.hidden}), bias = c.state("k.bias", {n.head_dim});
  const Both d_k = c.both([&](Ops& o) { return o.einsum("bhst,bhsd->btd", {o[d_scores], o[q]}); });
  Both d_weight = c.both([&](Ops& o) { return o.einsum("btd,bth->dh", {o[d_k], o[x]}); });
  Both d_bias = c.both([&](Ops& o) { return o.sum(o[d_k], {0, 1}); });
  d_weight.plan = c.plan.all_reduce(d_weight.plan, {"tp", "dp"});
  d_bias.plan = c.plan.all_reduce(d_bias.plan, c.right_or_wrong<Texts>({"tp", "dp"}, {"dp"}));
  c.next("k.weight", c.both([&](Ops& o) { return o.descend(o[weight], o[d_weight]); }));
  c.next("k.bias", c.both([&](Ops& o) { return o.descend(o[bias], o[d_bias]); }));
  return std::move(c).document();
}

// Every rank gathers the sequence and does the same work, so the gradient is whole already; the gather's backward sums
// equal copies where it should take its slice.
Document duplicated_work_summed(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}, {"cp", 2}, {"tp", n.tp}});
  const std::int64_t length = n.sequence * n.tp;
  const Both x = c.input("x", {n.batch, length, n.hidden}, "dp cp+tp _");
  const Both dy = c.input("dy", {n.batch, length}, "dp _");
  const Both w = c.input("w", {n.hidden});
  // y[s] = (sum over t of x[t])[h] w[h]: needs the whole sequence. d_x[t,h] = sum over s of dy[s] w[h].
  Both d_x = c.both([&](Ops& o) {
    const ValueId row = o.einsum("bs,h->bh", {o[dy], o[w]});
    return o.spread(row, {o.shape(row)[0], length, n.hidden}, {0, 2});
  });
  const std::int64_t own = length / (2 * n.tp);
  const ir::CoordExpr start = ir::variable_expr("cp", own * n.tp) + ir::variable_expr("tp", own);
  d_x.plan = wrong ? c.plan.reduce_scatter(d_x.plan, {"cp", "tp"}, 1) : c.plan.slice(d_x.plan, 1, start, own);
  c.output("d_x2", c.both([&](Ops& o) { return o.mul({o[d_x], o[x]}); }), "dp cp+tp _");
  return std::move(c).document();
}

// A row-parallel bias is added as bias/tp on each rank before the sum. The 1/tp is undone by a sum over tp, or must not
// be part of the derivative; with neither, the gradient is tp times too small.
Document divided_row_parallel_bias(bool wrong, const Sizes& n) {
  Case c(wrong, n, dp_tp(n));
  const Both x = c.input("x", {n.batch, n.ffn}, "dp tp"), dy = c.input("dy", {n.batch, n.hidden}, "dp _");
  const Both w = c.input("w", {n.hidden, n.ffn}, "_ tp");
  const Both bias = c.state("bias", {n.hidden});
  Both y = c.both([&](Ops& o) { return o.einsum("bf,hf->bh", {o[x], o[w]}); });
  const Both share{bias.reference, c.plan.scale(bias.plan, {1, n.tp})};
  y = c.both([&](Ops& o) { return o.add({o[y], o.spread(o[share], o.shape(o[y]), {1})}); });
  y.plan = c.plan.all_reduce(y.plan, {"tp"});
  c.output("y", y, "dp _");
  Both grad = c.both([&](Ops& o) { return o.sum(o[dy], {0}); });
  grad.plan = c.plan.scale(grad.plan, {1, n.tp});
  grad.plan = c.plan.all_reduce(grad.plan, c.right_or_wrong<Texts>({"dp", "tp"}, {"dp"}));
  c.next("bias", c.both([&](Ops& o) { return o.descend(o[bias], o[grad]); }));
  return std::move(c).document();
}

// Two norms under sequence parallelism, of which one lacks the marker that asks for the sum.
Document unmarked_norm(bool wrong, const Sizes& n) {
  Case c(wrong, n, dp_tp(n));
  const Both x = c.input("x", {n.batch, n.sequence, n.hidden}, "dp tp _");
  for (const std::string& norm : Texts{"attention_norm", "ffn_norm"}) {
    const Both dy = c.input(norm + ".dy", {n.batch, n.sequence, n.hidden}, "dp tp _");
    const Both weight = c.state(norm, {n.hidden});
    Both grad = c.both([&](Ops& o) { return o.einsum("bsh,bsh->h", {o[dy], o.normalised(o[x], n.hidden)}); });
    const bool forgotten = wrong && norm == "ffn_norm";
    grad.plan = c.plan.all_reduce(grad.plan, forgotten ? Texts{"dp"} : Texts{"dp", "tp"});
    c.next(norm, c.both([&](Ops& o) { return o.descend(o[weight], o[grad]); }));
  }
  return std::move(c).document();
}

}  // namespace

std::vector<Bug> tensor_parallel_gradient_bugs() {
  return {
      {"megatron_lm_1446", "B001", final_norm_not_reduced, "SP0201"},
      {"gpt_neox_1257", "B002", layer_norm_hooks_never_run, "SP0201"},
      {"gpt_neox_1259", "B003", norm_gradient_averaged},
      {"transformers_48205", "B007", router_scores_not_reduced, "SP0201"},
      {"transformers_48687", "B008", router_gradient_of_one_path},
      {"automodel_2995_probs", "B009", gathered_probabilities_without_gradient},
      {"megatron_lm_7452_out_norm", "B010", weight_shared_by_heads, "SP0201"},
      {"bigcode_megatron_11", "B011", shared_key_bias, "SP0201"},
      {"slime_1748", "B013", duplicated_work_summed},
      {"torchtitan_4332", "B014", divided_row_parallel_bias},
      {"internlm_443", "B016", unmarked_norm, "SP0201"},
  };
}

}  // namespace shardproof::bugs

// Backward passes of collectives, and losses over a vocabulary cut by tensor parallelism.
#include "case.h"

namespace shardproof::bugs {
namespace {

using Document = ir::Document;

// Tokens cut over ep are gathered, and each rank runs its own expert on all of them. The gradient of the gathered
// tensor differs by rank: the backward of the gather is a reduce-scatter, not the own slice.
Document gather_backward_sliced(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}, {"ep", n.tp}});
  const std::int64_t tokens = n.sequence * n.tp, own = n.sequence;
  const Both dy = c.input("dy", {n.tp, tokens, n.ffn}, "ep _ _");  // of expert e
  const Both w = c.state("w", {n.tp, n.ffn, n.hidden}, "ep _ _");
  Both d_x = c.both([&](Ops& o) { return o.einsum("etf,efh->th", {o[dy], o[w]}); });
  d_x.plan =
      wrong ? c.plan.slice(d_x.plan, 0, ir::variable_expr("ep", own), own) : c.plan.reduce_scatter(d_x.plan, {"ep"}, 0);
  c.output("d_x", d_x, "ep _");
  return std::move(c).document();
}

// The loss runs in chunks of the sequence. Their gradients are summands over tp (the vocabulary is cut) and are put
// into a buffer that claims to be whole.
Document chunk_buffer_relabelled(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}, {"tp", n.tp}});
  const Both d_logits = c.input("d_logits", {n.batch, n.sequence, n.vocab}, "dp _ tp");
  const Both head = c.state("head", {n.vocab, n.hidden}, "tp _");
  const Both below = c.input("below", {n.batch, n.sequence, n.hidden}, "dp _ _");
  Both d_hidden = c.both([&](Ops& o) {
    if (!o.is_plan()) return o.einsum("bsv,vh->bsh", {o[d_logits], o[head]});
    Values chunks;
    for (std::int64_t i = 0; i < 2; ++i)
      chunks.push_back(o.einsum("bsv,vh->bsh", {o.part(o[d_logits], 1, i, 2), o[head]}));
    return o.concat(chunks, 1);
  });
  if (!wrong) d_hidden.plan = c.plan.all_reduce(d_hidden.plan, {"tp"});
  Both grad = c.both([&](Ops& o) { return o.einsum("bsh,bsh->h", {o[d_hidden], o.normalised(o[below], n.hidden)}); });
  grad.plan = c.plan.all_reduce(grad.plan, {"dp"});
  c.output("d_weight", grad);
  return std::move(c).document();
}

// The collective returns its result in a new buffer; the caller goes on with the one it had allocated (zeros here).
Document dead_collective_result(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const std::int64_t rows = n.dp * n.sequence;
  const Both dy = c.input("dy", {n.batch, rows}, "dp _"), w = c.input("w", {n.batch, n.hidden}, "dp _");
  Both d_x = c.both([&](Ops& o) { return o.einsum("br,bh->rh", {o[dy], o[w]}); });
  const ValueId allocated = c.plan.fill({n.sequence, n.hidden}, 0);
  const ValueId filled = c.plan.reduce_scatter(d_x.plan, {"dp"}, 0);
  d_x.plan = wrong ? allocated : filled;
  c.output("d_x", d_x, "dp _");
  return std::move(c).document();
}

// Embeddings are gathered and all ranks compute the same loss, but only the own rows carry a gradient: averaging the
// weight gradient over ranks needs the factor of their number.
Document contrastive_loss_averaged(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Both x = c.input("x", {n.batch, n.hidden}, "dp _");
  const Both w = c.state("w", {n.ffn, n.hidden});
  // z = x w^T, loss = 1/2 sum (z z^T)^2, d_z = 2 (z z^T) z.
  const Both z = c.both([&](Ops& o) { return o.einsum("bh,fh->bf", {o[x], o[w]}); });
  const Both all{z.reference, c.plan.all_gather(z.plan, {"dp"}, 0)};
  const Both likeness = c.both([&](Ops& o) { return o.einsum("bf,cf->bc", {o[z], o[all]}); });
  const Both d_z = c.both([&](Ops& o) { return o.scale(o.einsum("bc,cf->bf", {o[likeness], o[all]}), 2); });
  Both grad = c.both([&](Ops& o) { return o.einsum("bf,bh->fh", {o[d_z], o[x]}); });
  grad.plan = c.plan.all_reduce(grad.plan, {"dp"}, "avg");
  if (!wrong) grad.plan = c.plan.scale(grad.plan, n.dp);
  c.next("w", c.both([&](Ops& o) { return o.descend(o[w], o[grad]); }));
  return std::move(c).document();
}

// The sum of the loss over ranks lies inside the differentiated function, and the transpose of a sum over ranks is
// again a sum: of equal cotangents, so each rank's gradient gets the number of ranks as a factor.
Document sum_inside_gradient(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const Both data = c.input("data", {n.dp}, "dp");
  const Both w = c.state("w", {n.hidden});
  // loss = sum over ranks of data * (w.w + 1)
  Both loss = c.both([&](Ops& o) {
    const ValueId squares = o.add({o.total(o.mul({o[w], o[w]})), o.fill({}, 1)});
    return o.total(o.times(o[data], squares));
  });
  loss.plan = c.plan.all_reduce(loss.plan, {"dp"});
  c.output("loss", loss);
  Both cotangent = c.both([&](Ops& o) { return o.fill({}, 1); });
  if (wrong) cotangent.plan = c.plan.all_reduce(cotangent.plan, {"dp"});
  Both grad = c.both([&](Ops& o) { return o.scale(o.times(o[w], o.mul({o.total(o[data]), o[cotangent]})), 2); });
  grad.plan = c.plan.all_reduce(grad.plan, {"dp"});
  c.next("w", c.both([&](Ops& o) { return o.descend(o[w], o[grad]); }));
  return std::move(c).document();
}

// Sample points are cut, the image is whole on all ranks: the gradient of the image is a summand.
Document whole_operand_gradient(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}});
  const std::int64_t points = n.dp * n.sequence;
  const Both basis = c.input("basis", {points, n.hidden}, "dp _"), target = c.input("target", {points}, "dp");
  const Both image = c.state("image", {n.hidden});
  const Both miss = c.both([&](Ops& o) { return o.sub(o.einsum("ph,h->p", {o[basis], o[image]}), o[target]); });
  Both loss = c.both([&](Ops& o) { return o.einsum("p,p->", {o[miss], o[miss]}); });
  loss.plan = c.plan.all_reduce(loss.plan, {"dp"});
  c.output("loss", loss);
  Both grad = c.both([&](Ops& o) { return o.einsum("p,ph->h", {o[miss], o[basis]}); });
  if (!wrong) grad.plan = c.plan.all_reduce(grad.plan, {"dp"});
  c.next("image", c.both([&](Ops& o) { return o.descend(o[image], o[grad]); }));
  return std::move(c).document();
}

// ---- vocabulary

struct Exponentials {
  Both log_sum;  // log of the sum of exponentials of the shifted logits
  Both shifted;
  Both soft;  // softmax
};

Exponentials exponentials(Case& c, const Both& logits) {
  Both greatest = c.both([&](Ops& o) { return o.op(OpCode::reduce_max, {o[logits]}, {{"dims", Ints{2}}}); });
  greatest.plan = c.plan.all_reduce(greatest.plan, {"tp"}, "max");
  Exponentials e;
  e.shifted = c.both([&](Ops& o) { return o.sub(o[logits], o.spread(o[greatest], o.shape(o[logits]), {0, 1})); });
  const Both exp = c.both([&](Ops& o) { return o.op(OpCode::exp, {o[e.shifted]}); });
  Both sum = c.both([&](Ops& o) { return o.sum(o[exp], {2}); });
  sum.plan = c.plan.all_reduce(sum.plan, {"tp"});
  e.log_sum = c.both([&](Ops& o) { return o.op(OpCode::log, {o[sum]}); });
  e.soft = c.both([&](Ops& o) { return o.div(o[exp], o.spread(o[sum], o.shape(o[exp]), {0, 1})); });
  return e;
}

// The smoothing term is the mean log-probability over the vocabulary; here over the own shard, and by its width.
Document smoothing_over_own_shard(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}, {"tp", n.tp}});
  const Both logits = c.input("logits", {n.batch, n.sequence, n.vocab}, "dp _ tp");
  const Exponentials e = exponentials(c, logits);
  Both mean = c.both([&](Ops& o) {
    return o.sum(o.sub(o[e.shifted], o.spread(o[e.log_sum], o.shape(o[e.shifted]), {0, 1})), {2});
  });
  if (!wrong) mean.plan = c.plan.all_reduce(mean.plan, {"tp"});
  mean.reference = c.reference.scale(mean.reference, {1, n.vocab});
  mean.plan = c.plan.scale(mean.plan, {1, c.right_or_wrong(n.vocab, n.vocab / n.tp)});
  c.output("mean_log_probability", mean, "dp _");
  return std::move(c).document();
}

// Column v of the logits is the label's, 1 or 0.
ValueId is_label(Ops& o, ValueId labels, const ir::Shape& shape, const Sizes& n) {
  ValueId column = o.builder().typed(OpCode::iota, {ir::DType::i64, shape}, {{"dim", std::int64_t{2}}});
  if (o.is_plan()) column = o.add({column, o.coordinate(ir::variable_expr("tp", n.vocab / n.tp), shape)});
  const ValueId hit = o.compare(column, o.spread(labels, shape, {0, 1}), "eq");
  return o.select(hit, o.fill(shape, 1), o.fill(shape, 0));
}

// The label's logit comes by a collective without a backward: the loss is right, d(logits) lacks the label's part.
Document label_logit_without_gradient(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}, {"tp", n.tp}});
  const Both logits = c.input("logits", {n.batch, n.sequence, n.vocab}, "dp _ tp");
  const Both labels = c.input("labels", {n.batch, n.sequence}, "dp _", ir::DType::i64, n.vocab);
  const Exponentials e = exponentials(c, logits);
  const Both hit = c.both([&](Ops& o) { return is_label(o, o[labels], o.shape(o[logits]), n); });
  Both target = c.both([&](Ops& o) { return o.einsum("bsv,bsv->bs", {o[hit], o[e.shifted]}); });
  target.plan = c.plan.all_reduce(target.plan, {"tp"});
  c.output("loss", c.both([&](Ops& o) { return o.sub(o[e.log_sum], o[target]); }), "dp _");
  c.output("d_logits",
           c.both([&](Ops& o) { return wrong && o.is_plan() ? o.scale(o[e.soft], 1) : o.sub(o[e.soft], o[hit]); }),
           "dp _ tp");
  return std::move(c).document();
}

// The fused loss returns the own shard's part of d(hidden); callers expect the sum over the vocabulary.
Document hidden_gradient_of_own_shard(bool wrong, const Sizes& n) {
  Case c(wrong, n, {{"dp", n.dp}, {"tp", n.tp}});
  const Both hidden = c.input("hidden", {n.batch, n.sequence, n.hidden}, "dp _ _");
  const Both labels = c.input("labels", {n.batch, n.sequence}, "dp _", ir::DType::i64, n.vocab);
  const Both head = c.state("head", {n.vocab, n.hidden}, "tp _");
  const Both logits = c.both([&](Ops& o) { return o.einsum("bsh,vh->bsv", {o[hidden], o[head]}); });
  const Exponentials e = exponentials(c, logits);
  const Both d_logits = c.both([&](Ops& o) { return o.sub(o[e.soft], is_label(o, o[labels], o.shape(o[logits]), n)); });
  Both d_hidden = c.both([&](Ops& o) { return o.einsum("bsv,vh->bsh", {o[d_logits], o[head]}); });
  if (!wrong) d_hidden.plan = c.plan.all_reduce(d_hidden.plan, {"tp"});
  c.output("d_hidden", d_hidden, "dp _ _");
  return std::move(c).document();
}

}  // namespace

std::vector<Bug> autograd_bugs() {
  return {
      {"automodel_1260", "B017", gather_backward_sliced, "SP0201"},
      {"torchtitan_3412", "B018", chunk_buffer_relabelled, "SP0201"},
      {"pytorch_120386", "B019", dead_collective_result},
      {"declutr_212", "B021", contrastive_loss_averaged},
      {"jax_3970", "B022", sum_inside_gradient},
      {"jax_finufft_226", "B024", whole_operand_gradient, "SP0201"},
      {"megatron_lm_737", "B025", smoothing_over_own_shard, "SP0201"},
      {"ms_swift_9947", "B027", label_logit_without_gradient},
      {"ml_cross_entropy_42", "B028", hidden_gradient_of_own_shard, "SP0201"},
  };
}

}  // namespace shardproof::bugs

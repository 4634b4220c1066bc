// Vocabulary-parallel embedding and cross entropy, and the factors that decide training.
#include "mutations/mutate.h"

namespace shardproof::mutations {
namespace {

using ir::OpCode;
using ir::Rational;
using ir::ValueId;

Edit operand(std::size_t k) {
  return [k](Editor& e, const std::string& at) { e.become_operand(at, k); };
}

Edit direction(std::string word) {
  return [word = std::move(word)](Editor& e, const std::string& at) { e.set(at, "direction", word); };
}

Edit scaled(Rational factor) {
  return [factor](Editor& e, const std::string& at) { e.scale(at, factor); };
}
Edit scaled_by_inverse_of(std::string axis) {
  return [axis = std::move(axis)](Editor& e, const std::string& at) {
    const std::int64_t size = axis == "tp" && !e.has_axis("tp") ? e.axis_size("tpk") * e.axis_size("tpr") : e.axis_size(axis);
    e.scale(at, Rational(1, size));
  };
}

void swap_operands(Editor& e, const std::string& at) {
  const std::vector<ValueId> in = e.at(at).inputs;
  if (in.size() != 2 || e.type(in[0]) != e.type(in[1]) || in[0] == in[1]) throw NotApplicable();
  e.redefine(at, e.at(at).op, {in[1], in[0]});
}

Edit use_value(std::size_t k, std::string other) {
  return [k, other = std::move(other)](Editor& e, const std::string& at) { e.use(at, k, e.value(other)); };
}

Edit use_ones(std::size_t k) {
  return [k](Editor& e, const std::string& at) {
    const ValueId old = e.at(at).inputs.at(k);
    e.before(at);
    e.use(at, k, e.constant(1, e.type(old)));
  };
}

// First rows of the vocabulary shards.
Edit first_row(std::function<ir::CoordExpr(Editor&, const ir::CoordExpr&)> other) {
  return [other = std::move(other)](Editor& e, const std::string& at) {
    if (e.at(at).op != OpCode::coord) throw NotApplicable();
    e.set(at, "value", other(e, e.at(at).attributes.get<ir::CoordExpr>("value")));
  };
}
// The `coord` that the first vocabulary row is read from.
Kind at_first_row(std::string name, Edit edit) {
  return at_names(std::move(name), "coord", std::move(edit));
}

}  // namespace

Kinds loss_kinds() {
  return {
      at_first_row("vocab_offset_off_by_one", first_row([](Editor&, const ir::CoordExpr& v) { return v + ir::constant_expr(1); })),
      at_first_row("vocab_offset_before", first_row([](Editor&, const ir::CoordExpr& v) { return v + ir::constant_expr(-1); })),
      at_first_row("vocab_offset_wrong_axis", first_row([](Editor&, const ir::CoordExpr& v) {
                     return v.terms.at(0).coefficient * ir::variable_expr("dp");
                   })),
      at_first_row("vocab_offset_reversed", first_row([](Editor& e, const ir::CoordExpr& v) {
                     if (v.terms.size() != 1) throw NotApplicable();
                     const std::int64_t last = (e.axis_size(v.terms[0].variable) - 1) * v.terms[0].coefficient;
                     return ir::constant_expr(last) + -1 * v;
                   })),
      at_names("embedding_mask_missing", "embed.own_rows", operand(1)),
      at_names("embedding_gradient_mask_missing", "embed.d_rows", operand(1)),
      at_names("shard_lower_bound_strict", "*.not_below", direction("gt")),
      at_names("shard_upper_bound_inclusive", "*.not_above", direction("le")),
      at_names("shard_upper_bound_missing", "*.here", operand(0)),
      at_names("shard_lower_bound_missing", "*.here", operand(1)),
      at_names("label_logit_mask_missing", "loss.label_logit_masked", operand(1)),
      at_names("label_gradient_mask_missing", "loss.label_seed", operand(1)),
      at_names("padded_logits_not_masked", "head.logits_masked", operand(1)),
      at_names("padded_logits_bound", "vocab.real_columns", direction("le")),
      at_names("labels_are_tokens", "loss.local_id", use_value(0, "batch.tokens")),
      at_names("tokens_are_labels", "embed.local_id", use_value(0, "batch.labels")),
      at_names("label_logit_not_shifted", "loss.own_label_logit", use_value(0, "head.logits_masked")),
      at_names("loss_mask_missing", "loss.masked_sum", use_ones(1)),
      at_names("loss_gradient_mask_missing", "loss.mask_over_sum", use_ones(0)),
      at_names("label_gradient_loss_mask_missing", "loss.label_seed", use_ones(1)),
      at_names("loss_logarithm_missing", "loss.log_sum_exp", operand(0)),
      at_names("loss_sign", "loss.cross_entropy", swap_operands),
      at_names("label_gradient_missing", "loss.d_logits_f32", operand(0)),
      at_names("logits_gradient_sign", "loss.d_logits_f32", swap_operands),
      at_names("tokens_local_in_loss", "loss.mean", use_value(1, "tokens.sum_1")),
      at_names("tokens_local_in_gradient", "loss.per_token", use_value(0, "tokens.sum_1")),
      at_names("loss_not_divided", "loss.mean", operand(0)),
      at_names("loss_of_one_microbatch_divisor", "loss.mean", [](Editor& e, const std::string& at) {
                 const std::vector<ValueId> in = e.at(at).inputs;
                 e.before(at);
                 e.use(at, 1, e.constant(32, e.type(in.at(1))));
               }),
      at_names("gradient_not_divided", "bucket*.grad", operand(0)),
      at_names("gradient_divided_twice", "bucket*.grad", [](Editor& e, const std::string& at) {
                 const std::vector<ValueId> in = e.at(at).inputs;
                 e.redefine(at, OpCode::mul, {in.at(0), in.at(1), in.at(1)});
               }),
      at_names("gradient_over_microbatches", "bucket*.grad", scaled(Rational(1, 4))),
      at_names("gradient_over_dp", "bucket*.grad", scaled_by_inverse_of("dp")),
      at_names("gradient_over_tp", "*.grad_sum", scaled_by_inverse_of("tp")),
      at_names("gradient_doubled", "*.grad_sum", scaled(2)),
      at_names("loss_gradient_over_microbatches", "loss.d_logits_f32", scaled(Rational(1, 4))),
      at_names("loss_over_dp", "loss.total", scaled_by_inverse_of("dp")),
      at_names("input_gradient_over_tp", "l*.d_x", scaled_by_inverse_of("tp")),
      at_names("loss_doubled", "loss.total", scaled(2)),
      at_names("token_count_over_dp", "loss.tokens", scaled_by_inverse_of("dp")),
  };
}

}  // namespace shardproof::mutations

// Embedding, norms, attention and feed-forward: what goes wrong inside one layer, forward or backward.
#include "mutations/mutate.h"

namespace shardproof::mutations {
namespace {

using ir::OpCode;
using ir::Rational;
using ir::ValueId;
using Ints = std::vector<std::int64_t>;

Edit operand(std::size_t k) {
  return [k](Editor& e, const std::string& at) { e.become_operand(at, k); };
}

Edit another_constant(std::size_t k, Rational value) {
  return [k, value](Editor& e, const std::string& at) {
    const std::vector<ValueId> inputs = e.at(at).inputs;
    if (k >= inputs.size()) throw NotApplicable();
    e.before(at);
    e.use(at, k, e.constant(value, e.type(inputs[k])));
  };
}

void swap_first_two(Editor& e, const std::string& at) {
  const std::vector<ValueId> inputs = e.at(at).inputs;
  if (inputs.size() < 2 || e.type(inputs[0]) != e.type(inputs[1]) || inputs[0] == inputs[1]) throw NotApplicable();
  ir::Instruction& i = e.at(at);
  std::swap(i.inputs[0], i.inputs[1]);
  e.touch(at);
}

Edit direction(std::string word) {
  return [word = std::move(word)](Editor& e, const std::string& at) { e.set(at, "direction", word); };
}

Edit with_op(OpCode op) {
  return [op](Editor& e, const std::string& at) { e.redefine(at, op, e.at(at).inputs); };
}

// The value of the same layer with another last name part, or in the same module: "l1.attn.q" -> "l1.attn.k".
std::string sibling(const std::string& at, const std::string& last) {
  return at.substr(0, at.rfind('.') + 1) + last;
}
Edit use_sibling(std::size_t k, std::string last) {
  return [k, last = std::move(last)](Editor& e, const std::string& at) { e.use(at, k, e.value(sibling(at, last))); };
}

void first_operand_twice(Editor& e, const std::string& at) {
  const std::vector<ValueId> inputs = e.at(at).inputs;
  e.redefine(at, OpCode::add, {inputs.at(0), inputs.at(1), inputs.at(0)});
}

// Query positions counted from 1, or keys and queries exchanged.
void mask_shows_next(Editor& e, const std::string& at) {
  const std::vector<ValueId> inputs = e.at(at).inputs;
  e.before(at);
  const ValueId one = e.constant(1, e.type(inputs[0]));
  e.use(at, 0, e.emit(OpCode::add, {inputs[0], one}));
}

// Cosines and sines of other positions, for the queries only: rotating queries and keys by the same angle more cancels.
void rope_from_positions(Editor& e, const std::string& at, const std::function<ValueId(ValueId)>& other) {
  e.before(at);
  const ValueId position = other(e.value("rope.position_f32"));
  const ValueId angle = e.emit(OpCode::mul, {position, e.value("rope.frequencies_b")});
  const std::string dtype(ir::dtype_name(e.type(e.value("rope.cos")).dtype));
  const ValueId cos = e.emit(OpCode::cast, {e.emit(OpCode::cos, {angle})}, {{"dtype", dtype}});
  const ValueId sin = e.emit(OpCode::cast, {e.emit(OpCode::sin, {angle})}, {{"dtype", dtype}});
  e.use(at, 1, cos);
  e.use(at, 2, sin);
}
void rope_next_position(Editor& e, const std::string& at) {
  rope_from_positions(e, at, [&](ValueId p) { return e.emit(OpCode::add, {p, e.constant(1, e.type(p))}); });
}
// Positions counted from 0 on every sequence shard.
void rope_local_position(Editor& e, const std::string& at) {
  rope_from_positions(e, at, [&](ValueId p) {
    const std::int64_t rows = e.type(p).shape[0];
    const std::int64_t ranks = e.has_axis("tp") ? e.axis_size("tp") : e.axis_size("tpk") * e.axis_size("tpr");
    const std::int64_t own = rows / ranks;
    const ValueId part = e.emit(OpCode::slice, {p}, {{"dim", std::int64_t{0}}, {"start", ir::constant_expr(0)}, {"size", own}});
    return e.emit(OpCode::concat, std::vector<ValueId>(static_cast<std::size_t>(ranks), part), {{"dim", std::int64_t{0}}});
  });
}
void rope_forward_sign(Editor& e, const std::string& at) {
  e.use(at, 2, e.value("rope.minus_sin"));
}
void rope_cos_for_sin(Editor& e, const std::string& at) {
  e.use(at, 2, e.value("rope.cos"));
}

// Heads of a group counted before groups: the mapping of query heads to key heads that tiles instead of repeating.
void group_order(Editor& e, const std::string& at) {
  const ir::Shape shape = e.type(e.value(at)).shape;
  if (shape.size() != 5 || shape[2] != shape[3] || shape[2] == 1) throw NotApplicable();
  const ValueId heads = e.displace(at);
  e.define(at, OpCode::transpose, {heads}, {{"perm", Ints{0, 1, 3, 2, 4}}});
}

// Key and value parts of the fused projection exchanged.
void keys_for_values(Editor& e, const std::string& at) {
  const std::string other = sibling(at, at.ends_with("_flat") ? "v_flat" : "v");
  if (e.at(at).op != OpCode::slice || e.at(other).op != OpCode::slice) throw NotApplicable();
  const ir::AttrValue key_start = *e.at(at).attributes.find("start");
  const ir::AttrValue value_start = *e.at(other).attributes.find("start");
  e.set(at, "start", value_start);
  e.set(other, "start", key_start);
}

void alternate_gate_up(Editor& e, const std::string& at) {
  const std::string up = sibling(at, "up");
  if (e.at(at).op != OpCode::slice || e.at(up).op != OpCode::slice) throw NotApplicable();
  e.set(at, "stride", std::int64_t{2});
  e.set(up, "start", ir::constant_expr(1));
  e.set(up, "stride", std::int64_t{2});
}

Edit shift_start(std::int64_t by) {
  return [by](Editor& e, const std::string& at) {
    if (e.at(at).op != OpCode::slice) throw NotApplicable();
    const auto start = e.at(at).attributes.get<ir::CoordExpr>("start");
    e.set(at, "start", start + ir::constant_expr(by));
  };
}

// Bias on every rank before the sum, so counted once per rank.
void bias_before_sum(Editor& e, const std::string& at) {
  const std::string sum = sibling(at, "proj_sum");
  const ValueId bias = e.at(at).inputs.at(1);
  const ValueId partial = e.at(sum).inputs.at(0);
  // The bias row is spread after the sum in the plan; spread it again before.
  const ir::Instruction spread = e.at(e.name(bias));
  e.before(sum);
  const ValueId early = e.emit(spread.op, spread.inputs, {{"shape", *spread.attributes.find("shape")}, {"dims", *spread.attributes.find("dims")}});
  e.use(sum, 0, e.emit(OpCode::add, {partial, early}));
  e.become_operand(at, 0);
}

Edit scaled(Rational factor) {
  return [factor](Editor& e, const std::string& at) { e.scale(at, factor); };
}

Kinds attention() {
  return {
      at_names("causal_mask_missing", "l*.attn.masked_scores", operand(1)),
      at_names("causal_mask_strict", "attention.causal", direction("gt")),
      at_names("causal_mask_shows_next", "attention.causal", mask_shows_next),
      at_names("causal_mask_transposed", "attention.causal", direction("le")),
      at_names("rope_position_off_by_one", "l*.attn.q_rope", rope_next_position),
      at_names("rope_position_local", "l*.attn.q_rope", rope_local_position),
      at_names("rope_forward_sign_queries", "l*.attn.q_rope", rope_forward_sign),
      at_names("rope_forward_sign_keys", "l*.attn.k_rope", rope_forward_sign),
      at_names("rope_backward_sign", "rope.minus_sin", operand(0)),
      at_names("rope_missing_on_keys", "l*.attn.k_rope", operand(0)),
      at_names("rope_cos_for_sin", "l*.attn.q_rope", rope_cos_for_sin),
      at_names("rope_positions_scaled", "rope.position_f32", scaled(2)),
      at_names("softmax_scale_missing", "l*.attn.scores", operand(0)),
      at_names("softmax_scale_not_root", "attention.scale", with_op(OpCode::reciprocal)),
      at_names("softmax_scale_of_hidden", "attention.scale", another_constant(0, 64)),
      at_names("softmax_wrong_dim", "l*.attn.probabilities",
               [](Editor& e, const std::string& at) { e.set(at, "dim", std::int64_t{3}); }),
      at_names("attention_gradient_scale_missing", "l*.attn.d_products_f32",
               [](Editor& e, const std::string& at) {
                 const std::vector<ValueId> in = e.at(at).inputs;
                 e.redefine(at, OpCode::mul, {in.at(0), in.at(1)});
               }),
      at_names("softmax_gradient_row_sum_missing", "l*.attn.d_centred", operand(0)),
      at_names("value_gradient_from_products", "l*.attn.d_k", use_sibling(0, "weights")),
      at_names("query_group_order", "l*.attn.q_grouped", group_order),
      at_names("keys_and_values_exchanged", "l*.attn.k", keys_for_values),
      at_names("keys_and_values_exchanged_strided", "l*.attn.k_flat", keys_for_values),
      at_names("fused_query_offset", "l*.attn.q_flat", shift_start(1)),
      at_names("fused_value_offset", "l*.attn.v", shift_start(-1)),
      at_names("fused_gradient_order", "l*.attn.d_qkv_grouped",
               [](Editor& e, const std::string& at) {
                 ir::Instruction& i = e.at(at);
                 if (i.inputs.size() != 3 || e.type(i.inputs[1]) != e.type(i.inputs[2])) throw NotApplicable();
                 std::swap(i.inputs[1], i.inputs[2]);
                 e.touch(at);
               }),
  };
}

Kinds norms() {
  return {
      at_names("norm_eps", "*norm*.square_eps", another_constant(1, Rational(1, 1000000))),
      at_names("norm_eps_missing", "*norm*.square_eps", operand(0)),
      at_names("norm_mean_of_shard", "*norm*.square_mean", another_constant(1, Rational(1, 16))),
      at_names("norm_sqrt_for_rsqrt", "*norm*.scale", with_op(OpCode::sqrt)),
      at_names("norm_weight_missing", "*norm*.weighted", operand(0)),
      at_names("norm_mean_not_subtracted", "*norm*.centred", operand(0)),
      at_names("norm_bias_missing", "*norm*.y_f32", operand(0)),
      at_names("norm_gradient_radial_missing", "*norm*.across", operand(0)),
      at_names("norm_gradient_radial_sign", "*norm*.across", swap_first_two),
      at_names("norm_gradient_radial_divisor", "*norm*.radial", another_constant(1, Rational(1, 16))),
      at_names("norm_gradient_mean_missing", "*norm*.d_centred",
               [](Editor& e, const std::string& at) {
                 if (at.find("norm") == std::string::npos) throw NotApplicable();
                 e.become_operand(at, 0);
               }),
      at_names("norm_weight_gradient_of_input", "*norm*.d_weight", use_sibling(1, "x_f32")),
      at_names("norm_gradient_weight_missing", "*norm*.d_normalised", operand(0)),
      at_names("residual_missing", "l*.*.residual", operand(1)),
      at_names("branch_missing", "l*.*.residual", operand(0)),
      at_names("residual_doubled", "l*.*.residual", first_operand_twice),
      at_names("gradient_residual_missing", "l*.d_residual", operand(1)),
      at_names("gradient_branch_missing", "l*.d_residual", operand(0)),
  };
}

Kinds feed_forward() {
  return {
      at_names("gate_and_up_exchanged", "l*.mlp.activated", swap_first_two),
      at_names("gate_and_up_alternate", "l*.mlp.gate", alternate_gate_up),
      at_names("gate_gradient_order", "l*.mlp.d_gate_up", swap_first_two),
      at_names("up_gradient_of_gate", "l*.mlp.d_up", use_sibling(1, "gate")),
      at_names("silu_slope_incomplete", "l*.mlp.silu_slope", operand(0)),
      at_names("silu_slope_sign", "l*.mlp.one_minus_sigmoid", operand(1)),
      at_names("gelu_slope_incomplete", "l*.mlp.gelu_slope_twice",
               [](Editor& e, const std::string& at) {
                 const std::vector<ValueId> in = e.at(at).inputs;
                 e.redefine(at, OpCode::add, {in.at(0), in.at(1)});
               }),
      at_names("gelu_other_form", "l*.mlp.activated",
               [](Editor& e, const std::string& at) {
                 if (e.at(at).op != OpCode::gelu_tanh) throw NotApplicable();
                 e.redefine(at, OpCode::gelu_erf, e.at(at).inputs);
               }),
      at_names("gelu_half_missing", "l*.mlp.d_fc_f32",
               [](Editor& e, const std::string& at) {
                 const std::vector<ValueId> in = e.at(at).inputs;
                 e.redefine(at, OpCode::mul, {in.at(0), in.at(1)});
               }),
      at_names("bias_missing", "l*.out", [](Editor& e, const std::string& at) {
                 if (e.at(at).op != OpCode::add) throw NotApplicable();
                 e.become_operand(at, 0);
               }),
      at_names("column_bias_missing", "l*.mlp.fc", operand(0)),
      at_names("fused_bias_missing", "l*.attn.qkv",
               [](Editor& e, const std::string& at) {
                 if (e.at(at).op != OpCode::add) throw NotApplicable();
                 e.become_operand(at, 0);
               }),
      at_names("bias_before_reduction", "l*.out",
               [](Editor& e, const std::string& at) {
                 if (e.at(at).op != OpCode::add) throw NotApplicable();
                 bias_before_sum(e, at);
               }),
      at_names("position_embedding_offset", "embed.positions", shift_start(1)),
      at_names("position_embedding_missing", "embed.embedded", operand(0)),
      at_names("einsum_transposed_gradient", "l*.attn.d_q",
               [](Editor& e, const std::string& at) { e.set(at, "spec", std::string("bgrts,btgd->bsgrd")); }),
  };
}

// By operation alone, wherever it occurs.
Kinds anywhere() {
  const auto is = [](OpCode op) {
    return [op](const Subject&, const Subject::Entry& e) { return e.instruction->op == op; };
  };
  return {
      at_instructions("swapped_subtraction", is(OpCode::sub), swap_first_two),
      at_instructions("swapped_division", is(OpCode::div), swap_first_two),
      at_instructions("cosine_for_sine", is(OpCode::sin), with_op(OpCode::cos)),
  };
}

}  // namespace

Kinds layer_kinds() {
  Kinds all = attention();
  for (Kinds& part : std::vector<Kinds>{norms(), feed_forward(), anywhere()})
    for (Kind& kind : part) all.push_back(std::move(kind));
  return all;
}

}  // namespace shardproof::mutations

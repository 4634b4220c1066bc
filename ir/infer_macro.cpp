// Type rules of macro ops. The tensors of one macro have one float dtype: a mixed computation casts explicitly,
// so that the unfolding inserts no conversion the plan does not show.
#include "ir/check.h"
#include "ir/infer_rules.h"

namespace shardproof::ir {
namespace {

// x [.., n] and its per-feature parameters [n].
Types infer_norm(const RuleInput& rule) {
  const TensorType& x = rule.operand(0);
  require_float(x, "x");
  if (x.shape.empty()) fail("x of rank 1 or more", to_string(x));
  for (std::size_t i = 1; i < rule.operands.size(); ++i) {
    const std::string what = i == 1 ? "weight" : "bias";
    require_dtype(rule.operand(i), x.dtype, what);
    require_shape(rule.operand(i), {x.shape.back()}, what);
  }
  if (sign(rule.instruction.attributes.get<Rational>("eps")) < 0) {
    fail("`eps` of at least 0", to_string(rule.instruction.attributes.get<Rational>("eps")));
  }
  return {x};
}

Types infer_rope(const RuleInput& rule) {
  const TensorType& x = rule.operand(0);
  require_float(x, "x");
  require_rank(x, 4, "x [b, s, h, d]");
  if (x.shape[3] % 2 != 0) fail("x with an even last dimension", to_string(x));
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    const std::string what = i == 1 ? "cos" : "sin";
    require_dtype(rule.operand(i), x.dtype, what);
    require_shape(rule.operand(i), {x.shape[1], x.shape[3] / 2}, what);
  }
  return {x};
}

Types infer_attention(const RuleInput& rule) {
  const TensorType& q = rule.operand(0);
  const TensorType& k = rule.operand(1);
  const TensorType& v = rule.operand(2);
  require_float(q, "q");
  require_dtype(k, q.dtype, "k");
  require_dtype(v, q.dtype, "v");
  require_rank(q, 4, "q [b, s, h, d]");
  require_rank(k, 4, "k [b, t, g, d]");
  require_rank(v, 4, "v [b, t, g, e]");
  if (k.shape[0] != q.shape[0] || k.shape[3] != q.shape[3]) {
    fail("k with the batch and head size of q", to_string(k) + " for " + to_string(q));
  }
  require_shape(v, {k.shape[0], k.shape[1], k.shape[2], v.shape[3]}, "v");
  if (q.shape[2] % k.shape[2] != 0) {
    fail("a number of query heads that the key heads divide",
         std::to_string(q.shape[2]) + " and " + std::to_string(k.shape[2]));
  }
  // With a causal mask, row i sees columns 0..i of the same sequence. Shifted masks (context parallelism, caches)
  // are written in core ops, where the shift shows.
  if (rule.instruction.attributes.get<bool>("causal") && q.shape[1] != k.shape[1]) {
    fail("q and k of one sequence length under a causal mask", to_string(q) + " and " + to_string(k));
  }
  return {{q.dtype, {q.shape[0], q.shape[1], q.shape[2], v.shape[3]}}};
}

Types infer_cross_entropy(const RuleInput& rule) {
  const TensorType& logits = rule.operand(0);
  const TensorType& labels = rule.operand(1);
  require_float(logits, "logits");
  require_integer(labels, "labels");
  if (logits.shape.empty()) fail("logits of rank 1 or more", to_string(logits));
  require_shape(labels, {logits.shape.begin(), logits.shape.end() - 1}, "labels");
  return {{logits.dtype, labels.shape}};
}

// Moments have the shape of the parameter; step and lr are scalars, lr of any float dtype as it is an input of
// the training step and not of the model.
Types infer_adamw(const RuleInput& rule) {
  const TensorType& param = rule.operand(0);
  require_float(param, "param");
  const char* const names[] = {"param", "grad", "exp_avg", "exp_avg_sq"};
  for (std::size_t i = 1; i < 4; ++i) {
    require_dtype(rule.operand(i), param.dtype, names[i]);
    require_shape(rule.operand(i), param.shape, names[i]);
  }
  require_integer(rule.operand(4), "step");
  require_shape(rule.operand(4), {}, "step");
  require_float(rule.operand(5), "lr");
  require_shape(rule.operand(5), {}, "lr");
  return {param, param, param};
}

}  // namespace

Types infer_macro(const RuleInput& rule) {
  switch (rule.instruction.op) {
    case OpCode::softmax:
    case OpCode::log_softmax:
      require_float(rule.operand(0), "operand");
      dimension(rule, "dim", rule.operand(0).shape);
      return {rule.operand(0)};
    case OpCode::silu:
    case OpCode::gelu_tanh:
    case OpCode::gelu_erf: require_float(rule.operand(0), "operand"); return {rule.operand(0)};
    case OpCode::swiglu:
      require_float(rule.operand(0), "gate");
      require_dtype(rule.operand(1), rule.operand(0).dtype, "up");
      require_same_shape(rule.operand(0), rule.operand(1), "gate and up");
      return {rule.operand(0)};
    case OpCode::rms_norm:
    case OpCode::layer_norm: return infer_norm(rule);
    case OpCode::rope: return infer_rope(rule);
    case OpCode::attention: return infer_attention(rule);
    case OpCode::cross_entropy: return infer_cross_entropy(rule);
    case OpCode::adamw: return infer_adamw(rule);
    default: break;
  }
  SHARDPROOF_CHECK(false);
  return {};
}

}  // namespace shardproof::ir

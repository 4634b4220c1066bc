// Global-norm clipping (torch.nn.utils.clip_grad_norm_, Megatron-LM clip_grads) and AdamW.
#include "lowering/emit.h"
#include "lowering/reference_parts.h"

namespace shardproof::lowering {
namespace {

using ir::OpCode;
using ir::Rational;
using ir::ValueId;

// norm = sqrt of the sum over all parameters of sum g^2. A tied parameter is one parameter: counted once.
ValueId global_norm(ir::Builder& b, const std::vector<OptimizerSlot>& slots) {
  std::vector<ValueId> squares;
  for (const OptimizerSlot& slot : slots) {
    const ValueId square = emit_mul(b, {slot.grad, slot.grad}, slot.info.name + ".grad.square");
    squares.push_back(emit_reduce(b, OpCode::reduce_sum, square, all_dims(slot.info.shape.size()),
                                  slot.info.name + ".grad.square_sum"));
  }
  return emit_unary(b, OpCode::sqrt, emit_add(b, std::move(squares), "grad_square_sum"), "grad_norm");
}

// min(1, clip / (norm + 1e-6)).
ValueId clip_coefficient(ir::Builder& b, ValueId norm, Rational clip) {
  const ValueId safe_norm = emit_shifted(b, norm, Rational(1, 1000000));
  const ValueId ratio = b.op(OpCode::div, {emit_constant_like(b, norm, clip), safe_norm}, {}, "clip_ratio");
  return b.op(OpCode::min, {emit_constant_like(b, norm, Rational(1)), ratio}, {}, "clip_coefficient");
}

}  // namespace

bool has_weight_decay(const ParameterInfo& parameter) {
  return parameter.shape.size() > 1;
}

ValueId append_optimizer(ir::Builder& b, const TrainingConfig& training, ValueId step, ValueId lr,
                         std::vector<OptimizerSlot>& slots) {
  b.set_source("optimizer.clip_grad_norm");
  const ValueId norm = global_norm(b, slots);
  ValueId coefficient;
  if (!training.clip_grad.is_zero()) coefficient = clip_coefficient(b, norm, training.clip_grad);
  for (OptimizerSlot& slot : slots) {
    const std::string& name = slot.info.name;
    b.set_source("optimizer " + name);
    ValueId grad = slot.grad;
    if (coefficient.valid()) {
      grad = emit_mul(b, {grad, emit_broadcast(b, coefficient, slot.info.shape, {})}, name + ".grad.clipped");
    }
    const Rational decay = has_weight_decay(slot.info) ? training.weight_decay : Rational(0);
    const std::vector<ValueId> next =
        b.multi(OpCode::adamw, {slot.param, grad, slot.exp_avg, slot.exp_avg_sq, step, lr},
                {{"beta1", training.adam_beta1},
                 {"beta2", training.adam_beta2},
                 {"eps", training.adam_eps},
                 {"weight_decay", decay}},
                {name + ".next", name + ".exp_avg.next", name + ".exp_avg_sq.next"});
    slot.next_param = next[0];
    slot.next_exp_avg = next[1];
    slot.next_exp_avg_sq = next[2];
  }
  return norm;
}

}  // namespace shardproof::lowering

#include "lowering/build_reference.h"

#include "ir/check.h"
#include "lowering/differentiate.h"
#include "lowering/emit.h"
#include "lowering/reference_parts.h"

namespace shardproof::lowering {
namespace {

using ir::DType;
using ir::OpCode;
using ir::Rational;
using ir::ValueId;

struct Batch {
  ValueId tokens;
  ValueId labels;
  ValueId loss_mask;
  ValueId lr;
};

Batch add_inputs(ir::Builder& b, ir::Reference& reference, const ModelConfig& model, const ir::Shape& shape) {
  Batch batch;
  batch.tokens = b.input("tokens", {DType::i32, shape});
  batch.labels = b.input("labels", {DType::i32, shape});
  batch.loss_mask = b.input("loss_mask", {DType::f32, shape});
  batch.lr = b.input("lr", {DType::f32, {}});
  reference.inputs = {{batch.tokens, model.vocab_size, {}},
                      {batch.labels, model.vocab_size, {}},
                      {batch.loss_mask, 0, {}},
                      {batch.lr, 0, {}}};
  return batch;
}

std::vector<OptimizerSlot> add_parameters(ir::Builder& b, const ModelConfig& model) {
  std::vector<OptimizerSlot> slots;
  for (ParameterInfo& info : list_parameters(model)) {
    const ir::TensorType type{DType::f32, info.shape};
    OptimizerSlot slot;
    slot.param = b.input(info.name, type);
    slot.exp_avg = b.input(info.name + ".exp_avg", type);
    slot.exp_avg_sq = b.input(info.name + ".exp_avg_sq", type);
    slot.info = std::move(info);
    slots.push_back(std::move(slot));
  }
  return slots;
}

// loss = sum(mask * ce) / sum(mask): the mean over the tokens that count in the whole batch.
ValueId append_loss(ir::Builder& b, ValueId logits, const Batch& batch) {
  b.set_source("loss");
  const ValueId ce = b.op(OpCode::cross_entropy, {logits, batch.labels}, {}, "token_loss");
  const ValueId masked = emit_mul(b, {ce, batch.loss_mask}, "masked_loss");
  const ValueId total = emit_reduce(b, OpCode::reduce_sum, masked, {0, 1}, "loss_sum");
  const ValueId count = emit_reduce(b, OpCode::reduce_sum, batch.loss_mask, {0, 1}, "token_count");
  return b.op(OpCode::div, {total, count}, {}, "loss");
}

void add_state(ir::Reference& reference, const std::vector<OptimizerSlot>& slots, ValueId step, ValueId next_step) {
  for (const OptimizerSlot& slot : slots) {
    const std::string& name = slot.info.name;
    reference.state.push_back({name, slot.param, slot.next_param, "param", "", {}});
    reference.state.push_back({name + ".exp_avg", slot.exp_avg, slot.next_exp_avg, "exp_avg", name, {}});
    reference.state.push_back({name + ".exp_avg_sq", slot.exp_avg_sq, slot.next_exp_avg_sq, "exp_avg_sq", name, {}});
  }
  reference.state.push_back({"step", step, next_step, "step", "", {}});
}

}  // namespace

ValueId ForwardInputs::parameter(const std::string& name) const {
  const auto found = parameters.find(name);
  SHARDPROOF_CHECK(found != parameters.end());
  return found->second;
}

std::vector<ParameterInfo> list_parameters(const ModelConfig& model) {
  return model.family == ModelFamily::llama ? list_llama_parameters(model) : list_gpt2_parameters(model);
}

ir::Reference build_reference(const ModelConfig& model, const TrainingConfig& training, std::int64_t global_batch,
                              std::int64_t seq_length) {
  ir::Reference reference;
  ir::Builder b(reference.program);
  const Batch batch = add_inputs(b, reference, model, {global_batch, seq_length});
  std::vector<OptimizerSlot> slots = add_parameters(b, model);
  const ValueId step = b.input("step", {DType::i64, {}});

  std::unordered_map<std::string, ValueId> parameters;
  std::vector<ValueId> wrt;
  for (const OptimizerSlot& slot : slots) {
    parameters.emplace(slot.info.name, slot.param);
    wrt.push_back(slot.param);
  }
  const ForwardInputs inputs{model, parameters, batch.tokens};
  const ValueId logits =
      model.family == ModelFamily::llama ? append_llama_forward(b, inputs) : append_gpt2_forward(b, inputs);
  const ValueId loss = append_loss(b, logits, batch);

  const std::size_t forward_end = reference.program.body.size();
  const ValueId seed = emit_constant_like(b, loss, Rational(1));
  const std::vector<ValueId> grads = append_backward(b, InstructionRange{0, forward_end}, {{loss, seed}}, wrt);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    SHARDPROOF_CHECK(grads[i].valid());  // every parameter takes part in the forward
    slots[i].grad = grads[i];
  }

  b.set_source("optimizer");
  const ValueId next_step = emit_shifted(b, step, Rational(1), "step.next");
  const ValueId norm = append_optimizer(b, training, next_step, batch.lr, slots);
  add_state(reference, slots, step, next_step);
  reference.outputs = {{"loss", loss, {}}, {"grad_norm", norm, {}}};
  return reference;
}

}  // namespace shardproof::lowering

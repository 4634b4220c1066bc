// Macro ops by LibTorch's own functions, or written out from their papers where LibTorch 1.13 has none.
#include <cmath>

#include <ATen/ATen.h>

#include "runtime/torch_kernels.h"

namespace shardproof::runtime {

namespace {

const at::Tensor& operand(const KernelCall& call, std::size_t i) {
  return std::any_cast<const at::Tensor&>(call.operands[i].storage);
}

double number(const KernelCall& call, std::string_view name) {
  const ir::Rational value = call.instruction.attributes.get<ir::Rational>(name);
  return static_cast<double>(value.num) / static_cast<double>(value.den);
}

at::Tensor rms_norm(const KernelCall& call) {
  const at::Tensor& x = operand(call, 0);
  const at::Tensor mean_square = x.square().mean({-1}, /*keepdim=*/true);
  return x / at::sqrt(mean_square + number(call, "eps")) * operand(call, 1);
}

// Rotate-half convention (GPT-NeoX, Llama in Hugging Face): the pair of feature i is i + d/2.
at::Tensor rope(const KernelCall& call) {
  const at::Tensor& x = operand(call, 0);
  const at::Tensor cos = operand(call, 1).unsqueeze(1);  // [s, 1, d/2]
  const at::Tensor sin = operand(call, 2).unsqueeze(1);
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor first = x.narrow(-1, 0, half);
  const at::Tensor second = x.narrow(-1, half, half);
  return at::cat({first * cos - second * sin, second * cos + first * sin}, -1);
}

// q [b,s,h,d], k and v [b,t,g,d]: query head i uses key head i / (h/g).
at::Tensor attention(const KernelCall& call) {
  const at::Tensor q = operand(call, 0).transpose(1, 2);
  const std::int64_t heads = q.size(1);
  const std::int64_t groups = operand(call, 1).size(2);
  if (heads % groups != 0) throw ExecutionError("key heads do not divide query heads");
  const at::Tensor k = operand(call, 1).transpose(1, 2).repeat_interleave(heads / groups, 1);
  const at::Tensor v = operand(call, 2).transpose(1, 2).repeat_interleave(heads / groups, 1);
  const ir::Attributes& attributes = call.instruction.attributes;
  const double scale =
      attributes.has("scale") ? number(call, "scale") : 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
  at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) * scale;
  if (attributes.get_or<bool>("causal", false)) {
    const at::Tensor hidden = at::ones({q.size(2), k.size(2)}, at::TensorOptions(at::kBool)).triu(1);
    scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }
  return at::matmul(at::softmax(scores, -1), v).transpose(1, 2);
}

at::Tensor cross_entropy(const KernelCall& call) {
  const at::Tensor& logits = operand(call, 0);
  const at::Tensor& labels = operand(call, 1);
  const at::Tensor losses = at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}), labels.reshape({-1}), {},
                                                   at::Reduction::None, /*ignore_index=*/-1);
  return losses.reshape(labels.sizes());
}

// Loshchilov and Hutter, Decoupled Weight Decay Regularization, algorithm 2; `step` is that of this update, from 1.
std::vector<Array> adamw(const KernelCall& call) {
  const at::Tensor& grad = operand(call, 1);
  const at::Tensor step = operand(call, 4).to(at::kDouble);
  const at::Tensor& lr = operand(call, 5);
  const double beta1 = number(call, "beta1");
  const double beta2 = number(call, "beta2");
  const at::Tensor m = beta1 * operand(call, 2) + (1.0 - beta1) * grad;
  const at::Tensor v = beta2 * operand(call, 3) + (1.0 - beta2) * grad * grad;
  const at::Tensor m_hat = m / (1.0 - at::pow(beta1, step));
  const at::Tensor v_hat = v / (1.0 - at::pow(beta2, step));
  const at::Tensor decayed = operand(call, 0) * (1.0 - lr * number(call, "weight_decay"));
  return {Array{decayed - lr * m_hat / (at::sqrt(v_hat) + number(call, "eps"))}, Array{m}, Array{v}};
}

}  // namespace

KernelResults run_macro_kernel(const KernelCall& call) {
  const ir::Attributes& attributes = call.instruction.attributes;
  const auto one = [](at::Tensor tensor) { return std::vector<Array>{Array{std::move(tensor)}}; };
  const auto dim = [&] { return attributes.get<std::int64_t>("dim"); };
  switch (call.instruction.op) {
    case ir::OpCode::softmax:
      return one(at::softmax(operand(call, 0), dim()));
    case ir::OpCode::log_softmax:
      return one(at::log_softmax(operand(call, 0), dim()));
    case ir::OpCode::silu:
      return one(at::silu(operand(call, 0)));
    case ir::OpCode::gelu_tanh:
      return one(at::gelu(operand(call, 0), "tanh"));
    case ir::OpCode::gelu_erf:
      return one(at::gelu(operand(call, 0), "none"));
    case ir::OpCode::swiglu:
      return one(at::silu(operand(call, 0)) * operand(call, 1));
    case ir::OpCode::rms_norm:
      return one(rms_norm(call));
    case ir::OpCode::layer_norm: {
      const at::Tensor& x = operand(call, 0);
      return one(at::layer_norm(x, {x.size(-1)}, operand(call, 1), operand(call, 2), number(call, "eps")));
    }
    case ir::OpCode::rope:
      return one(rope(call));
    case ir::OpCode::attention:
      return one(attention(call));
    case ir::OpCode::cross_entropy:
      return one(cross_entropy(call));
    case ir::OpCode::adamw:
      return adamw(call);
    default:
      return std::nullopt;
  }
}

}  // namespace shardproof::runtime

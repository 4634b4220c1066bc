// Order as in Megatron-LM's finalize_model_grads and distributed optimizer: gradients are completed over tensor
// parallel ranks, packed in buckets, summed over data parallel ranks (each keeps its shard), divided by the number of
// tokens, clipped by the global norm, and applied to the f32 shard; the new weights are cast and gathered.
#include "lowering/plan_optimizer.h"

#include <map>
#include <utility>

#include "lowering/plan_gradients.h"

namespace shardproof::lowering {

namespace {

using ir::DType;
using ir::Rational;

class OptimizerWriter {
 public:
  OptimizerWriter(PlanWriter& writer, const TrainingConfig& training, const std::vector<PlanBucket>& buckets)
      : writer_(writer), degrees_(writer.degrees()), training_(training), buckets_(buckets) {}

  OptimizerOutputs write(const OptimizerInputs& inputs, std::vector<OptimizerTensor>& tensors) {
    OptimizerOutputs outputs;
    loss(inputs, outputs);
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      ValueId sum = inputs.sums.empty() ? reduce_bucket(writer_, buckets_[i], inputs.gradients) : inputs.sums[i];
      average(buckets_[i], sum);
    }
    norm_and_clip(outputs);
    update_from(inputs, outputs);
    if (degrees_.distributed_optimizer) {
      for (std::size_t i = 0; i < buckets_.size(); ++i) sharded_update(i, tensors.at(i), outputs);
    } else {
      for (std::size_t i = 0; i < buckets_.size(); ++i) replicated_update(i, tensors, outputs);
    }
    return outputs;
  }

 private:
  // The last stage has the loss; all stages need the number of tokens.
  void loss(const OptimizerInputs& inputs, OptimizerOutputs& outputs) {
    writer_.at("loss", "reduction", "loss");
    std::vector<std::string> axes = degrees_.data_axes();
    ValueId own_tokens = inputs.tokens;
    if (!own_tokens.valid()) own_tokens = writer_.constant(0, DType::f32, {});
    if (degrees_.pp > 1) axes.insert(axes.begin(), "pp");
    const ValueId tokens = writer_.all_reduce(own_tokens, axes, "sum", "tokens");
    if (inputs.loss_sum.valid()) {
      axes = degrees_.data_axes();
      if (!inputs.loss_ranks.empty()) axes.insert(axes.begin(), inputs.loss_ranks);
      outputs.loss = writer_.op(OpCode::div, {writer_.all_reduce(inputs.loss_sum, axes, "sum", "total"), tokens}, "mean");
    }
    ValueId divisor = tokens;
    if (degrees_.loss_scale != 1) {
      divisor = writer_.mul({tokens, writer_.constant(degrees_.loss_scale, DType::f32, {})}, "scaled_tokens");
    }
    per_token_ = writer_.op(OpCode::reciprocal, {divisor}, "per_token");
  }

  // The bucket's sum over data parallel ranks, over pipeline ranks that use the same parameters, and per token.
  void average(const PlanBucket& bucket, ValueId sum) {
    writer_.at(bucket.name, "gradient reduction", bucket.name);
    if (!bucket.replicas.empty()) sum = writer_.all_reduce(sum, {bucket.replicas}, "sum", "grad_replicas");
    const ValueId mean = writer_.mul({sum, writer_.spread(per_token_, writer_.shape(sum))}, "grad");
    bucket_gradients_.push_back(mean);
    if (bucket.is_first_replica) squares_.push_back(square_sum(bucket, mean));
  }

  // Copies are counted on the first rank that holds them.
  ValueId square_sum(const PlanBucket& bucket, ValueId gradient) {
    std::vector<std::pair<ValueId, std::int64_t>> counted;
    bool all = true;
    for (const PlanRun& run : bucket_runs(bucket, writer_.table())) {
      all = all && !is_copied(run.copies);
      counted.emplace_back(counted_here(run.copies), run.size);
    }
    if (all) return writer_.einsum("i,i->", {gradient, gradient}, "square_sum");
    return writer_.einsum("i,i,i->", {gradient, gradient, piecewise(counted, "counted")}, "square_sum");
  }

  bool is_copied(ParameterCopies copies) const { return copies != ParameterCopies::none && degrees_.tp > 1; }

  // 1 on the rank that counts, 0 on those that hold another copy.
  ValueId counted_here(ParameterCopies copies) {
    const ValueId one = writer_.constant(1, DType::f32, {});
    if (!is_copied(copies)) return one;
    ValueId& flag = copies == ParameterCopies::all ? first_of_tp_ : first_replica_;
    if (!flag.valid()) {
      const ValueId position =
          writer_.coordinate(copies == ParameterCopies::all ? degrees_.tp_coordinate() : ir::variable_expr("tpr"));
      const ValueId first = writer_.compare(position, writer_.constant(0, DType::i64, {}), "eq", "is_first");
      flag = writer_.select(first, one, writer_.constant(0, DType::f32, {}), "counted_here");
    }
    return flag;
  }

  // The rank's part of a bucket-sized vector that is constant on each run; equal ones are shared by buckets.
  ValueId piecewise(const std::vector<std::pair<ValueId, std::int64_t>>& runs, const std::string& name) {
    ValueId& known = piecewise_[runs];
    if (known.valid()) return known;
    Values pieces;
    std::int64_t size = 0;
    for (const auto& [value, length] : runs) {
      pieces.push_back(writer_.spread(value, {length}));
      size += length;
    }
    known = own_shard(writer_.concat(std::move(pieces), 0, name + "_all"), size, name);
    return known;
  }

  ValueId own_shard(ValueId whole, std::int64_t size, const std::string& name) {
    if (!degrees_.distributed_optimizer || degrees_.data_size() == 1) return whole;
    const std::int64_t share = size / degrees_.data_size();
    return writer_.slice(whole, 0, share * degrees_.data_coordinate(), share, name);
  }

  void norm_and_clip(OptimizerOutputs& outputs) {
    writer_.at("optimizer", "gradient norm", "grad_norm");
    ValueId own = writer_.constant(0, DType::f32, {});
    if (!squares_.empty()) own = squares_.size() == 1 ? squares_.front() : writer_.add(squares_, "own_square_sum");
    std::vector<std::string> axes = degrees_.tp_axes();
    if (degrees_.distributed_optimizer) {
      const std::vector<std::string> data = degrees_.data_axes();
      axes.insert(axes.begin(), data.begin(), data.end());
    }
    if (degrees_.pp > 1) axes.insert(axes.begin(), "pp");
    outputs.grad_norm = writer_.op(OpCode::sqrt, {writer_.all_reduce(own, axes, "sum", "square_sum")}, "norm");
    if (training_.clip_grad.is_zero()) return;
    const auto number = [&](Rational value) { return writer_.constant(value, DType::f32, {}); };
    const ValueId shifted = writer_.add({outputs.grad_norm, number(Rational(1, 1000000))}, "norm_eps");
    const ValueId ratio = writer_.op(OpCode::div, {number(training_.clip_grad), shifted}, "clip_ratio");
    clip_ = writer_.op(OpCode::min, {number(1), ratio}, "clip");
  }

  void update_from(const OptimizerInputs& inputs, OptimizerOutputs& outputs) {
    writer_.at("optimizer", "step", "optimizer");
    lr_ = inputs.lr;
    outputs.step = writer_.add({inputs.step, writer_.constant(1, DType::i64, {})}, "next_step");
    step_ = outputs.step;
    outputs.weights.resize(writer_.table().all.size());
  }

  ValueId clipped(std::size_t bucket) {
    const ValueId gradient = bucket_gradients_[bucket];
    if (!clip_.valid()) return gradient;
    return writer_.mul({gradient, writer_.spread(clip_, writer_.shape(gradient))}, "grad_clipped");
  }

  // AdamW with one weight decay for the whole tensor.
  void adamw(OptimizerTensor& tensor, ValueId gradient, Rational decay) {
    const Values results = writer_.builder().multi(
        OpCode::adamw, {tensor.param, gradient, tensor.exp_avg, tensor.exp_avg_sq, step_, lr_},
        {{"beta1", training_.adam_beta1},
         {"beta2", training_.adam_beta2},
         {"eps", training_.adam_eps},
         {"weight_decay", decay}},
        {tensor.name + ".next", tensor.name + ".exp_avg.next", tensor.name + ".exp_avg_sq.next"});
    tensor.next_param = results[0];
    tensor.next_exp_avg = results[1];
    tensor.next_exp_avg_sq = results[2];
  }

  // A shard ignores parameter borders. Decay is decoupled, so that where it varies it is subtracted on its own:
  // p - lr wd p - lr u = (p - lr u) - lr wd p.
  void sharded_update(std::size_t index, OptimizerTensor& tensor, OptimizerOutputs& outputs) {
    const PlanBucket& bucket = buckets_[index];
    writer_.at(bucket.name, "update", bucket.name);
    const ValueId gradient = clipped(index);
    bool any = false;
    bool all = true;
    std::vector<std::pair<ValueId, std::int64_t>> decay;
    for (const PlanRun& run : bucket_runs(bucket, writer_.table())) {
      any = any || run.decay;
      all = all && run.decay;
      decay.emplace_back(writer_.constant(run.decay ? training_.weight_decay : Rational(0), DType::f32, {}), run.size);
    }
    adamw(tensor, gradient, all ? training_.weight_decay : Rational(0));
    if (any && !all && !training_.weight_decay.is_zero()) {
      const ValueId rate = writer_.spread(lr_, tensor.shape);
      const ValueId change = writer_.mul({tensor.param, piecewise(decay, "decay"), rate}, "decay_change");
      tensor.next_param = writer_.sub(tensor.next_param, change, "next_decayed");
    }
    const ValueId own = writer_.cast(tensor.next_param, degrees_.compute, "weights_own");
    const ValueId whole = writer_.all_gather(own, degrees_.data_axes(), 0, "weights");
    for (const PlanBucketMember& member : bucket.members) {
      outputs.weights[member.parameter] = unpack(whole, bucket, member, ".next");
    }
  }

  ValueId unpack(ValueId whole, const PlanBucket& bucket, const PlanBucketMember& member, const std::string& suffix) {
    const PlanParameter& parameter = writer_.table().all[member.parameter];
    writer_.at(parameter.name, "unpack from " + bucket.name, "");
    const std::string name = parameter.name + suffix;
    ValueId flat = whole;
    if (member.size != bucket.size) {
      const bool is_flat = parameter.shape.size() == 1;
      flat = writer_.slice(whole, 0, ir::constant_expr(member.offset), member.size, is_flat ? name : name + "_flat");
    }
    return writer_.reshape(flat, parameter.shape, name);
  }

  // Every data parallel rank updates every parameter.
  void replicated_update(std::size_t index, std::vector<OptimizerTensor>& tensors, OptimizerOutputs& outputs) {
    const PlanBucket& bucket = buckets_[index];
    writer_.at(bucket.name, "update", bucket.name);
    const ValueId gradient = clipped(index);
    for (const PlanBucketMember& member : bucket.members) {
      const PlanParameter& parameter = writer_.table().all[member.parameter];
      OptimizerTensor& tensor = tensors.at(member.parameter);
      const ValueId own = unpack(gradient, bucket, member, ".grad_mean");
      writer_.at(parameter.name, "update", "");
      adamw(tensor, own, parameter.decay ? training_.weight_decay : Rational(0));
      outputs.weights[member.parameter] = writer_.cast(tensor.next_param, degrees_.compute, parameter.name + ".next");
    }
  }

  PlanWriter& writer_;
  const PlanDegrees& degrees_;
  const TrainingConfig& training_;
  const std::vector<PlanBucket>& buckets_;
  Values bucket_gradients_;  // per bucket: mean over tokens
  Values squares_;           // per bucket: counted part of the squared norm
  ValueId per_token_, clip_, lr_, step_;
  ValueId first_of_tp_, first_replica_;
  std::map<std::vector<std::pair<ValueId, std::int64_t>>, ValueId> piecewise_;
};

}  // namespace

std::vector<OptimizerTensor> optimizer_tensors(const std::vector<PlanBucket>& buckets, const ParameterTable& table,
                                               const PlanDegrees& degrees) {
  std::vector<OptimizerTensor> tensors;
  if (degrees.distributed_optimizer) {
    for (const PlanBucket& bucket : buckets) {
      OptimizerTensor tensor;
      tensor.name = bucket.name;
      const std::int64_t share = bucket.size / degrees.data_size();
      tensor.shape = {share};
      tensor.binding.buffer = bucket.name;
      ir::DimLayout layout;
      layout.digits = degrees.data_digits();
      layout.digits.push_back({"", 1, share});
      tensor.binding.placement.dims.push_back(std::move(layout));
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }
  for (const PlanParameter& parameter : table.all) {
    OptimizerTensor tensor;
    tensor.name = parameter.name + ".main";
    tensor.shape = parameter.shape;
    tensor.binding = parameter.binding;
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

OptimizerOutputs write_optimizer(PlanWriter& writer, const TrainingConfig& training,
                                 const std::vector<PlanBucket>& buckets, const OptimizerInputs& inputs,
                                 std::vector<OptimizerTensor>& tensors) {
  return OptimizerWriter(writer, training, buckets).write(inputs, tensors);
}

}  // namespace shardproof::lowering

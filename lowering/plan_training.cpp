#include "lowering/plan_training.h"

#include <map>
#include <utility>

#include "lowering/plan_blocks.h"
#include "lowering/plan_buckets.h"
#include "lowering/plan_degrees.h"
#include "lowering/plan_optimizer.h"
#include "lowering/plan_parameters.h"
#include "lowering/plan_writer.h"

namespace shardproof::lowering {

namespace {

using ir::DType;

[[noreturn]] void wrong_reference(const std::string& what, const std::string& expected, const std::string& found) {
  throw PlanError("SP0034", "the reference is not the step of this model and batch: " + what, expected, found,
                  "build the reference from the same model, batch size and sequence length");
}

// The parameters of the plan are those of the reference, and the batch has the size of the degrees.
void check_reference(const ir::Reference& reference, const ParameterTable& table, const PlanDegrees& degrees) {
  std::map<std::string, bool> used;
  for (const ir::ReferenceState& state : reference.state) {
    if (state.role == "param") used.emplace(state.name, false);
  }
  const auto use = [&](const std::string& name) {
    const auto found = used.find(name);
    if (found == used.end()) wrong_reference("a parameter is missing", "parameter `" + name + "`", "none");
    found->second = true;
  };
  for (const PlanParameter& parameter : table.all) {
    if (!parameter.binding.of.empty()) use(parameter.binding.of);
    for (const ir::FusedPart& part : parameter.binding.fused) use(part.of);
  }
  for (const auto& [name, is_used] : used) {
    if (!is_used) wrong_reference("a parameter has no place in the plan", "no such parameter", "`" + name + "`");
  }
  const Shape batch{degrees.microbatches * degrees.dp * degrees.micro_batch, degrees.sequence};
  for (const ir::ReferenceInput& input : reference.inputs) {
    const ir::Value& value = reference.program.value(input.value);
    if (value.type.shape.size() == 2 && value.type.shape != batch) {
      wrong_reference("input `" + value.name + "` has another shape",
                      ir::to_string(ir::TensorType{value.type.dtype, batch}), ir::to_string(value.type));
    }
  }
}

class Planner {
 public:
  Planner(const ModelConfig& model, const TrainingConfig& training, const PlanDegrees& degrees, ParameterTable table)
      : model_(model),
        training_(training),
        degrees_(degrees),
        table_(std::move(table)),
        buckets_(plan_buckets(table_, degrees_)),
        writer_(stage_.program, model_, degrees_, table_) {
    stage_.name = "step";
  }

  ir::StageProgram write() {
    inputs();
    state();
    const LayerShared layers = is_llama() ? llama_shared(writer_) : gpt2_shared(writer_);
    const VocabShared vocab = vocab_shared(writer_);
    for (std::size_t i = 0; i < table_.all.size(); ++i) {
      // Norms compute with f32 weights: one cast serves all microbatches.
      if (table_.all[i].copies == ParameterCopies::all && is_norm(i)) writer_.weight_f32(i);
    }
    OptimizerInputs sums = microbatches(layers, vocab);
    sums.lr = lr_;
    sums.step = step_;
    outputs_ = write_optimizer(writer_, training_, buckets_, sums, tensors_);
    bind_state();
    bind_output("loss", outputs_.loss);
    bind_output("grad_norm", outputs_.grad_norm);
    return std::move(stage_);
  }

  std::vector<ir::FlatBuffer> buffers() const {
    std::vector<ir::FlatBuffer> buffers;
    if (!degrees_.distributed_optimizer) return buffers;
    for (const PlanBucket& bucket : buckets_) buffers.push_back(flat_buffer(bucket, table_));
    return buffers;
  }

 private:
  bool is_llama() const { return model_.family == ModelFamily::llama; }

  bool is_norm(std::size_t parameter) const {
    const auto among = [&](std::initializer_list<std::size_t> indices) {
      for (const std::size_t index : indices) {
        if (index == parameter) return true;
      }
      return false;
    };
    if (among({table_.final_norm, table_.final_norm_bias})) return true;
    for (const BlockParameters& block : table_.blocks) {
      if (among({block.norm1, block.norm1_bias, block.norm2, block.norm2_bias})) return true;
    }
    return false;
  }

  // Dimension 0 as Megatron-LM's sampler hands out samples: microbatch, data parallel rank, sample of the microbatch.
  ValueId batch_input(const std::string& name, DType dtype) {
    ir::DimLayout samples;
    samples.digits = {{"", 1, degrees_.microbatches}, {"dp", 1, degrees_.dp}, {"", 1, degrees_.micro_batch}};
    ir::DimLayout positions;
    if (degrees_.cp > 1) {
      positions.digits = {{"cp", 1, degrees_.cp}, {"", 1, 2}, {"", 1, degrees_.chunk()}};
      positions.permutation = ir::Permutation::zigzag;
    } else {
      positions.digits = {{"", 1, degrees_.sequence}};
    }
    ir::PlanInput input;
    input.binding.of = name;
    input.binding.placement.dims = {std::move(samples), std::move(positions)};
    const Shape shape{degrees_.microbatches * degrees_.micro_batch, degrees_.sequence_own};
    input.value = writer_.builder().input(name, {dtype, shape});
    stage_.inputs.push_back(input);
    return input.value;
  }

  void inputs() {
    tokens_ = batch_input("tokens", DType::i32);
    labels_ = batch_input("labels", DType::i32);
    mask_ = batch_input("loss_mask", DType::f32);
    ir::PlanInput rate;
    rate.binding.of = "lr";
    rate.value = lr_ = writer_.builder().input("lr", {DType::f32, {}});
    stage_.inputs.push_back(rate);
  }

  void state() {
    Values weights;
    for (const PlanParameter& parameter : table_.all) {
      weights.push_back(writer_.builder().input(parameter.name, {degrees_.compute, parameter.shape}));
    }
    writer_.set_weights(std::move(weights));
    tensors_ = optimizer_tensors(buckets_, table_, degrees_);
    for (OptimizerTensor& tensor : tensors_) {
      const ir::TensorType type{DType::f32, tensor.shape};
      tensor.param = writer_.builder().input(tensor.name + ".param", type);
      tensor.exp_avg = writer_.builder().input(tensor.name + ".exp_avg", type);
      tensor.exp_avg_sq = writer_.builder().input(tensor.name + ".exp_avg_sq", type);
    }
    step_ = writer_.builder().input("step", {DType::i64, {}});
  }

  OptimizerInputs microbatches(const LayerShared& layers, const VocabShared& vocab) {
    writer_.at("accumulators", "start", "");
    Values inits;
    std::vector<std::string> names;
    for (const PlanParameter& parameter : table_.all) {
      inits.push_back(writer_.constant(0, DType::f32, parameter.shape));
      names.push_back(parameter.name + ".grad");
    }
    inits.insert(inits.end(), 2, writer_.constant(0, DType::f32, {}));
    names.insert(names.end(), {"loss.sum", "tokens.sum"});
    Values carried = writer_.begin_loop("m", degrees_.microbatches, std::move(inits), std::move(names));
    const ValueId tokens = carried.back();
    carried.pop_back();
    const ValueId loss = carried.back();
    carried.pop_back();
    writer_.set_gradients(std::move(carried));
    const Microbatch sums = microbatch(layers, vocab);
    Values next = writer_.gradients();
    writer_.at("loss", "accumulation", "loss");
    next.push_back(writer_.add({loss, sums.loss}, "sum"));
    next.push_back(writer_.add({tokens, sums.tokens}, "tokens_sum"));
    Values results = writer_.end_loop(std::move(next));
    OptimizerInputs out;
    out.tokens = results.back();
    results.pop_back();
    out.loss_sum = results.back();
    results.pop_back();
    out.gradients = std::move(results);
    return out;
  }

  struct Microbatch {
    ValueId loss;
    ValueId tokens;
  };

  Microbatch microbatch(const LayerShared& shared, const VocabShared& vocab) {
    writer_.at("batch", "forward", "batch");
    const ir::CoordExpr first = ir::variable_expr("m", degrees_.micro_batch);
    const ValueId tokens = writer_.slice(tokens_, 0, first, degrees_.micro_batch, "tokens");
    const ValueId labels = writer_.slice(labels_, 0, first, degrees_.micro_batch, "labels");
    const ValueId mask = writer_.slice(mask_, 0, first, degrees_.micro_batch, "loss_mask");
    Microbatch sums;
    sums.tokens = writer_.reduce_sum(mask, {0, 1}, "token_count");

    const EmbeddingSaved embedding = embedding_forward(writer_, vocab, shared.positions, tokens);
    std::vector<LayerSaved> layers;
    ValueId x = embedding.result;
    for (std::int64_t layer = 0; layer < model_.num_layers; ++layer) {
      layers.push_back(is_llama() ? llama_layer_forward(writer_, shared, layer, x)
                                  : gpt2_layer_forward(writer_, shared, layer, x));
      x = layers.back().result;
    }
    writer_.at("final norm", "forward", "norm");
    const NormSaved norm = is_llama() ? rms_norm_forward(writer_, x, table_.final_norm)
                                      : layer_norm_forward(writer_, x, table_.final_norm, table_.final_norm_bias);
    const LossResult loss = head_and_loss(writer_, vocab, norm.result, labels, mask);
    sums.loss = loss.loss;
    writer_.at("final norm", "backward", "norm");
    ValueId gradient =
        is_llama() ? rms_norm_backward(writer_, norm, loss.gradient, table_.final_norm)
                   : layer_norm_backward(writer_, norm, loss.gradient, table_.final_norm, table_.final_norm_bias);
    for (std::int64_t layer = model_.num_layers; layer-- > 0;) {
      const LayerSaved& saved = layers[static_cast<std::size_t>(layer)];
      gradient = is_llama() ? llama_layer_backward(writer_, shared, layer, saved, gradient)
                            : gpt2_layer_backward(writer_, shared, layer, saved, gradient);
    }
    embedding_backward(writer_, shared.positions, embedding, gradient);
    return sums;
  }

  void add_state(std::string name, ValueId value, ValueId next, ir::Binding binding) {
    ir::PlanState state;
    state.name = std::move(name);
    state.value = value;
    state.next = next;
    state.binding = std::move(binding);
    stage_.state.push_back(std::move(state));
  }

  // `of` names the tensor itself; buffers and fused tensors name parameters and say which state of theirs they hold.
  static ir::Binding with_role(ir::Binding binding, const std::string& role) {
    if (binding.of.empty()) {
      binding.role = role;
    } else if (role != "param") {
      binding.of += "." + role;
    }
    return binding;
  }

  void bind_state() {
    for (std::size_t i = 0; i < table_.all.size(); ++i) {
      add_state(table_.all[i].name, writer_.weight(i), outputs_.weights[i], table_.all[i].binding);
    }
    for (const OptimizerTensor& tensor : tensors_) {
      add_state(tensor.name + ".param", tensor.param, tensor.next_param, with_role(tensor.binding, "param"));
      add_state(tensor.name + ".exp_avg", tensor.exp_avg, tensor.next_exp_avg, with_role(tensor.binding, "exp_avg"));
      add_state(tensor.name + ".exp_avg_sq", tensor.exp_avg_sq, tensor.next_exp_avg_sq,
                with_role(tensor.binding, "exp_avg_sq"));
    }
    ir::Binding step;
    step.of = "step";
    add_state("step", step_, outputs_.step, std::move(step));
  }

  void bind_output(const std::string& name, ValueId value) {
    ir::PlanOutput output;
    output.name = name;
    output.value = value;
    output.binding.of = name;
    stage_.outputs.push_back(std::move(output));
  }

  const ModelConfig& model_;
  const TrainingConfig& training_;
  const PlanDegrees degrees_;
  const ParameterTable table_;
  const std::vector<PlanBucket> buckets_;
  ir::StageProgram stage_;
  PlanWriter writer_;
  ValueId tokens_, labels_, mask_, lr_, step_;
  std::vector<OptimizerTensor> tensors_;
  OptimizerOutputs outputs_;
};

// Weights are saved once, whole; optimizer state as the ranks hold it.
std::vector<ir::CheckpointEntry> checkpoint(const ir::StageProgram& stage, std::size_t weights) {
  std::vector<ir::CheckpointEntry> entries;
  for (std::size_t i = 0; i < stage.state.size(); ++i) {
    const bool is_weight = i < weights;
    const std::string& name = stage.state[i].name;
    entries.push_back({(is_weight ? "model." : "optimizer.") + name, name, is_weight ? "model" : "optimizer", {}});
  }
  return entries;
}

}  // namespace

ir::Plan plan_training(const ModelConfig& model, const TrainingConfig& training, const ParallelConfig& parallel,
                       const ir::Reference& reference) {
  const PlanDegrees degrees = plan_degrees(model, parallel);
  ParameterTable table = plan_parameters(model, degrees);
  check_reference(reference, table, degrees);
  const std::size_t weights = table.all.size();
  Planner planner(model, training, degrees, std::move(table));
  ir::Plan plan;
  plan.name = parallel.name.empty() ? "training step" : parallel.name;
  plan.meshes.push_back(degrees.mesh());
  plan.stages.push_back(planner.write());
  plan.buffers = planner.buffers();
  plan.checkpoint = checkpoint(plan.stages.front(), weights);
  plan.notes.push_back("planner: tp " + std::to_string(degrees.tp) + ", dp " + std::to_string(degrees.dp) +
                       (degrees.cp > 1 ? ", cp " + std::to_string(degrees.cp) : "") +
                       (degrees.sequence_parallel ? ", sequence parallel" : "") +
                       (degrees.distributed_optimizer ? ", distributed optimizer" : "") + ", " +
                       std::to_string(degrees.microbatches) + " microbatches");
  return plan;
}

}  // namespace shardproof::lowering

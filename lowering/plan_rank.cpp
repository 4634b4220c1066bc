#include "lowering/plan_rank.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lowering/plan_chunk.h"
#include "lowering/plan_gradients.h"
#include "lowering/plan_optimizer.h"

namespace shardproof::lowering {

namespace {

using ir::DType;
using std::to_string;

std::string rank_name(std::int64_t rank) { return "pp" + to_string(rank); }

class RankPlanner {
 public:
  RankPlanner(const RankSetup& setup, const ParameterTable& table)
      : setup_(setup), degrees_(setup.degrees), table_(table), chunks_(setup.layout.of_rank(setup.rank)),
        buckets_(plan_buckets(table, degrees_, piped() ? rank_name(setup.rank) + "." : "")), writer_(stage_.program, setup.model, degrees_, table_) {
    stage_.name = piped() ? rank_name(setup.rank) : "step";
    if (piped()) stage_.where = {{"pp", {setup.rank}}};
    for (const ModelChunk& chunk : chunks_) {
      embeds_ = embeds_ || chunk.embedding;
      loses_ = loses_ || chunk.loss;
    }
  }

  RankProgram write() {
    inputs();
    state();
    shared_.layers = setup_.model.family == ModelFamily::llama ? llama_shared(writer_) : gpt2_shared(writer_);
    if (embeds_ || loses_) shared_.vocab = vocab_shared(writer_);
    for (std::size_t i = 0; i < table_.all.size(); ++i) {
      // Norms compute with f32 weights: one cast serves all microbatches.
      if (table_.all[i].copies == ParameterCopies::all && is_norm(i)) writer_.weight_f32(i);
    }
    OptimizerInputs sums = microbatches();
    sums.lr = lr_;
    sums.step = step_;
    if (setup_.layout.directions == 2) sums.loss_ranks = "pp{0," + to_string(setup_.layout.ranks - 1) + "}";
    outputs_ = write_optimizer(writer_, setup_.training, buckets_, sums, tensors_);
    bind_state();
    if (outputs_.loss.valid() && setup_.rank == loss_rank()) {
      bind_output("loss", outputs_.loss);
      bind_output("grad_norm", outputs_.grad_norm);
    }
    if (setup_.layout.splits_backward) split_backward();
    RankProgram result{std::move(stage_), {}, std::move(checkpoint_)};
    if (degrees_.distributed_optimizer)
      for (const PlanBucket& bucket : buckets_) result.buffers.push_back(flat_buffer(bucket, table_));
    return result;
  }

 private:
  bool piped() const { return setup_.layout.ranks > 1; }
  // Names of what every rank has.
  std::string own_name(const std::string& name) const { return setup_.rank == 0 ? name : rank_name(setup_.rank) + "." + name; }
  std::int64_t loss_rank() const { return setup_.layout.chunks[static_cast<std::size_t>(setup_.layout.stages() - 1)].rank; }
  std::int64_t trip() const { return degrees_.microbatches / setup_.layout.directions; }

  bool is_norm(std::size_t parameter) const {
    const auto among = [&](std::initializer_list<std::size_t> indices) { return std::find(indices.begin(), indices.end(), parameter) != indices.end(); };
    return among({table_.final_norm, table_.final_norm_bias}) || std::any_of(table_.blocks.begin(), table_.blocks.end(), [&](const BlockParameters& block) {
             return among({block.norm1, block.norm1_bias, block.norm2, block.norm2_bias});
           });
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
    if (embeds_) tokens_ = batch_input("tokens", DType::i32);
    if (loses_) labels_ = batch_input("labels", DType::i32);
    if (loses_) mask_ = batch_input("loss_mask", DType::f32);
    ir::PlanInput rate;
    rate.binding.of = "lr";
    rate.value = lr_ = writer_.builder().input("lr", {DType::f32, {}});
    stage_.inputs.push_back(rate);
  }

  void state() {
    Values weights;
    for (const PlanParameter& parameter : table_.all) weights.push_back(writer_.builder().input(parameter.name, {degrees_.compute, parameter.shape}));
    writer_.set_weights(std::move(weights));
    tensors_ = optimizer_tensors(buckets_, table_, degrees_);
    for (OptimizerTensor& tensor : tensors_) {
      const ir::TensorType type{DType::f32, tensor.shape};
      tensor.param = writer_.builder().input(tensor.name + ".param", type);
      tensor.exp_avg = writer_.builder().input(tensor.name + ".exp_avg", type);
      tensor.exp_avg_sq = writer_.builder().input(tensor.name + ".exp_avg_sq", type);
    }
    step_ = writer_.builder().input(own_name("step"), {DType::i64, {}});
  }

  // ---- the loop over microbatches

  // Gradients are summed as they are, or, sharded, after their reduction (ZeRO-2).
  OptimizerInputs microbatches() {
    writer_.at("accumulators", "start", "");
    Values inits;
    std::vector<std::string> names;
    if (degrees_.sharded_gradients) {
      for (const PlanBucket& bucket : buckets_) {
        inits.push_back(writer_.constant(0, DType::f32, {reduced_size(bucket, degrees_)}));
        names.push_back(bucket.name + ".sum");
      }
    } else {
      for (const PlanParameter& parameter : table_.all) {
        inits.push_back(writer_.constant(0, DType::f32, parameter.shape));
        names.push_back(parameter.name + ".grad");
      }
    }
    if (loses_) {
      inits.insert(inits.end(), 2, writer_.constant(0, DType::f32, {}));
      names.insert(names.end(), {"loss.sum", "tokens.sum"});
    }
    Values carried = writer_.begin_loop("m", trip(), std::move(inits), std::move(names));
    if (loses_) {
      token_sum_ = carried.back();
      carried.pop_back();
      loss_sum_ = carried.back();
      carried.pop_back();
    }
    if (degrees_.sharded_gradients) bucket_sums_ = std::move(carried);
    else writer_.set_gradients(std::move(carried));
    passes();
    Values next = degrees_.sharded_gradients ? bucket_sums_ : writer_.gradients();
    if (loses_) next.insert(next.end(), {loss_sum_, token_sum_});
    Values results = writer_.end_loop(std::move(next));
    OptimizerInputs out;
    if (loses_) {
      out.tokens = results.back();
      results.pop_back();
      out.loss_sum = results.back();
      results.pop_back();
    }
    (degrees_.sharded_gradients ? out.sums : out.gradients) = std::move(results);
    return out;
  }

  // A forward action of each chunk, then a backward action of each, in the order in which a sample passes them.
  void passes() {
    std::vector<ChunkWriter> writers;
    const Recompute recompute = Recompute::of(setup_.parallel);
    for (const ModelChunk& chunk : chunks_) writers.emplace_back(writer_, shared_, chunk, recompute);
    std::vector<ChunkSaved> saved;
    for (std::size_t i = 0; i < chunks_.size(); ++i) saved.push_back(forward(chunks_[i], writers[i]));
    for (std::size_t i = chunks_.size(); i-- > 0;) backward(i, writers[i], saved[i]);
  }

  void begin_action(const ModelChunk& chunk, const char* type) {
    if (piped()) writer_.begin_action(to_string(chunk.stage) + type);
  }

  ValueId own_part(ValueId batch, const ModelChunk& chunk, const std::string& name) {
    const std::int64_t before = chunk.stage < setup_.layout.stages() ? 0 : trip() * degrees_.micro_batch;  // the other direction's
    return writer_.slice(batch, 0, ir::variable_expr("m", degrees_.micro_batch, before), degrees_.micro_batch, name);
  }

  ChunkSaved forward(const ModelChunk& chunk, ChunkWriter& pass) {
    begin_action(chunk, "F");
    writer_.at("batch", "forward", "batch");
    ChunkBatch batch;
    ValueId count;
    if (chunk.embedding) batch.tokens = own_part(tokens_, chunk, "tokens");
    if (chunk.loss) {
      batch.labels = own_part(labels_, chunk, "labels");
      batch.mask = own_part(mask_, chunk, "loss_mask");
      count = writer_.reduce_sum(batch.mask, {0, 1}, "token_count");
    }
    ValueId x;
    if (const ModelChunk* before = setup_.layout.before(chunk)) x = receive(*before, chunk, "activation", chunk.stage, activations_);
    ChunkSaved saved = pass.forward(batch, x);
    if (const ModelChunk* after = setup_.layout.after(chunk)) send(*after, chunk, "activation", after->stage, saved.result, activations_);
    if (chunk.loss) {
      writer_.at("loss", "accumulation", "loss");
      loss_sum_ = writer_.add({loss_sum_, saved.head.loss}, "sum");
      token_sum_ = writer_.add({token_sum_, count}, "tokens_sum");
    }
    return saved;
  }

  void backward(std::size_t i, ChunkWriter& pass, const ChunkSaved& saved) {
    const ModelChunk& chunk = chunks_[i];
    begin_action(chunk, "B");
    if (degrees_.sharded_gradients) writer_.set_gradients(Values(table_.all.size()));
    ValueId gradient;
    if (const ModelChunk* after = setup_.layout.after(chunk)) gradient = receive(*after, chunk, "gradient", after->stage, gradients_);
    gradient = pass.backward(saved, gradient);
    if (const ModelChunk* before = setup_.layout.before(chunk)) {
      send(*before, chunk, "gradient", chunk.stage, gradient, gradients_);
      targets_[to_string(chunk.stage)] = gradient;
    }
    if (!degrees_.sharded_gradients) return;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      if (buckets_[b].chunk != i) continue;
      const ValueId sum = reduce_bucket(writer_, buckets_[b], writer_.gradients());
      bucket_sums_[b] = writer_.builder().op(OpCode::add, {bucket_sums_[b], sum}, {}, buckets_[b].name + ".next_sum");
    }
  }

  // Between chunks on one rank the value is there.
  ValueId receive(const ModelChunk& from, const ModelChunk& to, const std::string& what, std::int64_t border, std::map<std::int64_t, ValueId>& here) {
    if (from.rank == to.rank) return here.at(border);
    writer_.at("stage " + to_string(to.stage), "receive", what);
    const Shape shape{degrees_.micro_batch, degrees_.sequence_local, setup_.model.hidden_size};
    return writer_.builder().typed(OpCode::recv, {degrees_.compute, shape},
                                   {{"peer", rank_name(from.rank)}, {"channel", what + to_string(border)}, {"number", ir::variable_expr("m")}},
                                   what + to_string(border));
  }

  void send(const ModelChunk& to, const ModelChunk& from, const std::string& what, std::int64_t border, ValueId value, std::map<std::int64_t, ValueId>& here) {
    if (from.rank == to.rank) {
      here[border] = value;
      return;
    }
    writer_.at("stage " + to_string(from.stage), "send", what);
    writer_.builder().op(OpCode::send, {value}, {{"peer", rank_name(to.rank)}, {"channel", what + to_string(border)}, {"number", ir::variable_expr("m")}, {"async", true}});
  }

  // Zero-bubble schedules run what the gradient of a chunk's input needs (I) before the rest (W).
  void split_backward() {
    for (ir::Instruction& loop : stage_.program.body) {
      if (loop.region == nullptr) continue;
      std::vector<ir::Instruction>& body = loop.region->body;
      std::set<ValueId> needed;
      for (const auto& [stage, target] : targets_) needed.insert(target);
      for (std::size_t i = body.size(); i-- > 0;) {
        ir::Instruction& each = body[i];
        if (!each.action.ends_with("B")) continue;
        const bool input = each.op == OpCode::send || std::any_of(each.outputs.begin(), each.outputs.end(), [&](ValueId out) { return needed.contains(out); });
        each.action.back() = input ? 'I' : 'W';
        if (input) needed.insert(each.inputs.begin(), each.inputs.end());
      }
      // In each chunk first I, then W.
      for (auto at = body.begin(); at != body.end();) {
        const std::string stage = at->action.substr(0, at->action.size() - 1);
        auto end = at;
        while (end != body.end() && end->action.substr(0, end->action.size() - 1) == stage && end->action.back() != 'F') ++end;
        if (end == at) ++end;
        std::stable_partition(at, end, [](const ir::Instruction& each) { return each.action.back() != 'W'; });
        at = end;
      }
    }
  }

  // ---- state on exit

  void add_state(std::string name, ValueId value, ValueId next, ir::Binding binding, bool saved, const char* file) {
    ir::PlanState state;
    state.name = std::move(name);
    state.value = value;
    state.next = next;
    state.binding = std::move(binding);
    if (saved) checkpoint_.push_back({std::string(file) + "." + state.name, state.name, file, {}});
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
      const PlanParameter& parameter = table_.all[i];
      add_state(parameter.name, writer_.weight(i), outputs_.weights[i], parameter.binding, parameter.is_first_replica, "model");
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const OptimizerTensor& tensor = tensors_[i];
      const bool saved = degrees_.distributed_optimizer ? buckets_[i].is_first_replica : table_.all[i].is_first_replica;
      add_state(tensor.name + ".param", tensor.param, tensor.next_param, with_role(tensor.binding, "param"), saved, "optimizer");
      add_state(tensor.name + ".exp_avg", tensor.exp_avg, tensor.next_exp_avg, with_role(tensor.binding, "exp_avg"), saved, "optimizer");
      add_state(tensor.name + ".exp_avg_sq", tensor.exp_avg_sq, tensor.next_exp_avg_sq, with_role(tensor.binding, "exp_avg_sq"), saved, "optimizer");
    }
    ir::Binding step;
    step.of = "step";
    add_state(own_name("step"), step_, outputs_.step, std::move(step), setup_.rank == 0, "optimizer");
  }

  void bind_output(const std::string& name, ValueId value) {
    ir::PlanOutput output;
    output.name = name;
    output.value = value;
    output.binding.of = name;
    stage_.outputs.push_back(std::move(output));
  }

  const RankSetup& setup_;
  const PlanDegrees& degrees_;
  const ParameterTable& table_;
  const std::vector<ModelChunk> chunks_;
  const std::vector<PlanBucket> buckets_;
  ir::StageProgram stage_;
  PlanWriter writer_;
  bool embeds_ = false, loses_ = false;
  ChunkShared shared_;
  ValueId tokens_, labels_, mask_, lr_, step_;
  ValueId loss_sum_, token_sum_;
  Values bucket_sums_;                                   // of the running iteration, with sharded gradients
  std::map<std::int64_t, ValueId> activations_, gradients_;  // at borders between chunks of this rank
  std::map<std::string, ValueId> targets_;               // by stage: the gradient that it sends on
  std::vector<OptimizerTensor> tensors_;
  OptimizerOutputs outputs_;
  std::vector<ir::CheckpointEntry> checkpoint_;
};

}  // namespace

RankProgram plan_rank(const RankSetup& setup, const ParameterTable& table) { return RankPlanner(setup, table).write(); }

}  // namespace shardproof::lowering

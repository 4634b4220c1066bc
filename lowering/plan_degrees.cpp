#include "lowering/plan_degrees.h"

#include <algorithm>
#include <stdexcept>

#include "ir/rational.h"
#include "lowering/plan_error.h"

namespace shardproof::lowering {

namespace {

using std::to_string;

constexpr std::int64_t default_bucket_size = 40000000;  // Megatron-LM's floor when no size is given
constexpr std::int64_t static_loss_scale = 65536;
constexpr const char* kTensor = "tensor_model_parallel_size";

// `setting` is the field of the set-up that the finding points at.
void require(bool condition, const char* code, const std::string& message, const std::string& expected,
             const std::string& found, const std::string& fix, const char* setting) {
  if (!condition) throw PlanError(code, message, expected, found, fix, setting);
}

void require_divides(const char* code, const std::string& what, std::int64_t value, const std::string& by_what,
                     std::int64_t divisor, const std::string& fix, const char* setting) {
  require(value % divisor == 0, code, what + " is not divisible by " + by_what,
          "a multiple of " + to_string(divisor) + " (" + by_what + ")", to_string(value) + " (" + what + ")", fix,
          setting);
}

void require_one(const char* name, std::int64_t degree) {
  require(degree == 1, "SP0033", std::string("`") + name + "` above 1 is not supported yet", "1", to_string(degree),
          std::string("set `") + name + "` to 1", name);
}

void check_supported(const ParallelConfig& parallel) {
  require(parallel.context_parallel_size <= 1 || parallel.cp_comm_type == "all_gather", "SP0033",
          "context parallelism with `cp_comm_type` " + parallel.cp_comm_type + " is not supported yet", "all_gather", parallel.cp_comm_type,
          "set `cp_comm_type` to all_gather", "context_parallel_size");
  require_one("expert_model_parallel_size", parallel.expert_model_parallel_size);
  const DataParallelSharding sharding = parallel.data_parallel_sharding_strategy;
  require(sharding != DataParallelSharding::optim_grads_params, "SP0033",
          "`data_parallel_sharding_strategy` " + std::string(sharding_name(sharding)) + " is not supported yet",
          "no_shard, optim or optim_grads", std::string(sharding_name(sharding)), "choose optim_grads",
          "data_parallel_sharding_strategy");
  require(parallel.recompute_granularity != "selective" || parallel.recompute_method.empty(), "SP0033",
          "selective recomputation has no method", "no `recompute_method`", parallel.recompute_method,
          "remove `recompute_method`, or set `recompute_granularity` to full", "recompute_method");
}

void check_positive(const char* name, std::int64_t value) {
  require(value >= 1, "SP0030", std::string("`") + name + "` is not positive", "at least 1", to_string(value),
          std::string("set `") + name + "`", name);
}

ir::DType compute_type(const std::string& precision) {
  if (precision == "fp32") return ir::DType::f32;
  if (precision == "bf16") return ir::DType::bf16;
  if (precision == "fp16") return ir::DType::f16;
  throw PlanError("SP0033", "unknown precision", "fp32, bf16 or fp16", precision, "choose one of these", "bf16");
}

void check_model(const ModelConfig& model, std::int64_t tp) {
  const std::string ranks = "the tensor parallel size";
  const std::string fix = "choose a tensor parallel size that divides it";
  require_divides("SP0031", "the number of attention heads", model.num_heads, ranks, tp, fix, kTensor);
  require_divides("SP0031", "the intermediate size", model.intermediate_size, ranks, tp, fix, kTensor);
  require(model.num_kv_heads % tp == 0 || tp % model.num_kv_heads == 0, "SP0031",
          "the kv heads can be neither split nor replicated evenly",
          "a multiple or a divisor of " + to_string(tp) + " (tensor parallel size)",
          to_string(model.num_kv_heads) + " kv heads",
          "choose a tensor parallel size that divides or is a multiple of it", kTensor);
  require_divides("SP0031", "the number of attention heads", model.num_heads, "the number of kv heads",
                  model.num_kv_heads, "correct the model configuration", "model");
}

// Megatron-LM pads the vocabulary so that every rank gets the same number of rows, and a round one.
std::int64_t padded_vocab(std::int64_t vocab, std::int64_t divisible_by, std::int64_t tp) {
  const std::int64_t multiple = ir::checked_mul(divisible_by, tp);
  return ir::checked_mul(ir::floor_div(ir::checked_add(vocab, multiple - 1), multiple), multiple);
}

// The tensors of the step stay within the limits of the IR.
void check_sizes(const ModelConfig& model, const ParallelConfig& parallel, const PlanDegrees& degrees) {
  constexpr std::int64_t most_extent = std::int64_t{1} << 40;
  constexpr std::int64_t most_elements = std::int64_t{1} << 62;
  constexpr std::int64_t most_ids = (std::int64_t{1} << 31) - 1;  // tokens are i32
  constexpr std::int64_t most_head = 1 << 16;                     // rotary frequencies are listed
  const auto fits = [](std::int64_t most, std::initializer_list<std::int64_t> extents) {
    std::int64_t total = 1;
    for (const std::int64_t extent : extents) {
      if (extent > most_extent || __builtin_mul_overflow(total, extent, &total)) return false;
    }
    return total <= most;
  };
  require(degrees.padded_vocab <= most_ids, "SP0032", "the padded vocabulary is too large",
          "at most " + to_string(most_ids), to_string(degrees.padded_vocab),
          "shrink `make_vocab_size_divisible_by`, or the vocabulary", "make_vocab_size_divisible_by");
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t widest = std::max(degrees.padded_vocab, model.intermediate_size);
  // A weight is one dimension of a bucket.
  require(model.head_dim <= most_head && fits(most_extent, {widest, hidden}) &&
              fits(most_extent, {3, model.num_heads, model.head_dim, hidden}) &&
              (model.family == ModelFamily::llama || fits(most_extent, {model.max_positions, hidden})),
          "SP0032", "a weight of the model is too large",
          "at most 2^40 elements, " + to_string(most_head) + " along a head", "more", "correct the model configuration",
          "model");
  const std::int64_t batch = parallel.global_batch_size;
  const std::int64_t positions = degrees.sequence;
  require(fits(most_elements, {batch, positions, std::max(widest, hidden)}) &&
              fits(most_elements, {batch, positions, 3, model.num_heads, model.head_dim}) &&
              fits(most_elements, {batch, positions, model.num_heads, positions}),
          "SP0032", "the batch of the step is too large", "tensors of at most 2^62 elements",
          to_string(batch) + " samples of " + to_string(positions) + " positions", "shrink `global_batch_size`",
          "global_batch_size");
  const std::int64_t bucket = std::min(
      degrees.bucket_size, ir::checked_add(parameter_count(model), ir::checked_mul(2 * degrees.padded_vocab, hidden)));
  require(bucket <= most_extent / 2, "SP0032", "a bucket of gradients is too large", "at most 2^39 elements",
          to_string(bucket), "shrink `bucket_size`", "bucket_size");
}

}  // namespace

std::vector<std::string> PlanDegrees::data_axes() const {
  if (cp > 1) return {"dp", "cp"};
  return {"dp"};
}

ir::CoordExpr PlanDegrees::data_coordinate() const {
  if (cp > 1) return ir::variable_expr("dp", cp) + ir::variable_expr("cp");
  return ir::variable_expr("dp");
}

std::vector<ir::Digit> PlanDegrees::data_digits() const {
  if (cp > 1) return {{"dp", 1, dp}, {"cp", 1, cp}};
  return {{"dp", 1, dp}};
}

std::vector<std::string> PlanDegrees::tp_axes() const {
  if (splits_tp()) return {"tpk", "tpr"};
  return {"tp"};
}

ir::CoordExpr PlanDegrees::tp_coordinate() const {
  if (splits_tp()) return ir::variable_expr("tpk", kv_replicas) + ir::variable_expr("tpr");
  return ir::variable_expr("tp");
}

std::vector<ir::Digit> PlanDegrees::tp_digits() const {
  if (splits_tp()) return {{"tpk", 1, kv_shards}, {"tpr", 1, kv_replicas}};
  return {{"tp", 1, tp}};
}

ir::Mesh PlanDegrees::mesh() const {
  ir::Mesh mesh;
  mesh.name = "mesh";
  if (pp > 1) mesh.axes.push_back({"pp", pp, {}});
  for (const ir::Digit& digit : data_digits()) mesh.axes.push_back({digit.axis, digit.size, {}});
  for (const ir::Digit& digit : tp_digits()) mesh.axes.push_back({digit.axis, digit.size, {}});
  return mesh;
}

namespace {

// Two chunks for each context parallel rank; then parts of these for tensor parallel ranks.
void cut_sequence(PlanDegrees& degrees) {
  if (degrees.cp > 1) {
    require_divides("SP0032", "the sequence length", degrees.sequence, "twice the context parallel size",
                    ir::checked_mul(2, degrees.cp), "pad the sequence", "seq_length");
  }
  degrees.sequence_own = degrees.sequence / degrees.cp;
  degrees.sequence_local = degrees.sequence_own;
  if (!degrees.sequence_parallel) return;
  require_divides("SP0032",
                  degrees.cp > 1 ? "the sequence of a context parallel rank" : "the sequence length",
                  degrees.sequence_own, "the tensor parallel size", degrees.tp,
                  "pad the sequence, or turn off `sequence_parallel`", "seq_length");
  degrees.sequence_local = degrees.sequence_own / degrees.tp;
}

PlanDegrees compute_degrees(const ModelConfig& model, const ParallelConfig& parallel) {
  check_supported(parallel);
  check_positive("world_size", parallel.world_size);
  check_positive("tensor_model_parallel_size", parallel.tensor_model_parallel_size);
  check_positive("context_parallel_size", parallel.context_parallel_size);
  check_positive("micro_batch_size", parallel.micro_batch_size);
  check_positive("global_batch_size", parallel.global_batch_size);
  check_positive("seq_length", parallel.seq_length);
  check_positive("make_vocab_size_divisible_by", parallel.make_vocab_size_divisible_by);

  PlanDegrees degrees;
  degrees.tp = parallel.tensor_model_parallel_size;
  degrees.cp = parallel.context_parallel_size;
  degrees.pp = parallel.pipeline_model_parallel_size;
  std::string model_parallel = "the tensor";
  if (degrees.pp > 1) model_parallel += " times the pipeline";
  if (degrees.cp > 1) model_parallel += " times the context";
  const std::int64_t ranks = ir::checked_mul(ir::checked_mul(degrees.tp, degrees.cp), degrees.pp);
  require_divides("SP0030", "the world size", parallel.world_size, model_parallel + " parallel size", ranks,
                  "choose a world size that is a multiple of the model parallel size", "world_size");
  degrees.dp = parallel.world_size / ranks;
  check_model(model, degrees.tp);
  degrees.kv_shards = std::min(degrees.tp, model.num_kv_heads);
  degrees.kv_replicas = degrees.tp / degrees.kv_shards;

  // Megatron-LM turns sequence parallelism off without tensor parallelism: there is nothing to cut the sequence over.
  degrees.sequence_parallel = parallel.sequence_parallel && degrees.tp > 1;
  degrees.distributed_optimizer =
      parallel.use_distributed_optimizer || parallel.data_parallel_sharding_strategy != DataParallelSharding::no_shard;
  degrees.sharded_gradients = parallel.data_parallel_sharding_strategy == DataParallelSharding::optim_grads;
  degrees.micro_batch = parallel.micro_batch_size;
  const std::int64_t samples = ir::checked_mul(degrees.micro_batch, degrees.dp);
  require_divides("SP0032", "the global batch size", parallel.global_batch_size,
                  "micro batch size times data parallel size", samples,
                  "choose a global batch size that is a multiple of " + to_string(samples), "global_batch_size");
  degrees.microbatches = parallel.global_batch_size / samples;
  degrees.sequence = parallel.seq_length;
  cut_sequence(degrees);
  // As in Megatron-LM, also for rotary positions: the model was not made for more.
  require(degrees.sequence <= model.max_positions, "SP0032", "the sequence is longer than the model has positions",
          "at most " + to_string(model.max_positions), to_string(degrees.sequence),
          std::string("shorten `seq_length`, or raise `") +
              (model.family == ModelFamily::gpt2 ? "n_positions" : "max_position_embeddings") +
              "` of the model configuration",
          "seq_length");
  degrees.padded_vocab = padded_vocab(model.vocab_size, parallel.make_vocab_size_divisible_by, degrees.tp);

  // Megatron-LM's default: at least 40 M elements, and enough of them that each rank's share stays large.
  degrees.bucket_size = parallel.bucket_size;
  if (degrees.bucket_size <= 0 || degrees.bucket_size == default_bucket_size) {
    degrees.bucket_size = std::max(default_bucket_size, ir::checked_mul(1000000, degrees.data_size()));
  }
  check_sizes(model, parallel, degrees);
  degrees.compute = compute_type(parallel.precision);
  if (degrees.compute == ir::DType::f16) degrees.loss_scale = static_loss_scale;
  return degrees;
}

}  // namespace

PlanDegrees plan_degrees(const ModelConfig& model, const ParallelConfig& parallel) {
  try {
    return compute_degrees(model, parallel);
  } catch (const std::overflow_error&) {
    throw PlanError("SP0032", "the sizes of the set-up are too large", "products below 2^63", "larger ones",
                    "correct the set-up");
  }
}

}  // namespace shardproof::lowering

#include "lowering/parallel_config.h"

#include "lowering/config_object.h"
#include "lowering/setup_fields.h"

namespace shardproof::lowering {
namespace {

constexpr std::int64_t kMostRanks = std::int64_t{1} << 32;  // the largest mesh of the IR

void check_batch(ConfigObject& config, const ParallelConfig& parallel) {
  const std::int64_t model_parallel =
      ir::checked_mul(ir::checked_mul(parallel.tensor_model_parallel_size, parallel.pipeline_model_parallel_size),
                      parallel.context_parallel_size);
  if (parallel.world_size % model_parallel != 0) {
    config.inconsistent("world_size", "the world is not a whole number of tensor x pipeline x context parallel groups",
                        "a multiple of " + std::to_string(model_parallel), std::to_string(parallel.world_size));
    return;
  }
  if (config.positive("data_parallel_size", parallel.data_parallel_size()) != parallel.data_parallel_size()) {
    config.inconsistent("data_parallel_size", "the data parallel size is not what the world size leaves for it",
                        std::to_string(parallel.data_parallel_size()) + " (world size " +
                            std::to_string(parallel.world_size) + " by " + std::to_string(model_parallel) + ")",
                        describe_node(*config.find("data_parallel_size")));
  }
  const std::int64_t samples = ir::checked_mul(parallel.micro_batch_size, parallel.data_parallel_size());
  if (parallel.global_batch_size % samples != 0) {
    config.inconsistent("global_batch_size",
                        "the global batch is not a whole number of microbatches on every data parallel rank",
                        "a multiple of " + std::to_string(samples) + " (micro_batch_size x data parallel size " +
                            std::to_string(parallel.data_parallel_size()) + ")",
                        std::to_string(parallel.global_batch_size));
  }
  // The expert mesh factorises the ranks of one pipeline stage: expert data parallel x expert parallel.
  const std::int64_t stage_ranks = parallel.world_size / parallel.pipeline_model_parallel_size;
  if (stage_ranks % parallel.expert_model_parallel_size != 0) {
    config.inconsistent(
        "expert_model_parallel_size", "expert parallelism does not divide the ranks of a pipeline stage",
        "a divisor of " + std::to_string(stage_ranks), std::to_string(parallel.expert_model_parallel_size));
  }
}

void read_seq_length(ConfigObject& config, ParallelConfig& parallel) {
  const std::size_t errors_before = config.sink().error_count();
  parallel.seq_length = config.positive("seq_length");
  if (config.sink().error_count() == errors_before && parallel.seq_length < 2)
    config.bad_value("seq_length", "at least 2, for a token to have another to attend to", "1");
}

void read_sharding(ConfigObject& config, ParallelConfig& parallel) {
  parallel.use_distributed_optimizer = config.flag("use_distributed_optimizer", false);
  const std::string strategy = config.choice("data_parallel_sharding_strategy",
                                             {"no_shard", "optim", "optim_grads", "optim_grads_params"}, "no_shard");
  for (DataParallelSharding sharding : {DataParallelSharding::no_shard, DataParallelSharding::optim,
                                        DataParallelSharding::optim_grads, DataParallelSharding::optim_grads_params}) {
    if (strategy == sharding_name(sharding)) parallel.data_parallel_sharding_strategy = sharding;
  }
  if (parallel.use_distributed_optimizer &&
      parallel.data_parallel_sharding_strategy == DataParallelSharding::no_shard) {
    parallel.data_parallel_sharding_strategy = DataParallelSharding::optim;
  }
}

std::string read_precision(ConfigObject& config) {
  const bool fp16 = config.flag("fp16", false);
  const bool bf16 = config.flag("bf16", false);
  if (fp16 && bf16) config.inconsistent("bf16", "`fp16` and `bf16` exclude each other", "one of them", "both");
  return fp16 ? "fp16" : config.find("bf16") != nullptr && !bf16 ? "fp32" : "bf16";
}

}  // namespace

std::string_view sharding_name(DataParallelSharding sharding) {
  switch (sharding) {
    case DataParallelSharding::no_shard:
      return "no_shard";
    case DataParallelSharding::optim:
      return "optim";
    case DataParallelSharding::optim_grads:
      return "optim_grads";
    case DataParallelSharding::optim_grads_params:
      return "optim_grads_params";
  }
  return "no_shard";
}

std::int64_t ParallelConfig::data_parallel_size() const {
  return world_size / (tensor_model_parallel_size * pipeline_model_parallel_size * context_parallel_size);
}

std::int64_t ParallelConfig::num_microbatches() const {
  return global_batch_size / (micro_batch_size * data_parallel_size());
}

std::optional<ParallelConfig> read_parallel_config(std::shared_ptr<const ir::SourceFile> source,
                                                   ir::DiagnosticSink& sink, const std::string& name) {
  const std::optional<ir::JsonTree> tree = ir::parse_json(*source, {}, sink);
  if (!tree) return std::nullopt;
  ParallelConfig parallel;
  const std::optional<ir::JsonRef> object = select_config(*tree, name, sink, &parallel.name);
  if (!object) return std::nullopt;
  const std::size_t errors_before = sink.error_count();
  ConfigObject config(*object, sink, setup_title(parallel.name));
  check_setup_fields(config);
  parallel.model = config.text("model", "");
  parallel.tensor_model_parallel_size = config.positive("tensor_model_parallel_size", 1);
  parallel.pipeline_model_parallel_size = config.positive("pipeline_model_parallel_size", 1);
  parallel.virtual_pipeline_model_parallel_size = config.positive("virtual_pipeline_model_parallel_size", 1);
  parallel.context_parallel_size = config.positive("context_parallel_size", 1);
  parallel.expert_model_parallel_size = config.positive("expert_model_parallel_size", 1);
  parallel.world_size = config.positive("world_size", std::nullopt, kMostRanks);
  parallel.sequence_parallel = config.flag("sequence_parallel", false);
  read_sharding(config, parallel);
  parallel.micro_batch_size = config.positive("micro_batch_size", 1);
  parallel.global_batch_size = config.positive("global_batch_size");
  read_seq_length(config, parallel);
  parallel.clip_grad = config.rational("clip_grad", parallel.clip_grad, ir::Rational(0), ir::Rational(1000000000));
  // Megatron-LM spells the option of the buckets ddp_bucket_size.
  parallel.bucket_size = config.positive(config.find("ddp_bucket_size") != nullptr ? "ddp_bucket_size" : "bucket_size",
                                         parallel.bucket_size);
  parallel.make_vocab_size_divisible_by = config.positive("make_vocab_size_divisible_by", 128);
  parallel.cp_comm_type = config.choice("cp_comm_type", {"p2p", "all_gather", "a2a", "a2a+p2p"}, "p2p");
  parallel.schedule = config.text("schedule", "");
  parallel.pipeline_model_parallel_layout = config.text("pipeline_model_parallel_layout", "");
  parallel.recompute_granularity = config.choice("recompute_granularity", {"full", "selective"}, "");
  parallel.recompute_method = config.choice("recompute_method", {"uniform", "block"}, "");
  parallel.recompute_num_layers = config.positive("recompute_num_layers", 1);
  parallel.precision = read_precision(config);
  try {
    if (sink.error_count() == errors_before) check_batch(config, parallel);
  } catch (const std::overflow_error&) {
    config.inconsistent("world_size", "the product of the degrees is too large", "at most 2^63", "more");
  }
  if (sink.error_count() > errors_before) return std::nullopt;
  return parallel;
}

}  // namespace shardproof::lowering

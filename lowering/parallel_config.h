// Degrees of parallelism and batch sizes, with Megatron-LM's argument names.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/rational.h"
#include "ir/source.h"

namespace shardproof::lowering {

// How gradients and optimizer state are spread over data parallel ranks (ZeRO stages; Megatron-LM's
// data_parallel_sharding_strategy). `use_distributed_optimizer` is read as `optim_grads`' weaker form `optim`.
enum class DataParallelSharding : std::uint8_t { no_shard, optim, optim_grads, optim_grads_params };
std::string_view sharding_name(DataParallelSharding sharding);

struct ParallelConfig {
  std::string name;
  std::string model;  // file name beside the configuration; may be empty
  std::int64_t world_size = 1;
  std::int64_t tensor_model_parallel_size = 1;
  std::int64_t pipeline_model_parallel_size = 1;
  std::int64_t virtual_pipeline_model_parallel_size = 1;
  std::int64_t context_parallel_size = 1;
  std::int64_t expert_model_parallel_size = 1;
  bool sequence_parallel = false;
  bool use_distributed_optimizer = false;
  DataParallelSharding data_parallel_sharding_strategy = DataParallelSharding::no_shard;
  std::int64_t micro_batch_size = 1;
  std::int64_t global_batch_size = 1;
  std::int64_t seq_length = 1;
  ir::Rational clip_grad = 1;           // 0: no clipping
  std::int64_t bucket_size = 40000000;  // elements of one data parallel bucket
  std::int64_t make_vocab_size_divisible_by = 128;
  std::string cp_comm_type = "p2p";   // "p2p", "all_gather", "a2a", "a2a+p2p"
  std::string schedule;               // generator name; empty: the planner's default
  std::string pipeline_model_parallel_layout;  // Megatron-LM's notation; empty: layers are spread evenly
  std::string recompute_granularity;  // "", "full", "selective"
  std::string recompute_method;       // "", "uniform", "block"
  std::int64_t recompute_num_layers = 1;
  std::string precision = "bf16";  // "fp32", "bf16", "fp16"

  std::int64_t data_parallel_size() const;  // world / (tp * pp * cp)
  std::int64_t num_microbatches() const;    // global / (micro * dp)
};

// Accepts one object, or {"name": {...}, ...} where `name` selects one (not needed if there is only one). Checks that
// the degrees divide the world and that the global batch is a whole number of microbatches.
std::optional<ParallelConfig> read_parallel_config(std::shared_ptr<const ir::SourceFile> source,
                                                   ir::DiagnosticSink& sink, const std::string& name = {});

}  // namespace shardproof::lowering

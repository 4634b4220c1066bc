// The parameters as each rank holds them: local shapes, placements, fused layouts, copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "lowering/model_config.h"
#include "lowering/pipeline_layout.h"
#include "lowering/plan_degrees.h"

namespace shardproof::lowering {

// Which elements are held by more than one tensor parallel rank. The global norm counts each element once.
enum class ParameterCopies : std::uint8_t {
  none,     // every element on one tensor parallel rank
  all,      // norms, row-parallel biases, positions: on every rank
  kv_tail,  // fused qkv with replicated kv heads: the last `tail_rows` rows are on `kv_replicas` ranks
};

struct PlanParameter {
  std::string name;     // of the plan's state; the reference parameter's own name unless fused
  ir::Shape shape;      // local
  ir::Binding binding;  // `of` or `fused`; no role
  bool decay = false;
  ParameterCopies copies = ParameterCopies::none;
  std::int64_t tail_rows = 0;
  // Used on sequence shards: under sequence parallelism the gradient of each rank is a summand.
  bool on_sequence_shard = false;
  // Pipeline ranks that hold it, too, as an entry of a collective's axes ("pp{0,3}"): each has the gradient of its own uses.
  // Empty: no other. Of several, the first one counts it in the norm and saves it.
  std::string replicas;
  bool is_first_replica = true;
  std::size_t chunk = 0;  // of the rank's chunks
};

inline constexpr std::size_t no_parameter = static_cast<std::size_t>(-1);

// Indices into ParameterTable::all; biases are absent in Llama.
struct BlockParameters {
  std::size_t norm1 = no_parameter, norm1_bias = no_parameter;
  std::size_t proj = no_parameter, proj_bias = no_parameter;
  std::size_t qkv = no_parameter, qkv_bias = no_parameter;
  std::size_t norm2 = no_parameter, norm2_bias = no_parameter;
  std::size_t fc1 = no_parameter, fc1_bias = no_parameter;
  std::size_t fc2 = no_parameter, fc2_bias = no_parameter;
};

// `all` is in the order in which Megatron-LM registers parameters (attention: output projection before qkv); gradient
// buckets are laid out in the reverse of it.
struct ParameterTable {
  std::vector<PlanParameter> all;
  std::vector<BlockParameters> blocks;
  std::size_t embedding = no_parameter;
  std::size_t positions = no_parameter;  // GPT-2
  std::size_t final_norm = no_parameter, final_norm_bias = no_parameter;
  std::size_t head = no_parameter;  // == embedding when tied
};

// What one pipeline rank holds; `blocks` has an entry for each layer of the model.
ParameterTable plan_parameters(const ModelConfig& model, const PlanDegrees& degrees, const PipelineLayout& layout,
                               std::int64_t rank);

}  // namespace shardproof::lowering

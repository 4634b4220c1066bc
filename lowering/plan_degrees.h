// The degrees of a plan, checked once, and the mesh they make.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/coord_expr.h"
#include "ir/mesh.h"
#include "ir/placement.h"
#include "ir/tensor_type.h"
#include "lowering/model_config.h"
#include "lowering/parallel_config.h"

namespace shardproof::lowering {

// Everything about the mesh and the local sizes that the emitters need. With fewer kv heads than tensor parallel ranks
// each kv head lives on `kv_replicas` ranks; collectives act on whole axes, so that the tensor parallel axis is then
// two axes: `tpk` (major, one coordinate per kv head) and `tpr` (minor, its replicas).
// Context parallelism cuts each sample's positions in 2*cp chunks; rank r has chunks r and 2*cp-1-r ("zigzag"), so that
// all have as much to do under a causal mask.
struct PlanDegrees {
  std::int64_t pp = 1;
  std::int64_t dp = 1;
  std::int64_t cp = 1;
  std::int64_t tp = 1;
  std::int64_t kv_shards = 1;    // ranks with distinct kv heads; == tp without replication
  std::int64_t kv_replicas = 1;  // tp / kv_shards
  bool sequence_parallel = false;
  bool distributed_optimizer = false;  // optimizer state is cut over data parallel ranks (ZeRO-1)
  bool sharded_gradients = false;      // gradients, too: reduced and scattered after each microbatch (ZeRO-2)
  std::int64_t microbatches = 1;
  std::int64_t micro_batch = 1;
  std::int64_t sequence = 1;        // whole
  std::int64_t sequence_own = 1;    // of the context parallel rank: sequence / cp
  std::int64_t sequence_local = 1;  // of norms and residual: sequence_own / tp under sequence parallelism
  std::int64_t padded_vocab = 0;
  std::int64_t bucket_size = 0;
  ir::DType compute = ir::DType::bf16;
  std::int64_t loss_scale = 1;  // static; 1: none

  std::int64_t local_vocab() const { return padded_vocab / tp; }
  std::int64_t chunk() const { return sequence_own / 2; }  // positions that lie together; context parallelism only
  // Ranks that see other tokens: over these, gradients, losses and token counts are summed, and the distributed
  // optimizer cuts its state.
  std::int64_t data_size() const { return dp * cp; }
  std::vector<std::string> data_axes() const;  // major to minor
  ir::CoordExpr data_coordinate() const;
  std::vector<ir::Digit> data_digits() const;
  bool splits_tp() const { return kv_replicas > 1; }
  std::vector<std::string> tp_axes() const;  // major to minor
  ir::CoordExpr tp_coordinate() const;
  // Digits of a dimension that is cut over all tensor parallel ranks, major to minor.
  std::vector<ir::Digit> tp_digits() const;
  ir::Mesh mesh() const;
};

// Throws PlanError.
PlanDegrees plan_degrees(const ModelConfig& model, const ParallelConfig& parallel);

}  // namespace shardproof::lowering

// All ranks of a mesh in one process with LibTorch: verifier/execution/cluster.h in its domain.
#pragma once

#include "runtime/torch_executor.h"
#include "verifier/execution/cluster.h"

namespace shardproof::runtime {

std::vector<RankTensors> run_cluster(std::span<const ir::Mesh> meshes, const ir::Program& program,
                                     const std::map<ir::ValueId, RankTensors>& inputs,
                                     std::span<const ir::ValueId> wanted);

}  // namespace shardproof::runtime

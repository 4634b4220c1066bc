// All ranks of a mesh in one process. Collectives are computed from their definitions in ir/op_schema.h, in group
// order, so that runs are deterministic.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/mesh.h"
#include "ir/program.h"
#include "runtime/interpreter.h"
#include "runtime/tensor.h"

namespace shardproof::runtime {

using RankTensors = std::vector<Tensor>;                // one per rank
using Groups = std::vector<std::vector<std::int64_t>>;  // ranks of each group, in group order

// Number of ranks of the world that the meshes number.
std::int64_t world_size(std::span<const ir::Mesh> meshes);

// Coordinate of `rank` along the axis named `axis`; throws ExecutionError if no mesh has it.
std::int64_t coordinate_along(std::span<const ir::Mesh> meshes, std::int64_t rank, const std::string& axis);

// The groups that span `axes`: ranks that agree on all other axes of the mesh, the first named axis most significant.
// Throws ExecutionError if no mesh has all axes, or if two meshes have them and disagree.
Groups groups_of(std::span<const ir::Mesh> meshes, std::span<const std::string> axes);

// One collective. `operand` and the result hold one array per rank.
RankArrays run_collective(std::span<const ir::Mesh> meshes, const ir::Instruction& instruction,
                          const RankArrays& operand);

// Runs `program` on every rank. `inputs`: every value without a defining instruction, one tensor per rank.
std::vector<RankTensors> run_cluster(std::span<const ir::Mesh> meshes, const ir::Program& program,
                                     const std::map<ir::ValueId, RankTensors>& inputs,
                                     std::span<const ir::ValueId> wanted);

}  // namespace shardproof::runtime

// Named meshes of ranks (JAX/PyTorch DeviceMesh, Shardy sdy.mesh, Megatron RankGenerator).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/source.h"

namespace shardproof::ir {

// One named axis. Axes of a mesh are listed major to minor in rank order: the last axis varies fastest.
struct MeshAxis {
  std::string name;
  std::int64_t size = 1;
  Span span;
};

// A mesh numbers the world: rank = mixed-radix value of the coordinates, first axis most significant,
// unless `devices` lists the rank at each position explicitly. Several meshes may factorise the same
// world (attention mesh dp x cp x tp, expert mesh edp x ep x etp); they are related by rank equality.
struct Mesh {
  std::string name;
  std::vector<MeshAxis> axes;
  std::vector<std::int64_t> devices;  // empty: 0, 1, 2, ... in position order
  Span span;
  bool joined = false;  // of a plan whose stages were joined: positions are those within a stage

  std::int64_t size() const;  // product of axis sizes
  std::optional<std::size_t> find_axis(const std::string& axis) const;
};

using Coordinate = std::vector<std::int64_t>;  // one entry per axis of a mesh

std::int64_t rank_of(const Mesh& mesh, const Coordinate& coordinate);
Coordinate coordinate_of(const Mesh& mesh, std::int64_t rank);      // rank in the mesh's devices
std::string describe_rank(const Mesh& mesh, std::int64_t rank);     // "rank 3 (dp=0, tp=3)"

}  // namespace shardproof::ir

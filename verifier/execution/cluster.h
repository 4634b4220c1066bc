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
#include "verifier/execution/interpreter.h"
#include "verifier/execution/tensor.h"

namespace shardproof::execution {

template <typename T>
using RankTensorsOf = std::vector<TensorOf<T>>;  // one per rank
using RankTensors = RankTensorsOf<double>;
using Groups = std::vector<std::vector<std::int64_t>>;  // ranks of each group, in group order

// Number of ranks of the world that the meshes number.
std::int64_t world_size(std::span<const ir::Mesh> meshes);

// Coordinate of `rank` along the axis named `axis`; throws ExecutionError if no mesh has it.
std::int64_t coordinate_along(std::span<const ir::Mesh> meshes, std::int64_t rank, const std::string& axis);

// The groups that span `axes`: ranks that agree on all other axes of the mesh, the first named axis most significant.
// Throws ExecutionError if no mesh has all axes, or if two meshes have them and disagree.
Groups groups_of(std::span<const ir::Mesh> meshes, std::span<const std::string> axes);

// One collective. `operand` and the result hold one array per rank.
RankArrays run_collective(const Domain& domain, std::span<const ir::Mesh> meshes, const ir::Instruction& instruction,
                          const RankArrays& operand);

// All ranks of the meshes as the interpreter sees them. Keeps references to the arguments.
Machine cluster(const Domain& domain, std::span<const ir::Mesh> meshes);

// A single device: one rank without mesh axes or collectives.
Machine single_device();

// Throws ExecutionError unless an input of the program is given with its declared shape.
void check_given(const ir::Program& program, ir::ValueId id, const ir::Shape& found);

// Runs `program` on every rank. `inputs`: every value without a defining instruction, one tensor per rank.
template <typename T>
std::vector<RankTensorsOf<T>> run_cluster(const DomainOf<T>& domain, std::span<const ir::Mesh> meshes,
                                          const ir::Program& program,
                                          const std::map<ir::ValueId, RankTensorsOf<T>>& inputs,
                                          std::span<const ir::ValueId> wanted, Observer observe = {}) {
  Interpreter interpreter(domain, program, cluster(domain, meshes));
  interpreter.observe = std::move(observe);
  for (const auto& [id, tensors] : inputs) {
    RankArrays arrays;
    for (const TensorOf<T>& tensor : tensors) {
      check_given(program, id, tensor.type.shape);
      arrays.push_back(domain.upload(tensor));
    }
    interpreter.set(id, std::move(arrays));
  }
  interpreter.run();
  std::vector<RankTensorsOf<T>> results;
  for (const ir::ValueId id : wanted) {
    results.emplace_back();
    for (const Array& array : interpreter.get(id))
      results.back().push_back(domain.download(array, program.value(id).type.dtype));
  }
  return results;
}

}  // namespace shardproof::execution

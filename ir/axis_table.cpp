#include "ir/axis_table.h"

namespace shardproof::ir {

AxisTable::AxisTable(const std::vector<Mesh>& meshes) {
  for (const Mesh& mesh : meshes) {
    for (const MeshAxis& axis : mesh.axes) {
      if (axes_.emplace(axis.name, &axis).second) names_.push_back(axis.name);
    }
  }
}

std::int64_t AxisTable::size(std::string_view axis) const {
  const auto found = axes_.find(axis);
  return found == axes_.end() ? 0 : found->second->size;
}

}  // namespace shardproof::ir

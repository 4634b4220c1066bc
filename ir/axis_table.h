// Mesh axes by name over all meshes of a plan. One name may occur in several meshes when it means the same
// coordinate in each (validation checks that), so a name is enough to find an axis.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/mesh.h"

namespace shardproof::ir {

class AxisTable {
 public:
  AxisTable() = default;
  // The meshes must outlive the table and stay where they are.
  explicit AxisTable(const std::vector<Mesh>& meshes);

  std::int64_t size(std::string_view axis) const;  // 0: no such axis
  bool has(std::string_view axis) const { return axes_.contains(axis); }
  const std::vector<std::string_view>& names() const { return names_; }  // each once, in order of declaration

 private:
  std::unordered_map<std::string_view, const MeshAxis*> axes_;
  std::vector<std::string_view> names_;
};

}  // namespace shardproof::ir

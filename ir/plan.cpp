#include "ir/plan.h"

namespace shardproof::ir {

const Mesh* Plan::find_mesh(const std::string& mesh_name) const {
  if (mesh_name.empty()) return meshes.empty() ? nullptr : &meshes.front();
  for (const Mesh& mesh : meshes) {
    if (mesh.name == mesh_name) return &mesh;
  }
  return nullptr;
}

const FlatBuffer* Plan::find_buffer(const std::string& buffer_name) const {
  for (const FlatBuffer& buffer : buffers) {
    if (buffer.name == buffer_name) return &buffer;
  }
  return nullptr;
}

Span Schedule::span_of(std::size_t row, std::size_t cell) const {
  if (row >= action_spans.size() || cell >= action_spans[row].size()) return span;
  return action_spans[row][cell];
}

}  // namespace shardproof::ir

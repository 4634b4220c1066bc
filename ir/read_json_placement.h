// Meshes, placements, buffers and bindings in plan files. Internal to the reader.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/plan.h"
#include "ir/read_json_fields.h"
#include "ir/reference_index.h"

namespace shardproof::ir {

enum class BindingKind : std::uint8_t { input, state, output };

class PlacementReader {
 public:
  PlacementReader(Findings& findings, const Plan& plan, const ReferenceIndex& reference)
      : findings_(findings), plan_(plan), reference_(reference) {}

  FlatBuffer read_buffer(JsonRef object);
  // To be called once all buffers are in the plan, before any binding is read.
  void index_buffers();
  // The binding fields of an input, state or output entry. `*local` becomes the shape of the local tensor
  // where the placement alone decides it and no finding was made.
  Binding read_binding(const Fields& fields, BindingKind kind, const std::string& name,
                       std::optional<TensorType>* local);
  // {"pp": [0, 1]}
  std::vector<OwnedAxis> read_owned(JsonRef object, const Mesh* mesh, std::string_view what);

 private:
  // `extents`: of the logical tensor; nullptr if unknown. `explicit_digits`: no digit is left out (fused
  // parts, where a local digit of extent 1 has a meaning).
  Placement read_placement(const Fields& fields, const Shape* extents, bool explicit_digits);
  std::vector<DimLayout> read_dims(JsonRef array, const Shape* extents, const Mesh& mesh, bool explicit_digits);
  DimLayout read_dim(JsonRef value, std::int64_t extent, std::size_t position, const Mesh& mesh, bool explicit_digits);
  std::optional<Digit> read_digit(JsonRef value, const Mesh& mesh);
  void complete(DimLayout& layout, std::int64_t extent, std::size_t position, JsonRef place);
  bool known_axis(Span span, std::string_view axis, const Mesh& mesh);
  std::vector<FusedPart> read_fused(JsonRef array);
  // Shape of the tensor that `name` binds to, reporting an unknown name.
  const TensorType* target(JsonRef place, BindingKind kind, std::string_view name);

  Findings& findings_;
  const Plan& plan_;  // meshes and buffers
  const ReferenceIndex& reference_;
  std::unordered_map<std::string_view, const FlatBuffer*> buffers_;
};

Mesh read_mesh(Findings& findings, JsonRef object);
// The short form: only the axes, [["dp", 2], ["tp", 4]].
Mesh read_mesh_axes(Findings& findings, JsonRef axes);

// Fields that read_binding and read_placement understand.
inline constexpr std::string_view binding_fields[] = {"of",   "fused", "fuse_axis", "buffer", "role",
                                                      "mesh", "dims",  "partial",   "owned",  "pad_value"};

}  // namespace shardproof::ir

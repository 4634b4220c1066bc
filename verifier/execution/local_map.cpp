#include "verifier/execution/local_map.h"

#include <algorithm>
#include <numeric>

#include "ir/mesh.h"

namespace shardproof::execution {

namespace {

using Kind = LocalElement::Kind;
using Integers = std::vector<std::int64_t>;

std::int64_t product(const Integers& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{1}, std::multiplies<>());
}

// Coordinates of one rank in the mesh of a placement.
class RankView {
 public:
  RankView(const ir::Plan& plan, const ir::Placement& placement, std::int64_t rank)
      : mesh_(plan.find_mesh(placement.mesh)), rank_(rank) {
    if (mesh_ == nullptr) throw ExecutionError("placement on unknown mesh `" + placement.mesh + "`");
  }

  std::int64_t size(const std::string& axis) const { return mesh_->axes[position(axis)].size; }
  std::int64_t coordinate(const std::string& axis) const { return ir::coordinate_of(*mesh_, rank_)[position(axis)]; }
  bool owns(const std::vector<ir::OwnedAxis>& owned) const {
    return std::all_of(owned.begin(), owned.end(), [&](const ir::OwnedAxis& o) {
      return std::find(o.coordinates.begin(), o.coordinates.end(), coordinate(o.axis)) != o.coordinates.end();
    });
  }
  std::int64_t digit(const ir::Digit& d) const {
    const std::int64_t axis = size(d.axis);
    if (axis % (d.pre * d.size) != 0) throw ExecutionError("sub-axis of `" + d.axis + "` does not divide its size");
    return coordinate(d.axis) / (axis / (d.pre * d.size)) % d.size;
  }

 private:
  std::size_t position(const std::string& axis) const {
    const std::optional<std::size_t> found = mesh_->find_axis(axis);
    if (!found) throw ExecutionError("mesh `" + mesh_->name + "` has no axis `" + axis + "`");
    return *found;
  }

  const ir::Mesh* mesh_;
  std::int64_t rank_;
};

void check_layout(const ir::DimLayout& layout, std::int64_t extent) {
  std::int64_t digits = 1;
  for (const ir::Digit& d : layout.digits) digits *= d.size;
  if (!layout.offsets.empty()) {
    if (layout.offsets.front() != 0 || layout.offsets.back() != extent) {
      throw ExecutionError("ragged offsets do not span extent " + std::to_string(extent));
    }
    return;
  }
  const std::int64_t wanted = layout.padded_extent == 0 ? extent : layout.padded_extent;
  if (digits != wanted || wanted < extent) {
    throw ExecutionError("digits of product " + std::to_string(digits) + " on extent " + std::to_string(extent));
  }
}

// Index along the logical dimension for the given values of the local digits; -1: in ragged slack. Consumes the values
// of its own local digits from `local`.
std::int64_t logical_index(const ir::DimLayout& layout, const RankView& view, Integers::const_iterator& local) {
  Integers values;
  for (const ir::Digit& d : layout.digits) values.push_back(d.is_local() ? *local++ : view.digit(d));
  if (!layout.offsets.empty()) {
    const bool fits = layout.digits.size() == 2 && !layout.digits[0].is_local() && layout.digits[1].is_local();
    if (!fits) throw ExecutionError("ragged offsets need digits [axis][local]");
    const auto owner = static_cast<std::size_t>(values[0]);
    const std::int64_t index = layout.offsets.at(owner) + values[1];
    return index < layout.offsets.at(owner + 1) ? index : -1;
  }
  std::int64_t index = 0;
  std::size_t next = 0;
  if (layout.permutation == ir::Permutation::zigzag) {
    const std::int64_t ranks = layout.digits.at(0).size;
    if (layout.digits.at(0).is_local() || !layout.digits.at(1).is_local() || layout.digits[1].size != 2) {
      throw ExecutionError("zigzag needs digits [axis][local 2] first");
    }
    index = values[1] == 0 ? values[0] : 2 * ranks - 1 - values[0];
    next = 2;
  }
  for (; next < values.size(); ++next) index = index * layout.digits[next].size + values[next];
  return index;
}

// A tensor under a placement before it is given a shape: one axis per local digit.
struct Part {
  Integers extents;
  std::vector<LocalElement> elements;
};

Part map_part(const ir::Plan& plan, const ir::Placement& placement, const ir::Shape& shape, std::int32_t tensor,
              std::int64_t rank) {
  if (placement.dims.size() != shape.size()) {
    throw ExecutionError("placement of " + std::to_string(placement.dims.size()) + " dimensions on a tensor of " +
                         std::to_string(shape.size()));
  }
  const RankView view(plan, placement, rank);
  const bool owned = view.owns(placement.owned);
  Part part;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    check_layout(placement.dims[d], shape[d]);
    for (const ir::Digit& digit : placement.dims[d].digits) {
      if (digit.is_local()) part.extents.push_back(digit.size);
    }
  }
  const Kind pad = placement.pad == ir::PadValue::zero ? Kind::pad_zero : Kind::pad_any;
  const std::int64_t count = product(part.extents);
  for (std::int64_t i = 0; i < count; ++i) {
    const Integers local = unflatten(part.extents, i);
    Integers::const_iterator next = local.begin();
    Integers logical;
    for (const ir::DimLayout& layout : placement.dims) logical.push_back(logical_index(layout, view, next));
    bool inside = true;
    for (std::size_t d = 0; d < shape.size(); ++d) inside = inside && logical[d] >= 0 && logical[d] < shape[d];
    if (!owned) {
      part.elements.push_back({Kind::pad_any, 0, 0});
    } else if (inside) {
      part.elements.push_back({Kind::element, tensor, flat_index(shape, logical)});
    } else {
      part.elements.push_back({pad, 0, 0});
    }
  }
  return part;
}

// Concatenation of the parts along one of their digit axes.
Part concatenate_parts(const std::vector<Part>& parts, std::int64_t fuse_axis) {
  const auto axis = static_cast<std::size_t>(fuse_axis);
  if (parts.empty() || axis >= parts.front().extents.size()) throw ExecutionError("fuse axis is outside of the parts");
  Part whole;
  whole.extents = parts.front().extents;
  whole.extents[axis] = 0;
  for (const Part& part : parts) {
    Integers same = part.extents;
    if (same.size() == whole.extents.size()) same[axis] = whole.extents[axis];
    if (same != whole.extents) throw ExecutionError("fused parts differ beside their fuse axis");
    whole.extents[axis] += part.extents[axis];
  }
  whole.elements.resize(static_cast<std::size_t>(product(whole.extents)));
  std::int64_t start = 0;
  for (const Part& part : parts) {
    for (std::size_t i = 0; i < part.elements.size(); ++i) {
      Integers index = unflatten(part.extents, static_cast<std::int64_t>(i));
      index[axis] += start;
      whole.elements[static_cast<std::size_t>(flat_index(whole.extents, index))] = part.elements[i];
    }
    start += part.extents[axis];
  }
  return whole;
}

// Collects the parts of one binding and the names of the reference tensors they come from.
class Mapper {
 public:
  Mapper(const ir::Plan& plan, const ReferenceNames& reference, std::string role, std::int64_t rank)
      : plan_(plan), reference_(reference), role_(std::move(role)), rank_(rank) {}

  // `name`: a reference tensor, or a parameter if there is a role.
  Part part(const std::string& name, const ir::Placement& placement) {
    std::string tensor = name;
    if (!role_.empty()) {
      const auto found = reference_.by_role.find({role_, name});
      if (found == reference_.by_role.end()) {
        throw ExecutionError("parameter `" + name + "` has no state with role `" + role_ + "`");
      }
      tensor = found->second;
    }
    const ir::Shape* shape = reference_.shape_of(tensor);
    if (shape == nullptr) throw ExecutionError("no reference tensor `" + tensor + "` at this point");
    tensors_.push_back(tensor);
    return map_part(plan_, placement, *shape, static_cast<std::int32_t>(tensors_.size() - 1), rank_);
  }

  Part fused(const std::vector<ir::FusedPart>& fused_parts, std::int64_t fuse_axis) {
    std::vector<Part> parts;
    for (const ir::FusedPart& p : fused_parts) {
      if (!p.placement.partial.empty()) throw ExecutionError("a fused part cannot be partial by itself");
      parts.push_back(part(p.of, p.placement));
    }
    return concatenate_parts(parts, fuse_axis);
  }

  // The whole buffer as this rank sees it before it is cut.
  std::vector<LocalElement> buffer(const ir::FlatBuffer& layout, Kind gap) {
    std::vector<LocalElement> whole(static_cast<std::size_t>(layout.size), LocalElement{gap, 0, 0});
    std::vector<bool> taken(whole.size(), false);
    for (const ir::BufferMember& member : layout.members) {
      if (!member.placement.partial.empty()) throw ExecutionError("a buffer member cannot be partial by itself");
      const Part p =
          member.fused.empty() ? part(member.param, member.placement) : fused(member.fused, member.fuse_axis);
      for (std::size_t i = 0; i < p.elements.size(); ++i) {
        const auto at = static_cast<std::size_t>(member.offset) + i;
        if (at >= whole.size() || taken[at]) {
          throw ExecutionError("a member of buffer `" + layout.name + "` overlaps another one or its end");
        }
        taken[at] = true;
        whole[at] = p.elements[i];
      }
    }
    return whole;
  }

  std::vector<std::string> take_tensors() { return std::move(tensors_); }

 private:
  const ir::Plan& plan_;
  const ReferenceNames& reference_;
  std::string role_;
  std::int64_t rank_;
  std::vector<std::string> tensors_;
};

std::string subject(const ir::Binding& binding) {
  if (!binding.of.empty()) return "`" + binding.of + "`";
  if (!binding.buffer.empty())
    return "buffer `" + binding.buffer + "`" + (binding.role.empty() ? "" : " as " + binding.role);
  std::string text = "fused";
  for (const ir::FusedPart& part : binding.fused) text += " `" + part.of + "`";
  return text;
}

}  // namespace

LocalMap map_local(const ir::Plan& plan, const ReferenceNames& reference, const ir::Binding& binding,
                   const ir::Shape& local_shape, std::int64_t rank) {
  const int forms = (binding.of.empty() ? 0 : 1) + (binding.fused.empty() ? 0 : 1) + (binding.buffer.empty() ? 0 : 1);
  if (forms != 1) throw ExecutionError("a binding names a tensor, fused parts or a buffer, and exactly one of them");
  const ir::Placement& placement = binding.placement;
  LocalMap map;
  map.exists = RankView(plan, placement, rank).owns(placement.owned);
  ir::Shape shape = local_shape;
  if (!binding.of.empty()) {
    Mapper mapper(plan, reference, {}, rank);
    map.elements = mapper.part(binding.of, placement).elements;
    map.tensors = mapper.take_tensors();
    shape.clear();
    for (const ir::DimLayout& layout : placement.dims) {
      std::int64_t extent = 1;
      for (const ir::Digit& d : layout.digits) extent *= d.is_local() ? d.size : 1;
      shape.push_back(extent);
    }
  } else if (!binding.fused.empty()) {
    if (!placement.dims.empty()) throw ExecutionError("the placement of a fused binding has no dimensions");
    Mapper mapper(plan, reference, binding.role, rank);
    map.elements = mapper.fused(binding.fused, binding.fuse_axis).elements;
    map.tensors = mapper.take_tensors();
  } else {
    const ir::FlatBuffer* buffer = plan.find_buffer(binding.buffer);
    if (buffer == nullptr) throw ExecutionError("no flat buffer `" + binding.buffer + "`");
    const Kind gap = placement.pad == ir::PadValue::zero ? Kind::pad_zero : Kind::pad_any;
    Mapper mapper(plan, reference, binding.role.empty() ? "param" : binding.role, rank);
    const std::vector<LocalElement> whole = mapper.buffer(*buffer, gap);
    map.tensors = mapper.take_tensors();
    // The cut: the buffer is the "tensor" whose elements this rank keeps.
    for (const LocalElement& kept : map_part(plan, placement, {buffer->size}, 0, rank).elements) {
      map.elements.push_back(kept.kind == Kind::element ? whole[static_cast<std::size_t>(kept.flat)] : kept);
    }
  }
  if (shape != local_shape || static_cast<std::int64_t>(map.elements.size()) != ir::element_count(local_shape)) {
    throw ExecutionError(subject(binding) + " under its placement has " + std::to_string(map.elements.size()) +
                         " local elements or another shape than the value");
  }
  return map;
}

std::vector<LocalMap> map_ranks(const ir::Plan& plan, const ReferenceNames& reference, const ir::Binding& binding,
                                const ir::Shape& local_shape) {
  std::vector<LocalMap> maps;
  for (std::int64_t rank = 0; rank < world_size(plan.meshes); ++rank) {
    maps.push_back(map_local(plan, reference, binding, local_shape, rank));
  }
  return maps;
}

const std::vector<LocalMap>& LocalMaps::of(const ir::Plan& plan, const ReferenceNames& reference,
                                           const ir::Binding& binding, const ir::Shape& local_shape) {
  const auto found = maps_.find(&binding);
  if (found != maps_.end()) return found->second;
  return maps_.emplace(&binding, map_ranks(plan, reference, binding, local_shape)).first->second;
}

bool LocalMaps::leave_open() const {
  for (const auto& [binding, ranks] : maps_)
    for (const LocalMap& map : ranks)
      for (const LocalElement& element : map.elements)
        if (!map.exists || element.kind == LocalElement::Kind::pad_any) return true;
  return false;
}

Groups groups_along(const ir::Plan& plan, const ir::Placement& placement, const std::string& axis) {
  const ir::Mesh* mesh = plan.find_mesh(placement.mesh);
  if (mesh == nullptr) throw ExecutionError("placement on unknown mesh `" + placement.mesh + "`");
  const std::vector<std::string> axes = {axis};
  return groups_of({mesh, 1}, axes);
}

}  // namespace shardproof::execution

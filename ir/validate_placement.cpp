// Placements are index maps: they must cover the tensor exactly once for each set of replicas. With mixed-
// radix digits that follows from local facts. Distinct parts of the mesh coordinates drive distinct digits
// (no axis range is used twice) and the digit sizes multiply to the extent, so (coordinates, local index) ->
// element is a bijection up to the coordinates no digit uses, and those are the replicas.
#include <algorithm>

#include "ir/check.h"
#include "ir/validate.h"
#include "ir/validate_parts.h"

namespace shardproof::ir {

namespace {

enum class Class { real, integer, boolean };
Class class_of(DType dtype) {
  return is_float(dtype) ? Class::real : is_integer(dtype) ? Class::integer : Class::boolean;
}
std::string_view class_name(Class c) {
  return c == Class::real ? "a float tensor" : c == Class::integer ? "an integer tensor" : "a bool tensor";
}

std::optional<std::int64_t> product(const std::vector<std::int64_t>& factors) {
  std::int64_t total = 1;
  for (const std::int64_t factor : factors) {
    if (factor < 1 || __builtin_mul_overflow(total, factor, &total)) return std::nullopt;
  }
  return total;
}

bool divides(std::int64_t a, std::int64_t b) {
  return b % a == 0;
}

}  // namespace

// Ranges [pre, pre*size) of one axis are independent digits of its coordinate when one lies, as a factor,
// wholly above the other. Other pairs share a part of the coordinate.
bool overlap(const AxisUse& a, const AxisUse& b) {
  if (a.axis != b.axis || a.size == 1 || b.size == 1) return false;
  return !divides(a.pre * a.size, b.pre) && !divides(b.pre * b.size, a.pre);
}

bool PlacementChecker::use_axis(AxisUse use, std::string_view where, Span span, std::vector<AxisUse>& uses) {
  if (use.size == 1) return true;  // carries no information
  for (const AxisUse& other : uses) {
    if (!overlap(use, other)) continue;
    problems_.error("SP0103", "axis-used-twice",
                    "axis " + backticked(use.axis) + " is used twice in " + std::string(where), span,
                    "each part of a mesh axis in one role");
    return false;
  }
  uses.push_back(use);
  return true;
}

bool PlacementChecker::check_ragged(const DimLayout& layout, std::int64_t extent, const std::string& where, Span span) {
  const auto& digits = layout.digits;
  const bool form = digits.size() == 2 && !digits[0].is_local() && digits[1].is_local() && layout.padded_extent == 0 &&
                    layout.permutation == Permutation::none;
  if (!form) {
    problems_.error("SP0107", "malformed-layout", where + " is ragged but not one axis over one local digit", span,
                    "[axis, local] with offsets");
    return false;
  }
  const auto& offsets = layout.offsets;
  std::int64_t largest = 0;
  bool ascending = static_cast<std::int64_t>(offsets.size()) - 1 == digits[0].size && offsets.front() == 0 &&
                   offsets.back() == extent;
  for (std::size_t i = 1; ascending && i < offsets.size(); ++i) {
    ascending = offsets[i - 1] <= offsets[i];
    if (ascending) largest = std::max(largest, offsets[i] - offsets[i - 1]);
  }
  if (!ascending) {
    problems_.error("SP0107", "malformed-layout", "the offsets of " + where + " do not cut the dimension", span,
                    std::to_string(digits[0].size + 1) + " ascending offsets from 0 to " + std::to_string(extent));
    return false;
  }
  if (digits[1].size != std::max<std::int64_t>(1, largest)) {
    problems_.error("SP0107", "malformed-layout", "the local digit of " + where + " is not the largest shard", span,
                    std::to_string(std::max<std::int64_t>(1, largest)), std::to_string(digits[1].size));
    return false;
  }
  return true;
}

bool PlacementChecker::check_dim(const DimLayout& layout, std::int64_t extent, const Mesh& mesh,
                                 const std::string& where, Span span, std::vector<AxisUse>& uses, LocalLayout& local) {
  std::int64_t total = 1;
  std::int64_t local_extent = 1;
  for (const Digit& digit : layout.digits) {
    if (digit.size < 1 || __builtin_mul_overflow(total, digit.size, &total)) {
      problems_.error("SP0118", "extent-limit", "a digit of " + where + " is out of bounds", span,
                      "digits of 1 or more, with a 64-bit product", std::to_string(digit.size));
      return false;
    }
    if (digit.is_local()) {
      local_extent *= digit.size;
      local.digits.push_back(digit.size);
      continue;
    }
    const auto axis = mesh.find_axis(digit.axis);
    if (!axis) {
      problems_.error("SP0101", "unknown-mesh-axis",
                      "mesh " + backticked(mesh.name) + " has no axis " + backticked(digit.axis), span);
      return false;
    }
    const std::int64_t size = mesh.axes[*axis].size;
    std::int64_t range = 0;
    if (digit.pre < 1 || __builtin_mul_overflow(digit.pre, digit.size, &range) || !divides(range, size)) {
      problems_.error("SP0104", "malformed-sub-axis",
                      "(" + std::to_string(digit.pre) + ")" + std::to_string(digit.size) + " is no sub-axis of " +
                          backticked(digit.axis),
                      span, "pre * size divides " + std::to_string(size));
      return false;
    }
    if (!use_axis({digit.axis, digit.pre, digit.size}, "the placement of " + where, span, uses)) return false;
  }
  local.shape.push_back(local_extent);
  if (!layout.offsets.empty()) return check_ragged(layout, extent, where, span);
  if (layout.permutation == Permutation::zigzag) {
    const auto& digits = layout.digits;
    if (digits.size() < 2 || digits[0].is_local() || !digits[1].is_local() || digits[1].size != 2) {
      problems_.error("SP0107", "malformed-layout", "the zigzag order of " + where + " needs pairs of chunks", span,
                      "digits that begin with [axis, 2]");
      return false;
    }
  }
  if (layout.padded_extent != 0 && layout.padded_extent < extent) {
    problems_.error("SP0102", "extent-mismatch", where + " is padded to less than its extent", span,
                    "at least " + std::to_string(extent), std::to_string(layout.padded_extent));
    return false;
  }
  const std::int64_t goal = layout.padded_extent != 0 ? layout.padded_extent : extent;
  if (total != goal) {
    problems_.error("SP0102", "extent-mismatch", "the digits of " + where + " do not multiply to its extent", span,
                    std::to_string(goal), std::to_string(total),
                    total > goal && layout.padded_extent == 0 ? "declare the padding: \"pad\": " + std::to_string(total)
                                                              : std::string{});
    return false;
  }
  return true;
}

std::optional<LocalLayout> PlacementChecker::check_placement(const Placement& placement, const Shape& extents,
                                                             const std::string& name, Span span,
                                                             std::vector<AxisUse>& uses) {
  const Span place = placement.span.known() ? placement.span : span;
  const auto named = meshes_.by_name.find(placement.mesh);
  if (!placement.mesh.empty() && named == meshes_.by_name.end()) {
    problems_.error("SP0007", "unknown-name", "there is no mesh " + backticked(placement.mesh), place);
    return std::nullopt;
  }
  const Mesh& mesh = placement.mesh.empty() ? plan_.meshes.front() : *named->second;
  if (placement.dims.size() != extents.size()) {
    problems_.error("SP0102", "extent-mismatch",
                    "the placement of " + backticked(name) + " has another number of dimensions than the tensor", place,
                    std::to_string(extents.size()), std::to_string(placement.dims.size()));
    return std::nullopt;
  }
  bool good = true;
  LocalLayout local;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const std::string where = "dimension " + std::to_string(i) + " of " + backticked(name);
    good = check_dim(placement.dims[i], extents[i], mesh, where, place, uses, local) && good;
  }
  for (const PartialAxis& partial : placement.partial) {
    const auto axis = mesh.find_axis(partial.axis);
    if (!axis) {
      problems_.error("SP0101", "unknown-mesh-axis",
                      "mesh " + backticked(mesh.name) + " has no axis " + backticked(partial.axis), place);
      good = false;
      continue;
    }
    good =
        use_axis({partial.axis, 1, mesh.axes[*axis].size}, "the placement of " + backticked(name), place, uses) && good;
  }
  for (const OwnedAxis& owned : placement.owned) {
    const auto axis = mesh.find_axis(owned.axis);
    const std::int64_t size = axis ? mesh.axes[*axis].size : 0;
    good = check_owned(owned, size, place, problems_) &&
           use_axis({owned.axis, 1, size}, "the placement of " + backticked(name), place, uses) && good;
  }
  if (!good) return std::nullopt;
  return local;
}

std::optional<std::int64_t> PlacementChecker::check_fused(const std::vector<FusedPart>& parts, std::int64_t fuse_axis,
                                                          const std::string& name, Span span,
                                                          const std::vector<AxisUse>& outside,
                                                          std::vector<AxisUse>& all_uses) {
  std::vector<std::int64_t> fused;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const FusedPart& part = parts[i];
    const Span place = part.placement.span.known() ? part.placement.span : span;
    const ValueId target = index_.state(part.of);
    if (!target.valid()) {
      problems_.error("SP0111", "unknown-reference-tensor",
                      "part " + backticked(part.of) + " of " + backticked(name) + " is no reference state", place);
      return std::nullopt;
    }
    if (!part.placement.partial.empty() || !part.placement.owned.empty()) {
      problems_.error("SP0112", "fused-parts-mismatch",
                      "part " + backticked(part.of) + " of " + backticked(name) + " is partial or owned by itself",
                      place, "`partial` and `owned` of the whole tensor");
      return std::nullopt;
    }
    std::vector<AxisUse> uses = outside;
    const std::optional<LocalLayout> local =
        check_placement(part.placement, index_.type(target).shape, part.of, place, uses);
    if (!local) return std::nullopt;
    all_uses.insert(all_uses.end(), uses.begin() + static_cast<std::ptrdiff_t>(outside.size()), uses.end());
    if (fuse_axis < 0 || fuse_axis >= static_cast<std::int64_t>(local->digits.size())) {
      problems_.error("SP0112", "fused-parts-mismatch",
                      "the fuse axis of " + backticked(name) + " is not a local digit of part " + backticked(part.of),
                      place, "0 to " + std::to_string(static_cast<std::int64_t>(local->digits.size()) - 1),
                      std::to_string(fuse_axis));
      return std::nullopt;
    }
    const auto axis = static_cast<std::size_t>(fuse_axis);
    if (i == 0) {
      fused = local->digits;
      continue;
    }
    bool equal = fused.size() == local->digits.size();
    for (std::size_t d = 0; equal && d < fused.size(); ++d) equal = d == axis || fused[d] == local->digits[d];
    if (!equal || __builtin_add_overflow(fused[axis], local->digits[axis], &fused[axis])) {
      problems_.error(
          "SP0112", "fused-parts-mismatch",
          "part " + backticked(part.of) + " of " + backticked(name) + " does not fit the first part off the fuse axis",
          place, "the same local digits except at position " + std::to_string(axis));
      return std::nullopt;
    }
  }
  return product(fused);
}

ValueId PlacementChecker::resolve_role(const std::string& role, const std::string& param, const std::string& name,
                                       Span span) {
  const ValueId target = index_.state_with_role(role, param);
  const ValueId parameter = index_.state(param);
  if (!target.valid()) {
    problems_.error("SP0111", "unknown-reference-tensor",
                    "no reference state is the " + backticked(role) + " of " + backticked(param) + ", as " +
                        backticked(name) + " says",
                    span);
  } else if (parameter.valid() && index_.type(target).shape != index_.type(parameter).shape) {
    problems_.error("SP0111", "unknown-reference-tensor",
                    "the " + backticked(role) + " of " + backticked(param) + " has another shape and cannot lie in " +
                        backticked(name),
                    span, to_string(index_.type(parameter)), to_string(index_.type(target)));
    return {};
  }
  return target;
}

void PlacementChecker::check_class(DType local, ValueId target, const std::string& name, Span span) {
  const DType wanted = index_.type(target).dtype;
  if (class_of(local) == class_of(wanted)) return;
  problems_.error("SP0109", "dtype-mismatch",
                  backticked(name) + " cannot represent " + backticked(reference_.program.value(target).name) +
                      ": the dtypes differ in kind",
                  span, std::string(class_name(class_of(wanted))), std::string(dtype_name(local)));
}

void PlacementChecker::check_buffers() {
  for (const FlatBuffer& buffer : plan_.buffers) {
    if (problems_.full()) return;
    const std::string name = backticked(buffer.name);
    if (!buffers_.emplace(buffer.name, &buffer).second) {
      problems_.error("SP0113", "malformed-buffer", "two buffers are named " + name, buffer.span, "distinct names");
    }
    if (buffer.size < 1 || buffer.size > kMaxExtent) {
      problems_.error("SP0118", "extent-limit", "the size of buffer " + name + " is out of bounds", buffer.span,
                      "1 to 2^40 elements", std::to_string(buffer.size));
      continue;
    }
    struct Piece {
      std::int64_t begin;
      std::int64_t end;
      const BufferMember* member;
    };
    std::vector<Piece> pieces;
    std::unordered_set<std::string_view> params;
    std::vector<AxisUse>& member_uses = buffer_uses_[&buffer];
    for (const BufferMember& member : buffer.members) {
      if (problems_.full()) return;
      std::vector<AxisUse> uses;
      std::optional<std::int64_t> size;
      const std::string member_name = member.fused.empty() ? member.param : "fused member of " + buffer.name;
      if (member.fused.empty()) {
        const ValueId target = index_.state(member.param);
        if (!target.valid()) {
          problems_.error("SP0111", "unknown-reference-tensor",
                          "member " + backticked(member.param) + " of buffer " + name + " is no reference state",
                          member.span);
          continue;
        }
        const auto local =
            check_placement(member.placement, index_.type(target).shape, member.param, member.span, uses);
        if (local) size = product(local->shape);
      } else if (check_placement(member.placement, {}, member_name, member.span, uses)) {
        const std::vector<AxisUse> outside = uses;
        size = check_fused(member.fused, member.fuse_axis, member_name, member.span, outside, uses);
      }
      std::vector<std::string_view> held;
      if (member.fused.empty()) held.push_back(member.param);
      for (const FusedPart& part : member.fused) held.push_back(part.of);
      for (const std::string_view param : held) {
        if (params.insert(param).second) continue;
        problems_.error("SP0113", "malformed-buffer", "buffer " + name + " holds " + backticked(param) + " twice",
                        member.span, "each tensor once");
      }
      for (const AxisUse& use : uses) {
        const auto same = [&](const AxisUse& other) {
          return other.axis == use.axis && other.pre == use.pre && other.size == use.size;
        };
        if (std::none_of(member_uses.begin(), member_uses.end(), same)) member_uses.push_back(use);
      }
      if (!size) continue;
      std::int64_t end = 0;
      if (member.offset < 0 || __builtin_add_overflow(member.offset, *size, &end) || end > buffer.size) {
        problems_.error("SP0113", "malformed-buffer", backticked(member_name) + " does not lie inside buffer " + name,
                        member.span, std::to_string(buffer.size) + " elements at most",
                        "offset " + std::to_string(member.offset) + " and " + std::to_string(*size) + " elements");
        continue;
      }
      pieces.push_back({member.offset, end, &member});
    }
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < pieces.size() && !problems_.full(); ++i) {
      if (pieces[i].begin >= pieces[i - 1].end) continue;
      problems_.error("SP0113", "malformed-buffer", "two members of buffer " + name + " overlap",
                      pieces[i].member->span, "an offset of " + std::to_string(pieces[i - 1].end) + " or more",
                      std::to_string(pieces[i].begin));
    }
  }
}

std::vector<ValueId> PlacementChecker::claims_of(const Binding& binding) const {
  std::vector<ValueId> claims;
  const auto claim = [&](const std::string& role, const std::string& name) {
    const ValueId id = role.empty() ? index_.state(name) : index_.state_with_role(role, name);
    if (id.valid()) claims.push_back(id);
  };
  if (!binding.of.empty()) claim({}, binding.of);
  for (const FusedPart& part : binding.fused) claim(binding.role, part.of);
  if (const auto found = buffers_.find(binding.buffer); !binding.buffer.empty() && found != buffers_.end()) {
    for (const BufferMember& member : found->second->members) {
      if (member.fused.empty()) claim(binding.role, member.param);
      for (const FusedPart& part : member.fused) claim(binding.role, part.of);
    }
  }
  return claims;
}

void PlacementChecker::check_binding(const Binding& binding, Kind kind, const std::string& name, Span span,
                                     const TensorType& type) {
  const int forms = (binding.of.empty() ? 0 : 1) + (binding.fused.empty() ? 0 : 1) + (binding.buffer.empty() ? 0 : 1);
  if (forms != 1) {
    problems_.error("SP0111", "unknown-reference-tensor",
                    backticked(name) + " is not bound to reference tensors in one way", span,
                    "one of `of`, `fused` and `buffer`", std::to_string(forms));
    return;
  }
  if (kind != Kind::state && binding.of.empty()) {
    problems_.error("SP0111", "unknown-reference-tensor", backticked(name) + " is fused, but only state can be", span,
                    "`of`");
    return;
  }
  std::vector<AxisUse> uses;
  const auto wrong_shape = [&](const std::string& expected) {
    problems_.error("SP0108", "local-shape-mismatch",
                    backticked(name) + " has not the shape that its placement leaves on a rank", span, expected,
                    to_string(type));
  };
  if (!binding.of.empty()) {
    const ValueId target = kind == Kind::input   ? index_.input(binding.of)
                           : kind == Kind::state ? index_.state(binding.of)
                                                 : index_.output(binding.of);
    if (!target.valid()) {
      problems_.error("SP0111", "unknown-reference-tensor",
                      backticked(name) + " is bound to " + backticked(binding.of) + ", which is no reference " +
                          std::string(kind == Kind::input   ? "input"
                                      : kind == Kind::state ? "state"
                                                            : "output"),
                      span);
      return;
    }
    check_class(type.dtype, target, name, span);
    const auto local = check_placement(binding.placement, index_.type(target).shape, binding.of, span, uses);
    if (local && local->shape != type.shape) wrong_shape(to_string(TensorType{type.dtype, local->shape}));
    if (kind == Kind::state) claimed_.insert(target.index);
    return;
  }
  if (!binding.fused.empty()) {
    for (const ValueId claim : claims_of(binding)) claimed_.insert(claim.index);
    if (!check_placement(binding.placement, {}, name, span, uses)) return;
    std::vector<AxisUse> part_uses;
    const auto count = check_fused(binding.fused, binding.fuse_axis, name, span, uses, part_uses);
    for (const FusedPart& part : binding.fused) {
      if (!index_.state(part.of).valid()) continue;
      const ValueId target =
          binding.role.empty() ? index_.state(part.of) : resolve_role(binding.role, part.of, name, span);
      if (target.valid()) check_class(type.dtype, target, name, span);
    }
    if (count && product(type.shape) != count) wrong_shape(std::to_string(*count) + " elements");
    return;
  }
  const auto found = buffers_.find(binding.buffer);
  if (found == buffers_.end()) {
    problems_.error("SP0007", "unknown-name", "there is no buffer " + backticked(binding.buffer), span);
    return;
  }
  const FlatBuffer& buffer = *found->second;
  const auto local = check_placement(binding.placement, {buffer.size}, name, span, uses);
  if (local && local->shape != type.shape) wrong_shape(to_string(TensorType{type.dtype, local->shape}));
  for (const AxisUse& use : buffer_uses_[&buffer]) {
    if (!use_axis(use, backticked(name) + ", by the buffer's placement and by one of its members", span, uses)) break;
    uses.pop_back();  // members do not exclude each other
  }
  // What the role makes of the members is the same for every state with that role.
  if (!resolved_.emplace(&buffer, binding.role, static_cast<int>(class_of(type.dtype))).second) return;
  for (const ValueId claim : claims_of(binding)) claimed_.insert(claim.index);
  for (const BufferMember& member : buffer.members) {
    if (problems_.full()) return;
    std::vector<std::string> held;
    if (member.fused.empty()) held.push_back(member.param);
    for (const FusedPart& part : member.fused) held.push_back(part.of);
    for (const std::string& param : held) {
      if (!index_.state(param).valid()) continue;
      const ValueId target = resolve_role(binding.role, param, name, span);
      if (target.valid()) check_class(type.dtype, target, name, span);
    }
  }
}

}  // namespace shardproof::ir

// Meshes, buffers and placements.
#include <algorithm>
#include <functional>

#include "verifier/execution/scale_collect.h"

namespace shardproof::execution {

void Collector::meshes() {
  const auto& all = document_.plan.meshes;
  for (const ir::Mesh& mesh : all) {
    std::vector<Node> axes;
    for (const ir::MeshAxis& axis : mesh.axes) {
      const auto [at, is_new] = all_.axes.try_emplace(axis.name);
      if (is_new) at->second = fresh(axis.size);
      axes.push_back(at->second);
    }
    if (&mesh == &all.front()) continue;
    std::vector<Node> first;
    for (const ir::MeshAxis& axis : all.front().axes) first.push_back(all_.axes.at(axis.name));
    sizes_.product(std::move(first), std::move(axes));
  }
  const auto keep = [&](const std::string& axis) {
    const auto at = all_.axes.find(axis);
    if (at == all_.axes.end() || sizes_.full(at->second) <= 2) return;
    note("axis `" + axis + "` keeps its size: single coordinates of it are named");
    sizes_.keep(at->second);
  };
  for (const ir::Mesh& mesh : all) {
    if (mesh.devices.empty()) continue;
    note("mesh `" + mesh.name + "` keeps its sizes: it lists its devices");
    for (const ir::MeshAxis& axis : mesh.axes) sizes_.keep(all_.axes.at(axis.name));
  }
  const auto owners = [&](const ir::Placement& placement) {
    for (const ir::OwnedAxis& owned : placement.owned) keep(owned.axis);
  };
  for (const ir::StageProgram& stage : document_.plan.stages) {
    for (const ir::OwnedAxis& where : stage.where) keep(where.axis);
    for (const ir::PlanInput& input : stage.inputs) owners(input.binding.placement);
    for (const ir::PlanState& state : stage.state) owners(state.binding.placement);
    for (const ir::PlanOutput& output : stage.outputs) owners(output.binding.placement);
  }
}

const std::vector<Node>& Collector::reference_dims(ir::ValueId id) const {
  static const std::vector<Node> none;
  return id.valid() ? all_.reference.dims[static_cast<std::size_t>(id.index)] : none;
}

Node Collector::joint(const std::vector<Node>& factors) {
  if (factors.size() == 1) return factors[0];
  std::int64_t size = 1;
  for (const Node factor : factors) size *= sizes_.full(factor);
  const Node node = fresh(size);
  if (size != 1) sizes_.product({node}, factors);
  return node;
}

// The local digits of one dimension.
std::vector<Node> Collector::layout(const ir::DimLayout& layout, Node logical) {
  LayoutSlots slots;
  slots.logical = logical;
  std::vector<Node> local;
  for (const ir::Digit& digit : layout.digits) {
    Node size = no_node;
    Node before = no_node;
    if (digit.is_local()) {
      size = fresh(digit.size);
      local.push_back(size);
    } else {
      const Count axis = variable(digit.axis);
      const auto upper = factors(axis, digit.pre);
      before = upper.first;
      // The digit is what the coordinates up to it have beyond those before it.
      const Node up_to = factors(axis, digit.pre * digit.size).first;
      size = digit.pre == 1 ? up_to : fresh(digit.size);
      if (digit.pre != 1) sizes_.product({up_to}, {before, size});
    }
    slots.digits.push_back(size);
    slots.before.push_back(before);
  }
  if (!layout.offsets.empty()) {
    std::map<std::int64_t, Node> lengths;
    for (std::size_t i = 1; i < layout.offsets.size(); ++i) {
      const std::int64_t length = layout.offsets[i] - layout.offsets[i - 1];
      if (length == 0) continue;
      const auto [at, is_new] = lengths.try_emplace(length);
      if (is_new) at->second = fresh(length);
      sizes_.piece(logical, layout.offsets[i - 1], at->second);
    }
    for (const auto& [length, node] : lengths) {
      if (length == layout.digits.back().size) {
        sizes_.unite(node, local.back());
      } else {
        sizes_.order(node, local.back());
      }
    }
    const std::string& axis = layout.digits.front().axis;
    if (sizes_.full(all_.axes.at(axis)) > 2) note("axis `" + axis + "` keeps its size: shards along it are uneven");
    sizes_.keep(all_.axes.at(axis));
  } else {
    Node whole = logical;
    if (layout.padded_extent > sizes_.full(logical)) {
      whole = slots.padded = fresh(layout.padded_extent);
      sizes_.order(logical, whole);
      if (!layout.digits.empty() && layout.digits.back().is_local() &&
          layout.padded_extent - sizes_.full(logical) < layout.digits.back().size) {
        sizes_.last_shard({logical, whole, slots.digits.back()});
      }
    } else if (layout.padded_extent != 0) {
      slots.padded = logical;
    }
    if (layout.digits.size() == 1) {
      sizes_.unite(whole, slots.digits[0]);
    } else if (!layout.digits.empty()) {
      sizes_.product({whole}, slots.digits);
    }
  }
  all_.layouts.push_back(std::move(slots));
  return local;
}

std::vector<Node> Collector::local_digits(const ir::Placement& placement, const std::vector<Node>& logical) {
  std::vector<Node> digits;
  for (std::size_t d = 0; d < placement.dims.size(); ++d) {
    for (const Node digit : layout(placement.dims[d], logical.at(d))) digits.push_back(digit);
  }
  return digits;
}

std::vector<Node> Collector::local_extents(const ir::Placement& placement, const std::vector<Node>& logical) {
  std::vector<Node> extents;
  for (std::size_t d = 0; d < placement.dims.size(); ++d) extents.push_back(joint(layout(placement.dims[d], logical.at(d))));
  return extents;
}

// Extents of the parts, concatenated along the fuse axis.
std::vector<Node> Collector::fused(const std::vector<ir::FusedPart>& parts, std::int64_t fuse_axis) {
  const auto axis = static_cast<std::size_t>(fuse_axis);
  std::vector<std::vector<Node>> digits;
  std::int64_t total = 0;
  for (const ir::FusedPart& part : parts) {
    digits.push_back(local_digits(part.placement, reference_dims(index_.state(part.of))));
    total += sizes_.full(digits.back().at(axis));
  }
  std::vector<Node> result = digits.front();
  result[axis] = fresh(total);
  std::int64_t begin = 0;
  for (const std::vector<Node>& part : digits) {
    for (std::size_t d = 0; d < part.size(); ++d) {
      if (d != axis) sizes_.unite(part[d], result[d]);
    }
    sizes_.piece(result[axis], begin, part[axis]);
    begin += sizes_.full(part[axis]);
  }
  return result;
}

void Collector::buffers() {
  for (const ir::FlatBuffer& buffer : document_.plan.buffers) {
    const Node whole = all_.buffers[buffer.name] = fresh(buffer.size);
    for (const ir::BufferMember& member : buffer.members) {
      const Node size = joint(member.fused.empty()
                                  ? local_extents(member.placement, reference_dims(index_.state(member.param)))
                                  : fused(member.fused, member.fuse_axis));
      sizes_.piece(whole, member.offset, size);
    }
  }
}

void Collector::binding(const ir::Binding& binding, const std::vector<Node>& logical, const std::vector<Node>& local) {
  if (!binding.fused.empty()) {
    reshaped(fused(binding.fused, binding.fuse_axis), local);
  } else if (!binding.buffer.empty()) {
    const auto buffer = all_.buffers.find(binding.buffer);
    if (buffer != all_.buffers.end()) same(local_extents(binding.placement, {buffer->second}), local);
  } else {
    same(local_extents(binding.placement, logical), local);
  }
}

void Collector::stage_bindings(const ir::StageProgram& stage, const ProgramSlots& slots) {
  const auto local = [&](ir::ValueId id) -> const std::vector<Node>& { return slots.dims[static_cast<std::size_t>(id.index)]; };
  for (const ir::PlanInput& input : stage.inputs) {
    const ir::ValueId target = index_.input(input.binding.of);
    binding(input.binding, reference_dims(target.valid() ? target : index_.state(input.binding.of)), local(input.value));
  }
  for (const ir::PlanState& state : stage.state) {
    same(local(state.value), local(state.next));
    binding(state.binding, reference_dims(index_.state(state.binding.of)), local(state.value));
  }
  for (const ir::PlanOutput& output : stage.outputs) {
    const ir::ValueId target = index_.output(output.binding.of);
    binding(output.binding, reference_dims(target.valid() ? target : index_.state(output.binding.of)), local(output.value));
  }
}

std::vector<std::vector<std::int64_t>> groups_along(const ir::Mesh& mesh, const std::vector<std::string>& axes) {
  std::map<ir::Coordinate, std::map<std::vector<std::int64_t>, std::int64_t>> groups;  // others -> own -> rank
  const std::int64_t world = mesh.size();
  for (std::int64_t rank = 0; rank < world; ++rank) {
    ir::Coordinate others = coordinate_of(mesh, rank);
    std::vector<std::int64_t> own;
    for (const std::string& axis : axes) {
      std::int64_t& coordinate = others[*mesh.find_axis(axis)];
      own.push_back(coordinate);
      coordinate = 0;
    }
    groups[others][own] = rank;
  }
  std::vector<std::vector<std::int64_t>> result;
  for (const auto& [others, members] : groups) {
    std::vector<std::int64_t>& group = result.emplace_back();
    for (const auto& [own, rank] : members) group.push_back(rank);
  }
  return result;
}

std::vector<std::string> axes_of(const std::vector<ir::Mesh>& meshes, const std::vector<std::vector<std::int64_t>>& groups) {
  auto wanted = groups;
  std::sort(wanted.begin(), wanted.end());
  for (const ir::Mesh& mesh : meshes) {
    const std::size_t count = std::min<std::size_t>(mesh.axes.size(), 5);
    std::vector<std::string> chosen;
    // All ordered choices of axes whose sizes multiply to that of a group.
    const std::function<bool(std::int64_t)> extend = [&](std::int64_t size) {
      if (size == static_cast<std::int64_t>(groups.front().size())) {
        auto made = groups_along(mesh, chosen);
        std::sort(made.begin(), made.end());
        if (made == wanted) return true;
      }
      for (std::size_t a = 0; a < count; ++a) {
        const ir::MeshAxis& axis = mesh.axes[a];
        if (axis.size == 1 || std::find(chosen.begin(), chosen.end(), axis.name) != chosen.end()) continue;
        chosen.push_back(axis.name);
        if (extend(size * axis.size)) return true;
        chosen.pop_back();
      }
      return false;
    };
    if (extend(1) && !chosen.empty()) return chosen;
  }
  return {};
}

}  // namespace shardproof::execution

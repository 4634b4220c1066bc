// Which programs run where along the axes that joining removes, and how groups of ranks meet them.
#include <algorithm>
#include <map>
#include <set>

#include "ir/check.h"
#include "ir/rational.h"
#include "lowering/join_parts.h"

namespace shardproof::lowering::join {

namespace {

constexpr std::int64_t kMostInstances = 4096;

using Lists = std::vector<std::vector<std::int64_t>>;

std::string quoted(const std::string& name) { return "`" + name + "`"; }

}  // namespace

Layout::Layout(const ir::Plan& plan) : plan_(plan) {
  std::set<std::string> names;
  for (const ir::StageProgram& stage : plan.stages)
    for (const ir::OwnedAxis& owned : stage.where) names.insert(owned.axis);
  if (plan.meshes.size() != 1) {
    throw Refusal("stages are joined on one mesh so far", plan.meshes[1].span, "one entry in `meshes`", std::to_string(plan.meshes.size()));
  }
  mesh_ = &plan.meshes.front();
  std::int64_t cells = 1;
  for (const ir::MeshAxis& axis : mesh_->axes) {
    if (!names.contains(axis.name)) continue;
    removed_.push_back(axis.name);
    sizes_.push_back(axis.size);
    cells = ir::checked_mul(cells, axis.size);
  }
  if (cells > kMostInstances) throw Refusal("stages are placed at too many coordinates to be joined", plan.stages.front().span, "at most " + std::to_string(kMostInstances), std::to_string(cells));
  constexpr std::size_t none = static_cast<std::size_t>(-1);
  by_place_.assign(static_cast<std::size_t>(cells), none);
  for (const ir::StageProgram& stage : plan.stages) {
    Lists choices;
    std::int64_t count = 1;
    for (std::size_t axis = 0; axis < removed_.size(); ++axis) {
      choices.push_back(coordinates_of(stage, axis));
      count *= static_cast<std::int64_t>(choices.back().size());
    }
    for (std::int64_t i = 0; i < count; ++i) {
      Instance instance{&stage, {}, stage.name};
      std::int64_t rest = i, place = 0;
      std::string where;
      for (std::size_t axis = 0; axis < removed_.size(); ++axis) {
        const auto size = static_cast<std::int64_t>(choices[axis].size());
        instance.at.push_back(choices[axis][static_cast<std::size_t>(rest % size)]);
        rest /= size;
        place = place * sizes_[axis] + instance.at.back();
        where += (where.empty() ? "" : ",") + removed_[axis] + "=" + std::to_string(instance.at.back());
      }
      if (count > 1) instance.name += "[" + where + "]";
      std::size_t& taken = by_place_[static_cast<std::size_t>(place)];
      if (taken != none) throw Refusal("ranks with " + where + " run several programs", stage.span, "one program for each rank", quoted(instances_[taken].stage->name) + " and " + quoted(stage.name));
      taken = instances_.size();
      instances_.push_back(std::move(instance));
    }
  }
  SHARDPROOF_CHECK(std::find(by_place_.begin(), by_place_.end(), none) == by_place_.end());  // validated
}

std::vector<std::int64_t> Layout::coordinates_of(const ir::StageProgram& stage, std::size_t axis) const {
  for (const ir::OwnedAxis& owned : stage.where)
    if (owned.axis == removed_[axis]) return owned.coordinates;
  std::vector<std::int64_t> all;
  for (std::int64_t c = 0; c < sizes_[axis]; ++c) all.push_back(c);
  return all;
}

std::optional<std::size_t> Layout::removed_axis(const std::string& name) const {
  const auto found = std::find(removed_.begin(), removed_.end(), name);
  if (found == removed_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - removed_.begin());
}

ir::Mesh Layout::remaining() const {
  ir::Mesh mesh;
  mesh.name = mesh_->name;
  mesh.span = mesh_->span;
  mesh.joined = !removed_.empty();
  for (const ir::MeshAxis& axis : mesh_->axes)
    if (!removed_axis(axis.name)) mesh.axes.push_back(axis);
  if (mesh.axes.empty()) mesh.axes.push_back({mesh_->axes.front().name, 1, mesh_->axes.front().span});
  if (removed_.empty()) mesh.devices = mesh_->devices;
  return mesh;
}

std::size_t Layout::instance_at(const std::vector<std::int64_t>& at) const {
  std::int64_t place = 0;
  for (std::size_t axis = 0; axis < sizes_.size(); ++axis) place = place * sizes_[axis] + at[axis];
  return by_place_[static_cast<std::size_t>(place)];
}

std::size_t Layout::peer(std::size_t instance, const std::string& stage, ir::Span span) const {
  const auto to = std::find_if(plan_.stages.begin(), plan_.stages.end(), [&](const ir::StageProgram& s) { return s.name == stage; });
  if (to == plan_.stages.end()) throw Refusal("messages are exchanged with " + quoted(stage) + ", which is no stage", span, "the name of a stage", quoted(stage));
  const Instance& own = instances_[instance];
  std::vector<std::int64_t> at = own.at;
  for (std::size_t axis = 0; axis < removed_.size(); ++axis) {
    const std::vector<std::int64_t> here = coordinates_of(*own.stage, axis), there = coordinates_of(*to, axis);
    if (here == there) continue;
    if (here.size() != there.size()) throw Refusal("stages " + quoted(own.stage->name) + " and " + quoted(stage) + " run on different numbers of ranks", span);
    at[axis] = there[static_cast<std::size_t>(std::find(here.begin(), here.end(), own.at[axis]) - here.begin())];
  }
  return instance_at(at);
}

Layout::Group Layout::group_of(std::size_t instance, const ir::Instruction& instruction) const {
  return instruction.attributes.has("groups") ? listed(instance, instruction) : along(instance, instruction);
}

Layout::Group Layout::along(std::size_t instance, const ir::Instruction& instruction) const {
  Group group;
  group.members = {instance};
  for (const std::string& text : instruction.attributes.get<std::vector<std::string>>("axes")) {
    const ir::GroupAxis entry = *ir::parse_group_axis(text);  // validated
    const auto axis = removed_axis(entry.axis);
    if (!axis) {
      if (!entry.coordinates.empty()) throw Refusal("a group of some coordinates of " + quoted(entry.axis) + ", which places no stage", instruction.span);
      if (mesh_->axes[*mesh_->find_axis(entry.axis)].size > 1) group.inner_axes.push_back(entry.axis);
      continue;
    }
    std::vector<std::int64_t> coordinates = entry.coordinates;
    for (std::int64_t c = 0; entry.coordinates.empty() && c < sizes_[*axis]; ++c) coordinates.push_back(c);
    if (coordinates.size() > 1 && !group.inner_axes.empty()) group.stages_are_major = false;
    std::vector<std::size_t> members;
    for (const std::size_t member : group.members)
      for (const std::int64_t c : coordinates) {
        std::vector<std::int64_t> at = instances_[member].at;
        at[*axis] = c;
        members.push_back(instance_at(at));
      }
    group.members = std::move(members);
  }
  SHARDPROOF_CHECK(std::find(group.members.begin(), group.members.end(), instance) != group.members.end());  // validated
  return group;
}

Layout::Group Layout::listed(std::size_t instance, const ir::Instruction& instruction) const {
  std::vector<std::int64_t> position;  // of a rank in the mesh
  if (!mesh_->devices.empty()) {
    position.resize(mesh_->devices.size());
    for (std::size_t p = 0; p < mesh_->devices.size(); ++p) position[static_cast<std::size_t>(mesh_->devices[p])] = static_cast<std::int64_t>(p);
  }
  const auto place_of = [&](std::int64_t rank) {
    std::int64_t rest = position.empty() ? rank : position[static_cast<std::size_t>(rank)];
    std::vector<std::int64_t> at(removed_.size());
    std::int64_t inner = 0, stride = 1;
    for (std::size_t i = mesh_->axes.size(); i-- > 0;) {
      const std::int64_t size = mesh_->axes[i].size, c = rest % size;
      rest /= size;
      if (const auto axis = removed_axis(mesh_->axes[i].name)) {
        at[*axis] = c;
      } else {
        inner += c * stride;
        stride *= size;
      }
    }
    return std::pair(instance_at(at), inner);
  };
  Group group;
  bool first = true;
  for (const auto& list : instruction.attributes.get<Lists>("groups")) {
    std::vector<std::size_t> members;
    std::vector<std::int64_t> inner;
    bool here = false;
    for (const std::int64_t rank : list) {
      const auto [member, place] = place_of(rank);
      here = here || member == instance;
      members.push_back(member);
      inner.push_back(place);
    }
    if (!here) continue;
    const bool within = std::all_of(members.begin(), members.end(), [&](std::size_t m) { return m == instance; });
    const bool across = std::set<std::size_t>(members.begin(), members.end()).size() == members.size() &&
                        std::all_of(inner.begin(), inner.end(), [&](std::int64_t p) { return p == inner.front(); });
    if (within) members = {instance};
    if (!(within || across) || (!first && members != group.members))
      throw Refusal("the groups of a collective cross stages in a way that joining does not take", instruction.span,
                    "groups within one stage, or of one rank of each of some stages at the same other coordinates", "other lists");
    first = false;
    group.members = std::move(members);
    if (within) group.inner_lists.push_back(std::move(inner));
  }
  SHARDPROOF_CHECK(!first);  // groups cover the world
  if (group.members.size() > 1) group.inner_lists.clear();
  return group;
}

std::int64_t Layout::inner_size(const Group& group) const {
  if (!group.inner_lists.empty()) return static_cast<std::int64_t>(group.inner_lists.front().size());
  std::int64_t size = 1;
  for (const std::string& axis : group.inner_axes) size = ir::checked_mul(size, mesh_->axes[*mesh_->find_axis(axis)].size);
  return size;
}

}  // namespace shardproof::lowering::join

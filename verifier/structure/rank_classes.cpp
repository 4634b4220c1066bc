#include "verifier/structure/rank_classes.h"

#include <algorithm>
#include <map>

#include "ir/check.h"
#include "ir/group_axis.h"

namespace shardproof::verifier::structure {

namespace {

constexpr std::size_t kMaxClasses = std::size_t{1} << 12;

std::string list_text(const std::vector<std::int64_t>& coordinates) {
  const bool run = coordinates.back() - coordinates.front() + 1 == static_cast<std::int64_t>(coordinates.size());
  if (coordinates.size() == 1) return std::to_string(coordinates.front());
  if (run) return std::to_string(coordinates.front()) + ".." + std::to_string(coordinates.back());
  std::string text;
  for (std::size_t i = 0; i < coordinates.size() && i < 8; ++i) text += (i == 0 ? "" : ",") + std::to_string(coordinates[i]);
  return "{" + text + (coordinates.size() > 8 ? ",...}" : "}");
}

bool has_all(const ir::Mesh& mesh, const std::vector<std::string>& axes) {
  return std::all_of(axes.begin(), axes.end(), [&](const std::string& a) { return mesh.find_axis(a).has_value(); });
}

}  // namespace

std::vector<std::int64_t> coordinates_of(const ir::StageProgram& stage, const std::string& axis) {
  for (const ir::OwnedAxis& where : stage.where)
    if (where.axis == axis) return where.coordinates;
  return {};
}

RankClasses::RankClasses(const ir::Plan& plan, const std::set<std::string>& singled) : plan_(plan) {
  std::vector<std::string> names;
  for (const ir::StageProgram& stage : plan.stages)
    for (const ir::OwnedAxis& where : stage.where)
      if (std::find(names.begin(), names.end(), where.axis) == names.end()) names.push_back(where.axis);
  for (const ir::Mesh& mesh : plan.meshes)
    if (mesh_ == nullptr && has_all(mesh, names)) mesh_ = &mesh;
  SHARDPROOF_CHECK(mesh_ != nullptr);  // validated

  std::size_t count = 1;
  std::vector<std::vector<std::vector<bool>>> runs;  // of each axis, stage and class along it
  for (const std::string& name : names) {
    const auto size = static_cast<std::size_t>(mesh_->axes[*mesh_->find_axis(name)].size);
    std::vector<std::vector<std::size_t>> present(size);  // stages at each coordinate
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      const std::vector<std::int64_t> listed = coordinates_of(plan.stages[s], name);
      for (const std::int64_t c : listed) present[static_cast<std::size_t>(c)].push_back(s);
    }
    Axis axis{name, std::vector<std::size_t>(size), {}, count};
    std::map<std::vector<std::size_t>, std::size_t> seen;
    for (std::size_t c = 0; c < size; ++c) {
      std::vector<std::size_t> key = present[c];
      if (singled.contains(name)) key = {c};
      const auto [entry, fresh] = seen.emplace(std::move(key), seen.size());
      if (fresh) axis.coordinates.emplace_back();
      axis.class_of[c] = entry->second;
      axis.coordinates[entry->second].push_back(static_cast<std::int64_t>(c));
    }
    if (axis.coordinates.size() < 2) continue;
    if (axis.coordinates.size() > kMaxClasses / count) return;  // stages_ stays empty
    count *= axis.coordinates.size();
    std::vector<std::vector<bool>> of_axis;
    for (const ir::StageProgram& stage : plan.stages) {
      const std::vector<std::int64_t> listed = coordinates_of(stage, name);
      std::vector<bool> at(axis.coordinates.size(), listed.empty());
      for (const std::int64_t c : listed) at[axis.class_of[static_cast<std::size_t>(c)]] = true;
      of_axis.push_back(std::move(at));
    }
    runs.push_back(std::move(of_axis));
    axes_.push_back(std::move(axis));
  }
  for (std::size_t cls = 0; cls < count; ++cls) {
    std::size_t s = 0;
    const auto here = [&] {
      for (std::size_t a = 0; a < axes_.size(); ++a)
        if (!runs[a][s][along_axis(cls, axes_[a])]) return false;
      return true;
    };
    while (s < plan.stages.size() && !here()) ++s;
    SHARDPROOF_CHECK(s < plan.stages.size());  // validated: each rank runs one program
    stages_.push_back(s);
  }
}

std::string RankClasses::describe(std::size_t cls) const {
  std::string text;
  for (const Axis& axis : axes_) {
    text += text.empty() ? "" : ", ";
    text += axis.name + "=" + list_text(axis.coordinates[along_axis(cls, axis)]);
  }
  return text.empty() ? "all ranks" : text;
}

std::optional<GroupClasses> RankClasses::along(const std::vector<std::string>& axes) const {
  std::map<std::string, std::vector<std::int64_t>> group;
  std::vector<std::string> needed;
  for (const std::string& text : axes) {
    ir::GroupAxis entry = *ir::parse_group_axis(text);  // validated
    needed.push_back(entry.axis);
    group.emplace(std::move(entry.axis), std::move(entry.coordinates));
  }
  for (const Axis& axis : axes_) needed.push_back(axis.name);
  const auto& meshes = plan_.meshes;
  if (!axes_.empty() && std::none_of(meshes.begin(), meshes.end(), [&](const ir::Mesh& m) { return has_all(m, needed); })) return std::nullopt;
  GroupClasses result;
  std::map<std::pair<std::size_t, bool>, std::size_t> groups;  // class with the coordinates along the group's axes taken off
  for (std::size_t cls = 0; cls < count(); ++cls) {
    std::size_t key = cls;
    bool member = true;
    for (const Axis& axis : axes_) {
      const auto entry = group.find(axis.name);
      if (entry == group.end()) continue;
      const std::size_t here = along_axis(cls, axis);
      const auto inside = [&](std::int64_t c) { return entry->second.empty() || std::binary_search(entry->second.begin(), entry->second.end(), c); };
      const auto& coordinates = axis.coordinates[here];
      const auto in = std::count_if(coordinates.begin(), coordinates.end(), inside);
      if (in != 0 && static_cast<std::size_t>(in) != coordinates.size()) return std::nullopt;
      member = member && in != 0;
      key -= here * axis.stride;
    }
    const auto [entry, fresh] = groups.emplace(member ? std::pair(key, true) : std::pair(cls, false), groups.size());
    if (fresh) result.members.emplace_back();
    result.of_class.push_back(entry->second);
    result.members[entry->second].push_back(cls);
  }
  return result;
}

std::size_t RankClasses::class_of_rank(std::int64_t position) const {
  std::size_t cls = 0;
  for (const Axis& axis : axes_) {
    const std::size_t at = *mesh_->find_axis(axis.name);
    std::int64_t stride = 1;
    for (std::size_t i = at + 1; i < mesh_->axes.size(); ++i) stride *= mesh_->axes[i].size;
    cls += axis.class_of[static_cast<std::size_t>(position / stride % mesh_->axes[at].size)] * axis.stride;
  }
  return cls;
}

std::optional<GroupClasses> RankClasses::of_lists(const std::vector<std::vector<std::int64_t>>& groups) const {
  std::vector<std::int64_t> position;  // of a rank in the mesh
  if (!mesh_->devices.empty()) {
    position.resize(mesh_->devices.size());
    for (std::size_t p = 0; p < mesh_->devices.size(); ++p) position[static_cast<std::size_t>(mesh_->devices[p])] = static_cast<std::int64_t>(p);
  }
  GroupClasses result;
  result.of_class.assign(count(), count());
  std::map<std::vector<std::size_t>, std::size_t> known;
  for (const std::vector<std::int64_t>& group : groups) {
    std::set<std::size_t> touched;
    for (const std::int64_t rank : group) touched.insert(class_of_rank(position.empty() ? rank : position[static_cast<std::size_t>(rank)]));
    std::vector<std::size_t> members(touched.begin(), touched.end());
    const auto [entry, fresh] = known.emplace(members, known.size());
    if (fresh) result.members.push_back(std::move(members));
    for (const std::size_t cls : result.members[entry->second]) {
      if (result.of_class[cls] != count() && result.of_class[cls] != entry->second) return std::nullopt;
      result.of_class[cls] = entry->second;
    }
  }
  return result;
}

std::optional<std::size_t> RankClasses::counterpart(std::size_t cls, const ir::StageProgram& from, const ir::StageProgram& to) const {
  std::size_t result = cls;
  for (const Axis& axis : axes_) {
    const std::vector<std::int64_t> a = coordinates_of(from, axis.name);
    const std::vector<std::int64_t> b = coordinates_of(to, axis.name);
    if (a == b) continue;
    const std::size_t own = along_axis(cls, axis);
    const auto size = axis.class_of.size();
    if ((a.empty() ? size : a.size()) != (b.empty() ? size : b.size())) return std::nullopt;
    const std::int64_t here = axis.coordinates[own].front();
    const auto at = a.empty() ? here : std::find(a.begin(), a.end(), here) - a.begin();
    const std::int64_t there = b.empty() ? at : b[static_cast<std::size_t>(at)];
    result += axis.class_of[static_cast<std::size_t>(there)] * axis.stride - own * axis.stride;
  }
  return result;
}

}  // namespace shardproof::verifier::structure

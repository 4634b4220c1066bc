#include <algorithm>
#include <functional>
#include <set>

#include "ir/validate_parts.h"

namespace shardproof::ir {

namespace {

constexpr std::int64_t max_world = std::int64_t{1} << 32;  // ranks

// Number of ranks, or nullopt if a size is below 1 or the product is out of bounds.
std::optional<std::int64_t> world_size(const Mesh& mesh) {
  std::int64_t size = 1;
  for (const MeshAxis& axis : mesh.axes) {
    if (axis.size < 1 || __builtin_mul_overflow(size, axis.size, &size) || size > max_world) return std::nullopt;
  }
  return size;
}

// Product of the sizes of the axes after `position`.
std::int64_t stride_of(const Mesh& mesh, std::size_t position) {
  std::int64_t stride = 1;
  for (std::size_t i = position + 1; i < mesh.axes.size(); ++i) stride *= mesh.axes[i].size;
  return stride;
}

void check_mesh(const Mesh& mesh, Problems& problems) {
  const std::string name = backticked(mesh.name);
  if (mesh.axes.empty())
    problems.error("SP0105", "malformed-mesh", "mesh " + name + " has no axes", mesh.span, "one axis or more");
  std::set<std::string_view> seen;
  for (const MeshAxis& axis : mesh.axes) {
    if (axis.size < 1) {
      problems.error("SP0105", "malformed-mesh", "axis " + backticked(axis.name) + " of mesh " + name + " has no ranks",
                     axis.span, "a size of 1 or more", std::to_string(axis.size));
    }
    if (!seen.insert(axis.name).second) {
      problems.error("SP0105", "malformed-mesh", "mesh " + name + " has two axes " + backticked(axis.name), axis.span,
                     "distinct names");
    }
  }
  const std::optional<std::int64_t> size = world_size(mesh);
  if (!size) {
    const bool positive =
        std::all_of(mesh.axes.begin(), mesh.axes.end(), [](const MeshAxis& axis) { return axis.size > 0; });
    if (positive)
      problems.error("SP0105", "malformed-mesh", "mesh " + name + " is too large", mesh.span, "at most 2^32 ranks");
    return;
  }
  if (mesh.devices.empty()) return;
  if (static_cast<std::int64_t>(mesh.devices.size()) != *size) {
    problems.error("SP0106", "malformed-devices", "mesh " + name + " lists another number of devices than it has ranks",
                   mesh.span, std::to_string(*size), std::to_string(mesh.devices.size()));
    return;
  }
  std::vector<bool> taken(mesh.devices.size(), false);
  for (const std::int64_t device : mesh.devices) {
    const bool in_range = device >= 0 && device < *size;
    if (!in_range || taken[static_cast<std::size_t>(device)]) {
      problems.error(
          "SP0106", "malformed-devices",
          "the devices of mesh " + name +
              (in_range ? " name rank " + std::to_string(device) + " twice" : " name a rank that does not exist"),
          mesh.span, "a permutation of 0.." + std::to_string(*size - 1), std::to_string(device));
      return;
    }
    taken[static_cast<std::size_t>(device)] = true;
  }
}

// Whether axis `i` of mesh a and axis `j` of mesh b give every rank the same coordinate.
bool same_coordinate(const Mesh& a, std::size_t i, const Mesh& b, std::size_t j) {
  if (a.axes[i].size != b.axes[j].size) return false;
  if (a.axes[i].size == 1) return true;
  const std::int64_t size = a.axes[i].size;
  const std::int64_t stride_a = stride_of(a, i);
  const std::int64_t stride_b = stride_of(b, j);
  if (a.devices.empty() && b.devices.empty()) return stride_a == stride_b;
  // At least one list of devices is in the file, so walking the world is linear in the file.
  const std::size_t world = std::max(a.devices.size(), b.devices.size());
  std::vector<std::int64_t> coordinate(world);
  for (std::size_t p = 0; p < world; ++p) {
    const auto rank = a.devices.empty() ? p : static_cast<std::size_t>(a.devices[p]);
    coordinate[rank] = static_cast<std::int64_t>(p) / stride_a % size;
  }
  for (std::size_t p = 0; p < world; ++p) {
    const auto rank = b.devices.empty() ? p : static_cast<std::size_t>(b.devices[p]);
    if (coordinate[rank] != static_cast<std::int64_t>(p) / stride_b % size) return false;
  }
  return true;
}

}  // namespace

std::optional<MeshFacts> check_meshes(const Plan& plan, Problems& problems) {
  const std::size_t before = problems.count();
  if (plan.meshes.empty())
    problems.error("SP0105", "malformed-mesh", "the plan has no mesh", Span{}, "one mesh or more");
  MeshFacts facts;
  for (const Mesh& mesh : plan.meshes) {
    check_mesh(mesh, problems);
    if (!facts.by_name.emplace(mesh.name, &mesh).second) {
      problems.error("SP0105", "malformed-mesh", "two meshes are named " + backticked(mesh.name), mesh.span,
                     "distinct names");
    }
  }
  if (problems.count() != before) return std::nullopt;
  facts.world = *world_size(plan.meshes.front());
  // One axis name, one meaning: expressions and collectives name an axis without its mesh.
  std::unordered_map<std::string_view, std::pair<const Mesh*, std::size_t>> first;
  for (const Mesh& mesh : plan.meshes) {
    if (*world_size(mesh) != facts.world) {
      problems.error("SP0105", "malformed-mesh",
                     "mesh " + backticked(mesh.name) + " has another number of ranks than the first mesh", mesh.span,
                     std::to_string(facts.world), std::to_string(*world_size(mesh)));
    }
  }
  if (problems.count() != before) return std::nullopt;
  for (const Mesh& mesh : plan.meshes) {
    for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
      const auto [entry, fresh] = first.emplace(mesh.axes[i].name, std::pair(&mesh, i));
      if (fresh || same_coordinate(*entry->second.first, entry->second.second, mesh, i)) continue;
      problems.error("SP0105", "malformed-mesh",
                     "axis " + backticked(mesh.axes[i].name) + " means different coordinates in meshes " +
                         backticked(entry->second.first->name) + " and " + backticked(mesh.name),
                     mesh.axes[i].span, "the same coordinate for every rank", {}, "give one of the axes another name");
    }
  }
  if (problems.count() != before) return std::nullopt;
  facts.axes = AxisTable(plan.meshes);
  return facts;
}

bool check_owned(const OwnedAxis& owned, std::int64_t axis_size, Span span, Problems& problems) {
  const std::string axis = backticked(owned.axis);
  if (axis_size == 0) {
    problems.error("SP0101", "unknown-mesh-axis", "no mesh has an axis " + axis, span);
    return false;
  }
  if (owned.coordinates.empty()) {
    problems.error("SP0107", "malformed-layout", "no coordinate of axis " + axis + " is given", span,
                   "one coordinate or more");
    return false;
  }
  for (std::size_t i = 0; i < owned.coordinates.size(); ++i) {
    const std::int64_t c = owned.coordinates[i];
    if (c >= 0 && c < axis_size && (i == 0 || owned.coordinates[i - 1] < c)) continue;
    problems.error("SP0107", "malformed-layout",
                   "the coordinates of axis " + axis + " are out of range or out of order", span,
                   "ascending, from 0 to " + std::to_string(axis_size - 1), std::to_string(c));
    return false;
  }
  return true;
}

// Every rank runs exactly one program: one that holds several stages of the model lists them all.
// Only the axes that some stage names matter: the cells of their product are counted.
void check_stage_cover(const Plan& plan, const MeshFacts& meshes, Problems& problems) {
  constexpr std::int64_t max_cells = std::int64_t{1} << 22;
  constexpr std::int64_t max_work = std::int64_t{1} << 26;
  const std::size_t before = problems.count();
  std::vector<std::string_view> axes;
  std::unordered_set<std::string_view> named;
  for (const StageProgram& stage : plan.stages) {
    std::unordered_set<std::string_view> own;
    for (const OwnedAxis& owned : stage.where) {
      if (problems.full()) return;
      if (!check_owned(owned, meshes.axes.size(owned.axis), stage.span, problems)) continue;
      if (!own.insert(owned.axis).second) {
        problems.error("SP0114", "stage-cover",
                       "stage " + backticked(stage.name) + " restricts axis " + backticked(owned.axis) + " twice",
                       stage.span);
      }
      if (named.insert(owned.axis).second) axes.push_back(owned.axis);
    }
  }
  if (problems.count() != before) return;
  const bool one_mesh = std::any_of(plan.meshes.begin(), plan.meshes.end(), [&](const Mesh& mesh) {
    return std::all_of(axes.begin(), axes.end(),
                       [&](std::string_view axis) { return mesh.find_axis(std::string(axis)).has_value(); });
  });
  if (!one_mesh) {
    problems.error("SP0114", "stage-cover", "stages are placed by axes of different meshes", plan.stages.front().span,
                   "axes of one mesh");
    return;
  }
  std::vector<std::int64_t> strides(axes.size());
  std::int64_t cells = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    strides[i] = cells;
    if (__builtin_mul_overflow(cells, meshes.axes.size(axes[i]), &cells) || cells > max_cells) {
      problems.error("SP0009", "limit-exceeded", "stages are placed at too many coordinates", plan.stages.front().span,
                     "at most " + std::to_string(max_cells));
      return;
    }
  }
  std::vector<bool> taken(static_cast<std::size_t>(cells), false);
  std::int64_t work = 0;
  for (const StageProgram& stage : plan.stages) {
    std::vector<std::vector<std::int64_t>> choices(axes.size());
    std::int64_t volume = 1;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      for (const OwnedAxis& owned : stage.where) {
        if (owned.axis == axes[i]) choices[i] = owned.coordinates;
      }
      for (std::int64_t c = 0; choices[i].empty() && c < meshes.axes.size(axes[i]); ++c) choices[i].push_back(c);
      volume *= static_cast<std::int64_t>(choices[i].size());
    }
    work += volume;
    if (work > max_work) {
      problems.error("SP0009", "limit-exceeded", "too many stages overlap", stage.span);
      return;
    }
    bool doubled = false;
    const std::function<void(std::size_t, std::int64_t)> visit = [&](std::size_t axis, std::int64_t cell) {
      if (axis == axes.size()) {
        doubled = taken[static_cast<std::size_t>(cell)] || doubled;
        taken[static_cast<std::size_t>(cell)] = true;
        return;
      }
      for (const std::int64_t c : choices[axis]) visit(axis + 1, cell + c * strides[axis]);
    };
    visit(0, 0);
    if (doubled) {
      problems.error("SP0114", "stage-cover",
                     "ranks of stage " + backticked(stage.name) + " run another program, too", stage.span,
                     "one program for each rank", "two",
                     "correct `where`; several stages of the model on a rank are one program");
      return;
    }
  }
  const auto idle = std::find(taken.begin(), taken.end(), false);
  if (idle == taken.end()) return;
  std::string where;
  std::int64_t cell = idle - taken.begin();
  for (const std::string_view axis : axes) {
    where += (where.empty() ? "" : ", ") + std::string(axis) + "=" + std::to_string(cell % meshes.axes.size(axis));
    cell /= meshes.axes.size(axis);
  }
  problems.error("SP0114", "stage-cover", "ranks with " + where + " run no stage", plan.stages.front().span,
                 "a stage for every rank");
}

}  // namespace shardproof::ir

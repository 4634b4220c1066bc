#include "verifier/execution/cluster.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace shardproof::execution {

namespace {

std::string quoted(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "`" : ", `") + name + "`";
  return text;
}

// Groups in one mesh, or nullopt if it lacks an axis. The map key is the coordinate with the group's axes set to 0, so
// that groups come in rank order of their first members' positions.
std::optional<Groups> groups_in_mesh(const ir::Mesh& mesh, std::span<const std::string> axes) {
  std::vector<std::size_t> positions;
  for (const std::string& axis : axes) {
    const std::optional<std::size_t> position = mesh.find_axis(axis);
    if (!position) return std::nullopt;
    if (std::find(positions.begin(), positions.end(), *position) != positions.end()) {
      throw ExecutionError("axis `" + axis + "` is named twice");
    }
    positions.push_back(*position);
  }
  std::map<ir::Coordinate, std::map<ir::Coordinate, std::int64_t>> groups;  // rest -> order within the group -> rank
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
    ir::Coordinate rest = ir::coordinate_of(mesh, rank);
    ir::Coordinate order;
    for (const std::size_t position : positions) order.push_back(std::exchange(rest[position], 0));
    groups[rest][order] = rank;
  }
  Groups result;
  for (const auto& [rest, members] : groups) {
    result.emplace_back();
    for (const auto& [order, rank] : members) result.back().push_back(rank);
  }
  return result;
}

void sort_by_first_rank(Groups& groups) {
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.front() < b.front(); });
}

Groups groups_of_instruction(std::span<const ir::Mesh> meshes, const ir::Instruction& instruction) {
  const ir::Attributes& attributes = instruction.attributes;
  if (!attributes.has("groups")) return groups_of(meshes, attributes.get<std::vector<std::string>>("axes"));
  const auto& groups = attributes.get<Groups>("groups");
  const std::int64_t world = world_size(meshes);
  std::vector<bool> member(static_cast<std::size_t>(world), false);
  std::int64_t members = 0;
  for (const auto& group : groups) {
    for (const std::int64_t rank : group) {
      if (rank < 0 || rank >= world || member[static_cast<std::size_t>(rank)]) {
        throw ExecutionError("rank " + std::to_string(rank) + " of a group is outside of the world or listed twice");
      }
      member[static_cast<std::size_t>(rank)] = true;
      ++members;
    }
  }
  if (members != world) throw ExecutionError("the groups leave out ranks, which would have no result");
  return groups;
}

ir::ReduceKind reduce_kind(const ir::Instruction& instruction) {
  const auto& name = instruction.attributes.get<std::string>("reduce");
  const std::optional<ir::ReduceKind> kind = ir::parse_reduce(name);
  if (!kind) throw ExecutionError("unknown reduction `" + name + "`");
  return *kind;
}

// Part `index` of `count` equal ones along `dim`.
Array chunk(const Domain& domain, const Array& array, std::int64_t dim, std::int64_t count, std::int64_t index) {
  const std::int64_t extent = domain.shape_of(array).at(static_cast<std::size_t>(dim));
  if (extent % count != 0) {
    throw ExecutionError("extent " + std::to_string(extent) + " of dimension " + std::to_string(dim) +
                         " is not divisible by the group size " + std::to_string(count));
  }
  return domain.narrow(array, dim, index * (extent / count), extent / count);
}

// What each member of one group receives; `operands` in group order.
std::vector<Array> within_group(const Domain& domain, const ir::Instruction& instruction,
                                const std::vector<Array>& operands) {
  const ir::Attributes& attributes = instruction.attributes;
  const auto count = static_cast<std::int64_t>(operands.size());
  const auto integer = [&](const char* name) { return attributes.get<std::int64_t>(name); };
  const auto for_each_member = [&](const auto& function) {
    std::vector<Array> results;
    for (std::int64_t member = 0; member < count; ++member) results.push_back(function(member));
    return results;
  };
  switch (instruction.op) {
    case ir::OpCode::all_reduce:
      return std::vector<Array>(operands.size(), domain.combine(reduce_kind(instruction), operands));
    case ir::OpCode::all_gather:
      return std::vector<Array>(operands.size(), domain.concatenate(operands, integer("dim")));
    case ir::OpCode::reduce_scatter: {
      const Array whole = domain.combine(reduce_kind(instruction), operands);
      return for_each_member([&](std::int64_t member) { return chunk(domain, whole, integer("dim"), count, member); });
    }
    case ir::OpCode::all_to_all:
      return for_each_member([&](std::int64_t member) {
        std::vector<Array> received;
        for (const Array& sender : operands) received.push_back(chunk(domain, sender, integer("split_dim"), count, member));
        return domain.concatenate(received, integer("concat_dim"));
      });
    case ir::OpCode::broadcast_from: {
      const std::int64_t root = integer("root");
      if (root < 0 || root >= count) throw ExecutionError("root " + std::to_string(root) + " is outside of the group");
      return std::vector<Array>(operands.size(), operands[static_cast<std::size_t>(root)]);
    }
    case ir::OpCode::permute: {
      const std::int64_t shift = integer("shift");
      return for_each_member([&](std::int64_t member) {
        return operands[static_cast<std::size_t>(ir::floor_mod(member - shift, count))];
      });
    }
    default:
      throw ExecutionError("not a collective");
  }
}

}  // namespace

std::int64_t world_size(std::span<const ir::Mesh> meshes) {
  return meshes.empty() ? 1 : meshes.front().size();
}

std::int64_t coordinate_along(std::span<const ir::Mesh> meshes, std::int64_t rank, const std::string& axis) {
  for (const ir::Mesh& mesh : meshes) {
    if (const std::optional<std::size_t> position = mesh.find_axis(axis))
      return ir::coordinate_of(mesh, rank)[*position];
  }
  throw ExecutionError("`" + axis + "` is neither a loop index nor a mesh axis");
}

Groups groups_of(std::span<const ir::Mesh> meshes, std::span<const std::string> axes) {
  std::optional<Groups> result;
  for (const ir::Mesh& mesh : meshes) {
    std::optional<Groups> groups = groups_in_mesh(mesh, axes);
    if (!groups) continue;
    sort_by_first_rank(*groups);
    if (result && *result != *groups) throw ExecutionError("the meshes disagree on the groups of " + quoted(axes));
    result = std::move(groups);
  }
  if (!result) throw ExecutionError("no mesh has all of the axes " + quoted(axes));
  return *result;
}

RankArrays run_collective(const Domain& domain, std::span<const ir::Mesh> meshes, const ir::Instruction& instruction,
                          const RankArrays& operand) {
  RankArrays results(operand.size());
  for (const std::vector<std::int64_t>& group : groups_of_instruction(meshes, instruction)) {
    std::vector<Array> operands;
    for (const std::int64_t rank : group) operands.push_back(operand[static_cast<std::size_t>(rank)]);
    const std::vector<Array> received = within_group(domain, instruction, operands);
    for (std::size_t i = 0; i < group.size(); ++i) results[static_cast<std::size_t>(group[i])] = received[i];
  }
  return results;
}

Machine cluster(const Domain& domain, std::span<const ir::Mesh> meshes) {
  Machine machine;
  machine.ranks = world_size(meshes);
  machine.coordinate = [meshes](std::int64_t rank, const std::string& axis) {
    return coordinate_along(meshes, rank, axis);
  };
  machine.collective = [&domain, meshes](const ir::Instruction& instruction, const RankArrays& operand) {
    return run_collective(domain, meshes, instruction, operand);
  };
  return machine;
}

Machine single_device() {
  Machine machine;
  machine.coordinate = [](std::int64_t, const std::string& name) -> std::int64_t {
    throw ExecutionError("`" + name + "` is not a loop index, and a single device has no mesh axes");
  };
  machine.collective = [](const ir::Instruction&, const RankArrays&) -> RankArrays {
    throw ExecutionError("a single device runs no collectives");
  };
  return machine;
}

void check_given(const ir::Program& program, ir::ValueId id, const ir::Shape& found) {
  const ir::Value& value = program.value(id);
  if (found == value.type.shape) return;
  throw ExecutionError("input %" + value.name + " : " + ir::to_string(value.type) + " is given with shape " +
                       describe_shape(found));
}

}  // namespace shardproof::execution

#include "verifier/kernel/group_axes.h"

#include <algorithm>
#include <unordered_map>

namespace shardproof::verifier {

std::optional<std::vector<std::string>> axes_of_groups(const ir::Mesh& mesh, const std::vector<std::vector<std::int64_t>>& groups) {
  if (groups.empty() || groups[0].empty()) return std::nullopt;
  // Position of each rank in the mesh, row by row.
  std::unordered_map<std::int64_t, std::int64_t> position;
  for (std::int64_t p = 0; p < mesh.size(); ++p) position[mesh.devices.empty() ? p : mesh.devices[static_cast<std::size_t>(p)]] = p;
  std::vector<bool> listed(position.size());
  for (const auto& group : groups) {
    if (group.size() != groups[0].size()) return std::nullopt;
    for (std::int64_t rank : group) {
      const auto it = position.find(rank);
      if (it == position.end() || listed[static_cast<std::size_t>(it->second)]) return std::nullopt;
      listed[static_cast<std::size_t>(it->second)] = true;
    }
  }
  if (!std::all_of(listed.begin(), listed.end(), [](bool b) { return b; })) return std::nullopt;

  std::vector<std::int64_t> strides(mesh.axes.size(), 1);
  for (std::size_t a = mesh.axes.size(); a-- > 1;) strides[a - 1] = strides[a] * mesh.axes[a].size;
  const auto coordinate = [&](std::int64_t rank, std::size_t a) { return position.at(rank) / strides[a] % mesh.axes[a].size; };

  // The first group tells which axes vary. In the order of a group an axis changes the later, the slower it varies.
  const auto& first = groups[0];
  std::vector<std::pair<std::size_t, std::size_t>> varying;  // where it changes first; axis
  for (std::size_t a = 0; a < mesh.axes.size(); ++a)
    for (std::size_t p = 1; p < first.size(); ++p)
      if (coordinate(first[p], a) != coordinate(first[0], a)) {
        varying.emplace_back(p, a);
        break;
      }
  std::sort(varying.rbegin(), varying.rend());
  std::int64_t size = 1;
  for (const auto& [changes_at, a] : varying) size *= mesh.axes[a].size;
  if (size != static_cast<std::int64_t>(first.size())) return std::nullopt;
  for (const auto& group : groups) {
    std::int64_t base = position.at(group[0]);
    for (const auto& [changes_at, a] : varying) base -= coordinate(group[0], a) * strides[a];
    for (std::size_t p = 0; p < group.size(); ++p) {
      std::int64_t expected = base, rest = static_cast<std::int64_t>(p);
      for (auto it = varying.rbegin(); it != varying.rend(); ++it) {
        expected += rest % mesh.axes[it->second].size * strides[it->second];
        rest /= mesh.axes[it->second].size;
      }
      if (expected != position.at(group[p])) return std::nullopt;
    }
  }
  std::vector<std::string> names;
  for (const auto& [changes_at, a] : varying) names.push_back(mesh.axes[a].name);
  return names;
}

}  // namespace shardproof::verifier

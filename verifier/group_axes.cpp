#include "verifier/group_axes.h"

#include <algorithm>
#include <set>

namespace shardproof::verifier {

std::optional<std::vector<std::string>> axes_of_groups(const ir::Mesh& mesh, const std::vector<std::vector<std::int64_t>>& groups) {
  if (groups.empty() || groups[0].empty()) return std::nullopt;
  std::set<std::int64_t> known;
  for (std::int64_t p = 0; p < mesh.size(); ++p) known.insert(mesh.devices.empty() ? p : mesh.devices[static_cast<std::size_t>(p)]);
  for (const auto& group : groups) {
    if (group.size() != groups[0].size()) return std::nullopt;
    for (std::int64_t rank : group)
      if (known.erase(rank) == 0) return std::nullopt;
  }
  if (!known.empty()) return std::nullopt;

  // The first group tells which axes vary, and its order which of them varies fastest.
  const auto& first = groups[0];
  const ir::Coordinate origin = ir::coordinate_of(mesh, first[0]);
  std::vector<std::size_t> varying;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a)
    for (std::int64_t rank : first)
      if (ir::coordinate_of(mesh, rank)[a] != origin[a]) {
        varying.push_back(a);
        break;
      }
  std::sort(varying.begin(), varying.end());
  do {
    std::int64_t size = 1;
    for (std::size_t a : varying) size *= mesh.axes[a].size;
    if (size != static_cast<std::int64_t>(first.size())) return std::nullopt;
    bool matches = true;
    for (const auto& group : groups) {
      const ir::Coordinate base = ir::coordinate_of(mesh, group[0]);
      for (std::size_t p = 0; matches && p < group.size(); ++p) {
        ir::Coordinate expected = base;
        std::int64_t rest = static_cast<std::int64_t>(p);
        for (auto it = varying.rbegin(); it != varying.rend(); ++it) {
          expected[*it] = rest % mesh.axes[*it].size;
          rest /= mesh.axes[*it].size;
        }
        matches = ir::rank_of(mesh, expected) == group[p];
      }
      if (!matches) break;
    }
    if (matches) {
      std::vector<std::string> names;
      for (std::size_t a : varying) names.push_back(mesh.axes[a].name);
      return names;
    }
  } while (std::next_permutation(varying.begin(), varying.end()));
  return std::nullopt;
}

}  // namespace shardproof::verifier

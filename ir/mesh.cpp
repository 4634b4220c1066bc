#include "ir/mesh.h"

#include <algorithm>

#include "ir/check.h"
#include "ir/rational.h"

namespace shardproof::ir {
namespace {

// Position of a rank in the mesh, before or after `devices` permutes it; nullopt if the rank is not a member.
std::optional<std::int64_t> position_of(const Mesh& mesh, std::int64_t rank) {
  if (mesh.devices.empty()) {
    if (rank < 0 || rank >= mesh.size()) return std::nullopt;
    return rank;
  }
  const auto place = std::find(mesh.devices.begin(), mesh.devices.end(), rank);
  if (place == mesh.devices.end()) return std::nullopt;
  return static_cast<std::int64_t>(place - mesh.devices.begin());
}

Coordinate digits_of(const Mesh& mesh, std::int64_t position) {
  Coordinate coordinate(mesh.axes.size(), 0);
  for (std::size_t i = mesh.axes.size(); i-- > 0;) {
    coordinate[i] = position % mesh.axes[i].size;
    position /= mesh.axes[i].size;
  }
  return coordinate;
}

}  // namespace

std::int64_t Mesh::size() const {
  std::int64_t product = 1;
  for (const MeshAxis& axis : axes) product = checked_mul(product, axis.size);
  return product;
}

std::optional<std::size_t> Mesh::find_axis(const std::string& axis) const {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name == axis) return i;
  }
  return std::nullopt;
}

std::int64_t rank_of(const Mesh& mesh, const Coordinate& coordinate) {
  SHARDPROOF_CHECK(coordinate.size() == mesh.axes.size());
  std::int64_t position = 0;
  for (std::size_t i = 0; i < coordinate.size(); ++i) {
    SHARDPROOF_CHECK(coordinate[i] >= 0 && coordinate[i] < mesh.axes[i].size);
    position = checked_add(checked_mul(position, mesh.axes[i].size), coordinate[i]);
  }
  if (mesh.devices.empty()) return position;
  SHARDPROOF_CHECK(static_cast<std::size_t>(position) < mesh.devices.size());
  return mesh.devices[static_cast<std::size_t>(position)];
}

Coordinate coordinate_of(const Mesh& mesh, std::int64_t rank) {
  const std::optional<std::int64_t> position = position_of(mesh, rank);
  SHARDPROOF_CHECK(position.has_value());
  return digits_of(mesh, *position);
}

std::string describe_rank(const Mesh& mesh, std::int64_t rank) {
  const std::optional<std::int64_t> position = position_of(mesh, rank);
  std::string text = mesh.joined && position && !mesh.axes.empty() ? "the rank of its stage" : "rank " + std::to_string(rank);
  if (!position || mesh.axes.empty()) return text;
  const Coordinate coordinate = digits_of(mesh, *position);
  text += " (";
  for (std::size_t i = 0; i < coordinate.size(); ++i) {
    text += (i == 0 ? "" : ", ") + mesh.axes[i].name + "=" + std::to_string(coordinate[i]);
  }
  return text + ")";
}

}  // namespace shardproof::ir

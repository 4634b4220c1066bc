#include "ir/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>

#include "ir/check.h"

namespace shardproof::ir {
namespace {

Mesh mesh_of(std::vector<std::pair<std::string, std::int64_t>> axes) {
  Mesh mesh;
  for (auto& [name, size] : axes) mesh.axes.push_back({name, size, {}});
  return mesh;
}

TEST(Mesh, LastAxisVariesFastest) {
  const Mesh mesh = mesh_of({{"dp", 2}, {"tp", 4}});
  EXPECT_EQ(mesh.size(), 8);
  EXPECT_EQ(rank_of(mesh, {0, 3}), 3);
  EXPECT_EQ(rank_of(mesh, {1, 0}), 4);
  EXPECT_EQ(coordinate_of(mesh, 6), (Coordinate{1, 2}));
  EXPECT_EQ(mesh.find_axis("tp"), std::optional<std::size_t>(1));
  EXPECT_FALSE(mesh.find_axis("pp"));
}

TEST(Mesh, RankAndCoordinateAreInverse) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    Mesh mesh;
    const std::size_t rank = random() % 5;
    for (std::size_t i = 0; i < rank; ++i) {
      mesh.axes.push_back({"a" + std::to_string(i), static_cast<std::int64_t>(1 + random() % 4), {}});
    }
    if (round % 2 == 1) {
      mesh.devices.resize(static_cast<std::size_t>(mesh.size()));
      std::iota(mesh.devices.begin(), mesh.devices.end(), 10);
      std::shuffle(mesh.devices.begin(), mesh.devices.end(), random);
    }
    std::set<Coordinate> seen;
    for (std::int64_t position = 0; position < mesh.size(); ++position) {
      const std::int64_t r = mesh.devices.empty() ? position : mesh.devices[static_cast<std::size_t>(position)];
      const Coordinate coordinate = coordinate_of(mesh, r);
      EXPECT_EQ(rank_of(mesh, coordinate), r);
      seen.insert(coordinate);
    }
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), mesh.size());
  }
}

TEST(Mesh, RefusesRanksAndCoordinatesOutside) {
  Mesh mesh = mesh_of({{"dp", 2}, {"tp", 4}});
  EXPECT_THROW(coordinate_of(mesh, 8), InternalError);
  EXPECT_THROW(coordinate_of(mesh, -1), InternalError);
  EXPECT_THROW(rank_of(mesh, {0, 4}), InternalError);
  EXPECT_THROW(rank_of(mesh, {0}), InternalError);
  mesh.devices = {7, 6, 5, 4, 3, 2, 1, 0};
  EXPECT_EQ(rank_of(mesh, {0, 0}), 7);
  EXPECT_THROW(coordinate_of(mesh, 8), InternalError);
  const Mesh huge = mesh_of({{"a", std::int64_t{1} << 40}, {"b", std::int64_t{1} << 40}});
  EXPECT_THROW(huge.size(), std::overflow_error);
}

TEST(Mesh, DescribesARankWithItsCoordinates) {
  const Mesh mesh = mesh_of({{"dp", 2}, {"tp", 4}});
  EXPECT_EQ(describe_rank(mesh, 3), "rank 3 (dp=0, tp=3)");
  EXPECT_EQ(describe_rank(mesh, 99), "rank 99");
  EXPECT_EQ(describe_rank(Mesh{}, 0), "rank 0");
}

}  // namespace
}  // namespace shardproof::ir

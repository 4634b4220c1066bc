// Rank lists of collectives against the definition: the axes found, written out as rank lists, are the lists.
#include "verifier/kernel/group_axes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>

namespace shardproof::verifier {
namespace {

using Groups = std::vector<std::vector<std::int64_t>>;
using Names = std::vector<std::string>;

// The groups of the ordered axes: for every choice of the other coordinates, the ranks in row-major order of these.
Groups written_out(const ir::Mesh& mesh, const Names& names) {
  std::map<ir::Coordinate, std::map<ir::Coordinate, std::int64_t>> groups;
  for (std::int64_t p = 0; p < mesh.size(); ++p) {
    const std::int64_t rank = mesh.devices.empty() ? p : mesh.devices[static_cast<std::size_t>(p)];
    ir::Coordinate others = ir::coordinate_of(mesh, rank), own;
    for (const std::string& name : names) own.push_back(std::exchange(others[*mesh.find_axis(name)], 0));
    groups[others][own] = rank;
  }
  Groups result;
  for (const auto& [others, members] : groups) {
    result.emplace_back();
    for (const auto& [own, rank] : members) result.back().push_back(rank);
  }
  return result;
}

ir::Mesh mesh_of(const std::vector<std::int64_t>& sizes, std::mt19937& random, bool shuffled) {
  ir::Mesh mesh;
  for (std::size_t a = 0; a < sizes.size(); ++a) mesh.axes.push_back({std::string(1, static_cast<char>('a' + a)), sizes[a], {}});
  if (shuffled) {
    mesh.devices.resize(static_cast<std::size_t>(mesh.size()));
    std::iota(mesh.devices.begin(), mesh.devices.end(), 0);
    std::shuffle(mesh.devices.begin(), mesh.devices.end(), random);
  }
  return mesh;
}

TEST(GroupAxes, EveryOrderOfEverySetOfAxesIsFound) {
  std::mt19937 random(5);
  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{2, 3, 2}, {4, 1, 2}, {2, 2, 2, 2}, {6}}) {
    for (const bool shuffled : {false, true}) {
      const ir::Mesh mesh = mesh_of(sizes, random, shuffled);
      Names all;
      for (const ir::MeshAxis& axis : mesh.axes)
        if (axis.size > 1) all.push_back(axis.name);
      std::sort(all.begin(), all.end());
      do {
        for (std::size_t count = 1; count <= all.size(); ++count) {
          const Names names(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
          Groups groups = written_out(mesh, names);
          std::shuffle(groups.begin(), groups.end(), random);  // the order of the lists says nothing
          EXPECT_EQ(axes_of_groups(mesh, groups), names);
        }
      } while (std::next_permutation(all.begin(), all.end()));
    }
  }
}

// A yes is only for the groups that these axes have: of random partitions few are, and those are recognised rightly.
TEST(GroupAxes, WhatIsFoundIsWhatWasWritten) {
  std::mt19937 random(11);
  int found = 0, refused = 0;
  for (int round = 0; round < 4000; ++round) {
    const ir::Mesh mesh = mesh_of(round % 2 == 0 ? std::vector<std::int64_t>{2, 2, 2} : std::vector<std::int64_t>{2, 3}, random, round % 4 >= 2);
    std::vector<std::int64_t> ranks(static_cast<std::size_t>(mesh.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    if (round % 3 == 0) std::shuffle(ranks.begin(), ranks.end(), random);
    else std::swap(ranks[random() % ranks.size()], ranks[random() % ranks.size()]);
    const std::size_t size = std::vector<std::size_t>{2, 3, 4, 6, 8}[random() % 5];
    if (ranks.size() % size != 0) continue;
    Groups groups;
    for (std::size_t at = 0; at < ranks.size(); at += size)
      groups.emplace_back(ranks.begin() + static_cast<std::ptrdiff_t>(at), ranks.begin() + static_cast<std::ptrdiff_t>(at + size));
    const auto names = axes_of_groups(mesh, groups);
    ++(names ? found : refused);
    if (!names) continue;
    const Groups wanted = written_out(mesh, *names);
    EXPECT_EQ(std::set(groups.begin(), groups.end()), std::set(wanted.begin(), wanted.end()));
  }
  EXPECT_GT(found, 50);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace shardproof::verifier

// Small values for sizes, by propagation and a bounded search that tries the smallest first.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "verifier/execution/scale_sizes.h"

namespace shardproof::execution {

struct SolveRequest {
  std::vector<Node> axes;          // the mesh: as few ranks as `max_ranks` or fewer
  std::int64_t max_ranks = 16;
  std::set<Node> distinct;         // sizes that differ at full size differ
  bool ordered_pieces = true;      // also of pieces that overlap
};

// The small size of each node; nullopt if none were found.
std::optional<std::vector<std::int64_t>> solve(const Sizes& sizes, const SolveRequest& request);

}  // namespace shardproof::execution

// Explicit rank lists of a collective, recognised as an ordered list of mesh axes. Groups and their order are
// data to be verified: a list that no ordering of axes generates is not accepted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/mesh.h"

namespace shardproof::verifier {

// Axes (major to minor) such that every group consists of the ranks that agree on all other coordinates, in the
// order of these axes; nullopt if there are none. An axis of size 1 is never listed.
std::optional<std::vector<std::string>> axes_of_groups(const ir::Mesh& mesh, const std::vector<std::vector<std::int64_t>>& groups);

}  // namespace shardproof::verifier

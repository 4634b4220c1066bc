// Suggestions for misspelt names.
#pragma once

#include <span>
#include <string_view>

namespace shardproof::ir {

// The candidate nearest to `name` by edit distance, when it is near enough to be a slip; else empty.
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace shardproof::ir

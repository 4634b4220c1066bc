// One entry of a collective's `axes`: a mesh axis, or some coordinates of one. "pp{0,15}" is the group of the first and the
// last of 16 pipeline ranks (Megatron-LM's embedding group); ranks at other coordinates take no part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::ir {

struct GroupAxis {
  std::string axis;
  std::vector<std::int64_t> coordinates;  // ascending; empty: all

  friend bool operator==(const GroupAxis&, const GroupAxis&) = default;
};

// nullopt if the braces do not hold one number or more in ascending order.
std::optional<GroupAxis> parse_group_axis(std::string_view text);
std::string to_string(const GroupAxis& axis);

}  // namespace shardproof::ir

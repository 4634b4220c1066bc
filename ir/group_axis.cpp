#include "ir/group_axis.h"

#include <charconv>

namespace shardproof::ir {

std::optional<GroupAxis> parse_group_axis(std::string_view text) {
  GroupAxis result;
  const std::size_t open = text.find('{');
  result.axis = text.substr(0, open);
  if (open == std::string_view::npos) return result;
  if (text.back() != '}') return std::nullopt;
  const char* at = text.data() + open + 1;
  const char* const end = text.data() + text.size() - 1;
  while (true) {
    std::int64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc{} || number < 0) return std::nullopt;
    if (!result.coordinates.empty() && result.coordinates.back() >= number) return std::nullopt;
    result.coordinates.push_back(number);
    if (next == end) return result;
    if (*next != ',') return std::nullopt;
    at = next + 1;
  }
}

std::string to_string(const GroupAxis& axis) {
  if (axis.coordinates.empty()) return axis.axis;
  std::string text = axis.axis + "{";
  for (std::size_t i = 0; i < axis.coordinates.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(axis.coordinates[i]);
  return text + "}";
}

}  // namespace shardproof::ir

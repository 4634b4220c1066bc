#include "ir/placement.h"

#include <algorithm>
#include <array>

#include "ir/check.h"
#include "ir/rational.h"

namespace shardproof::ir {
namespace {

constexpr std::array<std::string_view, 5> kReduceNames = {"sum", "max", "min", "avg", "prod"};

std::string list_text(const std::vector<std::int64_t>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(values[i]);
  return text;
}

// "tp", or "tp:(2)4" for the digit of extent 4 below the more significant 2. A digit does not know the size of
// its axis, so a major sub-axis cannot be told from a whole axis here.
std::string axis_text(const Digit& digit) {
  if (digit.pre == 1) return digit.axis;
  return digit.axis + ":(" + std::to_string(digit.pre) + ")" + std::to_string(digit.size);
}

std::string digit_text(const Digit& digit) {
  if (digit.is_local()) return "[" + std::to_string(digit.size) + "]";
  return "[" + axis_text(digit) + " " + std::to_string(digit.size) + "]";
}

bool is_whole(const DimLayout& dim) {
  return dim.permutation == Permutation::none && dim.padded_extent == 0 && dim.offsets.empty() &&
         std::all_of(dim.digits.begin(), dim.digits.end(), [](const Digit& digit) { return digit.is_local(); });
}

// Mesh digits first, at most one local digit behind them: what people call a shard.
bool is_plain_shard(const DimLayout& dim) {
  for (std::size_t i = 0; i < dim.digits.size(); ++i) {
    if (dim.digits[i].is_local() && i + 1 != dim.digits.size()) return false;
  }
  return dim.permutation == Permutation::none;
}

std::string dim_text(const DimLayout& dim, std::size_t index) {
  std::string text;
  if (is_plain_shard(dim)) {
    text = "shard(" + std::to_string(index) + ") on ";
    bool first = true;
    for (const Digit& digit : dim.digits) {
      if (digit.is_local()) continue;
      text += (first ? "" : ", ") + axis_text(digit);
      first = false;
    }
    if (first) text = "dim " + std::to_string(index);  // padded without being cut
  } else {
    text = "dim " + std::to_string(index) + " as ";
    for (const Digit& digit : dim.digits) text += digit_text(digit);
    if (dim.permutation == Permutation::zigzag) text += " zigzag";
  }
  if (dim.padded_extent != 0) text += " padded to " + std::to_string(dim.padded_extent);
  if (!dim.offsets.empty()) text += " at offsets " + list_text(dim.offsets);
  return text;
}

}  // namespace

std::string_view reduce_name(ReduceKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  SHARDPROOF_CHECK(index < kReduceNames.size());
  return kReduceNames[index];
}

std::optional<ReduceKind> parse_reduce(std::string_view name) {
  for (std::size_t i = 0; i < kReduceNames.size(); ++i) {
    if (kReduceNames[i] == name) return static_cast<ReduceKind>(i);
  }
  return std::nullopt;
}

Shape local_shape(const Placement& placement) {
  Shape shape;
  for (const DimLayout& dim : placement.dims) {
    std::int64_t extent = 1;
    for (const Digit& digit : dim.digits) {
      if (digit.is_local()) extent = checked_mul(extent, digit.size);
    }
    // Ragged shards have no local digit: one program serves all ranks, so it holds the largest of them.
    for (std::size_t r = 0; r + 1 < dim.offsets.size(); ++r) {
      extent = std::max(extent, checked_add(dim.offsets[r + 1], -dim.offsets[r]));
    }
    shape.push_back(extent);
  }
  return shape;
}

std::string describe(const Placement& placement) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < placement.dims.size(); ++i) {
    if (!is_whole(placement.dims[i])) parts.push_back(dim_text(placement.dims[i], i));
  }
  for (const PartialAxis& partial : placement.partial) {
    parts.push_back("partial(" + std::string(reduce_name(partial.reduce)) + ") on " + partial.axis);
  }
  for (const OwnedAxis& owned : placement.owned) {
    parts.push_back("only at " + owned.axis + "=" + list_text(owned.coordinates));
  }
  if (parts.empty()) return "replicate";
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : ", ") + parts[i];
  return text;
}

}  // namespace shardproof::ir

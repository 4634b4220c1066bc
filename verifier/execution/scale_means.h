// Constants like 1/8388608, one over a count: which sizes the count is a product of.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "ir/plan.h"
#include "verifier/execution/scale_collect.h"
#include "verifier/execution/scale_sizes.h"

namespace shardproof::execution {

// n of a constant n or 1/n; 0 for others and for those that are no counts: small ones and powers of ten.
std::int64_t counted_by(ir::Rational value);

// The counts among the constants of a program, loops included.
std::set<std::int64_t> counts_of(const ir::Program& program);

// A constant as a factor of a value.
struct ScaledSum {
  std::size_t instruction = 0;           // the constant's place: in order, a loop before its body
  std::int64_t count = 0;
  std::vector<std::vector<Node>> sums;   // the extents that the last sums behind the value run over, the latest first
  std::vector<Node> repeats;             // trips of the loops around it
};
std::vector<ScaledSum> scaled_sums(const ir::Program& program, const ProgramSlots& slots);

// The count as extents that were summed over, times or by mesh axes and repeats, times a number of its own. nullopt: it
// cannot be told.
std::optional<SizeCount> as_sizes(const ScaledSum& scaled, const std::vector<Node>& axes, const Sizes& sizes);

}  // namespace shardproof::execution

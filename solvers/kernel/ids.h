// Strong integer ids of the term pool. They are dense, start at 0 and follow creation order, so ordering
// by id is deterministic from run to run.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace shardproof::solvers {

template <typename Tag>
struct Id {
  std::int32_t value = -1;

  bool valid() const { return value >= 0; }
  std::size_t at() const { return static_cast<std::size_t>(value); }
  friend auto operator<=>(const Id&, const Id&) = default;
};

using VarId = Id<struct VarTag>;
using VarSetId = Id<struct VarSetTag>;
using AtomId = Id<struct AtomTag>;    // indivisible piece of an index term
using IndexId = Id<struct IndexTag>;  // integer term
using TermId = Id<struct TermTag>;    // scalar term
using TensorId = Id<struct TensorTag>;

}  // namespace shardproof::solvers

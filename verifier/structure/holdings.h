// Which plan states hold which reference states, and whether all elements of one are held by somebody.
//
// A placement is an index map that ir::validate has shown to reach every element exactly once for each set of replicas
// (ir/validate_placement.cpp), provided that all ranks of its mesh hold their part. In a plan of several stages only the
// ranks of the stage do: what is left to ask is whether the coordinates at which the stage runs take all values of the
// digits that cut the tensor, alone or together with other stages.
#pragma once

#include <string>
#include <vector>

#include "ir/plan.h"
#include "ir/reference_index.h"

namespace shardproof::verifier::structure {

// One reference state in one plan state.
struct Holding {
  const ir::StageProgram* stage = nullptr;
  const ir::PlanState* state = nullptr;
  ir::ValueId reference;                        // entry value of the reference state
  std::vector<const ir::Placement*> placements; // that cut it: its own, then that of its buffer or of the fused tensor
  ir::DType dtype = ir::DType::f32;             // of the plan state
};

// Of all states of all stages, in their order. Empty if there are more than kMaxHoldings: each of many states may hold a
// buffer with many members.
inline constexpr std::size_t kMaxHoldings = std::size_t{1} << 21;
std::vector<Holding> holdings_of(const ir::Document& document, const ir::ReferenceIndex& index);

struct Cover {
  enum class Kind { whole, partly, unknown };
  Kind kind = Kind::whole;
  std::string missing;  // partly: where the elements belong that nobody holds, "pp=1"
};
// Whether the holdings, all of one reference state, hold every element. unknown: parts in different layouts that may
// complete each other.
Cover cover_of(const ir::Plan& plan, const std::vector<const Holding*>& holdings);

bool is_partial(const Holding& holding);  // holds summands

}  // namespace shardproof::verifier::structure

// Which reference value the ranks hold in each value of a plan, and in which layout: found by running both in the prime
// field and comparing hashes, without names, placements or hints. A conjecture, and the best one there is where a plan is
// wrong: "summands over tp of `grad`", "2 times `loss`".
//
// Hashes are linear: the hash of a whole tensor is a sum of those of its shards, each shifted to its place, and of
// summands it is the sum (Freivalds 1977 for products; of layouts: a polynomial in one point for each dimension). So a
// layout costs a few sums over ranks to try, whatever the size of the tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "ir/rational.h"

namespace shardproof::execution {

// What the ranks hold: `factor` times a reference value, or a part of it.
struct Held {
  struct Axis {
    std::string axis;
    enum class Kind : std::uint8_t { shard, partial } kind = Kind::shard;
    std::int64_t dim = 0;  // of a shard
  };
  std::string reference;    // name of the reference value
  std::string part;         // "part 1 of 4 along dimension 0" (a microbatch); empty: the whole
  std::vector<Axis> axes;   // of the plan's mesh, others are replicated; partial also over loops (by their index)
  ir::Rational factor = 1;
  std::string times, divided_by;  // a scalar of the reference (a token count) instead of a number

  // As what computes with it takes it: no summands, no other scale.
  bool is_plain() const { return factor.is_one() && times.empty() && divided_by.empty() && !is_partial(); }
  bool is_partial() const;
};
// "`grad`, dimension 0 sharded over dp", "2 times `loss`", "summands over tp of `grad`".
std::string describe(const Held& held);

struct Alignment {
  std::vector<std::optional<Held>> values;  // by id of the plan's value; in a loop of the first iteration that has one
  // Outputs and next states that differ from what their bindings say.
  struct Differing {
    std::string name;
    bool is_state = false;
    ir::ValueId value;
  };
  std::vector<Differing> differing;
  // Results of instructions that hold no reference value though all their operands do, from which that reaches something
  // that differs; in program order.
  std::vector<ir::ValueId> frontier;
  std::int64_t aligned = 0, computed = 0;  // results of instructions, but for those of constants and indices alone
};

// Runs both programs once, at the sizes of the document. Ids in the result are those of `document`, which has to be in
// core ops. nullopt: it cannot be executed, or the reference is not defined on random inputs.
std::optional<Alignment> align(const ir::Document& document);

}  // namespace shardproof::execution

// Guesses how the variables of one reduction are functions of those of another: which index of a tensor is read on one side
// must be the one that is read on the other. Nothing here is trusted: an SMT solver is asked whether the guess is a
// one-to-one map (identity.h).
#pragma once

#include <optional>

#include "solvers/witness/expression.h"

namespace shardproof::solvers::witness {

struct Equation {
  Index form;   // mentions unknowns
  Index value;  // does not
};

struct Interval {
  std::int64_t lo = 0, hi = 0;
};
// Of an integer, by intervals. Throws std::overflow_error.
Interval interval_of(const Algebra& algebra, const Index& e);

// All unknowns, by the equations; nothing if they do not determine them in a way that is known here: mixed radixes
// (a*x + b*y with b*(extent of y) <= a), quotients with their remainders, guards that leave one value.
std::optional<Renaming> solve(const Algebra& algebra, const std::vector<Variable>& unknowns, std::vector<Equation> equations,
                              const std::vector<Guard>& guards);

}  // namespace shardproof::solvers::witness

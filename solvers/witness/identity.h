// Reduces the equality of two expressions, for all values of their free variables and all tensors, to claims about
// integers: which summands correspond, by which one-to-one map of their bound variables (in both directions), and that they
// read the same elements. The maps are guessed (solve.h); an SMT solver decides the claims.
//
// Law: let L be the places (summand, values of bound variables) of one side where all guards hold, R those of the other. If
// every place of L is mapped to exactly one place of R and back to itself, and every place of R likewise, then the map is a
// bijection; if corresponding places have equal coefficients and equal factors, the sums are equal. Maxima need a
// corresponding place in each direction only. Factors are equal if they are the same function of equal arguments.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "solvers/witness/expression.h"

namespace shardproof::solvers::witness {

struct Reduced {
  std::vector<std::string> claims;  // trivial ones left out
  std::vector<std::string> scripts; // SMT-LIB: all unsatisfiable if and only if the claims hold
  std::string reason;               // why there are none to ask; empty otherwise
  bool covered() const { return reason.empty(); }
};

Reduced reduce_identity(Algebra& algebra, const Form& left, const Form& right);

}  // namespace shardproof::solvers::witness

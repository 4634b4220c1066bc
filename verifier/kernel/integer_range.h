// Intervals of integer terms, for the check that computed integers fit their type.
//
// Part of the trusted base. Interval arithmetic over the structure of the term: sums, products and powers of factors,
// maxima, and sums over as many values as the bound variables take; a defined tensor has the interval of its definition.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "solvers/kernel/atoms.h"

namespace shardproof::verifier {

class IntegerRange {
 public:
  struct Interval {
    std::int64_t lo = 0, hi = 0;
    bool undeclared = false;  // some input that the term reads has no bounds but those of its type
    bool unknown = false;     // there are no bounds, or not within 64 bits, or this class does not know them
  };
  explicit IntegerRange(solvers::AtomTable& atoms) : atoms_(atoms), pool_(atoms.pool()) {}
  // Of all values that the term has where the guards hold.
  Interval of(solvers::TermId term, const std::vector<solvers::TermId>& guards) { return of(term, guards, 0); }
  // A literal tensor whose elements are in [lo, hi], or an input that is known by its type only.
  void know(solvers::TensorId tensor, std::int64_t lo, std::int64_t hi, bool undeclared = false) { memo_[tensor] = {lo, hi, undeclared}; }

 private:
  Interval of(solvers::TermId term, const std::vector<solvers::TermId>& guards, int depth);
  Interval of_factor(const solvers::Factor& factor, const std::vector<solvers::TermId>& guards, int depth);
  Interval of_tensor(solvers::TensorId tensor, int depth);

  solvers::AtomTable& atoms_;
  solvers::TermPool& pool_;
  std::map<solvers::TensorId, Interval> memo_;
};

}  // namespace shardproof::verifier

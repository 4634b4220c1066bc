// The meaning of terms by enumeration: every variable has a number, reductions are loops. This is the
// definition that the pool's rewrite rules are tested against, so it shares no code with them.
//
// A guard that is 0 removes its product whatever the other factors are. What has no value (1/0, log of a
// negative number, infinity - infinity) is NaN. Masked scores are -infinity.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {

class Assignment {
 public:
  void set(VarId var, std::int64_t value);
  std::int64_t at(VarId var) const;  // throws InternalError if it has no value

 private:
  std::vector<std::pair<VarId, std::int64_t>> values_;
};

// What the tensors hold. Total: indices may lie outside the shape, as in an access behind a guard.
struct TensorContents {
  std::function<double(TensorId, const std::vector<std::int64_t>&)> real;
  std::function<std::int64_t(TensorId, const std::vector<std::int64_t>&)> integer;
};

// Pseudo-random contents, a function of (seed, tensor, indices) only: multiples of 1/8 in [-2, 2] without 0, which
// polynomials of moderate degree add exactly in doubles; integer tensors are in [0, below). The pool must
// outlive the result.
TensorContents hashed_contents(const TermPool& pool, std::uint64_t seed);

// Throws std::overflow_error if a part exceeds 64 bits.
std::int64_t evaluate(const TermPool& pool, IndexId e, const Assignment& values, const TensorContents& contents);
// `largest`: the magnitude of the largest summand met anywhere, by which to judge how far rounding may have gone.
double evaluate(const TermPool& pool, TermId term, const Assignment& values, const TensorContents& contents,
                double* largest = nullptr);

}  // namespace shardproof::solvers

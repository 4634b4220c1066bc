// Range claims that intervals do not settle, decided by Z3 in linear integer arithmetic. Only "proved" is ever
// used: a claim that Z3 refutes, gives up on, or fails to read is simply not proved.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "solvers/kernel/atoms.h"
#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {

struct Z3Options {
  // Bounds one query, in Z3's own steps: it trips at the same place on every machine. Z3's time-outs are not used: its timer
  // threads can deadlock (Z3Prover/z3 5371, 5990), and then a verification would hang for ever.
  unsigned resource_limit = 3'000'000;
};

struct Z3Statistics {
  std::uint64_t asked = 0;  // calls; those not counted below were answered from the cache
  std::uint64_t proved = 0;
  std::uint64_t refuted = 0;
  std::uint64_t unknown = 0;  // limits, exceptions
  double seconds = 0;         // in Z3, its start included
};

// Answers are remembered by ids of the pool, so an object serves one pool. Z3 starts (~50 ms) at the first query.
class Z3Range {
 public:
  explicit Z3Range(const TermPool& pool, Z3Options options = {});
  ~Z3Range();
  Z3Range(const Z3Range&) = delete;
  Z3Range& operator=(const Z3Range&) = delete;

  // lo <= e <= hi for all values of the variables within their extents for which the guards hold. A guard that is
  // no range is ignored, which can only lose a proof. Elements of integer tensors are arbitrary within [0, below).
  bool prove_in_range(IndexId e, std::int64_t lo, std::int64_t hi, const std::vector<TermId>& guards);

  // The oracle refers to this object.
  RangeOracle oracle();
  const Z3Statistics& statistics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardproof::solvers

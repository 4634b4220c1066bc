// Where the terms of values come from that are shorter than what semantics gives: from a search, which looks for reference
// values in them, or from a certificate, in which an earlier search wrote down what it found.
//
// The law for whoever implements this: what is returned has the value of the term given, for all values of its variables and of all
// tensors but those that the call defines. A definition reads no value carried by a loop.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "solvers/kernel/atoms.h"

namespace shardproof::verifier {

class ProofSource {
 public:
  ProofSource() = default;
  virtual ~ProofSource() = default;
  ProofSource(const ProofSource&) = delete;
  ProofSource& operator=(const ProofSource&) = delete;

  // `name` is the value's. `may_define`: the value may become an atom.
  virtual solvers::TermId reference_value(const std::string& name, solvers::TermId term, bool may_define) = 0;

  // `completes_sums`: a value from which one expects that it is a reference value, rather than a summand of one.
  virtual solvers::TermId plan_value(const std::string& name, solvers::TermId term, bool completes_sums) = 0;

  // Asked after plan_value: a stand-in for a value that will match nothing any more (verifier/containment.h) may take its place.
  // `keep`: summands that must stay as they are.
  using Keep = std::function<bool(solvers::TermId)>;
  virtual solvers::TermId contain(solvers::TermId term, const std::vector<solvers::TermId>& /*operands*/, bool /*arithmetic*/, const Keep& /*keep*/) {
    return term;
  }

  // A plan value that a claim is about: summed over mesh axes as its placement says, or before it is compared.
  enum class ClaimStep : std::uint8_t { summed, compared };
  virtual solvers::TermId claimed_value(const std::string& claim, ClaimStep step, solvers::TermId term) = 0;

  // See solvers::RangeOracle.
  virtual bool proves_range(solvers::IndexId /*e*/, std::int64_t /*lo*/, std::int64_t /*hi*/, const std::vector<solvers::TermId>& /*guards*/) { return false; }
};

}  // namespace shardproof::verifier

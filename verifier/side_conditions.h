// Discharging side conditions that rewrites recorded: signs and finiteness of terms, derived from definitions.
// What is not discharged becomes an assumption of the verdict.
//
// Part of the trusted base. Each rule: squares, exp, guards and sums of non-negative terms are >= 0; a sum is > 0
// if no term is negative and one is > 0; a sum with guards is > 0 if some choice of the bound variables makes
// every guard of one positive monomial true (the witness is checked by substitution).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "solvers/atoms.h"

namespace shardproof::verifier {

class SideConditions {
 public:
  explicit SideConditions(solvers::AtomTable& atoms) : atoms_(atoms), pool_(atoms.pool()) {}

  bool holds(const solvers::Obligation& obligation);
  // The obligation as an assumption for people.
  std::string describe(const solvers::Obligation& obligation) const;

 private:
  bool positive(solvers::TermId term, int depth = 0);
  bool nonnegative(solvers::TermId term, int depth = 0);
  bool finite(solvers::TermId term, int depth = 0);
  bool positive_factor(const solvers::Factor& factor, int depth);
  bool nonnegative_factor(const solvers::Factor& factor, int depth);
  // Some assignment of `vars` makes all guards of `monomial` true and the rest satisfies `good`.
  bool has_witness(const solvers::Monomial& monomial, const std::vector<solvers::VarId>& vars, int depth);

  solvers::AtomTable& atoms_;
  solvers::TermPool& pool_;
  std::map<std::pair<solvers::TensorId, int>, bool> memo_;  // (atom, question)
};

}  // namespace shardproof::verifier

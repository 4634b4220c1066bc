// Discharging side conditions: what division, roots, logarithms and arithmetic on masked scores ask of their operands
// (semantics.h), and what rewrites recorded. Signs and finiteness of terms are derived from definitions.
// What the reference needs and is not discharged becomes an assumption of the verdict; the plan may need nothing else.
//
// Part of the trusted base. Every value is a real number or minus infinity; a term, which may be the negative of a
// value, is a real number or one of the infinities. Each rule: squares, exp, guards and sums of non-negative terms are >= 0; a sum is > 0
// if no term is negative and one is > 0; a sum with guards is > 0 if some choice of the bound variables makes
// every guard of one positive monomial true (the witness is checked by substitution); and over N places
// (sum f)^2 <= N sum f^2 for finite f (Cauchy-Schwarz).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "solvers/kernel/atoms.h"

namespace shardproof::verifier {

class SideConditions {
 public:
  explicit SideConditions(solvers::AtomTable& atoms) : atoms_(atoms), pool_(atoms.pool()) {}

  bool holds(const solvers::Obligation& obligation);
  // Whether it fails whatever the data. Not the opposite of `holds`: most are neither.
  bool refuted(const solvers::Obligation& obligation);
  // Whether the values of inputs decide it. Otherwise it either holds or does not, and cannot be an assumption.
  bool depends_on_data(const solvers::Obligation& obligation);
  // Whether the term is a function of indices and literals alone.
  bool is_index_function(solvers::TermId term) const;
  // From now on the condition is a premise: for this term and its multiples by a number that keeps it true, and where it is one whole tensor (times scalars), for all its
  // elements. Premises come before questions.
  void suppose(const solvers::Obligation& obligation);
  void suppose_nonnegative(solvers::TensorId tensor) { supposed_nonnegative_.insert(tensor); }
  // Of the tensors supposed to be non-negative, those that an answer may rest on.
  const std::set<solvers::TensorId>& premises_used() const { return premises_used_; }
  // A literal tensor: not data. Scalar literals are magnitudes, so positive.
  void know_literal(solvers::TensorId tensor, bool scalar) {
    literals_.insert(tensor);
    if (scalar) suppose_positive(tensor);
  }
  void suppose_positive(solvers::TensorId tensor) { memo_[{tensor, kPositive}] = memo_[{tensor, kNonnegative}] = true; }

  bool is_finite(solvers::TermId term) { return finite(term); }
  // Whether the term has a part of which nothing is known (Tensor::unknown).
  bool has_unknown(solvers::TermId term) const;
  // The obligation as an assumption for people.
  std::string describe(const solvers::Obligation& obligation);
  // For people: conditions that together imply this one, without what is known anyway (of f * g >= 0 with f >= 0, g >= 0).
  std::vector<solvers::Obligation> reduced(const solvers::Obligation& obligation);

 private:
  enum Question { kPositive, kNonnegative, kNonzero, kAboveMinusInfinity, kBelowInfinity };

  // c * s1 * s2 .. * t[..] without c and the indices of t: what a premise about whole tensors is looked up by.
  using Pattern = std::tuple<solvers::Obligation::Kind, solvers::TensorId, std::int32_t, std::vector<solvers::Factor>>;
  std::optional<Pattern> pattern_of(const solvers::Obligation& obligation, bool whole) const;
  bool is_whole(const solvers::TermNode& access) const;
  solvers::Obligation up_to_scale(const solvers::Obligation& obligation) const;
  bool is_premise(const solvers::Obligation& obligation) const;
  bool holds_for(const solvers::Obligation& obligation);
  bool nonzero(solvers::TermId term);
  bool is_masked_by_data(solvers::TermId term, int depth);
  bool positive(solvers::TermId term, int depth = 0);
  bool nonnegative(solvers::TermId term, int depth = 0);
  bool finite(solvers::TermId term, int depth = 0);
  // One of the last two questions.
  bool bounded(Question question, solvers::TermId term, int depth);
  bool bounded(Question question, const solvers::Factor& factor, int depth);
  bool bounded(Question question, const solvers::Monomial& monomial, int depth);
  bool is_tensor_bounded(Question question, solvers::TensorId tensor);
  bool is_max_bounded(solvers::TermId reduction, int depth);
  // A term that is at most as large, without squares of sums that sums of squares outweigh; nothing if there are none.
  std::optional<solvers::TermId> without_variances(solvers::TermId term, int depth);
  bool is_one_minus_power(solvers::TermId term, int depth);
  bool positive_factor(const solvers::Factor& factor, int depth);
  bool nonnegative_factor(const solvers::Factor& factor, int depth);
  // Some assignment of `vars` makes all guards of `monomial` true and the rest satisfies `good`.
  bool has_witness(const solvers::Monomial& monomial, const std::vector<solvers::VarId>& vars, int depth);

  solvers::AtomTable& atoms_;
  solvers::TermPool& pool_;
  std::map<std::pair<solvers::TensorId, Question>, bool> memo_;
  std::map<Question, std::size_t> asked_;  // of all tensors before this one
  std::set<solvers::Obligation> premises_;
  std::set<Pattern> patterns_;
  std::set<solvers::TensorId> supposed_nonnegative_, premises_used_, literals_;
};

}  // namespace shardproof::verifier

// Whether a recorded term may take the place of a computed one. No search: definitions are unfolded, latest first, until the
// difference is 0.
//
// Law: `may_replace(computed, recorded)` says yes only if
//   - the two have one value at every assignment of their variables. Their difference is 0 in normal form, or becomes so when atoms are
//     replaced by their definitions; or they are sums or maxima of which one
//     covers the other (solvers/kernel/cover.cpp); or verifier/kernel/equality.h finds them equal by cases
//   - every access of `recorded` to a tensor with a definition lies inside its shape wherever the guards in front of it hold, as intervals show:
//     outside, the tensor means nothing, and unfolding it would be wrong
//   - `recorded` has no variable that `computed` has not
//   - `recorded` meets no minus infinity in another way than a value of a program does. The laws of the pool are those of the reals; in
//     a program `-inf - -inf` and `0 * -inf` are refused, so a certificate must not bring them in. Where a tensor that may be minus infinity
//     is read, that is a summand by itself, with guards in front of it that exclude those of other such summands; or inside of exp, max
//     or a maximum; or `computed` has the same term.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "solvers/kernel/atoms.h"
#include "verifier/kernel/side_conditions.h"

namespace shardproof::verifier {

class FoldCheck {
 public:
  explicit FoldCheck(solvers::AtomTable& atoms) : atoms_(atoms), pool_(atoms.pool()), conditions_(atoms) {}

  // Empty: it may. Otherwise why not.
  std::string may_replace(solvers::TermId computed, solvers::TermId recorded);

  // Whether all accesses to defined tensors lie inside where the guards hold.
  bool in_shape(solvers::TermId term, std::vector<solvers::TermId>& guards);

  // The last part of the law for a term by itself.
  bool is_proper(solvers::TermId term) { return is_proper(term, {}); }

 private:
  bool equal(solvers::TermId a, solvers::TermId b);
  bool cancels(solvers::TermId difference, const std::vector<solvers::TermId>& guards, bool sums);
  bool is_covered(solvers::TermId difference, const std::vector<solvers::TermId>& guards);
  solvers::TermId without_common(solvers::TermId term);
  solvers::TermId sum_in(const solvers::Monomial& m) const;
  solvers::TermId unrolled(solvers::TermId term);
  solvers::TermId joined(solvers::TermId term);
  bool is_zero(solvers::TermId difference, const std::vector<solvers::TermId>& guards, int depth);
  std::optional<solvers::IndexId> main_form(solvers::TermId term) const;
  std::set<solvers::TensorId> latest(solvers::TermId term, bool only_one);
  const std::vector<solvers::TensorId>& reads(solvers::TensorId tensor);

  using Own = std::set<std::pair<solvers::TermId, bool>>;  // factors of the computed term, and whether in the numerator
  bool has_infinite(solvers::TermId term);
  bool is_proper(solvers::TermId term, const Own& own);
  bool is_proper_sum(solvers::TermId term, const Own& own);
  void collect(solvers::TermId term, Own& own, std::set<solvers::TermId>& seen) const;

  solvers::AtomTable& atoms_;
  solvers::TermPool& pool_;
  SideConditions conditions_;
  std::string outside_;  // the index that in_shape failed on last
  std::unordered_map<std::int32_t, bool> in_shape_, infinite_;
  std::unordered_map<std::int32_t, std::vector<solvers::TensorId>> reads_;  // of definitions
};

}  // namespace shardproof::verifier

// Folding: rewriting a term with accesses to reference atoms. The result always equals the input: which atom stands for
// a part is decided by AtomTable::accept, and how it is searched for is not trusted; taking terms apart and putting them together
// again is (README.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "solvers/kernel/atoms.h"

namespace shardproof::solvers {

// term == multiplier * core, where the multiplier collects what is common to all monomials: a rational, scalar
// accesses (no free variable) and guards. The core's rational content is 1 and its sign depends on skeletons
// only, so instances of one definition have instances of one core.
struct Content {
  Rational rational;
  std::vector<Factor> scalars;
  std::vector<TermId> guards;
  TermId core;
};

class Folder {
 public:
  explicit Folder(AtomTable& atoms) : atoms_(atoms), pool_(atoms.pool()) {}

  TermId fold(TermId term);
  // Like fold, and if that leaves an unfolded term, tries again after unfolding one or two levels of single
  // atoms: finds values whose grouping differs from the reference's. Costly: for values that matter.
  TermId refold(TermId term);
  // For values that a plan need not have completed yet: like fold, and if that leaves an unfolded term in which
  // something may cancel, tries again with everything spelled out that may.
  TermId fold_cancelling(TermId term);
  // At most one non-scalar access per monomial, and different monomials under different guards.
  bool is_folded(TermId term);

  // Reference side: gives `value` (over element variables) a folded form, defining an atom for its core if it has
  // none yet. The atom is named `name`.
  TermId define(const std::string& name, TermId value);

  Content split_content(TermId term);
  // Distinct atoms with definitions in a term.
  std::vector<TensorId> atoms_in(TermId term) const;
  AtomTable& atoms() { return atoms_; }

  // A definition that has the same shape as `term` but with other extents or bounds (a partial) or indices.
  struct NearMiss {
    TensorId tensor;
    bool same_extents = false;
  };
  std::optional<NearMiss> near_miss(TermId term);

 private:
  TermId fold_under(TermId term, const std::vector<TermId>& guards);
  TermId fold_poly(TermId term, const std::vector<TermId>& guards);
  TermId fold_monomial(const Monomial& m, const std::vector<TermId>& guards);
  std::optional<TermId> fold_products(TermId product, const std::vector<TermId>& guards, int& budget);
  TermId fold_reduce(TermId term, const std::vector<TermId>& guards);
  std::optional<TermId> fold_by_guard_form(TermId term, const std::vector<TermId>& guards);
  std::optional<TermId> fold_by_cases(TermId term, const std::vector<TermId>& guards);
  std::optional<TermId> match(TermId term, const std::vector<TermId>& guards);
  std::optional<TermId> match_core(TermId core, const std::vector<TermId>& guards);
  std::optional<TermId> match_by(TermId core, TermId shown, const std::vector<TermId>& guards);
  struct Numbered {
    std::vector<Factor> others;
    IndexId number;
  };
  std::optional<Numbered> numbered(TermId term);
  std::optional<TermId> match_numbered(TermId core, const std::vector<TermId>& guards);
  TermId rebuild(const Content& content, TermId core);
  bool accesses_in_range(TermId term) const;
  void add_variants(TensorId tensor);
  void add_pattern(TensorId tensor, TermId pattern, const std::vector<Obligation>& conditions);
  bool has_function(TermId term, Function a, Function b) const;
  std::optional<std::vector<Factor>> accesses_of(const Monomial& m) const;
  bool is_open(TensorId tensor);
  bool opens(TermId definition);
  void add_spread_variants();
  bool may_cancel(TermId term);
  std::optional<TermId> fold_spread(TermId term);
  std::optional<TermId> unfold_elementwise(TermId term, bool sums);
  TermId without_masked(TermId term);
  bool exclude(const Monomial& x, const Monomial& y) const;
  std::vector<bool> meeting(const std::vector<Monomial>& monomials);
  bool disjoint(const std::vector<Monomial>& monomials);
  std::optional<std::pair<TermId, TermId>> split_folded(TermId term);
  struct Range {
    std::int64_t lo, hi;
  };
  TermId guard_on(IndexId form, const Monomial& m) const;
  std::optional<std::vector<Range>> ranges_on(IndexId form, const std::vector<Monomial>& monomials);
  std::vector<std::pair<std::size_t, IndexId>> carried_forms(const std::vector<Monomial>& monomials) const;
  TermId fold_pieces(TermId term);
  TermId refold_sums(TermId term);
  TermId fold_distributed(TermId term);
  TermId join_running_sums(TermId term);
  TermId roll(TermId term);
  std::optional<TermId> roll_two(TermId a, TermId b);
  std::optional<TermId> between(TermId a, TermId b, IndexId t);
  std::optional<IndexId> between(IndexId a, IndexId b, IndexId t);
  std::optional<TermId> join_group(const std::vector<std::pair<Rational, TermId>>& sums, const std::vector<TermId>& guards,
                                   std::vector<bool>& joined, int& budget);
  std::vector<Monomial> summands_over(const std::vector<VarId>& vars, TermId sum, TermPool::FreshScope& scope);

  AtomTable& atoms_;
  TermPool& pool_;
  std::unordered_map<std::int32_t, TermId> memo_;
  std::size_t memo_generation_ = 0;
  std::unordered_map<std::int32_t, bool> open_;  // by tensor
  std::size_t spread_until_ = 0;                 // tensors whose spread-out definitions are registered
};

}  // namespace shardproof::solvers

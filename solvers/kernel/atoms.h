// Reference atoms: tensors with a definition, and the one trusted step of folding.
//
// Every arithmetic operation of the reference defines an atom t by t[y] = definition(y) for all y within t's
// shape. Folding replaces a term by an access t[e] when the definition, instantiated at e, normalises to
// that very term and e is within the shape under the guards that multiply the term. Who proposes t and e
// (unify.h, fold.h) need not be trusted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {

// Decides lo <= e <= hi under guards when intervals do not; false means "not proved".
using RangeOracle = std::function<bool(IndexId e, std::int64_t lo, std::int64_t hi, const std::vector<TermId>& guards)>;

inline constexpr std::int32_t kExpansionSize = 160;  // nodes

// pattern(y) == factor * t[y] for all y in t's shape, if the conditions hold for all y: the definition itself (factor 1,
// no condition), or the definition with some atoms unfolded and its rational content divided out. The conditions are
// what normalising the unfolded definition recorded, unless that counts as recorded for the whole run.
struct Variant {
  TensorId tensor;
  TermId pattern;   // over pattern variables
  Rational factor;  // non-zero
  TermId key;       // what terms are matched with to propose an instance: the pattern or one of its pieces
  std::vector<Obligation> conditions = {};
};

class AtomTable {
 public:
  AtomTable(TermPool& pool, RangeOracle oracle);

  // Defines an atom by `body` over the element variables `dims` (its shape is their extents). It is found by
  // folding only through variants, which the caller adds.
  TensorId define(std::string name, const std::vector<VarId>& dims, TermId body);
  // A tensor without definition: input, state, or opaque stand-in.
  TensorId opaque(Tensor tensor);

  bool has_definition(TensorId tensor) const { return definition(tensor).valid(); }
  TermId definition(TensorId tensor) const;  // over pattern variables; invalid if none

  // Adds a variant: derived from the definition by unfolding, so that pattern == factor * tensor[y].
  void add_variant(Variant variant);
  const std::vector<std::size_t>& variants_with_skeleton(std::uint64_t skeleton) const;
  bool knows_skeleton(std::uint64_t skeleton) const { return by_skeleton_.count(skeleton) != 0; }
  std::size_t variant_count() const { return variants_.size(); }
  const Variant& variant(std::size_t index) const { return variants_[index]; }

  // The trusted step: the access (times the variant's factor) if it provably equals `term` wherever
  // all `guards` hold: the instantiated pattern is the term, or becomes equal to it when both are multiplied by the
  // guards (a slice of a piecewise definition), or covers it there.
  std::optional<TermId> accept(TermId term, std::size_t variant, const std::vector<IndexId>& indices,
                               const std::vector<TermId>& guards);

  // Whether `whole`, a sum or maximum, equals `part` wherever the guards hold: `part` runs over a part of its range, or
  // several, and what is missing is 0 or minus infinity there (cover.cpp).
  bool covers(TermId whole, TermId part, const std::vector<TermId>& guards);

  // Replaces accesses to atoms for which `select` holds by their definitions, one level. Exact: an access outside
  // the shape can only occur multiplied by a guard that is then 0.
  TermId unfold(TermId term, const std::function<bool(TensorId)>& select);

  // The same again and again, up to `levels` times; nothing if that changes nothing or gives more than `size` nodes.
  std::optional<TermId> unfold_levels(TermId term, const std::function<bool(TensorId)>& select, int levels, std::int32_t size);
  // A definition unfolded like that, and what the rewrites in it required. That is not recorded as required by the run:
  // it matters only where the result is used.
  struct Unfolded {
    TermId term;
    std::vector<Obligation> conditions;
  };
  std::optional<Unfolded> unfold_definition(TensorId tensor, const std::function<bool(TensorId)>& select, int levels, std::int32_t size);

  // Replaces all accesses to elementwise atoms by their definitions, and those in there in turn, down to anchors:
  // contractions, scalars, plain sums of values (else the residual stream would unfold through all layers), and what
  // would grow beyond `kExpansionSize`. Throws BudgetExceeded.
  TermId expand(TermId term);

  bool in_range(IndexId e, std::int64_t extent, const std::vector<TermId>& guards);
  bool has_reduction(TensorId tensor) const;

  std::size_t generation() const { return generation_; }  // grows with every definition or variant
  std::uint64_t accepted() const { return accepted_; }
  TermPool& pool() { return pool_; }

 private:
  // What stands for an access, over pattern variables and equal to the definition; invalid: the access stays.
  using Replacement = std::function<TermId(TensorId)>;
  TermId unfold_term(TermId term, const Replacement& replacement, std::unordered_map<std::int32_t, TermId>& memo);
  TermId expansion(TensorId tensor);
  bool is_masked(TermId term, Reduction op, const std::vector<TermId>& guards);
  std::optional<std::pair<std::int64_t, std::int64_t>> covered(TermId body, const std::vector<VarId>& vars, VarId v, TermId part,
                                                               const std::vector<TermId>& guards);
  bool parts_cover(TermId whole, const std::vector<TermId>& parts, const std::vector<TermId>& guards);
  bool is_anchor(TensorId tensor) const;

  TermPool& pool_;
  RangeOracle oracle_;
  std::vector<TermId> definitions_;  // by tensor
  std::unordered_map<std::int32_t, TermId> expansions_;  // of tensors; invalid: an anchor
  std::vector<Variant> variants_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> by_skeleton_;
  std::size_t generation_ = 0;
  std::uint64_t accepted_ = 0;
};

}  // namespace shardproof::solvers

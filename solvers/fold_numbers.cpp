// Numbers among factors. An index read as a number keeps its constant apart: (e + c) * F is two summands, e * F and c * F,
// and a definition i * F has one. Positions that are counted from somewhere (a rank's second chunk of a sequence) are
// instances all the same. Proposed here, with a variable in the place of the number; `accept` decides about the sum.
#include <algorithm>

#include "solvers/fold.h"
#include "solvers/unify.h"

namespace shardproof::solvers {

namespace {

constexpr std::size_t kMaxCandidates = 8;
constexpr int kMaxTries = 8;

}  // namespace

// c * F + k * e * F as F and c + k * e.
std::optional<Folder::Numbered> Folder::numbered(TermId term) {
  const std::vector<Monomial> monomials = pool_.monomials_of(term);
  if (monomials.size() != 2) return std::nullopt;
  for (const std::size_t with : {0U, 1U}) {
    const Monomial& number = monomials[with];
    const Monomial& constant = monomials[1 - with];
    if (!number.coefficient.is_integer() || !constant.coefficient.is_integer()) continue;
    for (const Factor& f : number.factors) {
      if (f.power != 1 || pool_.node(f.term).kind != TermKind::index_value) continue;
      std::vector<Factor> others = number.factors;
      std::erase(others, f);
      if (others != constant.factors || others.empty()) continue;
      return Numbered{std::move(others), pool_.index_scale(pool_.node(f.term).form, number.coefficient.num, constant.coefficient.num)};
    }
  }
  return std::nullopt;
}

std::optional<TermId> Folder::match_numbered(TermId core, const std::vector<TermId>& guards) {
  const std::optional<Numbered> split = numbered(core);
  if (!split) return std::nullopt;
  TermPool::FreshScope scope(pool_);
  const VarId place = scope.fresh(std::max<std::int64_t>(2, ir::checked_add(pool_.index(split->number).hi, 1)));
  const TermId proxy = pool_.mul(pool_.product(split->others, Rational(1)), pool_.index_value(pool_.index_var(place)));
  const std::vector<std::size_t> candidates = atoms_.variants_with_skeleton(pool_.node(proxy).skeleton);
  for (std::size_t c = 0; c < candidates.size() && c < kMaxCandidates; ++c) {
    const Variant variant = atoms_.variant(candidates[c]);
    std::optional<TermId> result;
    propose_instances(pool_, variant, proxy, guards, kMaxTries, [&](std::vector<IndexId> indices) {
      Substitution number;
      number.set(place, split->number);
      for (IndexId& e : indices) e = pool_.substitute_index(e, number);
      result = atoms_.accept(core, candidates[c], indices, guards);
      return result.has_value();
    });
    if (result) return result;
  }
  return std::nullopt;
}

}  // namespace shardproof::solvers

// The reference side of folding, defining atoms and their variants, and the search that unfolds before it folds.
#include <algorithm>
#include <map>

#include "solvers/fold.h"

namespace shardproof::solvers {

namespace {
constexpr std::int32_t kVariantSize = kExpansionSize;  // larger unfolded variants are not registered
constexpr std::int32_t kRefoldSize = 400;    // larger terms are not refolded
}  // namespace

bool Folder::accesses_in_range(TermId term) const {
  const TermNode& n = pool_.node(term);
  if (n.kind == TermKind::access) {
    const std::vector<std::int64_t>& shape = pool_.tensor(n.tensor).shape;
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (pool_.index(n.indices[d]).lo < 0 || pool_.index(n.indices[d]).hi >= shape[d]) return false;
  }
  for (const Monomial& m : n.monomials)
    for (const Factor& f : m.factors)
      if (!accesses_in_range(f.term)) return false;
  for (TermId a : n.arguments)
    if (!accesses_in_range(a)) return false;
  return n.kind != TermKind::reduce || accesses_in_range(n.body);
}

TermId Folder::define(const std::string& name, TermId value) {
  value = fold(value);
  if (is_folded(value)) return value;
  Content content = split_content(value);
  // A guard may leave the definition only if the rest is meaningful where the guard is false.
  if (!content.guards.empty() && !accesses_in_range(content.core)) {
    std::vector<Factor> guards;
    for (TermId g : content.guards) guards.push_back({g, 1});
    content.core = pool_.mul(pool_.product(guards, Rational(1)), content.core);
    content.guards.clear();
  }
  // Scalar accesses stay outside, so that values with and without such a factor share an atom. Rational factors do
  // not: they would pile up from layer to layer. Definitions are matched up to a rational factor anyway.
  TermId core = fold(pool_.scale(content.core, content.rational));
  content.rational = Rational(1);
  if (!is_folded(core)) {
    Content again = split_content(core);
    if (again.guards.empty() && !again.scalars.empty()) {
      content.scalars.insert(content.scalars.end(), again.scalars.begin(), again.scalars.end());
      core = pool_.scale(again.core, again.rational);
    }
    std::vector<VarId> dims;
    for (VarId v : pool_.members(pool_.node(core).free)) dims.push_back(v);
    std::sort(dims.begin(), dims.end(), [&](VarId a, VarId b) { return pool_.var(a).name < pool_.var(b).name; });
    const TensorId tensor = atoms_.define(name, dims, core);
    add_variants(tensor);
    std::vector<IndexId> indices;
    for (VarId v : dims) indices.push_back(pool_.index_var(v));
    core = pool_.access(tensor, std::move(indices));
  }
  return rebuild(content, core);
}

// `pattern` equals the tensor where the conditions hold.
void Folder::add_pattern(TensorId tensor, TermId pattern, const std::vector<Obligation>& conditions) {
  if (pool_.node(pattern).size > kVariantSize && pattern != atoms_.definition(tensor)) return;
  const Content content = split_content(pattern);
  const TermId core = pool_.scale(pattern, ir::inverse(content.rational));
  if (pool_.node(core).kind == TermKind::access || pool_.as_constant(core)) return;
  atoms_.add_variant({tensor, core, ir::inverse(content.rational), core, conditions});
  // A slice that lies in one piece of a piecewise definition shows that piece only.
  std::map<std::vector<Factor>, std::vector<Monomial>> pieces;
  for (const Monomial& m : pool_.monomials_of(core)) {
    std::vector<Factor> own;
    Monomial rest{m.coefficient, {}};
    for (const Factor& f : m.factors) (pool_.is_guard(f.term) ? own : rest.factors).push_back(f);
    pieces[own].push_back(std::move(rest));
  }
  if (pieces.size() == 1 && pieces.begin()->first.empty()) return;
  const std::vector<Monomial> everywhere = pieces[{}];
  for (auto& [own, monomials] : pieces) {
    if (monomials.empty()) continue;
    if (!own.empty()) monomials.insert(monomials.end(), everywhere.begin(), everywhere.end());
    const TermId piece = pool_.poly(std::move(monomials));
    const Content inner = split_content(piece);
    const Rational inverse = ir::inverse(inner.rational);
    const TermId key = pool_.scale(piece, inverse);
    if (pool_.node(key).kind == TermKind::access || pool_.as_constant(key)) continue;
    atoms_.add_variant({tensor, pool_.scale(core, inverse), ir::inverse(content.rational) * inverse, key, conditions});
  }
}

void Folder::add_variants(TensorId tensor) {
  const TermId definition = atoms_.definition(tensor);
  const auto add = [&](TermId pattern) { add_pattern(tensor, pattern, {}); };
  add(definition);
  try {
    add(atoms_.unfold(definition, [this](TensorId t) { return !pool_.tensor(t).shape.empty(); }));
    for (const bool sums : {false, true})
      if (const auto deep = unfold_elementwise(definition, sums)) add(*deep);
  } catch (const BudgetExceeded& e) {
    if (e.what_kind != BudgetExceeded::What::size) throw;  // a variant too large to keep is simply not kept
  }
}

// Elementwise atoms unfolded as far as they go; with `sums`, plain sums once as well.
std::optional<TermId> Folder::unfold_elementwise(TermId term, bool sums) {
  TermId start = term;
  if (sums) start = atoms_.unfold(term, [this](TensorId t) { return !atoms_.has_reduction(t) && !pool_.tensor(t).shape.empty(); });
  const TermId whole = atoms_.expand(start);
  if (whole == term || pool_.node(whole).size > kVariantSize) return std::nullopt;
  return whole;
}

TermId Folder::refold(TermId term) {
  TermId best = fold(term);
  if (is_folded(without_masked(best))) return best;
  if (const auto split = split_folded(best)) return pool_.add(split->first, refold(split->second));
  try {
    if (const auto pieces = fold_by_cases(best, {})) return *pieces;
    if (const TermId joined = fold_distributed(best); joined != best) best = fold(joined);
    if (pool_.node(best).free.value == 0) best = refold_sums(best);
    if (is_folded(best)) return best;
    if (pool_.node(best).size > kRefoldSize) return best;
    // Whatever the association of an elementwise computation, its fully unfolded form is one polynomial.
    if (pool_.node(best).height == 0)
      for (const bool sums : {false, true})
        if (const auto deep = unfold_elementwise(best, sums)) {
          const TermId folded = fold_pieces(*deep);
          if (is_folded(folded)) return folded;
        }
    const std::vector<TensorId> candidates = atoms_in(best);
    if (candidates.size() > 16) return best;
    const auto try_unfolding = [&](const std::function<bool(TensorId)>& select) -> std::optional<TermId> {
      const TermId unfolded = atoms_.unfold(best, select);
      if (unfolded == best || pool_.node(unfolded).size > 2 * kRefoldSize) return std::nullopt;
      const TermId folded = fold(unfolded);
      if (is_folded(folded)) return folded;
      return std::nullopt;
    };
    for (TensorId a : candidates)
      if (const auto r = try_unfolding([&](TensorId t) { return t == a; })) return *r;
    if (const auto r = try_unfolding([this](TensorId t) { return !pool_.tensor(t).shape.empty(); })) return *r;
    if (const auto r = fold_spread(best)) return *r;
  } catch (const BudgetExceeded& e) {
    if (e.what_kind != BudgetExceeded::What::size) throw;
  }
  return best;
}

// Each sum among other summands by itself: a gradient norm has one for every parameter.
TermId Folder::refold_sums(TermId term) {
  const std::vector<Monomial> monomials = pool_.monomials_of(term);
  if (monomials.size() < 2) return term;
  std::vector<TermId> pieces;
  for (const Monomial& m : monomials) {
    const TermId alone = pool_.poly({m});
    pieces.push_back(pool_.node(alone).height > 0 ? refold(alone) : alone);
  }
  const TermId result = pool_.sum(pieces);
  return result == term ? term : fold(result);
}

// Matches what stands under each set of guards as a whole, without folding below.
TermId Folder::fold_pieces(TermId term) {
  if (const auto whole = match(term, {})) return *whole;
  std::map<std::vector<Factor>, std::vector<Monomial>> groups;
  for (const Monomial& m : pool_.monomials_of(term)) {
    std::vector<Factor> own;
    Monomial rest{m.coefficient, {}};
    for (const Factor& f : m.factors) (pool_.is_guard(f.term) ? own : rest.factors).push_back(f);
    groups[own].push_back(std::move(rest));
  }
  std::vector<TermId> pieces;
  for (auto& [own, group] : groups) {
    std::vector<TermId> guards;
    for (const Factor& g : own) guards.push_back(g.term);
    TermId body = pool_.poly(std::move(group));
    if (const auto whole = match(body, guards)) body = *whole;
    pieces.push_back(pool_.mul(pool_.product(own, Rational(1)), body));
  }
  return pool_.sum(pieces);
}

std::optional<Folder::NearMiss> Folder::near_miss(TermId term) {
  const Content content = split_content(term);
  for (std::size_t i : atoms_.variants_with_skeleton(pool_.node(content.core).skeleton)) {
    const Variant& v = atoms_.variant(i);
    const TermNode& a = pool_.node(v.pattern);
    const TermNode& b = pool_.node(content.core);
    bool same = a.kind == b.kind && a.bound.size() == b.bound.size();
    for (std::size_t k = 0; same && k < a.bound.size(); ++k) same = pool_.var(a.bound[k]).extent == pool_.var(b.bound[k]).extent;
    return NearMiss{v.tensor, same};
  }
  return std::nullopt;
}

}  // namespace shardproof::solvers

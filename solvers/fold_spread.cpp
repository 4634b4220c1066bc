// Values that cancel. A softmax subtracts a maximum which drops out again, a variance subtracts a mean that is itself a
// sum of what it is subtracted from: a plan that writes such a value without the intermediate one, or by way of another,
// has no atom for its own intermediate values, and meets the reference's only where all of them are spelled out. The
// laws (ring, exp, log; scalar.cpp, functions.cpp) then do the rest.
//
// Definitions are spread out through open atoms: exponentials and logarithms, sums of values or squares, sums of values
// with an open one or a maximum among them (x - m, x - mean), and products of open atoms. Contractions and anything
// under other functions are closed, so a spread term does not reach through a layer.
#include <algorithm>
#include <set>
#include <tuple>

#include "solvers/kernel/accesses.h"
#include "solvers/fold.h"

namespace shardproof::solvers {

namespace {
constexpr std::int32_t kSpreadSize = 300;  // larger terms are not spread out
constexpr int kSpreadLevels = 8;
}  // namespace

bool Folder::has_function(TermId term, Function a, Function b) const {
  const TermNode& n = pool_.node(term);
  if (n.kind == TermKind::apply && (n.function == a || n.function == b)) return true;
  for (const Monomial& m : n.monomials)
    for (const Factor& f : m.factors)
      if (has_function(f.term, a, b)) return true;
  return std::any_of(n.arguments.begin(), n.arguments.end(), [&](TermId t) { return has_function(t, a, b); }) ||
         (n.kind == TermKind::reduce && has_function(n.body, a, b));
}

// The accesses of a product without guards, masks and scalars; nothing if there is another factor.
std::optional<std::vector<Factor>> Folder::accesses_of(const Monomial& m) const {
  std::vector<Factor> accesses;
  for (const Factor& f : m.factors) {
    const TermNode& n = pool_.node(f.term);
    const bool masked = n.kind == TermKind::apply && n.function == Function::negative_infinity;
    if (n.kind == TermKind::range || masked || (n.kind == TermKind::access && n.free.value == 0 && m.factors.size() > 1)) continue;
    if (n.kind != TermKind::access) return std::nullopt;
    accesses.push_back(f);
  }
  return accesses;
}

bool Folder::is_open(TensorId tensor) {
  const auto it = open_.find(tensor.value);
  if (it != open_.end()) return it->second;
  const TermId definition = atoms_.definition(tensor);
  return open_[tensor.value] = definition.valid() && pool_.node(definition).size <= kSpreadSize && opens(definition);
}

bool Folder::opens(TermId definition) {
  if (has_function(definition, Function::exp, Function::log)) return true;
  const TermNode& n = pool_.node(definition);
  const auto tensor_of = [&](const Factor& f) { return pool_.node(f.term).tensor; };
  const auto all_open = [&](const std::vector<Factor>& factors) {
    return std::all_of(factors.begin(), factors.end(), [&](const Factor& f) { return is_open(tensor_of(f)); });
  };
  const std::vector<Monomial> monomials = pool_.monomials_of(definition);
  if (monomials.size() == 1) {
    TermId sum = definition;
    if (n.kind == TermKind::poly && monomials[0].factors.size() == 1) sum = monomials[0].factors[0].term;
    if (pool_.node(sum).kind == TermKind::reduce) {  // of values, of squares, of what is open
      if (pool_.node(sum).reduction != Reduction::sum) return false;
      for (const Monomial& m : pool_.monomials_of(pool_.node(sum).body)) {
        const auto factors = accesses_of(m);
        if (!factors || factors->empty()) return false;
        const bool power = factors->size() == 1 && (*factors)[0].power > 0 && (*factors)[0].power <= 2;
        if (!power && !all_open(*factors)) return false;
      }
      return true;
    }
    const auto factors = accesses_of(monomials[0]);
    const bool product = factors && (factors->size() > 1 || (factors->size() == 1 && (*factors)[0].power != 1));
    return product && all_open(*factors);
  }
  // A sum of values.
  bool some = false;
  for (const Monomial& m : monomials) {
    const auto factors = accesses_of(m);
    if (!factors || factors->size() > 1) return false;
    if (factors->empty()) continue;
    if ((*factors)[0].power != 1) {
      if (!all_open(*factors)) return false;
      some = true;
      continue;
    }
    const TensorId tensor = tensor_of((*factors)[0]);
    const TermId inner = atoms_.definition(tensor);
    const bool maximum = inner.valid() && pool_.node(inner).kind == TermKind::reduce && pool_.node(inner).reduction == Reduction::max;
    some = some || maximum || is_open(tensor);
  }
  return some;
}

// Definitions spread out, as variants. Done when a plan first needs them: most plans never do.
void Folder::add_spread_variants() {
  const auto open = [this](TensorId t) { return is_open(t); };
  for (; spread_until_ < pool_.tensor_count(); ++spread_until_) {
    const TensorId tensor{static_cast<std::int32_t>(spread_until_)};
    const TermId definition = atoms_.definition(tensor);
    if (!definition.valid() || pool_.node(definition).size > kSpreadSize) continue;
    try {
      if (const auto pattern = atoms_.unfold_definition(tensor, open, kSpreadLevels, kSpreadSize))
        add_pattern(tensor, pattern->term, pattern->conditions);
    } catch (const BudgetExceeded& e) {
      if (e.what_kind != BudgetExceeded::What::size) throw;  // too large to keep
    } catch (const std::overflow_error&) {
    }
  }
}

// Whether spreading may help: there is an exponential or a logarithm, a power or product of open atoms, or a sum of
// several sums of values (not of parts of the same).
bool Folder::may_cancel(TermId term) {
  if (has_function(term, Function::exp, Function::log)) return true;
  const std::vector<Monomial> monomials = pool_.monomials_of(term);
  std::set<std::tuple<TensorId, std::int64_t, std::int64_t>> sums;
  for (const Monomial& m : monomials) {
    int open = 0;
    for (const Factor& f : m.factors) {
      const TermNode& n = pool_.node(f.term);
      if (n.kind == TermKind::access && n.free.value != 0 && is_open(n.tensor)) open += std::abs(f.power);
      if (n.kind == TermKind::apply)
        for (TermId a : n.arguments)
          if (may_cancel(a)) return true;
      if (n.kind != TermKind::reduce || n.reduction != Reduction::sum) continue;
      if (may_cancel(n.body)) return true;
      const auto summand = accesses_of(pool_.monomials_of(n.body)[0]);
      if (m.factors.size() == 1 && summand && summand->size() == 1 && (*summand)[0].power == 1)
        sums.insert({pool_.node((*summand)[0].term).tensor, m.coefficient.num, m.coefficient.den});
    }
    if (open > 1) return true;
  }
  return sums.size() > 1;
}

std::optional<TermId> Folder::fold_spread(TermId term) {
  if (pool_.node(term).size > kSpreadSize || !may_cancel(term)) return std::nullopt;
  add_spread_variants();
  try {
    if (const TermId folded = fold(term); is_folded(folded)) return folded;
    const auto whole = atoms_.unfold_levels(term, [this](TensorId t) { return is_open(t); }, kSpreadLevels, kSpreadSize);
    if (!whole) return std::nullopt;
    const TermId folded = fold(*whole);
    return is_folded(folded) ? std::optional(folded) : std::nullopt;
  } catch (const BudgetExceeded& e) {
    if (e.what_kind != BudgetExceeded::What::size) throw;
  } catch (const std::overflow_error&) {
  }
  return std::nullopt;
}

TermId Folder::fold_cancelling(TermId term) {
  TermId folded = fold(term);
  if (const TermId joined = join_running_sums(folded); joined != folded) folded = fold(joined);
  return is_folded(folded) ? folded : fold_spread(folded).value_or(folded);
}

}  // namespace shardproof::solvers

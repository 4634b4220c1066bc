#include "verifier/certificate/fold_check.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "solvers/kernel/accesses.h"
#include "verifier/kernel/equality.h"

namespace shardproof::verifier {

using solvers::Factor;
using solvers::Function;
using solvers::Monomial;
using solvers::Reduction;
using solvers::TensorId;
using solvers::TermId;
using solvers::TermKind;
using solvers::TermNode;
using solvers::TermPool;

namespace {

constexpr int kMaxRounds = 20;     // of unfolding
constexpr int kFewRounds = 3;      // of a sum with guards, before it is looked at piece by piece
constexpr std::size_t kMaxInstances = 512;  // of a sum written out
constexpr int kMaxSums = 3;                 // variables of it
constexpr std::size_t kMaxRunning = 24;     // summands of running sums
constexpr std::size_t kMaxCovering = 8;     // summands of a difference of reductions
constexpr int kMaxForms = 4;       // cut within each other
constexpr std::size_t kFewAtoms = 8;  // mostly the latest is what was recorded, and no other needs to be unfolded
constexpr std::size_t kReach = 200;  // definitions followed to see which atom is made of which

}  // namespace

std::string FoldCheck::may_replace(TermId computed, TermId recorded) {
  if (computed == recorded) return {};
  for (const solvers::VarId v : pool_.members(pool_.node(recorded).free))
    if (!pool_.contains(pool_.node(computed).free, v)) return "it depends on `" + pool_.var(v).name + "`, on which the value does not";
  std::vector<TermId> guards;
  if (!in_shape(recorded, guards)) return "an index is not shown to lie inside its tensor: " + outside_;
  if (has_infinite(recorded)) {
    Own own;
    std::set<TermId> seen;
    collect(computed, own, seen);
    if (!is_proper(recorded, own)) return "it computes with what may be minus infinity";
  }
  return equal(computed, recorded) ? std::string() : "the two are not shown to be equal";
}

bool FoldCheck::in_shape(TermId term, std::vector<TermId>& guards) {
  if (guards.empty())
    if (const auto it = in_shape_.find(term.value); it != in_shape_.end()) return it->second;
  const TermNode& n = pool_.node(term);
  bool inside = true;
  switch (n.kind) {
    case TermKind::access:
      if (atoms_.has_definition(n.tensor)) {
        const std::vector<std::int64_t>& shape = pool_.tensor(n.tensor).shape;
        for (std::size_t d = 0; d < shape.size() && inside; ++d) {
          inside = atoms_.in_range(n.indices[d], shape[d], guards);
          if (inside) continue;
          outside_ = pool_.to_string(n.indices[d]) + " in [0, " + std::to_string(shape[d]) + ")";
          for (const TermId g : guards) outside_ += (g == guards.front() ? " where " : " ") + pool_.to_string(g);
        }
      }
      break;
    case TermKind::poly:
      for (const Monomial& m : n.monomials) {
        const std::size_t outer = guards.size();
        for (const Factor& f : m.factors)
          if (pool_.is_guard(f.term)) guards.push_back(f.term);
        for (const Factor& f : m.factors) inside = inside && in_shape(f.term, guards);
        guards.resize(outer);
        if (!inside) break;
      }
      break;
    case TermKind::apply:
      for (const TermId a : n.arguments) inside = inside && in_shape(a, guards);
      break;
    case TermKind::reduce: {
      TermPool::FreshScope scope(pool_);
      std::vector<solvers::VarId> vars;
      inside = in_shape(pool_.open(term, scope, vars), guards);
      break;
    }
    default: break;
  }
  if (guards.empty()) in_shape_[term.value] = inside;
  return inside;
}

const std::vector<TensorId>& FoldCheck::reads(TensorId tensor) {
  const auto [it, added] = reads_.try_emplace(tensor.value);
  if (added) {
    const TermId definition = atoms_.definition(tensor);
    if (definition.valid())
      for (const TensorId t : solvers::tensors_in(pool_, definition))
        if (atoms_.has_definition(t)) it->second.push_back(t);
  }
  return it->second;
}

// The atoms of a term that no other of its atoms is made of: those to unfold first. Definitions are followed from the latest on and not
// for ever: atoms further back than that wait for their turn.
std::set<TensorId> FoldCheck::latest(TermId term, bool only_one) {
  std::set<TensorId> all, below, open;
  for (const TensorId t : solvers::tensors_in(pool_, term))
    if (atoms_.has_definition(t)) all.insert(t);
  if (all.size() < 2) return all;
  if (only_one && all.size() <= kFewAtoms) return {*all.rbegin()};
  std::set<TensorId> first;
  open = all;
  std::size_t budget = kReach + 4 * all.size();
  while (!open.empty() && budget > 0 && !(*open.rbegin() < *all.begin())) {
    const TensorId t = *open.rbegin();
    open.erase(t);
    --budget;
    if (all.count(t) != 0 && below.count(t) == 0) first.insert(t);
    for (const TensorId r : reads(t))
      if (below.insert(r).second) open.insert(r);
  }
  return first;
}

// The term without the factors that all its summands have, but for guards: if what is left is 0, so is the term.
TermId FoldCheck::without_common(TermId term) {
  std::vector<Monomial> monomials = pool_.monomials_of(term);
  if (monomials.size() < 2) return term;
  std::vector<Factor> common;
  for (const Factor& f : monomials[0].factors) {
    if (pool_.is_guard(f.term)) continue;
    std::int32_t power = f.power;
    for (const Monomial& m : monomials) {
      const auto it = std::find_if(m.factors.begin(), m.factors.end(), [&](const Factor& g) { return g.term == f.term; });
      if (it == m.factors.end() || (it->power > 0) != (power > 0)) power = 0;
      else if (std::abs(it->power) < std::abs(power)) power = it->power;
      if (power == 0) break;
    }
    if (power != 0) common.push_back({f.term, power});
  }
  if (common.empty()) return term;
  for (Monomial& m : monomials) {
    for (Factor& f : m.factors)
      for (const Factor& c : common)
        if (f.term == c.term) f.power -= c.power;
    std::erase_if(m.factors, [](const Factor& f) { return f.power == 0; });
  }
  return pool_.poly(std::move(monomials));
}

// The sum among the factors, or no term.
TermId FoldCheck::sum_in(const Monomial& m) const {
  for (const Factor& f : m.factors)
    if (f.power == 1 && pool_.node(f.term).kind == TermKind::reduce && pool_.node(f.term).reduction == Reduction::sum) return f.term;
  return {};
}

// The term with sums over more variables than others written out: a sum over n places is the sum of its n instances. A plan may
// have the instances, or some of them, where the reference has the sum.
TermId FoldCheck::unrolled(TermId term) {
  for (int round = 0; round < kMaxSums; ++round) {
    const std::vector<Monomial> monomials = pool_.monomials_of(term);
    if (monomials.size() > kMaxInstances) break;
    std::size_t least = kMaxInstances;
    for (const Monomial& m : monomials) least = std::min(least, sum_in(m).valid() ? pool_.node(sum_in(m)).bound.size() : 0);
    bool changed = false;
    std::vector<TermId> parts;
    for (const Monomial& m : monomials) {
      const TermId sum = sum_in(m);
      const auto shortest = !sum.valid() ? std::optional<std::int64_t>() : std::optional(pool_.var(pool_.node(sum).bound[0]).extent);  // ordered by extent
      if (!shortest || pool_.node(sum).bound.size() <= least || *shortest > static_cast<std::int64_t>(kMaxInstances)) {
        parts.push_back(pool_.poly({m}));
        continue;
      }
      changed = true;
      TermPool::FreshScope scope(pool_);
      std::vector<solvers::VarId> vars;
      const TermId body = pool_.open(sum, scope, vars);
      const solvers::VarId place = vars.front();
      vars.erase(vars.begin());
      std::vector<TermId> instances;
      for (std::int64_t i = 0; i < *shortest; ++i) {
        solvers::Substitution at;
        at.set(place, pool_.index_constant(i));
        instances.push_back(pool_.reduce(Reduction::sum, vars, pool_.substitute(body, at)));
      }
      std::vector<Factor> others = m.factors;
      others.erase(std::find_if(others.begin(), others.end(), [&](const Factor& f) { return f.term == sum; }));
      parts.push_back(pool_.mul(pool_.product(others, m.coefficient), pool_.sum(instances)));
    }
    if (!changed) break;
    term = pool_.sum(parts);
  }
  return term;
}

// The term with sums that continue each other as one (TermPool::continue_sum).
TermId FoldCheck::joined(TermId term) {
  const std::vector<Monomial> monomials = pool_.monomials_of(term);
  if (monomials.size() > kMaxRunning) return term;
  for (std::size_t i = 0; i < monomials.size(); ++i)
    for (std::size_t j = 0; j < monomials.size(); ++j) {
      const TermId before = sum_in(monomials[i]), window = sum_in(monomials[j]);
      if (i == j || !before.valid() || !window.valid() || !(monomials[i].coefficient == monomials[j].coefficient)) continue;
      std::vector<Factor> outside = monomials[j].factors, rest;
      std::erase_if(outside, [&](const Factor& f) { return f.term == window; });
      if (!std::includes(monomials[i].factors.begin(), monomials[i].factors.end(), outside.begin(), outside.end())) continue;
      std::set_difference(monomials[i].factors.begin(), monomials[i].factors.end(), outside.begin(), outside.end(), std::back_inserter(rest));
      const auto whole = pool_.continue_sum(pool_.product(rest, ir::Rational(1)), window);
      if (!whole) continue;
      std::vector<Monomial> others;
      for (std::size_t k = 0; k < monomials.size(); ++k)
        if (k != i && k != j) others.push_back(monomials[k]);
      return joined(pool_.add(pool_.poly(std::move(others)), pool_.mul(pool_.product(outside, monomials[i].coefficient), *whole)));
    }
  return term;
}

// Whether one summand is what the others add up to, with the sign changed (AtomTable::covers).
bool FoldCheck::is_covered(TermId difference, const std::vector<TermId>& guards) {
  const std::vector<Monomial> monomials = pool_.monomials_of(difference);
  if (monomials.size() < 2 || monomials.size() > kMaxCovering) return false;
  for (std::size_t i = 0; i < monomials.size(); ++i) {
    std::vector<Monomial> others = monomials;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const TermId rest = pool_.scale(pool_.poly(std::move(others)), ir::Rational(-1));
    if (atoms_.covers(pool_.poly({monomials[i]}), rest, guards)) return true;
  }
  return false;
}

// Whether the term becomes 0 wherever the guards hold when definitions are unfolded; `sums`: and sums put together or taken apart.
bool FoldCheck::cancels(TermId difference, const std::vector<TermId>& guards, bool sums) {
  const int rounds = main_form(difference) ? kFewRounds : kMaxRounds;
  try {
    for (int round = 0; round < rounds; ++round) {
      if (!guards.empty()) difference = pool_.assume(difference, guards, TermPool::Detail::values);
      if (difference == pool_.zero()) return true;
      if (!guards.empty() && is_covered(difference, guards)) return true;
      if (sums && (unrolled(difference) == pool_.zero() || joined(difference) == pool_.zero())) return true;
      difference = without_common(difference);
      const std::set<TensorId> first = latest(difference, round == 0);
      if (first.empty()) return false;
      const TermId next = atoms_.unfold(difference, [&](TensorId t) { return first.count(t) != 0; });
      if (next == difference) return false;
      difference = next;
    }
  } catch (const solvers::BudgetExceeded& e) {
    if (e.what_kind != solvers::BudgetExceeded::What::size) throw;
  }
  return false;
}

// The form on which most summands have a guard.
std::optional<solvers::IndexId> FoldCheck::main_form(TermId term) const {
  std::map<solvers::IndexId, std::size_t> carriers;
  for (const Monomial& m : pool_.monomials_of(term))
    for (const Factor& f : m.factors)
      if (pool_.is_guard(f.term)) ++carriers[pool_.node(f.term).form];
  const auto most = std::max_element(carriers.begin(), carriers.end(), [](const auto& x, const auto& y) { return x.second < y.second; });
  return most == carriers.end() ? std::nullopt : std::optional(most->first);
}

// Whether the term is 0 wherever the guards hold: as a whole, or on each piece of the line of a form.
bool FoldCheck::is_zero(TermId difference, const std::vector<TermId>& guards, int depth) {
  if (cancels(difference, guards, false)) return true;
  const auto form = main_form(difference);
  if (!form || depth == kMaxForms) return false;
  for (const TermPool::Case& piece : pool_.cases_on(*form, {difference})) {
    std::vector<TermId> inner = guards;
    if (pool_.is_guard(piece.guard)) inner.push_back(piece.guard);
    if (!is_zero(piece.terms[0], inner, depth + 1)) return false;
  }
  return true;
}

bool FoldCheck::equal(TermId a, TermId b) {
  const TermId difference = pool_.sub(a, b);
  return is_zero(difference, {}, 0) || cancels(difference, {}, true) || equal_by_cases(atoms_, a, b);
}

bool FoldCheck::has_infinite(TermId term) {
  if (const auto it = infinite_.find(term.value); it != infinite_.end()) return it->second;
  const TermNode& n = pool_.node(term);
  bool found = false;
  if (n.kind == TermKind::access || (n.kind == TermKind::apply && n.function == Function::log)) found = !conditions_.is_finite(term);
  if (n.kind == TermKind::apply) found = found || n.function == Function::negative_infinity;
  for (const Monomial& m : n.monomials)
    for (const Factor& f : m.factors) found = found || has_infinite(f.term);
  for (const TermId a : n.arguments) found = found || has_infinite(a);
  if (n.kind == TermKind::reduce) found = found || has_infinite(n.body);
  return infinite_[term.value] = found;
}

void FoldCheck::collect(TermId term, Own& own, std::set<TermId>& seen) const {
  if (!seen.insert(term).second) return;
  own.emplace(term, true);
  const TermNode& n = pool_.node(term);
  for (const Monomial& m : n.monomials)
    for (const Factor& f : m.factors) {
      own.emplace(f.term, f.power > 0);
      collect(f.term, own, seen);
    }
  for (const TermId a : n.arguments) collect(a, own, seen);
  if (n.kind == TermKind::reduce) collect(n.body, own, seen);
}

bool FoldCheck::is_proper(TermId term, const Own& own) {
  if (!has_infinite(term)) return true;
  const TermNode& n = pool_.node(term);
  switch (n.kind) {
    case TermKind::poly: return is_proper_sum(term, own);
    case TermKind::apply: {
      const bool takes_infinity = n.function == Function::exp || n.function == Function::max;
      return std::all_of(n.arguments.begin(), n.arguments.end(), [&](TermId a) {
        return !has_infinite(a) || own.count({a, true}) != 0 || (is_proper(a, own) && (takes_infinity || conditions_.is_finite(a)));
      });
    }
    case TermKind::reduce: return own.count({n.body, true}) != 0 || (is_proper(n.body, own) && (n.reduction == Reduction::max || conditions_.is_finite(n.body)));
    default: return true;
  }
}

bool FoldCheck::is_proper_sum(TermId term, const Own& own) {
  std::vector<TermId> where;  // the guards of infinite summands
  for (const Monomial& m : pool_.monomials_of(term)) {
    std::vector<Factor> guards;
    int infinite = 0, others = 0;
    for (const Factor& f : m.factors) {
      if (pool_.is_guard(f.term)) {
        guards.push_back(f);
        continue;
      }
      ++others;
      if (!has_infinite(f.term)) continue;
      const TermNode& n = pool_.node(f.term);
      const bool leaf = n.kind == TermKind::access || (n.kind == TermKind::apply && n.function == Function::negative_infinity);
      if (!leaf && own.count({f.term, f.power > 0}) != 0) continue;
      if (!is_proper(f.term, own)) return false;
      if (conditions_.is_finite(pool_.product({f}, ir::Rational(1)))) continue;  // exp(-inf) is finite, its inverse is not
      if (f.power != 1) return false;
      ++infinite;
    }
    if (infinite == 0) continue;
    if (others > 1 || ir::sign(m.coefficient) < 0) return false;
    where.push_back(pool_.product(guards, ir::Rational(1)));
  }
  for (std::size_t i = 0; i < where.size(); ++i)
    for (std::size_t j = i + 1; j < where.size(); ++j)
      if (pool_.mul(where[i], where[j]) != pool_.zero()) return false;
  return true;
}

}  // namespace shardproof::verifier

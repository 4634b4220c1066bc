// Sums over a product with a sum inside, that linearity has taken apart: sum(c*a) + sum(c*b) is sum(c*(a + b)), and a + b
// may be an atom. A plan that applies a linear operation (a rotation of positions) to parts of a value and adds the parts
// up later arrives at such a term.
#include <algorithm>
#include <map>
#include <set>

#include "solvers/fold.h"

namespace shardproof::solvers {

namespace {

constexpr std::size_t kMaxSums = 24;     // per group
constexpr int kMaxRenamings = 24;        // of the bound variables of one sum
constexpr int kMaxMatches = 64;          // sums tried per term

using Factors = std::vector<Factor>;

Factors common(const Factors& a, const Factors& b) {
  Factors result;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}

bool includes(const Factors& all, const Factors& part) { return std::includes(all.begin(), all.end(), part.begin(), part.end()); }

Factors without(const Factors& all, const Factors& part) {
  Factors result;
  std::set_difference(all.begin(), all.end(), part.begin(), part.end(), std::back_inserter(result));
  return result;
}

}  // namespace

// The summand (one monomial) of each reduction over `vars`, once for every way to name its variables after them.
std::vector<Monomial> Folder::summands_over(const std::vector<VarId>& vars, TermId sum, TermPool::FreshScope& scope) {
  std::vector<VarId> own;
  const TermId body = pool_.open(sum, scope, own);
  std::vector<Monomial> result;
  if (own.size() != vars.size()) return result;
  std::vector<std::size_t> order(vars.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  int budget = kMaxRenamings;
  do {
    Substitution names;
    bool fits = true;
    for (std::size_t i = 0; i < vars.size(); ++i) {
      fits = fits && pool_.var(own[i]).extent == pool_.var(vars[order[i]]).extent;
      names.set(own[i], pool_.index_var(vars[order[i]]));
    }
    if (!fits) continue;
    const std::vector<Monomial> monomials = pool_.monomials_of(pool_.substitute(body, names));
    if (monomials.size() == 1) result.push_back(monomials[0]);
    if (--budget == 0) break;
  } while (std::next_permutation(order.begin(), order.end()));
  return result;
}

// Two or more of the sums (with their coefficients) as one, with what is not common to them folded; or nothing.
std::optional<TermId> Folder::join_group(const std::vector<std::pair<Rational, TermId>>& sums, const std::vector<TermId>& guards,
                                         std::vector<bool>& joined, int& budget) {
  for (std::size_t first = 0; first < sums.size(); ++first) {
    TermPool::FreshScope scope(pool_);
    std::vector<VarId> vars;
    std::vector<Monomial> own = pool_.monomials_of(pool_.open(sums[first].second, scope, vars));
    if (own.size() != 1) continue;
    std::vector<std::vector<Monomial>> others(sums.size());
    for (std::size_t i = first + 1; i < sums.size(); ++i) others[i] = summands_over(vars, sums[i].second, scope);
    std::set<Factors> tried;
    for (std::size_t second = first + 1; second < sums.size(); ++second)
      for (const Monomial& summand : others[second]) {
        const Factors shared = common(own[0].factors, summand.factors);
        if (shared.empty() || !tried.insert(shared).second) continue;
        // The first two, and then all that have the common factors.
        std::vector<TermId> rests{pool_.product(without(own[0].factors, shared), own[0].coefficient * sums[first].first),
                                  pool_.product(without(summand.factors, shared), summand.coefficient * sums[second].first)};
        std::vector<std::size_t> members{first, second};
        for (const bool all : {false, true}) {
          for (std::size_t i = first + 1; all && i < sums.size(); ++i) {
            const auto it = std::find_if(others[i].begin(), others[i].end(), [&](const Monomial& m) { return includes(m.factors, shared); });
            if (i == second || it == others[i].end()) continue;
            rests.push_back(pool_.product(without(it->factors, shared), it->coefficient * sums[i].first));
            members.push_back(i);
          }
          if (all && members.size() == 2) break;
          const TermId rest = pool_.sum(rests);
          if (!atoms_.knows_skeleton(pool_.node(split_content(rest).core).skeleton)) continue;
          if (--budget < 0) return std::nullopt;
          const auto folded = match(rest, guards);
          if (!folded) continue;
          for (std::size_t i : members) joined[i] = true;
          return pool_.reduce(Reduction::sum, vars, pool_.mul(pool_.product(shared, Rational(1)), *folded));
        }
      }
  }
  return std::nullopt;
}

TermId Folder::fold_distributed(TermId term) {
  int budget = kMaxMatches;
  for (;;) {
    std::map<std::pair<Factors, std::vector<std::int64_t>>, std::vector<std::pair<Rational, TermId>>> groups;  // by other factors, extents
    std::vector<TermId> pieces;
    for (const Monomial& m : pool_.monomials_of(term)) {
      const auto it = std::find_if(m.factors.begin(), m.factors.end(), [&](const Factor& f) {
        return f.power == 1 && pool_.node(f.term).kind == TermKind::reduce && pool_.node(f.term).reduction == Reduction::sum;
      });
      if (it == m.factors.end()) {
        pieces.push_back(pool_.poly({m}));
        continue;
      }
      std::vector<std::int64_t> extents;
      for (VarId v : pool_.node(it->term).bound) extents.push_back(pool_.var(v).extent);
      groups[{without(m.factors, {*it}), std::move(extents)}].emplace_back(m.coefficient, it->term);
    }
    bool changed = false;
    for (const auto& [key, sums] : groups) {
      std::vector<bool> joined(sums.size());
      const bool tried = sums.size() > 1 && sums.size() <= kMaxSums;
      std::vector<TermId> guards;
      for (const Factor& f : key.first)
        if (pool_.is_guard(f.term)) guards.push_back(f.term);
      const auto one = tried ? join_group(sums, guards, joined, budget) : std::nullopt;
      const TermId outside = pool_.product(key.first, Rational(1));
      if (one) pieces.push_back(pool_.mul(outside, fold_under(*one, guards)));
      for (std::size_t i = 0; i < sums.size(); ++i)
        if (!joined[i]) pieces.push_back(pool_.mul(outside, pool_.scale(sums[i].second, sums[i].first)));
      changed = changed || one;
    }
    if (!changed) return term;
    term = pool_.sum(pieces);
  }
}

// Running sums over shards: what the shards before contribute, and what this one does up to a place of its own.
TermId Folder::join_running_sums(TermId term) {
  std::vector<Monomial> monomials = pool_.monomials_of(term);
  const auto sum_in = [&](const Monomial& m) {
    const auto it = std::find_if(m.factors.begin(), m.factors.end(), [&](const Factor& f) {
      return f.power == 1 && pool_.node(f.term).kind == TermKind::reduce && pool_.node(f.term).reduction == Reduction::sum;
    });
    return it == m.factors.end() ? Factor{} : *it;
  };
  const auto continued = [&](TermId before, TermId window) -> std::optional<TermId> {
    try {
      return pool_.continue_sum(before, window);
    } catch (const BudgetExceeded& e) {
      if (e.what_kind != BudgetExceeded::What::size) throw;
    } catch (const std::overflow_error&) {
    }
    return std::nullopt;
  };
  if (monomials.size() < 2 || monomials.size() > kMaxSums) return term;
  for (std::size_t i = 0; i < monomials.size(); ++i)
    for (std::size_t j = 0; j < monomials.size(); ++j) {
      const Factor before = sum_in(monomials[i]), window = sum_in(monomials[j]);
      if (i == j || !before.term.valid() || !window.term.valid() || !(monomials[i].coefficient == monomials[j].coefficient)) continue;
      const Factors outside = without(monomials[j].factors, {window});
      if (!includes(monomials[i].factors, outside)) continue;
      const auto whole = continued(pool_.product(without(monomials[i].factors, outside), Rational(1)), window.term);
      if (!whole) continue;
      const TermId joined = pool_.mul(pool_.product(outside, monomials[i].coefficient), *whole);
      monomials.erase(monomials.begin() + static_cast<std::ptrdiff_t>(std::max(i, j)));
      monomials.erase(monomials.begin() + static_cast<std::ptrdiff_t>(std::min(i, j)));
      return join_running_sums(pool_.add(pool_.poly(std::move(monomials)), joined));
    }
  return term;
}

}  // namespace shardproof::solvers

#include "solvers/fold.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>

#include "solvers/unify.h"

namespace shardproof::solvers {

namespace {
constexpr std::size_t kMaxCandidates = 24;   // variants tried per term
constexpr int kMaxTries = 64;                // pairings tried per variant
constexpr std::size_t kManyPieces = 16;      // from here on a sum is treated as a buffer of unrelated pieces
}  // namespace

Content Folder::split_content(TermId term) {
  Content content{Rational(1), {}, {}, term};
  const std::vector<Monomial> monomials = pool_.monomials_of(term);
  if (monomials.empty()) return content;
  // Rational content, positive by the coefficient of the monomial with the smallest skeleton.
  std::int64_t num = 0, den = 1;
  for (const Monomial& m : monomials) {
    num = std::gcd(num, m.coefficient.num);
    den = ir::checked_mul(den, m.coefficient.den / std::gcd(den, m.coefficient.den));
  }
  content.rational = Rational(num, den);
  std::uint64_t smallest = ~std::uint64_t{0};
  bool negative = false;
  for (const Monomial& m : monomials) {
    std::uint64_t key = 0;
    for (const Factor& f : m.factors) key += combine(pool_.node(f.term).skeleton, hash_int(f.power));
    key = mix(key);
    if (key < smallest) {
      smallest = key;
      negative = ir::sign(m.coefficient) < 0;
    }
  }
  if (negative) content.rational = -content.rational;
  // Factors common to all monomials.
  for (const Factor& f : monomials[0].factors) {
    const TermNode& n = pool_.node(f.term);
    const bool guard = n.kind == TermKind::range;
    const bool scalar = n.kind == TermKind::access && n.free.value == 0;
    if (!guard && !scalar) continue;
    std::int32_t power = f.power;
    bool everywhere = true;
    for (const Monomial& m : monomials) {
      const auto it = std::find_if(m.factors.begin(), m.factors.end(), [&](const Factor& g) { return g.term == f.term; });
      if (it == m.factors.end() || (it->power > 0) != (power > 0)) {
        everywhere = false;
        break;
      }
      if (power > 0 ? it->power < power : it->power > power) power = it->power;
    }
    if (!everywhere) continue;
    if (guard) content.guards.push_back(f.term);
    else content.scalars.push_back({f.term, power});
  }
  if (monomials.size() > 1) {
    // A guard that the monomials without it imply is common too.
    for (const Monomial& m : monomials) {
      for (const Factor& f : m.factors) {
        if (!pool_.is_guard(f.term) || std::find(content.guards.begin(), content.guards.end(), f.term) != content.guards.end()) continue;
        const bool everywhere = std::all_of(monomials.begin(), monomials.end(), [&](const Monomial& other) {
          for (const Factor& g : other.factors)
            if (g.term == f.term) return true;
          const TermId alone = pool_.poly({other});
          return pool_.mul(alone, f.term) == alone;
        });
        if (everywhere) content.guards.push_back(f.term);
      }
    }
  }
  if (content.rational.is_one() && content.guards.empty() && content.scalars.empty()) return content;
  std::vector<Monomial> rest = monomials;
  const Rational inverse = ir::inverse(content.rational);
  for (Monomial& m : rest) {
    m.coefficient = m.coefficient * inverse;
    for (Factor& f : m.factors) {
      for (TermId g : content.guards)
        if (f.term == g) f.power = 0;
      for (const Factor& s : content.scalars)
        if (f.term == s.term) f.power -= s.power;
    }
    std::erase_if(m.factors, [](const Factor& f) { return f.power == 0; });
  }
  content.core = pool_.poly(std::move(rest));
  return content;
}

TermId Folder::rebuild(const Content& content, TermId core) {
  std::vector<Factor> factors = content.scalars;
  for (TermId g : content.guards) factors.push_back({g, 1});
  return pool_.mul(pool_.product(factors, content.rational), core);
}

bool Folder::is_folded(TermId term) {
  const std::vector<Monomial> monomials = pool_.monomials_of(term);
  for (const Monomial& m : monomials) {
    int accesses = 0;
    for (const Factor& f : m.factors) {
      const TermNode& n = pool_.node(f.term);
      const bool free_of_charge = n.kind == TermKind::range || (n.kind == TermKind::access && n.free.value == 0) ||
                                  (n.kind == TermKind::apply && n.function == Function::negative_infinity);
      if (free_of_charge) continue;
      if ((n.kind != TermKind::access && n.kind != TermKind::index_value) || f.power != 1) return false;
      ++accesses;
    }
    if (accesses > 1) return false;
  }
  return monomials.size() < 2 || disjoint(monomials);
}

// The monomial's guard on the form, or none.
TermId Folder::guard_on(IndexId form, const Monomial& m) const {
  for (const Factor& f : m.factors)
    if (pool_.is_guard(f.term) && pool_.node(f.term).form == form) return f.term;
  return {};
}

// Whether guards of the two monomials on one form exclude each other.
bool Folder::exclude(const Monomial& x, const Monomial& y) const {
  for (const Factor& f : x.factors) {
    if (!pool_.is_guard(f.term)) continue;
    const TermNode& a = pool_.node(f.term);
    for (const Factor& g : y.factors) {
      const TermNode& b = pool_.node(g.term);
      if (b.kind == TermKind::range && a.form == b.form && (a.hi < b.lo || b.hi < a.lo)) return true;
    }
  }
  return false;
}

// For each monomial a range of the form outside which it is 0, as its guards imply. Nothing if some monomial has none.
std::optional<std::vector<Folder::Range>> Folder::ranges_on(IndexId form, const std::vector<Monomial>& monomials) {
  std::vector<Range> ranges;
  for (const Monomial& m : monomials) {
    std::vector<TermId> guards;
    for (const Factor& f : m.factors)
      if (pool_.is_guard(f.term)) guards.push_back(f.term);
    if (guards.size() == 1 && pool_.node(guards[0]).form == form) {
      ranges.push_back({pool_.node(guards[0]).lo, pool_.node(guards[0]).hi});
      continue;
    }
    const auto [lo, hi] = pool_.bounds_under(form, guards);
    const IndexNode& n = pool_.index(form);
    if (lo <= n.lo && hi >= n.hi) return std::nullopt;
    ranges.push_back({lo <= n.lo ? -kUnbounded : lo, hi >= n.hi ? kUnbounded : hi});
  }
  return ranges;
}

// Forms that monomials carry guards on, those that most carry first.
std::vector<std::pair<std::size_t, IndexId>> Folder::carried_forms(const std::vector<Monomial>& monomials) const {
  std::map<IndexId, std::size_t> carriers;
  for (const Monomial& m : monomials)
    for (const Factor& f : m.factors)
      if (pool_.is_guard(f.term)) ++carriers[pool_.node(f.term).form];
  std::vector<std::pair<std::size_t, IndexId>> forms;
  for (const auto& [form, count] : carriers) forms.emplace_back(count, form);
  std::stable_sort(forms.begin(), forms.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  return forms;
}

// Which monomials may be non-zero together with another one, as far as their guards on common forms tell. Sorted along
// the form that most carry (the position in a flat buffer), only neighbours whose ranges overlap need a look. All of
// them, if too many do.
std::vector<bool> Folder::meeting(const std::vector<Monomial>& monomials) {
  struct Place {
    Range range;
    std::size_t monomial;
  };
  std::vector<Place> places;
  for (std::size_t i = 0; i < monomials.size(); ++i) places.push_back({{-kUnbounded, kUnbounded}, i});
  const auto forms = carried_forms(monomials);
  if (!forms.empty() && 2 * forms[0].first > monomials.size())
    if (const auto ranges = ranges_on(forms[0].second, monomials))
      for (Place& place : places) place.range = (*ranges)[place.monomial];
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return std::pair(a.range.lo, a.monomial) < std::pair(b.range.lo, b.monomial); });
  std::vector<bool> meets(monomials.size());
  int budget = 2000;
  for (std::size_t i = 0; i < places.size(); ++i)
    for (std::size_t j = i + 1; j < places.size() && places[j].range.lo <= places[i].range.hi; ++j) {
      if (--budget < 0) return std::vector<bool>(monomials.size(), true);
      const std::size_t x = places[i].monomial, y = places[j].monomial;
      if (!exclude(monomials[x], monomials[y])) meets[x] = meets[y] = true;
    }
  return meets;
}

bool Folder::disjoint(const std::vector<Monomial>& monomials) {
  const std::vector<bool> meets = meeting(monomials);
  return std::find(meets.begin(), meets.end(), true) == meets.end();
}

// A sum of many pieces (a bucket of many parameters) as what is folded, by itself and apart from all the rest, and what
// is not: only that needs more work. Nothing if there are few pieces or few of them are folded.
std::optional<std::pair<TermId, TermId>> Folder::split_folded(TermId term) {
  const std::vector<Monomial> monomials = pool_.monomials_of(term);
  if (monomials.size() < kManyPieces) return std::nullopt;
  const std::vector<bool> meets = meeting(monomials);
  std::vector<Monomial> folded, open;
  for (std::size_t i = 0; i < monomials.size(); ++i)
    (!meets[i] && is_folded(pool_.poly({monomials[i]})) ? folded : open).push_back(monomials[i]);
  if (open.empty() || folded.size() < open.size()) return std::nullopt;
  return std::pair(pool_.poly(std::move(folded)), pool_.poly(std::move(open)));
}

// The term without what is added to minus infinity: that matches nothing, and nothing is left of it once it is
// exponentiated.
TermId Folder::without_masked(TermId term) {
  const std::vector<Monomial> monomials = pool_.monomials_of(term);
  const auto guards_of = [&](const Monomial& m) {
    std::vector<Factor> guards;
    for (const Factor& f : m.factors)
      if (pool_.is_guard(f.term)) guards.push_back(f);
    return guards;
  };
  std::vector<std::vector<Factor>> masked;
  const auto is_infinite = [&](const Monomial& m) {
    return std::any_of(m.factors.begin(), m.factors.end(), [&](const Factor& f) {
      return pool_.node(f.term).kind == TermKind::apply && pool_.node(f.term).function == Function::negative_infinity;
    });
  };
  for (const Monomial& m : monomials)
    if (is_infinite(m)) masked.push_back(guards_of(m));
  if (masked.empty()) return term;
  std::vector<Monomial> rest;
  for (const Monomial& m : monomials) {
    const std::vector<Factor> own = guards_of(m);
    const bool lost = !is_infinite(m) && std::any_of(masked.begin(), masked.end(), [&](const std::vector<Factor>& guards) {
      return std::includes(own.begin(), own.end(), guards.begin(), guards.end());
    });
    if (!lost) rest.push_back(m);
  }
  return rest.size() == monomials.size() ? term : pool_.poly(std::move(rest));
}

std::vector<TensorId> Folder::atoms_in(TermId term) const {
  std::set<TensorId> found;
  std::set<TermId> seen;
  const std::function<void(TermId)> visit = [&](TermId t) {
    if (!seen.insert(t).second) return;
    const TermNode& n = pool_.node(t);
    if (n.kind == TermKind::access && atoms_.has_definition(n.tensor)) found.insert(n.tensor);
    for (const Monomial& m : n.monomials)
      for (const Factor& f : m.factors) visit(f.term);
    for (TermId a : n.arguments) visit(a);
    if (n.kind == TermKind::reduce) visit(n.body);
  };
  visit(term);
  return {found.begin(), found.end()};
}

std::optional<TermId> Folder::match_core(TermId core, const std::vector<TermId>& guards) {
  const TermNode& n = pool_.node(core);
  if (n.kind == TermKind::access || n.kind == TermKind::range || n.kind == TermKind::index_value) return std::nullopt;
  if (const auto found = match_by(core, core, guards)) return found;
  // A maximum over a part of the range, another over the rest: either shows what both are parts of.
  if (n.kind == TermKind::apply && n.function == Function::max && !guards.empty()) {
    for (TermId argument : std::vector<TermId>(n.arguments))
      if (pool_.node(argument).kind == TermKind::reduce)
        if (const auto found = match_by(core, argument, guards)) return found;
  }
  return match_numbered(core, guards);
}

// `shown` is the term, or a part of it from which its place shows.
std::optional<TermId> Folder::match_by(TermId core, TermId shown, const std::vector<TermId>& guards) {
  const std::vector<std::size_t> candidates = atoms_.variants_with_skeleton(pool_.node(shown).skeleton);
  for (std::size_t c = 0; c < candidates.size() && c < kMaxCandidates; ++c) {
    const Variant variant = atoms_.variant(candidates[c]);
    std::optional<TermId> result;
    propose_instances(pool_, variant, shown, guards, kMaxTries,
                      [&](const std::vector<IndexId>& indices) {
                        result = atoms_.accept(core, candidates[c], indices, guards);
                        return result.has_value();
                      });
    if (result) return result;
  }
  return std::nullopt;
}

std::optional<TermId> Folder::match(TermId term, const std::vector<TermId>& guards) {
  if (pool_.as_constant(term)) return std::nullopt;
  Content content = split_content(term);
  std::vector<TermId> all = guards;
  all.insert(all.end(), content.guards.begin(), content.guards.end());
  const auto attempt = [&](const Content& c) -> std::optional<TermId> {
    if (const auto r = match_core(c.core, all)) return rebuild(c, *r);
    if (pool_.node(c.core).kind == TermKind::poly)
      if (const auto r = match_core(pool_.scale(c.core, Rational(-1)), all)) return rebuild(c, pool_.scale(*r, Rational(-1)));
    return std::nullopt;
  };
  if (const auto r = attempt(content)) return r;
  if (content.scalars.empty()) return std::nullopt;
  // Definitions may keep scalar factors that all their terms share.
  content.core = pool_.mul(content.core, pool_.product(content.scalars, Rational(1)));
  content.scalars.clear();
  return attempt(content);
}

TermId Folder::fold(TermId term) {
  if (memo_generation_ != atoms_.generation()) {  // "does not fold" is stale once an atom is added
    memo_.clear();
    memo_generation_ = atoms_.generation();
  }
  return fold_under(term, {});
}

TermId Folder::fold_under(TermId term, const std::vector<TermId>& guards) {
  const TermKind kind = pool_.node(term).kind;
  if (kind == TermKind::access || kind == TermKind::range || kind == TermKind::index_value) return term;
  if (guards.empty()) {
    if (auto it = memo_.find(term.value); it != memo_.end()) return it->second;
  }
  TermId result = term;
  if (kind == TermKind::poly) {
    result = fold_poly(term, guards);
  } else if (kind == TermKind::reduce) {
    result = fold_reduce(term, guards);
  } else {
    const TermNode& n = pool_.node(term);
    if (const auto whole = match(term, guards)) {
      result = *whole;
    } else {
      std::vector<TermId> arguments;
      for (TermId a : n.arguments) arguments.push_back(fold_under(a, guards));
      if (arguments != n.arguments) {
        result = pool_.apply(n.function, std::move(arguments));
        if (const auto again = match(result, guards)) result = *again;
      }
    }
  }
  if (guards.empty()) {
    memo_[term.value] = result;
    memo_[result.value] = result;
  }
  return result;
}

TermId Folder::fold_monomial(const Monomial& m, const std::vector<TermId>& guards) {
  std::vector<TermId> inner = guards;
  for (const Factor& f : m.factors)
    if (pool_.is_guard(f.term)) inner.push_back(f.term);
  std::vector<Factor> factors;
  for (const Factor& f : m.factors) factors.push_back({fold_under(f.term, inner), f.power});
  const TermId product = pool_.product(factors, m.coefficient);
  if (const auto whole = match(product, guards)) return *whole;
  int budget = 24;
  if (const auto regrouped = fold_products(product, inner, budget)) return *regrouped;
  return product;
}

// A product whose association differs from the reference's: parts of it that are atoms are folded first, largest
// first, and the attempt counts only if everything ends in a single access.
std::optional<TermId> Folder::fold_products(TermId product, const std::vector<TermId>& guards, int& budget) {
  const std::vector<Monomial> monomials = pool_.monomials_of(product);
  if (monomials.size() != 1) return std::nullopt;
  std::vector<Factor> fixed, movable;
  int total = 0;
  for (const Factor& f : monomials[0].factors) {
    const TermNode& n = pool_.node(f.term);
    const bool scalar = n.kind == TermKind::access && n.free.value == 0;
    if (n.kind == TermKind::range || scalar) {
      fixed.push_back(f);
    } else {
      movable.push_back(f);
      total += std::abs(f.power);
    }
  }
  if (total < 2 || total > 7 || movable.size() > 5) return std::nullopt;
  // All choices of a power between 0 and its own for each factor, as (how many, powers).
  std::vector<std::pair<int, std::vector<std::int32_t>>> parts;
  std::vector<std::int32_t> powers(movable.size());
  const std::function<void(std::size_t, int)> choose = [&](std::size_t at, int count) {
    if (at == movable.size()) {
      if (count >= 2 && count < total) parts.emplace_back(-count, powers);
      return;
    }
    const std::int32_t step = movable[at].power > 0 ? 1 : -1;
    for (std::int32_t p = 0; p != movable[at].power + step; p += step) {
      powers[at] = p;
      choose(at + 1, count + std::abs(p));
    }
  };
  choose(0, 0);
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [unused, chosen] : parts) {
    std::vector<Factor> part, rest = fixed;
    for (std::size_t i = 0; i < movable.size(); ++i) {
      if (chosen[i] != 0) part.push_back({movable[i].term, chosen[i]});
      if (movable[i].power != chosen[i]) rest.push_back({movable[i].term, movable[i].power - chosen[i]});
    }
    if (!atoms_.knows_skeleton(pool_.skeleton_of_product(part))) continue;
    if (--budget < 0) return std::nullopt;
    const auto folded = match(pool_.product(part, Rational(1)), guards);
    if (!folded) continue;
    const TermId replaced = pool_.mul(pool_.product(rest, monomials[0].coefficient), *folded);
    if (const auto whole = match(replaced, guards)) return *whole;
    if (is_folded(replaced)) return replaced;
    if (const auto deeper = fold_products(replaced, guards, budget)) return *deeper;
  }
  return std::nullopt;
}

// Most monomials carry a guard on one form, and the guards of the others bound it: fold what stands under each range
// of it as a whole. Ranges that overlap without being equal are cut at each other's ends.
std::optional<TermId> Folder::fold_by_guard_form(TermId term, const std::vector<TermId>& guards) {
  const std::vector<Monomial> monomials = pool_.monomials_of(term);
  if (monomials.size() < 2) return std::nullopt;
  for (const auto& [carriers, form] : carried_forms(monomials)) {
    if (2 * carriers <= monomials.size()) break;
    const auto ranges = ranges_on(form, monomials);
    if (!ranges) continue;
    std::set<std::int64_t> starts{-kUnbounded};
    for (std::size_t i = 0; i < monomials.size(); ++i) {
      const TermId own = guard_on(form, monomials[i]);
      if (!own.valid()) continue;
      starts.insert(pool_.node(own).lo);
      if (pool_.node(own).hi != kUnbounded) starts.insert(pool_.node(own).hi + 1);
    }
    std::vector<TermId> pieces;
    bool changed = false, worth_it = true;
    for (auto it = starts.begin(); it != starts.end() && worth_it; ++it) {
      const Range piece{*it, std::next(it) == starts.end() ? kUnbounded : *std::next(it) - 1};
      std::vector<Monomial> inside;
      bool whole = true;  // no range reaches beyond the piece
      for (std::size_t i = 0; i < monomials.size(); ++i) {
        const Range& r = (*ranges)[i];
        if (r.lo > piece.hi || r.hi < piece.lo) continue;
        const TermId own = guard_on(form, monomials[i]);
        whole = whole && r.lo >= piece.lo && r.hi <= piece.hi;
        inside.push_back(monomials[i]);
        if (own.valid()) std::erase_if(inside.back().factors, [&](const Factor& f) { return f.term == own; });
      }
      if (inside.empty()) continue;
      const TermId guard = pool_.range(form, piece.lo, piece.hi);
      std::vector<TermId> inner = guards;
      inner.push_back(guard);
      TermId body = pool_.poly(std::move(inside));
      if (!whole) body = pool_.assume(body, inner, TermPool::Detail::parts);
      TermId folded = fold_under(body, inner);
      if (whole && !is_folded(folded)) {
        const TermId assumed = pool_.assume(folded, inner, TermPool::Detail::parts);
        const TermId again = assumed == folded ? folded : fold_under(assumed, inner);
        if (is_folded(again)) folded = again;
      }
      if (pool_.node(folded).height == 0 && !is_folded(folded)) folded = fold_by_cases(folded, inner).value_or(folded);
      changed = changed || folded != body;
      worth_it = whole || is_folded(folded);  // cut into parts for nothing, a sum over ranks never comes together again
      pieces.push_back(pool_.mul(guard, folded));
    }
    if (changed && worth_it) return pool_.sum(pieces);
  }
  return std::nullopt;
}

// Some monomials carry guards on a form and others do not (their index spells the same cases by divisions): what
// holds on each piece is simplified under it and folded as a whole. Of many pieces some may stay as they are (padding,
// which no reference value describes), and only forms that most carry are tried: the work stays linear in the pieces.
std::optional<TermId> Folder::fold_by_cases(TermId term, const std::vector<TermId>& guards) {
  const std::vector<Monomial> monomials = pool_.monomials_of(term);
  if (monomials.size() < 2) return std::nullopt;
  const bool many = monomials.size() >= kManyPieces;
  for (const auto& [count, form] : carried_forms(monomials)) {
    if (count == monomials.size()) continue;
    if (many && 2 * count <= monomials.size()) break;
    std::vector<TermId> pieces;
    const std::vector<TermPool::Case> cases = pool_.cases_on(form, {term});
    std::size_t may_fail = cases.size() / kManyPieces;
    bool enough = true;
    for (const TermPool::Case& piece : cases) {
      std::vector<TermId> inner = guards;
      inner.push_back(piece.guard);
      TermId folded = fold_under(pool_.assume(piece.terms[0], inner, TermPool::Detail::parts), inner);
      if (!is_folded(folded) && pool_.node(folded).height == 0 && guards.size() < 3) folded = fold_by_cases(folded, inner).value_or(folded);
      if (!is_folded(without_masked(folded))) {
        if (may_fail == 0) {
          enough = false;
          break;
        }
        --may_fail;
      }
      pieces.push_back(pool_.mul(piece.guard, folded));
    }
    if (enough && pieces.size() > 1) return pool_.sum(pieces);
  }
  return std::nullopt;
}

TermId Folder::fold_poly(TermId term, const std::vector<TermId>& guards) {
  if (pool_.as_constant(term)) return term;
  if (const auto whole = match(term, guards)) return *whole;
  if (const auto pieces = fold_by_guard_form(term, guards)) {
    if (const auto whole = match(*pieces, guards)) return *whole;
    return *pieces;
  }
  std::vector<TermId> parts;
  for (const Monomial& m : pool_.monomials_of(term)) parts.push_back(fold_monomial(m, guards));
  TermId result = pool_.sum(parts);
  if (result != term) {
    if (const auto whole = match(result, guards)) return *whole;
  }
  if (const TermId rolled = roll(result); rolled != result) {
    const TermId folded = fold_under(rolled, guards);
    if (is_folded(folded)) return folded;
  }
  // Monomials under one set of guards may form an atom together.
  const std::vector<Monomial> monomials = pool_.monomials_of(result);
  std::map<std::vector<Factor>, std::vector<Monomial>> groups;
  for (const Monomial& m : monomials) {
    std::vector<Factor> own;
    Monomial rest{m.coefficient, {}};
    for (const Factor& f : m.factors) (pool_.is_guard(f.term) ? own : rest.factors).push_back(f);
    groups[own].push_back(std::move(rest));
  }
  if (groups.size() < 2) return result;
  bool changed = false;
  std::vector<TermId> pieces;
  for (auto& [own, group] : groups) {
    std::vector<TermId> inner = guards;
    for (const Factor& g : own) inner.push_back(g.term);
    const bool several = group.size() > 1;
    TermId body = pool_.poly(std::move(group));
    if (several) {
      if (const auto whole = match(body, inner)) {
        body = *whole;
        changed = true;
      }
    }
    pieces.push_back(pool_.mul(pool_.product(own, Rational(1)), body));
  }
  return changed ? pool_.sum(pieces) : result;
}

TermId Folder::fold_reduce(TermId term, const std::vector<TermId>& guards) {
  if (const auto whole = match(term, guards)) return *whole;
  TermId result = term;
  {
    TermPool::FreshScope scope(pool_);
    std::vector<VarId> vars;
    const Reduction op = pool_.node(term).reduction;
    const TermId body = pool_.open(term, scope, vars);
    const TermId folded = fold_under(body, guards);
    if (folded != body) {
      result = pool_.reduce(op, std::move(vars), folded);
      const TermKind kind = pool_.node(result).kind;
      if (kind == TermKind::access) return result;
      if (const auto whole = match(result, guards)) return *whole;
      if (kind != TermKind::reduce) return result;
    }
  }
  // A product of sums that share variables: fold an inner sum over part of the variables.
  const TermNode& n = pool_.node(result);
  if (n.reduction != Reduction::sum || n.bound.size() < 2 || n.bound.size() > 4) return result;
  TermPool::FreshScope scope(pool_);
  std::vector<VarId> vars;
  const TermId body = pool_.open(result, scope, vars);
  const std::vector<Monomial> monomials = pool_.monomials_of(body);
  if (monomials.size() != 1) return result;
  for (unsigned mask = 1; mask + 1 < (1U << vars.size()); ++mask) {
    std::vector<VarId> inner_vars, outer_vars;
    for (std::size_t i = 0; i < vars.size(); ++i) ((mask >> i & 1U) ? inner_vars : outer_vars).push_back(vars[i]);
    const VarSetId inner_set = pool_.var_set(inner_vars);
    std::vector<Factor> inside, outside;
    for (const Factor& f : monomials[0].factors) (pool_.intersects(pool_.node(f.term).free, inner_set) ? inside : outside).push_back(f);
    if (outside.empty()) continue;
    const TermId inner = pool_.reduce(Reduction::sum, inner_vars, pool_.product(inside, Rational(1)));
    if (pool_.node(inner).kind != TermKind::reduce) continue;
    const auto whole = match(inner, guards);
    if (!whole) continue;
    const TermId outer = pool_.reduce(Reduction::sum, outer_vars, pool_.mul(pool_.product(outside, monomials[0].coefficient), *whole));
    return fold_under(outer, guards);
  }
  return result;
}

}  // namespace shardproof::solvers

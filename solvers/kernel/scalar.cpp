// Polynomials over factors: sums and products in canonical form.
//
// A monomial's factors are sorted by id with non-zero powers; like monomials are combined; guards multiply by
// intersection; monomials that differ only in adjacent ranges of one guard form merge. Factors never are
// polynomials: products distribute. x * x^-1 = 1 records the obligation x != 0.
#include <algorithm>
#include <numeric>

#include "ir/check.h"
#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {

using ir::checked_add;
using ir::checked_mul;

TermId TermPool::intern(TermNode n) {
  std::uint64_t hash = combine(static_cast<std::uint64_t>(n.kind) * 64 + static_cast<std::uint64_t>(n.function) * 2 +
                                   static_cast<std::uint64_t>(n.reduction),
                               hash_int(n.tensor.value));
  hash = combine(combine(hash, hash_int(n.form.value)), combine(hash_int(n.lo), hash_int(n.hi)));
  hash = combine(hash, hash_int(n.body.value));
  for (const Monomial& m : n.monomials) {
    hash = combine(combine(hash, hash_int(m.coefficient.num)), hash_int(m.coefficient.den));
    for (const Factor& f : m.factors) hash = combine(combine(hash, hash_int(f.term.value)), hash_int(f.power));
  }
  for (IndexId i : n.indices) hash = combine(hash, hash_int(i.value));
  for (TermId t : n.arguments) hash = combine(hash, hash_int(t.value));
  for (VarId v : n.bound) hash = combine(hash, hash_int(v.value));
  const std::int32_t found = node_table_.find(hash, [&](std::int32_t id) {
    const TermNode& o = nodes_[static_cast<std::size_t>(id)];
    if (o.kind != n.kind || o.function != n.function || o.reduction != n.reduction || o.tensor != n.tensor ||
        o.form != n.form || o.lo != n.lo || o.hi != n.hi || o.body != n.body || o.indices != n.indices ||
        o.arguments != n.arguments || o.bound != n.bound || o.monomials.size() != n.monomials.size())
      return false;
    for (std::size_t i = 0; i < o.monomials.size(); ++i)
      if (!(o.monomials[i].coefficient == n.monomials[i].coefficient) || o.monomials[i].factors != n.monomials[i].factors)
        return false;
    return true;
  });
  if (found >= 0) return TermId{found};

  n.free = VarSetId{0};
  std::int64_t size = 1;
  const auto kind_hash = mix(static_cast<std::uint64_t>(n.kind) + 77);
  switch (n.kind) {
    case TermKind::poly: {
      std::uint64_t total = 0;
      for (const Monomial& m : n.monomials) {
        for (const Factor& f : m.factors) {
          const TermNode& child = node(f.term);
          n.free = union_of(n.free, child.free);
          n.height = std::max(n.height, child.height);
          size += child.size;
        }
        total += skeleton_of(m);
      }
      n.skeleton = mix(total ^ kind_hash);
      if (n.monomials.size() == 1) {  // one factor but for its sign
        const std::vector<Factor>& factors = n.monomials[0].factors;
        if (factors.size() == 1 && skeleton_of(n.monomials[0]) == skeleton_of(Monomial{Rational(1), {{factors[0].term, 1}}}))
          n.skeleton = node(factors[0].term).skeleton;
      }
      break;
    }
    case TermKind::access:
      n.skeleton = combine(kind_hash, hash_int(n.tensor.value));
      for (IndexId i : n.indices) n.free = union_of(n.free, index(i).free);
      break;
    case TermKind::apply: {
      std::uint64_t children = 0;
      for (TermId t : n.arguments) {
        const TermNode& child = node(t);
        children = n.function == Function::max ? children + mix(child.skeleton) : combine(children, child.skeleton);
        n.free = union_of(n.free, child.free);
        n.height = std::max(n.height, child.height);
        size += child.size;
      }
      n.skeleton = combine(combine(kind_hash, static_cast<std::uint64_t>(n.function)), children);
      break;
    }
    case TermKind::reduce: {
      const TermNode& child = node(n.body);
      n.height = child.height + 1;
      size += child.size;
      std::vector<VarId> free;
      for (VarId v : members(child.free))
        if (std::find(n.bound.begin(), n.bound.end(), v) == n.bound.end()) free.push_back(v);
      n.free = var_set(std::move(free));
      n.skeleton = combine(combine(kind_hash, static_cast<std::uint64_t>(n.reduction)), combine(child.skeleton, n.bound.size()));
      break;
    }
    case TermKind::range:
    case TermKind::index_value:
      n.free = index(n.form).free;
      n.skeleton = kind_hash;
      break;
  }
  n.size = static_cast<std::int32_t>(std::min<std::int64_t>(size, 1 << 30));
  // Wide sums are fine (a gradient norm adds a thousand terms); deep terms are what a lost fold grows into.
  const std::int64_t allowance = limits_.term_size + 24 * static_cast<std::int64_t>(n.monomials.size());
  if (n.size > allowance) throw BudgetExceeded(BudgetExceeded::What::size, "a term grew beyond the size cap");
  const TermId id{static_cast<std::int32_t>(nodes_.size())};
  nodes_.push_back(std::move(n));
  node_table_.insert(hash, id.value);
  tick();
  return id;
}

namespace {
bool is_odd(std::int32_t power) { return power % 2 != 0; }
}  // namespace

// A number i - j stands in the orientation that the age of its variables gives. An instance may have j - i, with the
// opposite sign in front of it or in the exponent that it is in: skeletons ignore these signs.
bool TermPool::is_oriented(const std::vector<Factor>& factors) const {
  return std::any_of(factors.begin(), factors.end(), [&](const Factor& f) { return node(f.term).kind == TermKind::index_value && is_odd(f.power); });
}

std::uint64_t TermPool::skeleton_of(const Factor& f) const {
  const TermNode& n = node(f.term);
  std::int32_t power = f.power;
  if (power < 0 && n.kind == TermKind::apply && n.function == Function::exp) {
    const std::vector<Monomial> argument = monomials_of(n.arguments[0]);
    if (argument.size() == 1 && is_oriented(argument[0].factors)) power = -power;
  }
  return combine(n.skeleton, hash_int(power));
}

std::uint64_t TermPool::skeleton_of(const Monomial& m) const {
  std::uint64_t product = 0;
  for (const Factor& f : m.factors) product += skeleton_of(f);
  const std::int64_t num = m.coefficient.num < 0 && is_oriented(m.factors) ? -m.coefficient.num : m.coefficient.num;
  return combine(combine(mix(product), hash_int(num)), hash_int(m.coefficient.den));
}

std::uint64_t TermPool::skeleton_of_product(const std::vector<Factor>& factors) const {
  return mix(skeleton_of(Monomial{Rational(1), factors}) ^ mix(static_cast<std::uint64_t>(TermKind::poly) + 77));
}

TermId TermPool::poly_from_sorted(std::vector<Monomial> monomials) {
  if (monomials.size() == 1 && monomials[0].coefficient.is_one() && monomials[0].factors.size() == 1 &&
      monomials[0].factors[0].power == 1)
    return monomials[0].factors[0].term;
  TermNode n;
  n.kind = TermKind::poly;
  n.monomials = std::move(monomials);
  return intern(std::move(n));
}

std::vector<Monomial> TermPool::monomials_of(TermId term) const {
  if (node(term).kind == TermKind::poly) return node(term).monomials;
  return {Monomial{Rational(1), {Factor{term, 1}}}};
}

TermId TermPool::constant(Rational value) {
  if (value.is_zero()) return zero_;
  return poly_from_sorted({Monomial{value, {}}});
}

std::optional<Rational> TermPool::as_constant(TermId term) const {
  const TermNode& n = node(term);
  if (n.kind != TermKind::poly) return std::nullopt;
  if (n.monomials.empty()) return Rational(0);
  if (n.monomials.size() == 1 && n.monomials[0].factors.empty()) return n.monomials[0].coefficient;
  return std::nullopt;
}

TermId TermPool::access(TensorId tensor_id, std::vector<IndexId> indices) {
  SHARDPROOF_CHECK(indices.size() == tensor(tensor_id).shape.size());
  TermNode n;
  n.kind = TermKind::access;
  n.tensor = tensor_id;
  n.indices = std::move(indices);
  return intern(std::move(n));
}

TermId TermPool::raw_index_value(IndexId form) {
  TermNode n;
  n.kind = TermKind::index_value;
  n.form = form;
  return intern(std::move(n));
}

// c + g * (primitive form): the constant and the content leave the factor.
TermId TermPool::index_value(IndexId e) {
  const IndexNode node_copy = index(e);
  if (node_copy.terms.empty()) return constant(Rational(node_copy.constant));
  std::int64_t content = 0;
  for (const auto& [a, k] : node_copy.terms) content = std::gcd(content, k);
  if (node_copy.terms[0].second < 0) content = -content;
  std::vector<LinearTerm> terms = node_copy.terms;
  for (auto& [a, k] : terms) k /= content;
  std::vector<Monomial> monomials{{Rational(content), {Factor{raw_index_value(index_normal(0, std::move(terms))), 1}}}};
  if (node_copy.constant != 0) monomials.push_back({Rational(node_copy.constant), {}});
  return poly(std::move(monomials));
}

std::optional<IndexId> TermPool::as_index(TermId term) {
  IndexId total = index_constant(0);
  for (const Monomial& m : monomials_of(term)) {
    if (!m.coefficient.is_integer()) return std::nullopt;
    if (m.factors.empty()) {
      total = index_scale(total, 1, m.coefficient.num);
    } else {
      const TermNode& f = node(m.factors[0].term);
      if (m.factors.size() != 1 || m.factors[0].power != 1 || f.kind != TermKind::index_value) return std::nullopt;
      total = index_linear(total, 1, f.form, m.coefficient.num);
    }
  }
  return total;
}

namespace {

// Where to put a factor among sorted factors.
std::size_t position_of(const std::vector<Factor>& factors, TermId term) {
  std::size_t i = 0;
  while (i < factors.size() && factors[i].term < term) ++i;
  return i;
}

constexpr std::int32_t kMaxPower = (1 << 30) - 1;  // powers can be negated and added

bool less_factors(const Monomial& a, const Monomial& b) { return a.factors < b.factors; }

}  // namespace

// The guard without the bounds that hold anyway where `given` holds (given may be 1).
TermId TermPool::relax(TermId guard, TermId given) {
  if (!is_guard(guard) || !is_guard(given)) return guard;
  const TermNode g = node(guard);
  const auto [lo, hi] = bounds_under(g.form, {given});
  const bool lower = g.lo != -kUnbounded && lo >= g.lo, upper = g.hi != kUnbounded && hi <= g.hi;
  if (!lower && !upper) return guard;
  return range(g.form, lower ? -kUnbounded : g.lo, upper ? kUnbounded : g.hi);
}

// Whether the guard fails wherever `given` holds, as far as intervals tell.
bool TermPool::excludes(TermId given, TermId guard) {
  const TermNode g = node(guard);
  const auto [lo, hi] = bounds_under(g.form, {given});
  return (g.lo != -kUnbounded && hi < g.lo) || (g.hi != kUnbounded && lo > g.hi);
}

// left * guard. Guards on one form intersect; a product that no index satisfies vanishes, which is decided on
// the common linear form of each pair, not on syntactic identity.
void TermPool::multiply_guard(std::vector<Monomial>& result, Monomial left, TermId guard) {
  const TermNode g = node(guard);
  for (std::size_t i = 0; i < left.factors.size(); ++i) {
    const TermNode& other = node(left.factors[i].term);
    if (other.kind != TermKind::range) continue;
    if (other.form == g.form) {
      if (other.lo >= g.lo && other.hi <= g.hi) {  // already at least as strong
        result.push_back(std::move(left));
        return;
      }
      const TermId both = range(g.form, std::max(g.lo, other.lo), std::min(g.hi, other.hi));
      if (both == zero_) return;
      left.factors.erase(left.factors.begin() + static_cast<std::ptrdiff_t>(i));
      if (both == one_) result.push_back(std::move(left));
      else multiply_guard(result, std::move(left), both);
      return;
    }
    if (!intersects(other.free, g.free)) continue;
    // A contradiction may show from one side only, and the order of factors must not matter.
    if (excludes(left.factors[i].term, guard) || excludes(guard, left.factors[i].term)) return;
    // A bound that the other guard implies is dropped, from the guard with the younger form first; the second is
    // then judged by what is left of the first, so that the product stays the same.
    const TermId old = left.factors[i].term;
    const bool guard_first = g.form > other.form;
    TermId new_guard = guard, new_old = old;
    if (guard_first) new_guard = relax(guard, old);
    new_old = relax(old, new_guard);
    if (!guard_first) new_guard = relax(guard, new_old);
    if (new_guard == guard && new_old == old) continue;
    if (new_old != old) left.factors.erase(left.factors.begin() + static_cast<std::ptrdiff_t>(i));
    std::vector<Monomial> with_old;
    if (new_old == old || new_old == one_) with_old.push_back(std::move(left));
    else multiply_guard(with_old, std::move(left), new_old);
    for (Monomial& m : with_old) {
      if (new_guard == one_) result.push_back(std::move(m));
      else multiply_guard(result, std::move(m), new_guard);
    }
    return;
  }
  left.factors.insert(left.factors.begin() + static_cast<std::ptrdiff_t>(position_of(left.factors, guard)), Factor{guard, 1});
  result.push_back(std::move(left));
}

// Monomials of term^power; negative powers of a polynomial go through its inverse.
std::vector<Monomial> TermPool::power_of(TermId term, std::int32_t power) {
  if (node(term).kind != TermKind::poly) {
    std::vector<Monomial> result;
    multiply_factor(result, Monomial{Rational(1), {}}, Factor{term, power});
    return result;
  }
  const TermId base = power > 0 ? term : inverse(term);
  std::vector<Monomial> result{{Rational(1), {}}};
  for (std::int32_t i = 0; i < (power > 0 ? power : -power); ++i) result = multiply_all(result, monomials_of(base));
  return result;
}

void TermPool::multiply_factor(std::vector<Monomial>& result, Monomial left, Factor factor) {
  const TermNode& n = node(factor.term);
  if (n.kind == TermKind::range) return multiply_guard(result, std::move(left), factor.term);
  std::size_t at = position_of(left.factors, factor.term);
  std::int32_t power = factor.power;
  if (at < left.factors.size() && left.factors[at].term == factor.term) {
    const std::int32_t old = left.factors[at].power;
    if ((old > 0) != (power > 0)) {
      if (is_positive_factor(factor.term)) require(Obligation::Kind::finite, n.arguments[0]);
      else require(Obligation::Kind::nonzero, factor.term);
    }
    power += old;
    if (power > kMaxPower || power < -kMaxPower) throw std::overflow_error("power of a factor exceeds 30 bits");
    left.factors.erase(left.factors.begin() + static_cast<std::ptrdiff_t>(at));
  }
  if (power == 0) {
    result.push_back(std::move(left));
    return;
  }
  if (n.kind == TermKind::apply) {
    // (1/P)^-k = P^k, where P is a polynomial.
    if (n.function == Function::inverse && power < 0) {
      require(Obligation::Kind::nonzero, n.arguments[0]);
      for (Monomial& m : multiply_all({left}, power_of(n.arguments[0], -power))) result.push_back(std::move(m));
      return;
    }
    // sqrt(X)^2 = X, needs X >= 0.
    if (n.function == Function::sqrt && (power >= 2 || power <= -2)) {
      const TermId radicand = n.arguments[0];
      require(Obligation::Kind::nonnegative, radicand);
      const std::int32_t half = power / 2;
      const std::int32_t rest = power - 2 * half;
      for (Monomial& m : multiply_all({left}, power_of(radicand, half))) {
        if (rest == 0) result.push_back(std::move(m));
        else multiply_factor(result, std::move(m), Factor{factor.term, rest});
      }
      return;
    }
  }
  left.factors.insert(left.factors.begin() + static_cast<std::ptrdiff_t>(at), Factor{factor.term, power});
  result.push_back(std::move(left));
}

std::vector<Monomial> TermPool::multiply(const Monomial& a, const Monomial& b) {
  std::vector<Monomial> current{{a.coefficient * b.coefficient, a.factors}};
  for (const Factor& f : b.factors) {
    std::vector<Monomial> next;
    next.reserve(current.size());
    for (Monomial& m : current) multiply_factor(next, std::move(m), f);
    current = std::move(next);
  }
  return current;
}

std::vector<Monomial> TermPool::multiply_all(const std::vector<Monomial>& a, const std::vector<Monomial>& b) {
  std::vector<Monomial> result;
  if (a.size() * b.size() > 64 * static_cast<std::size_t>(limits_.monomials))
    throw BudgetExceeded(BudgetExceeded::What::size, "a product grew beyond the size cap");
  // Values that are pieced together from many (a bucket of parameters) have as many guards on one form, of which most
  // pairs exclude each other.
  const auto exclude = [&](const Monomial& x, const Monomial& y) {
    for (const Factor& f : x.factors) {
      const TermNode& p = node(f.term);
      if (p.kind != TermKind::range) continue;
      for (const Factor& g : y.factors) {
        const TermNode& q = node(g.term);
        if (q.kind == TermKind::range && q.form == p.form && (p.hi < q.lo || q.hi < p.lo)) return true;
      }
    }
    return false;
  };
  for (const Monomial& x : a)
    for (const Monomial& y : b)
      if (!exclude(x, y))
        for (Monomial& m : multiply(x, y)) result.push_back(std::move(m));
  return result;
}

TermId TermPool::mul(TermId a, TermId b) {
  if (a == zero_ || b == zero_) return zero_;
  if (a == one_) return b;
  if (b == one_) return a;
  return poly(multiply_all(monomials_of(a), monomials_of(b)));
}

TermId TermPool::product(const std::vector<Factor>& factors, Rational coefficient) {
  std::vector<Monomial> current{{coefficient, {}}};
  for (const Factor& f : factors) current = multiply_all(current, power_of(f.term, f.power));
  return poly(std::move(current));
}

TermId TermPool::integer_power(TermId a, std::int64_t exponent) {
  if (exponent == 0) return one_;
  if (exponent > 64 || exponent < -64) throw BudgetExceeded(BudgetExceeded::What::size, "integer power beyond 64");
  return poly(power_of(a, static_cast<std::int32_t>(exponent)));
}

TermId TermPool::scale(TermId a, Rational k) {
  if (k.is_zero()) return zero_;
  if (k.is_one()) return a;
  std::vector<Monomial> monomials = monomials_of(a);
  for (Monomial& m : monomials) m.coefficient = m.coefficient * k;
  return poly(std::move(monomials));
}

TermId TermPool::add(TermId a, TermId b) { return sum({a, b}); }

TermId TermPool::sum(const std::vector<TermId>& terms) {
  std::vector<Monomial> monomials;
  for (TermId t : terms) {
    std::vector<Monomial> part = monomials_of(t);
    monomials.insert(monomials.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
  }
  return poly(std::move(monomials));
}

// Terms with equal coefficient and equal factors but for one guard whose ranges are adjacent become one.
bool TermPool::merge_adjacent(std::vector<Monomial>& monomials) {
  struct Piece {
    std::size_t monomial;
    TermId guard;
  };
  // Key: coefficient, form and remaining factors. Sorted map keeps the result independent of hashing.
  std::map<std::tuple<std::int64_t, std::int64_t, IndexId, std::vector<Factor>>, std::vector<Piece>> groups;
  for (std::size_t i = 0; i < monomials.size(); ++i) {
    for (std::size_t j = 0; j < monomials[i].factors.size(); ++j) {
      const TermNode& g = node(monomials[i].factors[j].term);
      if (g.kind != TermKind::range) continue;
      std::vector<Factor> rest = monomials[i].factors;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(j));
      groups[{monomials[i].coefficient.num, monomials[i].coefficient.den, g.form, std::move(rest)}].push_back(
          {i, monomials[i].factors[j].term});
    }
  }
  for (auto& [key, pieces] : groups) {
    if (pieces.size() < 2) continue;
    std::sort(pieces.begin(), pieces.end(), [&](const Piece& a, const Piece& b) {
      return std::pair(node(a.guard).lo, a.monomial) < std::pair(node(b.guard).lo, b.monomial);
    });
    std::vector<std::size_t> removed;
    std::vector<Monomial> added;
    for (std::size_t i = 0; i < pieces.size();) {
      std::size_t j = i + 1;
      const std::int64_t lo = node(pieces[i].guard).lo;
      std::int64_t hi = node(pieces[i].guard).hi;
      while (j < pieces.size() && hi != kUnbounded && node(pieces[j].guard).lo == hi + 1) hi = node(pieces[j++].guard).hi;
      if (j > i + 1) {
        const TermId whole = range(std::get<2>(key), lo, hi);
        Monomial merged{Rational(std::get<0>(key), std::get<1>(key)), std::get<3>(key)};
        if (whole == one_) added.push_back(std::move(merged));
        else if (whole != zero_) multiply_guard(added, std::move(merged), whole);
        for (std::size_t k = i; k < j; ++k) removed.push_back(pieces[k].monomial);
      }
      i = j;
    }
    if (removed.empty()) continue;
    std::sort(removed.rbegin(), removed.rend());
    for (std::size_t r : removed) monomials.erase(monomials.begin() + static_cast<std::ptrdiff_t>(r));
    monomials.insert(monomials.end(), std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
    return true;
  }
  return false;
}

// Under one set of guards, index terms read as numbers add up as index terms (so that digits recombine).
bool TermPool::merge_index_values(std::vector<Monomial>& monomials) {
  std::map<std::vector<Factor>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < monomials.size(); ++i) {
    std::vector<Factor> guards;
    int values = 0;
    bool other = false;
    for (const Factor& f : monomials[i].factors) {
      const TermKind kind = node(f.term).kind;
      if (kind == TermKind::range) guards.push_back(f);
      else if (kind == TermKind::index_value && f.power == 1) ++values;
      else other = true;
    }
    if (values == 1 && !other) groups[guards].push_back(i);
  }
  for (auto& [guards, members_of_group] : groups) {
    if (members_of_group.size() < 2) continue;
    std::int64_t denominator = 1;
    for (std::size_t i : members_of_group) {
      const std::int64_t den = monomials[i].coefficient.den;
      denominator = checked_mul(denominator, den / std::gcd(denominator, den));
    }
    IndexId total = index_constant(0);
    for (std::size_t i : members_of_group) {
      const Rational& c = monomials[i].coefficient;
      for (const Factor& f : monomials[i].factors)
        if (node(f.term).kind == TermKind::index_value)
          total = index_linear(total, 1, node(f.term).form, checked_mul(c.num, denominator / c.den));
    }
    for (auto it = members_of_group.rbegin(); it != members_of_group.rend(); ++it)
      monomials.erase(monomials.begin() + static_cast<std::ptrdiff_t>(*it));
    for (const Monomial& value : monomials_of(index_value(total))) {
      Monomial scaled{value.coefficient * Rational(1, denominator), guards};
      if (value.factors.empty()) {
        monomials.push_back(std::move(scaled));
      } else {
        multiply_factor(monomials, std::move(scaled), value.factors[0]);
      }
    }
    return true;
  }
  return false;
}

TermId TermPool::poly(std::vector<Monomial> monomials) {
  tick();  // also where everything built is known already
  for (;;) {
    std::sort(monomials.begin(), monomials.end(), less_factors);
    std::size_t out = 0;
    for (std::size_t i = 0; i < monomials.size();) {
      Monomial total = std::move(monomials[i++]);
      while (i < monomials.size() && monomials[i].factors == total.factors)
        total.coefficient = total.coefficient + monomials[i++].coefficient;
      if (!total.coefficient.is_zero()) monomials[out++] = std::move(total);
    }
    monomials.resize(out);
    if (monomials.size() > static_cast<std::size_t>(limits_.monomials))
      throw BudgetExceeded(BudgetExceeded::What::size, "a sum grew beyond the size cap");
    if (monomials.size() < 2) break;
    bool guards = false, values = false;
    int sums = 0;
    for (const Monomial& m : monomials)
      for (const Factor& f : m.factors) {
        sums += node(f.term).kind == TermKind::reduce && node(f.term).reduction == Reduction::sum;
        guards = guards || node(f.term).kind == TermKind::range;
        values = values || node(f.term).kind == TermKind::index_value;
      }
    if (values && merge_index_values(monomials)) continue;
    if (guards && merge_adjacent(monomials)) continue;
    if (sums > 1 && merge_sums(monomials)) continue;
    break;
  }
  return poly_from_sorted(std::move(monomials));
}

}  // namespace shardproof::solvers

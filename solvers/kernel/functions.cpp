// Scalar functions. Arguments with guards are split into cases first, so a function node never has a guard at
// the top of an argument; the laws below then apply piece by piece.
//
//   exp(a + b) = exp(a) exp(b);  exp(-inf) = 0;  exp(log x) = x            (x > 0, recorded)
//   log(exp(y) q) = y + log q for a factor exp(y) common to all terms   (y finite, q >= 0, recorded; log 0 = -inf)
//   log(q^-1) = -log q                                                  (q > 0, recorded)
//   1/(f q) = 1/f 1/q for a factor f common to all terms; 1/exp(x) = exp(x)^-1
//   1/(f/g + h) = g/(f + g h)                                           (g != 0, recorded; g = exp(x): x finite)
//   1/(c + c exp(x)) = 1/c sigmoid(-x)                                  (x finite, recorded)
//   sqrt(c x) = d sqrt(c/d^2 x) for a rational d > 0 such that c/d^2 is an integer without square factors; of a sum,
//   where c is a square
//   rsqrt(x) = sqrt(x)^-1; sqrt(x)^2 = x (recorded)
//   max is associative, commutative, idempotent; -inf is its unit (not +inf, nor a product with -inf); two maxima over
//   adjacent ranges are one (merge_sums.cpp)
// The inverse is total with 1/0 left uninterpreted: x * 1/x = 1 is only used with the obligation x != 0.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/check.h"
#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {

namespace {

std::optional<std::int64_t> integer_sqrt(std::int64_t x) {
  if (x < 0) return std::nullopt;
  std::int64_t r = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(x))));
  while (r > 0 && r > x / r) --r;
  while ((r + 1) <= x / (r + 1)) ++r;
  return r * r == x ? std::optional(r) : std::nullopt;
}

constexpr std::size_t kMaxDenominators = 4;  // multiplied out of a sum
constexpr std::int64_t kMaxFactored = std::int64_t{1} << 31;

// The greatest d such that d^2 divides x, for 0 < x <= kMaxFactored.
std::int64_t square_divisor(std::int64_t x) {
  std::int64_t divisor = 1;
  for (std::int64_t p = 2; p * p * p <= kMaxFactored && p <= x / p; ++p) {
    while (x % (p * p) == 0) {
      x /= p * p;
      divisor *= p;
    }
    if (x % p == 0) x /= p;
  }
  return divisor * integer_sqrt(x).value_or(1);  // at most two primes are left
}

// The root of c > 0, if that is rational.
std::optional<Rational> rational_sqrt(Rational c) {
  const auto num = integer_sqrt(c.num), den = integer_sqrt(c.den);
  if (!num || !den) return std::nullopt;
  return Rational(*num, *den);
}

// d > 0 such that c/d^2 is an integer without square factors, for c > 0. Of numbers beyond kMaxFactored only squares are
// known, so that no product leaves 64 bits.
std::optional<Rational> root_part(Rational c) {
  if (c.num <= kMaxFactored / c.den) return Rational(square_divisor(c.num * c.den), c.den);
  return rational_sqrt(c);
}

// Greatest rational c > 0 such that all coefficients are integer multiples of c.
Rational content_of(const std::vector<Monomial>& monomials) {
  std::int64_t num = 0, den = 1;
  for (const Monomial& m : monomials) {
    num = std::gcd(num, m.coefficient.num);
    den = ir::checked_mul(den, m.coefficient.den / std::gcd(den, m.coefficient.den));
  }
  return Rational(num, den);
}

// By a factor that all have.
void divide_all(std::vector<Monomial>& monomials, const Factor& common) {
  for (Monomial& m : monomials) {
    for (Factor& f : m.factors)
      if (f.term == common.term) f.power -= common.power;
    std::erase_if(m.factors, [](const Factor& f) { return f.power == 0; });
  }
}

}  // namespace

TermId TermPool::raw_apply(Function function, std::vector<TermId> arguments) {
  TermNode n;
  n.kind = TermKind::apply;
  n.function = function;
  n.arguments = std::move(arguments);
  return intern(std::move(n));
}

bool TermPool::is_positive_factor(TermId term) const {
  return node(term).kind == TermKind::apply && node(term).function == Function::exp;
}

// Minus infinity, plus infinity and products with it that could be either.
TermPool::Infinity TermPool::infinity_of(TermId term) const {
  Infinity result = Infinity::none;
  for (const Monomial& m : monomials_of(term)) {
    const bool infinite = std::any_of(m.factors.begin(), m.factors.end(), [&](const Factor& f) {
      return node(f.term).kind == TermKind::apply && node(f.term).function == Function::negative_infinity;
    });
    if (!infinite) continue;
    if (m.factors.size() > 1 || m.factors[0].power != 1 || ir::sign(m.coefficient) < 0) return Infinity::other;
    result = Infinity::minus;
  }
  return result;
}

TermId TermPool::apply(Function function, std::vector<TermId> arguments) {
  if (function == Function::negative_infinity) return raw_apply(function, {});
  return by_cases(arguments, [&](const std::vector<TermId>& pieces) { return apply_plain(function, pieces); });
}

TermId TermPool::apply_plain(Function function, const std::vector<TermId>& a) {
  switch (function) {
    case Function::exp: return apply_exp(a[0]);
    case Function::inverse: return apply_inverse(a[0]);
    case Function::sqrt: return apply_sqrt(a[0]);
    case Function::max: return apply_max(a);
    case Function::log: return apply_log(a[0]);
    case Function::less:
    case Function::less_equal:
    case Function::equal_real: {
      // Comparison of a difference with 0. Integers become guards.
      if (const auto c = as_constant(a[0])) {
        const int s = ir::sign(*c);
        const bool holds = function == Function::less ? s < 0 : function == Function::less_equal ? s <= 0 : s == 0;
        return holds ? one_ : zero_;
      }
      if (const auto e = as_index(a[0])) {
        const std::int64_t lo = function == Function::equal_real ? 0 : -kUnbounded;
        return range(*e, lo, function == Function::less ? -1 : 0);
      }
      break;
    }
    case Function::power:
      if (a[0] == one_) return one_;
      if (const auto c = as_constant(a[1]); c && c->is_integer() && c->num >= -8 && c->num <= 8) return integer_power(a[0], c->num);
      break;
    default: break;
  }
  return raw_apply(function, a);
}

TermId TermPool::apply_exp(TermId argument) {
  if (const Infinity infinity = infinity_of(argument); infinity != Infinity::none)
    return infinity == Infinity::minus ? zero_ : raw_apply(Function::exp, {argument});
  std::vector<Monomial> current{{Rational(1), {}}};
  for (const Monomial& m : monomials_of(argument)) {
    if (m.factors.size() == 1 && node(m.factors[0].term).kind == TermKind::apply && m.factors[0].power == 1) {
      const TermNode& f = node(m.factors[0].term);
      if (f.function == Function::log && m.coefficient.is_integer() && m.coefficient.num <= 64 && m.coefficient.num >= -64) {
        const TermId x = f.arguments[0];
        require(Obligation::Kind::nonzero, x);
        require(Obligation::Kind::nonnegative, x);
        current = multiply_all(current, power_of(x, static_cast<std::int32_t>(m.coefficient.num)));
        continue;
      }
    }
    const TermId unit = poly_from_sorted({Monomial{Rational(1, m.coefficient.den), m.factors}});
    if (m.coefficient.num > 1'000'000 || m.coefficient.num < -1'000'000)
      throw BudgetExceeded(BudgetExceeded::What::size, "exponent coefficient too large");
    std::vector<Monomial> next;
    for (Monomial& c : current)
      multiply_factor(next, std::move(c), Factor{raw_apply(Function::exp, {unit}), static_cast<std::int32_t>(m.coefficient.num)});
    current = std::move(next);
  }
  return poly(std::move(current));
}

TermId TermPool::apply_log(TermId argument) {
  if (argument == one_) return zero_;
  std::vector<Monomial> monomials = monomials_of(argument);
  if (monomials.empty() || infinity_of(argument) != Infinity::none) return raw_apply(Function::log, {argument});
  const std::vector<Factor> common = common_factors(monomials);
  std::vector<TermId> terms;
  for (const Factor& f : common) {
    if (!is_positive_factor(f.term)) continue;
    const TermId exponent = node(f.term).arguments[0];
    require(Obligation::Kind::finite, exponent);
    terms.push_back(scale(exponent, Rational(f.power)));
    divide_all(monomials, f);
  }
  const TermId rest = poly(std::move(monomials));
  if (!terms.empty()) require(Obligation::Kind::nonnegative, rest);
  if (rest == one_) return sum(terms);
  const std::vector<Monomial> last = monomials_of(rest);
  if (last.size() == 1 && last[0].coefficient.is_one() && last[0].factors.size() == 1 && last[0].factors[0].power == -1) {
    const TermId inverted = last[0].factors[0].term;
    require(Obligation::Kind::nonnegative, inverted);
    require(Obligation::Kind::nonzero, inverted);
    terms.push_back(scale(raw_apply(Function::log, {inverted}), Rational(-1)));
  } else {
    terms.push_back(raw_apply(Function::log, {rest}));
  }
  return sum(terms);
}

// Factors that all monomials have, with the power of least magnitude.
std::vector<Factor> TermPool::common_factors(const std::vector<Monomial>& monomials) const {
  std::vector<Factor> common;
  for (const Factor& f : monomials[0].factors) {
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
    if (everywhere) common.push_back({f.term, power});
  }
  return common;
}

// Factors with a negative power in some of the monomials, with the lowest one.
std::vector<Factor> TermPool::denominators(const std::vector<Monomial>& monomials) const {
  std::vector<Factor> result;
  for (const Monomial& m : monomials) {
    for (const Factor& f : m.factors) {
      if (f.power > 0) continue;
      const auto it = std::find_if(result.begin(), result.end(), [&](const Factor& g) { return g.term == f.term; });
      if (it == result.end()) result.push_back(f);
      else it->power = std::min(it->power, f.power);
    }
  }
  return result;
}

// Of c + c exp(x).
std::optional<TermId> TermPool::inverse_as_sigmoid(const std::vector<Monomial>& monomials) {
  if (monomials.size() != 2 || !(monomials[0].coefficient == monomials[1].coefficient)) return std::nullopt;
  const std::vector<Factor>& factors = monomials[monomials[0].factors.empty() ? 1 : 0].factors;
  if (factors.size() != monomials[0].factors.size() + monomials[1].factors.size()) return std::nullopt;
  std::vector<TermId> exponent;
  for (const Factor& f : factors) {
    if (!is_positive_factor(f.term)) return std::nullopt;
    exponent.push_back(scale(node(f.term).arguments[0], Rational(-f.power)));
  }
  const TermId argument = sum(exponent);
  require(Obligation::Kind::finite, argument);
  return scale(raw_apply(Function::sigmoid, {argument}), ir::inverse(monomials[0].coefficient));
}

TermId TermPool::apply_inverse(TermId argument) {
  std::vector<Monomial> monomials = monomials_of(argument);
  if (monomials.empty()) {
    require(Obligation::Kind::nonzero, zero_);
    return raw_apply(Function::inverse, {zero_});
  }
  if (monomials.size() == 1) {
    std::vector<Monomial> result{{ir::inverse(monomials[0].coefficient), {}}};
    for (const Factor& f : monomials[0].factors) {
      std::vector<Monomial> next;
      for (Monomial& m : result) multiply_factor(next, std::move(m), Factor{f.term, -f.power});
      result = std::move(next);
    }
    return poly(std::move(result));
  }
  if (const auto sigmoid = inverse_as_sigmoid(monomials)) return *sigmoid;
  const std::vector<Factor> common = common_factors(monomials);
  if (!common.empty()) {
    std::vector<Monomial> pulled{{Rational(1), {}}};
    for (const Factor& f : common) {
      std::vector<Monomial> next;
      for (Monomial& m : pulled) multiply_factor(next, std::move(m), Factor{f.term, -f.power});
      pulled = std::move(next);
    }
    for (const Factor& c : common) divide_all(monomials, c);
    return mul(poly(std::move(pulled)), apply_inverse(poly(std::move(monomials))));
  }
  if (const std::vector<Factor> below = denominators(monomials); !below.empty() && below.size() <= kMaxDenominators) {
    std::vector<Monomial> above{{Rational(1), {}}};
    for (const Factor& f : below)
      for (std::vector<Monomial>* terms : {&above, &monomials}) {
        std::vector<Monomial> next;
        for (Monomial& m : *terms) multiply_factor(next, std::move(m), Factor{f.term, -f.power});
        *terms = std::move(next);
      }
    return mul(poly(std::move(above)), apply_inverse(poly(std::move(monomials))));
  }
  // Content, with a sign that instances of one pattern agree on: coefficients are added up by skeleton, and the
  // smallest skeleton with a sum other than 0 decides. The common factors are gone by now, so that 1/(f q) is 1/f
  // times the same 1/q whatever f is.
  Rational content = content_of(monomials);
  std::map<std::uint64_t, Rational> by_skeleton;
  for (const Monomial& m : monomials) {
    std::uint64_t key = 0;
    for (const Factor& f : m.factors) key += combine(node(f.term).skeleton, hash_int(f.power));
    Rational& total = by_skeleton[mix(key)];
    total = total + m.coefficient;
  }
  int sign = ir::sign(monomials[0].coefficient);
  for (const auto& [key, total] : by_skeleton) {
    if (total.is_zero()) continue;
    sign = ir::sign(total);
    break;
  }
  if (sign < 0) content = -content;
  for (Monomial& m : monomials) m.coefficient = m.coefficient * ir::inverse(content);
  return scale(raw_apply(Function::inverse, {poly(std::move(monomials))}), ir::inverse(content));
}

TermId TermPool::apply_sqrt(TermId argument) {
  std::vector<Monomial> monomials = monomials_of(argument);
  if (monomials.empty()) return zero_;
  // Of a sum only squares are taken out: its coefficients stay as they are written (0.95 v + 0.05 g^2).
  const Rational whole = content_of(monomials);
  if (const auto content = monomials.size() == 1 ? root_part(whole) : rational_sqrt(whole); content && !content->is_one()) {
    for (Monomial& m : monomials) m.coefficient = m.coefficient * ir::inverse(*content * *content);
    const TermId rest = poly(std::move(monomials));
    return scale(rest == one_ ? one_ : raw_apply(Function::sqrt, {rest}), *content);
  }
  if (argument == one_) return one_;
  return raw_apply(Function::sqrt, {argument});
}

TermId TermPool::apply_max(const std::vector<TermId>& arguments) {
  std::vector<TermId> flat;
  std::optional<Rational> constants;
  bool masked = false;
  std::vector<TermId> opened;
  for (TermId a : arguments) {
    const TermNode& n = node(a);
    if (n.kind == TermKind::apply && n.function == Function::max) opened.insert(opened.end(), n.arguments.begin(), n.arguments.end());
    else opened.push_back(a);
  }
  for (TermId a : opened) {
    if (infinity_of(a) == Infinity::minus) masked = true;
    else if (const auto c = as_constant(a)) constants = !constants || compare(*constants, *c) < 0 ? *c : *constants;
    else flat.push_back(a);
  }
  merge_maxima(flat);
  if (constants) flat.push_back(constant(*constants));
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (flat.empty()) {
    SHARDPROOF_CHECK(masked);
    return raw_apply(Function::negative_infinity, {});
  }
  if (flat.size() == 1) return flat[0];
  return raw_apply(Function::max, std::move(flat));
}

}  // namespace shardproof::solvers

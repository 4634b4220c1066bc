// Functions of the second witness's numbers, with the laws that expression.h lists.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "solvers/witness/form_parts.h"
#include "solvers/witness/solve.h"

namespace shardproof::solvers::witness {

namespace {

// The greatest rational that all coefficients are integer multiples of.
Rational content_of(const Form& form) {
  std::int64_t num = 0, den = 1;
  for (const Summand& s : form) {
    num = std::gcd(num, s.coefficient.num);
    den = ir::checked_mul(den, s.coefficient.den / std::gcd(den, s.coefficient.den));
  }
  return Rational(num, den);
}

bool is_number(const Summand& s) { return s.factors.empty() && s.bound.empty() && s.guards.empty(); }

bool is_one(const Form& form) { return form.size() == 1 && is_number(form[0]) && form[0].coefficient.is_one(); }

}  // namespace

Form Algebra::inverse(const Form& form) {
  const Form f = simplified(form);
  if (f.empty()) throw NotCovered("1/0");
  if (f.size() == 1 && f[0].bound.empty() && f[0].guards.empty()) {
    Summand s = f[0];
    s.coefficient = ir::inverse(s.coefficient);
    for (Factor& factor : s.factors) factor.power = -factor.power;
    if (!normalise(s)) throw NotCovered("1/0");
    return {s};
  }
  // What all summands have in common, without the sign, comes out.
  Summand outside;
  outside.coefficient = content_of(f);
  const Summand* least = &f[0];
  for (const Summand& s : f)
    if (std::pair(head_of(s), key_of(s)) < std::pair(head_of(*least), key_of(*least))) least = &s;
  if (ir::sign(least->coefficient) < 0) outside.coefficient = -outside.coefficient;
  for (const Factor& factor : f[0].factors) {
    std::int32_t shared = factor.power;
    const bool everywhere = std::all_of(f.begin(), f.end(), [&](const Summand& s) {
      const auto it = std::find_if(s.factors.begin(), s.factors.end(), [&](const Factor& g) { return g.key == factor.key; });
      if (it == s.factors.end() || (it->power > 0) != (shared > 0)) return false;
      shared = shared > 0 ? std::min(shared, it->power) : std::max(shared, it->power);
      return true;
    });
    const bool free = std::none_of(f.begin(), f.end(), [&](const Summand& s) {
      return std::any_of(s.bound.begin(), s.bound.end(), [&](Variable v) { return mentions(factor, v); });
    });
    if (!everywhere || !free) continue;
    outside.factors.push_back(factor);
    outside.factors.back().power = shared;
  }
  Form rest;
  Summand divided = outside;
  divided.coefficient = ir::inverse(outside.coefficient);
  for (Factor& factor : divided.factors) factor.power = -factor.power;
  rest = multiply(f, {divided});
  // 1/(1 + exp(x)) = sigmoid(-x)
  if (rest.size() == 2 && rest[0].guards.empty() && rest[1].guards.empty() && rest[0].coefficient.is_one() && rest[1].coefficient.is_one()) {
    const Summand& grows = rest[rest[0].factors.empty() ? 1 : 0];
    const Summand& unit = rest[rest[0].factors.empty() ? 0 : 1];
    if (unit.factors.empty() && unit.bound.empty() && grows.bound.empty() && grows.factors.size() == 1 && is_function(grows.factors[0], Function::exp))
      return multiply({divided}, one_factor(function_of(Function::sigmoid, {scale(grows.factors[0].arguments[0], Rational(-1))})));
  }
  return multiply({divided}, one_factor(function_of(Function::inverse, {std::move(rest)})));
}

Form Algebra::exponential(Form argument) {
  argument = simplified(argument);
  Form result = number(Rational(1));
  Form plain;
  for (const Summand& s : argument) {
    if (is_minus_infinity(s)) return {};
    const bool logarithm = s.bound.empty() && s.guards.empty() && s.factors.size() == 1 && s.factors[0].power == 1 && is_function(s.factors[0], Function::log);
    if (logarithm && s.coefficient.is_integer() && s.coefficient.num <= 8 && s.coefficient.num >= -8)
      result = multiply(result, power(s.factors[0].arguments[0], static_cast<std::int32_t>(s.coefficient.num)));
    else plain.push_back(s);
  }
  if (plain.empty()) return result;
  return multiply(result, one_factor(function_of(Function::exp, {std::move(plain)})));
}

std::vector<std::pair<Guard, std::vector<Form>>> Algebra::cut(const std::vector<Form>& forms) {
  std::map<std::string, std::pair<Index, std::set<std::int64_t>>> cuts;  // where a new piece begins
  for (const Form& a : forms)
    for (const Summand& s : a)
      for (const Guard& g : s.guards) {
        if (std::any_of(s.bound.begin(), s.bound.end(), [&](Variable v) { return mentions(g.form, v); })) continue;
        auto& [form, begins] = cuts[g.form.key()];
        form = g.form;
        if (g.lo != -kUnbounded) begins.insert(g.lo);
        if (g.hi != kUnbounded) begins.insert(ir::checked_add(g.hi, 1));
      }
  std::vector<std::pair<Guard, std::vector<Form>>> result;
  if (cuts.empty()) return result;
  const auto most = std::max_element(cuts.begin(), cuts.end(), [](const auto& a, const auto& b) { return a.second.second.size() < b.second.second.size(); });
  const std::string form_key = most->first;
  const Index form = most->second.first;
  const Interval range = interval_of(*this, form);
  std::vector<Interval> pieces;
  std::int64_t begin = range.lo;
  for (const std::int64_t at : most->second.second) {
    if (at <= range.lo || at > range.hi) continue;
    pieces.push_back({begin, at - 1});
    begin = at;
  }
  pieces.push_back({begin, range.hi});
  for (const Interval& piece : pieces) {
    work();
    std::vector<Form> here;
    for (const Form& a : forms) {
      Form inside;
      for (Summand s : a) {
        bool zero = false;
        std::erase_if(s.guards, [&](const Guard& g) {
          if (g.form.key() != form_key) return false;
          zero = zero || !holds(g, piece.lo);
          return true;
        });
        if (!zero) inside.push_back(std::move(s));
      }
      here.push_back(std::move(inside));
    }
    result.emplace_back(Guard{form, piece.lo == range.lo ? -kUnbounded : piece.lo, piece.hi == range.hi ? kUnbounded : piece.hi}, std::move(here));
  }
  return result;
}

Form Algebra::apply(Function function, std::vector<Form> arguments) {
  if (function == Function::negative_infinity) return one_factor(function_of(function, {}));
  // A function of pieces is the pieces' functions.
  for (Form& a : arguments) a = simplified(a);
  auto pieces = cut(arguments);
  if (pieces.empty()) return apply_plain(function, std::move(arguments));
  Form result;
  for (auto& [guard, here] : pieces) result = add(std::move(result), guarded(guard, apply(function, std::move(here))));
  return result;
}

Form Algebra::apply_plain(Function function, std::vector<Form> arguments) {
  const Form& x = arguments[0];
  switch (function) {
    case Function::exp: return exponential(x);
    case Function::inverse: return inverse(x);
    case Function::log:
      if (x.size() == 1 && x[0].bound.empty() && x[0].factors.size() >= 1) {
        Summand rest = x[0];
        const auto grows = std::find_if(rest.factors.begin(), rest.factors.end(), [](const Factor& f) { return is_function(f, Function::exp); });
        if (grows != rest.factors.end()) {
          const Form exponent = scale(grows->arguments[0], Rational(grows->power));
          rest.factors.erase(grows);
          if (rest.factors.empty() && rest.coefficient.is_one()) return exponent;
          return add(exponent, apply(Function::log, {{rest}}));
        }
        if (rest.factors.size() == 1 && rest.coefficient.is_one() && rest.factors[0].power == -1) {
          rest.factors[0].power = 1;
          return scale(apply(Function::log, {{rest}}), Rational(-1));
        }
      }
      if (is_one(x)) return {};
      break;
    case Function::sqrt: {
      if (x.empty()) return {};
      const Rational content = content_of(x);  // sqrt(c x) = d sqrt(c/d^2 x)
      constexpr std::int64_t kMax = std::int64_t{1} << 31;
      std::int64_t root = 1;
      if (content.num <= kMax / content.den) {
        std::int64_t n = content.num * content.den;
        for (std::int64_t p = 2; p <= n / p; ++p)
          for (; n % (p * p) == 0; n /= p * p) root *= p;
        const Rational d(root, content.den);
        const bool square = n == 1;
        if (!d.is_one() && (x.size() == 1 || square)) {
          const Form rest = scale(x, ir::inverse(d * d));
          return scale(is_one(rest) ? rest : one_factor(function_of(Function::sqrt, {rest})), d);
        }
      }
      if (is_one(x)) return x;
      break;
    }
    case Function::max: {
      std::vector<Branch> branches;
      for (Form& a : arguments) branches.push_back({{}, {}, std::move(a)});
      return maximum(std::move(branches));
    }
    case Function::less:
    case Function::less_equal:
    case Function::equal_real:
      if (is_integer(x)) {
        const Index e = as_integer(x);
        const std::int64_t lo = function == Function::equal_real ? 0 : -kUnbounded;
        return guarded(Guard{e, lo, function == Function::less ? -1 : 0}, number(Rational(1)));
      }
      break;
    case Function::power:
      if (arguments.size() == 2 && arguments[1].size() <= 1 && (arguments[1].empty() || is_number(arguments[1][0]))) {
        const Rational e = arguments[1].empty() ? Rational(0) : arguments[1][0].coefficient;
        if (e.is_integer() && e.num >= -8 && e.num <= 8) return power(x, static_cast<std::int32_t>(e.num));
      }
      if (is_one(x)) return x;
      break;
    default: break;
  }
  return one_factor(function_of(function, std::move(arguments)));
}

Form Algebra::maximum(std::vector<Branch> branches) {
  Factor f;
  f.kind = Factor::Kind::maximum;
  std::set<std::string> seen;
  while (!branches.empty()) {
    Branch b = std::move(branches.back());
    branches.pop_back();
    std::erase_if(b.bound, [&](Variable v) { return extent(v) == 1; });
    b.body = simplified(b.body);
    // Pieces are branches by themselves.
    if (auto pieces = cut({b.body}); !pieces.empty()) {
      for (auto& [guard, here] : pieces) {
        Branch piece{b.bound, b.guards, std::move(here[0])};
        piece.guards.push_back(guard);
        if (tidy(*this, piece.guards)) branches.push_back(std::move(piece));
      }
      continue;
    }
    if (b.body.size() == 1 && is_minus_infinity(b.body[0])) continue;
    if (b.body.size() == 1) {
      const Summand& s = b.body[0];
      if (s.coefficient.is_one() && s.bound.empty() && s.factors.size() == 1 && s.factors[0].kind == Factor::Kind::maximum && s.factors[0].power == 1) {
        for (Branch inner : s.factors[0].branches) {
          inner.bound.insert(inner.bound.end(), b.bound.begin(), b.bound.end());
          inner.guards.insert(inner.guards.end(), b.guards.begin(), b.guards.end());
          if (tidy(*this, inner.guards)) branches.push_back(std::move(inner));
        }
        continue;
      }
    }
    const auto used = [&](Variable v) {
      return std::any_of(b.guards.begin(), b.guards.end(), [&](const Guard& g) { return mentions(g.form, v); }) ||
             std::any_of(b.body.begin(), b.body.end(), [&](const Summand& s) { return mentions(s, v); });
    };
    std::erase_if(b.bound, [&](Variable v) { return !used(v); });
    if (!b.bound.empty() || !b.guards.empty() || seen.insert(key_of(b.body)).second) f.branches.push_back(std::move(b));
  }
  if (f.branches.empty()) return one_factor(function_of(Function::negative_infinity, {}));
  if (f.branches.size() == 1 && f.branches[0].bound.empty() && f.branches[0].guards.empty()) return f.branches[0].body;
  std::reverse(f.branches.begin(), f.branches.end());
  name(f);
  return one_factor(std::move(f));
}

}  // namespace shardproof::solvers::witness

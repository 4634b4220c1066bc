#include "ir/coord_expr.h"

#include <algorithm>
#include <compare>
#include <numeric>

#include "ir/check.h"
#include "ir/rational.h"

namespace shardproof::ir {
namespace {

// Total order on terms, coefficient last, so that equal atoms become neighbours and the sorted form is
// canonical. It compares contents only: no addresses, so output does not depend on memory.
std::strong_ordering order(const CoordExpr& a, const CoordExpr& b);

std::strong_ordering order_atoms(const CoordTerm& a, const CoordTerm& b) {
  if (const auto by_kind = a.kind <=> b.kind; by_kind != 0) return by_kind;
  if (a.kind == CoordTerm::Kind::variable) return a.variable.compare(b.variable) <=> 0;
  if (const auto by_divisor = a.divisor <=> b.divisor; by_divisor != 0) return by_divisor;
  return a.inner == b.inner ? std::strong_ordering::equal : order(*a.inner, *b.inner);
}

std::strong_ordering order(const CoordExpr& a, const CoordExpr& b) {
  const std::size_t common = std::min(a.terms.size(), b.terms.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (const auto by_atom = order_atoms(a.terms[i], b.terms[i]); by_atom != 0) return by_atom;
    if (const auto by_factor = a.terms[i].coefficient <=> b.terms[i].coefficient; by_factor != 0) return by_factor;
  }
  if (const auto by_size = a.terms.size() <=> b.terms.size(); by_size != 0) return by_size;
  return a.constant <=> b.constant;
}

CoordExpr normalized(std::int64_t constant, std::vector<CoordTerm> terms) {
  std::sort(terms.begin(), terms.end(),
            [](const CoordTerm& a, const CoordTerm& b) { return order_atoms(a, b) < 0; });
  CoordExpr result;
  result.constant = constant;
  for (CoordTerm& term : terms) {
    if (!result.terms.empty() && order_atoms(result.terms.back(), term) == 0) {
      CoordTerm& last = result.terms.back();
      last.coefficient = checked_add(last.coefficient, term.coefficient);
    } else {
      if (!result.terms.empty() && result.terms.back().coefficient == 0) result.terms.pop_back();
      result.terms.push_back(std::move(term));
    }
  }
  if (!result.terms.empty() && result.terms.back().coefficient == 0) result.terms.pop_back();
  return result;
}

CoordExpr single(CoordTerm::Kind kind, CoordExpr inner, std::int64_t divisor) {
  CoordTerm term;
  term.kind = kind;
  term.inner = std::make_shared<const CoordExpr>(std::move(inner));
  term.divisor = divisor;
  CoordExpr result;
  result.terms.push_back(std::move(term));
  return result;
}

// Greatest common divisor of the divisor and all coefficients: at least 1.
std::int64_t common_factor(const CoordExpr& e, std::int64_t divisor) {
  std::int64_t factor = divisor;
  for (const CoordTerm& term : e.terms) factor = std::gcd(factor, term.coefficient % divisor);
  return factor;
}

}  // namespace

CoordExpr constant_expr(std::int64_t value) {
  CoordExpr result;
  result.constant = value;
  return result;
}

CoordExpr variable_expr(std::string name, std::int64_t coefficient, std::int64_t constant) {
  CoordExpr result = constant_expr(constant);
  if (coefficient == 0) return result;
  CoordTerm term;
  term.coefficient = coefficient;
  term.variable = std::move(name);
  result.terms.push_back(std::move(term));
  return result;
}

CoordExpr operator+(const CoordExpr& a, const CoordExpr& b) {
  std::vector<CoordTerm> terms = a.terms;
  terms.insert(terms.end(), b.terms.begin(), b.terms.end());
  return normalized(checked_add(a.constant, b.constant), std::move(terms));
}

CoordExpr operator*(std::int64_t factor, const CoordExpr& e) {
  if (factor == 0) return {};
  CoordExpr result = e;
  result.constant = checked_mul(factor, e.constant);
  for (CoordTerm& term : result.terms) term.coefficient = checked_mul(factor, term.coefficient);
  return result;
}

// floor((d*q + r) / d) = q + floor(r / d) for integer q: multiples of the divisor leave the atom. Then with g
// dividing d and every remaining coefficient, floor((g*x + c) / (g*d')) = floor((x + floor(c / g)) / d').
CoordExpr floor_div(const CoordExpr& e, std::int64_t divisor) {
  SHARDPROOF_CHECK(divisor > 0);
  if (divisor == 1) return e;
  CoordExpr outside = constant_expr(floor_div(e.constant, divisor));
  CoordExpr rest = constant_expr(floor_mod(e.constant, divisor));
  for (const CoordTerm& term : e.terms) {
    CoordTerm copy = term;
    if (term.coefficient % divisor == 0) {
      copy.coefficient = term.coefficient / divisor;
      outside.terms.push_back(std::move(copy));
    } else {
      rest.terms.push_back(std::move(copy));
    }
  }
  if (rest.is_constant()) return outside;  // 0 <= constant < divisor
  const std::int64_t factor = common_factor(rest, divisor);
  rest.constant = floor_div(rest.constant, factor);
  for (CoordTerm& term : rest.terms) term.coefficient /= factor;
  return outside + single(CoordTerm::Kind::floor_div, std::move(rest), divisor / factor);
}

// Coefficients and the constant count modulo the divisor. Then with g dividing d and every coefficient, and
// c = g*q + r, (g*x + c) mod (g*d') = g*((x + q) mod d') + r.
CoordExpr modulo(const CoordExpr& e, std::int64_t divisor) {
  SHARDPROOF_CHECK(divisor > 0);
  CoordExpr rest = constant_expr(floor_mod(e.constant, divisor));
  for (const CoordTerm& term : e.terms) {
    CoordTerm copy = term;
    copy.coefficient = floor_mod(term.coefficient, divisor);
    if (copy.coefficient != 0) rest.terms.push_back(std::move(copy));
  }
  if (rest.is_constant()) return rest;
  const std::int64_t factor = common_factor(rest, divisor);
  const std::int64_t low = floor_mod(rest.constant, factor);
  rest.constant = floor_div(rest.constant, factor);
  for (CoordTerm& term : rest.terms) term.coefficient /= factor;
  return factor * single(CoordTerm::Kind::modulo, std::move(rest), divisor / factor) + constant_expr(low);
}

CoordExpr substitute(const CoordExpr& e, const std::function<CoordExpr(const std::string&)>& by) {
  CoordExpr result = constant_expr(e.constant);
  for (const CoordTerm& term : e.terms) {
    CoordExpr part;
    switch (term.kind) {
      case CoordTerm::Kind::variable: part = by(term.variable); break;
      case CoordTerm::Kind::floor_div: part = floor_div(substitute(*term.inner, by), term.divisor); break;
      case CoordTerm::Kind::modulo: part = modulo(substitute(*term.inner, by), term.divisor); break;
    }
    result = result + term.coefficient * part;
  }
  return result;
}

void for_each_variable(const CoordExpr& e, const std::function<void(const std::string&)>& visit) {
  for (const CoordTerm& term : e.terms) {
    if (term.kind == CoordTerm::Kind::variable) {
      visit(term.variable);
    } else {
      for_each_variable(*term.inner, visit);
    }
  }
}

std::int64_t evaluate(const CoordExpr& e, const std::function<std::int64_t(const std::string&)>& value_of) {
  std::int64_t sum = e.constant;
  for (const CoordTerm& term : e.terms) {
    std::int64_t atom = 0;
    if (term.kind == CoordTerm::Kind::variable) {
      atom = value_of(term.variable);
    } else {
      const std::int64_t inner = evaluate(*term.inner, value_of);
      atom = term.kind == CoordTerm::Kind::floor_div ? floor_div(inner, term.divisor) : floor_mod(inner, term.divisor);
    }
    sum = checked_add(sum, checked_mul(term.coefficient, atom));
  }
  return sum;
}

bool equal(const CoordExpr& a, const CoordExpr& b) { return order(a, b) == 0; }

}  // namespace shardproof::ir

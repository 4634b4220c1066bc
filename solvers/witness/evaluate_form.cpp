#include "solvers/witness/evaluate_form.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "solvers/witness/form_parts.h"

namespace shardproof::solvers::witness {

namespace {

class TooMany {};

class Evaluator {
 public:
  Evaluator(const Algebra& algebra, const TensorContents& contents, Point point, std::int64_t limit)
      : algebra_(algebra), contents_(contents), point_(std::move(point)), left_(limit) {
    point_.resize(algebra.variables(), 0);
  }

  double largest() const { return largest_; }

  std::int64_t integer(const Index& e) {
    std::int64_t total = e.constant;
    for (const auto& [atom, k] : e.terms) total = ir::checked_add(total, ir::checked_mul(k, integer(*atom)));
    return total;
  }

  double form(const Form& form) {
    double total = 0;
    for (const Summand& s : form) total += over(s.bound, 0, [&] { return product(s); });
    return total;
  }

 private:
  std::int64_t integer(const Atom& a) {
    switch (a.kind) {
      case Atom::Kind::variable: return point_[static_cast<std::size_t>(a.variable)];
      case Atom::Kind::quotient: return ir::floor_div(integer(a.inner), a.divisor);
      case Atom::Kind::remainder: return ir::floor_mod(integer(a.inner), a.divisor);
      case Atom::Kind::chosen: return holds(a.guards) ? integer(a.inner) : 0;
      case Atom::Kind::load: break;
    }
    return contents_.integer(a.tensor, all(a.indices));
  }

  std::vector<std::int64_t> all(const std::vector<Index>& indices) {
    std::vector<std::int64_t> result;
    for (const Index& e : indices) result.push_back(integer(e));
    return result;
  }

  bool holds(const std::vector<Guard>& guards) {
    return std::all_of(guards.begin(), guards.end(), [&](const Guard& g) { return witness::holds(g, integer(g.form)); });
  }

  template <typename Body>
  double over(const std::vector<Variable>& bound, double start, const Body& body, bool maximum = false) {
    double total = start;
    std::vector<std::int64_t> counter(bound.size(), 0);
    for (;;) {
      if (--left_ < 0) throw TooMany();
      for (std::size_t i = 0; i < bound.size(); ++i) point_[static_cast<std::size_t>(bound[i])] = counter[i];
      const double x = body();
      total = maximum ? std::max(total, x) : total + x;
      std::size_t i = 0;
      while (i < counter.size() && ++counter[i] == algebra_.extent(bound[i])) counter[i++] = 0;
      if (i == counter.size()) return total;
    }
  }

  double product(const Summand& s) {
    if (!holds(s.guards)) return 0;
    double result = static_cast<double>(s.coefficient.num) / static_cast<double>(s.coefficient.den);
    for (const Factor& f : s.factors) {
      const double x = factor(f);
      result *= f.power == 1 ? x : x == 0 && f.power < 0 ? std::numeric_limits<double>::quiet_NaN() : std::pow(x, f.power);
    }
    largest_ = std::max(largest_, std::fabs(result));
    return result;
  }

  double factor(const Factor& f) {
    switch (f.kind) {
      case Factor::Kind::access: return contents_.real(f.tensor, all(f.indices));
      case Factor::Kind::integer: return static_cast<double>(integer(*f.atom));
      case Factor::Kind::maximum: {
        double result = -std::numeric_limits<double>::infinity();
        for (const Branch& b : f.branches) result = over(b.bound, result, [&] { return holds(b.guards) ? form(b.body) : -std::numeric_limits<double>::infinity(); }, true);
        return result;
      }
      case Factor::Kind::apply: break;
    }
    std::vector<double> x;
    for (const Form& a : f.arguments) x.push_back(form(a));
    switch (f.function) {
      case Function::exp: return std::exp(x.at(0));
      case Function::log: return x.at(0) < 0 ? std::numeric_limits<double>::quiet_NaN() : std::log(x.at(0));
      case Function::sqrt: return std::sqrt(x.at(0));
      case Function::inverse: return x.at(0) == 0 ? std::numeric_limits<double>::quiet_NaN() : 1 / x.at(0);
      case Function::tanh: return std::tanh(x.at(0));
      case Function::erf: return std::erf(x.at(0));
      case Function::sigmoid: return 1 / (1 + std::exp(-x.at(0)));
      case Function::sin: return std::sin(x.at(0));
      case Function::cos: return std::cos(x.at(0));
      case Function::abs: return std::fabs(x.at(0));
      case Function::power: return std::pow(x.at(0), x.at(1));
      case Function::max: return *std::max_element(x.begin(), x.end());
      case Function::negative_infinity: return -std::numeric_limits<double>::infinity();
      case Function::less: return x.at(0) < 0 ? 1 : 0;
      case Function::less_equal: return x.at(0) <= 0 ? 1 : 0;
      case Function::equal_real: return x.at(0) == 0 ? 1 : 0;
      case Function::count_: break;
    }
    throw NotCovered("a function without a value");
  }

  const Algebra& algebra_;
  const TensorContents& contents_;
  Point point_;
  std::int64_t left_;
  double largest_ = 0;
};

}  // namespace

std::optional<double> evaluate(const Algebra& algebra, const Form& form, const Point& point, const TensorContents& contents,
                               std::int64_t limit, double* largest) {
  Evaluator evaluator(algebra, contents, point, limit);
  try {
    const double value = evaluator.form(form);
    if (largest != nullptr) *largest = evaluator.largest();
    return value;
  } catch (const TooMany&) {
    return std::nullopt;
  }
}

std::int64_t evaluate(const Algebra& algebra, const Index& e, const Point& point, const TensorContents& contents) {
  return Evaluator(algebra, contents, point, 0).integer(e);
}

}  // namespace shardproof::solvers::witness

#include "solvers/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/check.h"

namespace shardproof::solvers {

namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Evaluator {
 public:
  Evaluator(const TermPool& pool, const TensorContents& contents, const Assignment& values)
      : pool_(pool), contents_(contents), values_(values) {}

  std::int64_t index(IndexId e) const {
    const IndexNode& node = pool_.index(e);
    std::int64_t total = node.constant;
    for (const auto& [a, k] : node.terms) total = ir::checked_add(total, ir::checked_mul(k, atom(a)));
    return total;
  }

  double largest() const { return largest_; }

  double term(TermId id) {
    const TermNode& node = pool_.node(id);
    switch (node.kind) {
      case TermKind::poly: {
        double total = 0;
        for (const Monomial& m : node.monomials) {
          const double part = monomial(m);
          if (std::isfinite(part)) largest_ = std::max(largest_, std::fabs(part));
          total += part;
        }
        return total;
      }
      case TermKind::access:
        return contents_.real(node.tensor, indices(node.indices));
      case TermKind::apply:
        return apply(node);
      case TermKind::reduce:
        return reduce(node);
      case TermKind::range:
        return in_range(node) ? 1 : 0;
      case TermKind::index_value:
        return static_cast<double>(index(node.form));
    }
    SHARDPROOF_CHECK(false);
  }

 private:
  std::int64_t atom(AtomId id) const {
    const IndexAtom& a = pool_.atom(id);
    switch (a.kind) {
      case AtomKind::variable:
        return values_.at(a.var);
      case AtomKind::floor_div:
        return ir::floor_div(index(a.inner), a.divisor);
      case AtomKind::modulo:
        return ir::floor_mod(index(a.inner), a.divisor);
      case AtomKind::load:
        return contents_.integer(a.tensor, indices(a.indices));
    }
    SHARDPROOF_CHECK(false);
  }

  std::vector<std::int64_t> indices(const std::vector<IndexId>& ids) const {
    std::vector<std::int64_t> result;
    result.reserve(ids.size());
    for (IndexId i : ids) result.push_back(index(i));
    return result;
  }

  bool in_range(const TermNode& guard) const {
    const std::int64_t e = index(guard.form);
    return (guard.lo == -kUnbounded || guard.lo <= e) && (guard.hi == kUnbounded || e <= guard.hi);
  }

  double monomial(const Monomial& m) {
    for (const Factor& f : m.factors)
      if (const TermNode& g = pool_.node(f.term); g.kind == TermKind::range && !in_range(g)) return 0;
    double product = static_cast<double>(m.coefficient.num) / static_cast<double>(m.coefficient.den);
    double exponent = 0;  // of all exponentials: each alone may exceed a double where their product does not
    for (const Factor& f : m.factors) {
      const TermNode& n = pool_.node(f.term);
      if (n.kind == TermKind::range) continue;
      if (n.kind == TermKind::apply && n.function == Function::exp)
        exponent += f.power * term(n.arguments[0]);
      else
        product *= power(term(f.term), f.power);
    }
    return exponent == 0 ? product : product * std::exp(exponent);
  }

  static double power(double base, std::int32_t exponent) {
    if (exponent == 1) return base;
    if (base == 0 && exponent < 0) return kUndefined;
    return std::pow(base, exponent);
  }

  double apply(const TermNode& node) {
    std::vector<double> x;
    for (TermId a : node.arguments) {
      x.push_back(term(a));
      if (std::isnan(x.back())) return kUndefined;
    }
    switch (node.function) {
      case Function::exp:
        return std::exp(x.at(0));
      case Function::log:
        return x.at(0) < 0 ? kUndefined : std::log(x.at(0));
      case Function::sqrt:
        return x.at(0) < 0 ? kUndefined : std::sqrt(x.at(0));
      case Function::inverse:
        return power(x.at(0), -1);
      case Function::tanh:
        return std::tanh(x.at(0));
      case Function::erf:
        return std::erf(x.at(0));
      case Function::sigmoid:
        return 1 / (1 + std::exp(-x.at(0)));
      case Function::sin:
        return std::sin(x.at(0));
      case Function::cos:
        return std::cos(x.at(0));
      case Function::abs:
        return std::fabs(x.at(0));
      case Function::power:
        return x.at(0) == 0 && x.at(1) < 0 ? kUndefined : std::pow(x.at(0), x.at(1));
      case Function::max:
        return *std::max_element(x.begin(), x.end());
      case Function::negative_infinity:
        return -kInfinity;
      case Function::less:
        return x.at(0) < 0 ? 1 : 0;
      case Function::less_equal:
        return x.at(0) <= 0 ? 1 : 0;
      case Function::equal_real:
        return x.at(0) == 0 ? 1 : 0;
      case Function::count_:
        break;
    }
    SHARDPROOF_CHECK(false);
  }

  double reduce(const TermNode& node) {
    std::vector<std::int64_t> counter(node.bound.size(), 0);
    double total = node.reduction == Reduction::sum ? 0 : -kInfinity;
    for (;;) {
      for (std::size_t i = 0; i < counter.size(); ++i) values_.set(node.bound[i], counter[i]);
      const double x = term(node.body);
      if (std::isnan(x)) return kUndefined;
      total = node.reduction == Reduction::sum ? total + x : std::max(total, x);
      std::size_t i = 0;
      while (i < counter.size() && ++counter[i] == pool_.var(node.bound[i]).extent) counter[i++] = 0;
      if (i == counter.size()) return total;
    }
  }

  const TermPool& pool_;
  const TensorContents& contents_;
  Assignment values_;
  double largest_ = 0;
};

std::uint64_t hash_access(std::uint64_t seed, TensorId tensor, const std::vector<std::int64_t>& indices) {
  std::uint64_t hash = combine(mix(seed + 1), hash_int(tensor.value));
  for (std::int64_t i : indices) hash = combine(hash, hash_int(i));
  return hash;
}

}  // namespace

// A handful of variables at a time: a scan is faster than a map.
void Assignment::set(VarId var, std::int64_t value) {
  for (auto& [v, old] : values_) {
    if (v == var) {
      old = value;
      return;
    }
  }
  values_.emplace_back(var, value);
}

std::int64_t Assignment::at(VarId var) const {
  for (const auto& [v, value] : values_)
    if (v == var) return value;
  SHARDPROOF_CHECK(false);
}

TensorContents hashed_contents(const TermPool& pool, std::uint64_t seed) {
  TensorContents contents;
  contents.real = [seed](TensorId tensor, const std::vector<std::int64_t>& indices) {
    const auto step = static_cast<int>(hash_access(seed, tensor, indices) % 32) - 16;  // -16 .. 15
    return static_cast<double>(step >= 0 ? step + 1 : step) / 8;
  };
  contents.integer = [seed, &pool](TensorId tensor, const std::vector<std::int64_t>& indices) {
    return static_cast<std::int64_t>(hash_access(seed, tensor, indices) %
                                     static_cast<std::uint64_t>(pool.tensor(tensor).below));
  };
  return contents;
}

std::int64_t evaluate(const TermPool& pool, IndexId e, const Assignment& values, const TensorContents& contents) {
  return Evaluator(pool, contents, values).index(e);
}

double evaluate(const TermPool& pool, TermId term, const Assignment& values, const TensorContents& contents,
                double* largest) {
  Evaluator evaluator(pool, contents, values);
  const double value = evaluator.term(term);
  if (largest != nullptr) *largest = evaluator.largest();
  return value;
}

}  // namespace shardproof::solvers

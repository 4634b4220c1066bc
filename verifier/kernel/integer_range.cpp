#include "verifier/kernel/integer_range.h"

#include <algorithm>
#include <stdexcept>

namespace shardproof::verifier {

using ir::checked_add;
using ir::checked_mul;
using solvers::Factor;
using solvers::Function;
using solvers::Monomial;
using solvers::Reduction;
using solvers::TermId;
using solvers::TermKind;
using solvers::TermNode;
using Interval = IntegerRange::Interval;

namespace {

constexpr int kMaxDepth = 200;  // of terms and definitions; results are remembered, so few are deep

Interval marks(const Interval& a, const Interval& b) {
  return {0, 0, a.undeclared || b.undeclared, a.unknown || b.unknown};
}

bool is_known(const Interval& a) {
  return !a.unknown;
}

template <typename F>
Interval combined(const Interval& a, const Interval& b, F&& bounds) {
  Interval result = marks(a, b);
  if (!is_known(result)) return result;
  try {
    std::tie(result.lo, result.hi) = bounds();
  } catch (const std::overflow_error&) {
    result.unknown = true;
  }
  return result;
}

Interval plus(const Interval& a, const Interval& b) {
  return combined(a, b, [&] { return std::pair(checked_add(a.lo, b.lo), checked_add(a.hi, b.hi)); });
}

Interval times(const Interval& a, const Interval& b) {
  return combined(a, b, [&] {
    const auto ends = {checked_mul(a.lo, b.lo), checked_mul(a.lo, b.hi), checked_mul(a.hi, b.lo), checked_mul(a.hi, b.hi)};
    return std::pair(std::min(ends), std::max(ends));
  });
}

Interval divided(const Interval& a, std::int64_t divisor) {
  if (!is_known(a) || divisor == 1) return a;
  const auto floor = [&](std::int64_t x) { return x / divisor - (x % divisor < 0 ? 1 : 0); };
  return {floor(a.lo), a.hi % divisor > 0 ? floor(a.hi) + 1 : floor(a.hi), a.undeclared};
}

}  // namespace

Interval IntegerRange::of_tensor(solvers::TensorId tensor, int depth) {
  if (const auto it = memo_.find(tensor); it != memo_.end()) return it->second;
  const TermId definition = atoms_.definition(tensor);
  const Interval result = definition.valid() ? of(definition, {}, depth + 1) : Interval{0, 0, true, true};
  return memo_[tensor] = result;
}

Interval IntegerRange::of_factor(const Factor& factor, const std::vector<TermId>& guards, int depth) {
  const Interval base = of(factor.term, guards, depth + 1);
  if (factor.power < 0) return {0, 0, base.undeclared, true};
  Interval result = base;
  for (std::int32_t k = 1; k < factor.power && is_known(result); ++k) result = times(result, base);
  if (factor.power % 2 == 0 && is_known(result)) result.lo = std::max<std::int64_t>(result.lo, 0);
  return result;
}

Interval IntegerRange::of(TermId term, const std::vector<TermId>& guards, int depth) {
  if (depth > kMaxDepth) return {0, 0, false, true};
  if (const auto index = pool_.as_index(term)) {
    const auto [lo, hi] = pool_.bounds_under(*index, guards);
    return {lo, hi};
  }
  const TermNode n = pool_.node(term);  // a copy: the pool may grow
  switch (n.kind) {
    case TermKind::poly: {
      Interval sum;
      for (const Monomial& m : n.monomials) {
        Interval product{m.coefficient.num, m.coefficient.num};
        for (const Factor& f : m.factors) product = times(product, of_factor(f, guards, depth));
        sum = plus(sum, divided(product, m.coefficient.den));
      }
      return sum;
    }
    case TermKind::access: return of_tensor(n.tensor, depth);
    case TermKind::range: return {0, 1};
    case TermKind::reduce: {
      const Interval body = of(n.body, {}, depth + 1);
      if (n.reduction == Reduction::max) return body;
      Interval count{1, 1};
      for (const solvers::VarId v : n.bound) count = times(count, {pool_.var(v).extent, pool_.var(v).extent});
      return times(count, body);
    }
    case TermKind::apply: {
      if (n.function == Function::less || n.function == Function::less_equal || n.function == Function::equal_real) return {0, 1};
      Interval all;
      std::vector<Interval> arguments;
      for (const TermId a : n.arguments) {
        arguments.push_back(of(a, guards, depth + 1));
        all = marks(all, arguments.back());
      }
      switch (n.function) {
        case Function::max: {
          if (!is_known(all)) return all;
          all = arguments.front();
          for (const Interval& a : arguments) all = {std::max(all.lo, a.lo), std::max(all.hi, a.hi), all.undeclared || a.undeclared};
          return all;
        }
        case Function::abs: {
          const Interval a = arguments.front(), negated = times(a, {-1, -1});
          if (!is_known(a) || !is_known(negated)) return {0, 0, a.undeclared, true};
          return {std::max<std::int64_t>(0, std::max(a.lo, negated.lo)), std::max(a.hi, negated.hi), a.undeclared};
        }
        default: return {0, 0, all.undeclared, true};
      }
    }
    case TermKind::index_value: break;  // as_index took it
  }
  return {0, 0, false, true};
}

}  // namespace shardproof::verifier

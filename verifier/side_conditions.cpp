#include "verifier/side_conditions.h"

#include <algorithm>

namespace shardproof::verifier {

using solvers::Factor;
using solvers::Function;
using solvers::IndexId;
using solvers::Monomial;
using solvers::Obligation;
using solvers::Reduction;
using solvers::Substitution;
using solvers::TermId;
using solvers::TermKind;
using solvers::TermNode;
using solvers::TermPool;
using solvers::VarId;

namespace {
constexpr int kMaxDepth = 24;
enum Question { kPositive, kNonnegative, kFinite };
}  // namespace

bool SideConditions::holds(const Obligation& o) {
  switch (o.kind) {
    case Obligation::Kind::nonzero:
      return positive(o.term) || positive(pool_.scale(o.term, ir::Rational(-1)));
    case Obligation::Kind::nonnegative: return nonnegative(o.term);
    case Obligation::Kind::finite: return finite(o.term);
  }
  return false;
}

std::string SideConditions::describe(const Obligation& o) const {
  std::string text = pool_.to_string(o.term);
  if (text.size() > 160) text = text.substr(0, 157) + "...";
  switch (o.kind) {
    case Obligation::Kind::nonzero: return "`" + text + "` is not zero";
    case Obligation::Kind::nonnegative: return "`" + text + "` is not negative";
    case Obligation::Kind::finite: return "no row of `" + text + "` is fully masked";
  }
  return text;
}

bool SideConditions::positive_factor(const Factor& f, int depth) {
  // x > 0 gives x^k > 0 for every k; for even k > 0, x^k > 0 would need x != 0, which positive covers.
  return positive(f.term, depth + 1) && (f.power > 0 || finite(f.term, depth + 1));  // 1/inf = 0
}

bool SideConditions::nonnegative_factor(const Factor& f, int depth) {
  return f.power % 2 == 0 || nonnegative(f.term, depth + 1);
}

bool SideConditions::has_witness(const Monomial& monomial, const std::vector<VarId>& vars, int depth) {
  // Candidates per variable: 0, the last value, and the boundary of each guard that mentions it with coefficient +-1.
  TermId current = pool_.poly({monomial});
  const std::function<bool(TermId, std::size_t)> search = [&](TermId body, std::size_t next) -> bool {
    if (body == pool_.zero()) return false;
    const std::vector<Monomial> parts = pool_.monomials_of(body);
    if (parts.size() != 1) return false;
    if (next == vars.size()) {
      for (const Factor& f : parts[0].factors)
        if (pool_.is_guard(f.term)) return false;
      return positive(body, depth + 1);
    }
    const VarId v = vars[next];
    std::vector<IndexId> candidates{pool_.index_constant(0), pool_.index_constant(pool_.var(v).extent - 1)};
    for (const Factor& f : parts[0].factors) {
      if (!pool_.is_guard(f.term)) continue;
      const TermNode guard = pool_.node(f.term);
      for (const auto& [a, k] : pool_.index(guard.form).terms) {
        if (pool_.atom(a).kind != solvers::AtomKind::variable || pool_.atom(a).var != v || (k != 1 && k != -1)) continue;
        const IndexId rest = pool_.index_linear(guard.form, 1, pool_.index_var(v), -k);
        for (const std::int64_t bound : {guard.lo, guard.hi})
          if (bound != solvers::kUnbounded && bound != -solvers::kUnbounded) candidates.push_back(pool_.index_scale(rest, -k, k * bound));
      }
    }
    for (IndexId value : candidates) {
      if (!atoms_.in_range(value, pool_.var(v).extent, {})) continue;
      Substitution s;
      s.set(v, value);
      if (search(pool_.substitute(body, s), next + 1)) return true;
    }
    return false;
  };
  return search(current, 0);
}

bool SideConditions::positive(TermId term, int depth) {
  if (depth > kMaxDepth) return false;
  const TermNode& n = pool_.node(term);
  switch (n.kind) {
    case TermKind::poly: {
      bool some = false;
      for (const Monomial& m : n.monomials) {
        if (ir::sign(m.coefficient) < 0) return false;
        bool all_positive = true;
        for (const Factor& f : m.factors) {
          if (positive_factor(f, depth)) continue;
          all_positive = false;
          if (!nonnegative_factor(f, depth)) return false;
        }
        some = some || all_positive;
      }
      return some;
    }
    case TermKind::access: {
      const TermId definition = atoms_.definition(n.tensor);
      if (!definition.valid()) return false;
      const auto key = std::pair(n.tensor, static_cast<int>(kPositive));
      if (auto it = memo_.find(key); it != memo_.end()) return it->second;
      return memo_[key] = positive(definition, depth + 1);
    }
    case TermKind::apply:
      switch (n.function) {
        case Function::exp: return finite(n.arguments[0], depth + 1);  // exp(-inf) = 0
        case Function::sigmoid: return finite(n.arguments[0], depth + 1);
        case Function::sqrt: return positive(n.arguments[0], depth + 1);
        case Function::inverse: return positive(n.arguments[0], depth + 1) && finite(n.arguments[0], depth + 1);  // 1/inf = 0
        case Function::max:
          return std::any_of(n.arguments.begin(), n.arguments.end(), [&](TermId a) { return positive(a, depth + 1); });
        case Function::power: return positive(n.arguments[0], depth + 1);
        default: return false;
      }
    case TermKind::reduce: {
      TermPool::FreshScope scope(pool_);
      std::vector<VarId> vars;
      const Reduction op = n.reduction;
      const TermId body = pool_.open(term, scope, vars);
      if (positive(body, depth + 1)) return true;
      if (op != Reduction::sum || !nonnegative(body, depth + 1)) return false;
      for (const Monomial& m : pool_.monomials_of(body))
        if (has_witness(m, vars, depth + 1)) return true;
      return false;
    }
    default: return false;
  }
}

bool SideConditions::nonnegative(TermId term, int depth) {
  if (depth > kMaxDepth) return false;
  const TermNode& n = pool_.node(term);
  switch (n.kind) {
    case TermKind::poly:
      for (const Monomial& m : n.monomials) {
        if (ir::sign(m.coefficient) < 0) return false;
        for (const Factor& f : m.factors)
          if (!nonnegative_factor(f, depth)) return false;
      }
      return true;
    case TermKind::access: {
      const TermId definition = atoms_.definition(n.tensor);
      if (!definition.valid()) return false;
      const auto key = std::pair(n.tensor, static_cast<int>(kNonnegative));
      if (auto it = memo_.find(key); it != memo_.end()) return it->second;
      return memo_[key] = nonnegative(definition, depth + 1);
    }
    case TermKind::apply:
      switch (n.function) {
        case Function::exp:
        case Function::sigmoid:
        case Function::abs:
        case Function::sqrt:
        case Function::less:
        case Function::less_equal:
        case Function::equal_real: return true;
        case Function::inverse: return nonnegative(n.arguments[0], depth + 1);
        case Function::max:
          return std::any_of(n.arguments.begin(), n.arguments.end(), [&](TermId a) { return nonnegative(a, depth + 1); });
        default: return positive(term, depth + 1);
      }
    case TermKind::reduce: {
      TermPool::FreshScope scope(pool_);
      std::vector<VarId> vars;
      return nonnegative(pool_.open(term, scope, vars), depth + 1);
    }
    case TermKind::range: return true;
    case TermKind::index_value: return pool_.index(n.form).lo >= 0;
  }
  return false;
}

bool SideConditions::finite(TermId term, int depth) {
  if (depth > kMaxDepth) return false;
  const TermNode& n = pool_.node(term);
  switch (n.kind) {
    case TermKind::poly:
      for (const Monomial& m : n.monomials)
        for (const Factor& f : m.factors)
          if (!finite(f.term, depth + 1)) return false;
      return true;
    case TermKind::access: {
      const TermId definition = atoms_.definition(n.tensor);
      if (!definition.valid()) return !pool_.tensor(n.tensor).unknown;  // inputs and state are real numbers
      const auto key = std::pair(n.tensor, static_cast<int>(kFinite));
      if (auto it = memo_.find(key); it != memo_.end()) return it->second;
      return memo_[key] = finite(definition, depth + 1);
    }
    case TermKind::apply:
      if (n.function == Function::negative_infinity) return false;
      if (n.function == Function::log) return positive(n.arguments[0], depth + 1);  // log(0) is minus infinity
      for (TermId a : n.arguments)
        if (!finite(a, depth + 1)) return false;
      return true;
    case TermKind::reduce: {
      TermPool::FreshScope scope(pool_);
      std::vector<VarId> vars;
      const Reduction op = n.reduction;
      const TermId body = pool_.open(term, scope, vars);
      if (finite(body, depth + 1)) return true;
      if (op != Reduction::max) return false;
      // A maximum is finite if at some choice of the variables no guard admits -infinity. The choice is searched
      // on the masked monomials' complement: 1 where the element is not masked.
      std::vector<Monomial> masked;
      for (const Monomial& m : pool_.monomials_of(body)) {
        Monomial guard_only{ir::Rational(1), {}};
        bool infinite = false;
        for (const Factor& f : m.factors) {
          if (pool_.is_guard(f.term)) guard_only.factors.push_back(f);
          else if (!finite(f.term, depth + 1)) infinite = true;
        }
        if (infinite) masked.push_back(std::move(guard_only));
      }
      const TermId unmasked = pool_.complement(pool_.poly(std::move(masked)));
      for (const Monomial& m : pool_.monomials_of(unmasked))
        if (ir::sign(m.coefficient) > 0 && has_witness(m, vars, depth + 1)) return true;
      return false;
    }
    default: return true;
  }
}

}  // namespace shardproof::verifier

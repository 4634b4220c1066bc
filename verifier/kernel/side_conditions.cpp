#include "verifier/kernel/side_conditions.h"

#include <algorithm>
#include <stdexcept>

#include "solvers/kernel/accesses.h"

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
constexpr int kMaxUnfolded = 6;  // levels of definitions
constexpr int kMaxVarianceLevels = 4;
constexpr std::int32_t kMaxUnfoldedSize = 200;

bool has_load(const TermPool& pool, IndexId e) {
  for (const auto& [atom, k] : pool.index(e).terms) {
    const solvers::IndexAtom& a = pool.atom(atom);
    if (a.kind == solvers::AtomKind::load) return true;
    if ((a.kind == solvers::AtomKind::floor_div || a.kind == solvers::AtomKind::modulo) && has_load(pool, a.inner)) return true;
  }
  return false;
}
}  // namespace

// A condition on a piecewise term is one on each piece.
bool SideConditions::holds(const Obligation& o) {
  if (is_premise(o)) return true;
  if (!pool_.guard_form(o.term)) return holds_for(o);
  bool all = true;
  pool_.by_cases({o.term}, [&](const std::vector<TermId>& piece) {
    all = all && holds_for({o.kind, piece[0]});
    return piece[0];
  });
  return all;
}

bool SideConditions::holds_for(const Obligation& o) {
  if (is_premise(o)) return true;
  if (const auto pattern = pattern_of(o, false); pattern && patterns_.count(*pattern) != 0) return true;
  switch (o.kind) {
    case Obligation::Kind::nonzero: return nonzero(o.term);
    case Obligation::Kind::nonnegative: return nonnegative(o.term);
    case Obligation::Kind::finite: return finite(o.term);
  }
  return false;
}

bool SideConditions::refuted(const Obligation& o) {
  switch (o.kind) {
    case Obligation::Kind::nonzero: return o.term == pool_.zero();
    case Obligation::Kind::nonnegative: return positive(pool_.scale(o.term, ir::Rational(-1)));
    case Obligation::Kind::finite: return false;
  }
  return false;
}

bool SideConditions::has_unknown(TermId term) const {
  return solvers::accesses(pool_, term, [this](solvers::TensorId t) { return pool_.tensor(t).unknown; });
}

bool SideConditions::depends_on_data(const Obligation& o) {
  return o.kind == Obligation::Kind::finite ? is_masked_by_data(o.term, 0) : !is_index_function(o.term);
}

// What multiplies minus infinity on the way to the term is more than guards on indices.
bool SideConditions::is_masked_by_data(TermId term, int depth) {
  if (depth > kMaxDepth) return false;
  const TermNode& n = pool_.node(term);
  for (const Monomial& m : n.monomials) {
    if (bounded(kAboveMinusInfinity, m, depth) && bounded(kBelowInfinity, m, depth)) continue;
    for (const Factor& f : m.factors)
      if (finite(f.term, depth + 1) ? !is_index_function(f.term) : is_masked_by_data(f.term, depth + 1)) return true;
  }
  for (TermId a : n.arguments)
    if (!finite(a, depth + 1) && is_masked_by_data(a, depth + 1)) return true;
  if (n.kind == TermKind::reduce) return is_masked_by_data(n.body, depth + 1);
  if (n.kind != TermKind::access) return false;
  const TermId definition = atoms_.definition(n.tensor);
  return definition.valid() && is_masked_by_data(definition, depth + 1);
}

bool SideConditions::is_index_function(TermId term) const {
  const TermNode& n = pool_.node(term);
  switch (n.kind) {
    case TermKind::access: return literals_.count(n.tensor) != 0;
    case TermKind::range:
    case TermKind::index_value: return !has_load(pool_, n.form);
    default: break;
  }
  for (const Monomial& m : n.monomials)
    for (const Factor& f : m.factors)
      if (!is_index_function(f.term)) return false;
  for (TermId a : n.arguments)
    if (!is_index_function(a)) return false;
  return n.kind != TermKind::reduce || is_index_function(n.body);
}

bool SideConditions::is_whole(const TermNode& access) const {
  const std::vector<std::int64_t>& shape = pool_.tensor(access.tensor).shape;
  std::set<VarId> used;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const solvers::IndexNode& index = pool_.index(access.indices[d]);
    if (index.constant != 0 || index.terms.size() != 1 || index.terms[0].second != 1) return false;
    const solvers::IndexAtom& atom = pool_.atom(index.terms[0].first);
    if (atom.kind != solvers::AtomKind::variable || pool_.var(atom.var).extent != shape[d] || !used.insert(atom.var).second) return false;
  }
  return true;
}

std::optional<SideConditions::Pattern> SideConditions::pattern_of(const Obligation& o, bool whole) const {
  const std::vector<Monomial> monomials = pool_.monomials_of(o.term);
  if (o.kind == Obligation::Kind::finite || monomials.size() != 1) return std::nullopt;
  if (o.kind == Obligation::Kind::nonnegative && ir::sign(monomials[0].coefficient) < 0) return std::nullopt;
  const Factor* tensor = nullptr;
  std::vector<Factor> scalars;
  for (const Factor& f : monomials[0].factors) {
    const TermNode& n = pool_.node(f.term);
    if (n.kind != TermKind::access || (!n.indices.empty() && tensor != nullptr)) return std::nullopt;
    if (n.indices.empty()) scalars.push_back(f);
    else tensor = &f;
  }
  if (tensor == nullptr || (whole && !is_whole(pool_.node(tensor->term)))) return std::nullopt;
  return Pattern(o.kind, pool_.node(tensor->term).tensor, tensor->power, scalars);
}

// c*t is not zero iff t is not, for a number c that is not zero; c*t >= 0 iff t >= 0, for c > 0.
Obligation SideConditions::up_to_scale(const Obligation& o) const {
  const std::vector<Monomial> monomials = pool_.monomials_of(o.term);
  if (monomials.empty() || o.kind == Obligation::Kind::finite) return o;
  try {
    ir::Rational scale = ir::inverse(monomials.front().coefficient);
    if (o.kind == Obligation::Kind::nonnegative && ir::sign(scale) < 0) scale = -scale;
    return {o.kind, pool_.scale(o.term, scale)};
  } catch (const std::overflow_error&) {  // then it is a condition of its own
    return o;
  }
}

bool SideConditions::is_premise(const Obligation& o) const { return premises_.count(up_to_scale(o)) != 0; }

void SideConditions::suppose(const Obligation& o) {
  premises_.insert(up_to_scale(o));
  const auto pattern = pattern_of(o, true);
  if (!pattern) return;
  patterns_.insert(*pattern);
  const auto& [kind, tensor, power, scalars] = *pattern;
  if (power == 1 && scalars.empty()) memo_[{tensor, kind == Obligation::Kind::nonzero ? kNonzero : kNonnegative}] = true;
}

bool SideConditions::nonzero(TermId term) {
  if (positive(term) || positive(pool_.scale(term, ir::Rational(-1)))) return true;
  const std::vector<Monomial> monomials = pool_.monomials_of(term);
  if (monomials.size() != 1) return false;
  return std::all_of(monomials[0].factors.begin(), monomials[0].factors.end(), [&](const Factor& f) {
    const TermNode& n = pool_.node(f.term);
    const bool premise = is_premise({Obligation::Kind::nonzero, f.term}) || (n.kind == TermKind::access && memo_.count({n.tensor, kNonzero}) != 0);
    if (premise) return f.power > 0 || finite(f.term);
    if (n.kind == TermKind::access || n.kind == TermKind::apply || n.kind == TermKind::reduce) return positive_factor(f, 0);
    return false;
  });
}

std::vector<Obligation> SideConditions::reduced(const Obligation& o) {
  const std::vector<Monomial> monomials = pool_.monomials_of(o.term);
  if (o.kind == Obligation::Kind::finite || monomials.size() != 1 || pool_.guard_form(o.term)) return {o};
  std::vector<Obligation> parts;
  std::vector<Factor> rest;
  for (const Factor& f : monomials[0].factors) {
    if (holds({o.kind, f.term})) continue;
    rest.push_back(f);
    parts.push_back({Obligation::Kind::nonzero, f.term});
  }
  if (o.kind == Obligation::Kind::nonzero) return parts;
  return {{o.kind, pool_.product(rest, ir::Rational(ir::sign(monomials[0].coefficient)))}};
}

std::string SideConditions::describe(const Obligation& o) {
  TermId shown = o.term;
  for (int level = 0; level < 3; ++level) {  // small scalars are said in terms of inputs
    const TermId next = atoms_.unfold(shown, [this](solvers::TensorId t) { return pool_.tensor(t).shape.empty() && !atoms_.has_reduction(t); });
    if (pool_.node(next).size > 12) break;
    shown = next;
  }
  std::string text = pool_.to_string(shown);
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
    for (const VarId w : pool_.members(pool_.node(body).free))  // a token sees itself, whatever segment it is in
      if (w != v && pool_.var(w).extent <= pool_.var(v).extent) candidates.push_back(pool_.index_var(w));
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

// a - b c^e with a >= b > 0, 0 <= c < 1, e > 0 (bias correction of Adam): c^e < 1.
bool SideConditions::is_one_minus_power(TermId term, int depth) {
  const std::vector<Monomial> parts = pool_.monomials_of(term);
  if (parts.size() != 2) return false;
  const Monomial& constant = parts[parts[0].factors.empty() ? 0 : 1];
  const Monomial& power = parts[parts[0].factors.empty() ? 1 : 0];
  if (!constant.factors.empty() || power.factors.size() != 1 || power.factors[0].power != 1 || ir::sign(power.coefficient) >= 0) return false;
  if (ir::sign(constant.coefficient + power.coefficient) < 0) return false;
  const TermId factor = atoms_.unfold(power.factors[0].term, [this](solvers::TensorId t) { return !atoms_.has_reduction(t); });
  const TermNode& n = pool_.node(factor);
  if (n.kind != TermKind::apply || n.function != Function::power) return false;
  const auto base = pool_.as_constant(n.arguments[0]);
  return base && ir::sign(*base) >= 0 && compare(*base, ir::Rational(1)) < 0 && positive(n.arguments[1], depth + 1);
}

// term = rest + c (N sum f^2 - (sum f)^2) with c > 0 for each square of a sum that is subtracted, so term >= rest. Sums
// may be behind definitions.
std::optional<TermId> SideConditions::without_variances(TermId term, int depth) {
  const auto some_negative = [&](TermId t) {
    const std::vector<Monomial> monomials = pool_.monomials_of(t);
    return monomials.size() > 1 && std::any_of(monomials.begin(), monomials.end(), [](const Monomial& m) { return ir::sign(m.coefficient) < 0; });
  };
  for (int level = 0; level < kMaxVarianceLevels && some_negative(term) && pool_.node(term).size < kMaxUnfoldedSize; ++level) {
    TermId rest = term;
    for (const Monomial& m : pool_.monomials_of(term)) {
      if (ir::sign(m.coefficient) > 0 || m.factors.size() != 1 || m.factors[0].power != 2) continue;
      const TermNode& n = pool_.node(m.factors[0].term);
      if (n.kind != TermKind::reduce || n.reduction != Reduction::sum) continue;
      TermPool::FreshScope scope(pool_);
      std::vector<VarId> vars;
      const TermId body = pool_.open(m.factors[0].term, scope, vars);
      if (!finite(body, depth + 1)) continue;
      ir::Rational weight = -m.coefficient;
      for (VarId v : vars) weight = weight * ir::Rational(pool_.var(v).extent);
      const TermId squares = pool_.reduce(Reduction::sum, vars, pool_.mul(body, body));
      rest = pool_.sub(pool_.sub(rest, pool_.poly({m})), pool_.scale(squares, weight));
    }
    if (rest != term && !some_negative(rest)) return rest;
    std::set<solvers::TensorId> outside;  // of sums: in there both have the same
    for (const Monomial& m : pool_.monomials_of(term))
      for (const Factor& f : m.factors)
        if (pool_.node(f.term).kind == TermKind::access) outside.insert(pool_.node(f.term).tensor);
    const auto is_square = [&](solvers::TensorId t) {
      const TermId definition = atoms_.definition(t);
      if (!definition.valid()) return false;
      const std::vector<Monomial> monomials = pool_.monomials_of(definition);
      return monomials.size() == 1 && monomials[0].factors.size() == 1 && monomials[0].factors[0].power == 2;
    };
    const TermId next = atoms_.unfold(term, [&](solvers::TensorId t) { return outside.count(t) != 0 || is_square(t); });
    if (next == term) break;
    term = next;
  }
  return std::nullopt;
}

bool SideConditions::positive(TermId term, int depth) {
  if (depth > kMaxDepth) return false;
  const TermNode& n = pool_.node(term);
  switch (n.kind) {
    case TermKind::poly: {
      if (is_one_minus_power(term, depth)) return true;
      if (const auto rest = without_variances(term, depth)) return positive(*rest, depth + 1);
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
      const auto key = std::pair(n.tensor, kPositive);
      if (auto it = memo_.find(key); it != memo_.end()) return it->second;
      const TermId definition = atoms_.definition(n.tensor);
      if (!definition.valid()) return false;
      return memo_[key] = positive(definition, depth + 1);
    }
    case TermKind::apply:
      switch (n.function) {
        case Function::exp: return finite(n.arguments[0], depth + 1);  // exp(-inf) = 0
        case Function::sigmoid: return finite(n.arguments[0], depth + 1);
        case Function::sqrt: return positive(n.arguments[0], depth + 1);
        case Function::abs: return positive(n.arguments[0], depth + 1) || positive(pool_.scale(n.arguments[0], ir::Rational(-1)), depth + 1);
        case Function::inverse: return positive(n.arguments[0], depth + 1) && finite(n.arguments[0], depth + 1);  // 1/inf = 0
        case Function::max:
          return std::any_of(n.arguments.begin(), n.arguments.end(), [&](TermId a) { return positive(a, depth + 1); });
        case Function::power: return positive(n.arguments[0], depth + 1);
        case Function::less: return positive(pool_.scale(n.arguments[0], ir::Rational(-1)), depth + 1);
        case Function::less_equal: return nonnegative(pool_.scale(n.arguments[0], ir::Rational(-1)), depth + 1);
        default: return false;
      }
    case TermKind::reduce: {
      TermPool::FreshScope scope(pool_);
      std::vector<VarId> vars;
      const Reduction op = n.reduction;
      const TermId body = pool_.open(term, scope, vars);
      if (positive(body, depth + 1)) return true;
      if (op != Reduction::sum || !nonnegative(body, depth + 1)) return false;
      // The guards may be in the definition of what is summed. Where one monomial is positive the sum is only if the others
      // are not negative: that the body as a whole is not may be a premise, and says nothing of the parts of its definition.
      TermId summed = body;
      for (int level = 0; level < kMaxUnfolded && pool_.node(summed).size < kMaxUnfoldedSize; ++level) {
        const std::vector<Monomial> monomials = pool_.monomials_of(summed);
        const bool parts_nonnegative = std::all_of(monomials.begin(), monomials.end(), [&](const Monomial& m) { return nonnegative(pool_.poly({m}), depth + 1); });
        if (parts_nonnegative && std::any_of(monomials.begin(), monomials.end(), [&](const Monomial& m) { return has_witness(m, vars, depth + 1); })) return true;
        const TermId next = atoms_.unfold(summed, [this](solvers::TensorId t) { return !atoms_.has_reduction(t); });
        if (next == summed) break;
        summed = next;
      }
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
      if (is_one_minus_power(term, depth)) return true;
      if (const auto rest = without_variances(term, depth)) return nonnegative(*rest, depth + 1);
      for (const Monomial& m : n.monomials) {
        if (ir::sign(m.coefficient) < 0) return false;
        for (const Factor& f : m.factors)
          if (!nonnegative_factor(f, depth)) return false;
      }
      return true;
    case TermKind::access: {
      if (supposed_nonnegative_.count(n.tensor) != 0) {
        premises_used_.insert(n.tensor);
        return true;
      }
      const auto key = std::pair(n.tensor, kNonnegative);
      if (auto it = memo_.find(key); it != memo_.end()) return it->second;
      const TermId definition = atoms_.definition(n.tensor);
      if (!definition.valid()) return false;
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
  return bounded(kAboveMinusInfinity, term, depth) && bounded(kBelowInfinity, term, depth);
}

bool SideConditions::bounded(Question question, const Factor& f, int depth) {
  const TermNode& n = pool_.node(f.term);
  // exp(-inf) = 0 and exp(x)^-1 = exp(-x).
  if (n.kind == TermKind::apply && n.function == Function::exp)
    return question != kBelowInfinity || bounded(f.power > 0 ? kBelowInfinity : kAboveMinusInfinity, n.arguments[0], depth + 1);
  return f.power == 1 ? bounded(question, f.term, depth + 1) : finite(f.term, depth + 1);
}

bool SideConditions::bounded(Question question, const Monomial& m, int depth) {
  const Question opposite = question == kBelowInfinity ? kAboveMinusInfinity : kBelowInfinity;
  const Question of_factor = ir::sign(m.coefficient) > 0 ? question : opposite;
  std::size_t infinite = 0;
  for (const Factor& f : m.factors) {
    if (bounded(kAboveMinusInfinity, f, depth) && bounded(kBelowInfinity, f, depth)) continue;
    // The sign of the product is that of this factor only if the others are not negative.
    if (++infinite > 1 || !bounded(of_factor, f, depth)) return false;
  }
  if (infinite == 0) return true;
  return std::all_of(m.factors.begin(), m.factors.end(), [&](const Factor& f) {
    return pool_.is_guard(f.term) || (m.factors.size() == 1) || !(bounded(kAboveMinusInfinity, f, depth) && bounded(kBelowInfinity, f, depth)) ||
           nonnegative_factor(f, depth);
  });
}

bool SideConditions::bounded(Question question, TermId term, int depth) {
  if (depth > kMaxDepth) return false;
  const TermNode& n = pool_.node(term);
  const auto all_finite = [&] {
    return std::all_of(n.arguments.begin(), n.arguments.end(), [&](TermId a) { return finite(a, depth + 1); });
  };
  switch (n.kind) {
    case TermKind::poly:
      return std::all_of(n.monomials.begin(), n.monomials.end(), [&](const Monomial& m) { return bounded(question, m, depth); });
    case TermKind::access: return is_tensor_bounded(question, n.tensor);
    case TermKind::apply:
      switch (n.function) {
        case Function::negative_infinity: return question == kBelowInfinity;
        case Function::exp: return bounded(question, Factor{term, 1}, depth);
        case Function::log:  // log(0) is minus infinity
          return finite(n.arguments[0], depth + 1) && (question == kBelowInfinity || positive(n.arguments[0], depth + 1));
        case Function::max:
          if (question != kBelowInfinity)
            return std::any_of(n.arguments.begin(), n.arguments.end(), [&](TermId a) { return bounded(question, a, depth + 1); });
          return std::all_of(n.arguments.begin(), n.arguments.end(), [&](TermId a) { return bounded(question, a, depth + 1); });
        default: return all_finite();
      }
    case TermKind::reduce:
      if (bounded(question, n.body, depth + 1)) return true;
      return n.reduction == Reduction::max && question == kAboveMinusInfinity && is_max_bounded(term, depth);
    default: return true;
  }
}

// Definitions refer to earlier tensors only: asked in order, no question goes deeper than one definition.
bool SideConditions::is_tensor_bounded(Question question, solvers::TensorId tensor) {
  std::size_t& next = asked_[question];
  for (; next <= tensor.at(); ++next) {
    const solvers::TensorId t{static_cast<std::int32_t>(next)};
    const TermId definition = atoms_.definition(t);
    if (definition.valid() && memo_.count({t, question}) == 0) memo_[{t, question}] = bounded(question, definition, 0);
  }
  const auto it = memo_.find({tensor, question});
  return it == memo_.end() ? !pool_.tensor(tensor).unknown : it->second;  // inputs and state are real numbers
}

// A maximum is finite if at some choice of the variables no guard admits minus infinity. The choice is searched on the
// masked monomials' complement: 1 where the element is not masked.
bool SideConditions::is_max_bounded(TermId reduction, int depth) {
  TermPool::FreshScope scope(pool_);
  std::vector<VarId> vars;
  const TermId body = pool_.open(reduction, scope, vars);
  std::vector<Monomial> masked;
  for (const Monomial& m : pool_.monomials_of(body)) {
    if (bounded(kAboveMinusInfinity, m, depth)) continue;
    Monomial guard_only{ir::Rational(1), {}};
    for (const Factor& f : m.factors)
      if (pool_.is_guard(f.term)) guard_only.factors.push_back(f);
    masked.push_back(std::move(guard_only));
  }
  const TermId unmasked = pool_.complement(pool_.poly(std::move(masked)));
  for (const Monomial& m : pool_.monomials_of(unmasked))
    if (ir::sign(m.coefficient) > 0 && has_witness(m, vars, depth + 1)) return true;
  return false;
}

}  // namespace shardproof::verifier

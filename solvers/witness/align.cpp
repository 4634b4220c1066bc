#include "solvers/witness/align.h"

#include <algorithm>
#include <map>
#include <random>

#include "solvers/witness/form_parts.h"

namespace shardproof::solvers::witness {

namespace {

constexpr int kMaxOrders = 24;  // of like factors
constexpr int kSamples = 24;

// Numbers for all variables; tensors of integers hold a function of their indices.
class Sample {
 public:
  Sample(const Algebra& algebra, std::uint64_t seed) : algebra_(algebra), random_(seed), values_(algebra.variables(), -1) {}

  std::int64_t value(Variable v) {
    std::int64_t& value = values_[static_cast<std::size_t>(v)];
    if (value < 0) {  // small, great and arbitrary ones
      const auto below = static_cast<std::uint64_t>(algebra_.extent(v));
      const std::uint64_t r = random_();
      value = static_cast<std::int64_t>(r % 4 == 0 ? (r >> 8U) % std::min<std::uint64_t>(below, 3) : (r >> 8U) % below);
    }
    return value;
  }
  // False if it is outside of the extent.
  bool bind(const Renaming& bind) {
    std::vector<std::pair<Variable, std::int64_t>> fresh;
    for (const auto& [v, e] : bind) fresh.emplace_back(v, of(e));
    for (const auto& [v, x] : fresh) {
      if (x < 0 || x >= algebra_.extent(v)) return false;
      values_[static_cast<std::size_t>(v)] = x;
    }
    return true;
  }
  bool holds(const std::vector<Guard>& guards) {
    return std::all_of(guards.begin(), guards.end(), [&](const Guard& g) { return witness::holds(g, of(g.form)); });
  }
  // Moves a variable of each guard that fails, so that it holds, if one step of one variable does it.
  bool make_hold(const std::vector<Guard>& guards, const std::vector<Variable>& fixed) {
    for (int round = 0; round < 3 && !holds(guards); ++round)
      for (const Guard& g : guards) {
        const std::int64_t x = of(g.form);
        const bool low = g.lo != -kUnbounded && x < g.lo, high = g.hi != kUnbounded && x > g.hi;
        if (!low && !high) continue;
        const std::int64_t lo = g.lo == -kUnbounded ? g.hi - 3 : g.lo, hi = g.hi == kUnbounded ? g.lo + 3 : g.hi;
        const std::int64_t wanted = lo + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(std::min<std::int64_t>(hi - lo, 1 << 20) + 1));
        for (const auto& [atom, k] : g.form.terms) {
          if (atom->kind != Atom::Kind::variable || std::find(fixed.begin(), fixed.end(), atom->variable) != fixed.end()) continue;
          const std::int64_t moved = value(atom->variable) + ir::floor_div(k > 0 ? wanted - x : x - wanted, k > 0 ? k : -k);
          if (moved < 0 || moved >= algebra_.extent(atom->variable)) continue;
          values_[static_cast<std::size_t>(atom->variable)] = moved;
          break;
        }
      }
    return holds(guards);
  }
  std::int64_t of(const Index& e) {
    std::int64_t total = e.constant;
    for (const auto& [atom, k] : e.terms) total = ir::checked_add(total, ir::checked_mul(k, of(*atom)));
    return total;
  }
  std::int64_t of(const Atom& a) {
    switch (a.kind) {
      case Atom::Kind::variable: return value(a.variable);
      case Atom::Kind::quotient: return ir::floor_div(of(a.inner), a.divisor);
      case Atom::Kind::remainder: return ir::floor_mod(of(a.inner), a.divisor);
      case Atom::Kind::chosen: return holds(a.guards) ? of(a.inner) : 0;
      case Atom::Kind::load: {
        std::uint64_t hash = hash_int(a.tensor.value);
        for (const Index& i : a.indices) hash = combine(hash, hash_int(of(i)));
        return static_cast<std::int64_t>(hash % static_cast<std::uint64_t>(algebra_.pool().tensor(a.tensor).below));
      }
    }
    return 0;
  }

 private:
  const Algebra& algebra_;
  std::mt19937_64 random_;
  std::vector<std::int64_t> values_;
};

bool mentions_any(const Index& e, const std::vector<Variable>& variables) {
  return std::any_of(variables.begin(), variables.end(), [&](Variable v) { return mentions(e, v); });
}

}  // namespace

void Aligner::relate(const Index& left, const Index& right, Equations& equations) const {
  if (mentions_any(left, equations.inner) || mentions_any(right, equations.inner)) return;
  equations.forth.push_back({right, left});
  equations.back.push_back({left, right});
}

void Aligner::relate(const Factor& left, const Factor& right, Equations& equations) const {
  if (left.kind != right.kind) return;
  switch (left.kind) {
    case Factor::Kind::access:
      for (std::size_t d = 0; d < left.indices.size() && left.tensor == right.tensor; ++d) relate(left.indices[d], right.indices[d], equations);
      return;
    case Factor::Kind::integer: return relate(Index{0, {{left.atom, 1}}}, Index{0, {{right.atom, 1}}}, equations);
    case Factor::Kind::apply:
      for (std::size_t a = 0; a < std::min(left.arguments.size(), right.arguments.size()); ++a) relate(left.arguments[a], right.arguments[a], equations);
      return;
    case Factor::Kind::maximum:
      if (left.branches.size() != 1 || right.branches.size() != 1) return;
      for (const Branch* b : {&left.branches[0], &right.branches[0]}) equations.inner.insert(equations.inner.end(), b->bound.begin(), b->bound.end());
      return relate(left.branches[0].body, right.branches[0].body, equations);
  }
}

// Summands that are the only ones with their factors.
void Aligner::relate(const Form& left, const Form& right, Equations& equations) const {
  std::map<std::string, std::pair<std::vector<const Summand*>, std::vector<const Summand*>>> by_head;
  for (const Summand& s : left) by_head[head_of(s)].first.push_back(&s);
  for (const Summand& s : right) by_head[head_of(s)].second.push_back(&s);
  for (const auto& [head, sides] : by_head) {
    if (sides.first.size() != 1 || sides.second.size() != 1) continue;
    const Summand& l = *sides.first[0];
    const Summand& r = *sides.second[0];
    equations.inner.insert(equations.inner.end(), l.bound.begin(), l.bound.end());
    equations.inner.insert(equations.inner.end(), r.bound.begin(), r.bound.end());
    for (std::size_t k = 0; k < l.factors.size(); ++k) relate(l.factors[k], r.factors[k], equations);
  }
}

bool Aligner::solve_both(Equations equations, const std::vector<Variable>& left, const std::vector<Variable>& right,
                         const std::vector<Guard>& left_guards, const std::vector<Guard>& right_guards, Alignment& result) const {
  for (const Guard& g : right_guards)
    if (g.lo == g.hi) equations.forth.push_back({g.form, Algebra::constant(g.lo)});
  for (const Guard& g : left_guards)
    if (g.lo == g.hi) equations.back.push_back({g.form, Algebra::constant(g.lo)});
  auto forth = solve(algebra_, right, equations.forth, right_guards);
  if (!forth) return false;
  auto back = solve(algebra_, left, equations.back, left_guards);
  if (!back) return false;
  result.forth = std::move(*forth);
  result.back = std::move(*back);
  return true;
}

bool Aligner::survives(const Summand& left, const Summand& right, const Context& context, Alignment& alignment) const {
  for (int k = 0; k < kSamples; ++k) {
    Sample sample(algebra_, static_cast<std::uint64_t>(k) * 977 + 13);
    bool active = true;
    std::vector<Variable> fixed;
    for (const ContextItem& item : context) {
      active = active && sample.bind(item.bind) && sample.make_hold(item.assume, fixed);
      for (const auto& [v, value] : item.bind) fixed.push_back(v);
    }
    // What was moved last must not have broken what came before.
    if (!active || !sample.make_hold(left.guards, fixed)) continue;
    for (const ContextItem& item : context) active = active && sample.bind(item.bind) && sample.holds(item.assume);
    if (!active || !sample.holds(left.guards) || !sample.bind(alignment.forth) || !sample.holds(right.guards)) continue;
    for (std::size_t i = 0; i < left.factors.size(); ++i) {
      const Factor& l = left.factors[i];
      const Factor& r = right.factors[alignment.order[i]];
      if (l.kind == Factor::Kind::integer && sample.of(*l.atom) != sample.of(*r.atom)) return false;
      if (l.kind != Factor::Kind::access) continue;
      for (std::size_t d = 0; d < l.indices.size(); ++d)
        if (sample.of(l.indices[d]) != sample.of(r.indices[d])) return false;
    }
    alignment.seen = true;
  }
  return true;
}

std::optional<Alignment> Aligner::align(const Summand& left, const Summand& right, const Context& context) {
  if (left.factors.size() != right.factors.size()) return std::nullopt;
  Alignment alignment;
  for (std::size_t k = 0; k < left.factors.size(); ++k) alignment.order.push_back(k);
  // Runs of like factors may be in another order.
  const auto like = [](const Factor& a, const Factor& b) { return a.head == b.head && a.power == b.power; };
  for (int tries = 0; tries < kMaxOrders; ++tries) {
    bool fits = true;
    Equations equations;
    for (std::size_t k = 0; k < left.factors.size() && fits; ++k) {
      const Factor& r = right.factors[alignment.order[k]];
      fits = like(left.factors[k], r);
      if (fits) relate(left.factors[k], r, equations);
    }
    if (fits && solve_both(std::move(equations), left.bound, right.bound, left.guards, right.guards, alignment) &&
        survives(left, right, context, alignment))
      return alignment;
    alignment.seen = false;
    // The next order that permutes within runs.
    bool advanced = false;
    for (std::size_t end = right.factors.size(); end > 0 && !advanced;) {
      std::size_t begin = end - 1;
      while (begin > 0 && like(right.factors[begin - 1], right.factors[begin])) --begin;
      const auto first = alignment.order.begin() + static_cast<std::ptrdiff_t>(begin), last = alignment.order.begin() + static_cast<std::ptrdiff_t>(end);
      advanced = std::next_permutation(first, last);
      end = begin;
    }
    if (!advanced) break;
  }
  return std::nullopt;
}

std::optional<Alignment> Aligner::align(const Branch& left, const Branch& right, const Context& context) {
  Equations equations;
  relate(left.body, right.body, equations);
  Alignment alignment;
  if (!solve_both(std::move(equations), left.bound, right.bound, left.guards, right.guards, alignment)) return std::nullopt;
  // Where both have one summand, samples tell as well.
  if (left.body.size() == 1 && right.body.size() == 1 && left.body[0].factors.size() == right.body[0].factors.size()) {
    for (std::size_t k = 0; k < left.body[0].factors.size(); ++k) {
      if (left.body[0].factors[k].head != right.body[0].factors[k].head) return std::nullopt;
      alignment.order.push_back(k);
    }
    if (left.body[0].bound.empty() && right.body[0].bound.empty() && !survives(left.body[0], right.body[0], context, alignment)) return std::nullopt;
  }
  return alignment;
}

}  // namespace shardproof::solvers::witness

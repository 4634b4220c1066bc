#include "solvers/witness/solve.h"

#include <algorithm>
#include <map>

namespace shardproof::solvers::witness {

namespace {

constexpr int kMaxRounds = 16;

Interval of_atom(const Algebra& algebra, const Atom& a) {
  switch (a.kind) {
    case Atom::Kind::variable: return {0, algebra.extent(a.variable) - 1};
    case Atom::Kind::load: return {0, algebra.pool().tensor(a.tensor).below - 1};
    case Atom::Kind::quotient: {
      const Interval i = interval_of(algebra, a.inner);
      return {ir::floor_div(i.lo, a.divisor), ir::floor_div(i.hi, a.divisor)};
    }
    case Atom::Kind::remainder: {
      const Interval i = interval_of(algebra, a.inner);
      if (i.lo >= 0 && i.hi < a.divisor) return i;
      return {0, a.divisor - 1};
    }
    case Atom::Kind::chosen: {
      const Interval i = interval_of(algebra, a.inner);
      return {std::min<std::int64_t>(i.lo, 0), std::max<std::int64_t>(i.hi, 0)};
    }
  }
  return {};
}

class Solver {
 public:
  Solver(const Algebra& algebra, std::vector<Variable> unknowns, std::vector<Equation> equations, const std::vector<Guard>& guards)
      : algebra_(algebra), unknowns_(std::move(unknowns)), equations_(std::move(equations)), guards_(guards) {}

  std::optional<Renaming> run() {
    std::erase_if(unknowns_, [&](Variable v) { return algebra_.extent(v) == 1; });
    for (int round = 0; round < kMaxRounds && !unknowns_.empty(); ++round) {
      const std::size_t known = values_.size();
      const std::vector<Equation> pending = std::exchange(equations_, {});
      for (const Equation& e : pending)
        if (!use(e)) equations_.push_back(e);
      combine_digits();
      if (values_.size() == known && equations_.size() == pending.size()) use_guards();
      if (values_.size() == known && equations_.size() == pending.size()) break;
    }
    if (!unknowns_.empty()) return std::nullopt;
    return solved_;
  }

 private:
  bool is_open(const Index& e) const {
    return std::any_of(unknowns_.begin(), unknowns_.end(), [&](Variable v) { return mentions(e, v); });
  }

  void learn(const AtomPtr& atom, const Index& value) {
    if (!values_.emplace(atom->key, value).second) return;
    atoms_.push_back(atom);
    if (atom->kind != Atom::Kind::variable) return;
    solved_.emplace_back(atom->variable, value);
    std::erase(unknowns_, atom->variable);
  }

  // True if there is nothing left to learn from it.
  bool use(const Equation& equation) {
    std::vector<std::pair<AtomPtr, std::int64_t>> open;
    Index rest = Algebra::combine(equation.value, 1, {1, {}}, ir::checked_mul(equation.form.constant, -1));
    for (const auto& [atom, k] : equation.form.terms) {
      const Index alone{0, {{atom, 1}}};
      if (const auto it = values_.find(atom->key); it != values_.end()) rest = Algebra::combine(rest, 1, it->second, ir::checked_mul(k, -1));
      else if (is_open(alone)) open.emplace_back(atom, k);
      else rest = Algebra::combine(rest, 1, replaced(algebra_, alone, solved_), ir::checked_mul(k, -1));
    }
    if (open.empty()) return true;
    if (open[0].second < 0) {
      rest = Algebra::scale(rest, -1);
      for (auto& [atom, k] : open) k = ir::checked_mul(k, -1);
    }
    std::stable_sort(open.begin(), open.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    if (open.back().second <= 0) return false;
    std::vector<Interval> ranges;
    for (const auto& [atom, k] : open) {
      ranges.push_back(of_atom(algebra_, *atom));
      rest = Algebra::combine(rest, 1, {1, {}}, ir::checked_mul(ir::checked_mul(k, ranges.back().lo), -1));
    }
    std::int64_t below = 0;  // what the smaller ones add up to at most
    for (std::size_t i = open.size(); i-- > 0;) {
      if (open[i].second <= below) return false;
      below = ir::checked_add(below, ir::checked_mul(open[i].second, ir::checked_add(ranges[i].hi, -ranges[i].lo)));
    }
    for (std::size_t i = 0; i < open.size(); ++i) {
      const std::int64_t k = open[i].second;
      learn(open[i].first, Algebra::combine(algebra_.quotient(rest, k), 1, {1, {}}, ranges[i].lo));
      rest = algebra_.remainder(rest, k);
    }
    return true;
  }

  // rest + k*v in [lo, hi] leaves one v if the range is not wider than k.
  void use_guards() {
    for (Guard g : guards_) {
      const Interval range = interval_of(algebra_, g.form);
      g.lo = std::max(g.lo, range.lo);
      g.hi = std::min(g.hi, range.hi);
      for (const auto& [atom, k] : g.form.terms) {
        if (atom->kind != Atom::Kind::variable || std::find(unknowns_.begin(), unknowns_.end(), atom->variable) == unknowns_.end()) continue;
        const std::int64_t width = ir::checked_add(ir::checked_add(g.hi, -g.lo), 1), step = k < 0 ? ir::checked_mul(k, -1) : k;
        Index rest = Algebra::combine(g.form, 1, {0, {{atom, 1}}}, ir::checked_mul(k, -1));
        if (width > step || is_open(rest)) continue;
        rest = replaced(algebra_, rest, solved_);
        // k < 0: v = (rest - lo) div step; k > 0: v = (hi - rest) div step
        learn(atom, algebra_.quotient(k < 0 ? Algebra::scale(rest, 1, ir::checked_mul(g.lo, -1)) : Algebra::scale(rest, -1, g.hi), step));
        return;
      }
    }
  }

  // e = d (e / d) + e % d
  void combine_digits() {
    const std::vector<AtomPtr> atoms = atoms_;
    for (const AtomPtr& a : atoms) {
      if (a->kind != Atom::Kind::remainder) continue;
      const Interval i = interval_of(algebra_, a->inner);
      const Index quotient = algebra_.quotient(a->inner, a->divisor);
      Index high;
      if (i.lo >= 0 && i.hi < a->divisor) {
        high = Algebra::constant(0);
      } else if (quotient.terms.size() == 1 && values_.count(quotient.terms[0].first->key) != 0) {
        high = values_.at(quotient.terms[0].first->key);
      } else {
        continue;
      }
      if (done_.emplace(a->key, true).second) equations_.push_back({a->inner, Algebra::combine(high, a->divisor, values_.at(a->key), 1)});
    }
  }

  const Algebra& algebra_;
  std::vector<Variable> unknowns_;
  std::vector<Equation> equations_;
  const std::vector<Guard>& guards_;
  std::map<std::string, Index> values_;  // of atoms, by key
  std::vector<AtomPtr> atoms_;
  std::map<std::string, bool> done_;
  Renaming solved_;
};

}  // namespace

Interval interval_of(const Algebra& algebra, const Index& e) {
  Interval total{e.constant, e.constant};
  for (const auto& [atom, k] : e.terms) {
    const Interval i = of_atom(algebra, *atom);
    const std::int64_t a = ir::checked_mul(k, i.lo), b = ir::checked_mul(k, i.hi);
    total = {ir::checked_add(total.lo, std::min(a, b)), ir::checked_add(total.hi, std::max(a, b))};
  }
  return total;
}

std::optional<Renaming> solve(const Algebra& algebra, const std::vector<Variable>& unknowns, std::vector<Equation> equations,
                              const std::vector<Guard>& guards) {
  return Solver(algebra, unknowns, std::move(equations), guards).run();
}

}  // namespace shardproof::solvers::witness

// Matching modulo associativity and commutativity: children are paired by skeleton hash, ambiguous pairings
// are enumerated by an odometer; each pairing yields equations pattern index = term index, which are solved
// for the pattern variables one at a time (unit coefficient, divisible coefficient, quotient and remainder
// pairs, most significant digit).
#include "solvers/unify.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace shardproof::solvers {

namespace {

constexpr std::int64_t kMostRemainders = 4;
constexpr std::int64_t kWidest = std::int64_t{1} << 40;  // bounds of a guard that is looked at as a digit
constexpr std::size_t kMaxRenamings = 24;  // of the variables of one sum
constexpr std::size_t kMaxRenamed = 6;    // variables

// Counts through all sequences of choices of a backtracking search.
class Odometer {
 public:
  std::size_t pick(std::size_t options) {
    if (options <= 1) return 0;
    if (position_ == choices_.size()) {
      choices_.push_back(0);
      limits_.push_back(options);
    }
    return choices_[position_++];
  }
  void restart() { position_ = 0; }
  bool advance() {
    choices_.resize(position_);
    limits_.resize(position_);
    while (!choices_.empty() && choices_.back() + 1 >= limits_.back()) {
      choices_.pop_back();
      limits_.pop_back();
    }
    if (choices_.empty()) return false;
    ++choices_.back();
    return true;
  }

 private:
  std::vector<std::size_t> choices_, limits_;
  std::size_t position_ = 0;
};

struct Equation {
  IndexId pattern, term;
};

class Matcher {
 public:
  Matcher(TermPool& pool, std::vector<Equation>& equations, std::vector<Equation>& guard_equations, Odometer& odometer, bool rename, bool parts)
      : pool_(pool), equations_(equations), guard_equations_(guard_equations), odometer_(odometer), rename_(rename), parts_(parts) {}

  bool match(TermId p, TermId t) {
    if (p == t) {
      // The same term on both sides still says what its pattern variables are only if it has some; it has none
      // when it is shared with the plan side.
      return true;
    }
    const TermNode& a = pool_.node(p);
    const TermNode& b = pool_.node(t);
    if (a.skeleton != b.skeleton) return false;
    if (a.kind != b.kind) {  // equal but for a sign: x and 1 * x^-1
      const TermId x = only_factor(p), y = only_factor(t);
      return (x != p || y != t) && match(x, y);
    }
    switch (a.kind) {
      case TermKind::poly: return match_poly(a, b);
      case TermKind::access:
        if (a.tensor != b.tensor) return false;
        for (std::size_t i = 0; i < a.indices.size(); ++i) equations_.push_back({a.indices[i], b.indices[i]});
        return true;
      case TermKind::apply: return match_apply(a, b);
      case TermKind::reduce:
        if (a.reduction != b.reduction) return false;
        if (extents(a.bound) == extents(b.bound)) return match(a.body, rename_ ? renamed(a, b) : b.body);
        // A sum over a part of a range is the commonest near miss; under guards the rest may be masked.
        // Not those whose guards show, running sums: one up to a rank's first place would become an element of the whole.
        if (!parts_ || a.bound.size() != b.bound.size() || (a.reduction == Reduction::sum && is_guarded(a.body))) return false;
        widened_ = true;
        if (const TermId body = widened(a, b); body.valid()) return match(a.body, body);
        return false;
      case TermKind::range: match_range(a, b); return true;
      case TermKind::index_value:
        equations_.push_back({a.form, mixes_signs(a.form) || mixes_signs(b.form) ? pool_.index_scale(b.form, odometer_.pick(2) == 0 ? 1 : -1) : b.form});
        return true;
    }
    return false;
  }

  // Whether some sum of the term runs over a part of the pattern's range only.
  bool is_widened() const { return widened_; }

 private:
  using Keyed = std::vector<std::pair<std::uint64_t, std::size_t>>;

  std::vector<std::int64_t> extents(const std::vector<VarId>& vars) const {
    std::vector<std::int64_t> result;
    for (VarId v : vars) result.push_back(pool_.var(v).extent);
    std::sort(result.begin(), result.end());
    return result;
  }

  // The body of the term's sum with its variables named after the pattern's, one choice of the odometer for each way to do
  // so. What stands beside a variable in an index decides the order of variables of one extent in a normal form.
  TermId renamed(const TermNode& pattern, const TermNode& term) {
    std::vector<std::vector<std::size_t>> ways;
    std::vector<std::size_t> order(term.bound.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    do {
      bool fits = true;
      for (std::size_t i = 0; i < order.size() && fits; ++i) fits = pool_.var(term.bound[i]).extent == pool_.var(pattern.bound[order[i]]).extent;
      if (fits) ways.push_back(order);
    } while (ways.size() < kMaxRenamings && std::next_permutation(order.begin(), order.end()));
    const std::vector<std::size_t>& chosen = ways[odometer_.pick(ways.size())];
    Substitution names(true);
    for (std::size_t i = 0; i < chosen.size(); ++i) names.set(term.bound[i], pool_.index_var(pattern.bound[chosen[i]]));
    return pool_.substitute(term.body, names);
  }

  bool is_guarded(TermId body) const {
    for (const Monomial& m : pool_.monomials_of(body))
      for (const Factor& f : m.factors)
        if (pool_.is_guard(f.term)) return true;
    return false;
  }

  // The body of the term's sum over a part of the pattern's range, read over all of it: one variable is shorter, and may
  // count from another place.
  TermId widened(const TermNode& pattern, const TermNode& term) {
    std::vector<std::pair<std::size_t, std::size_t>> ways;  // the variable that is longer, and its part
    for (std::size_t p = 0; p < pattern.bound.size(); ++p)
      for (std::size_t q = 0; q < term.bound.size(); ++q) {
        bool fits = pool_.var(pattern.bound[p]).extent > pool_.var(term.bound[q]).extent;
        for (std::size_t i = 0, j = 0; fits && i < pattern.bound.size(); ++i) {
          if (i == p) continue;
          if (j == q) ++j;
          fits = pool_.var(pattern.bound[i]).extent == pool_.var(term.bound[j++]).extent;
        }
        if (fits) ways.emplace_back(p, q);
      }
    if (ways.empty()) return {};
    const auto [p, q] = ways[odometer_.pick(ways.size())];
    const std::vector<std::int64_t> starts = offsets(term.body, term.bound[q]);
    Substitution names;
    for (std::size_t i = 0, j = 0; i < pattern.bound.size(); ++i) {
      if (i == p) continue;
      if (j == q) ++j;
      names.set(term.bound[j++], pool_.index_var(pattern.bound[i]));
    }
    names.set(term.bound[q], pool_.index_scale(pool_.index_var(pattern.bound[p]), 1, -starts[odometer_.pick(starts.size())]));
    return pool_.substitute(term.body, names);
  }

  // What is added to the variable in indices, and 0.
  std::vector<std::int64_t> offsets(TermId term, VarId v) const {
    std::vector<std::int64_t> found{0};
    const std::function<void(TermId)> visit = [&](TermId t) {
      const TermNode& n = pool_.node(t);
      if (!pool_.contains(n.free, v)) return;
      for (IndexId e : n.indices)
        for (const auto& [a, k] : pool_.index(e).terms)
          if (pool_.atom(a).kind == AtomKind::variable && pool_.atom(a).var == v && pool_.index(e).constant % k == 0)
            found.push_back(pool_.index(e).constant / k);
      for (const Monomial& m : n.monomials)
        for (const Factor& f : m.factors) visit(f.term);
      for (TermId a : n.arguments) visit(a);
      if (n.kind == TermKind::reduce) visit(n.body);
    };
    visit(term);
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  bool pair_up(const Keyed& left, const Keyed& right, const std::function<bool(std::size_t, std::size_t)>& go) {
    if (left.size() != right.size()) return false;
    std::vector<bool> used(right.size());
    for (const auto& [key, i] : left) {
      std::vector<std::size_t> candidates;
      for (std::size_t j = 0; j < right.size(); ++j)
        if (!used[j] && right[j].first == key) candidates.push_back(j);
      if (candidates.empty()) return false;
      const std::size_t chosen = candidates[odometer_.pick(candidates.size())];
      used[chosen] = true;
      if (!go(i, right[chosen].second)) return false;
    }
    return true;
  }

  TermId only_factor(TermId t) const {
    const std::vector<Monomial>& monomials = pool_.node(t).monomials;
    return monomials.size() == 1 && monomials[0].factors.size() == 1 ? monomials[0].factors[0].term : t;
  }

  // Such a number may stand in either orientation.
  bool mixes_signs(IndexId e) const {
    for (const auto& [a, k] : pool_.index(e).terms)
      if (k < 0) return true;
    return false;
  }

  bool match_poly(const TermNode& a, const TermNode& b) {
    Keyed left, right;
    for (std::size_t i = 0; i < a.monomials.size(); ++i) left.emplace_back(pool_.skeleton_of(a.monomials[i]), i);
    for (std::size_t i = 0; i < b.monomials.size(); ++i) right.emplace_back(pool_.skeleton_of(b.monomials[i]), i);
    return pair_up(left, right, [&](std::size_t i, std::size_t j) {
      const std::vector<Factor>& x = a.monomials[i].factors;
      const std::vector<Factor>& y = b.monomials[j].factors;
      Keyed fx, fy;
      for (std::size_t k = 0; k < x.size(); ++k) fx.emplace_back(pool_.skeleton_of(x[k]), k);
      for (std::size_t k = 0; k < y.size(); ++k) fy.emplace_back(pool_.skeleton_of(y[k]), k);
      return pair_up(fx, fy, [&](std::size_t k, std::size_t l) { return match(x[k].term, y[l].term); });
    });
  }

  bool match_apply(const TermNode& a, const TermNode& b) {
    if (a.function != b.function || a.arguments.size() != b.arguments.size()) return false;
    if (a.function != Function::max) {
      for (std::size_t i = 0; i < a.arguments.size(); ++i)
        if (!match(a.arguments[i], b.arguments[i])) return false;
      return true;
    }
    Keyed left, right;
    for (std::size_t i = 0; i < a.arguments.size(); ++i) left.emplace_back(pool_.node(a.arguments[i]).skeleton, i);
    for (std::size_t i = 0; i < b.arguments.size(); ++i) right.emplace_back(pool_.node(b.arguments[i]).skeleton, i);
    return pair_up(left, right, [&](std::size_t i, std::size_t j) { return match(a.arguments[i], b.arguments[j]); });
  }

  // Guards are matched last and only help: forms up to sign, offset by the difference of the bounds.
  void match_range(const TermNode& a, const TermNode& b) {
    const bool a_lo = a.lo != -kUnbounded, a_hi = a.hi != kUnbounded;
    bool b_lo = b.lo != -kUnbounded, b_hi = b.hi != kUnbounded;
    IndexId form = b.form;
    std::int64_t lo = b.lo, hi = b.hi;
    const bool two_sided = a_lo && a_hi && b_lo && b_hi;
    // An equality of the pattern may show as w consecutive values of w*x + r: x = (hi - r) div w.
    if (two_sided && a.lo == a.hi && b.hi > b.lo) {
      const std::int64_t w = b.hi - b.lo + 1;
      const IndexNode n = pool_.index(b.form);
      std::vector<LinearTerm> whole, rest;
      for (const auto& [t, k] : n.terms) {
        if (k % w == 0) whole.emplace_back(t, k / w);
        else rest.emplace_back(t, k);
      }
      const IndexId digit = pool_.index_div(pool_.index_linear(pool_.index_normal(n.constant, std::move(rest)), -1, pool_.index_constant(b.hi), 1), w);
      form = pool_.index_sub(pool_.index_normal(0, std::move(whole)), digit);
      lo = hi = 0;
      guard_equations_.push_back({a.form, pool_.index_scale(form, flips(a.form, form) ? -1 : 1, a.lo)});
      return;
    }
    if (two_sided ? flips(a.form, b.form) : a_lo != b_lo) {
      form = pool_.index_scale(form, -1);
      std::swap(lo, hi);
      std::swap(b_lo, b_hi);
      if (b_lo) lo = -lo;
      if (b_hi) hi = -hi;
    }
    if (a_lo && b_lo) guard_equations_.push_back({a.form, pool_.index_scale(form, 1, a.lo - lo)});
    else if (a_hi && b_hi) guard_equations_.push_back({a.form, pool_.index_scale(form, 1, a.hi - hi)});
  }

  // Whether a two-sided guard matches with the opposite sign: decided by integer tensors that both mention.
  bool flips(IndexId pattern, IndexId term) {
    for (const auto& [a, ka] : pool_.index(pattern).terms)
      for (const auto& [b, kb] : pool_.index(term).terms)
        if (pool_.atom(a).kind == AtomKind::load && pool_.atom(b).kind == AtomKind::load && pool_.atom(a).tensor == pool_.atom(b).tensor)
          return (ka > 0) != (kb > 0);
    return odometer_.pick(2) == 1;
  }

  TermPool& pool_;
  std::vector<Equation>& equations_;
  std::vector<Equation>& guard_equations_;
  Odometer& odometer_;
  bool rename_;
  bool parts_;  // sums may run over a part of the pattern's range
  bool widened_ = false;
};

class Solver {
 public:
  Solver(TermPool& pool, const std::vector<std::int64_t>& shape, const std::vector<TermId>& guards, std::vector<Equation> equations,
         Odometer& odometer)
      : pool_(pool), shape_(shape), guards_(guards), equations_(std::move(equations)), odometer_(odometer), done_(equations_.size()),
        solution_(shape.size()) {
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (shape[d] == 1) solution_[d] = pool.index_constant(0);
  }

  const std::vector<IndexId>& solve() {
    open_loads();
    done_.assign(equations_.size(), false);
    while (linear_step() || pair_step() || digit_step() || remainder_step()) {
    }
    return solution_;
  }

  // A number below `base` that only guards say: a digit that one of them fixes, or any. Moduli whose highest digit it is come
  // first, then narrow guards.
  IndexId remainder(std::int64_t base) {
    std::vector<std::tuple<bool, std::int64_t, TermId>> digits;
    for (TermId g : guards_) {
      if (!pool_.is_guard(g)) continue;  // decided
      const TermNode& guard = pool_.node(g);
      const std::int64_t lo = std::max(guard.lo, pool_.index(guard.form).lo), hi = std::min(guard.hi, pool_.index(guard.form).hi);
      if (lo > hi || lo <= -kWidest || hi >= kWidest) continue;
      const IndexNode& form = pool_.index(guard.form);
      const bool highest = form.terms.size() == 1 && pool_.atom(form.terms[0].first).kind == AtomKind::modulo && form.hi + 1 == base * (hi - lo + 1);
      digits.emplace_back(!highest, hi - lo + 1, g);
    }
    std::sort(digits.begin(), digits.end());
    std::vector<IndexId> result;
    for (const auto& [other, width, g] : digits) {
      const TermNode guard = pool_.node(g);
      const std::int64_t lo = std::max(guard.lo, pool_.index(guard.form).lo);
      for (std::int64_t r = 0; r < base; ++r) result.push_back(pool_.index_div(pool_.index_scale(guard.form, 1, r * width - lo), width));
    }
    for (std::int64_t r = 0; r < base; ++r) result.push_back(pool_.index_constant(r));
    return result[odometer_.pick(result.size())];
  }

 private:
  bool has_bound_variable(IndexId e) const {
    for (VarId v : pool_.members(pool_.index(e).free))
      if (pool_.var(v).kind == VarKind::bound) return true;
    return false;
  }

  std::optional<std::size_t> dimension_of(VarId v) const {
    for (std::size_t d = 0; d < shape_.size(); ++d)
      if (shape_[d] > 1 && pool_.pattern(d, shape_[d]) == v) return d;
    return std::nullopt;
  }

  IndexId substitute_solved(IndexId pattern) {
    Substitution s;
    for (std::size_t d = 0; d < shape_.size(); ++d)
      if (solution_[d].valid() && shape_[d] > 1) s.set(pool_.pattern(d, shape_[d]), solution_[d]);
    return pool_.substitute_index(pattern, s);
  }

  std::vector<std::size_t> unsolved_in(IndexId pattern) const {
    std::vector<std::size_t> dims;
    for (VarId v : pool_.members(pool_.index(pattern).free)) {
      if (pool_.var(v).kind != VarKind::pattern) continue;
      const auto d = dimension_of(v);
      if (d && !solution_[*d].valid()) dims.push_back(*d);
    }
    return dims;
  }

  // Loads of one tensor on both sides: their indices agree.
  void open_loads() {
    for (std::size_t i = 0; i < equations_.size(); ++i) {
      const IndexNode p = pool_.index(equations_[i].pattern);
      const IndexNode t = pool_.index(equations_[i].term);
      for (const auto& [a, ka] : p.terms) {
        if (pool_.atom(a).kind != AtomKind::load) continue;
        for (const auto& [b, kb] : t.terms) {
          if (pool_.atom(b).kind != AtomKind::load || pool_.atom(a).tensor != pool_.atom(b).tensor || ka != kb) continue;
          const std::vector<IndexId> x = pool_.atom(a).indices, y = pool_.atom(b).indices;
          for (std::size_t k = 0; k < x.size(); ++k) equations_.push_back({x[k], y[k]});
          if (p.terms.size() > 1 || p.constant != t.constant)
            equations_.push_back({pool_.index_linear(equations_[i].pattern, 1, pool_.index_load(pool_.atom(a).tensor, x), -ka),
                                  pool_.index_linear(equations_[i].term, 1, pool_.index_load(pool_.atom(b).tensor, y), -kb)});
          break;
        }
      }
      if (equations_.size() > 256) return;
    }
  }

  // One unsolved variable with a linear occurrence: k*y + rest = n.
  bool linear_step() {
    for (std::size_t i = 0; i < equations_.size(); ++i) {
      if (done_[i]) continue;
      const IndexId p = substitute_solved(equations_[i].pattern);
      const std::vector<std::size_t> open = unsolved_in(p);
      if (open.empty()) {
        done_[i] = true;
        continue;
      }
      if (open.size() != 1) continue;
      const std::size_t d = open[0];
      const VarId v = pool_.pattern(d, shape_[d]);
      std::int64_t k = 0;
      std::vector<LinearTerm> others;
      for (const auto& [a, ka] : pool_.index(p).terms) {
        if (pool_.atom(a).kind == AtomKind::variable && pool_.atom(a).var == v) k = ka;
        else others.emplace_back(a, ka);
      }
      if (k == 0) continue;
      const IndexId rest = pool_.index_normal(pool_.index(p).constant, std::move(others));
      if (pool_.contains(pool_.index(rest).free, v)) continue;
      const IndexId difference = pool_.index_sub(equations_[i].term, rest);
      if (has_bound_variable(difference)) continue;
      if (k == 1 || k == -1) {
        solution_[d] = pool_.index_scale(difference, k);
      } else {
        const IndexNode node = pool_.index(difference);
        bool divisible = node.constant % k == 0;
        for (const auto& [a, ka] : node.terms) divisible = divisible && ka % k == 0;
        if (!divisible) continue;
        std::vector<LinearTerm> quotient = node.terms;
        for (auto& [a, ka] : quotient) ka /= k;
        solution_[d] = pool_.index_normal(node.constant / k, std::move(quotient));
      }
      done_[i] = true;
      return true;
    }
    return false;
  }

  // y from its digits: value(e) = c * value(e div c) + value(e mod c).
  std::optional<IndexId> value_of(IndexId e, int depth) {
    for (const Equation& q : equations_) {
      const IndexNode p = pool_.index(q.pattern);
      if (p.terms == pool_.index(e).terms && !p.terms.empty() && !has_bound_variable(q.term))
        return pool_.index_scale(q.term, 1, pool_.index(e).constant - p.constant);
    }
    if (depth > 4) return std::nullopt;
    for (const Equation& q : equations_) {
      const IndexNode p = pool_.index(q.pattern);
      if (p.terms.size() != 1 || p.terms[0].second != 1 || has_bound_variable(q.term)) continue;
      const IndexAtom at = pool_.atom(p.terms[0].first);
      if (at.kind != AtomKind::modulo || at.inner != e) continue;
      if (const auto high = value_of(pool_.index_div(e, at.divisor), depth + 1)) return pool_.index_linear(*high, at.divisor, q.term, 1, -p.constant);
    }
    return std::nullopt;
  }

  bool pair_step() {
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      if (solution_[d].valid()) continue;
      if (const auto value = value_of(pool_.index_var(pool_.pattern(d, shape_[d])), 0)) {
        solution_[d] = *value;
        return true;
      }
    }
    return false;
  }

  // S*y1 + y2 with 0 <= y2 < S: the variable with the largest coefficient is the quotient.
  bool digit_step() {
    for (std::size_t i = 0; i < equations_.size(); ++i) {
      if (done_[i]) continue;
      const IndexId p = substitute_solved(equations_[i].pattern);
      std::int64_t largest = 1;
      std::optional<std::size_t> who;
      for (const auto& [a, k] : pool_.index(p).terms) {
        if (pool_.atom(a).kind != AtomKind::variable || k <= largest) continue;
        const auto d = dimension_of(pool_.atom(a).var);
        if (d && !solution_[*d].valid()) {
          largest = k;
          who = d;
        }
      }
      if (!who || has_bound_variable(equations_[i].term)) continue;
      solution_[*who] = pool_.index_div(pool_.index_scale(equations_[i].term, 1, -pool_.index(p).constant), largest);
      return true;
    }
    return false;
  }

  // y of which only the quotient by a small c is known: a piece of a definition whose other digit has one value.
  bool remainder_step() {
    for (const Equation& q : equations_) {
      const IndexNode p = pool_.index(substitute_solved(q.pattern));
      if (p.terms.size() != 1 || p.terms[0].second != 1 || has_bound_variable(q.term)) continue;
      const IndexAtom at = pool_.atom(p.terms[0].first);
      if (at.kind != AtomKind::floor_div || at.divisor > kMostRemainders) continue;
      for (std::size_t d = 0; d < shape_.size(); ++d) {
        if (solution_[d].valid() || at.inner != pool_.index_var(pool_.pattern(d, shape_[d]))) continue;
        solution_[d] = pool_.index_linear(q.term, at.divisor, remainder(at.divisor), 1, -p.constant * at.divisor);
        return true;
      }
    }
    return false;
  }

  TermPool& pool_;
  const std::vector<std::int64_t>& shape_;
  const std::vector<TermId>& guards_;
  std::vector<Equation> equations_;
  Odometer& odometer_;
  std::vector<bool> done_;
  std::vector<IndexId> solution_;
};

// Whether variables of a sum may have been taken for each other. Sums over many are left alone: the ways to name them are too many.
bool repeats_extents(const TermPool& pool, TermId pattern) {
  std::vector<std::int64_t> extents;
  for (VarId v : pool.node(pattern).bound) extents.push_back(pool.var(v).extent);
  std::sort(extents.begin(), extents.end());
  return extents.size() <= kMaxRenamed && std::adjacent_find(extents.begin(), extents.end()) != extents.end();
}

}  // namespace

bool propose_instances(TermPool& pool, const Variant& variant, TermId term, const std::vector<TermId>& guards, int max_tries,
                       const std::function<bool(const std::vector<IndexId>&)>& accept) {
  const std::vector<std::int64_t> shape = pool.tensor(variant.tensor).shape;
  enum class Mention { none, guard, key };
  std::vector<Mention> mentions(shape.size(), Mention::none);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const VarId v = pool.pattern(d, shape[d]);
    if (pool.contains(pool.node(variant.key).free, v)) mentions[d] = Mention::key;
    else if (shape[d] <= kMostRemainders && pool.contains(pool.node(variant.pattern).free, v)) mentions[d] = Mention::guard;
  }
  int tries = 0;
  const auto search = [&](bool rename) {
    Odometer odometer;
    do {
      odometer.restart();
      std::vector<Equation> equations, guard_equations;
      Matcher matcher(pool, equations, guard_equations, odometer, rename, !guards.empty());
      if (!matcher.match(variant.key, term)) continue;
      equations.insert(equations.end(), guard_equations.begin(), guard_equations.end());
      Solver solver(pool, shape, guards, std::move(equations), odometer);
      std::vector<IndexId> solution = solver.solve();
      bool complete = true;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if (mentions[d] == Mention::none) solution[d] = pool.index_constant(0);
        if (mentions[d] == Mention::guard) solution[d] = solver.remainder(shape[d]);
        complete = complete && solution[d].valid();
      }
      // An instance mentions what its indices mention: a sum over the ranks' parts is not yet that over all of them.
      if (complete && matcher.is_widened()) {
        VarSetId mentioned{0};
        for (IndexId e : solution) mentioned = pool.union_of(mentioned, pool.index(e).free);
        for (VarId v : pool.members(pool.node(term).free)) complete = complete && pool.contains(mentioned, v);
      }
      if (complete && accept(solution)) return true;
    } while (++tries < max_tries && odometer.advance());
    return false;
  };
  return search(false) || (repeats_extents(pool, variant.key) && search(true));
}

}  // namespace shardproof::solvers

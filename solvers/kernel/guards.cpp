// Range guards [lo <= e <= hi], valued 0 or 1: the one form in which all case distinctions are kept.
//
// Canonical form: e has no constant, coefficients with greatest common divisor 1 and the first one positive;
// bounds that the variables' extents already imply are dropped; a guard that is always true is 1, never
// true 0. Floor divisions with unit coefficient are undone (S*lo <= r + S*q instead of lo <= r div S + q), and
// e is divided by S when the low digit cannot matter. All steps are equivalences over the integers.
#include <algorithm>
#include <numeric>

#include "ir/check.h"
#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {

using ir::ceil_div;
using ir::checked_add;
using ir::checked_mul;
using ir::floor_div;

namespace {

bool bounded(std::int64_t x) { return x != kUnbounded && x != -kUnbounded; }

std::int64_t shift(std::int64_t bound, std::int64_t by) { return bounded(bound) ? checked_add(bound, by) : bound; }

}  // namespace

TermId TermPool::raw_range(IndexId form, std::int64_t lo, std::int64_t hi) {
  TermNode node;
  node.kind = TermKind::range;
  node.form = form;
  node.lo = lo;
  node.hi = hi;
  return intern(std::move(node));
}

TermId TermPool::range(IndexId e, std::int64_t lo, std::int64_t hi) {
  for (int step = 0; step < 64; ++step) {
    // Constant to the bounds; decide or clip by the interval of e.
    if (const std::int64_t c = index(e).constant; c != 0) {
      e = index_scale(e, 1, -c);
      lo = shift(lo, -c);
      hi = shift(hi, -c);
    }
    const IndexNode node = index(e);
    if (lo != -kUnbounded && lo <= node.lo) lo = -kUnbounded;
    if (hi != kUnbounded && hi >= node.hi) hi = kUnbounded;
    if (lo == -kUnbounded && hi == kUnbounded) return one_;
    if (lo > hi || (lo != -kUnbounded && lo > node.hi) || (hi != kUnbounded && hi < node.lo)) return zero_;
    // Content and sign.
    std::int64_t content = 0;
    for (const auto& [a, k] : node.terms) content = std::gcd(content, k);
    if (node.terms[0].second < 0) content = -content;
    if (content != 1) {
      std::vector<LinearTerm> terms = node.terms;
      for (auto& [a, k] : terms) k /= content;
      if (content < 0) {
        const std::int64_t positive = -content;
        const std::int64_t new_lo = hi == kUnbounded ? -kUnbounded : ceil_div(-hi, positive);
        hi = lo == -kUnbounded ? kUnbounded : floor_div(-lo, positive);
        lo = new_lo;
      } else {
        lo = bounded(lo) ? ceil_div(lo, content) : lo;
        hi = bounded(hi) ? floor_div(hi, content) : hi;
      }
      e = index_normal(0, std::move(terms));
      continue;
    }
    // A floor division with unit coefficient is undone: lo <= r div S + q <=> S*lo <= r + S*q, and
    // r div S + q <= hi <=> r + S*q <= S*hi + S-1. So is one under a modulus: (x + y div S) mod m is r div S for
    // r = (S*x + y) mod S*m.
    AtomId division;
    bool negative = false;
    std::pair<IndexId, std::int64_t> undone;  // r, S
    for (const auto& [a, ka] : node.terms) {
      if (division.valid() || (ka != 1 && ka != -1)) continue;
      const IndexAtom at = atom(a);
      const auto digit = at.kind == AtomKind::modulo ? digit_of(at) : std::nullopt;
      if (at.kind != AtomKind::floor_div && !digit) continue;
      division = a;
      negative = ka < 0;
      undone = digit ? *digit : std::pair(at.inner, at.divisor);
    }
    if (division.valid()) {
      const std::int64_t s = undone.second;
      std::vector<LinearTerm> others = node.terms;
      for (auto& [a, ka] : others)
        if (a == division) ka = 0;
      IndexId q = index_normal(0, std::move(others));
      if (negative) {  // use -e, in which the division has coefficient +1
        q = index_scale(q, -1);
        const std::int64_t new_lo = hi == kUnbounded ? -kUnbounded : -hi;
        hi = lo == -kUnbounded ? kUnbounded : -lo;
        lo = new_lo;
      }
      e = index_linear(undone.first, 1, q, s);
      if (bounded(lo)) lo = checked_mul(lo, s);
      if (bounded(hi)) hi = checked_add(checked_mul(hi, s), s - 1);
      continue;
    }
    // Digit split: e = S*high + low with the low digit in [0, S), for e or for -e, and bounds on digit borders:
    // S*a <= e <=> a <= high;  e <= S*b + S-1 <=> high <= b.
    std::vector<std::int64_t> candidates;
    for (const auto& [a, k] : node.terms)
      if (k > 1 || k < -1) candidates.push_back(k < 0 ? -k : k);
    std::sort(candidates.rbegin(), candidates.rend());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    bool changed = false;
    for (std::int64_t s : candidates) {
      std::vector<LinearTerm> high_terms, low_terms;
      for (const auto& [a, k] : node.terms) {
        if (k % s == 0) high_terms.emplace_back(a, k / s);
        else low_terms.emplace_back(a, k);
      }
      const IndexId low = index_normal(0, low_terms);
      if (index(low).lo >= 0 && index(low).hi < s && (lo == -kUnbounded || lo % s == 0) &&
          (hi == kUnbounded || checked_add(hi, 1) % s == 0)) {
        e = index_normal(0, high_terms);
        if (bounded(lo)) lo = floor_div(lo, s);
        if (bounded(hi)) hi = floor_div(checked_add(hi, 1), s) - 1;
        changed = true;
        break;
      }
      if (index(low).hi <= 0 && index(low).lo > -s && (hi == kUnbounded || hi % s == 0) &&
          (lo == -kUnbounded || checked_add(lo, -1) % s == 0)) {
        e = index_normal(0, high_terms);
        if (bounded(lo)) lo = floor_div(checked_add(lo, -1), s) + 1;
        if (bounded(hi)) hi = floor_div(hi, s);
        changed = true;
        break;
      }
    }
    if (changed) continue;
    return raw_range(e, lo, hi);
  }
  return raw_range(e, lo, hi);
}

// 1 - condition for a sum of guard products whose value is 0 or 1. Cases spell the complement as ranges.
TermId TermPool::complement(TermId condition) {
  return by_cases({condition}, [this](const std::vector<TermId>& c) { return sub(one_, c[0]); });
}

// Case split. Guards are collected from the arguments' top level; for one linear form at a time the integer
// line is cut at every bound that occurs, and on each piece every guard on that form is 0 or 1.
TermId TermPool::by_cases(const std::vector<TermId>& arguments,
                          const std::function<TermId(const std::vector<TermId>&)>& f) {
  return by_cases_under(arguments, {}, [&](const std::vector<TermId>& pieces, const std::vector<TermId>&) { return f(pieces); });
}

std::optional<IndexId> TermPool::guard_form(TermId term) const {
  const TermNode& n = node(term);
  if (n.kind == TermKind::range) return n.form;
  for (const Monomial& m : n.monomials)
    for (const Factor& f : m.factors)
      if (node(f.term).kind == TermKind::range) return node(f.term).form;
  return std::nullopt;
}

std::vector<TermPool::Case> TermPool::cases_on(IndexId form, const std::vector<TermId>& terms) {
  std::vector<std::int64_t> starts;  // first point of each piece after the first
  std::vector<std::vector<Monomial>> parts;
  for (TermId term : terms) {
    parts.push_back(monomials_of(term));
    for (const Monomial& m : parts.back())
      for (const Factor& factor : m.factors) {
        const TermNode& g = node(factor.term);
        if (g.kind != TermKind::range || g.form != form) continue;
        if (g.lo != -kUnbounded) starts.push_back(g.lo);
        if (g.hi != kUnbounded) starts.push_back(g.hi + 1);
      }
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  std::vector<Case> cases;
  for (std::size_t i = 0; i <= starts.size(); ++i) {
    const std::int64_t lo = i == 0 ? -kUnbounded : starts[i - 1];
    const std::int64_t hi = i == starts.size() ? kUnbounded : starts[i] - 1;
    Case piece{range(form, lo, hi), {}};
    if (piece.guard == zero_) continue;
    for (const auto& part : parts) {
      std::vector<Monomial> kept;
      for (const Monomial& m : part) {
        const auto on_form = [&](const Factor& f) { return node(f.term).kind == TermKind::range && node(f.term).form == form; };
        const bool alive = std::all_of(m.factors.begin(), m.factors.end(), [&](const Factor& f) {
          return !on_form(f) || (node(f.term).lo <= lo && hi <= node(f.term).hi);
        });
        if (!alive) continue;
        Monomial copy{m.coefficient, {}};
        for (const Factor& f : m.factors)
          if (!on_form(f)) copy.factors.push_back(f);
        kept.push_back(std::move(copy));
      }
      piece.terms.push_back(poly(std::move(kept)));
    }
    cases.push_back(std::move(piece));
  }
  return cases;
}

TermId TermPool::by_cases_under(const std::vector<TermId>& arguments, std::vector<TermId> guards, const GuardedCase& f) {
  std::optional<IndexId> form;
  for (TermId argument : arguments) {
    form = guard_form(argument);
    if (form) break;
  }
  if (!form) return f(arguments, guards);
  std::vector<TermId> pieces;
  for (const Case& piece : cases_on(*form, arguments)) {
    // A range of the form may be written as one of another, and exclude a guard there: no points, so nothing to add.
    const auto excluded = [&](TermId guard) {
      const TermNode& a = node(guard);
      const TermNode& b = node(piece.guard);
      return b.kind == TermKind::range && a.form == b.form && (a.hi < b.lo || b.hi < a.lo);
    };
    if (std::any_of(guards.begin(), guards.end(), excluded)) continue;
    std::vector<TermId> inner = guards;
    if (piece.guard != one_) inner.push_back(piece.guard);
    pieces.push_back(mul(piece.guard, by_cases_under(piece.terms, std::move(inner), f)));
  }
  return sum(pieces);
}

std::pair<std::int64_t, std::int64_t> TermPool::bounds_under(IndexId e, const std::vector<TermId>& guards) {
  return bounds_under(e, guards, 0);
}

// For (x + y div c) mod m: the index (c*x + y) mod (c*m), and c. Law: x + y div c = (c*x + y) div c, so that
// (x + y div c) mod m = ((c*x + y) mod c*m) div c.
std::optional<std::pair<IndexId, std::int64_t>> TermPool::digit_of(const IndexAtom& modulus) {
  const IndexNode inner = index(modulus.inner);
  for (const auto& [a, k] : inner.terms) {
    const IndexAtom division = atom(a);
    if (k != 1 || division.kind != AtomKind::floor_div) continue;
    const std::int64_t c = division.divisor;
    const IndexId x = index_linear(modulus.inner, 1, intern_index(0, {{a, 1}}), -1);
    return std::pair(index_mod(index_linear(x, c, division.inner, 1), checked_mul(c, modulus.divisor)), c);
  }
  return std::nullopt;
}

// Bounds of e mod c by a guard lo <= f mod C <= hi with c | C and f = e modulo c: (f mod C) mod c = e mod c, which is
// (f mod C) - c*q if both ends have the quotient q.
std::pair<std::int64_t, std::int64_t> TermPool::modulus_under(const IndexAtom& modulus, const std::vector<TermId>& guards) {
  std::int64_t lo = modulus.lo, hi = modulus.hi;
  for (TermId g : guards) {
    const TermNode& guard = node(g);
    if (guard.kind != TermKind::range || index(guard.form).terms.size() != 1) continue;
    const IndexAtom larger = atom(index(guard.form).terms[0].first);
    const std::int64_t c = modulus.divisor;
    if (larger.kind != AtomKind::modulo || larger.divisor == c || larger.divisor % c != 0) continue;
    const std::int64_t from = std::max(guard.lo, larger.lo), to = std::min(guard.hi, larger.hi);
    const std::int64_t q = floor_div(from, c);
    if (q != floor_div(to, c) || index_mod(index_sub(larger.inner, modulus.inner), c) != index_constant(0)) continue;
    lo = std::max(lo, from - c * q);
    hi = std::min(hi, to - c * q);
  }
  return {lo, hi};
}

// Divisions and moduli are bounded through what they contain: e in [lo, hi] gives e div c in [lo div c, hi div c],
// and e mod c = e - c*q if both ends have the quotient q.
std::pair<std::int64_t, std::int64_t> TermPool::bounds_under(IndexId e, const std::vector<TermId>& guards, int nesting) {
  std::int64_t lo = index(e).lo, hi = index(e).hi;
  if (nesting < 3) {
    const IndexNode node_copy = index(e);
    std::int64_t sum_lo = node_copy.constant, sum_hi = node_copy.constant;
    bool tightened = false;
    for (const auto& [a, k] : node_copy.terms) {
      const IndexAtom at = atom(a);
      std::int64_t atom_lo = at.lo, atom_hi = at.hi;
      if (at.kind == AtomKind::floor_div || at.kind == AtomKind::modulo) {
        if (at.kind == AtomKind::modulo) {
          std::tie(atom_lo, atom_hi) = modulus_under(at, guards);
          tightened = tightened || atom_lo > at.lo || atom_hi < at.hi;
        }
        if (const auto digit = at.kind == AtomKind::modulo ? digit_of(at) : std::nullopt) {
          // (y div c + k) mod m = ((y + k*c) mod c*m) div c, which a guard on the larger modulus bounds.
          const auto [digit_lo, digit_hi] = bounds_under(digit->first, guards, nesting + 1);
          atom_lo = std::max(atom_lo, floor_div(digit_lo, digit->second));
          atom_hi = std::min(atom_hi, floor_div(digit_hi, digit->second));
          tightened = true;
        }
        const auto [inner_lo, inner_hi] = bounds_under(at.inner, guards, nesting + 1);
        const std::int64_t q_lo = floor_div(inner_lo, at.divisor), q_hi = floor_div(inner_hi, at.divisor);
        if (at.kind == AtomKind::floor_div) {
          atom_lo = std::max(atom_lo, q_lo);
          atom_hi = std::min(atom_hi, q_hi);
          tightened = true;
        } else if (q_lo == q_hi) {
          atom_lo = std::max(atom_lo, checked_add(inner_lo, -checked_mul(q_lo, at.divisor)));
          atom_hi = std::min(atom_hi, checked_add(inner_hi, -checked_mul(q_lo, at.divisor)));
          tightened = true;
        }
      }
      sum_lo = checked_add(sum_lo, checked_mul(k, k > 0 ? atom_lo : atom_hi));
      sum_hi = checked_add(sum_hi, checked_mul(k, k > 0 ? atom_hi : atom_lo));
    }
    if (tightened) {
      lo = std::max(lo, sum_lo);
      hi = std::min(hi, sum_hi);
    }
  }
  // m*e = k*form + rest for a guard lo <= form <= hi gives m*e in k*[lo, hi] + [rest]. Two rounds of nesting let two
  // guards combine.
  const std::function<void(IndexId, std::int64_t, std::int64_t, std::int64_t, int, std::size_t)> tighten =
      [&](IndexId rest, std::int64_t multiple, std::int64_t add_lo, std::int64_t add_hi, int depth, std::size_t first) {
        for (std::size_t g = first; g < guards.size(); ++g) {
          const TermNode& guard = node(guards[g]);
          if (guard.kind != TermKind::range) continue;
          const std::int64_t g_lo = std::max(guard.lo, index(guard.form).lo);
          const std::int64_t g_hi = std::min(guard.hi, index(guard.form).hi);
          const IndexNode form = index(guard.form);
          const IndexNode rest_node = index(rest);
          std::vector<std::pair<std::int64_t, std::int64_t>> tried;
          for (const auto& [a, ka] : form.terms) {
            for (const auto& [b, kb] : rest_node.terms) {
              if (a != b) continue;
              const std::int64_t common = std::gcd(ka, kb);
              const std::int64_t m = (ka < 0 ? -ka : ka) / common;
              const std::int64_t k = (ka < 0 ? -kb : kb) / common;
              if ((m > 1 && depth > 0) || std::find(tried.begin(), tried.end(), std::pair(m, k)) != tried.end()) continue;
              tried.emplace_back(m, k);
              try {
                const IndexId left = index_linear(rest, m, guard.form, -k);
                const std::int64_t from = checked_add(checked_mul(add_lo, m), checked_mul(k, k > 0 ? g_lo : g_hi));
                const std::int64_t to = checked_add(checked_mul(add_hi, m), checked_mul(k, k > 0 ? g_hi : g_lo));
                const std::int64_t all = checked_mul(multiple, m);
                lo = std::max(lo, ceil_div(checked_add(from, index(left).lo), all));
                hi = std::min(hi, floor_div(checked_add(to, index(left).hi), all));
                if (depth < 1) tighten(left, all, from, to, depth + 1, g + 1);
              } catch (const std::overflow_error&) {  // a combination out of reach bounds nothing
              }
            }
          }
        }
      };
  tighten(e, 1, 0, 0, 0, 0);
  return {lo, hi};
}

}  // namespace shardproof::solvers

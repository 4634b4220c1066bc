// Unrolled sums: x[0] + x[1] + .. as one sum over the instances of one body. Proposed here, checked in merge_sums.cpp.
//
// Summands of one shape are ordered by the constants in their indices, so that neighbours differ by one step; the first
// two give the body, and each next one extends the sum: n log n for n summands. A sum over an earlier part (a loop whose
// last iteration stands outside) is extended likewise.
#include <algorithm>
#include <map>

#include "ir/check.h"
#include "solvers/fold.h"

namespace shardproof::solvers {

namespace {

constexpr std::size_t kMaxRolled = 512;  // summands

// What is the same for all instances of one body, and the constants in which they differ, in an order that they share.
struct Shape {
  std::uint64_t hash = 0;
  std::vector<std::int64_t> constants;
};

class Reader {
 public:
  explicit Reader(const TermPool& pool) : pool_(pool) {}

  Shape read(const Monomial& m) {
    constants_.clear();
    Shape shape;
    for (const Factor& f : m.factors)
      shape.hash += combine(pool_.is_guard(f.term) ? hash_int(f.term.value) : visit(f.term), hash_int(f.power));
    shape.hash = combine(combine(shape.hash, hash_int(m.coefficient.num)), hash_int(m.coefficient.den));
    std::sort(constants_.begin(), constants_.end());
    for (const auto& [unused, c] : constants_) shape.constants.push_back(c);
    return shape;
  }

 private:
  // Reductions count as what they contain: a part that is a sum already has one more.
  std::uint64_t visit(TermId t) {
    const TermNode& n = pool_.node(t);
    std::uint64_t hash = 0;
    switch (n.kind) {
      case TermKind::poly: {
        for (const Monomial& m : n.monomials) {
          std::uint64_t product = combine(hash_int(m.coefficient.num), hash_int(m.coefficient.den));
          for (const Factor& f : m.factors) product += combine(visit(f.term), hash_int(f.power));
          hash += mix(product);
        }
        return n.monomials.size() == 1 && n.monomials[0].factors.size() == 1 ? hash : mix(hash);
      }
      case TermKind::access:
        for (std::size_t d = 0; d < n.indices.size(); ++d) read_index(n.indices[d], {n.tensor.value, static_cast<std::int64_t>(d)});
        return combine(1, hash_int(n.tensor.value));
      case TermKind::apply:
        for (TermId a : n.arguments) hash += visit(a);
        return combine(combine(2, static_cast<std::uint64_t>(n.function)), hash);
      case TermKind::reduce: {
        const std::vector<Monomial> body = pool_.monomials_of(n.body);
        if (n.reduction == Reduction::max || body.size() != 1) return combine(3, visit(n.body));
        for (const Factor& f : body[0].factors) hash += combine(visit(f.term), hash_int(f.power));
        return hash;
      }
      default: return 0;  // guards inside may come and go
    }
  }

  void read_index(IndexId e, std::pair<std::int64_t, std::int64_t> place) {
    constants_.emplace_back(place, pool_.index(e).constant);
    for (const auto& [a, unused] : pool_.index(e).terms) {
      const IndexAtom& at = pool_.atom(a);
      for (std::size_t d = 0; d < at.indices.size(); ++d) read_index(at.indices[d], {at.tensor.value, static_cast<std::int64_t>(d)});
    }
  }

  const TermPool& pool_;
  std::vector<std::pair<std::pair<std::int64_t, std::int64_t>, std::int64_t>> constants_;
};

}  // namespace

// An index that is `a` at t = 0 and `b` at t = 1.
std::optional<IndexId> Folder::between(IndexId a, IndexId b, IndexId t) {
  if (a == b) return a;
  const IndexId step = pool_.index_sub(b, a);
  if (pool_.index(step).terms.empty()) return pool_.index_linear(a, 1, t, pool_.index(step).constant);
  const IndexNode x = pool_.index(a), y = pool_.index(b);
  if (x.terms.size() != y.terms.size()) return std::nullopt;
  IndexId result = pool_.index_linear(t, ir::checked_add(y.constant, -x.constant), t, 0, x.constant);
  for (std::size_t i = 0; i < x.terms.size(); ++i) {
    const IndexAtom p = pool_.atom(x.terms[i].first), q = pool_.atom(y.terms[i].first);
    if (x.terms[i].second != y.terms[i].second) return std::nullopt;
    IndexId part = pool_.index_normal(0, {{x.terms[i].first, 1}});
    if (x.terms[i].first != y.terms[i].first) {
      if (p.kind != AtomKind::load || q.kind != AtomKind::load || p.tensor != q.tensor) return std::nullopt;
      std::vector<IndexId> indices;
      for (std::size_t d = 0; d < p.indices.size(); ++d) {
        const auto index = between(p.indices[d], q.indices[d], t);
        if (!index) return std::nullopt;
        indices.push_back(*index);
      }
      part = pool_.index_load(p.tensor, std::move(indices));
    }
    result = pool_.index_linear(result, 1, part, x.terms[i].second);
  }
  return result;
}

// A term that is `a` at t = 0 and, if the guess is good, `b` at t = 1.
std::optional<TermId> Folder::between(TermId a, TermId b, IndexId t) {
  if (a == b) return a;
  const TermNode& x = pool_.node(a);
  const TermNode& y = pool_.node(b);
  if (x.kind != y.kind || x.skeleton != y.skeleton) return std::nullopt;
  switch (x.kind) {
    case TermKind::poly: {
      if (x.monomials.size() != 1 || y.monomials.size() != 1) return std::nullopt;
      std::vector<Factor> fx = x.monomials[0].factors, fy = y.monomials[0].factors;
      const auto by_skeleton = [&](const Factor& p, const Factor& q) {
        return std::pair(pool_.skeleton_of(p), p.term) < std::pair(pool_.skeleton_of(q), q.term);
      };
      std::sort(fx.begin(), fx.end(), by_skeleton);
      std::sort(fy.begin(), fy.end(), by_skeleton);
      std::vector<Factor> factors;
      for (std::size_t i = 0; i < fx.size() && i < fy.size(); ++i) {
        const auto factor = between(fx[i].term, fy[i].term, t);
        if (!factor) return std::nullopt;
        factors.push_back({*factor, fx[i].power});
      }
      return pool_.product(factors, x.monomials[0].coefficient);
    }
    case TermKind::access: {
      std::vector<IndexId> indices;
      for (std::size_t d = 0; d < x.indices.size(); ++d) {
        const auto index = between(x.indices[d], y.indices[d], t);
        if (!index) return std::nullopt;
        indices.push_back(*index);
      }
      return pool_.access(x.tensor, std::move(indices));
    }
    case TermKind::apply: {
      std::vector<TermId> arguments;
      for (std::size_t i = 0; i < x.arguments.size(); ++i) {
        const auto argument = between(x.arguments[i], y.arguments[i], t);
        if (!argument) return std::nullopt;
        arguments.push_back(*argument);
      }
      return pool_.apply(x.function, std::move(arguments));
    }
    case TermKind::reduce: {
      if (x.reduction != y.reduction || x.bound != y.bound) return std::nullopt;
      TermPool::FreshScope scope(pool_);
      std::vector<VarId> vars;
      const TermId body = pool_.open(a, scope, vars);
      Substitution names;
      for (std::size_t i = 0; i < vars.size(); ++i) names.set(y.bound[i], pool_.index_var(vars[i]));
      const auto joint = between(body, pool_.substitute(y.body, names), t);
      if (!joint) return std::nullopt;
      return pool_.reduce(x.reduction, std::move(vars), *joint);
    }
    case TermKind::range: {
      const bool from = x.lo != -kUnbounded, to = x.hi != kUnbounded;
      if (from != (y.lo != -kUnbounded) || to != (y.hi != kUnbounded)) return std::nullopt;
      if (x.form != y.form) {
        const auto form = between(x.form, y.form, t);
        return form ? std::optional(pool_.range(*form, x.lo, x.hi)) : std::nullopt;
      }
      const std::int64_t step = from ? y.lo - x.lo : y.hi - x.hi;
      return pool_.range(pool_.index_linear(x.form, 1, t, -step), x.lo, x.hi);
    }
    case TermKind::index_value: return std::nullopt;
  }
  return std::nullopt;
}

// a + b as one sum, if one extends the other or both are instances of one body.
std::optional<TermId> Folder::roll_two(TermId a, TermId b) {
  if (const auto longer = pool_.extend_sum(a, b)) return longer;
  if (const auto longer = pool_.extend_sum(b, a)) return longer;
  TermPool::FreshScope scope(pool_);
  const VarId t = scope.fresh(2);
  const auto body = between(a, b, pool_.index_var(t));
  return body ? pool_.sum_of_two(*body, t, a, b) : std::nullopt;
}

// The term with unrolled sums rolled up; the term itself if there are none.
TermId Folder::roll(TermId term) {
  const std::vector<Monomial> monomials = pool_.monomials_of(term);
  if (monomials.size() < 2 || monomials.size() > kMaxRolled) return term;
  struct Part {
    std::vector<std::int64_t> constants;
    TermId term;
  };
  std::map<std::uint64_t, std::vector<Part>> groups;
  Reader reader(pool_);
  for (const Monomial& m : monomials) {
    Shape shape = reader.read(m);
    groups[shape.hash].push_back({std::move(shape.constants), pool_.poly({m})});
  }
  if (groups.size() == monomials.size()) return term;
  std::vector<TermId> pieces;
  for (auto& [unused, parts] : groups) {
    std::stable_sort(parts.begin(), parts.end(), [](const Part& x, const Part& y) { return x.constants < y.constants; });
    TermId current = parts[0].term;
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const auto longer = parts[i].constants != parts[i - 1].constants ? roll_two(current, parts[i].term) : std::nullopt;
      if (longer) {
        current = *longer;
      } else {
        pieces.push_back(current);
        current = parts[i].term;
      }
    }
    pieces.push_back(current);
  }
  return pieces.size() == monomials.size() ? term : pool_.sum(pieces);
}

}  // namespace shardproof::solvers

// What can be said of a value by its term alone.
#include <algorithm>
#include <functional>
#include <set>

#include "verifier/blame.h"

namespace shardproof::verifier {

using ir::ValueId;
using solvers::TermId;
using solvers::VarId;

namespace {
constexpr std::size_t kMaxVariables = 4;   // that a partial sum may still depend on
constexpr std::int32_t kMaxOfMaxima = 300;    // the same, as part of a maximum
constexpr std::int32_t kMaxPartial = 20000;  // nodes of a term that is looked at as a partial sum
}  // namespace

bool Blame::recognised(ValueId value) {
  return ir::is_float(session_.plan_program().value(value).type.dtype)
             ? recognised_term(session_.plan_run().term(value))
             : folded(value);
}

bool Blame::folded(ValueId value) {
  return folded_term(session_.plan_run().term(value));
}

bool Blame::folded_term(solvers::TermId term) {
  return !term.valid() || session_.containment().matches(term);
}

// Whether it is made of what padded inputs hold beyond the reference's elements: of no concern, wherever it is dropped.
bool Blame::is_padding(TermId term) {
  const solvers::TermPool& pool = session_.pool();
  const solvers::TermNode& n = pool.node(term);
  if (n.kind == solvers::TermKind::access) return pool.tensor(n.tensor).name.starts_with("padding of ");
  for (const solvers::Monomial& m : n.monomials)
    for (const solvers::Factor& f : m.factors)
      if (is_padding(f.term)) return true;
  if (std::any_of(n.arguments.begin(), n.arguments.end(), [&](TermId a) { return is_padding(a); })) return true;
  return n.kind == solvers::TermKind::reduce && is_padding(n.body);
}

// The term where all its accesses are within their tensors: a padded dimension has more elements than the reference's.
TermId Blame::within_shapes(TermId term) {
  solvers::TermPool& pool = session_.pool();
  TermId result = term;
  std::set<TermId> seen;
  const std::function<void(TermId)> visit = [&](TermId t) {
    if (!seen.insert(t).second) return;
    const solvers::TermNode& n = pool.node(t);
    for (std::size_t d = 0; n.kind == solvers::TermKind::access && d < n.indices.size(); ++d) {
      const solvers::IndexNode& index = pool.index(n.indices[d]);
      const std::int64_t last = pool.tensor(n.tensor).shape[d] - 1;
      const std::vector<VarId>& own = pool.members(index.free);
      const bool free =
          std::all_of(own.begin(), own.end(), [&](VarId v) { return pool.contains(pool.node(term).free, v); });
      if (free && (index.lo < 0 || index.hi > last)) result = pool.mul(pool.range(n.indices[d], 0, last), result);
    }
    for (const solvers::Monomial& m : n.monomials)
      for (const solvers::Factor& f : m.factors) visit(f.term);
    for (TermId a : n.arguments) visit(a);
    if (n.kind == solvers::TermKind::reduce) visit(n.body);
  };
  visit(term);
  return result;
}

// What is looked up where: rank of the tensor, dimension, table of indices, and the offset added to what the table
// says.
void Blame::lookups(TermId term, Lookups& found) {
  solvers::TermPool& pool = session_.pool();
  for (const solvers::Monomial& m : pool.monomials_of(term)) {
    for (const solvers::Factor& f : m.factors) {
      const solvers::TermNode& n = pool.node(f.term);
      for (std::size_t d = 0; n.kind == solvers::TermKind::access && d < n.indices.size(); ++d) {
        const solvers::IndexNode& index = pool.index(n.indices[d]);
        for (const auto& [atom, unused] : index.terms)
          if (pool.atom(atom).kind == solvers::AtomKind::load)
            found.insert({n.indices.size(), d, pool.atom(atom).tensor, index.constant});
      }
    }
  }
}

bool Blame::known_lookups(TermId term) {
  if (!lookups_read_) {
    lookups_read_ = true;
    for (TermId t : session_.reference_run().terms())
      if (t.valid()) lookups(t, reference_lookups_);
  }
  Lookups own;
  lookups(term, own);
  return std::includes(reference_lookups_.begin(), reference_lookups_.end(), own.begin(), own.end());
}

// Whether the term matches; of scalars, whose products match whatever they are, also each summand as a whole.
bool Blame::recognised_term(TermId term) {
  if (!folded_term(term)) return false;
  if (term.valid() && !known_lookups(term)) return false;
  return !term.valid() || session_.pool().node(term).free.value != 0 || session_.pool().as_constant(term) ||
         sums_match(term);
}

// A sum of values that the reference adds up or has as a scalar.
bool Blame::sums_match(TermId term) {
  solvers::TermPool& pool = session_.pool();
  if (pool.node(term).free.value != 0) return folded_term(term);
  if (reference_scalars_.empty())
    for (TermId t : session_.reference_run().terms())
      if (t.valid() && pool.node(t).free.value == 0)
        for (const solvers::Monomial& m : pool.monomials_of(t)) reference_scalars_.insert(pool.poly({m}));
  for (const solvers::Monomial& m : pool.monomials_of(term))
    if (reference_scalars_.count(pool.poly({m})) == 0) return false;
  return true;
}

bool Blame::known_scale(TermId term) {
  solvers::TermPool& pool = session_.pool();
  const auto each = [&](TermId t,
                        const std::function<bool(solvers::TensorId, std::pair<std::int64_t, std::int64_t>)>& f) {
    for (const solvers::Monomial& m : pool.monomials_of(t))
      for (const solvers::Factor& factor : m.factors) {
        const solvers::TermNode& n = pool.node(factor.term);
        if (n.kind == solvers::TermKind::access && n.free.value != 0 &&
            !f(n.tensor, {m.coefficient.num, m.coefficient.den}))
          return false;
      }
    return true;
  };
  if (reference_scales_.empty())
    for (TermId t : session_.reference_run().terms())
      if (t.valid())
        each(t, [&](solvers::TensorId tensor, std::pair<std::int64_t, std::int64_t> c) {
          reference_scales_.insert({tensor, c});
          return true;
        });
  return each(term, [&](solvers::TensorId tensor, std::pair<std::int64_t, std::int64_t> c) {
    return !session_.atoms().has_definition(tensor) || reference_scales_.count({tensor, c}) != 0;
  });
}

// Whether summing over mesh coordinates and loops, or taking the maximum, makes every piece of the term match: a right
// part of a sum, for all one can tell from it alone.
bool Blame::completes(const Step& step, solvers::TermId term) {
  const auto [it, added] = completes_.try_emplace(term, false);
  if (!added) return it->second;
  solvers::TermPool& pool = session_.pool();
  Containment& containment = session_.containment();
  term = session_.plan_run().without_carried(term);
  if (containment.strayed(term)) return false;
  std::vector<VarId> variables;
  for (VarId v : pool.members(pool.node(term).free)) {
    const bool loop = std::any_of(step.loops.begin(), step.loops.end(), [&](const auto& l) { return l.second == v; });
    if (loop || pool.var(v).kind == solvers::VarKind::mesh) variables.push_back(v);
  }
  if (variables.size() > kMaxVariables) return false;
  const auto on_elements = [&](TermId t) {
    const std::vector<VarId>& free = pool.members(pool.node(t).free);
    return std::any_of(free.begin(), free.end(),
                       [&](VarId v) { return pool.var(v).kind == solvers::VarKind::element; });
  };
  const auto piece_completes = [&](TermId piece) {
    if (recognised_term(piece)) return true;
    if (pool.node(piece).size > kMaxPartial) return false;
    piece = within_shapes(piece);
    for (std::size_t subset = 1; subset < std::size_t{1} << variables.size(); ++subset) {
      solvers::TermPool::FreshScope scope(pool);
      solvers::Substitution s;
      std::vector<VarId> bound;
      for (std::size_t k = 0; k < variables.size(); ++k) {
        if ((subset >> k & 1) == 0) continue;
        bound.push_back(scope.fresh(pool.var(variables[k]).extent));
        s.set(variables[k], pool.index_var(bound.back()));
      }
      const TermId body = pool.substitute(piece, s);
      const auto matches_reduced = [&](solvers::Reduction kind) {
        try {
          return sums_match(session_.folder().refold(pool.reduce(kind, bound, body)));
        } catch (const solvers::BudgetExceeded& e) {
          if (e.what_kind != solvers::BudgetExceeded::What::size) throw;
          return false;
        }
      };
      if (matches_reduced(solvers::Reduction::sum)) return true;
      if (pool.node(piece).size <= kMaxOfMaxima && matches_reduced(solvers::Reduction::max)) return true;
    }
    return false;
  };
  bool all = true;
  try {
    std::vector<TermId> places;
    // Guards on ranks and iterations say which parts there are, so they stay; guards on elements tell pieces apart.
    std::map<std::vector<solvers::Factor>, TermId> by_place;
    for (const auto& [guards, inner] : containment.pieces(term)) {
      if (is_padding(inner)) continue;
      TermId piece = inner;
      std::vector<solvers::Factor> place;
      for (const solvers::Factor& guard : guards) {
        if (on_elements(guard.term))
          place.push_back(guard);
        else
          piece = pool.mul(guard.term, piece);
      }
      const auto [it_place, is_new] = by_place.try_emplace(place, piece);
      if (!is_new) it_place->second = pool.add(it_place->second, piece);
    }
    for (const auto& [guards, piece] : by_place) {
      all = all && piece_completes(piece);
      if (markers_.size() == places.size())
        markers_.push_back(pool.access(session_.atoms().opaque({"piece", {}, false, 0}), {}));
      places.push_back(pool.mul(pool.product(guards, ir::Rational(1)), markers_[places.size()]));
    }
    // Elements of overlapping pieces are sums, and not those that the reference has.
    all = all && (!on_elements(term) || session_.folder().is_folded(pool.sum(places)));
  } catch (const std::overflow_error&) {
    all = false;
  } catch (const solvers::BudgetExceeded& e) {
    if (e.what_kind != solvers::BudgetExceeded::What::size) throw;
    all = false;
  }
  return completes_[it->first] = all;
}

// The value's name without numbers, and the size of its term: the same for what corresponds to it in another layer.
std::pair<std::string, std::int32_t> Blame::likeness(ValueId value) const {
  std::string name = session_.plan_program().value(value).name;
  std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
  const TermId term = session_.plan_run().term(value);
  return {std::move(name), term.valid() ? session_.pool().node(term).size : 0};
}

bool Blame::better(ValueId value, TermId old, TermId changed) {
  const auto wrong = [&](TermId term) {
    if (known_scale(term) && recognised_term(term)) return std::size_t{0};
    std::size_t count = 0;
    for (const auto& [guards, piece] : session_.containment().pieces(term))
      count += !is_padding(piece) && !(known_scale(piece) && recognised_term(piece));
    return std::max<std::size_t>(count, 1);
  };
  if (wrong(changed) < wrong(old)) return true;
  const std::size_t step = definition(value);
  return step != npos && completes(session_.plan_run().steps()[step], changed) &&
         !completes(session_.plan_run().steps()[step], old);
}

}  // namespace shardproof::verifier

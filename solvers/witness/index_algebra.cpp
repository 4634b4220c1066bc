// Integers of the second witness.
#include <algorithm>

#include "solvers/witness/expression.h"

namespace shardproof::solvers::witness {

namespace {

std::string joined(const std::vector<Index>& indices) {
  std::string text;
  for (const Index& e : indices) text += (text.empty() ? "" : ",") + e.key();
  return text;
}

AtomPtr make(Atom atom) {
  switch (atom.kind) {
    case Atom::Kind::variable: atom.key = "v" + std::to_string(atom.variable) + "e" + std::to_string(atom.divisor); break;
    case Atom::Kind::quotient: atom.key = "(" + atom.inner.key() + ")/" + std::to_string(atom.divisor); break;
    case Atom::Kind::remainder: atom.key = "(" + atom.inner.key() + ")%" + std::to_string(atom.divisor); break;
    case Atom::Kind::load: atom.key = "t" + std::to_string(atom.tensor.value) + "[" + joined(atom.indices) + "]"; break;
    case Atom::Kind::chosen:
      for (const Guard& g : atom.guards) atom.key += g.key();
      atom.key = "{" + atom.key + "?" + atom.inner.key() + "}";
      break;
  }
  return std::make_shared<const Atom>(std::move(atom));
}

Index of(AtomPtr atom) { return {0, {{std::move(atom), 1}}}; }

}  // namespace

std::string Index::key() const {
  std::string text = std::to_string(constant);
  for (const auto& [atom, k] : terms) text += "+" + std::to_string(k) + "*" + atom->key;
  return text;
}

std::string Guard::key() const { return "[" + std::to_string(lo) + "<=" + form.key() + "<=" + std::to_string(hi) + "]"; }

Index Algebra::variable(Variable v) const {
  if (extent(v) == 1) return constant(0);
  Atom atom;
  atom.variable = v;
  atom.divisor = extent(v);  // for its key
  return of(make(std::move(atom)));
}

Index Algebra::combine(const Index& a, std::int64_t ka, const Index& b, std::int64_t kb) {
  Index result;
  result.constant = ir::checked_add(ir::checked_mul(a.constant, ka), ir::checked_mul(b.constant, kb));
  std::size_t i = 0, j = 0;
  while ((ka != 0 && i < a.terms.size()) || (kb != 0 && j < b.terms.size())) {
    const bool from_a = ka != 0 && i < a.terms.size(), from_b = kb != 0 && j < b.terms.size();
    const int order = !from_b ? -1 : !from_a ? 1 : a.terms[i].first->key.compare(b.terms[j].first->key);
    const AtomPtr& atom = order <= 0 ? a.terms[i].first : b.terms[j].first;
    std::int64_t k = 0;
    if (order <= 0) k = ir::checked_mul(a.terms[i++].second, ka);
    if (order >= 0) k = ir::checked_add(k, ir::checked_mul(b.terms[j++].second, kb));
    if (k != 0) result.terms.emplace_back(atom, k);
  }
  return result;
}

Index Algebra::quotient(const Index& e, std::int64_t divisor) const {
  if (divisor == 1) return e;
  if (e.is_constant()) return constant(ir::floor_div(e.constant, divisor));
  Atom atom;
  atom.kind = Atom::Kind::quotient;
  atom.inner = e;
  atom.divisor = divisor;
  if (e.constant == 0 && e.terms.size() == 1 && e.terms[0].second == 1 && e.terms[0].first->kind == Atom::Kind::quotient) {
    atom.inner = e.terms[0].first->inner;
    atom.divisor = ir::checked_mul(divisor, e.terms[0].first->divisor);
  }
  return of(make(std::move(atom)));
}

Index Algebra::remainder(const Index& e, std::int64_t divisor) const {
  if (divisor == 1) return constant(0);
  if (e.is_constant()) return constant(ir::floor_mod(e.constant, divisor));
  Atom atom;
  atom.kind = Atom::Kind::remainder;
  atom.inner = e;
  atom.divisor = divisor;
  return of(make(std::move(atom)));
}

Index Algebra::load(TensorId tensor, std::vector<Index> indices) const {
  Atom atom;
  atom.kind = Atom::Kind::load;
  atom.tensor = tensor;
  atom.indices = std::move(indices);
  return of(make(std::move(atom)));
}

Index Algebra::chosen(std::vector<Guard> guards, Index value) const {
  if (guards.empty()) return value;
  Atom atom;
  atom.kind = Atom::Kind::chosen;
  atom.guards = std::move(guards);
  atom.inner = std::move(value);
  return of(make(std::move(atom)));
}

bool mentions(const Index& e, Variable v) {
  const auto in = [v](const Index& inner) { return mentions(inner, v); };
  return std::any_of(e.terms.begin(), e.terms.end(), [&](const auto& term) {
    const Atom& a = *term.first;
    switch (a.kind) {
      case Atom::Kind::variable: return a.variable == v;
      case Atom::Kind::load: return std::any_of(a.indices.begin(), a.indices.end(), in);
      case Atom::Kind::chosen:
        return in(a.inner) || std::any_of(a.guards.begin(), a.guards.end(), [&](const Guard& g) { return in(g.form); });
      default: return in(a.inner);
    }
  });
}

Index replaced(const Algebra& algebra, const Index& e, const Renaming& by) {
  Index result = Algebra::constant(e.constant);
  for (const auto& [atom, k] : e.terms) {
    Index value = of(atom);
    switch (atom->kind) {
      case Atom::Kind::variable:
        for (const auto& [v, replacement] : by)
          if (v == atom->variable) value = replacement;
        break;
      case Atom::Kind::quotient: value = algebra.quotient(replaced(algebra, atom->inner, by), atom->divisor); break;
      case Atom::Kind::remainder: value = algebra.remainder(replaced(algebra, atom->inner, by), atom->divisor); break;
      case Atom::Kind::load: {
        std::vector<Index> indices;
        for (const Index& i : atom->indices) indices.push_back(replaced(algebra, i, by));
        value = algebra.load(atom->tensor, std::move(indices));
        break;
      }
      case Atom::Kind::chosen: {
        std::vector<Guard> guards;
        for (const Guard& g : atom->guards) guards.push_back({replaced(algebra, g.form, by), g.lo, g.hi});
        value = algebra.chosen(std::move(guards), replaced(algebra, atom->inner, by));
        break;
      }
    }
    result = Algebra::combine(result, 1, value, k);
  }
  return result;
}

}  // namespace shardproof::solvers::witness

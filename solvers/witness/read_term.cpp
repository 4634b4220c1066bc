#include "solvers/witness/read_term.h"

namespace shardproof::solvers::witness {

Index TermReader::variable(VarId v) {
  const auto it = free_.find(v);
  if (it != free_.end()) return algebra_.variable(it->second);
  const Variable fresh = algebra_.fresh(pool_.var(v).extent);
  free_.emplace(v, fresh);
  return algebra_.variable(fresh);
}

Index TermReader::read(IndexId e, const Environment& environment) {
  const IndexNode& n = pool_.index(e);
  Index total = Algebra::constant(n.constant);
  for (const auto& [id, k] : n.terms) {
    const IndexAtom& a = pool_.atom(id);
    Index value;
    switch (a.kind) {
      case AtomKind::variable: {
        const auto it = environment.find(a.var);
        value = it != environment.end() ? it->second : variable(a.var);
        break;
      }
      case AtomKind::floor_div: value = algebra_.quotient(read(a.inner, environment), a.divisor); break;
      case AtomKind::modulo: value = algebra_.remainder(read(a.inner, environment), a.divisor); break;
      case AtomKind::load: {
        std::vector<Index> indices;
        for (IndexId i : a.indices) indices.push_back(read(i, environment));
        value = algebra_.load(a.tensor, std::move(indices));
        break;
      }
    }
    total = Algebra::combine(total, 1, value, k);
  }
  return total;
}

Form TermReader::factor(TermId term, const Environment& environment) {
  const TermNode& n = pool_.node(term);
  switch (n.kind) {
    case TermKind::poly: return read(term, environment);
    case TermKind::access: {
      std::vector<Index> indices;
      for (IndexId i : n.indices) indices.push_back(read(i, environment));
      const Definition definition = unfolding_ ? unfolding_(n.tensor) : Definition{};
      if (!definition.term.valid()) return algebra_.access(n.tensor, std::move(indices));
      Environment inner;
      for (std::size_t d = 0; d < indices.size(); ++d) inner[definition.dims.at(d)] = indices[d];
      return read(definition.term, inner);
    }
    case TermKind::apply: {
      std::vector<Form> arguments;
      for (TermId a : n.arguments) arguments.push_back(read(a, environment));
      return algebra_.apply(n.function, std::move(arguments));
    }
    case TermKind::reduce: {
      Environment inner = environment;
      std::vector<Variable> bound;
      for (VarId v : n.bound) {
        bound.push_back(algebra_.fresh(pool_.var(v).extent));
        inner[v] = algebra_.variable(bound.back());
      }
      Form body = read(n.body, inner);
      if (n.reduction == Reduction::sum) return algebra_.sum(bound, std::move(body));
      return algebra_.maximum({{std::move(bound), {}, std::move(body)}});
    }
    case TermKind::range: return algebra_.guarded(Guard{read(n.form, environment), n.lo, n.hi}, algebra_.number(Rational(1)));
    case TermKind::index_value: return algebra_.integer(read(n.form, environment));
  }
  throw NotCovered("a term of unknown kind");
}

Form TermReader::read(TermId term, const Environment& environment) {
  Form total;
  for (const Monomial& m : pool_.monomials_of(term)) {
    Form product = algebra_.number(m.coefficient);
    for (const solvers::Factor& f : m.factors) product = algebra_.multiply(product, f.power == 1 ? factor(f.term, environment) : algebra_.power(factor(f.term, environment), f.power));
    total = algebra_.add(std::move(total), product);
  }
  return algebra_.simplified(total);
}

}  // namespace shardproof::solvers::witness

#include "verifier/witness/obligation.h"

#include <algorithm>

namespace shardproof::verifier::witness {

using solvers::IndexId;
using solvers::TensorId;
using solvers::TermId;
using solvers::TermPool;
using solvers::VarId;
using solvers::witness::Algebra;
using solvers::witness::Environment;
using solvers::witness::Form;
using solvers::witness::Index;
using solvers::witness::TermReader;

namespace {

class Writer {
 public:
  explicit Writer(const TermPool& pool) : pool_(pool) {}

  void text(const std::string& s) { out_ += s; }
  void number(std::int64_t x) { out_ += std::to_string(x) + ","; }

  void variable(VarId v) {
    const solvers::Variable& variable = pool_.var(v);
    switch (variable.kind) {
      case solvers::VarKind::mesh: out_ += "m" + variable.name; break;
      case solvers::VarKind::element:
      case solvers::VarKind::pattern: out_ += variable.name; break;
      default: {
        const auto [it, added] = variables_.try_emplace(v, variables_.size());
        out_ += (variable.kind == solvers::VarKind::loop ? "l" : "b") + std::to_string(it->second);
      }
    }
    out_ += ":" + std::to_string(variable.extent) + ",";
  }

  void tensor(TensorId t) {
    const auto [it, added] = tensors_.try_emplace(t, tensors_.size());
    out_ += "T" + std::to_string(it->second);
    if (!added) return;
    const solvers::Tensor& tensor = pool_.tensor(t);
    out_ += "(";
    for (std::int64_t extent : tensor.shape) number(extent);
    if (tensor.integer) out_ += "<" + std::to_string(tensor.below);
    out_ += ")";
  }

  void index(IndexId e) {
    const solvers::IndexNode& n = pool_.index(e);
    out_ += "<" + std::to_string(n.constant);
    for (const auto& [id, k] : n.terms) {
      out_ += "+" + std::to_string(k) + "*";
      const solvers::IndexAtom& a = pool_.atom(id);
      switch (a.kind) {
        case solvers::AtomKind::variable: variable(a.var); break;
        case solvers::AtomKind::floor_div:
        case solvers::AtomKind::modulo:
          index(a.inner);
          out_ += (a.kind == solvers::AtomKind::modulo ? "%" : "/") + std::to_string(a.divisor);
          break;
        case solvers::AtomKind::load:
          tensor(a.tensor);
          for (IndexId i : a.indices) index(i);
          break;
      }
    }
    out_ += ">";
  }

  void term(TermId t) {
    const solvers::TermNode& n = pool_.node(t);
    out_ += static_cast<char>('A' + static_cast<int>(n.kind));
    switch (n.kind) {
      case solvers::TermKind::poly:
        for (const solvers::Monomial& m : n.monomials) {
          out_ += "+" + ir::to_string(m.coefficient);
          for (const solvers::Factor& f : m.factors) {
            term(f.term);
            if (f.power != 1) out_ += "^" + std::to_string(f.power);
          }
        }
        break;
      case solvers::TermKind::access:
        tensor(n.tensor);
        for (IndexId i : n.indices) index(i);
        break;
      case solvers::TermKind::apply:
        number(static_cast<int>(n.function));
        for (TermId a : n.arguments) term(a);
        break;
      case solvers::TermKind::reduce:
        number(static_cast<int>(n.reduction));
        for (VarId v : n.bound) variable(v);
        out_ += "|";
        term(n.body);
        break;
      case solvers::TermKind::range:
        number(n.lo);
        number(n.hi);
        index(n.form);
        break;
      case solvers::TermKind::index_value: index(n.form); break;
    }
    out_ += ";";
  }

  void type(const ir::TensorType& t) { out_ += ir::to_string(t) + ","; }

  void expression(const ir::CoordExpr& e, const std::map<std::string, VarId>& loops) {
    out_ += "{" + ir::to_string(e);
    for (const auto& [name, v] : loops) {
      out_ += " " + name + "=";
      variable(v);
    }
    out_ += "}";
  }

  std::string take() { return std::move(out_); }

 private:
  const TermPool& pool_;
  std::string out_;
  std::map<VarId, std::size_t> variables_;
  std::map<TensorId, std::size_t> tensors_;
};

void write_attributes(Writer& w, const Obligation& o) {
  for (const auto& [name, value] : o.instruction->attributes.entries()) {
    w.text(name + "=");
    std::visit(
        [&](const auto& x) {
          using T = std::decay_t<decltype(x)>;
          if constexpr (std::is_same_v<T, std::int64_t>) {
            w.number(x);
          } else if constexpr (std::is_same_v<T, bool>) {
            w.text(x ? "yes" : "no");
          } else if constexpr (std::is_same_v<T, std::string>) {
            w.text("\"" + x + "\"");
          } else if constexpr (std::is_same_v<T, ir::Rational>) {
            w.text(ir::to_string(x));
          } else if constexpr (std::is_same_v<T, ir::CoordExpr>) {
            w.expression(x, o.loops);
          } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
            for (const std::int64_t k : x) w.number(k);
          } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
            for (const std::string& s : x) w.text("\"" + s + "\"");
          } else if constexpr (std::is_same_v<T, std::vector<ir::Rational>>) {
            for (const ir::Rational& r : x) w.text(ir::to_string(r) + ",");
          } else if constexpr (std::is_same_v<T, std::vector<ir::CoordExpr>>) {
            for (const ir::CoordExpr& e : x) w.expression(e, o.loops);
          } else {
            for (const std::vector<std::int64_t>& group : x) {
              w.text("(");
              for (const std::int64_t rank : group) w.number(rank);
              w.text(")");
            }
          }
        },
        value);
    w.text(";");
  }
}

}  // namespace

std::string canonical(const TermPool& pool, const Obligation& o, const Unfoldings& unfoldings, const DefinitionOf& definition) {
  Writer w(pool);
  w.number(static_cast<int>(o.kind));
  if (o.mesh != nullptr) {
    for (const ir::MeshAxis& axis : o.mesh->axes) w.text(axis.name + ":" + std::to_string(axis.size) + " ");
    for (const std::int64_t rank : o.mesh->devices) w.text(std::to_string(rank) + " ");  // groups are lists of ranks
  }
  if (o.instruction != nullptr) {
    w.text(std::string(ir::schema_of(o.instruction->op).name) + " ");
    write_attributes(w, o);
  }
  if (o.iteration.valid()) w.variable(o.iteration);
  if (o.partial != nullptr)
    for (const ir::PartialAxis& p : *o.partial) w.text(p.axis + std::string(ir::reduce_name(p.reduce)) + " ");
  w.type(o.type);
  for (const Operand& operand : o.operands) {
    w.type(operand.type);
    w.term(operand.term);
  }
  w.text("=");
  w.term(o.result);
  if (o.care.valid()) w.term(o.care);
  for (const TensorId t : unfoldings) {
    w.text("\n");
    w.tensor(t);
    w.text(":");
    w.term(definition(t).term);
  }
  return w.take();
}

Sides sides_of(TermPool& pool, Algebra& algebra, const Obligation& o, const Unfoldings& unfoldings, const DefinitionOf& definition) {
  TermReader reader(algebra, [&](TensorId t) {
    return std::find(unfoldings.begin(), unfoldings.end(), t) != unfoldings.end() ? definition(t) : TermReader::Definition{};
  });
  Meaning meaning(pool, algebra, reader, o.mesh, o.loops);
  // Variables of the result come first, so that equal obligations get equal numbers.
  const std::vector<Index> element = meaning.element(o.type.shape);
  Environment at;
  for (std::size_t d = 0; d < o.type.shape.size(); ++d) at[pool.element(d, o.type.shape[d])] = element[d];
  Sides sides;
  switch (o.kind) {
    case Obligation::Kind::instruction: sides.computed = meaning.of(*o.instruction, o.operands, o.type); break;
    case Obligation::Kind::accumulation: {
      // init + the sum over all iterations of what one adds
      const solvers::witness::Variable i = algebra.fresh(pool.var(o.iteration).extent);
      Environment inner = at;
      inner[o.iteration] = algebra.variable(i);
      const Form step = algebra.add(reader.read(o.operands[1].term, inner), algebra.scale(reader.read(o.operands[2].term, inner), ir::Rational(-1)));
      sides.computed = algebra.add(reader.read(o.operands[0].term, at), algebra.sum({i}, algebra.simplified(step)));
      break;
    }
    case Obligation::Kind::last_iteration: {
      Environment inner = at;
      inner[o.iteration] = Algebra::constant(pool.var(o.iteration).extent - 1);
      sides.computed = reader.read(o.operands[0].term, inner);
      break;
    }
    case Obligation::Kind::claim: {
      if (o.partial->empty()) {
        sides.computed = meaning.at(o.operands[0], element);
      } else {
        std::vector<std::string> axes;
        for (const ir::PartialAxis& p : *o.partial) {
          if (p.reduce != o.partial->front().reduce) throw solvers::witness::NotCovered("a placement with several reductions");
          axes.push_back(p.axis);
        }
        sides.computed = meaning.over_ranks(axes, o.partial->front().reduce, o.operands[0], element);
      }
      sides.computed = algebra.multiply(reader.read(o.care, at), sides.computed);
      break;
    }
  }
  sides.told = reader.read(o.result, at);
  return sides;
}

}  // namespace shardproof::verifier::witness

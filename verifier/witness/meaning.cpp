#include "verifier/witness/meaning.h"

#include <algorithm>

#include "ir/infer_type.h"
#include "verifier/kernel/group_axes.h"

namespace shardproof::verifier::witness {

using ir::OpCode;
using ir::Rational;
using ir::ReduceKind;
using ir::Shape;
using solvers::Function;
using solvers::kUnbounded;
using solvers::witness::Algebra;
using solvers::witness::Branch;
using solvers::witness::Environment;
using solvers::witness::Guard;
using solvers::witness::NotCovered;
using solvers::witness::Variable;

using Form = Meaning::Form;
using Index = Meaning::Index;

namespace {

Index plus(const Index& a, const Index& b) { return Algebra::combine(a, 1, b, 1); }

[[noreturn]] void no_rule(const ir::Instruction& i) { throw NotCovered("no second meaning of `" + std::string(ir::schema_of(i.op).name) + "`"); }

}  // namespace

std::int64_t Meaning::axis_size(const std::string& axis) const {
  if (mesh_ == nullptr) throw NotCovered("a mesh axis without a mesh");
  const auto at = mesh_->find_axis(axis);
  if (!at) throw NotCovered("an unknown mesh axis");
  return mesh_->axes[*at].size;
}

Index Meaning::coordinate(const std::string& axis) {
  const std::int64_t size = axis_size(axis);
  return size == 1 ? Algebra::constant(0) : reader_.variable(pool_.named(solvers::VarKind::mesh, axis, size));
}

Index Meaning::place(const ir::CoordExpr& e) {
  Index total = Algebra::constant(e.constant);
  for (const ir::CoordTerm& term : e.terms) {
    Index value;
    switch (term.kind) {
      case ir::CoordTerm::Kind::variable: {
        const auto loop = loops_.find(term.variable);
        value = loop != loops_.end() ? reader_.variable(loop->second) : coordinate(term.variable);
        break;
      }
      case ir::CoordTerm::Kind::floor_div: value = algebra_.quotient(place(*term.inner), term.divisor); break;
      case ir::CoordTerm::Kind::modulo: value = algebra_.remainder(place(*term.inner), term.divisor); break;
    }
    total = Algebra::combine(total, 1, value, term.coefficient);
  }
  return total;
}

std::vector<Index> Meaning::element(const Shape& shape) {
  std::vector<Index> indices;
  for (std::size_t d = 0; d < shape.size(); ++d)
    indices.push_back(shape[d] == 1 ? Algebra::constant(0) : reader_.variable(pool_.element(d, shape[d])));
  return indices;
}

Form Meaning::at(const Operand& operand, const std::vector<Index>& indices, const Coordinates& coordinates) {
  Environment environment;
  for (std::size_t d = 0; d < operand.type.shape.size(); ++d) environment[pool_.element(d, operand.type.shape[d])] = indices[d];
  for (const auto& [axis, value] : coordinates) environment[pool_.named(solvers::VarKind::mesh, axis, axis_size(axis))] = value;
  return reader_.read(operand.term, environment);
}

Form Meaning::of(const ir::Instruction& i, const Operands& operands, const ir::TensorType& result) {
  switch (ir::schema_of(i.op).family) {
    case ir::OpFamily::source: return source(i, result);
    case ir::OpFamily::structure: return structure(i, operands, result);
    case ir::OpFamily::elementwise: return elementwise(i, operands, result);
    case ir::OpFamily::contraction: return contraction(i, operands, result);
    case ir::OpFamily::communication: return collective(i, operands, result);
    default: no_rule(i);
  }
}

Form Meaning::number(Rational value) {
  // Numbers with many digits are symbols of the prover's, which have no second meaning.
  constexpr std::int64_t kLong = 1'000'000'000;
  const bool whole = value.den == 1 && value.num > -kLong && value.num < kLong;
  if (!whole && (value.den >= kLong || value.num >= kLong || value.num <= -kLong)) throw NotCovered("a number with more than nine digits");
  return algebra_.number(value);
}

Form Meaning::source(const ir::Instruction& i, const ir::TensorType& result) {
  switch (i.op) {
    case OpCode::constant:
      if (i.attributes.get_or<bool>("negative_infinity", false)) return algebra_.apply(Function::negative_infinity, {});
      return number(i.attributes.get<Rational>("value"));
    case OpCode::iota: {
      const auto dim = static_cast<std::size_t>(i.attributes.get<std::int64_t>("dim"));
      return algebra_.integer(element(result.shape)[dim]);
    }
    case OpCode::coord: return algebra_.integer(place(i.attributes.get<ir::CoordExpr>("value")));
    case OpCode::table: {
      const auto& values = i.attributes.get<std::vector<Rational>>("values");
      if (std::all_of(values.begin(), values.end(), [&](const Rational& v) { return v == values[0]; })) return number(values[0]);
      throw NotCovered("a literal tensor");
    }
    default: no_rule(i);
  }
}

Form Meaning::structure(const ir::Instruction& i, const Operands& x, const ir::TensorType& result) {
  const Shape& from = x[0].type.shape;
  const Shape& to = result.shape;
  std::vector<Index> indices = element(to);
  const auto dim_attribute = [&](const char* name) { return static_cast<std::size_t>(i.attributes.get_or<std::int64_t>(name, 0)); };
  const auto id_at = [&](std::vector<Index> where) { return algebra_.as_integer(at(x[1], where)); };
  switch (i.op) {
    case OpCode::cast: return at(x[0], indices);
    case OpCode::reshape: {
      // Row-major position; dimensions that both shapes begin or end with stay out of it.
      std::size_t front = 0, back = 0;
      while (front < from.size() && front < to.size() && from[front] == to[front]) ++front;
      while (back + front < from.size() && back + front < to.size() && from[from.size() - 1 - back] == to[to.size() - 1 - back]) ++back;
      Index flat = Algebra::constant(0);
      for (std::size_t d = front; d < to.size() - back; ++d) flat = plus(Algebra::scale(flat, to[d]), indices[d]);
      std::vector<Index> where(from.size());
      for (std::size_t d = 0; d < front; ++d) where[d] = indices[d];
      for (std::size_t d = 0; d < back; ++d) where[from.size() - 1 - d] = indices[to.size() - 1 - d];
      std::int64_t stride = 1;
      for (std::size_t d = from.size() - back; d-- > front;) {
        where[d] = algebra_.quotient(flat, stride);
        if (d > front) where[d] = algebra_.remainder(where[d], from[d]);
        stride = ir::checked_mul(stride, from[d]);
      }
      return at(x[0], where);
    }
    case OpCode::transpose: {
      const auto& perm = i.attributes.get<std::vector<std::int64_t>>("perm");
      std::vector<Index> where(from.size());
      for (std::size_t d = 0; d < perm.size(); ++d) where[static_cast<std::size_t>(perm[d])] = indices[d];
      return at(x[0], where);
    }
    case OpCode::broadcast: {
      const auto& dims = i.attributes.get<std::vector<std::int64_t>>("dims");
      std::vector<Index> where;
      for (std::size_t d = 0; d < from.size(); ++d) where.push_back(from[d] == 1 ? Algebra::constant(0) : indices[static_cast<std::size_t>(dims[d])]);
      return at(x[0], where);
    }
    case OpCode::slice: {
      const std::size_t d = dim_attribute("dim");
      indices[d] = plus(Algebra::scale(indices[d], i.attributes.get_or<std::int64_t>("stride", 1)), place(i.attributes.get<ir::CoordExpr>("start")));
      return at(x[0], indices);
    }
    case OpCode::concat: {
      const std::size_t d = dim_attribute("dim");
      const Index position = indices[d];
      Form total;
      std::int64_t offset = 0;
      for (const Operand& piece : x) {
        const std::int64_t extent = piece.type.shape[d];
        indices[d] = Algebra::scale(position, 1, -offset);
        total = algebra_.add(std::move(total), algebra_.guarded(Guard{position, offset, offset + extent - 1}, at(piece, indices)));
        offset += extent;
      }
      return total;
    }
    case OpCode::pad: {
      const std::size_t d = dim_attribute("dim");
      const std::int64_t low = i.attributes.get<std::int64_t>("low");
      const Form value = number(i.attributes.get<Rational>("value"));
      const Index position = indices[d];
      indices[d] = Algebra::scale(position, 1, -low);
      Form total = algebra_.guarded(Guard{position, low, low + from[d] - 1}, at(x[0], indices));
      total = algebra_.add(std::move(total), algebra_.guarded(Guard{position, -kUnbounded, low - 1}, value));
      return algebra_.add(std::move(total), algebra_.guarded(Guard{position, low + from[d], kUnbounded}, value));
    }
    case OpCode::take: {
      const std::size_t d = dim_attribute("dim"), ids = x[1].type.shape.size();
      std::vector<Index> where(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(d));
      where.push_back(id_at({indices.begin() + static_cast<std::ptrdiff_t>(d), indices.begin() + static_cast<std::ptrdiff_t>(d + ids)}));
      where.insert(where.end(), indices.begin() + static_cast<std::ptrdiff_t>(d + ids), indices.end());
      return at(x[0], where);
    }
    case OpCode::take_along: {
      std::vector<Index> where = indices;
      where.push_back(id_at(indices));
      return at(x[0], where);
    }
    case OpCode::scatter_add: {
      const std::size_t d = dim_attribute("dim");
      std::vector<Variable> bound;
      std::vector<Index> ids;
      for (std::int64_t extent : x[1].type.shape) {
        bound.push_back(algebra_.fresh(extent));
        ids.push_back(algebra_.variable(bound.back()));
      }
      std::vector<Index> where(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(d));
      where.insert(where.end(), ids.begin(), ids.end());
      where.insert(where.end(), indices.begin() + static_cast<std::ptrdiff_t>(d) + 1, indices.end());
      const Guard hit{Algebra::combine(id_at(ids), 1, indices[d], -1), 0, 0};
      return algebra_.sum(bound, algebra_.guarded(hit, at(x[0], where)));
    }
    case OpCode::put_along: {
      const std::vector<Index> outer(indices.begin(), indices.end() - 1);
      return algebra_.guarded(Guard{Algebra::combine(id_at(outer), 1, indices.back(), -1), 0, 0}, at(x[0], outer));
    }
    default: no_rule(i);
  }
}

Form Meaning::elementwise(const ir::Instruction& i, const Operands& x, const ir::TensorType& result) {
  const std::vector<Index> indices = element(result.shape);
  std::vector<Form> a;
  for (const Operand& operand : x) a.push_back(at(operand, indices));
  const auto apply = [&](Function f, Form argument) { return algebra_.apply(f, {std::move(argument)}); };
  const auto negative = [&](const Form& form) { return algebra_.scale(form, Rational(-1)); };
  const auto truth = [&](const Form& form, bool value) {  // as a guard
    return Guard{algebra_.as_integer(form), value ? 1 : 0, value ? 1 : 0};
  };
  const auto one = [&](const std::vector<Guard>& guards) { return algebra_.guarded(guards, algebra_.number(Rational(1))); };
  switch (i.op) {
    case OpCode::add: {
      Form total;
      for (const Form& f : a) total = algebra_.add(std::move(total), f);
      return total;
    }
    case OpCode::mul: {
      Form product = algebra_.number(Rational(1));
      for (const Form& f : a) product = algebra_.multiply(product, f);
      return product;
    }
    case OpCode::max: return algebra_.apply(Function::max, a);
    case OpCode::min: {
      for (Form& f : a) f = negative(f);
      return negative(algebra_.apply(Function::max, a));
    }
    case OpCode::sub: return algebra_.add(a[0], negative(a[1]));
    case OpCode::div: return algebra_.multiply(a[0], apply(Function::inverse, a[1]));
    case OpCode::neg: return negative(a[0]);
    case OpCode::exp: return apply(Function::exp, a[0]);
    case OpCode::log: return apply(Function::log, a[0]);
    case OpCode::sqrt: return apply(Function::sqrt, a[0]);
    case OpCode::rsqrt: return apply(Function::inverse, apply(Function::sqrt, a[0]));
    case OpCode::reciprocal: return apply(Function::inverse, a[0]);
    case OpCode::tanh: return apply(Function::tanh, a[0]);
    case OpCode::erf: return apply(Function::erf, a[0]);
    case OpCode::sigmoid: return apply(Function::sigmoid, a[0]);
    case OpCode::sin: return apply(Function::sin, a[0]);
    case OpCode::cos: return apply(Function::cos, a[0]);
    case OpCode::abs: return apply(Function::abs, a[0]);
    case OpCode::stop_gradient: return a[0];
    case OpCode::pow: {
      const Rational exponent = i.attributes.get<Rational>("exponent");
      if (exponent.is_integer()) return algebra_.power(a[0], static_cast<std::int32_t>(exponent.num));
      if (exponent.den == 2) return algebra_.power(apply(Function::sqrt, a[0]), static_cast<std::int32_t>(exponent.num));
      return algebra_.apply(Function::power, {a[0], algebra_.number(exponent)});
    }
    case OpCode::power: return algebra_.apply(Function::power, a);
    case OpCode::compare: {
      const std::string& direction = i.attributes.get<std::string>("direction");
      const bool turned = direction == "gt" || direction == "ge";
      const Form difference = turned ? algebra_.add(a[1], negative(a[0])) : algebra_.add(a[0], negative(a[1]));
      if (direction == "eq") return apply(Function::equal_real, difference);
      if (direction == "ne") return one({truth(apply(Function::equal_real, difference), false)});
      return apply(direction == "lt" || direction == "gt" ? Function::less : Function::less_equal, difference);
    }
    case OpCode::select:
      if (!algebra_.is_integer(a[0]))
        return algebra_.add(algebra_.multiply(a[0], a[1]), algebra_.multiply(algebra_.add(algebra_.number(Rational(1)), negative(a[0])), a[2]));
      return algebra_.add(algebra_.guarded(truth(a[0], true), a[1]), algebra_.guarded(truth(a[0], false), a[2]));
    case OpCode::logical_and: return one({truth(a[0], true), truth(a[1], true)});
    case OpCode::logical_not: return one({truth(a[0], false)});
    case OpCode::logical_or:
      return algebra_.add(one({truth(a[0], true)}), one({truth(a[0], false), truth(a[1], true)}));
    default: no_rule(i);
  }
}

Form Meaning::contraction(const ir::Instruction& i, const Operands& x, const ir::TensorType& result) {
  std::vector<Variable> bound;
  const std::vector<Index> indices = element(result.shape);
  if (i.op == OpCode::einsum) {
    const auto spec = ir::parse_einsum(i.attributes.get<std::string>("spec"));
    if (!spec) no_rule(i);
    std::map<char, Index> index_of;
    for (std::size_t d = 0; d < spec->result.size(); ++d) index_of[spec->result[d]] = indices[d];
    Form product = algebra_.number(Rational(1));
    for (std::size_t k = 0; k < x.size(); ++k) {
      std::vector<Index> where;
      for (std::size_t d = 0; d < spec->operands[k].size(); ++d) {
        const auto [it, added] = index_of.try_emplace(spec->operands[k][d]);
        if (added) {
          bound.push_back(algebra_.fresh(x[k].type.shape[d]));
          it->second = algebra_.variable(bound.back());
        }
        where.push_back(it->second);
      }
      product = algebra_.multiply(product, at(x[k], where));
    }
    return algebra_.sum(bound, std::move(product));
  }
  const auto& dims = i.attributes.get<std::vector<std::int64_t>>("dims");
  const Shape& shape = x[0].type.shape;
  std::vector<Index> where;
  std::size_t kept = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) == dims.end()) {
      where.push_back(indices[kept++]);
      continue;
    }
    bound.push_back(algebra_.fresh(shape[d]));
    where.push_back(algebra_.variable(bound.back()));
  }
  Form body = at(x[0], where);
  switch (i.op) {
    case OpCode::reduce_sum: return algebra_.sum(bound, std::move(body));
    case OpCode::reduce_max: return algebra_.maximum({{bound, {}, std::move(body)}});
    case OpCode::reduce_min: return algebra_.scale(algebra_.maximum({{bound, {}, algebra_.scale(std::move(body), Rational(-1))}}), Rational(-1));
    default: no_rule(i);
  }
}

std::vector<std::string> Meaning::axes_of(const ir::Instruction& i) const {
  if (i.attributes.has("axes")) return i.attributes.get<std::vector<std::string>>("axes");
  const auto axes = mesh_ == nullptr ? std::nullopt : axes_of_groups(*mesh_, i.attributes.get<std::vector<std::vector<std::int64_t>>>("groups"));
  if (!axes) throw NotCovered("groups that are no mesh axes");
  return *axes;
}

// Coordinates of the rank at place p of the group, the first axis most significant.
Meaning::Coordinates Meaning::position(const std::vector<std::string>& axes, Index p) const {
  Coordinates result;
  for (std::size_t k = axes.size(); k-- > 0;) {
    const std::int64_t size = axis_size(axes[k]);
    result[axes[k]] = k == 0 ? p : algebra_.remainder(p, size);
    p = algebra_.quotient(p, size);
  }
  return result;
}

Form Meaning::over_ranks(const std::vector<std::string>& axes, ReduceKind kind, const Operand& x, const std::vector<Index>& where) {
  std::vector<Variable> bound;
  Coordinates coordinates;
  std::int64_t size = 1;
  for (const std::string& axis : axes) {
    bound.push_back(algebra_.fresh(axis_size(axis)));
    coordinates[axis] = algebra_.variable(bound.back());
    size = ir::checked_mul(size, axis_size(axis));
  }
  Form body = at(x, where, coordinates);
  switch (kind) {
    case ReduceKind::sum: return algebra_.sum(bound, std::move(body));
    case ReduceKind::avg: return algebra_.scale(algebra_.sum(bound, std::move(body)), Rational(1, size));
    case ReduceKind::max: return algebra_.maximum({{bound, {}, std::move(body)}});
    case ReduceKind::min: return algebra_.scale(algebra_.maximum({{bound, {}, algebra_.scale(std::move(body), Rational(-1))}}), Rational(-1));
    default: throw NotCovered("a product over ranks");
  }
}

Form Meaning::collective(const ir::Instruction& i, const Operands& x, const ir::TensorType& result) {
  std::vector<Index> indices = element(result.shape);
  if (i.op == OpCode::wait) return at(x[0], indices);
  if (i.op == OpCode::send || i.op == OpCode::recv) no_rule(i);
  const std::vector<std::string> axes = axes_of(i);
  const Shape& from = x[0].type.shape;
  std::int64_t group = 1;
  Index own = Algebra::constant(0);
  for (const std::string& axis : axes) {
    group = ir::checked_mul(group, axis_size(axis));
    own = plus(Algebra::scale(own, axis_size(axis)), coordinate(axis));
  }
  const auto dim_attribute = [&](const char* name) { return static_cast<std::size_t>(i.attributes.get<std::int64_t>(name)); };
  const auto kind = [&] {
    const auto parsed = ir::parse_reduce(i.attributes.get<std::string>("reduce"));
    if (!parsed) no_rule(i);
    return *parsed;
  };
  switch (i.op) {
    case OpCode::all_reduce: return over_ranks(axes, kind(), x[0], indices);
    case OpCode::all_gather: {
      const std::size_t d = dim_attribute("dim");
      const Index j = indices[d];
      indices[d] = algebra_.remainder(j, from[d]);
      return at(x[0], indices, position(axes, algebra_.quotient(j, from[d])));
    }
    case OpCode::reduce_scatter: {
      const std::size_t d = dim_attribute("dim");
      indices[d] = plus(Algebra::scale(own, result.shape[d]), indices[d]);
      return over_ranks(axes, kind(), x[0], indices);
    }
    case OpCode::all_to_all: {
      const std::size_t split = dim_attribute("split_dim"), join = dim_attribute("concat_dim");
      const std::int64_t part = from[split] / group;
      const std::int64_t chunk = split == join ? part : from[join];
      const Index j = indices[join];
      indices[join] = algebra_.remainder(j, chunk);
      indices[split] = plus(Algebra::scale(own, part), indices[split]);
      return at(x[0], indices, position(axes, algebra_.quotient(j, chunk)));
    }
    case OpCode::broadcast_from: return at(x[0], indices, position(axes, Algebra::constant(i.attributes.get<std::int64_t>("root"))));
    case OpCode::permute: {
      const Index sender = algebra_.remainder(Algebra::scale(own, 1, -i.attributes.get<std::int64_t>("shift")), group);
      return at(x[0], indices, position(axes, sender));
    }
    default: no_rule(i);
  }
}

}  // namespace shardproof::verifier::witness

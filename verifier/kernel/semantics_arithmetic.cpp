// Elementwise ops and contractions.
#include "ir/check.h"
#include "ir/infer_type.h"
#include "verifier/kernel/semantics.h"

#include <algorithm>

namespace shardproof::verifier {

using ir::OpCode;
using ir::Rational;
using solvers::Function;
using solvers::IndexId;
using solvers::Reduction;
using solvers::TermId;
using solvers::TermPool;
using solvers::VarId;

TermId Semantics::elementwise(const ir::Instruction& i, const Operands& operands) {
  std::vector<TermId> a;
  for (const Denotation& operand : operands) a.push_back(operand.term);
  const auto apply = [&](Function f) { return pool_.apply(f, {a[0]}); };
  const auto negate = [&](TermId t) { return pool_.scale(t, Rational(-1)); };
  switch (i.op) {
    case OpCode::add: return pool_.sum(a);
    case OpCode::mul: {
      TermId product = pool_.one();
      for (TermId t : a) product = pool_.mul(product, t);
      return product;
    }
    case OpCode::max: return a.size() == 1 ? a[0] : pool_.apply(Function::max, a);
    case OpCode::min: {
      if (a.size() == 1) return a[0];
      for (TermId& t : a) t = negate(t);
      return negate(pool_.apply(Function::max, a));
    }
    case OpCode::sub: return pool_.sub(a[0], a[1]);
    case OpCode::div: return pool_.mul(a[0], pool_.inverse(a[1]));
    case OpCode::neg: return negate(a[0]);
    case OpCode::exp: return apply(Function::exp);
    case OpCode::log: return apply(Function::log);
    case OpCode::sqrt: return apply(Function::sqrt);
    case OpCode::rsqrt: return pool_.inverse(apply(Function::sqrt));
    case OpCode::reciprocal: return pool_.inverse(a[0]);
    case OpCode::tanh: return apply(Function::tanh);
    case OpCode::erf: return apply(Function::erf);
    case OpCode::sigmoid: return apply(Function::sigmoid);
    case OpCode::sin: return apply(Function::sin);
    case OpCode::cos: return apply(Function::cos);
    case OpCode::abs: return apply(Function::abs);
    case OpCode::pow: {
      const Rational exponent = i.attributes.get<Rational>("exponent");
      if (exponent.is_integer()) return pool_.integer_power(a[0], exponent.num);
      if (exponent.den == 2) return pool_.integer_power(apply(Function::sqrt), exponent.num);
      return pool_.apply(Function::power, {a[0], pool_.constant(exponent)});
    }
    case OpCode::power: return pool_.apply(Function::power, {a[0], a[1]});
    case OpCode::compare: {
      const std::string& direction = i.attributes.get<std::string>("direction");
      const TermId difference = pool_.sub(a[0], a[1]);
      if (direction == "lt") return pool_.apply(Function::less, {difference});
      if (direction == "le") return pool_.apply(Function::less_equal, {difference});
      if (direction == "gt") return pool_.apply(Function::less, {negate(difference)});
      if (direction == "ge") return pool_.apply(Function::less_equal, {negate(difference)});
      const TermId equal = pool_.apply(Function::equal_real, {difference});
      if (direction == "eq") return equal;
      SHARDPROOF_CHECK(direction == "ne");
      return pool_.complement(equal);
    }
    case OpCode::select:
      require_mask_of_indices(operands);
      return pool_.add(pool_.mul(a[0], a[1]), pool_.mul(pool_.complement(a[0]), a[2]));
    case OpCode::logical_and: return pool_.mul(a[0], a[1]);
    case OpCode::logical_or: return pool_.complement(pool_.mul(pool_.complement(a[0]), pool_.complement(a[1])));
    case OpCode::logical_not: return pool_.complement(a[0]);
    case OpCode::stop_gradient: return a[0];
    default: break;
  }
  SHARDPROOF_CHECK(false);
}

// c x + (1 - c) y is the choice between x and y only where both are numbers. With minus infinity in it, c and its complement
// have to be sums of guards, whose value is known on every piece: 0 * -inf and -inf - -inf never meet the laws of numbers.
void Semantics::require_mask_of_indices(const Operands& operands) {
  if (operands[1].infinity == Infinity::none && operands[2].infinity == Infinity::none) return;
  for (const TermId condition : {operands[0].term, pool_.complement(operands[0].term)})
    for (const solvers::Monomial& m : pool_.monomials_of(condition))
      if (ir::sign(m.coefficient) < 0 || !std::all_of(m.factors.begin(), m.factors.end(), [&](const solvers::Factor& f) { return pool_.is_guard(f.term); }))
        throw SemanticsError("SP0905", "unsupported", "`select` has no rule for minus infinity under a condition on real numbers",
                             "a condition on indices or integers, or finite values", "a mask that compares real numbers");
}

TermId Semantics::contraction(const ir::Instruction& i, const Operands& operands) {
  TermPool::FreshScope scope(pool_);
  std::vector<VarId> reduced;
  if (i.op == OpCode::einsum) {
    const auto spec = ir::parse_einsum(i.attributes.get<std::string>("spec"));
    SHARDPROOF_CHECK(spec.has_value());
    std::map<char, std::int64_t> extents;
    for (std::size_t k = 0; k < spec->operands.size(); ++k)
      for (std::size_t d = 0; d < spec->operands[k].size(); ++d) extents[spec->operands[k][d]] = operands[k].type.shape[d];
    std::map<char, IndexId> index_of;
    for (std::size_t d = 0; d < spec->result.size(); ++d)
      index_of[spec->result[d]] = pool_.index_var(pool_.element(d, extents[spec->result[d]]));
    for (const auto& [label, extent] : extents) {
      if (index_of.count(label) != 0) continue;
      reduced.push_back(scope.fresh(extent));
      index_of[label] = pool_.index_var(reduced.back());
    }
    TermId product = pool_.one();
    for (std::size_t k = 0; k < operands.size(); ++k) {
      std::vector<IndexId> indices;
      for (char label : spec->operands[k]) indices.push_back(index_of[label]);
      product = pool_.mul(product, at(operands[k].term, operands[k].type.shape, indices));
    }
    return pool_.reduce(Reduction::sum, std::move(reduced), product);
  }
  const auto& dims = i.attributes.get<std::vector<std::int64_t>>("dims");
  const ir::Shape& shape = operands[0].type.shape;
  std::vector<IndexId> indices(shape.size());
  std::size_t kept = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    bool is_reduced = false;
    for (std::int64_t r : dims) is_reduced = is_reduced || static_cast<std::size_t>(r) == d;
    if (is_reduced) {
      reduced.push_back(scope.fresh(shape[d]));
      indices[d] = pool_.index_var(reduced.back());
    } else {
      indices[d] = pool_.index_var(pool_.element(kept++, shape[d]));
    }
  }
  const TermId body = at(operands[0].term, shape, indices);
  switch (i.op) {
    case OpCode::reduce_sum: return pool_.reduce(Reduction::sum, std::move(reduced), body);
    case OpCode::reduce_max: return pool_.reduce(Reduction::max, std::move(reduced), body);
    case OpCode::reduce_min:
      return pool_.scale(pool_.reduce(Reduction::max, std::move(reduced), pool_.scale(body, Rational(-1))), Rational(-1));
    default: break;
  }
  SHARDPROOF_CHECK(false);
}

}  // namespace shardproof::verifier

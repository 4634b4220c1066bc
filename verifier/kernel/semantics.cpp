#include "verifier/kernel/semantics.h"

#include <algorithm>
#include <limits>

#include "ir/check.h"
#include "solvers/kernel/accesses.h"
#include "verifier/kernel/group_axes.h"
#include "verifier/kernel/integer_range.h"

namespace shardproof::verifier {

using ir::CoordExpr;
using ir::CoordTerm;
using ir::OpCode;
using ir::Shape;
using solvers::IndexId;
using solvers::TermId;
using solvers::VarId;
using solvers::VarKind;

Semantics::Semantics(solvers::AtomTable& atoms, LiteralTable& literals, const ir::Mesh* mesh)
    : pool_(atoms.pool()), atoms_(atoms), literals_(literals), conditions_(atoms), ranges_(atoms), mesh_(mesh) {
  if (mesh_ != nullptr)
    for (const ir::MeshAxis& axis : mesh_->axes) coordinates_.push_back(pool_.named(VarKind::mesh, axis.name, axis.size));
}

VarId Semantics::coordinate(const std::string& axis) {
  SHARDPROOF_CHECK(mesh_ != nullptr);
  const auto position = mesh_->find_axis(axis);
  SHARDPROOF_CHECK(position.has_value());
  return coordinates_[*position];
}

IndexId Semantics::coordinate_index(const CoordExpr& expression) {
  IndexId total = pool_.index_constant(expression.constant);
  for (const CoordTerm& term : expression.terms) {
    IndexId value;
    switch (term.kind) {
      case CoordTerm::Kind::variable: {
        const auto loop = loops_.find(term.variable);
        value = pool_.index_var(loop != loops_.end() ? loop->second : coordinate(term.variable));
        break;
      }
      case CoordTerm::Kind::floor_div: value = pool_.index_div(coordinate_index(*term.inner), term.divisor); break;
      case CoordTerm::Kind::modulo: value = pool_.index_mod(coordinate_index(*term.inner), term.divisor); break;
    }
    total = pool_.index_linear(total, 1, value, term.coefficient);
  }
  return total;
}

std::vector<IndexId> Semantics::element_indices(const Shape& shape) {
  std::vector<IndexId> indices;
  for (std::size_t d = 0; d < shape.size(); ++d) indices.push_back(pool_.index_var(pool_.element(d, shape[d])));
  return indices;
}

TermId Semantics::at(TermId term, const Shape& shape, const std::vector<IndexId>& indices) {
  SHARDPROOF_CHECK(shape.size() == indices.size());
  solvers::Substitution substitution;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] > 1) substitution.set(pool_.element(d, shape[d]), indices[d]);
  return pool_.substitute(term, substitution);
}

void Semantics::require_in_range(IndexId e, std::int64_t extent, const std::vector<TermId>& guards, const std::string& what) {
  if (atoms_.in_range(e, extent, guards)) return;
  throw SemanticsError("SP0208", "out-of-range-access", what + " may be outside its operand",
                       "an index in [0, " + std::to_string(extent) + ")", "index " + pool_.to_string(e));
}

std::vector<std::string> Semantics::group_axes(const ir::Instruction& instruction) const {
  if (instruction.attributes.has("axes")) return instruction.attributes.get<std::vector<std::string>>("axes");
  SHARDPROOF_CHECK(mesh_ != nullptr);
  const auto& groups = instruction.attributes.get<std::vector<std::vector<std::int64_t>>>("groups");
  const auto axes = axes_of_groups(*mesh_, groups);
  if (!axes)
    throw SemanticsError("SP0905", "unsupported", "the explicit groups are not the groups of an ordered list of mesh axes",
                         "rank lists that vary whole mesh axes", std::to_string(groups.size()) + " other groups");
  return *axes;
}

namespace {

// Operations with a meaning on minus infinity: -inf + x, -inf - x, max, exp, and whatever only moves elements.
bool takes_infinity(const ir::Instruction& i, std::size_t operand) {
  switch (i.op) {
    case OpCode::add:
    case OpCode::max:
    case OpCode::exp:
    case OpCode::stop_gradient:
    case OpCode::reduce_max: return true;
    case OpCode::sub: return operand == 0;
    case OpCode::select: return operand != 0;
    case OpCode::scatter_add: return false;
    case OpCode::all_reduce:
    case OpCode::reduce_scatter: return i.attributes.get<std::string>("reduce") == "max";
    default: break;
  }
  const ir::OpFamily family = ir::schema_of(i.op).family;
  return family == ir::OpFamily::structure || family == ir::OpFamily::communication;
}

}  // namespace

namespace {

// Makes new numbers, rather than moving those of its operands.
bool computes(const ir::Instruction& i) {
  switch (ir::schema_of(i.op).family) {
    case ir::OpFamily::structure: return i.op == OpCode::cast || i.op == OpCode::scatter_add || i.op == OpCode::pad;
    case ir::OpFamily::communication: return i.op == OpCode::all_reduce || i.op == OpCode::reduce_scatter;
    case ir::OpFamily::elementwise: return i.op != OpCode::select && i.op != OpCode::stop_gradient;
    default: return true;
  }
}

}  // namespace

void Semantics::require(const ir::Instruction& i, solvers::Obligation condition) {
  if (seen_conditions_.insert(condition).second) domain_conditions_.push_back({condition, i.span});
}

Infinity Semantics::infinity(const ir::Instruction& i, const Operands& operands) const {
  if (i.op == OpCode::constant) return i.attributes.get_or<bool>("negative_infinity", false) ? Infinity::elements : Infinity::none;
  if (i.op == OpCode::exp) return Infinity::none;
  Infinity least = Infinity::elements, most = Infinity::none;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (!takes_infinity(i, k)) continue;  // required to be finite
    least = std::min(least, operands[k].infinity);
    most = std::max(most, operands[k].infinity);
  }
  switch (i.op) {
    case OpCode::max: return least;
    case OpCode::reduce_max:
    case OpCode::all_reduce:
    case OpCode::reduce_scatter: return std::min(most, Infinity::rows);
    default: return most;
  }
}

void Semantics::require_finite(const ir::Instruction& i, const Denotation& operand) {
  if (operand.infinity == Infinity::none || conditions_.is_finite(operand.term)) return;
  // What strayed from the reference is reported where it did, not here.
  if (operand.infinity == Infinity::elements && !conditions_.has_unknown(operand.term))
    throw SemanticsError("SP0905", "unsupported",
                         "`" + std::string(ir::schema_of(i.op).name) + "` has no rule for minus infinity (of masked scores)", "a finite operand",
                         "an operand with elements that are minus infinity");
  require(i, {solvers::Obligation::Kind::finite, operand.term});
}

bool Semantics::is_arbitrary(TermId term) const {
  return !arbitrary_.empty() && solvers::accesses(pool_, term, [this](solvers::TensorId t) { return arbitrary_.count(t) != 0; });
}

TermId Semantics::undefined_region(const ir::Instruction& i, const Operands& operands, const std::vector<TermId>& regions,
                                   const ir::TensorType& result) {
  const auto either = [&](TermId a, TermId b) { return pool_.complement(pool_.mul(pool_.complement(a), pool_.complement(b))); };
  const bool inherited = std::any_of(regions.begin(), regions.end(), [&](TermId r) { return r != pool_.zero(); });
  TermId region = std::exchange(undefined_here_, pool_.zero());
  if (!inherited) return region;
  const ir::OpFamily family = ir::schema_of(i.op).family;
  if (family == ir::OpFamily::elementwise) {
    if (i.op == OpCode::select && regions[0] == pool_.zero() && conditions_.is_index_function(operands[0].term))
      return pool_.add(pool_.mul(operands[0].term, regions[1]), pool_.mul(pool_.complement(operands[0].term), regions[2]));
    for (TermId r : regions) region = either(region, r);
    return region;
  }
  const bool moves = (family == ir::OpFamily::structure && i.op != OpCode::scatter_add && i.op != OpCode::pad) ||
                     (family == ir::OpFamily::communication && i.op != OpCode::all_reduce && i.op != OpCode::reduce_scatter);
  const bool looks_up = i.op == OpCode::take || i.op == OpCode::take_along || i.op == OpCode::put_along;
  if (moves && !(looks_up && regions[1] != pool_.zero())) {
    Operands moved = operands;
    for (std::size_t k = 0; k < moved.size(); ++k)
      if (!looks_up || k == 0) moved[k].term = regions[k];
    return meaning(i, moved, result);
  }
  throw SemanticsError("SP0210", "narrower-domain",
                       "`" + std::string(ir::schema_of(i.op).name) + "` reads elements that may be undefined: a placement leaves them open, and they were divided by, "
                       "or their root or logarithm was taken",
                       "elements that are defined", "padding");
}

// Where the reals leave the operation undefined.
void Semantics::require_defined(const ir::Instruction& i, const Operands& operands) {
  using Kind = solvers::Obligation::Kind;
  for (std::size_t k = 0; k < operands.size(); ++k)
    if (!takes_infinity(i, k)) require_finite(i, operands[k]);
  undefined_here_ = pool_.zero();
  const auto require_of = [&](TermId operand, std::initializer_list<Kind> kinds) {
    if (!is_arbitrary(operand)) {
      for (const Kind kind : kinds) require(i, {kind, operand});
      return;
    }
    undefined_here_ = pool_.by_cases({operand}, [&](const std::vector<TermId>& piece) {
      if (is_arbitrary(piece[0])) return pool_.one();
      for (const Kind kind : kinds) require(i, {kind, piece[0]});
      return pool_.zero();
    });
  };
  switch (i.op) {
    case OpCode::div: return require_of(operands[1].term, {Kind::nonzero});
    case OpCode::reciprocal: return require_of(operands[0].term, {Kind::nonzero});
    case OpCode::sqrt: return require_of(operands[0].term, {Kind::nonnegative});
    case OpCode::log:
    case OpCode::rsqrt: return require_of(operands[0].term, {Kind::nonzero, Kind::nonnegative});
    case OpCode::power:  // 0^e is 0 for e > 0; a momentum of 0 is a decay without memory
      if (operands[0].term == pool_.zero()) return require_of(operands[1].term, {Kind::nonzero, Kind::nonnegative});
      return require_of(operands[0].term, {Kind::nonzero, Kind::nonnegative});
    case OpCode::pow: {
      const ir::Rational exponent = i.attributes.get<ir::Rational>("exponent");
      if (ir::sign(exponent) < 0) require_of(operands[0].term, {Kind::nonzero});
      if (!exponent.is_integer()) require_of(operands[0].term, {Kind::nonnegative});
      return;
    }
    default: return;
  }
}

TermId Semantics::evaluate(const ir::Instruction& i, const Operands& operands, const ir::TensorType& result) {
  unbounded_.reset();
  require_defined(i, operands);
  const TermId term = meaning(i, operands, result);
  if (ir::is_integer(result.dtype) && computes(i)) require_result_fits(i, operands, term, result.dtype);
  return term;
}

namespace {

struct Limits {
  std::int64_t lo, hi;
};

Limits limits_of(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::u8: return {0, 255};
    case ir::DType::i8: return {-128, 127};
    case ir::DType::i16: return {-32768, 32767};
    case ir::DType::i32: return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
    default: return {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
  }
}

[[noreturn]] void does_not_fit(const std::string& what, ir::DType dtype, const std::string& found) {
  const Limits limits = limits_of(dtype);
  throw SemanticsError("SP0211", "integer-overflow", what + " may not fit " + std::string(ir::dtype_name(dtype)),
                       "values in [" + std::to_string(limits.lo) + ", " + std::to_string(limits.hi) + "]", found);
}

}  // namespace

void Semantics::require_fits(const std::string& what, TermId term, ir::DType dtype, const std::function<void()>& without_bounds) {
  const Limits limits = limits_of(dtype);
  pool_.by_cases_under({term}, {}, [&](const std::vector<TermId>& piece, const std::vector<TermId>& guards) {
    const IntegerRange::Interval range = ranges_.of(piece[0], guards);
    if (!range.unknown && range.lo >= limits.lo && range.hi <= limits.hi) return piece[0];
    if (range.undeclared) without_bounds();
    else does_not_fit(what, dtype, range.unknown ? "values without known bounds" : "values in [" + std::to_string(range.lo) + ", " + std::to_string(range.hi) + "]");
    return piece[0];
  });
}

void Semantics::require_held(const std::string& name, TermId term, ir::DType dtype) {
  if (!ir::is_integer(dtype) || dtype == ir::DType::i64) return;
  const std::string what = "`" + name + "`";
  require_fits(what, term, dtype, [&] { does_not_fit(what, dtype, "values without known bounds"); });
}

void Semantics::require_result_fits(const ir::Instruction& i, const Operands& operands, TermId term, ir::DType dtype) {
  const std::string what = "the result of `" + std::string(ir::schema_of(i.op).name) + "`";
  require_fits(what, term, dtype, [&] {
    if (i.op != OpCode::cast) {
      unbounded_ = Unbounded{what, dtype};
      return;
    }
    const Limits from = limits_of(operands[0].type.dtype), to = limits_of(dtype);
    if (ir::is_integer(operands[0].type.dtype) && (from.lo < to.lo || from.hi > to.hi)) does_not_fit(what, dtype, "values without known bounds");
  });
}

// What a loop adds up may be out of bounds on the way, as long as the sum is not: integers wrap around.
void Semantics::require_sum_fits(const std::string& name, TermId term, ir::DType dtype) {
  unbounded_.reset();
  if (!ir::is_integer(dtype)) return;
  require_fits("`" + name + "`, which a loop adds up,", term, dtype, [&] { unbounded_ = Unbounded{"`" + name + "`, which a loop adds up,", dtype}; });
}

void Semantics::know_type(solvers::TensorId tensor, ir::DType dtype) {
  if (dtype == ir::DType::boolean) return ranges_.know(tensor, 0, 1);
  const Limits limits = limits_of(dtype);
  if (dtype != ir::DType::i64) ranges_.know(tensor, limits.lo, limits.hi, true);
}

void Semantics::refuse(const Unbounded& unbounded) {
  does_not_fit(unbounded.what, unbounded.dtype, "values without known bounds, which the reference does not compute in this type");
}

bool Semantics::contains(ir::DType whole, ir::DType part) {
  const Limits a = limits_of(whole), b = limits_of(part);
  return a.lo <= b.lo && b.hi <= a.hi;
}

TermId Semantics::meaning(const ir::Instruction& i, const Operands& operands, const ir::TensorType& result) {
  switch (ir::schema_of(i.op).family) {
    case ir::OpFamily::source: return source(i, result);
    case ir::OpFamily::structure:
      switch (i.op) {
        case OpCode::take:
        case OpCode::take_along:
        case OpCode::scatter_add:
        case OpCode::put_along: return indexed(i, operands, result);
        default: return structure(i, operands, result);
      }
    case ir::OpFamily::elementwise: return elementwise(i, operands);
    case ir::OpFamily::contraction: return contraction(i, operands);
    case ir::OpFamily::communication: return collective(i, operands, result);
    default: break;
  }
  throw SemanticsError("SP0905", "unsupported",
                       "the prover has no rule for `" + std::string(ir::schema_of(i.op).name) + "` yet");
}

TermId Semantics::source(const ir::Instruction& i, const ir::TensorType& result) {
  switch (i.op) {
    case OpCode::constant:
      if (i.attributes.get_or<bool>("negative_infinity", false)) return pool_.apply(solvers::Function::negative_infinity, {});
      return number(i.attributes.get<ir::Rational>("value"));
    case OpCode::table: return table(i, result);
    case OpCode::iota: {
      const auto dim = static_cast<std::size_t>(i.attributes.get<std::int64_t>("dim"));
      return pool_.index_value(pool_.index_var(pool_.element(dim, result.shape[dim])));
    }
    case OpCode::coord: return pool_.index_value(coordinate_index(i.attributes.get<CoordExpr>("value")));
    default: break;
  }
  SHARDPROOF_CHECK(false);
}

// Constants with long fractions (sqrt(2/pi) in 16 digits) would overflow exact products. They become symbols, one per
// magnitude: less is known about them, but nothing wrong.
TermId Semantics::number(ir::Rational value) {
  constexpr std::int64_t kLong = 1'000'000'000;
  const std::int64_t magnitude = value.num < 0 ? ir::checked_mul(value.num, -1) : value.num;
  if (magnitude < kLong * kLong / 1000 && value.den == 1) return pool_.constant(value);
  if (magnitude < kLong && value.den < kLong) return pool_.constant(value);
  const auto [it, added] = literals_.try_emplace({Shape{}, {ir::to_string(ir::Rational(magnitude, value.den))}});
  if (added) it->second = atoms_.opaque({it->first.second[0], {}, false, 0});
  return pool_.scale(pool_.access(it->second, {}), ir::Rational(value.num < 0 ? -1 : 1));
}

TermId Semantics::table(const ir::Instruction& i, const ir::TensorType& result) {
  const auto& values = i.attributes.get<std::vector<ir::Rational>>("values");
  if (std::all_of(values.begin(), values.end(), [&](const ir::Rational& v) { return v == values[0]; })) return number(values[0]);
  std::vector<std::string> key;
  for (const ir::Rational& v : values) key.push_back(ir::to_string(v));
  const auto [it, added] = literals_.try_emplace({result.shape, std::move(key)});
  if (ir::is_integer(result.dtype) && std::all_of(values.begin(), values.end(), [](const ir::Rational& v) { return v.is_integer(); })) {
    const auto [least, greatest] = std::minmax_element(values.begin(), values.end(), [](const ir::Rational& a, const ir::Rational& b) { return a.num < b.num; });
    if (added) it->second = atoms_.opaque({"table" + std::to_string(literals_.size()), result.shape, false, 0});
    ranges_.know(it->second, least->num, greatest->num);
  } else if (added) it->second = atoms_.opaque({"table" + std::to_string(literals_.size()), result.shape, false, 0});
  return pool_.access(it->second, element_indices(result.shape));
}

}  // namespace shardproof::verifier

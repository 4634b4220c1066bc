#include "tests/semantics/program_generator.h"

#include <algorithm>

#include "ir/rational.h"
#include "verifier/execution/tensor.h"

namespace shardproof::semantics_test {

using ir::DType;
using ir::OpCode;
using ir::Rational;
using ir::Shape;
using ir::TensorType;
using ir::ValueId;
using Integers = std::vector<std::int64_t>;

namespace {

std::int64_t axis_size(const ir::Mesh* mesh, const std::string& axis) {
  const auto position = mesh == nullptr ? std::nullopt : mesh->find_axis(axis);
  return position ? mesh->axes[*position].size : 0;
}

}  // namespace

ProgramGenerator::ProgramGenerator(std::mt19937_64& random, const ir::Mesh* mesh)
    : random_(random), mesh_(mesh), builder_(program_, [mesh](const std::string& axis) { return axis_size(mesh, axis); }) {
  if (mesh_ != nullptr)
    for (const ir::MeshAxis& axis : mesh_->axes) variables_.emplace_back(axis.name, axis.size);
}

std::vector<OpCode> ProgramGenerator::supported(bool with_collectives) {
  std::vector<OpCode> result;
  for (const ir::OpSchema& schema : ir::op_table()) {
    switch (schema.family) {
      case ir::OpFamily::source:
      case ir::OpFamily::structure:
      case ir::OpFamily::elementwise:
      case ir::OpFamily::contraction: result.push_back(schema.code); break;
      case ir::OpFamily::communication:
        if (with_collectives && schema.code != OpCode::send && schema.code != OpCode::recv) result.push_back(schema.code);
        break;
      default: break;
    }
  }
  return result;
}

std::int64_t ProgramGenerator::below(std::int64_t count) { return execution::uniform_integer(random_, count); }

std::int64_t ProgramGenerator::between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }

ValueId ProgramGenerator::known(ValueId id, Facts facts) {
  facts_.resize(program_.values.size());
  facts_[static_cast<std::size_t>(id.index)] = facts;
  visible_.push_back(id);
  return id;
}

Shape ProgramGenerator::random_shape(std::size_t least_rank) {
  Shape shape;
  for (std::int64_t rank = std::max(between(0, 3), static_cast<std::int64_t>(least_rank)); rank > 0; --rank) {
    shape.push_back(random_extent());
    if (ir::element_count(shape) > kMostElements) shape.back() = 1;
  }
  return shape;
}

Shape ProgramGenerator::factors(std::int64_t count) {
  Shape shape(static_cast<std::size_t>(between(count > 1 ? 1 : 0, 4)), 1);
  for (std::int64_t prime = 2; count > 1; ++prime) {
    while (count % prime == 0) {
      shape[static_cast<std::size_t>(below(static_cast<std::int64_t>(shape.size())))] *= prime;
      count /= prime;
    }
  }
  return shape;
}

ProgramGenerator::Range ProgramGenerator::coordinate(std::int64_t most) {
  if (variables_.empty() || chance(25)) {
    const std::int64_t value = below(most + 1);
    return {ir::constant_expr(value), value};
  }
  const auto [name, extent] = pick(variables_);
  Range range{ir::variable_expr(name), extent - 1};
  if (chance(30)) {  // two variables as digits of one number
    const auto [other, other_extent] = pick(variables_);
    if (other != name) range = {other_extent * range.expr + ir::variable_expr(other), extent * other_extent - 1};
  }
  if (range.most > most || chance(25)) {
    const std::int64_t divisor = most >= 1 && chance(50) ? between(1, most + 1) : most + 1;
    if (chance(50)) range = {ir::modulo(range.expr, divisor), std::min(divisor - 1, range.most)};
    else range = {ir::floor_div(range.expr, range.most / (most + 1) + 1), range.most / (range.most / (most + 1) + 1)};
  }
  if (range.most > 0 && chance(40)) {
    const std::int64_t factor = between(1, most / range.most);
    range = {factor * range.expr, factor * range.most};
  }
  const std::int64_t offset = below(most - range.most + 1);
  if (chance(30)) return {ir::constant_expr(offset + range.most) + (-1) * range.expr, offset + range.most};  // reversed
  return {range.expr + ir::constant_expr(offset), offset + range.most};
}

ValueId ProgramGenerator::new_real(Shape shape, bool positive) {
  const ValueId id = builder_.input("x" + std::to_string(inputs_.size()), {DType::f32, std::move(shape)});
  inputs_.push_back({id, 0, positive});
  Facts facts;
  facts.positive = positive;
  return known(id, facts);
}

ValueId ProgramGenerator::new_integer(Shape shape, std::int64_t limit) {
  const ValueId id = builder_.input("n" + std::to_string(inputs_.size()), {DType::i64, std::move(shape)});
  inputs_.push_back({id, limit, false});
  Facts facts;
  facts.below = limit;
  facts.index = true;
  return known(id, facts);
}

std::optional<ValueId> ProgramGenerator::find(const Predicate& fits, const Shape* wanted) {
  std::vector<ValueId> candidates;
  for (ValueId id : visible_)
    if ((wanted == nullptr || shape(id) == *wanted) && fits(facts(id), program_.value(id).type)) candidates.push_back(id);
  if (candidates.empty() || chance(15)) return std::nullopt;
  // Recent values first: programs grow deep.
  return chance(50) ? candidates.back() : pick(candidates);
}

ValueId ProgramGenerator::real(const Shape* wanted, std::size_t least_rank) {
  const auto found = find([&](const Facts& f, const TensorType& t) { return ir::is_float(t.dtype) && !f.infinite && t.shape.size() >= least_rank; }, wanted);
  return found ? *found : new_real(wanted != nullptr ? *wanted : random_shape(least_rank), chance(30));
}

ValueId ProgramGenerator::positive(const Shape* wanted) {
  const auto found = find([](const Facts& f, const TensorType& t) { return ir::is_float(t.dtype) && f.positive; }, wanted);
  return found ? *found : new_real(wanted != nullptr ? *wanted : random_shape(), true);
}

ValueId ProgramGenerator::exact(const Shape* wanted) {
  const auto found = find([](const Facts& f, const TensorType& t) { return ir::is_float(t.dtype) && !f.infinite && f.degree <= 4; }, wanted);
  return found ? *found : new_real(wanted != nullptr ? *wanted : random_shape(), false);
}

ValueId ProgramGenerator::score(const Shape* wanted, std::size_t least_rank) {
  const auto found = find([&](const Facts& f, const TensorType& t) { return ir::is_float(t.dtype) && f.infinite && t.shape.size() >= least_rank; }, wanted);
  return found && chance(60) ? *found : real(wanted, least_rank);
}

ValueId ProgramGenerator::integer(const Shape* wanted, std::int64_t limit) {
  const auto found = find([&](const Facts& f, const TensorType& t) { return ir::is_integer(t.dtype) && f.index && f.below > 0 && f.below <= limit; }, wanted);
  return found ? *found : new_integer(wanted != nullptr ? *wanted : random_shape(), between(1, limit));
}

ValueId ProgramGenerator::condition(const Shape* wanted, bool index) {
  const auto found = find([&](const Facts& f, const TensorType& t) { return t.dtype == DType::boolean && (f.index || !index); }, wanted);
  if (found) return *found;
  Facts facts;
  const bool of_indices = index || chance(50);
  const Shape shape = wanted != nullptr ? *wanted : random_shape();
  const ValueId a = of_indices ? integer(&shape, 1000) : exact(&shape);
  const ValueId b = of_indices ? integer(&shape, 1000) : exact(&shape);
  facts.index = of_indices;
  return known(builder_.op(OpCode::compare, {a, b}, {{"direction", pick(std::vector<std::string>{"eq", "ne", "lt", "le", "gt", "ge"})}}), facts);
}

ValueId ProgramGenerator::anything(std::size_t least_rank) {
  const auto found = find([&](const Facts&, const TensorType& t) { return t.shape.size() >= least_rank; }, nullptr);
  return found ? *found : chance(80) ? new_real(random_shape(least_rank), chance(30)) : new_integer(random_shape(least_rank), between(1, 6));
}

ValueId ProgramGenerator::append(OpCode op) {
  switch (ir::schema_of(op).family) {
    case ir::OpFamily::source: return source(op);
    case ir::OpFamily::structure:
      switch (op) {
        case OpCode::slice: return slice();
        case OpCode::broadcast: return broadcast();
        case OpCode::take:
        case OpCode::take_along:
        case OpCode::scatter_add:
        case OpCode::put_along: return indexed(op);
        default: return structure(op);
      }
    case ir::OpFamily::elementwise:
      switch (op) {
        case OpCode::add:
        case OpCode::mul:
        case OpCode::max:
        case OpCode::min:
        case OpCode::sub:
        case OpCode::div: return n_ary(op);
        case OpCode::pow:
        case OpCode::power: return op == OpCode::pow ? pow() : known(builder_.op(op, {[&] {
          const Shape s = random_shape();
          const ValueId base = positive(&s);
          return std::vector<ValueId>{base, integer(&s, 5)};
        }()}), {0, kInexact, true, false, false});
        case OpCode::compare: return compare();
        case OpCode::select: return select();
        case OpCode::logical_and:
        case OpCode::logical_or:
        case OpCode::logical_not: return logical(op);
        default: return unary(op);
      }
    case ir::OpFamily::contraction: return op == OpCode::einsum ? einsum() : reduction(op);
    case ir::OpFamily::communication: return collective(op);
    default: break;
  }
  SHARDPROOF_CHECK(false);
}

ValueId ProgramGenerator::unary(OpCode op) {
  Facts result;
  switch (op) {
    case OpCode::log:
    case OpCode::sqrt:
    case OpCode::rsqrt:
    case OpCode::reciprocal: {
      const ValueId x = positive();
      result.degree = kInexact;
      result.positive = op != OpCode::log;
      return known(builder_.op(op, {x}), result);
    }
    case OpCode::neg:
    case OpCode::abs: {
      const bool whole = chance(20);
      const ValueId x = whole ? integer(nullptr, 6) : real();
      result.degree = facts(x).degree;
      result.index = whole && op == OpCode::neg;
      result.positive = op == OpCode::abs && facts(x).positive;
      return known(builder_.op(op, {x}), result);
    }
    case OpCode::stop_gradient: {
      const ValueId x = anything(0);
      const Facts same = facts(x);
      return known(builder_.op(op, {x}), same);
    }
    case OpCode::exp: {
      const ValueId x = score();
      result.degree = kInexact;
      result.positive = !facts(x).infinite;
      return known(builder_.op(op, {x}), result);
    }
    default: {
      const ValueId x = real();
      result.degree = kInexact;
      result.positive = op == OpCode::sigmoid;
      return known(builder_.op(op, {x}), result);
    }
  }
}

ValueId ProgramGenerator::n_ary(OpCode op) {
  const bool binary = op == OpCode::sub || op == OpCode::div;
  const std::int64_t count = binary ? 2 : between(1, 3);
  Facts result{0, op == OpCode::mul ? 0 : 1, true, false, false};
  std::vector<ValueId> operands;
  if (op != OpCode::div && chance(20)) {
    const Shape s = random_shape();
    result = {0, 1, false, false, op == OpCode::add || op == OpCode::sub};
    std::int64_t limit = 1;
    for (std::int64_t i = 0; i < count; ++i) {
      operands.push_back(integer(&s, 8));
      limit += facts(operands.back()).below - 1;
    }
    if (op == OpCode::add) result.below = limit;
    return known(builder_.op(op, operands), result);
  }
  const bool allows_infinity = (op == OpCode::max || op == OpCode::add) && chance(30);
  operands.push_back(allows_infinity ? score() : op == OpCode::div ? real() : chance(30) ? positive() : real());
  const Shape s = shape(operands[0]);
  while (static_cast<std::int64_t>(operands.size()) < count)
    operands.push_back(op == OpCode::div ? positive(&s) : allows_infinity && op == OpCode::max ? score(&s) : real(&s));
  bool all_infinite = true, some_infinite = false;
  for (ValueId x : operands) {
    const Facts& f = facts(x);
    result.degree = op == OpCode::mul ? result.degree + f.degree : std::max(result.degree, f.degree);
    result.positive = result.positive && f.positive;
    all_infinite = all_infinite && f.infinite;
    some_infinite = some_infinite || f.infinite;
  }
  result.infinite = op == OpCode::max ? all_infinite : some_infinite;
  if (op == OpCode::sub) result.positive = false;
  if (op == OpCode::div) result.degree = kInexact;
  if (op == OpCode::mul && chance(20) && !some_infinite) {  // a square
    operands.push_back(operands[0]);
    result.degree += facts(operands[0]).degree;
    result.positive = result.positive && operands.size() > 1;
  }
  return known(builder_.op(op, operands), result);
}

ValueId ProgramGenerator::pow() {
  const Rational exponent = pick(std::vector<Rational>{Rational(0), Rational(1), Rational(2), Rational(3), Rational(-1), Rational(-2),
                                                       Rational(1, 2), Rational(-1, 2), Rational(3, 2), Rational(-3, 2), Rational(1, 3)});
  const bool polynomial = exponent.is_integer() && exponent.num >= 0;
  const ValueId x = polynomial && chance(60) ? real() : positive();
  const Facts f = facts(x);
  Facts result;
  result.degree = polynomial ? std::min(kInexact, f.degree * static_cast<int>(std::max<std::int64_t>(1, exponent.num))) : kInexact;
  result.positive = f.positive;
  return known(builder_.op(OpCode::pow, {x}, {{"exponent", exponent}}), result);
}

ValueId ProgramGenerator::compare() {
  Facts result;
  ValueId a, b;
  std::vector<std::string> directions{"eq", "ne", "lt", "le", "gt", "ge"};
  const std::int64_t kind = below(5);
  if (kind == 0) {
    a = condition(nullptr, false);
    const Shape s = shape(a);
    b = condition(&s, false);
    directions.resize(2);
    result.index = facts(a).index && facts(b).index;
  } else if (kind <= 2) {
    a = integer(nullptr, 8);
    const Shape s = shape(a);
    b = integer(&s, 8);
    result.index = true;
  } else {
    a = exact();
    const Shape s = shape(a);
    b = chance(20) ? a : exact(&s);
  }
  return known(builder_.op(OpCode::compare, {a, b}, {{"direction", pick(directions)}}), result);
}

ValueId ProgramGenerator::select() {
  const bool masked = chance(40);
  const ValueId c = condition(nullptr, masked);
  const Shape s = shape(c);
  Facts result;
  ValueId a = real(&s), b = real(&s);
  if (masked) {
    result.infinite = true;
    b = known(builder_.typed(OpCode::constant, {DType::f32, s}, {{"negative_infinity", true}}), {0, 1, false, true, false});
  }
  result.degree = std::max(facts(a).degree, facts(b).degree);
  result.positive = !masked && facts(a).positive && facts(b).positive;
  if (chance(50)) std::swap(a, b);
  return known(builder_.op(OpCode::select, {c, a, b}), result);
}

ValueId ProgramGenerator::logical(OpCode op) {
  const ValueId a = condition(nullptr, false);
  if (op == OpCode::logical_not) {
    const Facts same = facts(a);
    return known(builder_.op(op, {a}), same);
  }
  const Shape s = shape(a);
  const ValueId b = condition(&s, false);
  Facts result;
  result.index = facts(a).index && facts(b).index;
  return known(builder_.op(op, {a, b}), result);
}

ValueId ProgramGenerator::einsum() {
  const std::string letters = "abcdefghijklmnopqrstuvwxyz";
  std::vector<ValueId> operands;
  std::vector<std::pair<char, std::int64_t>> labels;
  std::string spec;
  std::int64_t work = 1;
  Facts result{0, 0, true, false, false};
  for (std::int64_t count = between(1, 3); count > 0; --count) {
    ValueId x;
    std::string own;
    if (operands.empty()) {
      x = real();
      if (program_.value(x).type.dtype != DType::f32) x = new_real(random_shape(), false);  // one dtype for all
      for (std::int64_t extent : shape(x)) {
        own += letters[labels.size()];
        labels.emplace_back(own.back(), extent);
        work *= extent;
      }
    } else {
      Shape s;
      for (const auto& [label, extent] : labels) {
        if (s.size() == 3 || !chance(50)) continue;
        const auto at = static_cast<std::size_t>(below(static_cast<std::int64_t>(s.size()) + 1));
        own.insert(own.begin() + static_cast<std::ptrdiff_t>(at), label);
        s.insert(s.begin() + static_cast<std::ptrdiff_t>(at), extent);
      }
      if (labels.size() < letters.size() && s.size() < 3 && chance(60)) {
        const std::int64_t extent = work > 100 ? 1 : between(1, 4);
        labels.emplace_back(letters[labels.size()], extent);
        own += labels.back().first;
        s.push_back(extent);
        work *= extent;
      }
      const auto found = find([](const Facts& f, const TensorType& t) { return t.dtype == DType::f32 && !f.infinite; }, &s);
      x = found ? *found : new_real(s, chance(30));
    }
    result.degree += facts(x).degree;
    result.positive = result.positive && facts(x).positive;
    spec += (operands.empty() ? "" : ",") + own;
    operands.push_back(x);
  }
  std::string kept;
  std::int64_t elements = 1;
  for (const auto& [label, extent] : labels) {
    if (!chance(50) || elements * extent > 2 * kMostElements || kept.size() == 4) continue;
    kept.insert(kept.begin() + below(static_cast<std::int64_t>(kept.size()) + 1), label);
    elements *= extent;
  }
  return known(builder_.op(OpCode::einsum, operands, {{"spec", spec + "->" + kept}}), result);
}

ValueId ProgramGenerator::reduction(OpCode op) {
  const ValueId x = op == OpCode::reduce_max ? score(nullptr, 1) : real(nullptr, chance(80) ? 1 : 0);
  Integers dims;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(shape(x).size()); ++d)
    if (chance(50)) dims.insert(dims.begin() + below(static_cast<std::int64_t>(dims.size()) + 1), d);
  const Facts same = facts(x);
  return known(builder_.op(op, {x}, {{"dims", dims}}), same);
}

}  // namespace shardproof::semantics_test

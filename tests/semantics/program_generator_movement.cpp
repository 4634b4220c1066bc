// Sources and ops that move elements, of the program generator.
#include <algorithm>

#include "tests/semantics/program_generator.h"

namespace shardproof::semantics_test {

using ir::DType;
using ir::OpCode;
using ir::Rational;
using ir::Shape;
using ir::TensorType;
using ir::ValueId;
using Integers = std::vector<std::int64_t>;

ValueId ProgramGenerator::source(OpCode op) {
  const Shape shape = random_shape(op == OpCode::iota ? 1 : 0);
  Facts facts;
  switch (op) {
    case OpCode::constant: {
      if (chance(15)) {
        facts.infinite = true;
        return known(builder_.typed(op, {DType::f32, shape}, {{"negative_infinity", true}}), facts);
      }
      if (chance(25)) {
        const std::int64_t value = between(-3, 6);
        facts.below = value >= 0 ? value + 1 : 0;
        facts.index = true;
        return known(builder_.typed(op, {DType::i64, shape}, {{"value", Rational(value)}}), facts);
      }
      // The last two are long: the prover makes symbols of them.
      const Rational value = pick(std::vector<Rational>{Rational(0), Rational(1), Rational(-3, 2), Rational(5, 8), Rational(2), Rational(1, 3),
                                                        Rational(7978845608028654, 10000000000000000), Rational(-7978845608028654, 10000000000000000)});
      facts.positive = ir::sign(value) > 0;
      if (8 % value.den != 0) facts.degree = kInexact;
      return known(builder_.typed(op, {DType::f32, shape}, {{"value", value}}), facts);
    }
    case OpCode::table: {
      std::vector<Rational> values;
      const bool equal = chance(20);
      for (std::int64_t i = ir::element_count(shape); i > 0; --i)
        values.push_back(equal && !values.empty() ? values[0] : Rational(between(-12, 12), 4));
      return known(builder_.typed(op, {DType::f32, shape}, {{"values", values}}), facts);
    }
    case OpCode::iota: {
      const std::int64_t dim = below(static_cast<std::int64_t>(shape.size()));
      facts.below = shape[static_cast<std::size_t>(dim)];
      facts.index = true;
      return known(builder_.typed(op, {DType::i64, shape}, {{"dim", dim}}), facts);
    }
    case OpCode::coord: {
      const Range range = coordinate(between(0, 12));
      facts.below = range.most + 1;
      facts.index = true;
      return known(builder_.typed(op, {DType::i64, {}}, {{"value", range.expr}}), facts);
    }
    default: break;
  }
  SHARDPROOF_CHECK(false);
}

ValueId ProgramGenerator::structure(OpCode op) {
  const ValueId x = anything(op == OpCode::concat || op == OpCode::pad ? 1 : 0);
  const TensorType type = program_.value(x).type;
  Facts known_facts = facts(x);
  const auto rank = static_cast<std::int64_t>(type.shape.size());
  switch (op) {
    case OpCode::reshape: return known(builder_.op(op, {x}, {{"shape", factors(ir::element_count(type.shape))}}), known_facts);
    case OpCode::transpose: {
      Integers perm;
      for (std::int64_t d = 0; d < rank; ++d) perm.insert(perm.begin() + below(d + 1), d);
      return known(builder_.op(op, {x}, {{"perm", perm}}), known_facts);
    }
    case OpCode::cast: {
      if (ir::is_float(type.dtype)) return known(builder_.op(op, {x}, {{"dtype", std::string("bf16")}}), known_facts);
      known_facts.positive = false;
      known_facts.below = 0;
      return known(builder_.op(op, {x}, {{"dtype", std::string("f32")}}), known_facts);
    }
    case OpCode::concat: {
      const std::int64_t dim = below(rank);
      std::vector<ValueId> operands{x};
      while (chance(60) && operands.size() < 4) {
        Shape other = type.shape;
        other[static_cast<std::size_t>(dim)] = random_extent();
        const auto same = find([&](const Facts&, const TensorType& t) { return t.dtype == type.dtype; }, &other);
        ValueId next = x;
        if (same) next = *same;
        else if (type.dtype == DType::f32) next = new_real(other, chance(30));
        else if (type.dtype == DType::i64) next = new_integer(other, between(1, 6));
        const Facts f = facts(next);
        known_facts.below = known_facts.below > 0 && f.below > 0 ? std::max(known_facts.below, f.below) : 0;
        known_facts.degree = std::max(known_facts.degree, f.degree);
        known_facts.positive = known_facts.positive && f.positive;
        known_facts.infinite = known_facts.infinite || f.infinite;
        known_facts.index = known_facts.index && f.index;
        operands.insert(operands.begin() + below(static_cast<std::int64_t>(operands.size()) + 1), next);
      }
      return known(builder_.op(op, operands, {{"dim", dim}}), known_facts);
    }
    case OpCode::pad: {
      Rational value(0);
      if (type.dtype == DType::boolean) value = Rational(below(2));
      else value = ir::is_float(type.dtype) ? Rational(between(-4, 4), 2) : Rational(below(4));
      known_facts.positive = known_facts.positive && ir::sign(value) > 0;
      if (known_facts.below > 0) known_facts.below = std::max(known_facts.below, value.num + 1);
      return known(builder_.op(op, {x}, {{"dim", below(rank)}, {"low", below(3)}, {"high", below(3)}, {"value", value}}), known_facts);
    }
    default: break;
  }
  SHARDPROOF_CHECK(false);
}

ValueId ProgramGenerator::slice() {
  const ValueId x = anything(1);
  const Shape from = shape(x);
  const Facts known_facts = facts(x);
  const std::int64_t dim = below(static_cast<std::int64_t>(from.size()));
  const std::int64_t extent = from[static_cast<std::size_t>(dim)];
  const std::int64_t size = between(1, extent);
  const std::int64_t stride = size > 1 ? between(1, (extent - 1) / (size - 1)) : between(1, 3);
  const Range start = coordinate(extent - 1 - (size - 1) * stride);
  if (stride == 1 && chance(50))
    return known(builder_.op(OpCode::slice, {x}, {{"dim", dim}, {"start", start.expr}, {"size", size}}), known_facts);
  return known(builder_.op(OpCode::slice, {x}, {{"dim", dim}, {"start", start.expr}, {"size", size}, {"stride", stride}}), known_facts);
}

ValueId ProgramGenerator::broadcast() {
  const ValueId x = anything(0);
  const Shape from = shape(x);
  Shape to;
  Integers dims(from.size());
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < from.size(); ++d) order.insert(order.begin() + below(static_cast<std::int64_t>(d) + 1), d);
  std::int64_t room = 2 * kMostElements / ir::element_count(from);
  const auto widen = [&] {
    const std::int64_t extent = std::max<std::int64_t>(1, std::min(random_extent(), room));
    room /= extent;
    return extent;
  };
  for (std::size_t d : order) {
    while (chance(35)) to.push_back(widen());
    dims[d] = static_cast<std::int64_t>(to.size());
    to.push_back(from[d] == 1 && chance(60) ? widen() : from[d]);
  }
  while (chance(35)) to.push_back(widen());
  return known(builder_.op(OpCode::broadcast, {x}, {{"shape", to}, {"dims", dims}}), facts(x));
}

ValueId ProgramGenerator::indexed(OpCode op) {
  Facts result;
  switch (op) {
    case OpCode::take: {
      const ValueId x = real(nullptr, 1);
      const Shape from = shape(x);
      const std::int64_t dim = below(static_cast<std::int64_t>(from.size()));
      Shape ids_shape = random_shape();
      if (ids_shape.size() == 3) ids_shape.pop_back();
      result = facts(x);
      const ValueId ids = integer(chance(50) ? nullptr : &ids_shape, from[static_cast<std::size_t>(dim)]);
      if (dim == 0 && chance(50)) return known(builder_.op(op, {x, ids}), result);
      return known(builder_.op(op, {x, ids}, {{"dim", dim}}), result);
    }
    case OpCode::take_along: {
      const ValueId x = real(nullptr, 1);
      Shape outer = shape(x);
      const std::int64_t extent = outer.back();
      outer.pop_back();
      result = facts(x);
      return known(builder_.op(op, {x, integer(&outer, extent)}), result);
    }
    case OpCode::scatter_add: {
      const std::int64_t size = random_extent();
      const ValueId ids = integer(nullptr, size);
      Shape updates, prefix = random_shape(), suffix = random_shape();
      if (prefix.size() > 1) prefix.resize(1);
      if (suffix.size() > 1) suffix.resize(1);
      updates = prefix;
      updates.insert(updates.end(), shape(ids).begin(), shape(ids).end());
      updates.insert(updates.end(), suffix.begin(), suffix.end());
      const ValueId x = real(&updates);
      result.degree = facts(x).degree;
      const auto dim = static_cast<std::int64_t>(prefix.size());
      if (dim == 0 && chance(50)) return known(builder_.op(op, {x, ids}, {{"size", size}}), result);
      return known(builder_.op(op, {x, ids}, {{"dim", dim}, {"size", size}}), result);
    }
    case OpCode::put_along: {
      const std::int64_t size = random_extent();
      const ValueId x = real();
      const Shape s = shape(x);
      result.degree = facts(x).degree;
      return known(builder_.op(op, {x, integer(&s, size)}, {{"size", size}}), result);
    }
    default: break;
  }
  SHARDPROOF_CHECK(false);
}

}  // namespace shardproof::semantics_test

// Steps on elements, and those that only move them.
#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <utility>

#include "attack/generator.h"

namespace shardproof::attack {

namespace {

constexpr int kLargestDegree = 8;
constexpr std::size_t kLargestRank = 4;
constexpr std::int64_t kLargestTensor = 400;

std::int64_t dimension(std::size_t d) {
  return static_cast<std::int64_t>(d);
}

ir::Rational small_number(Dice& dice) {
  return ir::Rational((dice.chance(30) ? -1 : 1) * (1 + dice.below(5)), 1 + dice.below(4));
}

}  // namespace

void Generator::step() {
  static constexpr std::array kSteps = {
      &Generator::unary,     &Generator::unary,  &Generator::binary, &Generator::binary,   &Generator::binary,       &Generator::scale,
      &Generator::mask,      &Generator::mask,   &Generator::reduce, &Generator::reduce,   &Generator::contract,     &Generator::contract,
      &Generator::contract,  &Generator::mean,   &Generator::slice,  &Generator::broadcast, &Generator::reshape,     &Generator::transpose,
      &Generator::concat,    &Generator::pad,    &Generator::look_up, &Generator::scatter, &Generator::along,        &Generator::soft_maximum,
      &Generator::normalise, &Generator::loss,   &Generator::gate,   &Generator::attend,   &Generator::rotate,       &Generator::microbatches,
      &Generator::contract,  &Generator::microbatches};
  for (int tries = 0; tries < 50; ++tries)
    if ((this->*dice_.one_of(kSteps))()) return;
}

Value Generator::both(OpCode op, const Values& operands, ir::AttrList attributes, ir::Shape shape, Layout layout) {
  std::vector<ValueId> wanted, made;
  Value result;
  result.degree = 0;
  for (const Value& operand : operands) {
    wanted.push_back(operand.reference);
    made.push_back(operand.plan.id);
    result.degree = std::max(result.degree, operand.degree);
  }
  result.reference = reference_.op(op, wanted, attributes);
  result.plan = {plan_.builder().op(op, made, attributes), std::move(shape), std::move(layout)};
  return result;
}

Layout Generator::align(Values& operands, Linear linear) {
  if (operands.size() > 1) {
    for (Value& operand : operands)
      for (std::size_t d = 0; d < shape(operand).size(); ++d)
        if (!operand.plan.layout.dims[d].offsets.empty()) operand.plan = plan_.gathered(operand.plan, d);
  }
  std::size_t first = static_cast<std::size_t>(dice_.below(static_cast<std::int64_t>(operands.size())));
  if (linear == Linear::in_first && dice_.chance(70)) first = 0;
  if (linear == Linear::in_second && dice_.chance(70)) first = 1;
  const bool may_be_partial = linear == Linear::in_all || (linear == Linear::in_first && first == 0) || (linear == Linear::in_second && first == 1);
  Layout layout = operands[first].plan.layout;
  if (!may_be_partial || layout.reduce != ir::ReduceKind::sum || dice_.chance(30)) {
    layout.partial.clear();
    layout.reduce = ir::ReduceKind::sum;
  }
  const bool uneven = std::ranges::any_of(layout.dims, [](const ir::DimLayout& dim) { return !dim.offsets.empty(); });
  if (!uneven && dice_.chance(operands.size() > 1 ? 25 : 10)) layout.dims = plan_.random_layout(shape(operands[first]), layout.partial, dice_.chance(10) ? PlanWriter::Kind::odd : PlanWriter::Kind::blocks).dims;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    Layout own = layout;
    if (linear != Linear::in_all && i != first) own.partial.clear();
    operands[i] = placed(operands[i], own);
  }
  return layout;
}

Value Generator::elementwise(OpCode op, Values operands, ir::AttrList attributes, Linear linear) {
  const Layout layout = align(operands, linear);
  return both(op, operands, attributes, shape(operands[0]), layout);
}

Value Generator::scaled(const Value& v, ir::Rational factor) {
  Value result = elementwise(OpCode::mul, {v, constant(shape(v), factor)}, {}, Linear::in_first);
  result.positive = v.positive && ir::sign(factor) > 0;
  return result;
}

bool Generator::unary() {
  using enum OpCode;
  static constexpr std::array kAnywhere = {neg, stop_gradient, tanh, erf, sigmoid, sin, cos, abs, silu, gelu_tanh, gelu_erf, exp};
  static constexpr std::array kPositive = {log, sqrt, rsqrt, reciprocal, pow};
  Value v = pick();
  if (dice_.chance(35)) {
    if (2 * v.degree > kLargestDegree) return false;
    const OpCode op = dice_.one_of(kPositive);
    v = positive(v);
    static constexpr std::array<std::int64_t, 4> kNumerators = {-1, 1, -3, 2};
    Value result = op == pow ? elementwise(op, {v}, {{"exponent", ir::Rational(dice_.one_of(kNumerators), 2)}}) : elementwise(op, {v});
    result.positive = op != log;
    keep(result);
    return true;
  }
  const OpCode op = dice_.one_of(kAnywhere);
  const bool grows = op == exp || op == sigmoid || op == silu || op == gelu_tanh || op == tanh;
  if (grows && v.degree > 2) return false;
  Value result = elementwise(op, {v}, {}, op == neg || op == stop_gradient ? Linear::in_all : Linear::in_none);
  result.positive = op == exp || op == sigmoid || (op == stop_gradient && v.positive);
  if (grows) result.degree = 3;
  keep(result);
  return true;
}

bool Generator::binary() {
  using enum OpCode;
  static constexpr std::array kOps = {add, add, sub, mul, mul, max, min, div};
  const OpCode op = dice_.one_of(kOps);
  const Value a = pick();
  Values operands = {a, like(a)};
  if (op == div) {
    if (2 * operands[1].degree + a.degree > kLargestDegree) return false;
    operands[1] = positive(operands[1]);
  } else if (op != sub && dice_.chance(20)) {
    operands.push_back(like(a));
  }
  int degree = 0;
  for (const Value& v : operands) degree += v.degree;
  if ((op == mul || op == div) && degree > kLargestDegree) return false;
  const Linear linear = op == add || op == sub ? Linear::in_all : op == div ? Linear::in_first : op == mul ? Linear::in_second : Linear::in_none;
  Value result = elementwise(op, operands, {}, linear);
  if (op == mul || op == div) result.degree = degree;
  result.positive = op != sub && std::ranges::all_of(operands, &Value::positive);
  keep(result);
  return true;
}

bool Generator::scale() {
  keep(scaled(pick(), small_number(dice_)));
  return true;
}

// ---- conditions

Value Generator::condition(const Value& v) {
  const ir::Shape& s = shape(v);
  static constexpr std::array<const char*, 6> kDirections = {"eq", "ne", "lt", "le", "gt", "ge"};
  const std::string direction = dice_.one_of(kDirections);
  const auto number = [&](std::int64_t value, ir::DType dtype) {
    const Layout layout = plan_.random_layout(s, {});
    Value c;
    c.reference = reference_.typed(OpCode::constant, {dtype, s}, {{"value", ir::Rational(value)}});
    c.plan = {plan_.fill(local_shape(layout), value, dtype), s, layout};
    return c;
  };
  const auto compared = [&](const Value& a, const Value& b) { return elementwise(OpCode::compare, {a, b}, {{"direction", direction}}); };
  const std::int64_t choice = dice_.below(10);
  if (choice < 2 && !s.empty()) {
    const std::int64_t below = 2 + dice_.below(4);
    return compared(indices(s, below), number(dice_.below(below), ir::DType::i32));
  }
  if (choice < 4 || s.empty()) return compared(v, like(v));
  const auto d = static_cast<std::size_t>(dice_.below(dimension(s.size())));
  if (choice < 7 && s.size() > 1) return compared(iota(s, d), iota(s, (d + 1) % s.size()));
  return compared(iota(s, d), number(dice_.below(s[d]), ir::DType::i64));
}

bool Generator::mask() {
  const Value v = pick();
  Value where = condition(v);
  if (dice_.chance(20)) where = elementwise(OpCode::logical_not, {where});
  if (dice_.chance(25)) where = elementwise(dice_.chance(50) ? OpCode::logical_and : OpCode::logical_or, {where, condition(v)});
  // Nothing is a summand of nothing.
  const bool zero = dice_.chance(50);
  Values operands = {where, v, zero ? constant(shape(v), 0) : like(v)};
  Value result = elementwise(OpCode::select, operands, {}, zero ? Linear::in_second : Linear::in_none);
  result.positive = false;
  keep(result);
  return true;
}

// ---- shapes

Value Generator::spread(const Value& v, const ir::Shape& to, const Ints& dims) {
  const Value x = v.plan.layout.reduce == ir::ReduceKind::sum || dice_.chance(50) ? v : settled(v);
  Layout layout = plan_.random_layout(to, axes_of(x.plan.layout));
  for (std::size_t d = 0; d < to.size(); ++d) {
    const bool clash = std::ranges::any_of(axes_of(layout.dims[d]), [&](const std::string& axis) { return uses(x.plan.layout.partial, axis); });
    if (clash) layout.dims[d] = whole(to[d]);
  }
  for (std::size_t i = 0; i < dims.size(); ++i) layout.dims[static_cast<std::size_t>(dims[i])] = x.plan.layout.dims[i];
  layout.partial = x.plan.layout.partial;
  layout.reduce = x.plan.layout.reduce;
  Value result = x;
  result.reference = reference_.op(OpCode::broadcast, {x.reference}, {{"shape", Ints(to)}, {"dims", dims}});
  result.plan.id = plan_.builder().op(OpCode::broadcast, {x.plan.id}, {{"shape", Ints(local_shape(layout))}, {"dims", dims}});
  result.plan.shape = to;
  result.plan.layout = layout;
  return result;
}

bool Generator::broadcast() {
  const Value v = pick();
  if (shape(v).size() + 1 > kLargestRank || ir::element_count(shape(v)) > kLargestTensor / 6) return false;
  ir::Shape to = shape(v);
  const std::int64_t added = dice_.below(dimension(to.size()) + 1);
  to.insert(to.begin() + added, random_shape(1)[0]);
  Ints dims;
  for (std::size_t d = 0; d < to.size(); ++d)
    if (dimension(d) != added) dims.push_back(dimension(d));
  keep(spread(v, to, dims));
  return true;
}

// Two dimensions become one, whose digits are theirs; or one becomes two, where no digit is cut.
bool Generator::reshape() {
  Value v = pick();
  const auto rank = dimension(shape(v).size());
  if (rank == 0) return false;
  const auto plain = [&](std::size_t d) {
    const ir::DimLayout& dim = v.plan.layout.dims[d];
    if (has_surplus(dim) || dim.permutation != ir::Permutation::none) v = rounded(v, d);
  };
  ir::Shape to = shape(v);
  Layout layout;
  if (rank > 1 && dice_.chance(50)) {
    const auto d = static_cast<std::size_t>(dice_.below(rank - 1));
    plain(d);
    plain(d + 1);
    layout = v.plan.layout;
    std::vector<ir::Digit> digits = layout.dims[d].digits;
    std::ranges::copy(layout.dims[d + 1].digits, std::back_inserter(digits));
    layout.dims[d] = of_digits(digits);
    layout.dims.erase(layout.dims.begin() + dimension(d) + 1);
    to[d] *= to[d + 1];
    to.erase(to.begin() + dimension(d) + 1);
  } else {
    const auto d = static_cast<std::size_t>(dice_.below(rank));
    static constexpr std::array<std::int64_t, 2> kFactors = {2, 3};
    const std::int64_t major = dice_.one_of(kFactors);
    if (to[d] % major != 0 || to[d] == major || static_cast<std::size_t>(rank) == kLargestRank) return false;
    plain(d);
    std::vector<ir::Digit> first, second;
    std::int64_t left = major;
    bool cut = false;  // an axis would be
    for (const ir::Digit& digit : v.plan.layout.dims[d].digits) {
      if (left == 1) {
        second.push_back(digit);
      } else if (left % digit.size == 0) {
        first.push_back(digit);
        left /= digit.size;
      } else if (digit.is_local() && digit.size % left == 0) {
        first.push_back({"", 1, left});
        second.push_back({"", 1, digit.size / left});
        left = 1;
      } else {
        cut = true;
        break;
      }
    }
    if (cut) {
      v = rounded(v, d);
      first = {{"", 1, major}};
      second = {{"", 1, to[d] / major}};
    }
    layout = v.plan.layout;
    layout.dims[d] = of_digits(first);
    layout.dims.insert(layout.dims.begin() + dimension(d) + 1, of_digits(second));
    to[d] /= major;
    to.insert(to.begin() + dimension(d), major);
  }
  Value result = v;
  result.reference = reference_.op(OpCode::reshape, {v.reference}, {{"shape", Ints(to)}});
  result.plan = {plan_.builder().op(OpCode::reshape, {v.plan.id}, {{"shape", Ints(local_shape(layout))}}), to, layout};
  keep(result);
  return true;
}

bool Generator::transpose() {
  const Value v = pick();
  if (shape(v).size() < 2) return false;
  Ints perm(shape(v).size());
  std::iota(perm.begin(), perm.end(), std::int64_t{0});
  dice_.shuffle(perm);
  Layout layout = v.plan.layout;
  ir::Shape to;
  for (std::size_t d = 0; d < perm.size(); ++d) {
    layout.dims[d] = v.plan.layout.dims[static_cast<std::size_t>(perm[d])];
    to.push_back(shape(v)[static_cast<std::size_t>(perm[d])]);
  }
  Value result = both(OpCode::transpose, {v}, {{"perm", perm}}, to, layout);
  result.positive = v.positive;
  keep(result);
  return true;
}

bool Generator::slice() {
  Value v = pick();
  if (shape(v).empty()) return false;
  const auto d = static_cast<std::size_t>(dice_.below(dimension(shape(v).size())));
  const std::int64_t extent = shape(v)[d], stride = 1 + dice_.below(2);
  const std::int64_t size = 1 + dice_.below((extent + stride - 1) / stride);
  const std::int64_t start = dice_.below(extent - (size - 1) * stride);
  v = rounded(v, d);
  ir::Shape to = shape(v);
  to[d] = size;
  Layout layout = v.plan.layout;
  layout.dims[d] = whole(size);
  Value result = both(OpCode::slice, {v}, {{"dim", dimension(d)}, {"start", start}, {"size", size}, {"stride", stride}}, to, layout);
  result.positive = v.positive;
  keep(result);
  return true;
}

bool Generator::concat() {
  const Value v = pick();
  if (shape(v).empty() || ir::element_count(shape(v)) > kLargestTensor / 2) return false;
  const auto d = static_cast<std::size_t>(dice_.below(dimension(shape(v).size())));
  Values parts = {v, like(v)};
  for (Value& part : parts) part = rounded(part, d);
  Layout layout = align(parts, Linear::in_all);
  if (layout.dims[d] != whole(shape(v)[d])) {  // the common layout may be a new one
    layout.dims[d] = whole(shape(v)[d]);
    for (Value& part : parts) part = placed(part, layout);
  }
  ir::Shape to = shape(v);
  to[d] *= 2;
  layout.dims[d] = whole(to[d]);
  keep(both(OpCode::concat, parts, {{"dim", dimension(d)}}, to, layout));
  return true;
}

bool Generator::pad() {
  Value v = pick();
  if (shape(v).empty()) return false;
  const auto d = static_cast<std::size_t>(dice_.below(dimension(shape(v).size())));
  const std::int64_t low = dice_.below(3), high = dice_.below(3), value = dice_.below(2);
  v = rounded(v, d);
  if (value != 0) v = settled(v);
  ir::Shape to = shape(v);
  to[d] += low + high;
  Layout layout = v.plan.layout;
  layout.dims[d] = whole(to[d]);
  keep(both(OpCode::pad, {v}, {{"dim", dimension(d)}, {"low", low}, {"high", high}, {"value", value}}, to, layout));
  return true;
}

}  // namespace shardproof::attack

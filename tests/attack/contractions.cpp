// Steps that add up or look up: where ranks hold parts of what is reduced, the result is partial.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "attack/generator.h"
#include "ir/infer_type.h"

namespace shardproof::attack {

namespace {

constexpr int kLargestDegree = 8;
constexpr std::int64_t kLargestProduct = 4000;

std::int64_t dimension(std::size_t d) {
  return static_cast<std::int64_t>(d);
}

std::string part_of(const std::string& spec, std::size_t operand) {
  std::size_t begin = 0;
  for (; operand > 0; --operand) begin = spec.find(',', begin) + 1;
  return spec.substr(begin, spec.find_first_of(",-", begin) - begin);
}

std::string result_of(const std::string& spec) {
  return spec.substr(spec.find('>') + 1);
}

}  // namespace

// ---- sums of products

// One dimension that is summed over, in parts: microbatches, one after the other.
ValueId Generator::product_in_parts(const std::string& spec, const std::vector<ValueId>& operands, char label) {
  ir::Builder& builder = plan_.builder();
  std::int64_t extent = 0;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (const std::size_t d = part_of(spec, i).find(label); d != std::string::npos) extent = builder.shape(operands[i])[d];
  if (extent < 2) return builder.op(OpCode::einsum, operands, {{"spec", spec}});
  const std::int64_t parts = extent % 2 == 0 && dice_.chance(50) ? 2 : extent, size = extent / parts;
  const auto one = [&](const ir::CoordExpr& start) {
    std::vector<ValueId> slices = operands;
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (const std::size_t d = part_of(spec, i).find(label); d != std::string::npos)
        slices[i] = builder.op(OpCode::slice, {slices[i]}, {{"dim", dimension(d)}, {"start", start}, {"size", size}});
    return builder.op(OpCode::einsum, slices, {{"spec", spec}});
  };
  if (dice_.chance(50)) {
    const std::string index = "p" + std::to_string(builder.program().values.size());
    const std::size_t first = builder.program().body.size();
    return sum_over(builder, first, index, parts, one(ir::variable_expr(index, size)));
  }
  std::vector<ValueId> sums;
  for (std::int64_t p = 0; p < parts; ++p) sums.push_back(one(ir::constant_expr(p * size)));
  return builder.op(OpCode::add, sums);
}

// Each label is held in one way by all operands that have it, and no axis by two labels.
Value Generator::product(const std::string& spec, Values operands) {
  const std::string result = result_of(spec);
  Layout layout;
  std::size_t partial = operands.size();  // the operand that stays so
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Layout& own = operands[i].plan.layout;
    if (own.partial.empty() || own.reduce != ir::ReduceKind::sum || partial < i || dice_.chance(40)) continue;
    partial = i;
    layout.partial = own.partial;
  }
  Texts taken = layout.partial;
  std::map<char, ir::DimLayout> held;
  std::map<char, std::int64_t> extents;
  std::string labels;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    for (std::size_t d = 0; d < shape(operands[i]).size(); ++d) {
      const char label = part_of(spec, i)[d];
      if (extents.emplace(label, shape(operands[i])[d]).second) labels.push_back(label);
    }
  }
  dice_.shuffle(labels);
  for (const char label : labels) {
    std::vector<ir::DimLayout> choices;
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (const std::size_t d = part_of(spec, i).find(label); d != std::string::npos) choices.push_back(operands[i].plan.layout.dims[d]);
    ir::DimLayout dim = dice_.one_of(choices);
    if (dice_.chance(20)) dim = plan_.random_layout({extents[label]}, taken).dims[0];
    const bool contracted = result.find(label) == std::string::npos;
    const bool clash = std::ranges::any_of(axes_of(dim), [&](const std::string& axis) { return uses(taken, axis); });
    if (clash || (contracted && !may_contract(dim)) || !dim.offsets.empty()) dim = whole(extents[label]);
    for (const std::string& axis : axes_of(dim)) taken.push_back(axis);
    held[label] = std::move(dim);
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    Layout own;
    for (const char label : part_of(spec, i)) own.dims.push_back(held[label]);
    if (i == partial) own.partial = layout.partial;
    operands[i] = placed(operands[i], own);
    for (std::size_t d = 0; d < own.dims.size(); ++d)
      if (result.find(part_of(spec, i)[d]) == std::string::npos) operands[i].plan = plan_.with_zeros(operands[i].plan, d);
  }
  ir::Shape to;
  std::string summed;
  for (const char label : result) {
    to.push_back(extents[label]);
    layout.dims.push_back(held[label]);
  }
  for (const char label : labels) {
    if (result.find(label) != std::string::npos) continue;
    summed.push_back(label);
    for (const std::string& axis : axes_of(held[label])) layout.partial.push_back(axis);
  }
  layout.partial = sorted(layout.partial);
  if (summed.empty() || dice_.chance(80)) return both(OpCode::einsum, operands, {{"spec", spec}}, to, layout);
  std::vector<ValueId> wanted, made;
  for (const Value& operand : operands) {
    wanted.push_back(operand.reference);
    made.push_back(operand.plan.id);
  }
  Value v;
  v.reference = reference_.op(OpCode::einsum, wanted, {{"spec", spec}});
  v.plan = {product_in_parts(spec, made, dice_.one_of(summed)), to, layout};
  return v;
}

bool Generator::contract() {
  Values operands = {pick()};
  const std::int64_t more = dice_.below(10) < 7 ? 1 : dice_.below(3);
  for (std::int64_t i = 0; i < more; ++i) operands.push_back(dice_.chance(50) || in_loop_ ? pick() : source(random_shape(static_cast<std::size_t>(1 + dice_.below(2)))));
  int degree = 0;
  for (const Value& v : operands) degree += v.degree;
  if (degree > kLargestDegree) return false;
  std::string spec, labels, result;
  std::map<char, std::int64_t> extents;
  for (const Value& v : operands) {
    std::string own;
    for (const std::int64_t extent : shape(v)) {
      std::string same;
      for (const char label : labels)
        if (extents[label] == extent && own.find(label) == std::string::npos) same.push_back(label);
      if (!same.empty() && dice_.chance(75)) {
        own.push_back(dice_.one_of(same));
        continue;
      }
      const char label = static_cast<char>('a' + extents.size());
      extents[label] = extent;
      own.push_back(label);
    }
    for (const char label : own)
      if (labels.find(label) == std::string::npos) labels.push_back(label);
    if (&v != &operands.front()) spec += ",";
    spec += own;
  }
  std::int64_t work = 1, elements = 1;
  for (const char label : labels) {
    work *= extents[label];
    if (work > kLargestProduct) return false;
    if (!dice_.chance(60)) continue;
    result.push_back(label);
    elements *= extents[label];
  }
  if (elements > 400 || result.size() > 4) return false;
  dice_.shuffle(result);
  Value v = product(spec + "->" + result, operands);
  v.degree = degree;
  keep(v);
  return true;
}

Value Generator::reduced(OpCode op, Value v, const Ints& dims) {
  Layout layout = v.plan.layout;
  const bool adds = op == OpCode::reduce_sum;
  if (layout.reduce != ir::ReduceKind::sum || !adds || dice_.chance(30)) {
    layout.partial.clear();
    layout.reduce = ir::ReduceKind::sum;
  }
  for (const std::int64_t dim : dims) {
    const auto d = static_cast<std::size_t>(dim);
    if (!may_contract(layout.dims[d]) || (!adds && has_surplus(layout.dims[d])) || dice_.chance(20)) layout.dims[d] = whole(shape(v)[d]);
  }
  v = placed(v, layout);
  for (const std::int64_t dim : dims) v.plan = plan_.with_zeros(v.plan, static_cast<std::size_t>(dim));
  ir::Shape to;
  Layout result;
  result.partial = layout.partial;
  for (std::size_t d = 0; d < shape(v).size(); ++d) {
    if (std::ranges::find(dims, dimension(d)) == dims.end()) {
      to.push_back(shape(v)[d]);
      result.dims.push_back(layout.dims[d]);
    } else {
      for (const std::string& axis : axes_of(layout.dims[d])) result.partial.push_back(axis);
    }
  }
  result.partial = sorted(result.partial);
  if (!adds && !result.partial.empty()) result.reduce = op == OpCode::reduce_max ? ir::ReduceKind::max : ir::ReduceKind::min;
  Value sum = both(op, {v}, {{"dims", dims}}, to, result);
  sum.positive = v.positive;
  return sum;
}

bool Generator::reduce() {
  static constexpr std::array kOps = {OpCode::reduce_sum, OpCode::reduce_sum, OpCode::reduce_max, OpCode::reduce_min};
  const Value v = pick();
  Ints dims;
  for (std::size_t d = 0; d < shape(v).size(); ++d)
    if (dice_.chance(50)) dims.push_back(dimension(d));
  if (dims.empty()) return false;
  keep(reduced(dice_.one_of(kOps), v, dims));
  return true;
}

// As the sum over the number of elements, or the average over ranks of their means.
bool Generator::mean() {
  const Value v = pick();
  if (shape(v).empty()) return false;
  const auto d = static_cast<std::size_t>(dice_.below(dimension(shape(v).size())));
  Value sum = reduced(OpCode::reduce_sum, v, {dimension(d)});
  const ir::Shape to = shape(sum);
  std::int64_t ranks = 1;
  for (const std::string& axis : sum.plan.layout.partial) ranks *= plan_.size_of(axis);
  const auto shared = [&](ir::Builder& builder, ValueId x, std::int64_t count) {
    const ValueId factor = builder.typed(OpCode::constant, builder.type(x), {{"value", ir::Rational(1, count)}});
    return builder.op(OpCode::mul, {x, factor});
  };
  const bool average = ranks > 1 && dice_.chance(50);
  sum.reference = shared(reference_, sum.reference, shape(v)[d]);
  // The ranks' own number of elements, whatever it is, is the whole one over the number of ranks.
  sum.plan.id = average ? plan_.builder().op(OpCode::mul, {sum.plan.id, plan_.fill(local_shape(sum.plan.layout), ir::Rational(ranks, shape(v)[d]))})
                        : shared(plan_.builder(), sum.plan.id, shape(v)[d]);
  if (average) {
    sum.plan.id = plan_.all_reduce(sum.plan.id, sum.plan.layout.partial, "avg");
    sum.plan.layout.partial.clear();
  }
  keep(sum);
  return true;
}

// ---- look-ups

// Of indices into a dimension that is cut: where they fall into this rank's block, and there; 0 elsewhere.
Generator::LocalIds Generator::local_ids(const Value& ids, const ir::DimLayout& block) {
  ir::Builder& builder = plan_.builder();
  const ir::Shape local = builder.shape(ids.plan.id);
  const std::int64_t size = local_extent(block);
  const auto number = [&](std::int64_t value) { return plan_.fill(local, value, ir::DType::i64); };
  const ValueId first = plan_.coordinate(plan_.first_element(block), local);
  ValueId in_block = builder.op(OpCode::cast, {ids.plan.id}, {{"dtype", std::string("i64")}});
  in_block = builder.op(OpCode::sub, {in_block, first});
  const ValueId low = builder.op(OpCode::compare, {in_block, number(0)}, {{"direction", std::string("ge")}});
  const ValueId high = builder.op(OpCode::compare, {in_block, number(size)}, {{"direction", std::string("lt")}});
  const ValueId inside = builder.op(OpCode::logical_and, {low, high});
  return {inside, builder.op(OpCode::select, {inside, in_block, number(0)})};
}

Value Generator::split_look_up(const Value& x, const Value& ids, std::size_t dim) {
  ir::Builder& builder = plan_.builder();
  const ir::DimLayout& block = x.plan.layout.dims[dim];
  const LocalIds local = local_ids(ids, block);
  const ValueId found = builder.op(OpCode::take, {x.plan.id, local.ids}, {{"dim", dimension(dim)}});
  Ints dims;
  for (std::size_t d = 0; d < shape(ids).size(); ++d) dims.push_back(dimension(dim + d));
  const ir::Shape to = builder.shape(found);
  const ValueId inside = builder.op(OpCode::broadcast, {local.inside}, {{"shape", Ints(to)}, {"dims", dims}});
  Value v = x;
  v.plan.id = builder.op(OpCode::select, {inside, found, plan_.fill(to, 0)});
  return v;
}

bool Generator::look_up() {
  Value x = pick();
  if (shape(x).empty() || shape(x).size() > 3) return false;
  const auto d = static_cast<std::size_t>(dice_.below(dimension(shape(x).size())));
  Value ids = indices(random_shape(static_cast<std::size_t>(1 + dice_.below(2))), shape(x)[d]);
  if (ir::element_count(shape(x)) * ir::element_count(shape(ids)) > 1200) return false;
  const bool split = plan_.is_block(x.plan.layout.dims[d]) && !axes_of(x.plan.layout.dims[d]).empty() && dice_.chance(70);
  x = split ? settled(x) : rounded(x, d);
  Layout of_ids = ids.plan.layout;
  for (std::size_t i = 0; i < of_ids.dims.size(); ++i) {
    for (const std::string& axis : axes_of(of_ids.dims[i]))
      if (uses(axes_of(x.plan.layout), axis) || uses(x.plan.layout.partial, axis)) of_ids.dims[i] = whole(shape(ids)[i]);
  }
  ids = placed(ids, of_ids);
  Layout layout = x.plan.layout;
  ir::Shape to = shape(x);
  layout.dims.erase(layout.dims.begin() + dimension(d));
  layout.dims.insert(layout.dims.begin() + dimension(d), of_ids.dims.begin(), of_ids.dims.end());
  to.erase(to.begin() + dimension(d));
  to.insert(to.begin() + dimension(d), shape(ids).begin(), shape(ids).end());
  Value v = x;
  v.plan.id = split ? split_look_up(x, ids, d).plan.id : plan_.builder().op(OpCode::take, {x.plan.id, ids.plan.id}, {{"dim", dimension(d)}});
  if (split) layout.partial = sorted(axes_of(x.plan.layout.dims[d]));
  v.reference = reference_.op(OpCode::take, {x.reference, ids.reference}, {{"dim", dimension(d)}});
  v.plan.shape = to;
  v.plan.layout = layout;
  keep(v);
  return true;
}

bool Generator::scatter() {
  Value updates = pick();
  if (shape(updates).empty()) return false;
  const std::size_t rank = 1 + static_cast<std::size_t>(dice_.below(dimension(std::min<std::size_t>(2, shape(updates).size()))));
  const std::int64_t size = 2 + dice_.below(5);
  Value ids = indices(ir::Shape(shape(updates).begin(), shape(updates).begin() + dimension(rank)), size);
  if (updates.plan.layout.reduce != ir::ReduceKind::sum) updates = settled(updates);
  for (std::size_t d = 0; d < rank; ++d)
    if (!may_contract(updates.plan.layout.dims[d]) || has_surplus(updates.plan.layout.dims[d])) updates = rounded(updates, d);
  Layout of_ids;
  Layout layout;
  layout.partial = updates.plan.layout.partial;
  layout.dims.push_back(whole(size));
  ir::Shape to = {size};
  for (std::size_t d = 0; d < shape(updates).size(); ++d) {
    const ir::DimLayout& dim = updates.plan.layout.dims[d];
    if (d < rank) {
      of_ids.dims.push_back(dim);
      for (const std::string& axis : axes_of(dim)) layout.partial.push_back(axis);
    } else {
      layout.dims.push_back(dim);
      to.push_back(shape(updates)[d]);
    }
  }
  layout.partial = sorted(layout.partial);
  ids = placed(ids, of_ids);
  Value v = both(OpCode::scatter_add, {updates, ids}, {{"dim", std::int64_t{0}}, {"size", size}}, to, layout);
  v.degree = updates.degree;
  keep(v);
  return true;
}

// Elements of the last dimension by index, or into a new one.
bool Generator::along() {
  Value x = pick();
  if (shape(x).empty() || shape(x).size() > 3) return false;
  if (dice_.chance(50)) {
    const std::int64_t size = 2 + dice_.below(4);
    if (x.plan.layout.reduce != ir::ReduceKind::sum) x = settled(x);
    x.plan = plan_.without_surplus(x.plan);
    Layout layout = x.plan.layout;
    layout.partial.clear();
    const Value ids = placed(indices(shape(x), size), layout);
    ir::Shape to = shape(x);
    to.push_back(size);
    layout = x.plan.layout;
    layout.dims.push_back(whole(size));
    Value v = both(OpCode::put_along, {x, ids}, {{"size", size}}, to, layout);
    v.degree = x.degree;
    keep(v);
    return true;
  }
  x = rounded(x, shape(x).size() - 1);
  x.plan = plan_.without_surplus(x.plan);
  const ir::Shape to(shape(x).begin(), shape(x).end() - 1);
  Layout layout = x.plan.layout;
  layout.dims.pop_back();
  Layout of_ids = layout;
  of_ids.partial.clear();
  const Value ids = placed(indices(to, shape(x).back()), of_ids);
  Value v = both(OpCode::take_along, {x, ids}, {}, to, layout);
  v.degree = x.degree;
  v.positive = x.positive;
  keep(v);
  return true;
}

}  // namespace shardproof::attack

// Steps that are macro ops of the reference: the same macro on ranks that hold whole rows, or written out where rows are cut.
#include <algorithm>
#include <array>
#include <utility>

#include "attack/generator.h"

namespace shardproof::attack {

namespace {

std::int64_t dimension(std::size_t d) {
  return static_cast<std::int64_t>(d);
}

// All dimensions but the last.
Ints leading(const ir::Shape& shape) {
  Ints dims;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) dims.push_back(dimension(d));
  return dims;
}

}  // namespace

Value Generator::split_softmax(const Value& x) {
  ir::Builder& builder = plan_.builder();
  const Texts axes = axes_of(x.plan.layout.dims.back());
  const ir::Shape local = builder.shape(x.plan.id);
  const Ints last = {dimension(local.size()) - 1}, rest = leading(local);
  const auto spread_out = [&](ValueId id) { return builder.op(OpCode::broadcast, {id}, {{"shape", Ints(local)}, {"dims", rest}}); };
  const ValueId top = plan_.all_reduce(builder.op(OpCode::reduce_max, {x.plan.id}, {{"dims", last}}), axes, "max");
  const ValueId shifted = builder.op(OpCode::sub, {x.plan.id, spread_out(top)});
  const ValueId powers = builder.op(OpCode::exp, {shifted});
  const ValueId sum = plan_.all_reduce(builder.op(OpCode::reduce_sum, {powers}, {{"dims", last}}), axes, "sum");
  Value v = x;
  v.plan.id = builder.op(OpCode::div, {powers, spread_out(sum)});
  return v;
}

bool Generator::soft_maximum() {
  Value x = small();
  if (shape(x).empty()) return false;
  const std::size_t last = shape(x).size() - 1;
  x = settled(x);
  // Causal scores are minus infinity where a later position would be seen; the first position sees itself.
  const bool causal = shape(x).size() > 1 && shape(x)[last] == shape(x)[last - 1] && dice_.chance(60);
  if (causal) {
    const Value visible = elementwise(OpCode::compare, {iota(shape(x), last - 1), iota(shape(x), last)}, {{"direction", std::string("ge")}});
    const Layout layout = plan_.random_layout(shape(x), {});
    Value hidden;
    hidden.reference = reference_.typed(OpCode::constant, {ir::DType::f32, shape(x)}, {{"negative_infinity", true}});
    hidden.plan = {plan_.builder().typed(OpCode::constant, {ir::DType::f32, local_shape(layout)}, {{"negative_infinity", true}}), shape(x), layout};
    x = elementwise(OpCode::select, {visible, x, hidden});
  }
  Value v;
  const ir::DimLayout dim = x.plan.layout.dims[last];
  const bool split = plan_.is_block(dim) && !axes_of(dim).empty() && !causal && dice_.chance(70);
  if (split) {
    v = split_softmax(x);
    v.reference = reference_.op(OpCode::softmax, {x.reference}, {{"dim", dimension(last)}});
  } else {
    const std::size_t along = causal ? last : static_cast<std::size_t>(dice_.below(dimension(last) + 1));
    x = rounded(x, along);
    v = both(causal || dice_.chance(70) ? OpCode::softmax : OpCode::log_softmax, {x}, {{"dim", dimension(along)}}, shape(x), x.plan.layout);
  }
  v.degree = 3;
  v.positive = false;
  keep(v);
  return true;
}

Value Generator::split_rms_norm(const Value& x, const Value& weight, ir::Rational eps) {
  ir::Builder& builder = plan_.builder();
  const ir::Shape local = builder.shape(x.plan.id);
  const Ints last = {dimension(local.size()) - 1};
  const ValueId squares = builder.op(OpCode::mul, {x.plan.id, x.plan.id});
  ValueId sum = builder.op(OpCode::reduce_sum, {squares}, {{"dims", last}});
  sum = plan_.all_reduce(sum, axes_of(x.plan.layout.dims.back()), "sum");
  const ir::Shape rows = builder.shape(sum);
  const ValueId mean = builder.op(OpCode::mul, {sum, plan_.fill(rows, ir::Rational(1, shape(x).back()))});
  const ValueId root = builder.op(OpCode::rsqrt, {builder.op(OpCode::add, {mean, plan_.fill(rows, eps)})});
  const ValueId scale = builder.op(OpCode::broadcast, {root}, {{"shape", Ints(local)}, {"dims", leading(local)}});
  const ValueId by_column = builder.op(OpCode::broadcast, {weight.plan.id}, {{"shape", Ints(local)}, {"dims", last}});
  Value v = x;
  v.plan.id = builder.op(OpCode::mul, {builder.op(OpCode::mul, {x.plan.id, scale}), by_column});
  return v;
}

bool Generator::normalise() {
  Value x = pick();
  if (shape(x).empty() || x.degree > 4) return false;
  const std::size_t last = shape(x).size() - 1;
  const ir::Rational eps(1, 10);
  const ir::Shape width = {shape(x)[last]};
  Value weight = source(width);
  x = settled(x);
  const ir::DimLayout dim = x.plan.layout.dims[last];
  Value v;
  if (dice_.chance(35)) {
    x = rounded(x, last);
    weight = placed(weight, whole(width));
    const Value bias = placed(source(width), whole(width));
    v = both(OpCode::layer_norm, {x, weight, bias}, {{"eps", eps}}, shape(x), x.plan.layout);
  } else if (plan_.is_block(dim) && !axes_of(dim).empty() && dice_.chance(70)) {
    weight = placed(weight, Layout{{dim}, {}, ir::ReduceKind::sum});
    v = split_rms_norm(x, weight, eps);
    v.reference = reference_.op(OpCode::rms_norm, {x.reference, weight.reference}, {{"eps", eps}});
  } else {
    x = rounded(x, last);
    weight = placed(weight, whole(width));
    v = both(OpCode::rms_norm, {x, weight}, {{"eps", eps}}, shape(x), x.plan.layout);
  }
  v.degree = 2;
  v.positive = false;
  keep(v);
  return true;
}

// Each rank has some of the classes: the logarithm of the sum over all, less the logit of the label, which one rank has.
Value Generator::split_loss(const Value& logits, const Value& labels) {
  ir::Builder& builder = plan_.builder();
  const ir::DimLayout& block = logits.plan.layout.dims.back();
  const Texts axes = axes_of(block);
  const ir::Shape local = builder.shape(logits.plan.id);
  const Ints last = {dimension(local.size()) - 1};
  const ValueId top = plan_.all_reduce(builder.op(OpCode::reduce_max, {logits.plan.id}, {{"dims", last}}), axes, "max");
  const ValueId spread_top = builder.op(OpCode::broadcast, {top}, {{"shape", Ints(local)}, {"dims", leading(local)}});
  const ValueId shifted = builder.op(OpCode::sub, {logits.plan.id, spread_top});
  ValueId sum = builder.op(OpCode::reduce_sum, {builder.op(OpCode::exp, {shifted})}, {{"dims", last}});
  sum = plan_.all_reduce(sum, axes, "sum");
  const LocalIds ids = local_ids(labels, block);
  const ValueId found = builder.op(OpCode::take_along, {shifted, ids.ids});
  ValueId own = builder.op(OpCode::select, {ids.inside, found, plan_.fill(builder.shape(found), 0)});
  own = plan_.all_reduce(own, axes, "sum");
  Value v = labels;
  v.below = 0;
  v.plan.id = builder.op(OpCode::sub, {builder.op(OpCode::log, {sum}), own});
  return v;
}

bool Generator::loss() {
  Value logits = small();
  if (shape(logits).empty()) return false;
  const std::size_t last = shape(logits).size() - 1;
  logits = settled(logits);
  logits.plan = plan_.without_surplus(logits.plan);
  const ir::DimLayout dim = logits.plan.layout.dims[last];
  const bool split = plan_.is_block(dim) && !axes_of(dim).empty() && dice_.chance(70);
  if (!split) logits = rounded(logits, last);
  const ir::Shape to(shape(logits).begin(), shape(logits).end() - 1);
  Layout layout = logits.plan.layout;
  layout.dims.pop_back();
  const Value labels = placed(indices(to, shape(logits)[last]), layout);
  Value v;
  if (split) {
    v = split_loss(logits, labels);
    v.reference = reference_.op(OpCode::cross_entropy, {logits.reference, labels.reference});
  } else {
    v = both(OpCode::cross_entropy, {logits, labels}, {}, to, layout);
  }
  v.degree = 3;
  keep(v);
  return true;
}

bool Generator::gate() {
  const Value x = small();
  const Value up = like(x);
  if (up.degree > 4) return false;
  Value v = elementwise(OpCode::swiglu, {x, up});
  v.degree = 3 + up.degree;
  keep(v);
  return true;
}

// Heads or sequences are cut.
bool Generator::attend() {
  if (in_loop_) return false;
  const std::int64_t batch = 2 * (1 + dice_.below(2)), positions = 2 + dice_.below(2), groups = 1 + dice_.below(3);
  const std::int64_t heads = groups * (1 + dice_.below(2)), width = 2;
  const bool causal = dice_.chance(60);
  const std::int64_t keys = causal ? positions : 2 + dice_.below(3);
  Layout layout = plan_.random_layout({batch}, {});
  layout.dims.push_back(whole(positions));
  const ir::DimLayout of_groups = plan_.random_layout({groups}, axes_of(layout.dims[0])).dims[0];
  ir::DimLayout of_heads = of_groups;
  of_heads.digits.back().size *= heads / groups;
  layout.dims.push_back(of_heads);
  layout.dims.push_back(whole(width));
  Layout of_keys = layout;
  of_keys.dims[1] = whole(keys);
  of_keys.dims[2] = of_groups;
  const Value q = placed(source({batch, positions, heads, width}), layout);
  const Value k = placed(source({batch, keys, groups, width}), of_keys);
  const Value v = placed(source({batch, keys, groups, width}), of_keys);
  Value result = both(OpCode::attention, {q, k, v}, {{"causal", causal}, {"scale", ir::Rational(1, 2)}}, shape(q), layout);
  result.degree = 3;
  keep(result);
  return true;
}

bool Generator::rotate() {
  if (in_loop_) return false;
  const ir::Shape all = {2, 2 + dice_.below(3), 1 + dice_.below(2), 4}, angles = {all[1], 2};
  Value x = source(all);
  x = rounded(x, 3);
  x.plan = plan_.without_surplus(x.plan);
  x = settled(x);
  const Layout layout{{x.plan.layout.dims[1], whole(angles[1])}, {}, ir::ReduceKind::sum};
  const Value cosines = placed(source(angles), layout), sines = placed(source(angles), layout);
  Value v = both(OpCode::rope, {x, cosines, sines}, {}, all, x.plan.layout);
  v.degree = 2;
  keep(v);
  return true;
}

}  // namespace shardproof::attack

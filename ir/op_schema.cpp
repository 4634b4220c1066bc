#include "ir/op_schema.h"

#include <unordered_map>
#include <utility>

#include "ir/check.h"

namespace shardproof::ir {
namespace {

using Kind = AttrKind;
using Family = OpFamily;

constexpr std::int8_t kMany = -1;

AttrSchema required(std::string_view name, AttrKind kind) { return {name, kind, true}; }
AttrSchema optional(std::string_view name, AttrKind kind) { return {name, kind, false}; }

// What every collective takes: its group, given by exactly one of `axes` and `groups` (a type rule), and
// whether it is asynchronous and on which stream.
std::vector<AttrSchema> collective(std::vector<AttrSchema> own) {
  own.push_back(optional("axes", Kind::texts));
  own.push_back(optional("groups", Kind::groups));
  own.push_back(optional("async", Kind::flag));
  own.push_back(optional("stream", Kind::text));
  return own;
}

OpSchema source(OpCode code, std::string_view name, std::vector<AttrSchema> attributes, std::string_view doc) {
  return {code, name, Family::source, 0, 0, 1, std::move(attributes), doc};
}
OpSchema structure(OpCode code, std::string_view name, int inputs, std::vector<AttrSchema> attributes,
                   std::string_view doc) {
  const auto count = static_cast<std::int8_t>(inputs);
  return {code, name, Family::structure, count, count, 1, std::move(attributes), doc};
}
OpSchema n_ary(OpCode code, std::string_view name, std::string_view doc) {
  return {code, name, Family::elementwise, 1, kMany, 1, {}, doc};
}
OpSchema elementwise(OpCode code, std::string_view name, int inputs, std::string_view doc,
                     std::vector<AttrSchema> attributes = {}) {
  const auto count = static_cast<std::int8_t>(inputs);
  return {code, name, Family::elementwise, count, count, 1, std::move(attributes), doc};
}
OpSchema reduction(OpCode code, std::string_view name, std::string_view doc) {
  return {code, name, Family::contraction, 1, 1, 1, {required("dims", Kind::integers)}, doc};
}
OpSchema communication(OpCode code, std::string_view name, std::vector<AttrSchema> attributes, std::string_view doc) {
  return {code, name, Family::communication, 1, 1, 1, collective(std::move(attributes)), doc};
}
OpSchema macro(OpCode code, std::string_view name, int inputs, std::vector<AttrSchema> attributes,
               std::string_view doc, int results = 1) {
  const auto count = static_cast<std::int8_t>(inputs);
  return {code, name, Family::macro, count, count, static_cast<std::int8_t>(results), std::move(attributes), doc};
}

std::vector<OpSchema> core_ops() {
  using enum OpCode;
  const AttrSchema dim = required("dim", Kind::integer);
  const AttrSchema size = required("size", Kind::integer);
  return {
      source(constant, "constant", {optional("value", Kind::rational), optional("negative_infinity", Kind::flag)},
             "every element is `value`, or minus infinity (a masked score); exactly one is given"),
      source(table, "table", {required("values", Kind::rationals)}, "the listed elements in row-major order"),
      source(iota, "iota", {dim}, "element = its index along `dim`"),
      source(coord, "coord", {required("value", Kind::expr)},
             "i64 scalar: a quasi-affine function of mesh coordinates and loop indices"),

      structure(reshape, "reshape", 1, {required("shape", Kind::integers)}, "same elements in row-major order"),
      structure(transpose, "transpose", 1, {required("perm", Kind::integers)},
                "result dimension i is operand dimension perm[i]"),
      structure(broadcast, "broadcast", 1, {required("shape", Kind::integers), required("dims", Kind::integers)},
                "operand dimension i becomes result dimension dims[i], where an extent of 1 is repeated; the other "
                "result dimensions repeat the operand"),
      structure(slice, "slice", 1,
                {dim, required("start", Kind::expr), size, optional("stride", Kind::integer)},
                "`size` elements along `dim`: start, start + stride, ...; stride is 1 unless given"),
      {concat, "concat", Family::structure, 1, kMany, 1, {dim}, "operands end to end along `dim`"},
      structure(pad, "pad", 1,
                {dim, required("low", Kind::integer), required("high", Kind::integer),
                 required("value", Kind::rational)},
                "`low` elements `value` before and `high` after along `dim`"),
      structure(cast, "cast", 1, {required("dtype", Kind::text)},
                "same elements in another dtype; the identity over the reals (no truncation: float to integer and "
                "anything to bool are refused)"),
      structure(take, "take", 2, {optional("dim", Kind::integer)},
                "x, ids: dimension `dim` (0 unless given) of x is indexed by ids and replaced by the dimensions of ids"),
      structure(scatter_add, "scatter_add", 2, {optional("dim", Kind::integer), size},
                "updates, ids: transpose of take; element v along `dim` of extent `size` is the sum of the updates "
                "whose id is v"),
      structure(take_along, "take_along", 2, {}, "x, ids: the element of the last dimension of x that ids names"),
      structure(put_along, "put_along", 2, {size},
                "updates, ids: a new last dimension of extent `size` that holds the update at ids and zero elsewhere"),

      n_ary(add, "add", "sum of the operands"),
      n_ary(mul, "mul", "product of the operands"),
      n_ary(max, "max", "greatest operand"),
      n_ary(min, "min", "least operand"),
      elementwise(sub, "sub", 2, "a - b"),
      elementwise(div, "div", 2, "a / b; floats only"),
      elementwise(neg, "neg", 1, "-x"),
      elementwise(exp, "exp", 1, "e^x"),
      elementwise(log, "log", 1, "natural logarithm"),
      elementwise(sqrt, "sqrt", 1, "square root"),
      elementwise(rsqrt, "rsqrt", 1, "1 / square root"),
      elementwise(reciprocal, "reciprocal", 1, "1 / x"),
      elementwise(tanh, "tanh", 1, "hyperbolic tangent"),
      elementwise(erf, "erf", 1, "error function"),
      elementwise(sigmoid, "sigmoid", 1, "1 / (1 + e^-x)"),
      elementwise(sin, "sin", 1, "sine"),
      elementwise(cos, "cos", 1, "cosine"),
      elementwise(abs, "abs", 1, "absolute value"),
      elementwise(pow, "pow", 1, "x^exponent for a rational constant", {required("exponent", Kind::rational)}),
      elementwise(power, "power", 2, "base^exponent for an integer tensor exponent"),
      elementwise(compare, "compare", 2, "bool: a `direction` b, one of eq ne lt le gt ge",
                  {required("direction", Kind::text)}),
      elementwise(select, "select", 3, "condition ? a : b"),
      elementwise(logical_and, "logical_and", 2, "conjunction of bools"),
      elementwise(logical_or, "logical_or", 2, "disjunction of bools"),
      elementwise(logical_not, "logical_not", 1, "negation of a bool"),
      elementwise(stop_gradient, "stop_gradient", 1, "the identity; its derivative is zero"),

      {einsum, "einsum", Family::contraction, 1, kMany, 1, {required("spec", Kind::text)},
       "sum over the labels missing in the result of the product of the operands"},
      reduction(reduce_sum, "reduce_sum", "sum over `dims`, which are removed"),
      reduction(reduce_max, "reduce_max", "greatest element over `dims`, which are removed"),
      reduction(reduce_min, "reduce_min", "least element over `dims`, which are removed"),

      {rng_uniform, "rng_uniform", Family::random, 0, 0, 1,
       {required("stream", Kind::text), required("key", Kind::exprs), optional("offsets", Kind::exprs)},
       "uniform [0, 1) numbers of stream `stream` under `key`; element i is number offsets + i of the stream (offsets "
       "are 0 unless given, one per dimension)"},
  };
}

std::vector<OpSchema> communication_ops() {
  using enum OpCode;
  const AttrSchema dim = required("dim", Kind::integer);
  const AttrSchema reduce = required("reduce", Kind::text);
  const std::vector<AttrSchema> channel = {required("peer", Kind::text), required("channel", Kind::text),
                                           optional("number", Kind::expr), optional("async", Kind::flag),
                                           optional("stream", Kind::text)};
  return {
      communication(all_reduce, "all_reduce", {reduce}, "reduction of the operands of the group, on every member"),
      communication(all_gather, "all_gather", {dim}, "operands of the group along `dim`, in group order"),
      communication(reduce_scatter, "reduce_scatter", {dim, reduce},
                    "group position i receives part i along `dim` of the reduction"),
      communication(all_to_all, "all_to_all", {required("split_dim", Kind::integer), required("concat_dim", Kind::integer)},
                    "part j along split_dim goes to group position j; parts received are put along concat_dim in group "
                    "order"),
      communication(broadcast_from, "broadcast_from", {required("root", Kind::integer)},
                    "the operand of group position `root`, on every member"),
      communication(permute, "permute", {required("shift", Kind::integer)},
                    "group position c receives the operand of position (c - shift) mod n"),
      {send, "send", Family::communication, 1, 1, 0, channel,
       "gives the operand to stage `peer` as message `number` of `channel`"},
      {recv, "recv", Family::communication, 0, 0, 1, channel,
       "the tensor that stage `peer` sent as message `number` of `channel`"},
      {wait, "wait", Family::communication, 1, 1, 1, {}, "the operand once its asynchronous collective has completed"},
  };
}

std::vector<OpSchema> control_and_macro_ops() {
  using enum OpCode;
  const AttrSchema dim = required("dim", Kind::integer);
  const AttrSchema eps = required("eps", Kind::rational);
  return {
      {release, "release", Family::lifetime, 1, kMany, 0, {}, "the operands are dead from here"},
      {loop, "loop", Family::control, 0, kMany, kMany, {},
       "runs its region for each index value 0 <= index < trip, carrying values from one iteration to the next"},

      macro(softmax, "softmax", 1, {dim}, "exp(x - max) / sum exp(x - max) along `dim`"),
      macro(log_softmax, "log_softmax", 1, {dim}, "(x - max) - log sum exp(x - max) along `dim`"),
      macro(silu, "silu", 1, {}, "x * sigmoid(x)"),
      macro(gelu_tanh, "gelu_tanh", 1, {}, "x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))"),
      macro(gelu_erf, "gelu_erf", 1, {}, "x/2 * (1 + erf(x / sqrt(2)))"),
      macro(swiglu, "swiglu", 2, {}, "gate, up: silu(gate) * up"),
      macro(rms_norm, "rms_norm", 2, {eps}, "x, weight: x * rsqrt(mean(x^2) + eps) * weight over the last dimension"),
      macro(layer_norm, "layer_norm", 3, {eps},
            "x, weight, bias: (x - mean) * rsqrt(variance + eps) * weight + bias over the last dimension"),
      macro(rope, "rope", 3, {},
            "x [b,s,h,d], cos, sin [s,d/2]: halves (x1, x2) of the last dimension become (x1 cos - x2 sin, x2 cos + "
            "x1 sin)"),
      macro(attention, "attention", 3, {required("causal", Kind::flag), optional("scale", Kind::rational)},
            "q [b,s,h,d], k [b,t,g,d], v [b,t,g,e]: softmax(scale q k^T) v, query head i reading head i / (h/g); scale "
            "is 1/sqrt(d) unless given"),
      macro(cross_entropy, "cross_entropy", 2, {}, "logits [..,V], labels [..]: -log_softmax(logits) at the label"),
      macro(adamw, "adamw", 6,
            {required("beta1", Kind::rational), required("beta2", Kind::rational), eps,
             required("weight_decay", Kind::rational)},
            "param, grad, exp_avg, exp_avg_sq, step, lr: one AdamW step with decoupled weight decay and bias "
            "correction at `step`; results param, exp_avg, exp_avg_sq",
            3),
  };
}

std::vector<OpSchema> make_table() {
  std::vector<OpSchema> table = core_ops();
  for (OpSchema& schema : communication_ops()) table.push_back(std::move(schema));
  for (OpSchema& schema : control_and_macro_ops()) table.push_back(std::move(schema));
  SHARDPROOF_CHECK(table.size() == static_cast<std::size_t>(OpCode::count_));
  for (std::size_t i = 0; i < table.size(); ++i) SHARDPROOF_CHECK(table[i].code == static_cast<OpCode>(i));
  return table;
}

}  // namespace

std::span<const OpSchema> op_table() {
  static const std::vector<OpSchema> table = make_table();
  return table;
}

const OpSchema& schema_of(OpCode code) {
  const auto table = op_table();
  const auto index = static_cast<std::size_t>(code);
  SHARDPROOF_CHECK(index < table.size());
  return table[index];
}

std::optional<OpCode> find_op(std::string_view name) {
  static const std::unordered_map<std::string_view, OpCode> by_name = [] {
    std::unordered_map<std::string_view, OpCode> map;
    for (const OpSchema& schema : op_table()) map.emplace(schema.name, schema.code);
    return map;
  }();
  const auto found = by_name.find(name);
  if (found == by_name.end()) return std::nullopt;
  return found->second;
}

}  // namespace shardproof::ir

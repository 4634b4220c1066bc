// The one table of operators: name, arity, attributes, family, and the sentence that defines it. The
// reader, validator, type inference, semantics (verifier/), VJP rules (lowering/) and numeric kernels
// all dispatch on OpCode, and tests walk the table so that none of them forgets an op.
// Names follow StableHLO / ATen where both agree.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace shardproof::ir {

enum class OpCode : std::uint8_t {
  // --- core: sources
  constant,     // attr value (rational) or negative_infinity (flag); result type from `type`; broadcast of one number
  table,        // attr values (rationals, row-major); literal tensor
  iota,         // attr dim; result type from `type`; element = index along dim
  coord,        // attr value (coordinate expression); i64 scalar
  // --- core: structure (no arithmetic)
  reshape,      // attr shape
  transpose,    // attr perm: result dim i is operand dim perm[i]
  broadcast,    // attrs shape, dims: operand dim i becomes result dim dims[i] (StableHLO broadcast_in_dim)
  slice,        // attrs dim, start (coordinate expression), size, stride = 1
  concat,       // attr dim; n-ary
  pad,          // attrs dim, low, high, value (rational)
  cast,         // attr dtype; identity over the reals
  take,         // inputs x, ids; attr dim = 0: result[.., ids.., ..] = x[.., ids[i], ..] along dim
  scatter_add,  // inputs updates, ids; attrs dim = 0, size: result[v] = sum over i with ids[i]==v of updates[i]
  take_along,   // inputs x, ids: ids has x's shape without the last dim; result = x[..., ids]
  put_along,    // inputs updates, ids; attr size: inverse of take_along, zero elsewhere (one-hot * updates)
  // --- core: elementwise
  add, mul, max, min,              // n-ary, equal shapes
  sub, div,                        // binary
  neg, exp, log, sqrt, rsqrt, reciprocal, tanh, erf, sigmoid, sin, cos, abs,
  pow,          // attrs exponent (rational): x^exponent elementwise
  power,        // inputs base, exponent (integer tensor): base^exponent (Adam bias correction)
  compare,      // attr direction: eq ne lt le gt ge; result bool
  select,       // inputs condition (bool), a, b
  logical_and, logical_or, logical_not,
  stop_gradient,// identity whose derivative is zero
  // --- core: contraction
  einsum,       // attr spec "bsh,fh->bsf": sum of products
  reduce_sum, reduce_max, reduce_min,  // attr dims: reduced dimensions are removed
  // --- core: randomness
  rng_uniform,  // attrs stream (name), key (coordinate expressions), offsets; uniform [0,1) values
  // --- communication (group = ordered mesh axes, or explicit rank lists)
  all_reduce,   // attrs axes, reduce
  all_gather,   // attrs axes, dim: shards of the group concatenated along dim, group order
  reduce_scatter,  // attrs axes, dim, reduce
  all_to_all,   // attrs axes, split_dim, concat_dim; even splits
  broadcast_from,  // attrs axes, root (coordinate tuple index in group)
  permute,      // attrs axes, shift: rank c receives from group position (c - shift) mod n
  send, recv,   // attrs peer stage, channel, number (coordinate expression)
  wait,         // completes an asynchronous collective (attr async on the collective)
  // --- lifetime (no value)
  release,      // inputs are dead from here
  // --- control
  loop,         // region: attr index, trip; carried values
  // --- macros, defined by unfolding into the core (lowering/unfold)
  softmax,      // attr dim
  log_softmax,  // attr dim
  silu, gelu_tanh, gelu_erf,
  swiglu,       // inputs gate, up: silu(gate) * up
  rms_norm,     // inputs x, weight; attr eps (over the last dim)
  layer_norm,   // inputs x, weight, bias; attr eps
  rope,         // inputs x [b, s, heads, d], cos, sin [s, d/2]: rotate-half, (x1 c - x2 s, x2 c + x1 s)
  attention,    // inputs q [b,s,h,d], k, v [b,t,g,d]; attrs causal, scale (optional rational; else 1/sqrt(d))
  cross_entropy,// inputs logits [.., V], labels [..]: per-token -log softmax at the label
  adamw,        // inputs param, grad, exp_avg, exp_avg_sq, step, lr; attrs beta1 beta2 eps weight_decay;
                // results new param, exp_avg, exp_avg_sq
  count_        // number of opcodes
};

enum class AttrKind : std::uint8_t { integer, integers, rational, rationals, text, texts, flag, expr, exprs, groups };

struct AttrSchema {
  std::string_view name;
  AttrKind kind;
  bool required;
};

enum class OpFamily : std::uint8_t {
  source, structure, elementwise, contraction, random, communication, lifetime, control, macro
};

struct OpSchema {
  OpCode code;
  std::string_view name;      // spelled in plan files
  OpFamily family;
  std::int8_t min_inputs;
  std::int8_t max_inputs;     // -1: no limit
  std::int8_t results;        // -1: as many as the region carries
  std::vector<AttrSchema> attributes;
  std::string_view doc;       // one line
};

std::span<const OpSchema> op_table();        // indexed by OpCode
const OpSchema& schema_of(OpCode code);
std::optional<OpCode> find_op(std::string_view name);

}  // namespace shardproof::ir

// One well-typed instruction per operator, for tests that walk the table.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/infer_type.h"

namespace shardproof::ir {

struct TypeSample {
  std::vector<std::string> operands;
  std::vector<std::pair<std::string, AttrValue>> attributes;
  std::vector<std::string> declared;
  std::vector<std::string> results;
};

using Ints = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;
using Groups = std::vector<std::vector<std::int64_t>>;

inline TensorType type_of(std::string_view text) { return parse_tensor_type(text).value(); }

// Axes of the tests: tp = 4, dp = 2.
inline std::int64_t test_axis_size(const std::string& axis) { return axis == "tp" ? 4 : axis == "dp" ? 2 : 0; }

inline std::map<OpCode, TypeSample> type_samples() {
  using enum OpCode;
  const auto integer = [](std::int64_t value) { return AttrValue(value); };
  const auto text = [](const char* value) { return AttrValue(std::string(value)); };
  const AttrValue tp = Texts{"tp"};
  std::map<OpCode, TypeSample> samples = {
      {constant, {{}, {{"value", Rational(1, 8)}}, {"f32[2,3]"}, {"f32[2,3]"}}},
      {table, {{}, {{"values", std::vector<Rational>{1, 2, 3}}}, {"i64[3]"}, {"i64[3]"}}},
      {iota, {{}, {{"dim", integer(1)}}, {"i64[2,3]"}, {"i64[2,3]"}}},
      {coord, {{}, {{"value", variable_expr("tp", 4)}}, {}, {"i64[]"}}},
      {reshape, {{"f32[4,6]"}, {{"shape", Ints{2, 12}}}, {}, {"f32[2,12]"}}},
      {transpose, {{"f32[4,6,2]"}, {{"perm", Ints{2, 0, 1}}}, {}, {"f32[2,4,6]"}}},
      {broadcast, {{"f32[6]"}, {{"shape", Ints{4, 6, 2}}, {"dims", Ints{1}}}, {}, {"f32[4,6,2]"}}},
      {slice,
       {{"f32[4,10]"},
        {{"dim", integer(1)}, {"start", variable_expr("tp", 2)}, {"size", integer(3)}, {"stride", integer(2)}},
        {},
        {"f32[4,3]"}}},
      {concat, {{"f32[4,1]", "f32[4,2]", "f32[4,3]"}, {{"dim", integer(1)}}, {}, {"f32[4,6]"}}},
      {pad,
       {{"f32[4,3]"},
        {{"dim", integer(1)}, {"low", integer(1)}, {"high", integer(2)}, {"value", Rational(0)}},
        {},
        {"f32[4,6]"}}},
      {cast, {{"f32[4]"}, {{"dtype", text("bf16")}}, {}, {"bf16[4]"}}},
      {take, {{"f32[2,100,8]", "i32[5,7]"}, {{"dim", integer(1)}}, {}, {"f32[2,5,7,8]"}}},
      {scatter_add, {{"f32[2,5,7,8]", "i32[5,7]"}, {{"dim", integer(1)}, {"size", integer(100)}}, {}, {"f32[2,100,8]"}}},
      {take_along, {{"f32[4,6,9]", "i64[4,6]"}, {}, {}, {"f32[4,6]"}}},
      {put_along, {{"f32[4,6]", "i64[4,6]"}, {{"size", integer(9)}}, {}, {"f32[4,6,9]"}}},
      {pow, {{"f32[4]"}, {{"exponent", Rational(-1, 2)}}, {}, {"f32[4]"}}},
      {power, {{"f32[4]", "i64[4]"}, {}, {}, {"f32[4]"}}},
      {compare, {{"i64[4]", "i64[4]"}, {{"direction", text("lt")}}, {}, {"bool[4]"}}},
      {select, {{"bool[4]", "f32[4]", "f32[4]"}, {}, {}, {"f32[4]"}}},
      {logical_and, {{"bool[4]", "bool[4]"}, {}, {}, {"bool[4]"}}},
      {logical_or, {{"bool[4]", "bool[4]"}, {}, {}, {"bool[4]"}}},
      {logical_not, {{"bool[4]"}, {}, {}, {"bool[4]"}}},
      {einsum, {{"f32[2,3,5]", "f32[7,5]"}, {{"spec", text("bsh,fh->bsf")}}, {}, {"f32[2,3,7]"}}},
      {reduce_sum, {{"f32[2,3,5]"}, {{"dims", Ints{0, 2}}}, {}, {"f32[3]"}}},
      {reduce_max, {{"f32[2,3,5]"}, {{"dims", Ints{1}}}, {}, {"f32[2,5]"}}},
      {reduce_min, {{"f32[2,3]"}, {{"dims", Ints{1, 0}}}, {}, {"f32[]"}}},
      {rng_uniform,
       {{}, {{"stream", text("dropout")}, {"key", std::vector<CoordExpr>{variable_expr("m")}}}, {"f32[4]"}, {"f32[4]"}}},
      {all_reduce, {{"f32[8,6]"}, {{"axes", tp}, {"reduce", text("sum")}}, {}, {"f32[8,6]"}}},
      {all_gather, {{"f32[8,6]"}, {{"axes", tp}, {"dim", integer(0)}}, {}, {"f32[32,6]"}}},
      {reduce_scatter, {{"f32[8,6]"}, {{"axes", tp}, {"dim", integer(0)}, {"reduce", text("sum")}}, {}, {"f32[2,6]"}}},
      {all_to_all, {{"f32[8,6]"}, {{"axes", tp}, {"split_dim", integer(0)}, {"concat_dim", integer(1)}}, {}, {"f32[2,24]"}}},
      {broadcast_from, {{"f32[8]"}, {{"axes", tp}, {"root", integer(3)}}, {}, {"f32[8]"}}},
      {permute, {{"f32[8]"}, {{"axes", tp}, {"shift", integer(-1)}}, {}, {"f32[8]"}}},
      {send, {{"bf16[8]"}, {{"peer", text("stage1")}, {"channel", text("act")}}, {}, {}}},
      {recv, {{}, {{"peer", text("stage0")}, {"channel", text("act")}}, {"bf16[8]"}, {"bf16[8]"}}},
      {wait, {{"f32[8]"}, {}, {}, {"f32[8]"}}},
      {release, {{"f32[8]", "i64[]"}, {}, {}, {}}},
      {softmax, {{"f32[4,6]"}, {{"dim", integer(1)}}, {}, {"f32[4,6]"}}},
      {log_softmax, {{"f32[4,6]"}, {{"dim", integer(1)}}, {}, {"f32[4,6]"}}},
      {swiglu, {{"f32[4,6]", "f32[4,6]"}, {}, {}, {"f32[4,6]"}}},
      {rms_norm, {{"f32[4,6]", "f32[6]"}, {{"eps", Rational(1, 100000)}}, {}, {"f32[4,6]"}}},
      {layer_norm, {{"f32[4,6]", "f32[6]", "f32[6]"}, {{"eps", Rational(1, 100000)}}, {}, {"f32[4,6]"}}},
      {rope, {{"f32[2,5,3,8]", "f32[5,4]", "f32[5,4]"}, {}, {}, {"f32[2,5,3,8]"}}},
      {attention,
       {{"f32[2,5,6,8]", "f32[2,5,3,8]", "f32[2,5,3,10]"}, {{"causal", AttrValue(true)}}, {}, {"f32[2,5,6,10]"}}},
      {cross_entropy, {{"f32[2,5,100]", "i32[2,5]"}, {}, {}, {"f32[2,5]"}}},
      {adamw,
       {{"f32[4,6]", "f32[4,6]", "f32[4,6]", "f32[4,6]", "i64[]", "f32[]"},
        {{"beta1", Rational(9, 10)}, {"beta2", Rational(19, 20)}, {"eps", Rational(1, 100)}, {"weight_decay", Rational(0)}},
        {},
        {"f32[4,6]", "f32[4,6]", "f32[4,6]"}}},
  };
  for (const OpCode code : {add, mul, max, min}) samples[code] = {{"f32[4]", "f32[4]", "f32[4]"}, {}, {}, {"f32[4]"}};
  for (const OpCode code : {sub, div}) samples[code] = {{"f32[4]", "f32[4]"}, {}, {}, {"f32[4]"}};
  for (const OpCode code : {neg, exp, log, sqrt, rsqrt, reciprocal, tanh, erf, sigmoid, sin, cos, abs, stop_gradient, silu,
                            gelu_tanh, gelu_erf}) {
    samples[code] = {{"f32[4]"}, {}, {}, {"f32[4]"}};
  }
  return samples;
}

inline Instruction instruction_of(OpCode code, const TypeSample& sample) {
  Instruction instruction;
  instruction.op = code;
  for (std::size_t i = 0; i < sample.operands.size(); ++i) {
    instruction.inputs.push_back(ValueId{static_cast<std::int32_t>(i)});
  }
  for (const auto& [name, value] : sample.attributes) instruction.attributes.set(name, value);
  return instruction;
}

// The inferred types as text, or the error as "expected .../found ...".
inline std::variant<std::vector<std::string>, TypeError> infer_sample(OpCode code, const TypeSample& sample) {
  const Instruction instruction = instruction_of(code, sample);
  if (const auto error = check_schema(instruction)) return *error;
  const auto types = [](const std::vector<std::string>& texts) {
    std::vector<TensorType> result;
    for (const std::string& text : texts) result.push_back(type_of(text));
    return result;
  };
  const auto inferred = infer_types(instruction, types(sample.operands), types(sample.declared), test_axis_size);
  if (const auto* error = std::get_if<TypeError>(&inferred)) return *error;
  std::vector<std::string> texts;
  for (const TensorType& type : std::get<std::vector<TensorType>>(inferred)) texts.push_back(to_string(type));
  return texts;
}

}  // namespace shardproof::ir

#include "lowering/differentiate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "tests/unit/lowering/small_interpreter.h"

namespace shardproof::lowering {
namespace {

using ir::Builder;
using ir::DType;
using ir::OpCode;
using ir::Rational;
using ir::ValueId;
using testing::interpret;
using testing::scattered;
using testing::SmallTensor;
using testing::SmallValues;

constexpr DType kF32 = DType::f32;
using List = std::vector<std::int64_t>;

// An op applied to inputs of these shapes. Float inputs are drawn from [low, high); `ids` (integer or boolean inputs)
// follow with given contents.
struct Case {
  OpCode op;
  std::vector<ir::Shape> floats;
  std::function<ValueId(Builder&, const std::vector<ValueId>&)> apply;
  double low = -1.5;
  double high = 1.5;
  std::vector<std::pair<DType, SmallTensor>> others = {};
};

std::function<ValueId(Builder&, const std::vector<ValueId>&)> plain(OpCode op) {
  return [op](Builder& b, const std::vector<ValueId>& in) { return b.op(op, in); };
}

constexpr std::int64_t k0 = 0, k1 = 1, k2 = 2, k3 = 3;

using P = std::pair<const char*, ir::AttrValue>;

template <typename... Attribute>
std::function<ValueId(Builder&, const std::vector<ValueId>&)> with(OpCode op, Attribute... attributes) {
  return [op, attributes...](Builder& b, const std::vector<ValueId>& in) { return b.op(op, in, {attributes...}); };
}

std::vector<Case> structure_cases() {
  const SmallTensor ids{{2, 2}, {2, 0, 2, 1}};
  return {
      {OpCode::reshape, {{2, 3}}, with(OpCode::reshape, P{"shape", List{3, 2}})},
      {OpCode::transpose, {{2, 3, 4}}, with(OpCode::transpose, P{"perm", List{2, 0, 1}})},
      {OpCode::broadcast, {{3, 1, 2}}, with(OpCode::broadcast, P{"shape", List{2, 4, 3, 2}}, P{"dims", List{2, 1, 0}})},
      {OpCode::broadcast, {{}}, with(OpCode::broadcast, P{"shape", List{2, 3}}, P{"dims", List{}})},
      {OpCode::slice, {{2, 5}}, with(OpCode::slice, P{"dim", k1}, P{"start", ir::constant_expr(1)}, P{"size", k3})},
      {OpCode::slice,
       {{2, 5}},
       with(OpCode::slice, P{"dim", k1}, P{"start", ir::variable_expr("tp")}, P{"size", k2}, P{"stride", k3})},
      {OpCode::concat, {{2, 1}, {2, 3}}, with(OpCode::concat, P{"dim", k1})},
      {OpCode::pad, {{2, 3}}, with(OpCode::pad, P{"dim", k1}, P{"low", k1}, P{"high", k2}, P{"value", Rational(5)})},
      {OpCode::cast, {{2, 3}}, with(OpCode::cast, P{"dtype", std::string("bf16")})},
      {OpCode::take, {{2, 3, 2}}, with(OpCode::take, P{"dim", k1}), -1, 1, {{DType::i32, ids}}},
      {OpCode::scatter_add,
       {{3, 2, 2, 2}},
       with(OpCode::scatter_add, P{"dim", k1}, P{"size", k3}),
       -1,
       1,
       {{DType::i32, ids}}},
      {OpCode::take_along, {{2, 2, 3}}, plain(OpCode::take_along), -1, 1, {{DType::i64, ids}}},
      {OpCode::put_along, {{2, 2}}, with(OpCode::put_along, P{"size", k3}), -1, 1, {{DType::i64, ids}}},
  };
}

std::vector<Case> arithmetic_cases() {
  std::vector<Case> cases;
  for (const OpCode op : {OpCode::neg, OpCode::exp, OpCode::tanh, OpCode::erf, OpCode::sigmoid, OpCode::sin,
                          OpCode::cos, OpCode::abs, OpCode::silu, OpCode::gelu_tanh, OpCode::gelu_erf}) {
    cases.push_back({op, {{2, 3}}, plain(op)});
  }
  for (const OpCode op : {OpCode::log, OpCode::sqrt, OpCode::rsqrt, OpCode::reciprocal}) {
    cases.push_back({op, {{2, 3}}, plain(op), 0.5, 2.0});
  }
  for (const OpCode op : {OpCode::add, OpCode::mul, OpCode::max, OpCode::min}) {
    cases.push_back({op, {{2, 3}, {2, 3}, {2, 3}}, plain(op)});
  }
  cases.push_back({OpCode::sub, {{2, 3}, {2, 3}}, plain(OpCode::sub)});
  cases.push_back({OpCode::div, {{2, 3}, {2, 3}}, plain(OpCode::div), 0.5, 2.0});
  cases.push_back({OpCode::swiglu, {{2, 3}, {2, 3}}, plain(OpCode::swiglu)});
  cases.push_back({OpCode::pow, {{2, 3}}, with(OpCode::pow, P{"exponent", Rational(5, 2)}), 0.5, 2.0});
  cases.push_back({OpCode::power, {{2, 2}}, plain(OpCode::power), 0.5, 2.0, {{DType::i64, {{2, 2}, {0, 1, 2, 5}}}}});
  cases.push_back({OpCode::select,
                   {{2, 2}, {2, 2}},
                   [](Builder& b, const std::vector<ValueId>& in) {
                     return b.op(OpCode::select, {in[2], in[0], in[1]});
                   },
                   -1,
                   1,
                   {{DType::boolean, {{2, 2}, {1, 0, 0, 1}}}}});
  cases.push_back({OpCode::einsum, {{2, 3, 2}, {4, 3}}, with(OpCode::einsum, P{"spec", std::string("abc,db->adc")})});
  cases.push_back({OpCode::einsum, {{2, 3}, {3}}, with(OpCode::einsum, P{"spec", std::string("ab,c->a")})});
  cases.push_back({OpCode::einsum, {{2, 3, 4}}, with(OpCode::einsum, P{"spec", std::string("abc->ca")})});
  cases.push_back({OpCode::einsum, {{2, 3}, {3, 2}, {2}}, with(OpCode::einsum, P{"spec", std::string("ab,bc,a->c")})});
  for (const OpCode op : {OpCode::reduce_sum, OpCode::reduce_max, OpCode::reduce_min}) {
    cases.push_back({op, {{2, 3, 2}}, [op](Builder& b, const std::vector<ValueId>& in) {
                       return b.op(op, in, {{"dims", List{0, 2}}});
                     }});
  }
  return cases;
}

std::vector<Case> macro_cases() {
  return {
      {OpCode::softmax, {{2, 3, 2}}, with(OpCode::softmax, P{"dim", k1})},
      {OpCode::log_softmax, {{2, 3, 2}}, with(OpCode::log_softmax, P{"dim", k1})},
      {OpCode::rms_norm, {{2, 2, 3}, {3}}, with(OpCode::rms_norm, P{"eps", Rational(1, 10)})},
      {OpCode::rms_norm, {{3}, {3}}, with(OpCode::rms_norm, P{"eps", Rational(1, 10)})},
      {OpCode::layer_norm, {{2, 2, 3}, {3}, {3}}, with(OpCode::layer_norm, P{"eps", Rational(1, 10)})},
      {OpCode::rope, {{2, 3, 2, 4}, {3, 2}, {3, 2}}, plain(OpCode::rope)},
      {OpCode::attention, {{1, 3, 4, 2}, {1, 3, 2, 2}, {1, 3, 2, 3}}, with(OpCode::attention, P{"causal", true})},
      {OpCode::attention,
       {{2, 2, 2, 2}, {2, 3, 1, 2}, {2, 3, 1, 2}},
       with(OpCode::attention, P{"causal", false}, P{"scale", Rational(1, 3)})},
      {OpCode::cross_entropy, {{2, 2, 3}}, plain(OpCode::cross_entropy), -1, 1, {{DType::i32, {{2, 2}, {2, 0, 1, 2}}}}},
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> cases = structure_cases();
  for (Case& c : arithmetic_cases()) cases.push_back(std::move(c));
  for (Case& c : macro_cases()) cases.push_back(std::move(c));
  return cases;
}

struct Built {
  ir::Program program;
  std::vector<ValueId> floats;
  ValueId loss;
  std::vector<ValueId> grads;
  SmallValues values;
};

// loss = sum(result * weights), so that every result element has a cotangent of its own.
Built build(const Case& c) {
  Built built;
  Builder b(built.program);
  std::vector<ValueId> in;
  int seed = 0;
  for (const ir::Shape& shape : c.floats) {
    in.push_back(b.input("x" + std::to_string(seed), {kF32, shape}));
    built.values[in.back()] = scattered(shape, c.low, c.high, ++seed);
  }
  built.floats = in;
  for (const auto& [dtype, tensor] : c.others) {
    in.push_back(b.input("other" + std::to_string(++seed), {dtype, tensor.shape}));
    built.values[in.back()] = tensor;
  }
  const ValueId result = c.apply(b, in);
  const ir::TensorType type = b.type(result);
  const ValueId weights = b.input("weights", type);
  built.values[weights] = scattered(type.shape, -1, 1, 40);
  const ValueId product = b.op(OpCode::mul, {result, weights});
  List dims;
  for (std::size_t i = 0; i < type.shape.size(); ++i) dims.push_back(static_cast<std::int64_t>(i));
  built.loss = dims.empty() ? product : b.op(OpCode::reduce_sum, {product}, {{"dims", dims}});
  const std::size_t end = built.program.body.size();
  const ValueId one = b.typed(OpCode::constant, {type.dtype, {}}, {{"value", Rational(1)}});
  built.grads = append_backward(b, InstructionRange{0, end}, {{built.loss, one}}, built.floats);
  return built;
}

TEST(Vjp, AgreesWithFiniteDifferences) {
  const double h = 1e-5;
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(std::string(ir::schema_of(c.op).name));
    const Built built = build(c);
    const SmallValues at = interpret(built.program, built.values);
    for (std::size_t k = 0; k < built.floats.size(); ++k) {
      ASSERT_TRUE(built.grads[k].valid());
      const SmallTensor& grad = at.at(built.grads[k]);
      ASSERT_EQ(grad.shape, c.floats[k]);
      EXPECT_EQ(built.program.value(built.grads[k]).type.dtype, kF32);
      for (std::size_t i = 0; i < grad.data.size(); ++i) {
        const auto loss_at = [&](double shift) {
          SmallValues moved = built.values;
          moved[built.floats[k]].data[i] += shift;
          return interpret(built.program, moved).at(built.loss).data[0];
        };
        EXPECT_NEAR(grad.data[i], (loss_at(h) - loss_at(-h)) / (2 * h), 2e-8) << "operand " << k << " element " << i;
      }
    }
  }
}

// Each op of the table has a rule, tested above, or a reason; communication has its own tests.
TEST(Vjp, EveryOpOfTheTableIsAccountedFor) {
  std::set<OpCode> tested;
  for (const Case& c : all_cases()) tested.insert(c.op);
  for (const OpCode op :
       {OpCode::all_gather, OpCode::reduce_scatter, OpCode::all_to_all, OpCode::permute, OpCode::wait}) {
    tested.insert(op);
  }
  for (const ir::OpSchema& schema : ir::op_table()) {
    EXPECT_NE(tested.contains(schema.code), !why_no_derivative(schema.code).empty()) << schema.name;
  }
}

TEST(Vjp, UnsupportedOpsThrowOnlyWhenAGradientIsAsked) {
  ir::Program program;
  Builder b(program, [](const std::string&) { return std::int64_t{2}; });
  const ValueId x = b.input("x", {kF32, {4}});
  b.op(OpCode::all_reduce, {x}, {{"axes", std::vector<std::string>{"tp"}}, {"reduce", std::string("sum")}});
  const ir::Instruction all_reduce = program.body[0];
  EXPECT_THROW(append_vjp(b, all_reduce, {x}, {true}), ir::BuildError);
  EXPECT_FALSE(append_vjp(b, all_reduce, {x}, {false})[0].valid());
  EXPECT_FALSE(append_vjp(b, all_reduce, {ValueId{}}, {true})[0].valid());
}

TEST(Vjp, CollectivesThatMoveDataHaveTransposes) {
  ir::Program program;
  Builder b(program, [](const std::string&) { return std::int64_t{2}; });
  const ValueId x = b.input("x", {kF32, {4, 6}});
  const std::vector<std::string> tp = {"tp"};
  const ValueId gathered = b.op(OpCode::all_gather, {x}, {{"axes", tp}, {"dim", k1}, {"async", true}});
  const ValueId waited = b.op(OpCode::wait, {gathered});
  const ValueId swapped = b.op(OpCode::all_to_all, {waited}, {{"axes", tp}, {"split_dim", k0}, {"concat_dim", k1}});
  const ValueId shifted = b.op(OpCode::permute, {swapped}, {{"axes", tp}, {"shift", k1}});
  const ValueId scattered_x =
      b.op(OpCode::reduce_scatter, {shifted}, {{"axes", tp}, {"dim", k0}, {"reduce", std::string("sum")}});
  const ValueId g = b.input("g", b.type(scattered_x));
  const std::vector<ValueId> grads = append_backward(b, InstructionRange{0, 5}, {{scattered_x, g}}, {x});
  EXPECT_EQ(b.type(grads[0]), b.type(x));
  ASSERT_EQ(program.body.size(), 9u);
  EXPECT_EQ(program.body[5].op, OpCode::all_gather);
  EXPECT_EQ(program.body[5].attributes.get<std::int64_t>("dim"), 0);
  EXPECT_EQ(program.body[6].op, OpCode::permute);
  EXPECT_EQ(program.body[6].attributes.get<std::int64_t>("shift"), -1);
  EXPECT_EQ(program.body[7].op, OpCode::all_to_all);
  EXPECT_EQ(program.body[7].attributes.get<std::int64_t>("split_dim"), 1);
  EXPECT_EQ(program.body[7].attributes.get<std::int64_t>("concat_dim"), 0);
  EXPECT_EQ(program.body[8].op, OpCode::reduce_scatter);
  EXPECT_EQ(program.body[8].attributes.get<std::int64_t>("dim"), 1);
  EXPECT_FALSE(program.body[8].attributes.has("async"));
}

TEST(Backward, FanOutIsOneSum) {
  ir::Program program;
  Builder b(program);
  const ValueId x = b.input("x", {kF32, {2}});
  std::vector<ValueId> uses;
  for (const OpCode op : {OpCode::exp, OpCode::sin, OpCode::tanh}) uses.push_back(b.op(op, {x}));
  const ValueId y = b.op(OpCode::add, uses);
  const ValueId g = b.input("g", {kF32, {2}});
  const std::vector<ValueId> grads = append_backward(b, InstructionRange{0, 4}, {{y, g}}, {x});
  const ir::Instruction& last = program.body.back();
  EXPECT_EQ(last.op, OpCode::add);
  EXPECT_EQ(last.inputs.size(), 3u);
  EXPECT_EQ(last.outputs[0], grads[0]);
  EXPECT_EQ(program.value(grads[0]).name, "x.grad");
}

TEST(Backward, SkipsWhatDoesNotDependOnTheParameters) {
  ir::Program program;
  Builder b(program);
  const ValueId x = b.input("x", {kF32, {2}});
  const ValueId data = b.input("data", {kF32, {2}});
  const ValueId prepared = b.op(OpCode::exp, {data});
  const ValueId y = b.op(OpCode::mul, {x, prepared});
  b.op(OpCode::sin, {y});  // does not reach the loss
  const ValueId g = b.input("g", {kF32, {2}});
  b.set_source("elsewhere");
  const std::vector<ValueId> grads = append_backward(b, InstructionRange{0, 3}, {{y, g}}, {x, data, g});
  EXPECT_TRUE(grads[0].valid());
  EXPECT_FALSE(grads[2].valid());
  ir::Program again;
  Builder b2(again);
  const ValueId x2 = b2.input("x", {kF32, {2}});
  const ValueId data2 = b2.input("data", {kF32, {2}});
  const ValueId y2 = b2.op(OpCode::mul, {x2, b2.op(OpCode::exp, {data2})});
  b2.op(OpCode::sin, {y2});
  append_backward(b2, InstructionRange{0, 3}, {{y2, b2.input("g", {kF32, {2}})}}, {x2});
  EXPECT_EQ(again.body.size(), 4u);  // one product
}

TEST(Backward, StopGradientAndIntegersGiveZero) {
  ir::Program program;
  Builder b(program);
  const ValueId x = b.input("x", {kF32, {3}});
  const ValueId ids = b.input("ids", {DType::i32, {2}});
  const ValueId stopped = b.op(OpCode::stop_gradient, {x});
  const ValueId y = b.op(OpCode::take, {stopped, ids});
  const ValueId g = b.input("g", {kF32, {2}});
  const std::vector<ValueId> grads = append_backward(b, InstructionRange{0, 2}, {{y, g}}, {x, ids});
  EXPECT_FALSE(grads[0].valid());
  EXPECT_FALSE(grads[1].valid());
  EXPECT_EQ(program.body.size(), 2u);
}

TEST(Backward, IntermediateCotangentsCanBeAskedFor) {
  ir::Program program;
  Builder b(program);
  const ValueId x = b.input("x", {kF32, {3}});
  b.set_source("layer.0");
  const ValueId y = b.op(OpCode::exp, {x}, {}, "y");
  const ValueId z = b.op(OpCode::sin, {y}, {}, "z");
  const ValueId g = b.input("g", {kF32, {3}});
  const std::vector<ValueId> grads = append_backward(b, InstructionRange{0, 2}, {{z, g}}, {y, x});
  EXPECT_EQ(program.value(grads[0]).name, "y.grad");
  EXPECT_EQ(program.value(grads[1]).name, "x.grad");
  for (const ir::Instruction& instruction : program.body) EXPECT_EQ(instruction.source, "layer.0");
}

}  // namespace
}  // namespace shardproof::lowering

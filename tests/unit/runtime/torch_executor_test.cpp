#include "runtime/torch_executor.h"

#include <algorithm>
#include <set>

#include "tests/unit/runtime/op_cases.h"

namespace shardproof::runtime::testing {
namespace {

using ir::DType;
using ir::OpCode;
using ir::Rational;

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases = source_and_structure_cases();
  for (const auto& more : {arithmetic_cases(), macro_cases()}) cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

class EveryOp : public ::testing::TestWithParam<OpCase> {};

TEST_P(EveryOp, AgreesWithItsDefinitionInLoops) {
  const OpCase& c = GetParam();
  std::vector<ir::TensorType> declared;
  if (c.declared) declared.push_back(c.expected.front().type);
  const std::vector<Tensor> found = run_op(c.op, c.inputs, c.attrs, declared);
  ASSERT_EQ(found.size(), c.expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) expect_near(found[i], c.expected[i]);
}

INSTANTIATE_TEST_SUITE_P(Cases, EveryOp, ::testing::ValuesIn(all_cases()), [](const auto& test) {
  return std::string(ir::schema_of(test.param.op).name) + "_" + test.param.label + "_" + std::to_string(test.index);
});

// The table is the list: an op that nobody wrote a case for fails here.
TEST(OpTable, EveryOpIsExecutedByATest) {
  std::set<OpCode> executed;
  for (const OpCase& c : all_cases()) executed.insert(c.op);
  for (const ir::OpSchema& schema : ir::op_table()) {
    const bool elsewhere = schema.family == ir::OpFamily::communication ||  // virtual_cluster_test
                           schema.code == OpCode::loop || schema.code == OpCode::release ||
                           schema.code == OpCode::rng_uniform;
    EXPECT_NE(executed.contains(schema.code), elsewhere) << schema.name;
  }
}

TEST(RngUniform, AShardWithItsOffsetDrawsTheNumbersOfTheWhole) {
  const ir::TensorType whole_type{DType::f32, {6, 4}};
  const std::vector<ir::CoordExpr> key = {ir::constant_expr(5), ir::constant_expr(2)};
  const Attrs attrs = {{"stream", std::string("dropout")}, {"key", key}};
  const Tensor whole = run_op(OpCode::rng_uniform, {}, attrs, {whole_type}).front();
  Attrs shifted = attrs;
  shifted.emplace_back("offsets", std::vector<ir::CoordExpr>{ir::constant_expr(2), ir::constant_expr(0)});
  const Tensor shard = run_op(OpCode::rng_uniform, {}, shifted, {{DType::f32, {3, 4}}}).front();
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) EXPECT_EQ(at(shard, {i, j}), at(whole, {i + 2, j}));
  }
  const std::set<double> distinct(whole.data.begin(), whole.data.end());
  EXPECT_EQ(distinct.size(), whole.data.size());
  EXPECT_GE(*distinct.begin(), 0.0);
  EXPECT_LT(*distinct.rbegin(), 1.0);
}

TEST(RngUniform, AnotherStreamOrKeyIsAnotherSequence) {
  const ir::TensorType type{DType::f32, {16}};
  const auto draw = [&](const std::string& stream, std::int64_t key) {
    return run_op(OpCode::rng_uniform, {},
                  {{"stream", stream}, {"key", std::vector<ir::CoordExpr>{ir::constant_expr(key)}}}, {type})
        .front()
        .data;
  };
  EXPECT_EQ(draw("a", 1), draw("a", 1));
  EXPECT_NE(draw("a", 1), draw("a", 2));
  EXPECT_NE(draw("a", 1), draw("b", 1));
}

TEST(Execute, RefusesIndicesOutsideOfTheOperand) {
  std::mt19937_64 random(1);
  const Tensor x = random_normal(random, {DType::f32, {4, 3}});
  EXPECT_THROW(run_op(OpCode::take, {x, {{DType::i32, {2}}, {0, 4}}}, {}), ExecutionError);
  EXPECT_THROW(run_op(OpCode::take_along, {x, {{DType::i32, {4}}, {0, 1, 2, -1}}}, {}), ExecutionError);
  // Out of bounds at run time only: the start is a loop index.
  ir::Program program;
  ir::Builder builder(program);
  const ir::ValueId input = builder.input("x", x.type);
  const ir::ValueId start = builder.op(OpCode::reduce_sum, {input}, {{"dims", std::vector<std::int64_t>{0}}});
  const auto carried = builder.begin_loop("i", 4, {start}, {"sum"});
  const ir::ValueId part = builder.op(
      OpCode::slice, {input}, {{"dim", std::int64_t{0}}, {"start", ir::variable_expr("i")}, {"size", std::int64_t{2}}});
  const ir::ValueId row = builder.op(OpCode::reduce_sum, {part}, {{"dims", std::vector<std::int64_t>{0}}});
  const auto results = builder.end_loop({builder.op(OpCode::add, {carried[0], row})});
  EXPECT_THROW(execute(program, std::map<ir::ValueId, Tensor>{{input, x}}, results), ExecutionError);
}

TEST(Execute, LoopsCarryValuesAndSeeTheirIndex) {
  // Fibonacci by simultaneous carries, plus a sum of i * trip-dependent rows from outside the loop.
  ir::Program program;
  ir::Builder builder(program);
  const ir::ValueId rows = builder.input("rows", {DType::f32, {5, 2}});
  const ir::ValueId one = builder.typed(OpCode::constant, {DType::f32, {}}, {{"value", Rational(1)}});
  const ir::ValueId zero = builder.typed(OpCode::constant, {DType::f32, {1, 2}}, {{"value", Rational(0)}});
  const auto carried = builder.begin_loop("i", 5, {one, one, zero}, {"a", "b", "sum"});
  const ir::ValueId next = builder.op(OpCode::add, {carried[0], carried[1]});
  const ir::ValueId row = builder.op(
      OpCode::slice, {rows}, {{"dim", std::int64_t{0}}, {"start", ir::variable_expr("i")}, {"size", std::int64_t{1}}});
  const ir::ValueId index = builder.typed(OpCode::coord, {DType::i64, {}}, {{"value", ir::variable_expr("i")}});
  const ir::ValueId weight = builder.op(OpCode::cast, {index}, {{"dtype", std::string("f32")}});
  const ir::ValueId wide = builder.op(
      OpCode::broadcast, {weight}, {{"shape", std::vector<std::int64_t>{1, 2}}, {"dims", std::vector<std::int64_t>{}}});
  const ir::ValueId scaled = builder.op(OpCode::mul, {row, wide});
  const ir::ValueId sum = builder.op(OpCode::add, {carried[2], scaled});
  const auto results = builder.end_loop({carried[1], next, sum});
  std::mt19937_64 random(3);
  const Tensor x = random_normal(random, {DType::f32, {5, 2}});
  const auto found = execute(program, std::map<ir::ValueId, Tensor>{{rows, x}}, results);
  EXPECT_EQ(found[0].data[0], 8.0);
  EXPECT_EQ(found[1].data[0], 13.0);
  expect_near(found[2], make(DType::f32, {1, 2}, [&](const Index& j) {
                double s = 0;
                for (std::int64_t i = 0; i < 5; ++i) s += static_cast<double>(i) * at(x, {i, j[1]});
                return s;
              }));
}

TEST(Execute, ReleasedValuesCannotBeUsed) {
  ir::Program program;
  ir::Builder builder(program);
  const ir::ValueId x = builder.input("x", {DType::f32, {2}});
  const ir::ValueId y = builder.op(OpCode::neg, {x});
  ir::Instruction release;
  release.op = OpCode::release;
  release.inputs = {x};
  program.body.push_back(release);
  const std::map<ir::ValueId, Tensor> inputs = {{x, {{DType::f32, {2}}, {1, 2}}}};
  const std::vector<ir::ValueId> wanted = {y};
  EXPECT_EQ(execute(program, inputs, wanted).front().data, (std::vector<double>{-1, -2}));
  const std::vector<ir::ValueId> late = {builder.op(OpCode::exp, {x})};
  EXPECT_THROW(execute(program, inputs, late), ExecutionError);
}

TEST(Execute, MissingInputIsNamed) {
  ir::Program program;
  ir::Builder builder(program);
  const ir::ValueId x = builder.input("activations", {DType::f32, {2}});
  const std::vector<ir::ValueId> wanted = {builder.op(OpCode::neg, {x})};
  try {
    execute(program, std::map<ir::ValueId, Tensor>{}, wanted);
    FAIL() << "no error";
  } catch (const ExecutionError& error) {
    EXPECT_NE(std::string(error.what()).find("%activations"), std::string::npos) << error.what();
  }
}

TEST(Gradients, AutogradSeesThroughTheExecutor) {
  // y = sum(sin(x) * w): dy/dx = cos(x) * w.
  ir::Program program;
  ir::Builder builder(program);
  const ir::ValueId x = builder.input("x", {DType::f32, {3}});
  const ir::ValueId w = builder.input("w", {DType::f32, {3}});
  const ir::ValueId product = builder.op(OpCode::mul, {builder.op(OpCode::sin, {x}), w});
  const std::vector<ir::ValueId> wanted = {
      builder.op(OpCode::reduce_sum, {product}, {{"dims", std::vector<std::int64_t>{0}}})};
  const Tensor at_x = {{DType::f32, {3}}, {0.3, -1.2, 2.0}};
  const Tensor at_w = {{DType::f32, {3}}, {1.0, 2.0, -0.5}};
  const std::vector<Array> leaves = {upload_differentiable(at_x)};
  const std::vector<Array> result = execute(program, {{x, leaves[0]}, {w, upload(at_w)}}, wanted);
  const Tensor gradient = gradients(result.front(), leaves).front();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(gradient.data[i], std::cos(at_x.data[i]) * at_w.data[i], 1e-14);
}

}  // namespace
}  // namespace shardproof::runtime::testing

#include "ir/builder.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "type_samples.h"

namespace shardproof::ir {
namespace {

TensorType f32(Shape shape) { return {DType::f32, std::move(shape)}; }

TEST(Builder, InfersTypesAndNamesValues) {
  Program program;
  Builder b(program);
  const ValueId x = b.input("x", f32({2, 3}));
  const ValueId w = b.input("w", f32({5, 3}));
  b.set_source("model.py:1");
  b.set_recompute("layer0");
  const ValueId y = b.op(OpCode::einsum, {x, w}, {{"spec", "bh,fh->bf"}}, "y");
  const ValueId z = b.op(OpCode::add, {y, y});
  const ValueId y2 = b.op(OpCode::neg, {z}, {}, "y");
  EXPECT_EQ(b.shape(y), (Shape{2, 5}));
  EXPECT_EQ(program.value(y).name, "y");
  EXPECT_EQ(program.value(z).name, "add");
  EXPECT_EQ(program.value(y2).name, "y_1");
  ASSERT_EQ(program.body.size(), 3U);
  EXPECT_EQ(program.body[0].outputs, std::vector<ValueId>{y});
  EXPECT_EQ(program.body[0].source, "model.py:1");
  EXPECT_EQ(program.body[2].recompute, "layer0");
}

TEST(Builder, EveryOperatorOfTheTableCanBeBuilt) {
  for (const auto& [code, sample] : type_samples()) {
    Program program;
    Builder b(program, test_axis_size);
    std::vector<ValueId> inputs;
    for (const std::string& operand : sample.operands) inputs.push_back(b.input("x" + std::to_string(inputs.size()), type_of(operand)));
    std::vector<ValueId> outputs;
    // An initializer list of run-time length: the samples have at most four attributes.
    const auto& a = sample.attributes;
    const auto at = [&](std::size_t i) { return std::pair<const char*, AttrValue>(a[i].first.c_str(), a[i].second); };
    const auto build = [&](AttrList attributes) {
      if (!sample.declared.empty()) {
        outputs = {b.typed(code, type_of(sample.declared[0]), attributes)};
      } else {
        outputs = b.multi(code, inputs, attributes, {});
      }
    };
    switch (a.size()) {
      case 0: build({}); break;
      case 1: build({at(0)}); break;
      case 2: build({at(0), at(1)}); break;
      case 3: build({at(0), at(1), at(2)}); break;
      default: build({at(0), at(1), at(2), at(3)}); break;
    }
    std::vector<std::string> results;
    for (const ValueId id : outputs) results.push_back(to_string(b.type(id)));
    EXPECT_EQ(results, sample.results) << schema_of(code).name;
  }
}

TEST(Builder, MisuseThrowsWithOpAndReason) {
  Program program;
  Builder b(program);
  const ValueId x = b.input("x", f32({2, 3}));
  const ValueId y = b.input("y", f32({3, 2}));
  try {
    b.op(OpCode::add, {x, y});
    FAIL();
  } catch (const BuildError& error) {
    EXPECT_NE(std::string(error.what()).find("add"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("f32[2,3] and f32[3,2]"), std::string::npos) << error.what();
  }
  EXPECT_THROW(b.input("x", f32({})), BuildError);
  EXPECT_THROW(b.input("z", f32({0})), BuildError);
  EXPECT_THROW(b.input("z", f32({kMaxExtent + 1})), BuildError);
  EXPECT_THROW(b.op(OpCode::neg, {ValueId{}}), BuildError);
  EXPECT_THROW(b.op(OpCode::neg, {ValueId{99}}), BuildError);
  EXPECT_THROW(b.op(OpCode::neg, {x, y}), BuildError);
  EXPECT_THROW(b.op(OpCode::reduce_sum, {x}), BuildError);
  EXPECT_THROW(b.op(OpCode::reduce_sum, {x}, {{"dims", std::int64_t{1}}}), BuildError);
  EXPECT_THROW(b.op(OpCode::neg, {x}, {{"dim", std::int64_t{1}}}), BuildError);
  EXPECT_THROW(b.op(OpCode::softmax, {x}, {{"dim", std::int64_t{1}}, {"dim", std::int64_t{1}}}), BuildError);
  EXPECT_THROW(b.op(OpCode::all_reduce, {x}, {{"axes", Texts{"tp"}}, {"reduce", "sum"}}), BuildError);
  EXPECT_THROW(b.op(OpCode::constant, {}, {{"value", 1}}), BuildError);  // needs a type
  EXPECT_THROW(b.op(OpCode::adamw, {x, x, x, x, x, x}), BuildError);    // several results
  EXPECT_THROW(b.op(OpCode::loop, {x}), BuildError);
  EXPECT_THROW(b.multi(OpCode::neg, {x}, {}, {"a", "b"}), BuildError);
  EXPECT_THROW(b.op(OpCode::broadcast, {x}, {{"shape", Ints{2, 3, 0}}, {"dims", Ints{0, 1}}}), BuildError);
  EXPECT_THROW(b.op(OpCode::pad, {x},
                    {{"dim", std::int64_t{0}},
                     {"low", std::numeric_limits<std::int64_t>::max()},
                     {"high", std::int64_t{1}},
                     {"value", 0}}),
               BuildError);
  // Nothing of a refused instruction stays behind.
  EXPECT_TRUE(program.body.empty());
  EXPECT_EQ(program.values.size(), 2U);
}

TEST(Builder, IntegersStandForRationalsAndExpressions) {
  Program program;
  Builder b(program);
  const ValueId x = b.input("x", f32({8}));
  b.op(OpCode::slice, {x}, {{"dim", std::int64_t{0}}, {"start", 2}, {"size", 3}});
  b.op(OpCode::pow, {x}, {{"exponent", 2}});
  b.typed(OpCode::table, {DType::i64, {2}}, {{"values", Ints{3, 4}}});
  b.typed(OpCode::rng_uniform, f32({4}), {{"stream", "d"}, {"key", Ints{1}}});
  EXPECT_TRUE(equal(program.body[0].attributes.get<CoordExpr>("start"), constant_expr(2)));
  EXPECT_EQ(program.body[1].attributes.get<Rational>("exponent"), Rational(2));
  EXPECT_EQ(program.body[2].attributes.get<std::vector<Rational>>("values"), (std::vector<Rational>{3, 4}));
  EXPECT_EQ(program.body[3].attributes.get<std::vector<CoordExpr>>("key").size(), 1U);
}

TEST(Builder, NamesStayUniqueAcrossBuilders) {
  Program program;
  Builder first(program);
  const ValueId x = first.input("x", f32({}));
  first.op(OpCode::neg, {x}, {}, "y");
  Builder second(program);
  second.op(OpCode::neg, {x}, {}, "y");
  first.op(OpCode::neg, {x}, {}, "y");
  first.op(OpCode::neg, {x}, {}, "y_1");
  std::set<std::string> names;
  for (const Value& value : program.values) EXPECT_TRUE(names.insert(value.name).second) << value.name;
}

TEST(Builder, OpsWithoutResultsReturnNoValue) {
  Program program;
  Builder b(program);
  const ValueId x = b.input("x", f32({}));
  EXPECT_FALSE(b.op(OpCode::release, {x}).valid());
  EXPECT_FALSE(b.op(OpCode::send, {x}, {{"peer", "s1"}, {"channel", "act"}}).valid());
  EXPECT_EQ(program.body.size(), 2U);
  EXPECT_EQ(program.values.size(), 1U);
}

TEST(Builder, LoopsCarryValues) {
  Program program;
  Builder b(program, test_axis_size);
  const ValueId x = b.input("x", f32({8, 4}));
  const ValueId zero = b.typed(OpCode::constant, f32({4}), {{"value", 0}});
  const std::vector<ValueId> outer = b.begin_loop("m", 4, {zero}, {"acc"});
  ASSERT_EQ(outer.size(), 1U);
  EXPECT_EQ(b.type(outer[0]), f32({4}));
  const ValueId rows = b.op(OpCode::slice, {x}, {{"dim", std::int64_t{0}}, {"start", variable_expr("m", 2)}, {"size", 2}});
  const ValueId row_sum = b.op(OpCode::reduce_sum, {rows}, {{"dims", Ints{0}}});
  const std::vector<ValueId> inner = b.begin_loop("k", 3, {outer[0], row_sum}, {"a", ""});
  const ValueId sum = b.op(OpCode::add, {inner[0], inner[1]});
  const std::vector<ValueId> inner_results = b.end_loop({sum, inner[1]});
  const std::vector<ValueId> results = b.end_loop({inner_results[0]});
  const ValueId after = b.op(OpCode::neg, {results[0]});

  ASSERT_EQ(program.body.size(), 3U);  // constant, loop, neg
  const Instruction& loop = program.body[1];
  EXPECT_EQ(loop.op, OpCode::loop);
  ASSERT_NE(loop.region, nullptr);
  EXPECT_EQ(loop.region->index, "m");
  EXPECT_EQ(loop.region->trip, 4);
  EXPECT_EQ(loop.inputs, std::vector<ValueId>{zero});
  EXPECT_EQ(loop.outputs, results);
  ASSERT_EQ(loop.region->carries.size(), 1U);
  EXPECT_EQ(loop.region->carries[0].init, zero);
  EXPECT_EQ(loop.region->carries[0].argument, outer[0]);
  EXPECT_EQ(loop.region->carries[0].next, inner_results[0]);
  EXPECT_EQ(loop.region->carries[0].result, results[0]);
  ASSERT_EQ(loop.region->body.size(), 3U);  // slice, reduce_sum, loop
  EXPECT_EQ(loop.region->body[2].op, OpCode::loop);
  EXPECT_EQ(loop.region->body[2].region->body.size(), 1U);
  EXPECT_EQ(program.body[2].outputs, std::vector<ValueId>{after});
  EXPECT_EQ(b.type(results[0]), f32({4}));
  EXPECT_EQ(program.value(outer[0]).name, "acc");
  EXPECT_EQ(program.value(results[0]).name, "acc_1");
}

TEST(Builder, LoopMisuseThrows) {
  Program program;
  Builder b(program, test_axis_size);
  const ValueId x = b.input("x", f32({8}));
  const ValueId y = b.input("y", f32({4}));
  EXPECT_THROW(b.end_loop({}), BuildError);
  EXPECT_THROW(b.begin_loop("m", 0, {x}, {"a"}), BuildError);
  EXPECT_THROW(b.begin_loop("m", 2, {x}, {}), BuildError);
  EXPECT_THROW(b.begin_loop("m", 2, {ValueId{}}, {"a"}), BuildError);
  EXPECT_THROW(b.begin_loop("tp", 2, {x}, {"a"}), BuildError);  // a mesh axis
  b.begin_loop("m", 2, {x}, {"a"});
  EXPECT_THROW(b.begin_loop("m", 2, {x}, {"a"}), BuildError);  // hides the outer index
  EXPECT_THROW(b.end_loop({}), BuildError);
  EXPECT_THROW(b.end_loop({y}), BuildError);
  EXPECT_THROW(b.end_loop({ValueId{}}), BuildError);
  EXPECT_EQ(b.end_loop({x}).size(), 1U);
  EXPECT_THROW(b.end_loop({x}), BuildError);
}

}  // namespace
}  // namespace shardproof::ir

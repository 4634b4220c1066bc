#include "lowering/unfold.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ir/builder.h"
#include "tests/unit/lowering/small_interpreter.h"

namespace shardproof::lowering {
namespace {

using ir::DType;
using ir::OpCode;
using ir::Rational;
using ir::ValueId;
using testing::interpret;
using testing::scattered;
using testing::SmallTensor;
using testing::SmallValues;

constexpr ir::DType kF32 = DType::f32;

bool only_core(const std::vector<ir::Instruction>& body) {
  for (const ir::Instruction& instruction : body) {
    if (ir::schema_of(instruction.op).family == ir::OpFamily::macro) return false;
    if (instruction.region && !only_core(instruction.region->body)) return false;
  }
  return true;
}

void expect_near(const SmallTensor& got, const SmallTensor& want) {
  ASSERT_EQ(got.shape, want.shape);
  for (std::size_t i = 0; i < want.data.size(); ++i) EXPECT_NEAR(got.data[i], want.data[i], 1e-12) << i;
}

TEST(Unfold, KeepsValueIdsSpansAndSource) {
  ir::Program program;
  ir::Builder b(program);
  const ValueId x = b.input("x", {kF32, {2, 4}});
  b.set_source("model.act");
  b.set_recompute("region");
  const ValueId y = b.op(OpCode::silu, {x}, {}, "y");
  const ValueId z = b.op(OpCode::add, {y, x}, {}, "z");
  program.body[0].span = {7, 9};
  std::vector<ValueId> mapping;
  const ir::Program core = unfold(program, &mapping);
  EXPECT_TRUE(only_core(core.body));
  ASSERT_EQ(mapping.size(), program.values.size());
  for (std::size_t i = 0; i < mapping.size(); ++i) {
    EXPECT_EQ(core.value(mapping[i]).name, program.values[i].name);
    EXPECT_EQ(core.value(mapping[i]).type, program.values[i].type);
  }
  ASSERT_EQ(core.body.size(), 3u);
  EXPECT_EQ(core.body[1].outputs[0], mapping[static_cast<std::size_t>(y.index)]);
  EXPECT_EQ(core.body[2].outputs[0], mapping[static_cast<std::size_t>(z.index)]);
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    EXPECT_EQ(core.body[i].source, "model.act");
    EXPECT_EQ(core.body[i].recompute, "region");
    EXPECT_EQ(core.body[i].span, (ir::Span{7, 9}));
  }
  EXPECT_FALSE(core.body[2].span.known());
}

TEST(Unfold, NamesStayUnique) {
  ir::Program program;
  ir::Builder b(program);
  const ValueId x = b.input("x", {kF32, {2, 4}});
  b.input("y/sigmoid", {kF32, {2, 4}});
  b.op(OpCode::silu, {x}, {}, "y");
  b.op(OpCode::silu, {x}, {}, "z");
  std::set<std::string> names;
  for (const ir::Value& value : unfold(program).values) EXPECT_TRUE(names.insert(value.name).second) << value.name;
}

TEST(Unfold, ReachesIntoLoopsAndLeavesTheOriginalAlone) {
  ir::Program program;
  ir::Builder b(program);
  const ValueId x = b.input("x", {kF32, {2, 4}});
  const std::vector<ValueId> carried = b.begin_loop("m", 3, {x}, {"c"});
  const ValueId next = b.op(OpCode::softmax, carried, {{"dim", std::int64_t{1}}});
  b.end_loop({next});
  const ir::Program core = unfold(program);
  EXPECT_TRUE(only_core(core.body));
  EXPECT_FALSE(only_core(program.body));
  ASSERT_EQ(core.body.size(), 1u);
  EXPECT_EQ(core.body[0].region->carries[0].next, next);
}

TEST(Unfold, DefinitionsOfOneKindAreAlike) {
  ir::Program program;
  ir::Builder b(program);
  const ValueId x = b.input("x", {kF32, {2, 4}});
  const ValueId w = b.input("w", {kF32, {4}});
  b.op(OpCode::rms_norm, {x, w}, {{"eps", Rational(1, 10)}}, "a");
  b.op(OpCode::rms_norm, {x, w}, {{"eps", Rational(1, 5)}}, "b");
  const SmallValues values = interpret(program, {{x, scattered({2, 4}, -1, 1, 1)}, {w, scattered({4}, -1, 1, 2)}});
  const ValueId a = program.body[0].outputs[0];
  const ValueId c = program.body[1].outputs[0];
  EXPECT_NE(values.at(a).data, values.at(c).data);  // the attribute is part of the cache key
}

// Every macro of the table unfolds to core ops, with the result types the macro has.
TEST(Unfold, EveryMacroOfTheTableHasADefinition) {
  std::set<OpCode> seen;
  ir::Program program;
  ir::Builder b(program);
  const ValueId x = b.input("x", {kF32, {2, 3, 4, 6}});
  const ValueId kv = b.input("kv", {kF32, {2, 3, 2, 6}});
  const ValueId w = b.input("w", {kF32, {6}});
  const ValueId table = b.input("table", {kF32, {3, 3}});
  const ValueId ids = b.input("ids", {DType::i32, {2, 3, 4}});
  const ValueId step = b.input("step", {DType::i64, {}});
  const ValueId lr = b.input("lr", {kF32, {}});
  b.op(OpCode::softmax, {x}, {{"dim", std::int64_t{1}}});
  b.op(OpCode::log_softmax, {x}, {{"dim", std::int64_t{3}}});
  b.op(OpCode::silu, {x});
  b.op(OpCode::gelu_tanh, {x});
  b.op(OpCode::gelu_erf, {x});
  b.op(OpCode::swiglu, {x, x});
  b.op(OpCode::rms_norm, {x, w}, {{"eps", Rational(1, 100)}});
  b.op(OpCode::layer_norm, {x, w, w}, {{"eps", Rational(1, 100)}});
  b.op(OpCode::rope, {x, table, table});
  b.op(OpCode::attention, {x, kv, kv}, {{"causal", false}, {"scale", Rational(1, 3)}});
  b.op(OpCode::cross_entropy, {x, ids});
  b.multi(OpCode::adamw, {w, w, w, w, step, lr},
          {{"beta1", Rational(9, 10)},
           {"beta2", Rational(9, 10)},
           {"eps", Rational(1, 100)},
           {"weight_decay", Rational(0)}},
          {});
  for (const ir::Instruction& instruction : program.body) seen.insert(instruction.op);
  for (const ir::OpSchema& schema : ir::op_table()) {
    const bool macro = schema.family == ir::OpFamily::macro;
    EXPECT_EQ(seen.contains(schema.code), macro) << schema.name;
  }
  EXPECT_TRUE(only_core(unfold(program).body));
}

TEST(Unfold, BfloatParameterTakesAWiderLearningRate) {
  ir::Program program;
  ir::Builder b(program);
  const ValueId w = b.input("w", {DType::bf16, {6}});
  const ValueId step = b.input("step", {DType::i64, {}});
  const ValueId lr = b.input("lr", {kF32, {}});
  b.multi(OpCode::adamw, {w, w, w, w, step, lr},
          {{"beta1", Rational(9, 10)},
           {"beta2", Rational(9, 10)},
           {"eps", Rational(1, 100)},
           {"weight_decay", Rational(1)}},
          {});
  EXPECT_TRUE(only_core(unfold(program).body));
}

// Grouped-query attention with a causal mask against loops over its definition.
TEST(UnfoldNumeric, AttentionMatchesLoops) {
  const std::int64_t S = 3, H = 4, G = 2, D = 2, E = 3;
  ir::Program program;
  ir::Builder b(program);
  const ValueId q = b.input("q", {kF32, {1, S, H, D}});
  const ValueId k = b.input("k", {kF32, {1, S, G, D}});
  const ValueId v = b.input("v", {kF32, {1, S, G, E}});
  const ValueId o = b.op(OpCode::attention, {q, k, v}, {{"causal", true}});
  const SmallTensor tq = scattered({1, S, H, D}, -2, 2, 1);
  const SmallTensor tk = scattered({1, S, G, D}, -2, 2, 2);
  const SmallTensor tv = scattered({1, S, G, E}, -2, 2, 3);
  SmallTensor want = testing::filled({1, S, H, E});
  for (std::int64_t h = 0; h < H; ++h) {
    const std::int64_t g = h / (H / G);
    for (std::int64_t i = 0; i < S; ++i) {
      std::vector<double> weight;
      double sum = 0.0;
      for (std::int64_t j = 0; j <= i; ++j) {
        double dot = 0.0;
        for (std::int64_t d = 0; d < D; ++d) dot += tq.at({0, i, h, d}) * tk.at({0, j, g, d});
        weight.push_back(std::exp(dot / std::sqrt(2.0)));
        sum += weight.back();
      }
      for (std::int64_t j = 0; j <= i; ++j) {
        for (std::int64_t e = 0; e < E; ++e) {
          want.at({0, i, h, e}) += weight[static_cast<std::size_t>(j)] / sum * tv.at({0, j, g, e});
        }
      }
    }
  }
  expect_near(interpret(program, {{q, tq}, {k, tk}, {v, tv}}).at(o), want);
}

TEST(UnfoldNumeric, NormsAndLossMatchFormulas) {
  ir::Program program;
  ir::Builder b(program);
  const ValueId x = b.input("x", {kF32, {2, 3}});
  const ValueId w = b.input("w", {kF32, {3}});
  const ValueId bias = b.input("bias", {kF32, {3}});
  const ValueId ids = b.input("ids", {DType::i32, {2}});
  const ValueId rms = b.op(OpCode::rms_norm, {x, w}, {{"eps", Rational(1, 100)}});
  const ValueId layer = b.op(OpCode::layer_norm, {x, w, bias}, {{"eps", Rational(1, 100)}});
  const ValueId loss = b.op(OpCode::cross_entropy, {x, ids});
  const ValueId logs = b.op(OpCode::log_softmax, {x}, {{"dim", std::int64_t{1}}});
  const SmallTensor tx = scattered({2, 3}, -2, 2, 1);
  const SmallTensor tw = scattered({3}, -2, 2, 2);
  const SmallTensor tb = scattered({3}, -2, 2, 3);
  const SmallTensor ti{{2}, {2, 0}};
  const SmallValues got = interpret(program, {{x, tx}, {w, tw}, {bias, tb}, {ids, ti}});
  for (std::int64_t r = 0; r < 2; ++r) {
    double mean = 0.0, square = 0.0, variance = 0.0, sum = 0.0;
    for (std::int64_t i = 0; i < 3; ++i) {
      mean += tx.at({r, i}) / 3;
      square += tx.at({r, i}) * tx.at({r, i}) / 3;
      sum += std::exp(tx.at({r, i}));
    }
    for (std::int64_t i = 0; i < 3; ++i) variance += (tx.at({r, i}) - mean) * (tx.at({r, i}) - mean) / 3;
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(got.at(rms).at({r, i}), tx.at({r, i}) / std::sqrt(square + 0.01) * tw.at({i}), 1e-12);
      EXPECT_NEAR(got.at(layer).at({r, i}),
                  (tx.at({r, i}) - mean) / std::sqrt(variance + 0.01) * tw.at({i}) + tb.at({i}), 1e-12);
      EXPECT_NEAR(got.at(logs).at({r, i}), tx.at({r, i}) - std::log(sum), 1e-12);
    }
    EXPECT_NEAR(got.at(loss).at({r}), std::log(sum) - tx.at({r, static_cast<std::int64_t>(ti.at({r}))}), 1e-12);
  }
}

TEST(UnfoldNumeric, ActivationsAndRopeMatchFormulas) {
  ir::Program program;
  ir::Builder b(program);
  const ValueId x = b.input("x", {kF32, {1, 2, 1, 4}});
  const ValueId up = b.input("up", {kF32, {1, 2, 1, 4}});
  const ValueId cos = b.input("cos", {kF32, {2, 2}});
  const ValueId sin = b.input("sin", {kF32, {2, 2}});
  const ValueId tanh_gelu = b.op(OpCode::gelu_tanh, {x});
  const ValueId erf_gelu = b.op(OpCode::gelu_erf, {x});
  const ValueId glu = b.op(OpCode::swiglu, {x, up});
  const ValueId turned = b.op(OpCode::rope, {x, cos, sin});
  const SmallTensor tx = scattered({1, 2, 1, 4}, -2, 2, 1);
  const SmallTensor tu = scattered({1, 2, 1, 4}, -2, 2, 2);
  const SmallTensor tc = scattered({2, 2}, -1, 1, 3);
  const SmallTensor ts = scattered({2, 2}, -1, 1, 4);
  const SmallValues got = interpret(program, {{x, tx}, {up, tu}, {cos, tc}, {sin, ts}});
  for (std::size_t i = 0; i < tx.data.size(); ++i) {
    const double v = tx.data[i];
    const double inner = 0.7978845608028654 * (v + 0.044715 * v * v * v);
    EXPECT_NEAR(got.at(tanh_gelu).data[i], 0.5 * v * (1 + std::tanh(inner)), 1e-12);
    EXPECT_NEAR(got.at(erf_gelu).data[i], 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))), 1e-12);
    EXPECT_NEAR(got.at(glu).data[i], v / (1 + std::exp(-v)) * tu.data[i], 1e-12);
  }
  for (std::int64_t s = 0; s < 2; ++s) {
    for (std::int64_t i = 0; i < 2; ++i) {
      const double x1 = tx.at({0, s, 0, i}), x2 = tx.at({0, s, 0, i + 2});
      EXPECT_NEAR(got.at(turned).at({0, s, 0, i}), x1 * tc.at({s, i}) - x2 * ts.at({s, i}), 1e-12);
      EXPECT_NEAR(got.at(turned).at({0, s, 0, i + 2}), x2 * tc.at({s, i}) + x1 * ts.at({s, i}), 1e-12);
    }
  }
}

TEST(UnfoldNumeric, AdamwMatchesTheFormula) {
  ir::Program program;
  ir::Builder b(program);
  std::vector<ValueId> in;
  for (const char* name : {"p", "g", "m", "v"}) in.push_back(b.input(name, {kF32, {3}}));
  in.push_back(b.input("step", {DType::i64, {}}));
  in.push_back(b.input("lr", {kF32, {}}));
  const std::vector<ValueId> out = b.multi(OpCode::adamw, in,
                                           {{"beta1", Rational(9, 10)},
                                            {"beta2", Rational(19, 20)},
                                            {"eps", Rational(1, 1000)},
                                            {"weight_decay", Rational(1, 10)}},
                                           {});
  SmallValues values;
  for (std::size_t i = 0; i < 3; ++i) values[in[i]] = scattered({3}, -1, 1, static_cast<int>(i));
  values[in[3]] = scattered({3}, 0.1, 1, 9);
  values[in[4]] = SmallTensor{{}, {4}};
  values[in[5]] = SmallTensor{{}, {0.01}};
  const SmallValues got = interpret(program, values);
  for (std::size_t i = 0; i < 3; ++i) {
    const double p = values[in[0]].data[i], g = values[in[1]].data[i];
    const double m = 0.9 * values[in[2]].data[i] + 0.1 * g;
    const double v = 0.95 * values[in[3]].data[i] + 0.05 * g * g;
    const double update = m / (1 - std::pow(0.9, 4)) / (std::sqrt(v / (1 - std::pow(0.95, 4))) + 0.001);
    EXPECT_NEAR(got.at(out[0]).data[i], p - 0.01 * 0.1 * p - 0.01 * update, 1e-12);
    EXPECT_NEAR(got.at(out[1]).data[i], m, 1e-12);
    EXPECT_NEAR(got.at(out[2]).data[i], v, 1e-12);
  }
}

}  // namespace
}  // namespace shardproof::lowering

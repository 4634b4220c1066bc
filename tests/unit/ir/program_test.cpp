#include "ir/program.h"

#include <gtest/gtest.h>

#include "ir/builder.h"

namespace shardproof::ir {
namespace {

std::vector<std::string> defined(const Program& program, const std::vector<Instruction>& body) {
  std::vector<std::string> names;
  for (const Instruction& i : body) {
    if (i.region != nullptr)
      for (const std::string& inner : defined(program, i.region->body)) names.push_back(inner);
    for (const ValueId out : i.outputs) names.push_back(program.value(out).name);
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(WithoutUnused, KeepsWhatIsNeededAndWhatThatReads) {
  Program program;
  Builder b(program);
  const ValueId x = b.input("x", {DType::f32, {4}});
  const ValueId a = b.op(OpCode::neg, {x}, {}, "a");
  const ValueId dead = b.op(OpCode::reciprocal, {x}, {}, "dead");
  b.op(OpCode::add, {a, dead}, {}, "dead_too");
  const ValueId y = b.op(OpCode::mul, {a, a}, {}, "y");
  EXPECT_EQ(defined(program, without_unused(program, {y}).body), (Names{"a", "y"}));
  EXPECT_EQ(defined(program, without_unused(program, {y, dead}).body), (Names{"a", "dead", "y"}));
  EXPECT_TRUE(without_unused(program, {x}).body.empty());
  EXPECT_EQ(program.body.size(), 4U);  // the argument is left alone
}

// A loop that is needed for one of its results keeps what that one is computed from, also by way of others.
TEST(WithoutUnused, KeepsWhatALoopCarriesForAResult) {
  Program program;
  const auto value = [&](const std::string& name) {
    program.values.push_back({name, {DType::f32, {4}}, {}});
    return ValueId{static_cast<std::int32_t>(program.values.size() - 1)};
  };
  const auto instruction = [](OpCode op, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
    Instruction i;
    i.op = op;
    i.inputs = std::move(inputs);
    i.outputs = std::move(outputs);
    return i;
  };
  const ValueId x = value("x"), outside = value("outside"), unread = value("unread"), from1 = value("from1"), from2 = value("from2");
  const ValueId arg1 = value("arg1"), arg2 = value("arg2"), next1 = value("next1"), next2 = value("next2"), idle = value("idle");
  const ValueId out1 = value("out1"), out2 = value("out2");
  Instruction loop = instruction(OpCode::loop, {from1, from2}, {out1, out2});
  loop.region = std::make_shared<Region>();
  loop.region->carries = {{from1, arg1, next1, out1}, {from2, arg2, next2, out2}};
  loop.region->body = {instruction(OpCode::neg, {arg1}, {idle}), instruction(OpCode::add, {arg1, outside}, {next1}), instruction(OpCode::add, {arg2, arg1}, {next2})};
  program.body = {instruction(OpCode::neg, {x}, {outside}), instruction(OpCode::neg, {x}, {unread}), instruction(OpCode::exp, {x}, {from1}),
                  instruction(OpCode::abs, {x}, {from2}), loop};
  EXPECT_EQ(defined(program, without_unused(program, {out1}).body), (Names{"outside", "from1", "next1", "out1"}));
  EXPECT_EQ(defined(program, without_unused(program, {out2}).body), (Names{"outside", "from1", "from2", "next1", "next2", "out1", "out2"}));
  const Instruction kept = without_unused(program, {out1}).body.back();
  EXPECT_EQ(kept.inputs, std::vector<ValueId>{from1});
  EXPECT_EQ(kept.outputs, std::vector<ValueId>{out1});
  EXPECT_EQ(kept.region->carries.size(), 1U);
  EXPECT_EQ(program.body.back().region->body.size(), 3U);
  EXPECT_EQ(defined(program, without_unused(program, {unread}).body), (Names{"unread"}));
}

}  // namespace
}  // namespace shardproof::ir

// Macro ops as LibTorch computes them against their definitions as core ops.
#include "lowering/unfold.h"

#include <set>

#include "tests/unit/runtime/op_cases.h"

namespace shardproof::runtime::testing {
namespace {

OneOp program_of(const OpCase& c) {
  std::vector<ir::TensorType> types;
  for (const Tensor& input : c.inputs) types.push_back(input.type);
  return one_op(c.op, types, c.attrs);
}

class EveryMacro : public ::testing::TestWithParam<OpCase> {};

TEST_P(EveryMacro, UnfoldsToWhatLibTorchComputes) {
  const OpCase& c = GetParam();
  const OneOp macro = program_of(c);
  std::vector<ir::ValueId> mapping;
  OneOp unfolded = macro;
  unfolded.program = lowering::unfold(macro.program, &mapping);
  for (const ir::Instruction& instruction : unfolded.program.body) {
    EXPECT_NE(ir::schema_of(instruction.op).family, ir::OpFamily::macro);
  }
  for (ir::ValueId& id : unfolded.inputs) id = mapping.at(static_cast<std::size_t>(id.index));
  for (ir::ValueId& id : unfolded.results) id = mapping.at(static_cast<std::size_t>(id.index));
  const std::vector<Tensor> expected = run(macro, c.inputs);
  const std::vector<Tensor> found = run(unfolded, c.inputs);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) expect_near(found[i], expected[i]);
}

INSTANTIATE_TEST_SUITE_P(Cases, EveryMacro, ::testing::ValuesIn(macro_cases()), [](const auto& test) {
  return std::string(ir::schema_of(test.param.op).name) + "_" + test.param.label;
});

TEST(Unfold, EveryMacroIsTested) {
  std::set<ir::OpCode> tested;
  for (const OpCase& c : macro_cases()) tested.insert(c.op);
  for (const ir::OpSchema& schema : ir::op_table()) {
    if (schema.family == ir::OpFamily::macro) {
      EXPECT_TRUE(tested.contains(schema.code)) << schema.name;
    }
  }
}

// Large logits: the definitions must not overflow where LibTorch does not.
TEST(Unfold, SoftmaxFamilyIsStable) {
  const Tensor x = {{ir::DType::f32, {2, 3}}, {1000, 1001, 999, -2000, -2001, -2000.5}};
  const Tensor labels = {{ir::DType::i32, {2}}, {2, 0}};
  const std::vector<OpCase> cases = {
      {ir::OpCode::softmax, "", {x}, {{"dim", std::int64_t{1}}}, {}},
      {ir::OpCode::log_softmax, "", {x}, {{"dim", std::int64_t{1}}}, {}},
      {ir::OpCode::cross_entropy, "", {x, labels}, {}, {}},
  };
  for (const OpCase& c : cases) {
    const OneOp macro = program_of(c);
    OneOp unfolded = macro;
    unfolded.program = lowering::unfold(macro.program);
    SCOPED_TRACE(std::string(ir::schema_of(c.op).name));
    expect_near(run(unfolded, c.inputs).front(), run(macro, c.inputs).front());
  }
}

}  // namespace
}  // namespace shardproof::runtime::testing

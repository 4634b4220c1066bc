// What a report says about its own cost.
#include <gtest/gtest.h>

#include "ir/builder.h"
#include "verifier/verify.h"

namespace shardproof::verifier {
namespace {

// y = exp x on one rank.
ir::Document small_document() {
  ir::Document document;
  document.plan.meshes.push_back({"mesh", {{"dp", 1, {}}}, {}, {}});
  document.plan.stages.emplace_back().name = "main";
  ir::StageProgram& stage = document.plan.stages.front();
  ir::Builder reference(document.reference.program), plan(stage.program);
  const ir::TensorType type{ir::DType::f32, {4}};
  const ir::ValueId x = reference.input("x", type), mine = plan.input("x", type);
  ir::Binding binding;
  binding.of = "x";
  binding.placement.dims = {{{{"", 1, 4}}, ir::Permutation::none, 0, {}}};
  document.reference.inputs.push_back({x, 0, {}});
  stage.inputs.push_back({mine, binding, {}});
  document.reference.outputs.push_back({"y", reference.op(ir::OpCode::exp, {x}), {}});
  binding.of = "y";
  stage.outputs.push_back({"y", plan.op(ir::OpCode::exp, {mine}), binding, {}});
  return document;
}

TEST(Statistics, AreFilled) {
  const Report report = verify(small_document());
  EXPECT_EQ(report.verdict, Verdict::equivalent) << report.unknown_reason;
  EXPECT_GT(report.statistics.seconds, 0);
  EXPECT_GT(report.statistics.peak_bytes, std::size_t{1} << 20U);
  EXPECT_EQ(report.statistics.reference_instructions, 1);
  EXPECT_EQ(report.statistics.plan_instructions, 1);
  EXPECT_EQ(report.statistics.folds, 1);
}

TEST(Statistics, OfMemoryAreFilledWithoutAProof) {
  const Report report = verify({});
  EXPECT_EQ(report.verdict, Verdict::invalid);
  EXPECT_GT(report.statistics.peak_bytes, std::size_t{1} << 20U);
}

}  // namespace
}  // namespace shardproof::verifier

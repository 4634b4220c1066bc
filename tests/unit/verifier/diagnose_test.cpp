// Faults in planned training steps: the finding, its place, and a fix that is applied to the file and verified again.
#include "tests/unit/verifier/planned_step.h"

namespace shardproof::verifier {
namespace {

using ir::OpCode;
using namespace testing;

TEST(Diagnose, AMissingReductionBehindALoopIsAnEdit) {
  const std::string text = without_reduction(planned(), "model.layers.1.input_layernorm.weight.grad_whole");
  const Report report = verify(read(text));
  ASSERT_EQ(report.diagnostics.size(), 1U);
  const ir::Diagnostic& d = report.diagnostics[0];
  EXPECT_EQ(d.code, "SP0201") << d.message;
  EXPECT_EQ(d.subject.axis, "tp");
  ASSERT_TRUE(d.fix.has_value());
  EXPECT_EQ(d.fix->applicability, ir::Applicability::verified);
  ASSERT_FALSE(d.fix->edits.empty());
  const Report fixed = verify(read(apply(text, d.fix->edits)));
  EXPECT_EQ(fixed.verdict, Verdict::equivalent) << fixed.unknown_reason;
}

TEST(Diagnose, EqualFaultsInTwoLayersAreOneFindingAtTwoPlaces) {
  std::string text = without_reduction(planned(), "model.layers.0.input_layernorm.weight.grad_whole");
  text = without_reduction(text, "model.layers.1.post_attention_layernorm.weight.grad_whole");
  const Report report = verify(read(text));
  ASSERT_EQ(report.diagnostics.size(), 1U);
  const ir::Diagnostic& d = report.diagnostics[0];
  EXPECT_EQ(d.code, "SP0201") << d.message;
  EXPECT_EQ(d.places, 2);
  ASSERT_TRUE(d.fix.has_value());
  EXPECT_EQ(d.fix->applicability, ir::Applicability::verified);
}

TEST(Diagnose, ADroppedResidualIsFound) {
  expect_mended(changed(planned(), "l1.norm2.d_residual", [](ir::Instruction& i, ir::Program&) { i.inputs.pop_back(); }), "l1.norm2.d_residual");
}

TEST(Diagnose, AComparisonTheOtherWayIsFound) {
  expect_mended(changed(planned(), "attention.causal", [](ir::Instruction& i, ir::Program&) { i.attributes.set("direction", std::string("gt")); }),
                "attention.causal");
}

TEST(Diagnose, AnotherNumberThanTheReferenceHasIsFound) {
  const std::string text = planned();
  std::string number;
  changed(text, "l0.norm1.square_eps", [&](ir::Instruction& i, ir::Program& program) { number = program.value(i.inputs[1]).name; });
  const Report report = verify(read(changed(text, number, [](ir::Instruction& i, ir::Program&) { i.attributes.set("value", ir::Rational(1, 300)); })));
  ASSERT_EQ(report.diagnostics.size(), 1U);
  ASSERT_TRUE(report.diagnostics[0].fix.has_value()) << report.diagnostics[0].message;
  EXPECT_EQ(report.diagnostics[0].fix->applicability, ir::Applicability::verified);
}

TEST(Diagnose, AMacroWithItsOperandsExchangedIsFound) {
  expect_mended(changed(planned(), "l1.mlp.activated", [](ir::Instruction& i, ir::Program&) { std::swap(i.inputs.at(0), i.inputs.at(1)); }),
                "l1.mlp.activated");
}

TEST(Diagnose, AStateThatIsNotWrittenIsFound) {
  ir::Document document = read(planned());
  ir::PlanState& state = document.plan.stages.front().state.front();
  state.next = state.value;
  const Report report = verify(document);
  ASSERT_EQ(report.diagnostics.size(), 1U);
  EXPECT_EQ(report.diagnostics[0].code, "SP0502");
  EXPECT_EQ(report.diagnostics[0].subject.value, state.name);
  ASSERT_TRUE(report.diagnostics[0].fix.has_value()) << report.diagnostics[0].message;
  EXPECT_EQ(report.diagnostics[0].fix->applicability, ir::Applicability::verified);
}

TEST(Diagnose, WithoutSuggestionsThePlaceIsNamed) {
  VerifyOptions options;
  options.suggest_fixes = false;
  const Report report = verify(read(without_reduction(planned(false), "l1.attn.d_x")), options);
  ASSERT_EQ(report.diagnostics.size(), 1U);
  EXPECT_EQ(report.diagnostics[0].code, "SP0207");
  EXPECT_EQ(report.diagnostics[0].subject.value.rfind("l1.", 0), 0U) << report.diagnostics[0].subject.value;
}

}  // namespace
}  // namespace shardproof::verifier

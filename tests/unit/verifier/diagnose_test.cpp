// Faults in planned training steps: the finding, its place, and a fix that is applied to the file and verified again.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <sstream>

#include "ir/print.h"
#include "ir/read_json.h"
#include "lowering/build_reference.h"
#include "lowering/plan_training.h"
#include "tests/unit/lowering/plan_models.h"
#include "verifier/verify.h"

namespace shardproof::verifier {
namespace {

using ir::OpCode;

std::string planned(bool sequence_parallel = true) {
  lowering::ModelConfig model = lowering::testing::small_llama();
  const lowering::ParallelConfig parallel = lowering::testing::degrees(4, 2, sequence_parallel);
  const lowering::TrainingConfig training;
  ir::Document document;
  document.reference = lowering::build_reference(model, training, parallel.global_batch_size, parallel.seq_length);
  document.plan = lowering::plan_training(model, training, parallel, document.reference);
  std::ostringstream out;
  ir::print_json(document, out);
  return out.str();
}

ir::Document read(const std::string& text) {
  ir::DiagnosticSink sink;
  auto document = ir::read_document(std::make_shared<ir::SourceFile>("plan.json", text), sink);
  EXPECT_TRUE(document.has_value()) << (sink.diagnostics().empty() ? "" : sink.diagnostics()[0].message);
  return document ? *std::move(document) : ir::Document();
}

// Changes the instruction that defines `name`.
std::string changed(const std::string& text, const std::string& name, const std::function<void(ir::Instruction&, ir::Program&)>& change) {
  ir::Document document = read(text);
  ir::Program& program = document.plan.stages.front().program;
  const ir::ValueId id = program.find(name);
  bool found = false;
  const std::function<void(std::vector<ir::Instruction>&)> visit = [&](std::vector<ir::Instruction>& body) {
    for (ir::Instruction& i : body) {
      if (i.region != nullptr) visit(i.region->body);
      if (i.outputs.empty() || i.outputs[0] != id) continue;
      change(i, program);
      found = true;
    }
  };
  visit(program.body);
  EXPECT_TRUE(found) << name;
  std::ostringstream out;
  ir::print_json(document, out);
  return out.str();
}

// Turns the all-reduce that defines `name` into a copy.
std::string without_reduction(const std::string& text, const std::string& name) {
  return changed(text, name, [](ir::Instruction& i, ir::Program& program) {
    EXPECT_EQ(i.op, OpCode::all_reduce);
    i.op = OpCode::reshape;
    i.attributes = {};
    i.attributes.set("shape", program.value(i.outputs[0]).type.shape);
  });
}

std::string apply(std::string text, std::vector<ir::Edit> edits) {
  std::sort(edits.begin(), edits.end(),
            [](const ir::Edit& a, const ir::Edit& b) { return a.span.begin > b.span.begin; });
  for (const ir::Edit& edit : edits) text.replace(edit.span.begin, edit.span.end - edit.span.begin, edit.content);
  return text;
}

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

// One finding at `name`, with a fix that makes the plan right when its edits are applied to the file.
void expect_mended(const std::string& text, const std::string& name) {
  const Report report = verify(read(text));
  EXPECT_NE(report.verdict, Verdict::equivalent);
  ASSERT_EQ(report.diagnostics.size(), 1U);
  const ir::Diagnostic& d = report.diagnostics[0];
  EXPECT_EQ(d.subject.value, name) << d.message;
  ASSERT_TRUE(d.fix.has_value()) << d.message;
  EXPECT_EQ(d.fix->applicability, ir::Applicability::verified) << d.fix->message;
  ASSERT_FALSE(d.fix->edits.empty());
  const Report fixed = verify(read(apply(text, d.fix->edits)));
  EXPECT_EQ(fixed.verdict, Verdict::equivalent) << d.fix->message << "; " << fixed.unknown_reason;
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

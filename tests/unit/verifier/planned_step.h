// Plan files of a small training step, faults in them, and what is expected of their diagnosis.
#pragma once

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

namespace shardproof::verifier::testing {

inline std::string planned(bool sequence_parallel = true, bool sharded = true) {
  lowering::ModelConfig model = lowering::testing::small_llama();
  lowering::ParallelConfig parallel = lowering::testing::degrees(4, 2, sequence_parallel);
  parallel.use_distributed_optimizer = sharded;
  const lowering::TrainingConfig training;
  ir::Document document;
  document.reference = lowering::build_reference(model, training, parallel.global_batch_size, parallel.seq_length);
  document.plan = lowering::plan_training(model, training, parallel, document.reference);
  std::ostringstream out;
  ir::print_json(document, out);
  return out.str();
}

inline ir::Document read(const std::string& text) {
  ir::DiagnosticSink sink;
  auto document = ir::read_document(std::make_shared<ir::SourceFile>("plan.json", text), sink);
  EXPECT_TRUE(document.has_value()) << (sink.diagnostics().empty() ? "" : sink.diagnostics()[0].message);
  return document ? *std::move(document) : ir::Document();
}

// Changes the instruction that defines `name`.
inline std::string changed(const std::string& text, const std::string& name, const std::function<void(ir::Instruction&, ir::Program&)>& change) {
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
inline std::string without_reduction(const std::string& text, const std::string& name) {
  return changed(text, name, [](ir::Instruction& i, ir::Program& program) {
    EXPECT_EQ(i.op, ir::OpCode::all_reduce);
    i.op = ir::OpCode::reshape;
    i.attributes = {};
    i.attributes.set("shape", program.value(i.outputs[0]).type.shape);
  });
}

inline std::string apply(std::string text, std::vector<ir::Edit> edits) {
  std::sort(edits.begin(), edits.end(),
            [](const ir::Edit& a, const ir::Edit& b) { return a.span.begin > b.span.begin; });
  for (const ir::Edit& edit : edits) text.replace(edit.span.begin, edit.span.end - edit.span.begin, edit.content);
  return text;
}

// The plan file with something done to the plan.
inline std::string edited(const std::string& text, const std::function<void(ir::Document&)>& edit) {
  ir::Document document = read(text);
  edit(document);
  std::ostringstream out;
  ir::print_json(document, out);
  return out.str();
}

// One finding at `name`, with a fix that makes the plan right when its edits are applied to the file.
inline void expect_mended(const std::string& text, const std::string& name, const std::string& code = "") {
  VerifyOptions options;
  options.find_counterexample = false;
  const Report report = verify(read(text), options);
  EXPECT_NE(report.verdict, Verdict::equivalent);
  ASSERT_EQ(report.diagnostics.size(), 1U);
  const ir::Diagnostic& d = report.diagnostics[0];
  EXPECT_EQ(d.subject.value, name) << d.message;
  if (!code.empty()) { EXPECT_EQ(d.code, code) << d.message; }
  ASSERT_TRUE(d.fix.has_value()) << d.message;
  EXPECT_EQ(d.fix->applicability, ir::Applicability::verified) << d.fix->message;
  ASSERT_FALSE(d.fix->edits.empty());
  const Report fixed = verify(read(apply(text, d.fix->edits)));
  EXPECT_EQ(fixed.verdict, Verdict::equivalent) << d.fix->message << "; " << fixed.unknown_reason;
}

}  // namespace shardproof::verifier::testing

#include "ir/print.h"

#include <gtest/gtest.h>

#include <chrono>
#include <sstream>

#include "ir/builder.h"
#include "ir/read_json.h"
#include "ir/validate.h"
#include "tests/unit/ir/sample_documents.h"

namespace shardproof::ir {
namespace {

std::string printed(const Document& document) {
  std::ostringstream out;
  print_json(document, out);
  return out.str();
}

std::optional<Document> read(const std::string& text) {
  DiagnosticSink sink;
  auto document = read_document(std::make_shared<SourceFile>("test.json", text), sink);
  for (const Diagnostic& diagnostic : sink.diagnostics()) {
    ADD_FAILURE() << diagnostic.code << " " << diagnostic.message << ": " << diagnostic.expected << " / "
                  << diagnostic.found << "\n"
                  << text;
  }
  return document;
}

TEST(PrintJson, CanonicalFormIsAFixedPoint) {
  const auto first = read(rich_document);
  ASSERT_TRUE(first);
  const std::string once = printed(*first);
  const auto second = read(once);
  ASSERT_TRUE(second);
  EXPECT_EQ(printed(*second), once);
}

TEST(PrintJson, WritesWhatTheFormatPromises) {
  const auto document = read(rich_document);
  ASSERT_TRUE(document);
  const std::string text = printed(*document);
  const auto has = [&](const std::string& line) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nnot in\n" << text;
  };
  has(R"(        {"out": "c", "op": "constant", "value": 1e-5, "type": "f32[2]"},)");
  has(R"("values": [1, 0.1, "1/8", "-1/3", 1.2345e-5])");
  has(R"(        {"out": "q", "op": "all_reduce", "in": ["p"], "groups": [[0, 1, 2, 3], [4, 5, 6, 7]], "reduce": "avg", "type": "f32[1,16]", "recompute": "r1"},)");
  has(R"({"name": "ids", "type": "i32[2,6]", "of": "ids", "dims": [["dp"], []]})");
  has(R"("dims": [["tp:(1)2"], ["tp:(2)2", "dp"]], "device": "host", "next": "w")");
  has(R"("dims": [{"digits": ["tp"], "pad": 12}, {"digits": ["dp"], "offsets": [0, 4, 9]}], "pad_value": "zero")");
  has(R"({"name": "s", "type": "f32[]", "of": "s", "next": "s"})");
  has(R"("notes": [)");
  has("        {\"op\": \"loop\", \"index\": \"m\", \"trip\": 3, \"source\": \"loop\", \"carry\": [\n          "
      "{\"init\": \"c\"");
  // One instruction, one line.
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t op = line.find("\"op\": ");
    if (op != std::string::npos) {
      EXPECT_EQ(line.find("\"op\": ", op + 1), std::string::npos) << line;
    }
  }
}

TEST(PrintJson, RoundTripKeepsTheDocument) {
  const auto first = read(rich_document);
  ASSERT_TRUE(first);
  const auto second = read(printed(*first));
  ASSERT_TRUE(second);
  const StageProgram& a = first->plan.stages[0];
  const StageProgram& b = second->plan.stages[0];
  ASSERT_EQ(a.state.size(), b.state.size());
  for (std::size_t i = 0; i < a.state.size(); ++i) {
    EXPECT_EQ(a.state[i].binding.placement.dims, b.state[i].binding.placement.dims) << i;
    EXPECT_EQ(a.state[i].binding.placement.partial, b.state[i].binding.placement.partial);
    EXPECT_EQ(a.state[i].binding.placement.owned, b.state[i].binding.placement.owned);
    EXPECT_EQ(a.state[i].binding.role, b.state[i].binding.role);
    EXPECT_EQ(a.program.value(a.state[i].value).type, b.program.value(b.state[i].value).type);
  }
  ASSERT_EQ(a.program.values.size(), b.program.values.size());
  EXPECT_EQ(first->plan.schedule->actions, second->plan.schedule->actions);
  EXPECT_EQ(second->plan.schedule->max_in_flight, 3);
  EXPECT_EQ(first->plan.name, second->plan.name);
}

// What the reader would complete must not turn a wrong placement built in memory into a right one.
TEST(PrintJson, WrongPlacementsStayWrong) {
  const std::string text =
      R"({"shardproof": 1, "mesh": [["tp", 4]], "reference": {"state": [{"name": "w", "type": "f32[16]", "next": "w"}]},
    "state": [{"name": "w", "type": "f32[4]", "dims": [["tp"]], "next": "w"}]})";
  for (const std::vector<Digit>& digits :
       {std::vector<Digit>{{"tp", 1, 4}}, std::vector<Digit>{}, std::vector<Digit>{{"", 1, 8}},
        std::vector<Digit>{{"tp", 1, 4}, {"", 1, 2}}, std::vector<Digit>{{"tp", 1, 4}, {"", 1, 4}, {"", 1, 1}}}) {
    auto document = read(text);
    ASSERT_TRUE(document);
    document->plan.stages[0].state[0].binding.placement.dims[0].digits = digits;
    const auto codes = [](const Document& checked) {
      DiagnosticSink sink;
      validate(checked, sink);
      std::string result;
      for (const Diagnostic& diagnostic : sink.diagnostics()) result += diagnostic.code + " ";
      return result;
    };
    const auto again = read(printed(*document));
    ASSERT_TRUE(again);
    EXPECT_EQ(codes(*document), codes(*again)) << printed(*document);
  }
}

TEST(PrintText, ShowsPlacementsAndFoldsRepeats) {
  Document document;
  document.plan.name = "stack";
  document.plan.meshes.push_back({"mesh", {{"tp", 2, {}}}, {}, {}});
  Builder builder(document.reference.program);
  ValueId x = builder.input("x", {DType::f32, {4, 4}});
  const ValueId w = builder.input("w", {DType::f32, {4, 4}});
  document.reference.inputs.push_back({x, 0, {}});
  document.reference.state.push_back({"w", w, w, "param", "", {}});
  for (int i = 0; i < 20; ++i) {
    x = builder.op(OpCode::einsum, {x, w}, {{"spec", std::string("bh,fh->bf")}});
    x = builder.op(OpCode::tanh, {x});
  }
  document.reference.outputs.push_back({"y", x, {}});
  std::ostringstream out;
  print_text(document, out);
  const std::string text = out.str();
  EXPECT_NE(text.find("mesh mesh: tp=2, 2 ranks"), std::string::npos) << text;
  EXPECT_NE(text.find("einsum[bh,fh->bf](%x, %w) : f32[4,4]"), std::string::npos) << text;
  EXPECT_NE(text.find("... the last 2 instructions with other operands, 19 more times"), std::string::npos) << text;
  EXPECT_NE(text.find("output y = "), std::string::npos) << text;

  for (int i = 0; i < 9; ++i) {
    const std::string name = "layers." + std::to_string(i) + ".weight";
    const ValueId id = builder.input(name, {DType::f32, {2}});
    document.reference.state.push_back({name, id, id, "param", "", {}});
  }
  std::ostringstream folded;
  print_text(document, folded);
  EXPECT_NE(folded.str().find("state  %layers.0.weight : f32[2], param, unchanged\n"
                              "  ... the last 1 entry with other numbers, 8 more times"),
            std::string::npos)
      << folded.str();

  const auto plan = read(rich_document);
  ASSERT_TRUE(plan);
  std::ostringstream whole;
  print_text(*plan, whole);
  EXPECT_NE(whole.str().find("loop[m < 3]"), std::string::npos) << whole.str();
  EXPECT_NE(whole.str().find("exp_avg in buffer b0"), std::string::npos) << whole.str();
}

// A stack of 2,500 layers, 30,000 instructions: reading must stay near linear.
TEST(ReadJson, LargeFilesAreReadQuickly) {
  Document document;
  document.plan.name = "large";
  Builder builder(document.reference.program);
  ValueId x = builder.input("tokens.embedded", {DType::bf16, {1, 8192, 512}});
  document.reference.inputs.push_back({x, 0, {}});
  std::vector<ValueId> weights;
  for (int layer = 0; layer < 2500; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer) + ".mlp.gate_proj.weight";
    const ValueId w = builder.input(name, {DType::bf16, {512, 512}});
    document.reference.state.push_back({name, w, w, "param", "", {}});
    weights.push_back(w);
  }
  for (int layer = 0; layer < 2500; ++layer) {
    builder.set_source("model.py:" + std::to_string(layer) +
                       " decoder layer, feed-forward part, projection of the gate");
    for (int i = 0; i < 6; ++i) {
      x = builder.op(OpCode::einsum, {x, weights[static_cast<std::size_t>(layer)]},
                     {{"spec", std::string("bsh,fh->bsf")}},
                     "model.layers." + std::to_string(layer) + ".mlp.gate_proj.output." + std::to_string(i));
      x = builder.op(OpCode::sigmoid, {x}, {},
                     "model.layers." + std::to_string(layer) + ".mlp.activation.output." + std::to_string(i));
    }
  }
  document.reference.outputs.push_back({"y", x, {}});
  const std::string text = printed(document);
  EXPECT_GT(text.size(), 5U << 20U);
  const auto begin = std::chrono::steady_clock::now();
  const auto again = read(text);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(again);
  EXPECT_EQ(printed(*again), text);
  RecordProperty("seconds", std::to_string(seconds.count()));
  EXPECT_LT(seconds.count(), 10.0) << text.size() << " bytes";  // measured 0.2 s; slack for loaded machines
}

}  // namespace
}  // namespace shardproof::ir

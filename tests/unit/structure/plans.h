// Documents for tests of the structural checks, and what these say of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/read_json.h"
#include "ir/validate.h"
#include "verifier/structure/structure.h"

namespace shardproof::verifier::structure {

inline ir::Document read(const std::string& text) {
  ir::DiagnosticSink sink;
  auto document = ir::read_document(std::make_shared<ir::SourceFile>("plan.json", text), sink);
  if (document) ir::validate(*document, sink);
  for (const ir::Diagnostic& d : sink.diagnostics()) ADD_FAILURE() << d.code << ": " << d.message << " expected " << d.expected << " found " << d.found;
  return document ? *std::move(document) : ir::Document{};
}

// Stages on `mesh` (`["pp", 2]`, ...); each is its name, its `where` ("" for all ranks) and its instructions. A stage has an
// input `x` of type f32[8], which holds the whole reference input on each rank.
struct Stage {
  std::string name, where, body;
};
inline ir::Document plan(const std::string& mesh, const std::vector<Stage>& stages, const std::string& more = "") {
  std::string text = R"({"shardproof": 1, "mesh": [)" + mesh + R"(],
  "reference": {"inputs": [{"name": "x", "type": "f32[8]"}], "state": [], "outputs": [], "body": []}, "stages": [)";
  for (std::size_t i = 0; i < stages.size(); ++i) {
    text += (i == 0 ? "\n" : ",\n") + (R"({"name": ")" + stages[i].name + R"(", )");
    if (!stages[i].where.empty()) text += R"("where": {)" + stages[i].where + "}, ";
    text += R"("inputs": [{"name": "x"}], "state": [], "outputs": [], "body": [)" + stages[i].body + "]}";
  }
  return read(text + "]" + more + "}");
}

inline std::string text(const std::vector<ir::Diagnostic>& diagnostics) {
  std::string all;
  for (const ir::Diagnostic& d : diagnostics) {
    all += d.code + ": " + d.message + "\n";
    for (const std::string& note : d.notes) all += "  " + note + "\n";
  }
  return all;
}

// Codes of the violations, each once per finding.
inline std::vector<std::string> codes(const std::vector<ir::Diagnostic>& diagnostics) {
  std::vector<std::string> result;
  for (const ir::Diagnostic& d : diagnostics) result.push_back(d.code);
  return result;
}

inline void expect_clean(const ir::Document& document) {
  const Findings found = check(document);
  EXPECT_EQ(text(found.violations), "");
  EXPECT_EQ(text(found.undecided), "");
}

// Exactly one violation, with this code.
inline ir::Diagnostic expect_one(const ir::Document& document, const std::string& code) {
  const Findings found = check(document);
  EXPECT_EQ(codes(found.violations), std::vector<std::string>{code}) << text(found.violations) << "undecided:\n" << text(found.undecided);
  if (found.violations.size() != 1) return {};
  const ir::Diagnostic& d = found.violations.front();
  EXPECT_FALSE(d.expected.empty());
  EXPECT_FALSE(d.found.empty());
  EXPECT_TRUE(d.fix.has_value());
  EXPECT_EQ(std::count_if(d.labels.begin(), d.labels.end(), [](const ir::Label& l) { return l.primary; }), 1);
  for (const ir::Label& label : d.labels) EXPECT_TRUE(label.span.known()) << label.text;
  return d;
}

inline void expect_undecided(const ir::Document& document) {
  const Findings found = check(document);
  EXPECT_EQ(text(found.violations), "");
  EXPECT_EQ(codes(found.undecided), std::vector<std::string>{"SP0905"}) << text(found.undecided);
}

}  // namespace shardproof::verifier::structure

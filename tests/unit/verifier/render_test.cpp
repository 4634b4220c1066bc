#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "verifier/render_json.h"
#include "verifier/render_text.h"
#include "verifier/source_excerpt.h"

namespace shardproof::verifier {
namespace {

// Span of the n-th occurrence of `needle`.
ir::Span find_span(const ir::SourceFile& source, std::string_view needle, int occurrence = 0) {
  std::size_t at = source.text().find(needle);
  while (occurrence-- > 0) at = source.text().find(needle, at + 1);
  EXPECT_NE(at, std::string_view::npos) << needle;
  return {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + needle.size())};
}

const char kPlan[] =
    "{\"plan\": [\n"
    "{\"op\": \"reduce_sum\", \"in\": [\"p\"], \"out\": [\"dg\"]},\n"
    "{\"op\": \"cast\", \"in\": [\"lr\"], \"out\": [\"x\"]},\n"
    "{\"op\": \"neg\", \"in\": [\"y\"], \"out\": [\"z\"]},\n"
    "{\"op\": \"mul\", \"in\": [\"dg\", \"x\"], \"out\": [\"u\"]}\n"
    "]}\n";

Report missing_reduction(const ir::SourceFile& source) {
  ir::Diagnostic diagnostic;
  diagnostic.code = "SP0201";
  diagnostic.name = "missing-reduction";
  diagnostic.message = "`dg` lacks a sum over mesh axis `tp`";
  diagnostic.subject = {"dg", "model.norm.weight.grad", "mul -> u", "tp", "rank 3 (dp=0, tp=3)"};
  diagnostic.labels = {{find_span(source, "\"dg\"", 1), "read here as replicated over `tp`", true},
                       {find_span(source, "\"dg\""), "produced here as a partial sum over `tp`", false}};
  diagnostic.expected = "sum over s in [0, 4096)";
  diagnostic.found = "sum over s in [512*tp, 512*tp + 512)";
  diagnostic.places = 98;
  const ir::Span line = find_span(source, "{\"op\": \"mul\"");
  diagnostic.fix =
      ir::Fix{"all-reduce `dg` over `tp` before it is read",
              {{{line.begin, line.begin}, "{\"op\": \"all_reduce\", \"in\": [\"dg\"], \"out\": [\"dg2\"]},\n"},
               {find_span(source, "\"dg\"", 1), "\"dg2\""}},
              ir::Applicability::verified};
  Report report;
  report.verdict = Verdict::not_equivalent;
  report.diagnostics.push_back(diagnostic);
  report.obligations = {513, 98, 0, 71};
  report.assumptions = {"real arithmetic"};
  report.statistics.seconds = 3.82;
  return report;
}

std::string full(const Report& report, const ir::SourceFile* source, TextOptions options = {}) {
  std::ostringstream out;
  render_full(report, source, "in-memory plan", options, out);
  return out.str();
}

TEST(RenderText, FullShowsBothPlacesFactsAndTheFix) {
  const ir::SourceFile source("a.plan.json", kPlan);
  EXPECT_EQ(full(missing_reduction(source), &source),
            R"(error[SP0201]: `dg` lacks a sum over mesh axis `tp`
  --> a.plan.json:5:22
    |
  2 | {"op": "reduce_sum", "in": ["p"], "out": ["dg"]},
    |                                           ---- produced here as a partial sum over `tp`
... |
  5 | {"op": "mul", "in": ["dg", "x"], "out": ["u"]}
    |                      ^^^^ read here as replicated over `tp`
    |
    = expected: sum over s in [0, 4096)
    = found:    sum over s in [512*tp, 512*tp + 512)
    = on:       rank 3 (dp=0, tp=3)
note: the same cause is found at 98 places; this is the first
help: all-reduce `dg` over `tp` before it is read
    |
  5 - {"op": "mul", "in": ["dg", "x"], "out": ["u"]}
  5 + {"op": "all_reduce", "in": ["dg"], "out": ["dg2"]},
  6 + {"op": "mul", "in": ["dg2", "x"], "out": ["u"]}
    = verified: with this edit the plan was verified again and this defect is gone

plan is not equivalent to its reference: 1 defect (98 places); 611 obligations: 513 proved, 98 refuted, 0 unknown; 3.8 s
assumptions:
  - real arithmetic
for more about this finding, run `shardproof explain SP0201`
)");
}

TEST(RenderText, WithoutSourceTheInstructionIsShown) {
  const ir::SourceFile source("a.plan.json", kPlan);
  TextOptions options;
  options.timing = false;
  const std::string text = full(missing_reduction(source), nullptr, options);
  EXPECT_NE(text.find("--> in-memory plan\n    = in:       mul -> u\n    = read here as replicated"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("3.8 s"), std::string::npos);
  EXPECT_NE(text.find("help: all-reduce `dg`"), std::string::npos);
}

TEST(RenderText, ConciseIsOneLinePerFinding) {
  const ir::SourceFile source("a.plan.json", kPlan);
  TextOptions options;
  options.quiet = true;
  std::ostringstream out;
  render_concise(missing_reduction(source), &source, "", options, out);
  EXPECT_EQ(out.str(), "a.plan.json:5:22: error[SP0201] `dg` lacks a sum over mesh axis `tp` (98 places)\n");
}

TEST(RenderText, InsertionAloneShowsOnlyTheNewLine) {
  const ir::SourceFile source("a", kPlan);
  Report report = missing_reduction(source);
  report.diagnostics[0].fix->edits.pop_back();
  const std::string text = full(report, &source);
  EXPECT_EQ(text.find("  5 - "), std::string::npos) << text;
  EXPECT_NE(text.find("  5 + {\"op\": \"all_reduce\""), std::string::npos) << text;
  EXPECT_EQ(text.find("  6 + "), std::string::npos) << text;
}

TEST(RenderText, VerdictLines) {
  Report report;
  report.verdict = Verdict::equivalent;
  report.obligations = {611, 0, 0, 71};
  report.statistics.seconds = 0.25;
  EXPECT_EQ(verdict_line(report, true),
            "plan is equivalent to its reference: 611 obligations proved (71 by Z3), 0 unknown; 0.25 s");
  report.verdict = Verdict::unknown;
  report.obligations.unknown = 1;
  report.unknown_reason = "time limit of 5 s reached at `dx`";
  EXPECT_EQ(verdict_line(report, false),
            "plan is not proved equivalent to its reference, nor disproved: time limit of 5 s reached at `dx`; "
            "612 obligations: 611 proved, 0 refuted, 1 unknown");
  report.verdict = Verdict::invalid;
  report.diagnostics.resize(2);
  EXPECT_EQ(verdict_line(report, true), "plan cannot be verified: 2 errors");
}

TEST(RenderText, HostileBytesDoNotReachTheTerminal) {
  const ir::SourceFile source("a\033[31m.json",
                              "{\"a\033[2J\xE2\x80\xAE\xFF\tb\": \"gr\xC3\xB6\xC3\x9F\", \"c\": 1}\n");
  Report report;
  report.verdict = Verdict::invalid;
  ir::Diagnostic diagnostic;
  diagnostic.code = "SP0002";
  diagnostic.message = "unknown \033]0;title\a";
  diagnostic.labels = {{find_span(source, "\"c\""), "here", true}};
  report.diagnostics.push_back(diagnostic);
  const std::string text = full(report, &source);
  EXPECT_EQ(text.find('\033'), std::string::npos) << text;
  EXPECT_EQ(text.find('\a'), std::string::npos) << text;
  EXPECT_EQ(text.find("\xE2\x80\xAE"), std::string::npos) << text;
  // One column for each hidden thing, one for each umlaut: the caret stands under "c".
  EXPECT_NE(
      text.find("  1 | {\"a?[2J?? b\": \"gr\xC3\xB6\xC3\x9F\", \"c\": 1}\n    |                       ^^^ here\n"),
      std::string::npos)
      << text;
}

TEST(RenderText, LongLinesShowAWindowAroundTheMark) {
  const std::string filler(5000, 'x');
  const ir::SourceFile source("a", "[\"" + filler + "\", \"mark\", \"" + filler + "\"]");
  Report report;
  ir::Diagnostic diagnostic;
  diagnostic.labels = {{find_span(source, "\"mark\""), "here", true}};
  report.diagnostics.push_back(diagnostic);
  TextOptions options;
  options.quiet = true;
  options.max_width = 40;
  const std::string text = full(report, &source, options);
  std::istringstream lines(text);
  std::string line, shown, carets;
  while (std::getline(lines, line)) {
    EXPECT_LE(line.size(), 60u) << line;
    if (line.find("\"mark\"") != std::string::npos) shown = line;
    if (line.find('^') != std::string::npos) carets = line;
  }
  EXPECT_EQ(shown.find("\"mark\""), carets.find("^^^^^^")) << text;
}

TEST(RenderText, LongMarksHaveTheirRemarkBelow) {
  const ir::SourceFile source("a", "[\n        {\"out\": \"" + std::string(200, 'x') + "\"}\n]");
  Report report;
  ir::Diagnostic diagnostic;
  diagnostic.labels = {
      {find_span(source, "{\"out\": \"" + std::string(200, 'x') + "\"}"), "the whole instruction", true}};
  report.diagnostics.push_back(diagnostic);
  TextOptions options;
  options.max_width = 40;
  // The indentation is cut without a mark.
  EXPECT_NE(full(report, &source, options)
                .find("  2 | {\"out\": \"" + std::string(31, 'x') + "...\n    | " + std::string(40, '^') +
                      "\n    | the whole instruction\n"),
            std::string::npos)
      << full(report, &source, options);
}

TEST(RenderText, SpansThatCrossLinesOrEndTheFileAreCut) {
  const ir::SourceFile source("a", "{\"a\": [\n1,\n2]}");
  Report report;
  ir::Diagnostic diagnostic;
  const auto size = static_cast<std::uint32_t>(source.text().size());
  diagnostic.labels = {{{6, size}, "whole list", true}, {{size - 1, size}, "end", false}};
  report.diagnostics.push_back(diagnostic);
  const std::string text = full(report, &source);
  EXPECT_NE(text.find("  1 | {\"a\": [\n    |       ^ whole list\n... |\n  3 | 2]}\n    |   - end\n"),
            std::string::npos)
      << text;
}

TEST(RenderText, EditsApplyInFileOrder) {
  const ir::SourceFile source("a", "one two three\n");
  EXPECT_EQ(apply_edits(source, {{{8, 13}, "3"}, {{0, 3}, "1"}, {{7, 7}, "!"}}), "1 two! 3\n");
  EXPECT_EQ(apply_edits(source, {}), "one two three\n");
}

nlohmann::json json_report(const Report& report, const ir::SourceFile* source) {
  std::ostringstream out;
  render_json(report, source, "in-memory plan", {"1.2.3", true}, out);
  return nlohmann::json::parse(out.str());
}

TEST(RenderJson, HasEveryPart) {
  const ir::SourceFile source("a.plan.json", kPlan);
  const nlohmann::json json = json_report(missing_reduction(source), &source);
  EXPECT_EQ(json["schema"], "shardproof-report/1");
  EXPECT_EQ(json["tool"]["version"], "1.2.3");
  EXPECT_EQ(json["verdict"], "not-equivalent");
  EXPECT_EQ(json["exit_code"], 1);
  EXPECT_EQ(json["obligations"]["total"], 611);
  const nlohmann::json& diagnostic = json["diagnostics"][0];
  EXPECT_EQ(diagnostic["code"], "SP0201");
  EXPECT_EQ(diagnostic["subject"]["axis"], "tp");
  EXPECT_EQ(diagnostic["labels"][0]["start"]["line"], 5);
  EXPECT_EQ(diagnostic["labels"][0]["start"]["column"], 22);
  EXPECT_EQ(diagnostic["labels"][0]["end"]["column"], 26);
  EXPECT_EQ(diagnostic["places"], 98);
  EXPECT_EQ(diagnostic["fix"]["applicability"], "verified");
  EXPECT_EQ(diagnostic["fix"]["edits"].size(), 2u);
  // A program can apply the edits from the JSON alone.
  const std::size_t offset = diagnostic["fix"]["edits"][1]["start"]["offset"];
  EXPECT_EQ(std::string(kPlan).substr(offset, 4), "\"dg\"");
}

TEST(RenderJson, NoSourceMeansNoPlaces) {
  const ir::SourceFile source("a.plan.json", kPlan);
  const nlohmann::json json = json_report(missing_reduction(source), nullptr);
  EXPECT_EQ(json["plan"]["path"], "in-memory plan");
  EXPECT_FALSE(json["diagnostics"][0]["labels"][0].contains("start"));
}

TEST(RenderJson, BytesThatAreNotTextAreReplaced) {
  Report report;
  report.unknown_reason = "bad \xFF byte";
  EXPECT_EQ(json_report(report, nullptr)["unknown_reason"], "bad \xEF\xBF\xBD byte");
}

TEST(RenderJson, FingerprintIgnoresNumbersAndPlaces) {
  ir::Diagnostic a;
  a.code = "SP0201";
  a.subject.value = "layers.7.norm.grad";
  a.labels = {{{3, 9}, "here", true}};
  ir::Diagnostic b = a;
  b.subject.value = "layers.12.norm.grad";
  b.labels[0].span = {30, 90};
  EXPECT_EQ(fingerprint(a), fingerprint(b));
  EXPECT_EQ(fingerprint(a).size(), 16u);
  b.subject.axis = "tp";
  EXPECT_NE(fingerprint(a), fingerprint(b));
  b = a;
  b.code = "SP0202";
  EXPECT_NE(fingerprint(a), fingerprint(b));
}

// A file that cannot be opened, and one that is not JSON.
TEST(RenderJson, FindingsWithoutASubjectAreToldApartByTheirMessage) {
  ir::Diagnostic missing = ir::make_error("SP0001", "syntax", "cannot open `a.json`", {}, "", "");
  ir::Diagnostic broken = ir::make_error("SP0001", "syntax", "the file is not valid JSON: line 3", {1, 2}, "", "");
  EXPECT_NE(fingerprint(missing), fingerprint(broken));
  ir::Diagnostic elsewhere = broken;
  elsewhere.message = "the file is not valid JSON: line 12";
  EXPECT_EQ(fingerprint(broken), fingerprint(elsewhere));
  elsewhere.subject.value = broken.subject.value = "x";
  elsewhere.message = "another wording";
  EXPECT_EQ(fingerprint(broken), fingerprint(elsewhere));
}

TEST(RenderJson, ALabelHasAPlaceOrAText) {
  const ir::SourceFile source("a.plan.json", kPlan);
  Report report;
  report.diagnostics = {ir::make_error("SP0001", "syntax", "cannot open `a.json`", {}, "", "")};
  report.diagnostics[0].labels.push_back({{1, 2}, "", false});
  const nlohmann::json labels = json_report(report, &source)["diagnostics"][0]["labels"];
  ASSERT_EQ(labels.size(), 1u);
  EXPECT_TRUE(labels[0].contains("start"));
}

TEST(Report, VerdictsHaveTheDocumentedExitCodes) {
  EXPECT_EQ(exit_code(Verdict::equivalent), 0);
  EXPECT_EQ(exit_code(Verdict::not_equivalent), 1);
  EXPECT_EQ(exit_code(Verdict::invalid), 2);
  EXPECT_EQ(exit_code(Verdict::unknown), 3);
  EXPECT_EQ(verdict_name(Verdict::not_equivalent), "not-equivalent");
}

}  // namespace
}  // namespace shardproof::verifier

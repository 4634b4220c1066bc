// Names and order are never evidence: a plan that is proved is proved in any other words, and a fault stays a fault.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>

#include "disguise/disguise.h"
#include "ir/print.h"
#include "ir/read_json.h"
#include "ir/validate.h"
#include "mutations/mutate.h"
#include "proving.h"
#include "verifier/render_json.h"
#include "verifier/verify.h"

namespace shardproof::disguise {
namespace {

using mutations::Subject;
using testing_support::prove;
using testing_support::told;
using verifier::Report;
using verifier::Verdict;

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all = mutations::base_plans();
  return all;
}

std::string printed(const ir::Document& document) {
  std::ostringstream out;
  ir::print_json(document, out);
  return out.str();
}

ir::Document read(const std::string& text) {
  ir::DiagnosticSink sink;
  auto document = ir::read_document(std::make_shared<ir::SourceFile>("plan.json", text), sink);
  if (!document) throw std::runtime_error(sink.diagnostics().front().message);
  return *std::move(document);
}

ir::Document disguised(const ir::Document& document, std::uint64_t seed) {
  Random random(seed);
  ir::Document result = copy(document);
  strip(result);
  rename(result, random);
  reorder(result, random);
  renumber(result, random);
  return result;
}

using Change = void (*)(ir::Document&, Random&);
constexpr std::array<std::pair<const char*, Change>, 4> kChanges = {{
    {"renamed", rename},
    {"reordered", reorder},
    {"renumbered", renumber},
    {"stripped", [](ir::Document& document, Random&) { strip(document); }},
}};

TEST(Disguise, EachChangeAloneKeepsTheProof) {
  for (const Subject& subject : subjects()) {
    for (const auto& [name, change] : kChanges) {
      Random random(1);
      ir::Document document = copy(subject.document);
      change(document, random);
      const Report report = prove(document);
      EXPECT_EQ(report.verdict, Verdict::equivalent) << subject.name << " " << name << ": " << told(report);
    }
  }
}

TEST(Disguise, AllChangesTogetherKeepTheProof) {
  for (const Subject& subject : subjects()) {
    const std::int64_t obligations = prove(subject.document).obligations.total();
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      const ir::Document document = disguised(subject.document, seed);
      const Report report = prove(document);
      EXPECT_EQ(report.verdict, Verdict::equivalent) << subject.name << " seed " << seed << ": " << told(report);
      EXPECT_EQ(report.obligations.total(), obligations);
    }
  }
}

// The disguise is one: little of the text is left, and nothing of the names.
TEST(Disguise, ChangesWhatItShould) {
  const ir::Document& before = subjects().front().document;
  const ir::Document after = disguised(before, 1);
  ir::DiagnosticSink sink;
  ir::validate(after, sink);
  EXPECT_TRUE(sink.ok()) << sink.diagnostics().front().message;
  const std::string text = printed(after);
  for (const char* name : {"\"dp\"", "\"tp\"", "layers.0", "grad", "\"m\"", "bucket", "source"})
    EXPECT_EQ(text.find(name), std::string::npos) << name;
  EXPECT_EQ(printed(read(text)), text);
  const auto ops = [](const ir::Document& document) {
    std::vector<ir::OpCode> list;
    for (const ir::Instruction& i : document.plan.stages.front().program.body) list.push_back(i.op);
    return list;
  };
  std::vector<ir::OpCode> first = ops(before), second = ops(after);
  EXPECT_NE(first, second);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  EXPECT_EQ(first, second);
}

// Faults, by the kinds of tests/mutations, each at its last place: one at the start of a step reaches everything, and
// the terms of so much that matches nothing take long.
TEST(Disguise, FaultsStayUnproved) {
  constexpr std::array<const char*, 8> kinds = {
      "drop_tp_all_reduce_sum", "drop_dp_all_reduce_sum", "drop_dp_reduce_scatter", "drop_tp_all_gather",
      "all_reduce_wrong_axis",  "swapped_subtraction",    "swapped_division",       "carries_crossed"};
  std::uint64_t tried = 0;
  for (const mutations::Kind& kind : mutations::all_kinds()) {
    if (std::find(kinds.begin(), kinds.end(), kind.name) == kinds.end()) continue;
    for (const Subject& subject : subjects()) {
      const std::vector<mutations::Site> sites = kind.find(subject);
      if (sites.empty()) continue;
      mutations::Editor editor(subject.document);
      sites.back().edit(editor, sites.back().at);
      const Report report = prove(disguised(editor.take(), ++tried));
      EXPECT_TRUE(report.verdict == Verdict::unknown || report.verdict == Verdict::not_equivalent)
          << kind.name << " in " << subject.name << " seed " << tried << ": " << told(report);
      ASSERT_FALSE(report.diagnostics.empty());
      EXPECT_NE(report.diagnostics.front().code, "SP0901") << kind.name << " in " << subject.name;
    }
  }
  EXPECT_GE(tried, 18U);
}

// ---- the same question gives the same answer

std::string rendered(const Report& report, const ir::Document& document) {
  std::ostringstream out;
  verifier::render_json(report, document.source.get(), "plan.json", {"", false}, out);
  const verifier::Statistics& s = report.statistics;
  out << s.reference_instructions << " " << s.plan_instructions << " " << s.z3_queries << " " << s.folds;
  return out.str();
}

void expect_same_report_always(const ir::Document& document, bool proved) {
  const ir::Document first = read(printed(document));
  const ir::Document second = read(printed(first));
  const Report report = verifier::verify(first);
  EXPECT_EQ(report.verdict == Verdict::equivalent, proved);
  const std::string text = rendered(report, first);
  EXPECT_EQ(rendered(verifier::verify(first), first), text);
  EXPECT_EQ(rendered(verifier::verify(second), second), text);
  // Built in memory: the same but for places in a file.
  const Report in_memory = verifier::verify(document);
  EXPECT_EQ(in_memory.verdict, report.verdict);
  EXPECT_EQ(in_memory.assumptions, report.assumptions);
  EXPECT_EQ(in_memory.obligations.proved, report.obligations.proved);
  ASSERT_EQ(in_memory.diagnostics.size(), report.diagnostics.size());
  for (std::size_t i = 0; i < report.diagnostics.size(); ++i) {
    EXPECT_EQ(in_memory.diagnostics[i].code, report.diagnostics[i].code);
    EXPECT_EQ(in_memory.diagnostics[i].message, report.diagnostics[i].message);
    EXPECT_EQ(in_memory.diagnostics[i].found, report.diagnostics[i].found);
  }
}

TEST(SameReport, OfProvedPlans) {
  for (const Subject& subject : subjects()) expect_same_report_always(subject.document, true);
}

// The plan that ir/README.md explains, without its first reduction.
TEST(SameReport, OfAFaultWithItsRepair) {
  std::ifstream file(SHARDPROOF_SOURCE_DIR "/ir/README.md");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  text = text.substr(text.find("```json\n") + 8);
  mutations::Editor editor(read(text.substr(0, text.find("```"))));
  editor.become_operand("half_dw", 0);
  ir::Document document = editor.take();
  strip(document);
  expect_same_report_always(document, false);
}

}  // namespace
}  // namespace shardproof::disguise

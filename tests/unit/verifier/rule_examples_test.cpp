// The examples of the rule pages are plans: the wrong one must be found with the code of its page, the corrected one
// must be equivalent.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "ir/read_json.h"
#include "verifier/rules.h"
#include "verifier/verify.h"

namespace shardproof::verifier {
namespace {

struct Case {
  std::string name;
  std::string document;
  std::string expect;
};

void PrintTo(const Case& example, std::ostream* out) {
  *out << example.name;
}

std::vector<Case> all_examples() {
  std::vector<Case> cases;
  for (const Rule& rule : rules()) {
    int number = 0;
    for (const RuleExample& example : rule_examples(rule)) {
      cases.push_back({std::string(rule.code) + "_" + std::to_string(++number), std::string(example.document),
                       std::string(example.expect)});
    }
  }
  return cases;
}

class RuleExamples : public testing::TestWithParam<Case> {};

TEST_P(RuleExamples, AreJudgedAsThePageSays) {
  const Case& example = GetParam();
  ir::DiagnosticSink sink;
  const auto document = ir::read_document(std::make_shared<ir::SourceFile>("example.json", example.document), sink);
  Report report;
  if (document) {
    report = verify(*document);
  } else {
    report.verdict = Verdict::invalid;
    report.diagnostics = sink.take();
  }
  std::string found;
  for (const ir::Diagnostic& diagnostic : report.diagnostics)
    found += diagnostic.code + ": " + diagnostic.message + "\n";
  if (example.expect == "equivalent") {
    EXPECT_EQ(report.verdict, Verdict::equivalent) << found;
    EXPECT_EQ(found, "");
    return;
  }
  // A warning is no matter of the verdict.
  const Rule* rule = find_rule(example.expect);
  ASSERT_NE(rule, nullptr);
  if (rule->severity == ir::Severity::error) {
    EXPECT_NE(report.verdict, Verdict::equivalent);
  } else {
    EXPECT_EQ(report.verdict, Verdict::equivalent);
  }
  ASSERT_FALSE(report.diagnostics.empty());
  EXPECT_EQ(report.diagnostics.front().code, example.expect) << found;
}

INSTANTIATE_TEST_SUITE_P(Pages, RuleExamples, testing::ValuesIn(all_examples()),
                         [](const testing::TestParamInfo<Case>& test) { return test.param.name; });

TEST(RuleExamples, EveryCodeThatAPlanFileCanShowHasOne) {
  // Codes of configurations and of the bundled planner (SP002x, SP003x), of certificates, of two plans (SP0507, SP0508), of
  // documents built in memory, and those that depend on limits and time.
  const std::set<std::string, std::less<>> without = {"SP0122", "SP0507", "SP0508", "SP0901",
                                                      "SP0902", "SP0903", "SP0904", "SP0906"};
  for (const Rule& rule : rules()) {
    const bool configuration = rule.code.starts_with("SP002") || rule.code.starts_with("SP003") || rule.code.starts_with("SP08");
    EXPECT_EQ(rule_examples(rule).empty(), configuration || without.contains(rule.code)) << rule.code;
  }
}

}  // namespace
}  // namespace shardproof::verifier

// Every case: the right plan is proved, the wrong one is refused for its values and not because it could not be read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "case.h"
#include "verifier/verify.h"

namespace shardproof::bugs {
namespace {

class Bugs : public testing::TestWithParam<Bug> {};

std::string describe(const verifier::Report& report) {
  std::string text = std::string(verifier::verdict_name(report.verdict)) + " " + report.unknown_reason;
  for (const ir::Diagnostic& d : report.diagnostics) {
    text += "\n" + d.code + " " + d.name + ": " + d.message;
    if (d.fix) text += "\n  fix: " + d.fix->message;
    text += "\n  expected " + d.expected.substr(0, 400) + "\n  found    " + d.found.substr(0, 400);
  }
  return text;
}

TEST_P(Bugs, RightPlanIsProved) {
  verifier::Report report = verifier::verify(GetParam().make(false, full_sizes()));
  // The mended systems, too, divide by the token count of one rank.
  const bool divides_by_own_count = GetParam().name == "verl_5625" || GetParam().name == "megatron_lm_7452_mtp";
  if (divides_by_own_count) {
    ASSERT_EQ(report.verdict, verifier::Verdict::not_equivalent) << describe(report);
    EXPECT_TRUE(std::isnan(report.counterexample->found));
    verifier::VerifyOptions options;
    options.assume_defined = true;
    report = verifier::verify(GetParam().make(false, full_sizes()), options);
    EXPECT_NE(report.assumptions.back().find("is not zero"), std::string::npos) << report.assumptions.back();
  }
  EXPECT_EQ(report.verdict, verifier::Verdict::equivalent) << describe(report);
  EXPECT_GT(report.obligations.proved, 0);
}

TEST_P(Bugs, WrongPlanIsNot) {
  const Bug& bug = GetParam();
  const verifier::Report report = verifier::verify(bug.make(true, full_sizes()));
  const auto any = [&](std::string_view prefix) {
    return std::any_of(report.diagnostics.begin(), report.diagnostics.end(),
                       [&](const ir::Diagnostic& d) { return d.code.starts_with(prefix); });
  };
  EXPECT_EQ(report.verdict, verifier::Verdict::not_equivalent) << describe(report) << report.no_counterexample;
  EXPECT_TRUE(report.counterexample || any("SP0502")) << describe(report);
  EXPECT_TRUE(any("SP02") || any("SP0502")) << describe(report);  // a lost update is a wrong value with a name
  EXPECT_FALSE(any("SP09")) << describe(report);
  if (!bug.code.empty()) {
    EXPECT_TRUE(any(bug.code)) << describe(report);
  }
}

TEST(BugTable, HasEveryCaseInTheRowOfItsReport) {
  std::ifstream file(SHARDPROOF_SOURCE_DIR "/tests/bugs/README.md");
  std::map<std::string, std::string> rows;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("| B")) rows[line.substr(2, 4)] = line;
  EXPECT_EQ(rows.size(), 158U);
  for (const Bug& bug : all_bugs()) {
    const std::string& row = rows[bug.id];
    EXPECT_NE(row.find("`" + bug.name + "`"), std::string::npos) << bug.name;
    EXPECT_NE(row.find(bug.code), std::string::npos) << bug.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Public, Bugs, testing::ValuesIn(all_bugs()),
                         [](const testing::TestParamInfo<Bug>& test) { return test.param.name; });

}  // namespace
}  // namespace shardproof::bugs

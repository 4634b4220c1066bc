#include "verifier/rules.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

namespace shardproof::verifier {
namespace {

TEST(Rules, EveryPageIsCompiledIn) {
  std::set<std::string> pages;
  for (const auto& entry : std::filesystem::directory_iterator(SHARDPROOF_SOURCE_DIR "/verifier/rules")) {
    pages.insert(entry.path().stem().string());
  }
  std::set<std::string> codes;
  for (const Rule& rule : rules()) codes.insert(std::string(rule.code));
  EXPECT_EQ(codes, pages);
  EXPECT_GE(codes.size(), 15u);
}

TEST(Rules, CodesAreInOrderAndHaveAFamily) {
  std::string_view previous;
  for (const Rule& rule : rules()) {
    EXPECT_EQ(rule.code.size(), 6u) << rule.code;
    EXPECT_TRUE(rule.code.starts_with("SP")) << rule.code;
    EXPECT_LT(previous, rule.code);
    previous = rule.code;
    EXPECT_EQ(rule.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string_view::npos)
        << rule.name;
    EXPECT_TRUE(rule.summary.ends_with('.')) << rule.code << ": " << rule.summary;
    const bool is_warning = rule.severity == ir::Severity::warning;
    EXPECT_EQ(is_warning, rule.code.starts_with("SP06") || rule.code == "SP0027" || rule.code == "SP0503" || rule.code == "SP0804") << rule.code;
  }
}

TEST(Rules, AreFoundByCodeInAnyCaseAndByName) {
  const Rule* rule = find_rule("sp0201");
  ASSERT_NE(rule, nullptr);
  EXPECT_EQ(rule->name, "missing-reduction");
  EXPECT_EQ(rule->summary, "A partial value is used as if it had been reduced.");
  EXPECT_EQ(find_rule("Missing-Reduction"), rule);
  EXPECT_EQ(find_rule("SP020"), nullptr);
  EXPECT_EQ(find_rule(""), nullptr);
}

TEST(Rules, PagesSayWhatAndWhatToDo) {
  for (const Rule& rule : rules()) {
    EXPECT_NE(rule.page.find("## What it means"), std::string_view::npos) << rule.code;
    const bool advice = rule.page.find("## How to fix it") != std::string_view::npos ||
                        rule.page.find("## What to do") != std::string_view::npos;
    EXPECT_TRUE(advice) << rule.code;
  }
}

TEST(Rules, ExamplesAreTakenFromMarkedBlocksOnly) {
  const Rule rule{"SP9999", "test", ir::Severity::error, "S.",
                  "# SP9999 test\n```json\n{}\n```\ntext\n```json expect: SP9999\n{\"a\":\n1}\n```\n"
                  "```json expect: equivalent\n{}\n```\n"};
  const std::vector<RuleExample> examples = rule_examples(rule);
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(examples[0].document, "{\"a\":\n1}\n");
  EXPECT_EQ(examples[0].expect, "SP9999");
  EXPECT_EQ(examples[1].document, "{}\n");
  EXPECT_EQ(examples[1].expect, "equivalent");
}

}  // namespace
}  // namespace shardproof::verifier

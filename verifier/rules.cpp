#include "verifier/rules.h"

#include <algorithm>
#include <cctype>

#include "ir/check.h"

namespace shardproof::verifier {

namespace {

// Cuts the first line off `text`.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return line;
}

std::string_view take_nonempty_line(std::string_view& text) {
  std::string_view line;
  while (line.empty() && !text.empty()) line = take_line(text);
  return line;
}

Rule parse_page(std::string_view page) {
  constexpr std::string_view kTitle = "# ";
  constexpr std::string_view kSeverity = "Severity: ";
  std::string_view rest = page;
  const std::string_view title = take_line(rest);
  SHARDPROOF_CHECK(title.starts_with(kTitle));
  const std::size_t space = title.find(' ', kTitle.size());
  SHARDPROOF_CHECK(space != std::string_view::npos);
  Rule rule;
  rule.page = page;
  rule.code = title.substr(kTitle.size(), space - kTitle.size());
  rule.name = title.substr(space + 1);
  const std::string_view severity = take_nonempty_line(rest);
  SHARDPROOF_CHECK(severity.starts_with(kSeverity));
  const std::string_view word = severity.substr(kSeverity.size());
  SHARDPROOF_CHECK(word == "error" || word == "warning");
  rule.severity = word == "error" ? ir::Severity::error : ir::Severity::warning;
  rule.summary = take_nonempty_line(rest);
  SHARDPROOF_CHECK(!rule.summary.empty());
  return rule;
}

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

}  // namespace

std::span<const Rule> rules() {
  static const std::vector<Rule> all = [] {
    std::vector<Rule> list;
    for (const std::string_view page : rule_pages()) list.push_back(parse_page(page));
    std::sort(list.begin(), list.end(), [](const Rule& a, const Rule& b) { return a.code < b.code; });
    return list;
  }();
  return all;
}

const Rule* find_rule(std::string_view code_or_name) {
  for (const Rule& rule : rules()) {
    if (same_word(rule.code, code_or_name) || same_word(rule.name, code_or_name)) return &rule;
  }
  return nullptr;
}

std::vector<RuleExample> rule_examples(const Rule& rule) {
  constexpr std::string_view kOpen = "```json expect: ";
  std::vector<RuleExample> examples;
  std::string_view rest = rule.page;
  while (!rest.empty()) {
    const std::string_view line = take_line(rest);
    if (!line.starts_with(kOpen)) continue;
    const std::size_t length = rest.find("\n```");
    SHARDPROOF_CHECK(length != std::string_view::npos);
    examples.push_back({rest.substr(0, length + 1), line.substr(kOpen.size())});
    rest = rest.substr(length + 1);
    take_line(rest);
  }
  return examples;
}

}  // namespace shardproof::verifier

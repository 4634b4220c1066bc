// The registry of diagnostic codes. A code is what its page verifier/rules/SPxxxx.md says: the page is the only
// place with its name, severity and text. Codes are never reused or renumbered.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ir/diagnostic.h"

namespace shardproof::verifier {

struct Rule {
  std::string_view code;  // "SP0201"
  std::string_view name;  // "missing-reduction"
  ir::Severity severity = ir::Severity::error;
  std::string_view summary;  // one sentence
  std::string_view page;     // the whole page, Markdown
};

// All rules, by code.
std::span<const Rule> rules();
// By code ("SP0201", any case) or by name ("missing-reduction"); null if there is none.
const Rule* find_rule(std::string_view code_or_name);

// A ```json block of a page marked "expect: ...": a plan document and what `verify` says of it.
struct RuleExample {
  std::string_view document;
  std::string_view expect;  // "equivalent", or a code
};
std::vector<RuleExample> rule_examples(const Rule& rule);

// The pages as compiled in. A page starts with "# SP0201 missing-reduction", a line "Severity: error" and a
// paragraph whose first line is the summary.
std::span<const std::string_view> rule_pages();

}  // namespace shardproof::verifier

// shardproof explain: the page of a diagnostic code, or the list of all codes.
#include <CLI/CLI.hpp>
#include <iomanip>
#include <iostream>

#include "tools/commands.h"
#include "verifier/rules.h"

namespace shardproof::tools {

int cmd_explain(Arguments arguments) {
  CLI::App app("Print what a diagnostic code means and what to do about it; without a code, list all codes.",
               "shardproof explain");
  std::string wanted;
  app.add_option("code", wanted, "a code (SP0201) or its name (missing-reduction)");
  if (!parse_arguments(app, arguments)) return 0;

  if (wanted.empty()) {
    for (const verifier::Rule& rule : verifier::rules()) {
      std::cout << rule.code << "  " << std::left << std::setw(25) << rule.name << " " << rule.summary << "\n";
    }
    return 0;
  }
  if (const verifier::Rule* rule = verifier::find_rule(wanted)) {
    std::cout << rule->page;
    return 0;
  }
  std::vector<std::string> known;
  for (const verifier::Rule& rule : verifier::rules()) {
    known.emplace_back(rule.code);
    known.emplace_back(rule.name);
  }
  throw UsageError("no code or name '" + wanted + "'" + nearest_hint(wanted, known) +
                   "; `shardproof explain` lists them");
}

}  // namespace shardproof::tools

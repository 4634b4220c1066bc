// A Report as text for people.
//   full     one block per finding: message, source lines with carets, expected and found, notes, the fix as a
//            diff; then the verdict with its counts and assumptions.
//   concise  one line per finding ("path:line:column: error[SP0201] ..."), for editors and grep, then the verdict ("path: plan is ...").
#pragma once

#include <iosfwd>
#include <string_view>

#include "ir/source.h"
#include "verifier/report.h"

namespace shardproof::verifier {

struct TextOptions {
  bool color = false;           // ANSI colours; for terminals
  bool quiet = false;           // findings only, no verdict
  bool timing = true;           // seconds in the verdict line (off where output is compared)
  std::size_t max_width = 120;  // source lines are cut to about this many columns around the marked place
};

// `source` is the plan file the spans refer to; null for documents built in memory, whose findings then name
// the instruction instead. `path` names the plan where there is no source.
void render_full(const Report& report, const ir::SourceFile* source, std::string_view path, const TextOptions& options,
                 std::ostream& out);
void render_concise(const Report& report, const ir::SourceFile* source, std::string_view path,
                    const TextOptions& options, std::ostream& out);

void render_counterexample(const Counterexample& counterexample, std::ostream& out);

// The closing line alone: "plan is equivalent to its reference: 611 obligations proved (71 by Z3), 0 unknown; 3.1 s".
std::string verdict_line(const Report& report, bool timing);

// "error", "warning", "note".
std::string_view severity_name(ir::Severity severity);

}  // namespace shardproof::verifier

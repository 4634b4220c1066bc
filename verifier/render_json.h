// A Report as JSON, schema "shardproof-report/1" (verifier/report.schema.json). Fields are added, never renamed.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "ir/source.h"
#include "verifier/report.h"

namespace shardproof::verifier {

struct JsonOptions {
  std::string_view tool_version;
  bool statistics = true;  // off where output is compared: they vary from run to run
};

// `source` and `path` as for render_full.
void render_json(const Report& report, const ir::SourceFile* source, std::string_view path, const JsonOptions& options,
                 std::ostream& out);

// Identifies a finding across versions of a plan: code, names with numbers left out, axis and operator, no line
// numbers. 16 hexadecimal digits.
std::string fingerprint(const ir::Diagnostic& diagnostic);

// Runs of digits become one '#': layer 7 and layer 12 are the same finding.
std::string without_numbers(std::string_view text);

}  // namespace shardproof::verifier

// Reading what the user names on the command line, and showing what is wrong with it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/plan.h"
#include "verifier/report.h"

namespace shardproof::tools {

// The bytes of a file. Throws UsageError if it cannot be read.
std::shared_ptr<const ir::SourceFile> read_source(const std::string& path);

// A plan file, read and validated. On errors the findings are in `report` (verdict invalid) and nothing is
// returned; `source` keeps the file for rendering either way (null if it could not be read).
struct LoadedDocument {
  std::optional<ir::Document> document;
  std::shared_ptr<const ir::SourceFile> source;
  verifier::Report report;
};
LoadedDocument load_document(const std::string& path);

// Prints the findings of an invalid input to standard error, and what therefore did not happen ("no plan was made").
// Returns the exit code.
int report_invalid(std::vector<ir::Diagnostic> diagnostics, const ir::SourceFile* source, const std::string& path,
                   const std::string& consequence);
void report_warnings(std::vector<ir::Diagnostic> diagnostics, const ir::SourceFile* source, const std::string& path);

// Colours for what goes to file descriptor `descriptor`: `choice` is "auto" (a terminal without NO_COLOR), "always" or
// "never".
bool use_color(std::string_view choice, int descriptor);

}  // namespace shardproof::tools

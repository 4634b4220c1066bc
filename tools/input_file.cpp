#include "tools/input_file.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "ir/read_json.h"
#include "ir/validate.h"
#include "tools/command_line.h"
#include "verifier/render_text.h"

namespace shardproof::tools {

std::shared_ptr<const ir::SourceFile> read_source(const std::string& path) {
  ir::DiagnosticSink sink;
  std::shared_ptr<const ir::SourceFile> source = ir::read_source_file(path, sink);
  if (!source) throw UsageError(sink.diagnostics().front().message);
  return source;
}

LoadedDocument load_document(const std::string& path) {
  LoadedDocument loaded;
  ir::DiagnosticSink sink;
  loaded.source = ir::read_source_file(path, sink);
  if (loaded.source) loaded.document = ir::read_document(loaded.source, sink);
  if (loaded.document) ir::validate(*loaded.document, sink);
  if (!sink.ok()) loaded.document.reset();
  loaded.report.verdict = verifier::Verdict::invalid;
  loaded.report.diagnostics = sink.take();
  return loaded;
}

int report_invalid(const verifier::Report& report, const ir::SourceFile* source, const std::string& path) {
  verifier::TextOptions options;
  options.color = use_color("auto", STDERR_FILENO);
  verifier::render_full(report, source, path, options, std::cerr);
  return kExitUsage;
}

int report_invalid(std::vector<ir::Diagnostic> diagnostics, const ir::SourceFile* source, const std::string& path) {
  verifier::Report report;
  report.verdict = verifier::Verdict::invalid;
  report.diagnostics = std::move(diagnostics);
  return report_invalid(report, source, path);
}

bool use_color(std::string_view choice, int descriptor) {
  if (choice != "auto") return choice == "always";
  const char* no_color = std::getenv("NO_COLOR");  // no-color.org
  return ::isatty(descriptor) == 1 && (no_color == nullptr || *no_color == '\0');
}

}  // namespace shardproof::tools

#include "tools/input_file.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "ir/read_json.h"
#include "ir/validate.h"
#include "tools/command_line.h"
#include "verifier/render_text.h"
#include "verifier/rules.h"

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

namespace {

void print_findings(std::vector<ir::Diagnostic> diagnostics, const ir::SourceFile* source, const std::string& path) {
  verifier::Report report;
  report.diagnostics = std::move(diagnostics);
  verifier::TextOptions options;
  options.color = use_color("auto", STDERR_FILENO);
  options.quiet = true;  // no verdict: nothing was verified
  verifier::render_full(report, source, path, options, std::cerr);
}

}  // namespace

int report_invalid(std::vector<ir::Diagnostic> diagnostics, const ir::SourceFile* source, const std::string& path,
                   const std::string& consequence) {
  const auto errors = std::count_if(diagnostics.begin(), diagnostics.end(),
                                    [](const ir::Diagnostic& d) { return d.severity == ir::Severity::error; });
  const auto first = std::find_if(diagnostics.begin(), diagnostics.end(),
                                  [](const ir::Diagnostic& d) { return d.severity == ir::Severity::error; });
  const std::string code = first == diagnostics.end() ? std::string() : first->code;
  print_findings(std::move(diagnostics), source, path);
  std::cerr << consequence << ": " << errors << (errors == 1 ? " error\n" : " errors\n");
  if (verifier::find_rule(code) != nullptr) {
    std::cerr << "for more about this finding, run `shardproof explain " << code << "`\n";
  }
  return kExitUsage;
}

void report_warnings(std::vector<ir::Diagnostic> diagnostics, const ir::SourceFile* source, const std::string& path) {
  if (!diagnostics.empty()) print_findings(std::move(diagnostics), source, path);
}

bool use_color(std::string_view choice, int descriptor) {
  if (choice != "auto") return choice == "always";
  const char* no_color = std::getenv("NO_COLOR");  // no-color.org
  return ::isatty(descriptor) == 1 && (no_color == nullptr || *no_color == '\0');
}

}  // namespace shardproof::tools

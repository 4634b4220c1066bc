#include "ir/diagnostic.h"

#include <utility>

namespace shardproof::ir {

void DiagnosticSink::add(Diagnostic diagnostic) {
  if (diagnostic.severity == Severity::error) ++error_count_;
  diagnostics_.push_back(std::move(diagnostic));
}

Diagnostic make_error(std::string code, std::string name, std::string message, Span span, std::string expected,
                      std::string found, std::string fix_message) {
  Diagnostic diagnostic;
  diagnostic.code = std::move(code);
  diagnostic.name = std::move(name);
  diagnostic.message = std::move(message);
  diagnostic.labels.push_back({span, {}, true});
  diagnostic.expected = std::move(expected);
  diagnostic.found = std::move(found);
  if (!fix_message.empty()) diagnostic.fix = Fix{std::move(fix_message), {}, Applicability::display_only};
  return diagnostic;
}

void DiagnosticSink::error(std::string code, std::string name, std::string message, Span span, std::string expected,
                           std::string found, std::string fix_message) {
  add(make_error(std::move(code), std::move(name), std::move(message), span, std::move(expected), std::move(found),
                 std::move(fix_message)));
}

}  // namespace shardproof::ir

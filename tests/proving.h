// Verifying without a search for repairs and counterexamples, and the report as text for messages.
#pragma once

#include <string>

#include "verifier/verify.h"

namespace shardproof::testing_support {

inline verifier::Report prove(const ir::Document& document) {
  verifier::VerifyOptions options;
  options.suggest_fixes = options.find_counterexample = false;
  options.timeout_seconds = 60;
  return verifier::verify(document, options);
}

inline std::string told(const verifier::Report& report) {
  std::string text = std::string(verifier::verdict_name(report.verdict)) + " " + report.unknown_reason;
  for (const ir::Diagnostic& d : report.diagnostics)
    text += "\n  " + d.code + " " + d.message + "\n    expected " + d.expected.substr(0, 300) + "\n    found    " + d.found.substr(0, 300);
  return text;
}

}  // namespace shardproof::testing_support

// Whether a certificate proves a plan. The plan is followed as in a proof, by the same trusted code (verifier/kernel), with the certificate in place of
// the search and without Z3. Nothing that the certificate says is believed: see fold_check.h for its terms, and replay.h for definitions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/plan.h"
#include "verifier/kernel/limits.h"

namespace shardproof::verifier {

struct CertificateReport {
  enum class Verdict { valid, rejected, invalid };  // invalid: the document is no plan to prove anything of
  Verdict verdict = Verdict::rejected;
  std::vector<ir::Diagnostic> diagnostics;
  std::vector<std::string> assumptions;
  std::int64_t claims = 0;
  std::int64_t results = 0;  // of folding, checked
  std::int64_t reference_instructions = 0, plan_instructions = 0;
};

CertificateReport check_certificate(const ir::Document& document, std::string_view certificate, const ProofLimits& limits = {});

// A certificate around its body, `lines` lines of nodes and results.
std::string certificate_text(const ir::Document& document, const std::string& made_by, const std::string& body, std::int64_t lines);

}  // namespace shardproof::verifier

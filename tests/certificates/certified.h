// A proof with its certificate.
#pragma once

#include <string>

#include "verifier/certificate/check.h"
#include "verifier/verify.h"

namespace shardproof {

struct Certified {
  verifier::Report report;
  std::string certificate;  // empty: none
};

inline Certified certify(const ir::Document& document) {
  Certified result;
  verifier::VerifyOptions options = verifier::proof_alone({});
  options.timeout_seconds = 60;
  options.certificate = &result.certificate;
  result.report = verifier::verify(document, options);
  return result;
}

}  // namespace shardproof

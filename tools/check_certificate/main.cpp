// check-certificate: whether a certificate proves a plan. Links what is trusted and nothing of the search.
#include <CLI/CLI.hpp>
#include <chrono>
#include <exception>
#include <iomanip>
#include <iostream>
#include <new>

#include "ir/read_json.h"
#include "verifier/certificate/check.h"

namespace shardproof::tools {

namespace {

using Verdict = verifier::CertificateReport::Verdict;

constexpr int kExitRejected = 1, kExitInput = 2, kExitInternal = 70;

void print(const ir::Diagnostic& d, const ir::SourceFile* source, const std::string& path) {
  std::cout << path;
  if (source != nullptr && !d.labels.empty() && d.labels[0].span.known()) {
    const ir::LineColumn place = source->line_column(d.labels[0].span.begin);
    std::cout << ":" << place.line << ":" << place.column;
  }
  std::cout << ": " << (d.severity == ir::Severity::error ? "error" : "warning") << "[" << d.code << "]: " << d.message << "\n";
  if (!d.expected.empty()) std::cout << "  expected: " << d.expected << "\n";
  if (!d.found.empty()) std::cout << "  found:    " << d.found << "\n";
  if (d.fix) std::cout << "  help:     " << d.fix->message << "\n";
}

int run(int argc, char** argv) {
  CLI::App app("Check that a certificate of `shardproof verify --certificate` proves that a plan computes the same training step as its\nreference. No search and no Z3: the plan is followed, and what the certificate says of each value is checked.",
               "check-certificate");
  std::string plan_path, certificate_path;
  verifier::ProofLimits limits;
  std::size_t megabytes = 0;
  app.add_option("plan", plan_path, "the plan file")->required();
  app.add_option("certificate", certificate_path, "its certificate")->required();
  app.add_option("--timeout", limits.timeout_seconds, "seconds, then the certificate is rejected (0: no limit)")->check(CLI::Range(0.0, 1e9));
  app.add_option("--memory", megabytes, "megabytes of the process, then the certificate is rejected (0: no limit)")->check(CLI::Range(std::size_t{0}, std::size_t{1} << 30U));
  app.set_version_flag("--version", "check-certificate " SHARDPROOF_VERSION);
  app.footer("exit codes: 0 the certificate proves the plan, 1 rejected, 2 bad input or usage, 70 internal error");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e, std::cout, std::cerr) == 0 ? 0 : kExitInput;
  }
  limits.memory_bytes = megabytes << 20U;

  ir::DiagnosticSink sink;
  const std::shared_ptr<const ir::SourceFile> source = ir::read_source_file(plan_path, sink);
  const std::shared_ptr<const ir::SourceFile> certificate = ir::read_source_file(certificate_path, sink);
  std::optional<ir::Document> document;
  if (source && certificate) document = ir::read_document(source, sink);
  if (!document || !sink.ok()) {
    for (const ir::Diagnostic& d : sink.diagnostics()) print(d, source.get(), source ? plan_path : certificate_path);
    return kExitInput;
  }
  const auto start = std::chrono::steady_clock::now();
  const verifier::CertificateReport report = verifier::check_certificate(*document, certificate->text(), limits);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const ir::Diagnostic& d : report.diagnostics) print(d, source.get(), plan_path);
  if (report.verdict == Verdict::invalid) {
    std::cout << "not checked: the file is no plan to prove\n";
    return kExitInput;
  }
  if (report.verdict == Verdict::rejected) {
    std::cout << "rejected: the certificate does not prove that the plan is equivalent to its reference\n";
    return kExitRejected;
  }
  std::cout << "certified: the plan is equivalent to its reference: " << report.claims << (report.claims == 1 ? " claim, " : " claims, ") << report.results << " recorded results checked, " << certificate->text().size()
            << " bytes; " << std::fixed << std::setprecision(2) << seconds << " s\nassumptions:\n";
  for (const std::string& assumption : report.assumptions) std::cout << "  - " << assumption << "\n";
  return 0;
}

}  // namespace

}  // namespace shardproof::tools

int main(int argc, char** argv) {
  using namespace shardproof::tools;
  std::ios::sync_with_stdio(false);
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::cerr << "internal error: out of memory\n";
  } catch (const std::exception& error) {
    std::cerr << "internal error: " << error.what() << "\nthis is a bug in shardproof; please report it with the plan and the certificate\n";
  }
  return kExitInternal;
}

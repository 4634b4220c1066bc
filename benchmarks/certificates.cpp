// What checking a certificate costs beside the proof that wrote it, in one run. With --check fails unless checking is cheaper for Llama-3.1-405B.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "ir/diagnostic.h"
#include "ir/read_json.h"
#include "lowering/build_reference.h"
#include "lowering/model_config.h"
#include "lowering/parallel_config.h"
#include "lowering/plan_training.h"
#include "lowering/training_config.h"
#include "verifier/certificate/check.h"
#include "verifier/verify.h"

namespace shardproof::benchmarks {
namespace {

constexpr int kRuns = 3;  // the least counts, which other work disturbs least

template <typename T>
T need(std::optional<T> value, const ir::DiagnosticSink& sink) {
  if (!value) throw std::runtime_error(sink.diagnostics().front().message);
  return *std::move(value);
}

ir::Document planned(const std::string& name) {
  const std::string folder = std::string(SHARDPROOF_SOURCE_DIR) + "/tools/configs/";
  ir::DiagnosticSink sink;
  const auto source = ir::read_source_file(folder + "parallel.json", sink);
  if (!source) throw std::runtime_error("no tools/configs/parallel.json");
  const auto parallel = need(lowering::read_parallel_config(source, sink, name), sink);
  const auto training = need(lowering::read_training_config(source, sink, name), sink);
  const auto model_source = ir::read_source_file(folder + parallel.model, sink);
  if (!model_source) throw std::runtime_error("no tools/configs/" + parallel.model);
  const auto model = need(lowering::read_model_config(model_source, sink, {true}), sink);
  ir::Document document;
  document.reference = lowering::build_reference(model, training, parallel.global_batch_size, parallel.seq_length);
  document.plan = lowering::plan_training(model, training, parallel, document.reference);
  return document;
}

double cpu_seconds(const std::function<void()>& work) {
  double least = 0;
  for (int run = 0; run < kRuns; ++run) {
    const std::clock_t start = std::clock();
    work();
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    least = run == 0 ? seconds : std::min(least, seconds);
  }
  return least;
}

bool cheaper(const std::string& name) {
  const ir::Document document = planned(name);
  verifier::VerifyOptions options = verifier::proof_alone({});
  bool proved = true, valid = true;
  const double proof = cpu_seconds([&] { proved = proved && verifier::verify(document, options).verdict == verifier::Verdict::equivalent; });
  std::string certificate;
  options.certificate = &certificate;
  verifier::verify(document, options);
  const double check = cpu_seconds([&] {
    const verifier::CertificateReport report = verifier::check_certificate(document, certificate);
    valid = valid && report.verdict == verifier::CertificateReport::Verdict::valid;
  });
  std::printf("%-20s %8.2f %8.2f %8.2f %12.2f  %s\n", name.c_str(), proof, check, check / proof, static_cast<double>(certificate.size()) / 1e6, proved && valid ? "valid" : "NOT VALID");
  std::fflush(stdout);
  return proved && valid && check < proof;
}

}  // namespace
}  // namespace shardproof::benchmarks

int main(int argc, char** argv) {
  const std::string_view argument = argc > 1 ? argv[1] : "";
  if (argc > 2 || (argc == 2 && argument != "--check")) {
    std::cerr << "usage: certificates [--check]\n";
    return 2;
  }
  try {
    std::printf("%-20s %8s %8s %8s %12s  %s\n", "plan", "proof s", "check s", "ratio", "megabytes", "certificate");
    shardproof::benchmarks::cheaper("llama-3.1-8b@64");
    return shardproof::benchmarks::cheaper("llama-3.1-405b@1024") || argument != "--check" ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "certificates: " << error.what() << '\n';
    return 70;
  }
}

// The promise of the README at full size: set-ups of real models in tools/configs are proved, and a fault in the middle
// of one is not. Faults are those of tests/mutations. Nothing looks for their repair here, which may take longer.
#include <gtest/gtest.h>

#include <cctype>
#include <ostream>
#include <stdexcept>

#include "ir/read_json.h"
#include "lowering/build_reference.h"
#include "lowering/model_config.h"
#include "lowering/parallel_config.h"
#include "lowering/plan_training.h"
#include "lowering/training_config.h"
#include "mutations/mutate.h"
#include "verifier/certificate/check.h"
#include "verifier/verify.h"

namespace shardproof {
namespace {

using verifier::Report;
using verifier::Verdict;

template <typename T>
T need(std::optional<T> value, const ir::DiagnosticSink& sink) {
  if (!value) throw std::runtime_error(sink.diagnostics().front().message);
  return *std::move(value);
}

mutations::Subject plan(const std::string& setup) {
  const std::string folder = SHARDPROOF_SOURCE_DIR "/tools/configs/";
  ir::DiagnosticSink sink;
  const auto source = ir::read_source_file(folder + "parallel.json", sink);
  if (!source) throw std::runtime_error("no tools/configs/parallel.json");
  const auto parallel = need(lowering::read_parallel_config(source, sink, setup), sink);
  const auto training = need(lowering::read_training_config(source, sink, setup), sink);
  const auto model_source = ir::read_source_file(folder + parallel.model, sink);
  if (!model_source) throw std::runtime_error("no tools/configs/" + parallel.model);
  const auto model = need(lowering::read_model_config(model_source, sink, {true}), sink);
  ir::Document document;
  document.reference = lowering::build_reference(model, training, parallel.global_batch_size, parallel.seq_length);
  document.plan = lowering::plan_training(model, training, parallel, document.reference);
  return {setup, std::move(document)};
}

Report prove(const ir::Document& document, std::string* certificate = nullptr) {
  verifier::VerifyOptions options;
  options.certificate = certificate;
  options.suggest_fixes = options.find_counterexample = false;
  return verifier::verify(document, options);
}

// The plan with a fault of this kind at the middle one of its places.
ir::Document with_fault(const mutations::Subject& subject, const std::string& kind_name) {
  for (const mutations::Kind& kind : mutations::all_kinds()) {
    if (kind.name != kind_name) continue;
    const std::vector<mutations::Site> sites = kind.find(subject);
    if (sites.empty()) throw std::runtime_error("no place for " + kind_name);
    const mutations::Site& site = sites[sites.size() / 2];
    mutations::Editor editor(subject.document);
    site.edit(editor, site.at);
    return editor.take();
  }
  throw std::runtime_error("no kind " + kind_name);
}

struct Setup {
  const char* name;
  std::size_t obligations;  // at least: parameters and their optimizer states
  std::vector<const char*> faults;
};

void PrintTo(const Setup& setup, std::ostream* out) {
  *out << setup.name;
}

const std::vector<Setup>& setups() {
  static const std::vector<Setup> all = {
      {"llama-3.1-8b@64", 200, {"drop_tp_all_reduce_sum", "gradient_over_microbatches"}},
      {"llama-3.1-8b-128k@256", 200, {"context_keys_in_sequence_order", "context_key_gradient_averaged"}},
      {"gpt2-small@8", 150, {"drop_tp_all_reduce_sum"}},
      {"smollm-135m@4", 150, {"gradient_over_microbatches"}},
      {"gpt3-175b@64", 2000, {"gradient_over_dp"}},
      {"llama-3.1-70b@256", 500, {"drop_tp_all_reduce_sum"}},
      {"llama-3.1-405b@1024", 800, {"drop_tp_all_reduce_sum"}},
  };
  return all;
}

class Acceptance : public testing::TestWithParam<Setup> {};

TEST_P(Acceptance, PlanIsProvedAndCertified) {
  const ir::Document document = plan(GetParam().name).document;
  std::string certificate;
  const Report report = prove(document, &certificate);
  EXPECT_EQ(verifier::check_certificate(document, certificate).verdict, verifier::CertificateReport::Verdict::valid);
  EXPECT_EQ(report.verdict, Verdict::equivalent) << report.unknown_reason;
  EXPECT_GE(report.obligations.proved, GetParam().obligations);
  EXPECT_TRUE(report.diagnostics.empty());
}

TEST_P(Acceptance, FaultIsNot) {
  const mutations::Subject subject = plan(GetParam().name);
  for (const char* fault : GetParam().faults) {
    const Report report = prove(with_fault(subject, fault));
    EXPECT_TRUE(report.verdict == Verdict::unknown || report.verdict == Verdict::not_equivalent)
        << fault << ": " << verifier::verdict_name(report.verdict);
    ASSERT_FALSE(report.diagnostics.empty()) << fault;
    EXPECT_TRUE(report.diagnostics.front().code.starts_with("SP02")) << fault << ": " << report.unknown_reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Configs, Acceptance, testing::ValuesIn(setups()),
                         [](const testing::TestParamInfo<Setup>& test) {
                           std::string name = test.param.name;
                           for (char& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

}  // namespace
}  // namespace shardproof

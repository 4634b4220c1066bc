// Set-ups that once did not prove though the plan is right, as small as they can be; and each with a fault beside what made
// it hard, which must not prove.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "certificates/certified.h"
#include "lowering/build_reference.h"
#include "lowering/plan_training.h"
#include "mutations/mutate.h"
#include "proving.h"
#include "unit/lowering/plan_models.h"

namespace shardproof {
namespace {

using lowering::ModelConfig;
using lowering::ParallelConfig;
using lowering::TrainingConfig;
using mutations::Editor;
using verifier::Verdict;

struct Setup {
  const char* name;
  ModelConfig model;
  ParallelConfig parallel;
  TrainingConfig training = {};
  std::function<void(Editor&)> fault;
};

void PrintTo(const Setup& setup, std::ostream* out) { *out << setup.name; }

ir::Document document_of(const Setup& setup) {
  ir::Document document;
  document.reference = lowering::build_reference(setup.model, setup.training, setup.parallel.global_batch_size, setup.parallel.seq_length);
  document.plan = lowering::plan_training(setup.model, setup.training, setup.parallel, document.reference);
  return document;
}

std::function<void(Editor&)> scaled(const std::string& value) {
  return [value](Editor& e) { e.scale(value, 2); };
}

template <typename T, typename Value>
T with(T config, Value T::*field, Value value) {
  config.*field = std::move(value);
  return config;
}

ModelConfig heads(ModelConfig model, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  model.num_heads = heads;
  model.num_kv_heads = kv_heads;
  model.head_dim = head_dim;
  model.hidden_size = heads * head_dim;
  return model;
}

const std::vector<Setup>& setups() {
  using namespace lowering::testing;
  const ModelConfig llama = small_llama(1), gpt2 = heads(small_gpt2(1), 8, 8, 8);
  const ParallelConfig two = degrees(1, 2), four = degrees(2, 2);
  const ir::Rational none(0);
  static const std::vector<Setup> all = {
      // The position embedding's later rows have no gradient, and the bucket's shards have them apart.
      {"FewerPositionsThanTheModelHas", gpt2, with(two, &ParallelConfig::seq_length, std::int64_t{12}), {},
       scaled("bucket0.transformer.wpe.weight.grad_flat")},
      {"FewerPositionsAndTensorParallel", gpt2, with(four, &ParallelConfig::seq_length, std::int64_t{12}), {}, scaled("bucket0.grad_packed")},
      // Sums over heads and over positions of one extent.
      {"AsManyPositionsAsHeads", heads(llama, 2, 1, 4), with(degrees(2, 2), &ParallelConfig::seq_length, std::int64_t{2}), {},
       [](Editor& e) { e.become_operand("model.layers.0.self_attn.qkv_proj.weight.grad_kv", 0); }},
      {"LossScale", llama, with(four, &ParallelConfig::precision, std::string("fp16")), {}, scaled("loss.per_token")},
      {"NoMomentum", llama, four, with(TrainingConfig{}, &TrainingConfig::adam_beta1, none),
       [](Editor& e) { e.set("bucket0.next", "beta1", ir::Rational(1, 10)); }},
      {"NoMemoryOfSquares", llama, four, with(TrainingConfig{}, &TrainingConfig::adam_beta2, none),
       [](Editor& e) { e.set("bucket0.next", "beta2", ir::Rational(1, 10)); }},
      // Halves of a head that are one number, of which no index says which.
      {"HeadsOfTwo", heads(llama, 8, 4, 2), four, {}, scaled("l0.attn.d_qkv_weight")},
      {"HeadsOfTwoWithOneKey", heads(llama, 4, 1, 2), two, {}, scaled("l0.attn.d_qkv_weight")},
      // Vocabulary shards of padding alone.
      {"RanksWithoutVocabulary", with(llama, &ModelConfig::vocab_size, std::int64_t{8}), degrees(4, 1), {}, scaled("embed.d_embedding")},
      {"RanksWithoutVocabularyOnTwoAxes", with(llama, &ModelConfig::vocab_size, std::int64_t{8}), degrees(4, 3), {}, scaled("embed.d_embedding")},
  };
  return all;
}

class SmallSetups : public testing::TestWithParam<Setup> {};

TEST_P(SmallSetups, PlanIsProvedAndCertified) {
  const Certified certified = certify(document_of(GetParam()));
  const verifier::Report& report = certified.report;
  EXPECT_FALSE(certified.certificate.empty());
  EXPECT_EQ(report.verdict, Verdict::equivalent) << testing_support::told(report);
  EXPECT_TRUE(report.diagnostics.empty());
}

TEST_P(SmallSetups, FaultIsNot) {
  Editor editor(document_of(GetParam()));
  GetParam().fault(editor);
  const verifier::Report report = testing_support::prove(editor.take());
  EXPECT_TRUE(report.verdict == Verdict::unknown || report.verdict == Verdict::not_equivalent) << verifier::verdict_name(report.verdict);
  ASSERT_FALSE(report.diagnostics.empty());
  EXPECT_TRUE(report.diagnostics.front().code.starts_with("SP02")) << testing_support::told(report);
}

INSTANTIATE_TEST_SUITE_P(All, SmallSetups, testing::ValuesIn(setups()), [](const testing::TestParamInfo<Setup>& test) { return test.param.name; });

}  // namespace
}  // namespace shardproof

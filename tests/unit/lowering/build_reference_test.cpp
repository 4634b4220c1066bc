#include "lowering/build_reference.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include "ir/builder.h"
#include "tests/unit/lowering/small_interpreter.h"

namespace shardproof::lowering {
namespace {

using ir::OpCode;
using ir::Rational;
using ir::ValueId;
using testing::interpret;
using testing::scattered;
using testing::SmallTensor;
using testing::SmallValues;

ModelConfig tiny_llama(std::int64_t layers = 1) {
  ModelConfig model;
  model.family = ModelFamily::llama;
  model.hidden_size = 4;
  model.intermediate_size = 6;
  model.num_layers = layers;
  model.num_heads = 2;
  model.num_kv_heads = 1;
  model.head_dim = 4;
  model.vocab_size = 5;
  model.max_positions = 8;
  model.activation = "silu";
  return model;
}

ModelConfig tiny_gpt2(std::int64_t layers = 1) {
  ModelConfig model = tiny_llama(layers);
  model.family = ModelFamily::gpt2;
  model.num_kv_heads = 2;
  model.head_dim = 2;
  model.tie_word_embeddings = true;
  model.activation = "gelu_new";
  return model;
}

ModelConfig llama_405b() {
  ModelConfig model = tiny_llama(126);
  model.hidden_size = 16384;
  model.intermediate_size = 53248;
  model.num_heads = 128;
  model.num_kv_heads = 8;
  model.head_dim = 128;
  model.vocab_size = 128256;
  model.max_positions = 131072;
  model.rope_theta = 500000.0;
  model.rope_scaling = RopeScaling{"llama3", 8.0, 1.0, 4.0, 8192};
  return model;
}

const ir::ReferenceState& state(const ir::Reference& reference, const std::string& name) {
  for (const ir::ReferenceState& entry : reference.state) {
    if (entry.name == name) return entry;
  }
  throw std::logic_error("no state " + name);
}

void check_structure(const ModelConfig& model) {
  const ir::Reference reference = build_reference(model, {}, 2, 3);
  const std::vector<ParameterInfo> parameters = list_parameters(model);
  ASSERT_EQ(reference.state.size(), 3 * parameters.size() + 1);
  std::set<ValueId> defined;
  for (const ir::Instruction& instruction : reference.program.body) {
    EXPECT_FALSE(instruction.source.empty());
    for (const ValueId output : instruction.outputs) defined.insert(output);
  }
  for (const ParameterInfo& parameter : parameters) {
    for (const std::string role : {"param", "exp_avg", "exp_avg_sq"}) {
      const std::string name = role == "param" ? parameter.name : parameter.name + "." + role;
      const ir::ReferenceState& entry = state(reference, name);
      EXPECT_EQ(entry.role, role);
      EXPECT_EQ(entry.param, role == "param" ? "" : parameter.name);
      EXPECT_EQ(reference.program.value(entry.value).name, name);
      EXPECT_EQ(reference.program.value(entry.value).type.shape, parameter.shape);
      EXPECT_EQ(reference.program.value(entry.next).type, reference.program.value(entry.value).type);
      EXPECT_TRUE(defined.contains(entry.next));
    }
    EXPECT_TRUE(reference.program.find(parameter.name + ".grad").valid()) << parameter.name;
  }
  EXPECT_EQ(state(reference, "step").role, "step");
  ASSERT_EQ(reference.inputs.size(), 4u);
  EXPECT_EQ(reference.inputs[0].below, model.vocab_size);
  ASSERT_EQ(reference.outputs.size(), 2u);
  EXPECT_EQ(reference.outputs[0].name, "loss");
  EXPECT_EQ(reference.outputs[1].name, "grad_norm");
}

TEST(BuildReference, LlamaStateAndGradients) {
  check_structure(tiny_llama(2));
}
TEST(BuildReference, Gpt2StateAndGradients) {
  check_structure(tiny_gpt2(2));
}

TEST(BuildReference, UntiedAndTiedHeads) {
  ModelConfig tied = tiny_llama();
  tied.tie_word_embeddings = true;
  ModelConfig untied = tiny_gpt2();
  untied.tie_word_embeddings = false;
  check_structure(tied);
  check_structure(untied);
  EXPECT_EQ(list_parameters(tied).size() + 1, list_parameters(tiny_llama()).size());
  EXPECT_EQ(list_parameters(untied).back().name, "lm_head.weight");
}

TEST(BuildReference, GrowsLinearlyWithLayers) {
  const auto count = [](const ModelConfig& model) { return build_reference(model, {}, 2, 3).program.body.size(); };
  for (const auto& make : {tiny_llama, tiny_gpt2}) {
    EXPECT_EQ(count(make(3)) - count(make(2)), count(make(2)) - count(make(1)));
  }
}

TEST(BuildReference, WeightDecayOnlyOnMatrices) {
  const ir::Reference reference = build_reference(tiny_gpt2(), {}, 2, 3);
  std::size_t updates = 0;
  for (const ir::Instruction& instruction : reference.program.body) {
    if (instruction.op != OpCode::adamw) continue;
    ++updates;
    const bool matrix = reference.program.value(instruction.inputs[0]).type.shape.size() > 1;
    EXPECT_EQ(instruction.attributes.get<Rational>("weight_decay"), matrix ? Rational(1, 10) : Rational(0));
  }
  EXPECT_EQ(updates, list_parameters(tiny_gpt2()).size());
}

TEST(BuildReference, SequenceLongerThanLearnedPositionsIsRefused) {
  EXPECT_THROW(build_reference(tiny_gpt2(), {}, 2, 9), ir::BuildError);
}

TEST(BuildReference, Llama405bIsBuiltInUnderASecond) {
  const auto begin = std::chrono::steady_clock::now();
  const ir::Reference reference = build_reference(llama_405b(), {}, 2048, 8192);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(seconds.count(), 1.0);
  EXPECT_EQ(list_parameters(llama_405b()).size(), 1137u);
  EXPECT_GT(reference.program.body.size(), 10000u);
}

TEST(Rope, InverseFrequenciesOfLlama31) {
  ModelConfig model = llama_405b();
  const std::vector<Rational> scaled = rope_inverse_frequencies(model);
  model.rope_scaling.reset();
  const std::vector<Rational> plain = rope_inverse_frequencies(model);
  ASSERT_EQ(plain.size(), 64u);
  const auto value = [](Rational r) { return static_cast<double>(r.num) / static_cast<double>(r.den); };
  for (std::size_t i = 0; i < 64; ++i) {
    const double exact = std::pow(500000.0, -static_cast<double>(2 * i) / 128.0);
    EXPECT_NEAR(value(plain[i]) / exact, 1.0, 1e-10);
  }
  EXPECT_EQ(scaled[0], Rational(1));                              // short wavelengths are kept
  EXPECT_NEAR(value(scaled[63]) * 8.0, value(plain[63]), 1e-16);  // long ones are stretched by the factor
  // In between (transformers 4.43, float64): element 32 has wavelength 4442.9, smooth = (8192/4442.9 - 1) / 3.
  const double frequency = value(plain[32]);
  const double smooth = (8192.0 / (2.0 * std::acos(-1.0) / frequency) - 1.0) / 3.0;
  EXPECT_NEAR(value(scaled[32]), (1 - smooth) * frequency / 8.0 + smooth * frequency, 1e-14);
}

// The whole step on a tiny model: gradients against finite differences of the loss, and clipping and AdamW against
// their formulas.
void check_numbers(const ModelConfig& model) {
  const Rational clip(1, 1000);  // far below the norm, so that clipping acts
  TrainingConfig training;
  training.clip_grad = clip;
  const ir::Reference reference = build_reference(model, training, 2, 3);
  const ir::Program& program = reference.program;
  SmallValues values;
  values[program.find("tokens")] = {{2, 3}, {0, 4, 2, 1, 1, 3}};
  values[program.find("labels")] = {{2, 3}, {4, 2, 1, 1, 3, 0}};
  values[program.find("loss_mask")] = {{2, 3}, {1, 1, 0, 1, 0, 1}};
  values[program.find("lr")] = {{}, {0.01}};
  values[program.find("step")] = {{}, {2}};
  int seed = 0;
  for (const ir::ReferenceState& entry : reference.state) {
    if (entry.role == "step") continue;
    const bool square = entry.role == "exp_avg_sq";
    values[entry.value] = scattered(program.value(entry.value).type.shape, square ? 0.1 : -0.7, 0.9, ++seed);
  }
  const SmallValues got = interpret(program, values);
  const ValueId loss = reference.outputs[0].value;
  double square_sum = 0.0;
  for (const ParameterInfo& parameter : list_parameters(model)) {
    SCOPED_TRACE(parameter.name);
    const SmallTensor& grad = got.at(program.find(parameter.name + ".grad"));
    for (std::size_t i = 0; i < grad.data.size(); ++i) square_sum += grad.data[i] * grad.data[i];
    const std::size_t i = grad.data.size() / 2;  // one element of each parameter: the rules have tests of their own
    const ValueId param = program.find(parameter.name);
    const auto loss_at = [&](double shift) {
      SmallValues moved = values;
      moved[param].data[i] += shift;
      return interpret(program, moved).at(loss).data[0];
    };
    EXPECT_NEAR(grad.data[i], (loss_at(1e-5) - loss_at(-1e-5)) / 2e-5, 1e-8);
  }
  const double norm = got.at(reference.outputs[1].value).data[0];
  EXPECT_NEAR(norm, std::sqrt(square_sum), 1e-12);
  const double coefficient = 0.001 / (norm + 1e-6);
  EXPECT_EQ(got.at(state(reference, "step").next).data[0], 3.0);
  for (const ParameterInfo& parameter : list_parameters(model)) {
    const double g = coefficient * got.at(program.find(parameter.name + ".grad")).data[0];
    const double p = values.at(program.find(parameter.name)).data[0];
    const double m = 0.9 * values.at(program.find(parameter.name + ".exp_avg")).data[0] + 0.1 * g;
    const double v = 0.95 * values.at(program.find(parameter.name + ".exp_avg_sq")).data[0] + 0.05 * g * g;
    const double decay = parameter.shape.size() > 1 ? 0.1 : 0.0;
    const double update = m / (1 - std::pow(0.9, 3)) / (std::sqrt(v / (1 - std::pow(0.95, 3))) + 1e-8);
    EXPECT_NEAR(got.at(state(reference, parameter.name).next).data[0], p - 0.01 * (update + decay * p), 1e-12);
  }
}

TEST(BuildReferenceNumeric, LlamaStep) {
  check_numbers(tiny_llama());
}
TEST(BuildReferenceNumeric, Gpt2Step) {
  check_numbers(tiny_gpt2());
}

TEST(BuildReferenceNumeric, GradientsAreNotClippedBelowTheBound) {
  TrainingConfig off;
  off.clip_grad = 0;
  const ir::Reference reference = build_reference(tiny_llama(), off, 2, 3);
  EXPECT_FALSE(reference.program.find("clip_coefficient").valid());
  EXPECT_TRUE(build_reference(tiny_llama(), {}, 2, 3).program.find("clip_coefficient").valid());
}

}  // namespace
}  // namespace shardproof::lowering

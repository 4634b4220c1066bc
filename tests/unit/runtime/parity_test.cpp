// Whole training steps of small models: the bundled planner's plans, executed, against their references.
#include "runtime/parity.h"

#include <algorithm>
#include <sstream>

#include "ir/print.h"
#include "ir/read_json.h"
#include "ir/validate.h"
#include "lowering/build_reference.h"
#include "lowering/plan_training.h"
#include "lowering/unfold.h"
#include "runtime/torch_executor.h"
#include "tests/unit/runtime/reference_loops.h"

namespace shardproof::runtime::testing {
namespace {

using lowering::ModelConfig;
using lowering::ModelFamily;
using lowering::ParallelConfig;
using lowering::TrainingConfig;

// Sizes with no common factors beyond what the degrees need, so that a swapped dimension changes a shape or a value.
ModelConfig llama(std::int64_t heads, std::int64_t kv_heads, std::int64_t vocabulary) {
  ModelConfig model;
  model.family = ModelFamily::llama;
  model.hidden_size = heads * 2;
  model.intermediate_size = 12;
  model.num_layers = 2;
  model.num_heads = heads;
  model.num_kv_heads = kv_heads;
  model.head_dim = 2;
  model.vocab_size = vocabulary;
  model.max_positions = 32;
  model.activation = "silu";
  return model;
}

ModelConfig gpt2(std::int64_t vocabulary) {
  ModelConfig model = llama(4, 4, vocabulary);
  model.family = ModelFamily::gpt2;
  model.intermediate_size = 32;
  model.tie_word_embeddings = true;
  model.activation = "gelu_new";
  return model;
}

struct Degrees {
  std::int64_t tp = 1;
  std::int64_t dp = 1;
  std::int64_t microbatches = 1;
  bool sequence_parallel = false;
  bool zero1 = false;
  std::int64_t micro_batch = 1;
};

ParallelConfig parallel(const Degrees& d, std::int64_t seq) {
  ParallelConfig config;
  config.world_size = d.tp * d.dp;
  config.tensor_model_parallel_size = d.tp;
  config.sequence_parallel = d.sequence_parallel;
  config.use_distributed_optimizer = d.zero1;
  if (d.zero1) config.data_parallel_sharding_strategy = lowering::DataParallelSharding::optim;
  config.micro_batch_size = d.micro_batch;
  config.global_batch_size = d.micro_batch * d.dp * d.microbatches;
  config.seq_length = seq;
  config.bucket_size = 500;
  config.make_vocab_size_divisible_by = 4;
  return config;
}

struct Setting {
  std::string label;
  ModelConfig model;
  Degrees degrees;
  std::int64_t seq = 4;
  TrainingConfig training = {};
};

ir::Document document_of(const Setting& s) {
  const ParallelConfig config = parallel(s.degrees, s.seq);
  ir::Document document;
  document.reference = lowering::build_reference(s.model, s.training, config.global_batch_size, config.seq_length);
  document.plan = lowering::plan_training(s.model, s.training, config, document.reference);
  return document;
}

TrainingConfig unclipped() {
  TrainingConfig training;
  training.clip_grad = ir::Rational(0);
  return training;
}

// A bound that the norm stays below: the clip factor is exactly 1.
TrainingConfig loose_clip() {
  TrainingConfig training;
  training.clip_grad = ir::Rational(1000000);
  return training;
}

std::vector<Setting> settings() {
  ModelConfig tied = llama(4, 2, 15);
  tied.tie_word_embeddings = true;
  ModelConfig scaled = llama(4, 2, 15);
  scaled.rope_scaling = lowering::RopeScaling{"llama3", 8.0, 1.0, 4.0, 16};
  return {
      {"llama_single", llama(4, 2, 16), {}},
      {"llama_tp2_dp2_sp_zero1_m2", llama(4, 2, 16), {2, 2, 2, true, true}},
      {"llama_tp2", llama(4, 2, 16), {2, 1, 1}},
      {"llama_tp2_sp", llama(4, 2, 16), {2, 1, 1, true}},
      {"llama_dp3_m2", llama(4, 2, 16), {1, 3, 2}},
      {"llama_dp3_zero1", llama(4, 2, 16), {1, 3, 1, false, true}},
      {"llama_tp4_kv2_replicated", llama(4, 2, 16), {4, 1, 1}},
      {"llama_tp4_kv2_dp2_sp_zero1_m3", llama(4, 2, 16), {4, 2, 3, true, true}},
      {"llama_tp3_six_heads", llama(6, 3, 18), {3, 2, 1}, 6},
      {"llama_odd_vocabulary", llama(4, 2, 13), {2, 2, 2, true, true}},
      {"llama_odd_vocabulary_tp4", llama(8, 4, 17), {4, 1, 1, true}},
      {"llama_tied", tied, {2, 2, 2, true, true}},
      {"llama_rope_scaling", scaled, {2, 1, 2}},
      {"llama_micro_batch_2", llama(4, 2, 16), {2, 2, 2, true, true, 2}},
      {"llama_one_kv_head", llama(4, 1, 16), {4, 1, 2, true, true}},
      {"llama_unclipped", llama(4, 2, 16), {2, 2, 2, true, true}, 4, unclipped()},
      {"llama_loose_clip", llama(4, 2, 16), {2, 2, 2, true, true}, 4, loose_clip()},
      {"gpt2_single", gpt2(13), {}},
      {"gpt2_tied_tp2", gpt2(13), {2, 1, 1}},
      {"gpt2_tied_tp2_sp", gpt2(13), {2, 1, 1, true}},
      {"gpt2_tied_tp2_dp2_sp_zero1_m2", gpt2(13), {2, 2, 2, true, true}},
      {"gpt2_tied_tp4_dp2_m2", gpt2(19), {4, 2, 2}},
  };
}

class PlannedStep : public ::testing::TestWithParam<Setting> {};

TEST_P(PlannedStep, EqualsItsReference) {
  const ir::Document document = document_of(GetParam());
  for (const std::uint64_t seed : {1U, 2U}) {
    ParityOptions options;
    options.seed = seed;
    const ParityReport report = run_parity(document, options);
    EXPECT_TRUE(report.equal()) << describe(document.plan, report);
    EXPECT_GE(report.rows.size(), document.reference.outputs.size());
  }
}

// What a user's file says is what runs: print, read, validate, run.
TEST_P(PlannedStep, EqualsItsReferenceAfterBeingWrittenAndRead) {
  const ir::Document document = document_of(GetParam());
  std::ostringstream text;
  ir::print_json(document, text);
  ir::DiagnosticSink sink;
  const auto read = ir::read_document(std::make_shared<ir::SourceFile>("plan.json", text.str()), sink);
  ASSERT_TRUE(read) << sink.diagnostics().front().message;
  ir::validate(*read, sink);
  for (const ir::Diagnostic& d : sink.diagnostics()) ADD_FAILURE() << d.code << " " << d.message << ": " << d.found;
  const ParityReport report = run_parity(*read);
  EXPECT_TRUE(report.equal()) << describe(read->plan, report);
}

TEST_P(PlannedStep, EqualsItsReferenceWithMacrosUnfolded) {
  ir::Document document = document_of(GetParam());
  ir::StageProgram& stage = document.plan.stages.front();
  std::vector<ir::ValueId> mapping;
  stage.program = lowering::unfold(stage.program, &mapping);
  const auto moved = [&](ir::ValueId& id) { id = mapping.at(static_cast<std::size_t>(id.index)); };
  for (ir::PlanInput& input : stage.inputs) moved(input.value);
  for (ir::PlanOutput& output : stage.outputs) moved(output.value);
  for (ir::PlanState& state : stage.state) {
    moved(state.value);
    moved(state.next);
  }
  const ParityReport report = run_parity(document);
  EXPECT_TRUE(report.equal()) << describe(document.plan, report);
}

// Every part of the model must matter, or parity would say nothing about it: all parameters move by more than the
// tolerance allows.
TEST_P(PlannedStep, MovesEveryParameterByItsGradient) {
  const ir::Document document = document_of(GetParam());
  const ReferenceRun run = run_reference(document.reference, random_values(document.reference, 1));
  for (const ir::ReferenceState& state : document.reference.state) {
    if (state.role != "exp_avg") continue;
    const Tensor& before = run.entry.by_name.at(state.name);
    const Tensor& after = run.exit.by_name.at(state.name);
    double change = 0;
    for (std::size_t i = 0; i < before.data.size(); ++i) {
      change = std::max(change, std::abs(after.data[i] - 0.9 * before.data[i]));
    }
    EXPECT_GT(change, 1e-6) << state.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, PlannedStep, ::testing::ValuesIn(settings()),
                         [](const auto& test) { return test.param.label; });

// Gradients of the reference, which lowering wrote instruction by instruction, against autograd of its own loss.
class ReferenceStep : public ::testing::TestWithParam<Setting> {};

TEST_P(ReferenceStep, HasTheGradientsOfAutograd) {
  Setting s = GetParam();
  s.training = unclipped();
  const ParallelConfig config = parallel(s.degrees, s.seq);
  const ir::Reference reference =
      lowering::build_reference(s.model, s.training, config.global_batch_size, config.seq_length);
  const std::map<std::string, Tensor> values = random_values(reference, 4);
  std::map<ir::ValueId, Array> inputs;
  std::vector<Array> leaves;
  std::vector<const ir::ReferenceState*> params;
  for (const ir::ReferenceInput& input : reference.inputs) {
    inputs[input.value] = upload(values.at(reference.program.value(input.value).name));
  }
  for (const ir::ReferenceState& state : reference.state) {
    const bool param = state.role == "param";
    inputs[state.value] = param ? upload_differentiable(values.at(state.name)) : upload(values.at(state.name));
    if (param) {
      leaves.push_back(inputs[state.value]);
      params.push_back(&state);
    }
  }
  const auto loss =
      std::find_if(reference.outputs.begin(), reference.outputs.end(), [](const auto& o) { return o.name == "loss"; });
  ASSERT_NE(loss, reference.outputs.end());
  const std::vector<ir::ValueId> wanted = {loss->value};
  const std::vector<Tensor> expected = gradients(execute(reference.program, inputs, wanted).front(), leaves);
  const ReferenceRun run = run_reference(reference, values);
  for (const ir::ReferenceState& state : reference.state) {
    if (state.role != "exp_avg") continue;
    const auto position =
        std::find_if(params.begin(), params.end(), [&](const auto* p) { return p->name == state.param; });
    ASSERT_NE(position, params.end()) << state.param;
    const Tensor& gradient = expected[static_cast<std::size_t>(position - params.begin())];
    for (std::size_t i = 0; i < gradient.data.size(); ++i) {
      const double moment = 0.9 * values.at(state.name).data[i] + (1.0 - 0.9) * gradient.data[i];
      ASSERT_NEAR(run.exit.by_name.at(state.name).data[i], moment, 1e-12) << state.name << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ReferenceStep,
                         ::testing::Values(Setting{"llama", llama(4, 2, 13), {}},
                                           Setting{"llama_mha", llama(4, 4, 13), {1, 2}},
                                           Setting{"gpt2", gpt2(13), {1, 2}}),
                         [](const auto& test) { return test.param.label; });

TEST(Parity, ReferenceEqualsItsUnfolding) {
  const ir::Document document = document_of({"", llama(4, 2, 13), {1, 2}});
  ir::Reference unfolded = document.reference;
  std::vector<ir::ValueId> mapping;
  unfolded.program = lowering::unfold(document.reference.program, &mapping);
  const auto moved = [&](ir::ValueId& id) { id = mapping.at(static_cast<std::size_t>(id.index)); };
  for (ir::ReferenceInput& input : unfolded.inputs) moved(input.value);
  for (ir::ReferenceOutput& output : unfolded.outputs) moved(output.value);
  for (ir::ReferenceState& state : unfolded.state) {
    moved(state.value);
    moved(state.next);
  }
  const std::map<std::string, Tensor> values = random_values(document.reference, 9);
  const ReferenceRun expected = run_reference(document.reference, values);
  const ReferenceRun found = run_reference(unfolded, values);
  for (const auto& [name, tensor] : expected.exit.by_name) {
    SCOPED_TRACE(name);
    const auto same = found.exit.by_name.find(name);
    if (same != found.exit.by_name.end()) expect_near(same->second, tensor, 1e-11);
  }
  EXPECT_GE(found.exit.by_name.size(), document.reference.state.size());
}

// ---------------------------------------------------------------- negative: one defect, and parity must see it

void replace_uses(std::vector<ir::Instruction>& body, ir::ValueId from, ir::ValueId to) {
  for (ir::Instruction& instruction : body) {
    for (ir::ValueId& input : instruction.inputs) {
      if (input == from) input = to;
    }
    if (!instruction.region) continue;
    auto region = std::make_shared<ir::Region>(*instruction.region);
    replace_uses(region->body, from, to);
    for (ir::Carry& carry : region->carries) {
      for (ir::ValueId* id : {&carry.init, &carry.next}) {
        if (*id == from) *id = to;
      }
    }
    instruction.region = std::move(region);
  }
}

// Removes the collective numbered `number` (counting through loops) if it keeps the shape. False: there is no such one.
bool drop_collective(ir::StageProgram& stage, std::vector<ir::Instruction>& body, ir::OpCode op, int& number,
                     std::string& dropped) {
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i].region) {
      auto region = std::make_shared<ir::Region>(*body[i].region);
      body[i].region = region;
      if (drop_collective(stage, region->body, op, number, dropped)) return true;
      continue;
    }
    if (body[i].op != op || number-- > 0) continue;
    const ir::ValueId from = body[i].outputs.front();
    const ir::ValueId to = body[i].inputs.front();
    dropped = stage.program.value(from).name;
    body.erase(body.begin() + static_cast<std::ptrdiff_t>(i));
    replace_uses(stage.program.body, from, to);
    replace_uses(body, from, to);
    for (ir::PlanState& state : stage.state) state.next = state.next == from ? to : state.next;
    for (ir::PlanOutput& output : stage.outputs) output.value = output.value == from ? to : output.value;
    return true;
  }
  return false;
}

TEST(ParityNegative, EveryDroppedAllReduceIsSeen) {
  for (const Setting& s :
       {Setting{"", llama(4, 2, 13), {2, 2, 2}}, Setting{"", llama(4, 2, 13), {2, 2, 2, true, true}}}) {
    const ir::Document document = document_of(s);
    int dropped_count = 0;
    for (int number = 0;; ++number) {
      ir::Document broken = document;
      ir::StageProgram& stage = broken.plan.stages.front();
      int countdown = number;
      std::string dropped;
      if (!drop_collective(stage, stage.program.body, ir::OpCode::all_reduce, countdown, dropped)) break;
      const ParityReport report = run_parity(broken);
      EXPECT_FALSE(report.equal()) << "without all_reduce -> " << dropped << "\n" << describe(broken.plan, report);
      ++dropped_count;
    }
    EXPECT_GE(dropped_count, 5);
  }
}

TEST(ParityNegative, AWrongScaleIsSeenInEveryState) {
  ir::Document document = document_of({"", llama(4, 2, 16), {2, 2, 2, true, true}});
  ParityOptions options;
  options.values["step"] = scalar(ir::DType::i64, 3);
  ASSERT_TRUE(run_parity(document, options).equal());
  for (ir::Instruction& instruction : document.plan.stages.front().program.body) {
    if (instruction.op == ir::OpCode::adamw) instruction.attributes.set("beta2", ir::Rational(9, 10));
  }
  const ParityReport report = run_parity(document, options);
  bool any = false;
  for (const ParityRow& row : report.rows) {
    any = any || !row.equal();
    if (row.name == "loss" || row.name == "grad_norm") {
      EXPECT_TRUE(row.equal()) << row.name;
    }
  }
  EXPECT_TRUE(any);
}

TEST(ParityNegative, AStateThatNobodyHoldsIsReported) {
  ir::Document document = document_of({"", llama(4, 2, 16), {1, 1, 1}});
  std::vector<ir::PlanState>& state = document.plan.stages.front().state;
  const auto lost =
      std::find_if(state.begin(), state.end(), [](const ir::PlanState& s) { return s.binding.of == "step"; });
  ASSERT_NE(lost, state.end());
  // The step counter stays an input of the program, and is no longer kept.
  document.plan.stages.front().inputs.push_back({lost->value, lost->binding, {}});
  state.erase(lost);
  const ParityReport report = run_parity(document);
  ASSERT_FALSE(report.equal());
  EXPECT_EQ(report.rows.back().name, "step");
  EXPECT_EQ(report.rows.back().problem, "nothing in the plan represents it");
}

TEST(RandomValues, MasksHaveUnequalRowsAndIdsStayBelow) {
  const ir::Reference reference = lowering::build_reference(llama(4, 2, 13), {}, 4, 6);
  const auto values = random_values(reference, 7);
  const Tensor& mask = values.at("loss_mask");
  std::vector<double> counts;
  for (std::int64_t b = 0; b < 4; ++b) {
    double count = 0;
    for (std::int64_t s = 0; s < 6; ++s) count += at(mask, {b, s});
    EXPECT_GE(count, 1);
    for (const double earlier : counts) EXPECT_NE(count, earlier);
    counts.push_back(count);
  }
  for (const double id : values.at("tokens").data) EXPECT_TRUE(id >= 0 && id < 13);
  EXPECT_NE(values.at("tokens").data, values.at("labels").data);
  EXPECT_EQ(values.at("tokens").data, random_values(reference, 7).at("tokens").data);
}

}  // namespace
}  // namespace shardproof::runtime::testing

#include "lowering/plan_training.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <sstream>

#include "ir/print.h"
#include "ir/read_json.h"
#include "ir/validate.h"
#include "lowering/build_reference.h"
#include "plan_models.h"

namespace shardproof::lowering {
namespace {

using ir::OpCode;
using testing::context_degrees;
using testing::degrees;
using testing::llama_405b;
using testing::small_gpt2;
using testing::small_llama;

ir::Document document(const ModelConfig& model, const ParallelConfig& parallel, const TrainingConfig& training = {}) {
  ir::Document result;
  result.reference = build_reference(model, training, parallel.global_batch_size, parallel.seq_length);
  result.plan = plan_training(model, training, parallel, result.reference);
  return result;
}

template <typename Visit>
void for_each_instruction(const std::vector<ir::Instruction>& body, const Visit& visit) {
  for (const ir::Instruction& instruction : body) {
    visit(instruction);
    if (instruction.region) for_each_instruction(instruction.region->body, visit);
  }
}

std::int64_t instruction_count(const ir::Plan& plan) {
  std::int64_t count = 0;
  for_each_instruction(plan.stages.at(0).program.body, [&](const ir::Instruction&) { ++count; });
  return count;
}

std::int64_t instruction_count(const ModelConfig& model, const ParallelConfig& parallel) {
  return instruction_count(document(model, parallel).plan);
}

using CollectiveCounts = std::map<std::string, std::int64_t>;  // "all_gather tp" -> how many

CollectiveCounts collectives(const ir::Plan& plan) {
  CollectiveCounts counts;
  for_each_instruction(plan.stages.at(0).program.body, [&](const ir::Instruction& instruction) {
    if (ir::schema_of(instruction.op).family != ir::OpFamily::communication) return;
    std::string key(ir::schema_of(instruction.op).name);
    for (const std::string& axis : instruction.attributes.get<std::vector<std::string>>("axes")) key += " " + axis;
    ++counts[key];
  });
  return counts;
}

// What one more layer adds.
CollectiveCounts collectives_per_layer(ModelConfig model, const ParallelConfig& parallel) {
  CollectiveCounts more = collectives(document(model, parallel).plan);
  --model.num_layers;
  for (const auto& [key, count] : collectives(document(model, parallel).plan)) more[key] -= count;
  std::erase_if(more, [](const auto& entry) { return entry.second == 0; });
  return more;
}

std::string findings(const ir::DiagnosticSink& sink) {
  std::string text;
  for (const ir::Diagnostic& d : sink.diagnostics()) text += d.code + " " + d.message + " (" + d.found + ")\n";
  return text;
}

struct Variant {
  std::string name;
  ModelConfig model;
  ParallelConfig parallel;
};

std::vector<Variant> variants() {
  ModelConfig padded = small_gpt2();
  padded.vocab_size = 61;
  ModelConfig tied = small_llama();
  tied.tie_word_embeddings = true;
  ModelConfig untied = small_gpt2();
  untied.tie_word_embeddings = false;
  ParallelConfig buckets = degrees(2, 3);
  buckets.bucket_size = 700;
  ParallelConfig half = degrees(2, 2);
  half.precision = "fp16";
  ParallelConfig full = degrees(2, 2, false, false);
  full.precision = "fp32";
  return {{"llama", small_llama(), degrees(4, 2)},
          {"llama, one rank", small_llama(), degrees(1, 1)},
          {"llama, no sequence parallelism", small_llama(), degrees(4, 2, false)},
          {"llama, replicated optimizer", small_llama(), degrees(4, 2, true, false)},
          {"llama, replicated kv heads", small_llama(), degrees(8, 2)},
          {"llama, replicated kv heads and optimizer", small_llama(), degrees(8, 2, false, false)},
          {"llama, several buckets", small_llama(), buckets},
          {"llama, tied", tied, degrees(2, 2)},
          {"llama, fp16", small_llama(), half},
          {"gpt2", small_gpt2(), degrees(4, 2)},
          {"gpt2, no sequence parallelism", small_gpt2(), degrees(4, 2, false, false)},
          {"gpt2, padded vocabulary", padded, degrees(4, 2)},
          {"gpt2, several buckets", padded, buckets},
          {"gpt2, untied, fp32", untied, full}};
}

TEST(PlanTraining, EveryVariantIsWellFormed) {
  for (const Variant& variant : variants()) {
    ir::DiagnosticSink sink;
    ir::validate(document(variant.model, variant.parallel), sink);
    EXPECT_TRUE(sink.diagnostics().empty()) << variant.name << "\n" << findings(sink);
  }
}

TEST(PlanTraining, EveryVariantIsReadBackAsPrinted) {
  for (const Variant& variant : variants()) {
    std::ostringstream first;
    ir::print_json(document(variant.model, variant.parallel), first);
    ir::DiagnosticSink sink;
    const std::optional<ir::Document> again =
        ir::read_document(std::make_shared<ir::SourceFile>("plan.json", first.str()), sink);
    ASSERT_TRUE(again) << variant.name << "\n" << findings(sink);
    std::ostringstream second;
    ir::print_json(*again, second);
    EXPECT_TRUE(first.str() == second.str()) << variant.name;
  }
}

TEST(PlanTraining, PlanningTwiceGivesTheSameBytes) {
  std::ostringstream first;
  std::ostringstream second;
  ir::print_json(document(small_llama(), degrees(8, 2)), first);
  ir::print_json(document(small_llama(), degrees(8, 2)), second);
  EXPECT_EQ(first.str(), second.str());
}

TEST(PlanTraining, InstructionsAreLinearInLayers) {
  for (const bool gpt2 : {false, true}) {
    std::vector<std::int64_t> counts;
    for (const std::int64_t layers : {2, 3, 4}) {
      counts.push_back(instruction_count(gpt2 ? small_gpt2(layers) : small_llama(layers), degrees(2, 2)));
    }
    EXPECT_EQ(counts[2] - counts[1], counts[1] - counts[0]);
  }
}

TEST(PlanTraining, InstructionsDoNotDependOnDegreesOrSizes) {
  ModelConfig model = small_llama();
  // As in real models no bucket needs gaps or padding, whose zeros would be instructions.
  model.hidden_size = 4096;
  model.intermediate_size = 12288;
  const std::int64_t base = instruction_count(model, degrees(2, 2));
  EXPECT_EQ(base, instruction_count(model, degrees(4, 2)));
  EXPECT_EQ(base, instruction_count(model, degrees(2, 512)));
  EXPECT_EQ(base, instruction_count(model, degrees(2, 2, true, true, 512)));
  model.max_positions = 4096;
  ParallelConfig longer = degrees(2, 2);
  longer.seq_length = 4096;
  EXPECT_EQ(base, instruction_count(model, longer));
  ModelConfig wider = model;
  wider.hidden_size = 8192;
  wider.intermediate_size = 16384;
  EXPECT_EQ(base, instruction_count(wider, degrees(2, 2)));
}

TEST(PlanTraining, TrueSizeStaysSmall) {
  ParallelConfig parallel = degrees(8, 128, true, true, 16);
  parallel.seq_length = 8192;
  parallel.bucket_size = 40000000;
  parallel.make_vocab_size_divisible_by = 128;
  const ir::Document large = document(llama_405b(), parallel);
  EXPECT_LT(instruction_count(large.plan), 20000);
  EXPECT_EQ(large.plan.stages.size(), 1U);
}

TEST(PlanTraining, CollectivesOfALlamaLayer) {
  // Gathered at the entrance of both blocks, forward and twice in backward; scattered at the exits, forward and
  // backward; one all_reduce per norm weight.
  EXPECT_EQ(collectives_per_layer(small_llama(3), degrees(2, 2)),
            (CollectiveCounts{{"all_gather tp", 6}, {"reduce_scatter tp", 4}, {"all_reduce tp", 2}}));
  EXPECT_EQ(collectives_per_layer(small_llama(3), degrees(2, 2, false)), (CollectiveCounts{{"all_reduce tp", 4}}));
  EXPECT_EQ(collectives_per_layer(small_llama(3), degrees(1, 2)), CollectiveCounts{});
  // Key and value gradients are completed over the replicas of a kv head.
  EXPECT_EQ(collectives_per_layer(small_llama(3), degrees(8, 2, false)),
            (CollectiveCounts{{"all_reduce tpk tpr", 4}, {"all_reduce tpr", 1}}));
}

TEST(PlanTraining, CollectivesOfAGpt2Layer) {
  // Two norms with weight and bias and two row-parallel biases are used on sequence shards.
  EXPECT_EQ(collectives_per_layer(small_gpt2(3), degrees(2, 2)),
            (CollectiveCounts{{"all_gather tp", 6}, {"reduce_scatter tp", 4}, {"all_reduce tp", 6}}));
  EXPECT_EQ(collectives_per_layer(small_gpt2(3), degrees(2, 2, false)), (CollectiveCounts{{"all_reduce tp", 4}}));
}

TEST(PlanTraining, DataParallelCollectives) {
  const auto of_dp = [](const ParallelConfig& parallel) {
    CollectiveCounts counts = collectives(document(small_llama(), parallel).plan);
    std::erase_if(counts, [](const auto& entry) { return entry.first.find("dp") == std::string::npos; });
    return counts;
  };
  // Loss and tokens; one bucket; the norm counts shards of both axes.
  EXPECT_EQ(of_dp(degrees(2, 2)),
            (CollectiveCounts{
                {"all_reduce dp", 2}, {"reduce_scatter dp", 1}, {"all_gather dp", 1}, {"all_reduce dp tp", 1}}));
  EXPECT_EQ(of_dp(degrees(2, 2, true, false)), (CollectiveCounts{{"all_reduce dp", 3}}));
  EXPECT_EQ(of_dp(degrees(2, 1)), CollectiveCounts{});
}

TEST(PlanTraining, MicrobatchesAreOneLoop) {
  const ir::Document d = document(small_llama(), degrees(2, 2, true, true, 4));
  std::int64_t loops = 0;
  for_each_instruction(d.plan.stages[0].program.body, [&](const ir::Instruction& instruction) {
    if (instruction.op != OpCode::loop) return;
    ++loops;
    EXPECT_EQ(instruction.region->trip, 4);
    EXPECT_EQ(instruction.region->index, "m");
    for (const ir::Carry& carry : instruction.region->carries) {
      EXPECT_EQ(d.plan.stages[0].program.value(carry.result).type.dtype, ir::DType::f32);
    }
  });
  EXPECT_EQ(loops, 1);
}

TEST(PlanTraining, StateCoversTheReferenceAndIsSaved) {
  for (const bool sharded : {true, false}) {
    const ir::Document d = document(small_llama(), degrees(2, 2, true, sharded));
    const ir::StageProgram& stage = d.plan.stages[0];
    EXPECT_EQ(stage.outputs.size(), 2U);
    EXPECT_EQ(d.plan.checkpoint.size(), stage.state.size());
    std::int64_t low = 0;
    for (const ir::PlanState& state : stage.state) {
      EXPECT_NE(state.value, state.next) << state.name;
      EXPECT_EQ(stage.program.value(state.value).type, stage.program.value(state.next).type) << state.name;
      if (stage.program.value(state.value).type.dtype == ir::DType::bf16) ++low;
    }
    EXPECT_EQ(low, 3 + 2 * 6);  // fused weights in the compute dtype
    EXPECT_EQ(d.plan.buffers.empty(), !sharded);
  }
}

TEST(PlanTraining, EveryInstructionSaysWhereItComesFrom) {
  for_each_instruction(document(small_gpt2(), degrees(2, 2)).plan.stages[0].program.body,
                       [](const ir::Instruction& instruction) { EXPECT_FALSE(instruction.source.empty()); });
}

TEST(PlanTraining, ClippingCanBeOff) {
  TrainingConfig training;
  training.clip_grad = 0;
  const ir::Document off = document(small_llama(), degrees(2, 2), training);
  const ir::Document on = document(small_llama(), degrees(2, 2));
  EXPECT_LT(instruction_count(off.plan), instruction_count(on.plan));
  EXPECT_EQ(off.plan.stages[0].outputs.size(), 2U);  // the norm is still reported
}

std::optional<PlanError> error_against(const ir::Reference& reference, const ModelConfig& model,
                                       const ParallelConfig& parallel) {
  try {
    plan_training(model, {}, parallel, reference);
  } catch (const PlanError& error) {
    return error;
  }
  return std::nullopt;
}

TEST(PlanTraining, AnotherReferenceIsRefused) {
  const ParallelConfig parallel = degrees(2, 2);
  const auto reference = [&](const ModelConfig& model, std::int64_t batch, std::int64_t seq) {
    return build_reference(model, {}, batch, seq);
  };
  const ModelConfig model = small_llama();
  EXPECT_FALSE(error_against(reference(model, 4, 16), model, parallel));
  for (const ir::Reference& wrong :
       {reference(small_llama(3), 4, 16), reference(small_llama(1), 4, 16), reference(small_gpt2(), 4, 16),
        reference(model, 8, 16), reference(model, 4, 32)}) {
    const std::optional<PlanError> error = error_against(wrong, model, parallel);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, "SP0034");
  }
}

// Per layer: keys and values are gathered in the forward and again in the backward, and their gradients summed over ranks.
TEST(PlanTraining, ContextParallelGathersKeysAndValues) {
  const std::int64_t layers = 3;
  const CollectiveCounts counts = collectives(document(small_llama(layers), context_degrees(2, 2, 2)).plan);
  EXPECT_EQ(counts.at("all_gather cp"), 4 * layers + 1);  // positions as well
  EXPECT_EQ(counts.at("reduce_scatter cp"), 2 * layers);
  EXPECT_EQ(counts.at("reduce_scatter dp cp"), 1);  // the bucket
  EXPECT_EQ(counts.at("all_gather dp cp"), 1);
  EXPECT_EQ(counts.at("all_reduce dp cp"), 2);  // loss and tokens
  EXPECT_EQ(counts.at("all_reduce dp cp tp"), 1);  // the norm
  EXPECT_EQ(counts.count("all_reduce dp"), 0U);
}

TEST(PlanTraining, ContextParallelTokensEnterInZigzag) {
  const ir::Plan plan = document(small_llama(), context_degrees(2, 2, 2)).plan;
  int inputs = 0;
  for (const ir::PlanInput& input : plan.stages.at(0).inputs) {
    if (input.binding.placement.dims.size() != 2) continue;
    ++inputs;
    const ir::DimLayout& positions = input.binding.placement.dims[1];
    EXPECT_EQ(positions.permutation, ir::Permutation::zigzag);
    ASSERT_EQ(positions.digits.size(), 3U);
    EXPECT_EQ(positions.digits[0].axis, "cp");
    EXPECT_EQ(positions.digits[2].size, 4);
  }
  EXPECT_EQ(inputs, 3);  // tokens, labels, loss mask
}

TEST(PlanTraining, ContextParallelPlansAreValid) {
  for (const ModelConfig& model : {small_llama(), small_gpt2()})
    for (const bool sharded : {false, true})
      for (const std::int64_t tp : {1, 2, 4}) {
        const ir::Document planned = document(model, context_degrees(2, tp, 2, true, sharded));
        ir::DiagnosticSink sink;
        ir::validate(planned, sink);
        EXPECT_EQ(sink.error_count(), 0U) << (sink.diagnostics().empty() ? "" : sink.diagnostics().front().message);
      }
}

}  // namespace
}  // namespace shardproof::lowering

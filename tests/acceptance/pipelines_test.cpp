// Planned pipelines of every schedule, as small as they can be, are proved and certified; with a fault that only a pipeline has
// they are not.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>

#include "certificates/certified.h"
#include "lowering/build_reference.h"
#include "lowering/plan_training.h"
#include "proving.h"
#include "unit/lowering/plan_models.h"

namespace shardproof {
namespace {

using ir::Instruction;
using ir::OpCode;
using lowering::ModelConfig;
using lowering::ParallelConfig;
using verifier::Verdict;

struct Setup {
  std::string name;
  ModelConfig model;
  ParallelConfig parallel;
};

void PrintTo(const Setup& setup, std::ostream* out) { *out << setup.name; }

ir::Document document_of(const Setup& setup) {
  ir::Document document;
  document.reference = lowering::build_reference(setup.model, {}, setup.parallel.global_batch_size, setup.parallel.seq_length);
  document.plan = lowering::plan_training(setup.model, {}, setup.parallel, document.reference);
  return document;
}

ParallelConfig pipeline(std::int64_t ranks, const std::string& schedule, std::int64_t microbatches, std::int64_t virtual_stages = 1) {
  ParallelConfig parallel = lowering::testing::degrees(2, 2, true, true, microbatches);
  parallel.pipeline_model_parallel_size = ranks;
  parallel.virtual_pipeline_model_parallel_size = virtual_stages;
  parallel.schedule = schedule;
  parallel.world_size *= ranks;
  return parallel;
}

const std::vector<Setup>& setups() {
  using lowering::testing::small_gpt2;
  using lowering::testing::small_llama;
  static const std::vector<Setup> all = [] {
    std::vector<Setup> list{
        {"OneForwardOneBackward", small_llama(4), pipeline(2, "1f1b", 4)},
        {"TiedEmbedding", small_gpt2(4), pipeline(2, "1f1b", 4)},
        {"GPipe", small_gpt2(2), pipeline(2, "gpipe", 2)},
        {"Interleaved", small_llama(4), pipeline(2, "interleaved-1f1b", 4, 2)},
        {"LoopedBfs", small_llama(4), pipeline(2, "looped-bfs", 4, 2)},
        {"ZeroBubble", small_llama(2), pipeline(2, "zb-h1", 4)},
        {"ZeroBubbleMoreMemory", small_gpt2(2), pipeline(2, "zb-h2", 4)},
        {"ZeroBubbleV", small_gpt2(4), pipeline(2, "zb-v", 4)},
        {"DualPipe", small_gpt2(2), pipeline(2, "dualpipe", 8)},
        {"DualPipeV", small_llama(4), pipeline(2, "dualpipe-v", 8)},
        {"UnevenLayers", small_llama(6), pipeline(4, "1f1b", 4)},
        {"LayoutWithEmptyStage", small_gpt2(3), pipeline(4, "1f1b", 4)},
        {"ShardedGradients", small_llama(2), pipeline(2, "1f1b", 2)},
        {"FullRecompute", small_llama(4), pipeline(2, "1f1b", 2)},
        {"BlockRecompute", small_gpt2(4), pipeline(2, "1f1b", 2)},
        {"SelectiveRecompute", small_llama(2), pipeline(2, "1f1b", 2)},
        {"ContextParallel", small_llama(2), pipeline(2, "1f1b", 2)},
        {"WholeOptimizer", small_gpt2(2), pipeline(2, "1f1b", 2)},
    };
    const auto parallel = [&](const std::string& name) -> ParallelConfig& {
      return std::find_if(list.begin(), list.end(), [&](const Setup& s) { return s.name == name; })->parallel;
    };
    parallel("LayoutWithEmptyStage").pipeline_model_parallel_layout = "Et||t*2|L";
    parallel("ShardedGradients").data_parallel_sharding_strategy = lowering::DataParallelSharding::optim_grads;
    parallel("FullRecompute").recompute_granularity = "full";
    parallel("FullRecompute").recompute_num_layers = 2;
    parallel("BlockRecompute").recompute_granularity = "full";
    parallel("BlockRecompute").recompute_method = "block";
    parallel("SelectiveRecompute").recompute_granularity = "selective";
    parallel("ContextParallel").context_parallel_size = 2;
    parallel("ContextParallel").cp_comm_type = "all_gather";
    parallel("ContextParallel").world_size *= 2;
    parallel("WholeOptimizer").use_distributed_optimizer = false;
    return list;
  }();
  return all;
}

class Pipelines : public testing::TestWithParam<Setup> {};

TEST_P(Pipelines, PlanIsProvedAndCertified) {
  const Certified certified = certify(document_of(GetParam()));
  EXPECT_EQ(certified.report.verdict, Verdict::equivalent) << testing_support::told(certified.report);
  EXPECT_FALSE(certified.certificate.empty());
}

// Calls `change` with every instruction until it says that it made its change.
bool edit(ir::Document& document, const std::function<bool(ir::StageProgram&, Instruction&)>& change, bool all = false) {
  bool changed = false;
  for (ir::StageProgram& stage : document.plan.stages) {
    const std::function<void(std::vector<Instruction>&)> visit = [&](std::vector<Instruction>& body) {
      for (Instruction& i : body) {
        if (changed && !all) return;
        if (i.region != nullptr) {
          i.region = std::make_shared<ir::Region>(*i.region);
          visit(i.region->body);
        } else {
          changed = change(stage, i) || changed;
        }
      }
    };
    visit(stage.program.body);
  }
  return changed;
}

void becomes_operand(const ir::StageProgram& stage, Instruction& i) {
  ir::Attributes attributes;
  attributes.set("shape", stage.program.value(i.outputs.front()).type.shape);
  i.op = OpCode::reshape;
  i.inputs.resize(1);
  i.attributes = attributes;
}

bool over(const Instruction& i, const std::string& axis) {
  if (i.op != OpCode::all_reduce) return false;
  const auto axes = i.attributes.get<std::vector<std::string>>("axes");
  return std::any_of(axes.begin(), axes.end(), [&](const std::string& a) { return a.starts_with(axis); });
}

void expect_refused(const ir::Document& document, const char* fault) {
  const verifier::Report report = testing_support::prove(document);
  EXPECT_NE(report.verdict, Verdict::equivalent) << fault;
  EXPECT_NE(report.verdict, Verdict::invalid) << fault << "\n" << testing_support::told(report);
  EXPECT_FALSE(report.diagnostics.empty()) << fault;
}

TEST_P(Pipelines, FaultsAreNot) {
  const ir::Document right = document_of(GetParam());
  // Each copy of a shared parameter has the gradient of its own use only.
  ir::Document wrong = right;
  if (edit(wrong, [](ir::StageProgram& stage, Instruction& i) { return over(i, "pp{") && (becomes_operand(stage, i), true); }, true)) expect_refused(wrong, "replicas");
  // The norm, and the number of tokens, of the own stage only.
  for (const char* name : {"grad_norm.square_sum", "loss.tokens"}) {
    wrong = right;
    ASSERT_TRUE(edit(wrong, [&](ir::StageProgram& stage, Instruction& i) {
      if (!over(i, "pp") || stage.program.value(i.outputs.front()).name != name) return false;
      auto axes = i.attributes.get<std::vector<std::string>>("axes");
      std::erase(axes, "pp");
      i.attributes.set("axes", axes);
      return true;
    }, true)) << name;
    expect_refused(wrong, name);
  }
  // An activation that lacks the last block: what is sent is the first summand of the residual.
  wrong = right;
  ASSERT_TRUE(edit(wrong, [](ir::StageProgram& stage, Instruction& i) {
    if (i.op != OpCode::send) return false;
    for (const Instruction& loop : stage.program.body) {
      if (loop.region == nullptr) continue;
      for (const Instruction& each : loop.region->body)
        if (each.op == OpCode::add && each.outputs.front() == i.inputs.front()) {
          i.inputs.front() = each.inputs.front();
          return true;
        }
    }
    return false;
  }));
  expect_refused(wrong, "activation");
  // Weights that are updated within the step.
  if (right.plan.schedule->generator != "1f1b") return;
  wrong = right;
  wrong.plan.schedule->generator = "pipedream";
  expect_refused(wrong, "schedule");
}

INSTANTIATE_TEST_SUITE_P(All, Pipelines, testing::ValuesIn(setups()), [](const testing::TestParamInfo<Setup>& test) { return test.param.name; });

}  // namespace
}  // namespace shardproof

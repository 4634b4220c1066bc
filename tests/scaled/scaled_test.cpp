// Plans at true sizes, run at small ones: right plans are right there, and faults show.
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <map>
#include <ostream>

#include "ir/validate.h"
#include "lowering/unfold.h"
#include "mutations/mutate.h"
#include "tests/scaled/setup.h"
#include "verifier/execution/counterexample.h"
#include "verifier/execution/dense_domain.h"
#include "verifier/execution/parity.h"

namespace shardproof {
namespace {

using execution::Scaled;
using mutations::Subject;
using setups::scaled;

enum class Outcome : std::uint8_t { equal, differs, cannot_run };

Outcome run(const ir::Document& small, std::uint64_t seed = 1) {
  const execution::DenseDomain<execution::RealNumbers<double>> domain;
  execution::ParityOptions options;
  options.seed = seed;
  ir::Document unfolded = small;
  unfolded.reference.program = lowering::unfold(small.reference.program);
  for (ir::StageProgram& stage : unfolded.plan.stages) stage.program = lowering::unfold(stage.program);
  try {
    return execution::run_parity(domain, unfolded, options).equal() ? Outcome::equal : Outcome::differs;
  } catch (const std::exception&) {
    return Outcome::cannot_run;  // an index outside, which is a fault too
  }
}

struct Setup {
  const char* name;
  std::int64_t largest;  // elements of a value, at most
};

void PrintTo(const Setup& setup, std::ostream* out) { *out << setup.name; }

class ScaledSetup : public testing::TestWithParam<Setup> {};

TEST_P(ScaledSetup, IsSmallAndRight) {
  const ir::Document full = setups::plan(GetParam().name);
  const Scaled result = scaled(full);
  ASSERT_TRUE(result.changed) << result.not_kept.front();
  EXPECT_TRUE(result.not_kept.empty()) << result.not_kept.front();
  ir::DiagnosticSink sink;
  ir::validate(result.small, sink);
  EXPECT_TRUE(sink.ok()) << sink.diagnostics().front().message;
  EXPECT_LE(result.small.plan.meshes.front().size(), 16);
  EXPECT_LE(execution::estimated_work(result.small), 300'000'000);
  for (const ir::Value& value : result.small.plan.stages.front().program.values) {
    ASSERT_LE(ir::element_count(value.type.shape), GetParam().largest) << value.name;
  }
  EXPECT_EQ(run(result.small), Outcome::equal);

  // What is 2 or more stays so, and members of buffers keep their order and their gaps.
  for (std::size_t a = 0; a < full.plan.meshes.front().axes.size(); ++a) {
    const std::int64_t before = full.plan.meshes.front().axes[a].size;
    EXPECT_EQ(result.small.plan.meshes.front().axes[a].size >= 2, before >= 2);
  }
  for (std::size_t b = 0; b < full.plan.buffers.size(); ++b) {
    const auto& before = full.plan.buffers[b].members;
    const auto& after = result.small.plan.buffers[b].members;
    for (std::size_t m = 1; m < before.size(); ++m) EXPECT_LT(after[m - 1].offset, after[m].offset);
    for (std::size_t m = 0; m < before.size(); ++m) EXPECT_EQ(after[m].offset == 0, before[m].offset == 0);
  }
  const auto padded = [](const ir::Document& d) {
    std::vector<bool> all;
    for (const ir::PlanState& state : d.plan.stages.front().state) {
      for (const ir::DimLayout& layout : state.binding.placement.dims) all.push_back(layout.padded_extent != 0);
    }
    return all;
  };
  EXPECT_EQ(padded(result.small), padded(full));
}

TEST_P(ScaledSetup, HeadsKeepTheirRatios) {
  const ir::Document full = setups::plan(GetParam().name);
  const Scaled result = scaled(full);
  // Heads of a group, groups of a rank, rows of a shard: each is an extent of some value, and one only if it was one.
  const auto& values = full.plan.stages.front().program.values;
  for (std::size_t v = 0; v < values.size(); ++v) {
    const ir::Shape& before = values[v].type.shape;
    const ir::Shape& after = result.small.plan.stages.front().program.values[v].type.shape;
    ASSERT_EQ(before.size(), after.size());
    for (std::size_t d = 0; d < before.size(); ++d) {
      ASSERT_EQ(before[d] == 1, after[d] == 1) << values[v].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Configs, ScaledSetup,
                         testing::Values(Setup{"llama-3.1-8b@64", 2000}, Setup{"gpt2-small@8", 100000}, Setup{"llama-3.1-8b-128k@256", 5000},
                                         Setup{"smollm-135m@4", 200000}, Setup{"gpt3-175b@64", 1000},
                                         Setup{"llama-3.1-70b@256", 1000}, Setup{"llama-3.1-405b@1024", 1000}),
                         [](const auto& test) { return setups::test_name(test.param.name); });

struct Count {
  int differ = 0, all = 0;
  std::string equal;  // those that do not differ
};

// One mutant of each kind, at the middle one of its places.
Count count_faults(const Subject& subject, std::size_t every) {
  Count count;
  const mutations::Kinds kinds = mutations::all_kinds();
  for (std::size_t k = 0; k < kinds.size(); k += every) {
    const std::vector<mutations::Site> sites = kinds[k].find(subject);
    if (sites.empty()) continue;
    const mutations::Site& site = sites[sites.size() / 2];
    mutations::Editor editor(subject.document);
    try {
      site.edit(editor, site.at);
    } catch (const mutations::NotApplicable&) {
      continue;
    }
    const ir::Document faulty = editor.take();
    ir::DiagnosticSink sink;
    ir::validate(faulty, sink);
    if (!sink.ok()) continue;
    const Scaled result = scaled(faulty);
    ++count.all;
    bool differs = false;
    for (std::uint64_t seed = 1; result.changed && !differs && seed <= 3; ++seed) differs = run(result.small, seed) != Outcome::equal;
    count.differ += differs ? 1 : 0;
    if (!differs) count.equal += "\n  " + kinds[k].name + " at " + site.at + (result.changed ? "" : ": " + result.not_kept.front());
  }
  return count;
}

TEST(ScaledFaults, OfTrueSizesShow) {
  const Count count = count_faults({"llama-3.1-8b@64", setups::plan("llama-3.1-8b@64")}, 8);
  EXPECT_GE(count.all, 8);
  EXPECT_GE(count.differ, count.all - 1) << count.equal;
}

TEST(ScaledFaults, OfSmallPlansShow) {
  for (const Subject& subject : mutations::base_plans()) {
    const Scaled right = scaled(subject.document);
    ASSERT_TRUE(right.changed) << subject.name << ": " << right.not_kept.front();
    EXPECT_EQ(run(right.small), Outcome::equal) << subject.name;
  }
  const Count count = count_faults(mutations::base_plans().front(), 4);
  EXPECT_GE(count.all, 15);
  EXPECT_GE(count.differ, count.all - 1) << count.equal;
}

}  // namespace
}  // namespace shardproof

// Reference and plan in different granularities: proved where they are the same, in both directions, and refused where
// they are not.
#include <gtest/gtest.h>

#include "granularity/spellings.h"
#include "lowering/unfold.h"
#include "mutations/mutate.h"
#include "proving.h"
#include "verifier/verify.h"

namespace shardproof::granularity {
namespace {

using testing_support::prove;
using testing_support::told;
using verifier::Report;
using verifier::Verdict;

void expect_refused(const Report& report) {
  EXPECT_TRUE(report.verdict == Verdict::unknown || report.verdict == Verdict::not_equivalent) << told(report);
  ASSERT_FALSE(report.diagnostics.empty());
  EXPECT_TRUE(report.diagnostics.front().code.starts_with("SP02")) << told(report);
}

ir::Document document(const Spelling& spelling, const Make& reference, const Make& plan) {
  const bugs::Sizes sizes = bugs::full_sizes();
  Case c(false, sizes, {{"dp", sizes.dp}, {"tp", sizes.tp}});
  Values on_reference, on_plan;
  for (const Operand& operand : spelling.operands) {
    const bugs::Both value = c.input(operand.name, operand.shape, operand.dims, operand.dtype, operand.below);
    on_reference.push_back(value.reference);
    on_plan.push_back(value.plan);
  }
  const Values expected = reference(c.reference, on_reference), found = plan(c.plan, on_plan);
  for (std::size_t i = 0; i < spelling.results.size(); ++i)
    c.output("result" + std::to_string(i), {expected.at(i), found.at(i)}, spelling.results[i]);
  return std::move(c).document();
}

class Granularity : public testing::TestWithParam<Spelling> {};

TEST_P(Granularity, FinePlanOfCoarseReference) {
  const Report report = prove(document(GetParam(), GetParam().coarse, GetParam().fine));
  EXPECT_EQ(report.verdict, Verdict::equivalent) << told(report);
}

TEST_P(Granularity, CoarsePlanOfFineReference) {
  const Report report = prove(document(GetParam(), GetParam().fine, GetParam().coarse));
  EXPECT_EQ(report.verdict, Verdict::equivalent) << told(report);
}

TEST_P(Granularity, WrongPlanIsRefused) {
  expect_refused(prove(document(GetParam(), GetParam().coarse, GetParam().wrong)));
  expect_refused(prove(document(GetParam(), GetParam().fine, GetParam().wrong)));
}

TEST_P(Granularity, WrongReferenceIsRefused) {
  expect_refused(prove(document(GetParam(), GetParam().wrong, GetParam().coarse)));
  expect_refused(prove(document(GetParam(), GetParam().wrong, GetParam().fine)));
}

const auto name_of = [](const testing::TestParamInfo<Spelling>& test) { return test.param.name; };
INSTANTIATE_TEST_SUITE_P(Macros, Granularity, testing::ValuesIn(macro_spellings()), name_of);
INSTANTIATE_TEST_SUITE_P(Products, Granularity, testing::ValuesIn(product_spellings()), name_of);

// One direction only: a reference in chunks would have values of chunks, which a plan that does not cut has none of.
TEST(OnlineSoftmax, InChunks) {
  for (const std::int64_t chunks : {2, 4, 8})
    for (const bool running : {false, true}) {
      const Spelling spelling = attention_in_chunks(chunks, running);
      const Report report = prove(document(spelling, spelling.coarse, spelling.fine));
      EXPECT_EQ(report.verdict, Verdict::equivalent) << chunks << (running ? " running: " : ": ") << told(report);
      expect_refused(prove(document(spelling, spelling.coarse, spelling.wrong)));
    }
}

// Whole training steps with the macros of one side replaced by core ops.
TEST(WholeStep, WithOneSideInCoreOps) {
  for (const mutations::Subject& subject : mutations::base_plans()) {
    ir::Document core_reference = subject.document, core_plan = subject.document;
    ir::Program& reference = core_reference.reference.program;
    const std::size_t before = reference.body.size();
    reference = lowering::unfold(reference);
    EXPECT_GT(reference.body.size(), before);
    ir::Program& plan = core_plan.plan.stages.front().program;
    plan = lowering::unfold(plan);
    for (const ir::Document* document : {&core_reference, &core_plan}) {
      const Report report = prove(*document);
      EXPECT_EQ(report.verdict, Verdict::equivalent) << subject.name << ": " << told(report);
    }
    mutations::Editor editor(core_reference);
    for (const mutations::Kind& kind : mutations::all_kinds()) {
      if (kind.name != "norm_eps") continue;
      const std::vector<mutations::Site> sites = kind.find(subject);
      ASSERT_FALSE(sites.empty());
      sites.front().edit(editor, sites.front().at);
    }
    expect_refused(prove(editor.take()));
  }
}

}  // namespace
}  // namespace shardproof::granularity

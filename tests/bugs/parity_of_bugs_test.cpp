// The cases themselves, judged by execution: at small sizes the right plan computes what its reference computes, and
// the wrong one does not. Says nothing about the prover, so that neither can hide a mistake of the other.
#include <gtest/gtest.h>

#include "case.h"
#include "runtime/parity.h"

namespace shardproof::bugs {
namespace {

class ParityOfBugs : public testing::TestWithParam<Bug> {};

TEST_P(ParityOfBugs, RightPlanComputesItsReference) {
  const ir::Document document = GetParam().make(false, small_sizes());
  const runtime::ParityReport report = runtime::run_parity(document);
  EXPECT_TRUE(report.equal()) << runtime::describe(document.plan, report);
}

TEST_P(ParityOfBugs, WrongPlanDoesNot) {
  const ir::Document document = GetParam().make(true, small_sizes());
  bool equal = true;  // a value that decides between two branches may hide the fault
  runtime::ParityOptions options;
  for (options.seed = 1; equal && options.seed < 8; ++options.seed)
    equal = runtime::run_parity(document, options).equal();
  EXPECT_FALSE(equal);
}

INSTANTIATE_TEST_SUITE_P(Public, ParityOfBugs, testing::ValuesIn(all_bugs()),
                         [](const testing::TestParamInfo<Bug>& test) { return test.param.name; });

}  // namespace
}  // namespace shardproof::bugs

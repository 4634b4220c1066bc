// Without names and without the prover: what the ranks hold, and where a wrong plan leaves its reference.
#include <gtest/gtest.h>

#include "case.h"
#include "verifier/execution/alignment.h"
#include "verifier/execution/step.h"
#include "verifier/held_values.h"

namespace shardproof::bugs {
namespace {

std::string held_in(const std::string& name, bool wrong) {
  for (const Bug& bug : all_bugs()) {
    if (bug.name != name) continue;
    std::string text;
    for (const verifier::Counterexample::HeldValue& held : verifier::held_values(bug.make(wrong, small_sizes())))
      text += "`" + held.value + "` " + held.text + "\n";
    return text;
  }
  return "no such report";
}

TEST(AlignmentOfBugs, SaysWhatAWrongPlanHolds) {
  EXPECT_EQ(held_in("megatron_lm_1446", true), "`sub` is no value of the reference; it reads `mul_3`: summands over tp of `mul_3`\n");
  EXPECT_EQ(held_in("gpt_neox_1259", true), "`sub` is no value of the reference; it reads `mul_3`: 1/3 times `mul_3`\n");
  EXPECT_EQ(held_in("open_instruct_1161", true),
            "`reciprocal` is no value of the reference; it reads `reduce_sum_1`: summands over dp and m of `reduce_sum`\n");
  EXPECT_EQ(held_in("ml_cross_entropy_42", true),
            "`d_hidden` holds summands over tp of `einsum_1`, dimension 0 sharded over dp; declared: shard(0) on dp\n");
}

TEST(AlignmentOfBugs, HasNothingToSayOfRightPlans) {
  for (const Bug& bug : all_bugs()) {
    const std::optional<execution::Alignment> alignment = execution::align(execution::in_core_ops(bug.make(false, small_sizes())));
    if (!alignment) continue;
    if (alignment->differing.empty()) {
      EXPECT_TRUE(alignment->frontier.empty()) << bug.name;
    }
  }
}

// A conjecture about each wrong plan: of nearly all something is said.
TEST(AlignmentOfBugs, SaysSomethingOfMostWrongPlans) {
  int said = 0, all = 0;
  for (const Bug& bug : all_bugs()) {
    ++all;
    said += verifier::held_values(bug.make(true, small_sizes())).empty() ? 0 : 1;
  }
  EXPECT_GE(said, all * 9 / 10) << said << " of " << all;
}

}  // namespace
}  // namespace shardproof::bugs

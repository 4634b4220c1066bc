#include "attack/shrink.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "attack/programs.h"
#include "bugs/case.h"
#include "ir/validate.h"
#include "verifier/execution/counterexample.h"

namespace shardproof::attack {
namespace {

using ir::OpCode;

bool valid(const ir::Document& document) {
  ir::DiagnosticSink sink;
  ir::validate(document, sink);
  return sink.ok();
}

bool has(const std::vector<ir::Instruction>& body, OpCode op) {
  return std::ranges::any_of(body, [&](const ir::Instruction& i) { return i.op == op || (i.region && has(i.region->body, op)); });
}

bool differs(const ir::Document& document) {
  execution::SearchLimits limits;
  limits.simplify = false;
  return execution::find_counterexample(document, limits).counterexample.has_value();
}

bugs::Bug bug(const std::string& name) {
  const std::vector<bugs::Bug> all = bugs::all_bugs();
  return *std::ranges::find(all, name, &bugs::Bug::name);
}

// Nothing but the ops, and what brings their results into the layout of an output.
TEST(Shrink, LeavesWhatThePropertyNeeds) {
  const auto property = [](const ir::Document& d) {
    return has(d.plan.stages[0].program.body, OpCode::all_reduce) && has(d.reference.program.body, OpCode::einsum);
  };
  int tried = 0;
  for (std::uint64_t seed = 1; tried < 5; ++seed) {
    std::mt19937_64 random(seed);
    const ir::Document document = random_program(random);
    if (!property(document) || instruction_count(document) < 20) continue;
    ++tried;
    const ir::Document small = shrink(document, property);
    EXPECT_TRUE(valid(small));
    EXPECT_TRUE(property(small));
    EXPECT_LT(instruction_count(small), instruction_count(document) / 3) << "seed " << seed << " had " << instruction_count(document);
  }
}

// A real fault in a step with an optimizer: what it is not part of goes, and it stays a fault.
TEST(Shrink, AFaultStaysAFault) {
  const bugs::Bug fault = bug("megatron_lm_1446");
  const ir::Document document = fault.make(true, bugs::small_sizes());
  ASSERT_TRUE(differs(document));
  const ir::Document small = shrink(document, differs, 400);
  EXPECT_TRUE(valid(small));
  EXPECT_TRUE(differs(small));
  EXPECT_LT(instruction_count(small), instruction_count(document));
}

TEST(Shrink, SizesBecomeSmall) {
  const bugs::Bug fault = bug("megatron_lm_1446");
  const auto elements = [](const ir::Document& d) {
    std::int64_t total = 0;
    for (const ir::ReferenceInput& input : d.reference.inputs) total += ir::element_count(d.reference.program.value(input.value).type.shape);
    for (const ir::ReferenceState& state : d.reference.state) total += ir::element_count(d.reference.program.value(state.value).type.shape);
    return total;
  };
  const ir::Document document = fault.make(true, bugs::small_sizes());
  const ir::Document small = shrink(document, differs, 400);
  EXPECT_LT(elements(small), elements(document) / 2);
}

TEST(Shrink, StopsAfterItsAttempts) {
  const ir::Document document = bug("megatron_lm_1446").make(true, bugs::small_sizes());
  int asked = 0;
  shrink(document, [&](const ir::Document&) { return ++asked > 0; }, 7);
  EXPECT_LE(asked, 7);
}

}  // namespace
}  // namespace shardproof::attack

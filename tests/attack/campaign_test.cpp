#include "attack/campaign.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <sstream>

#include "attack/programs.h"
#include "ir/print.h"
#include "ir/validate.h"
#include "verifier/execution/counterexample.h"

namespace shardproof::attack {
namespace {

using ir::OpCode;

std::string text_of(const ir::Document& document) {
  std::ostringstream out;
  ir::print_json(document, out);
  return std::move(out).str();
}

void collect(const std::vector<ir::Instruction>& body, std::set<OpCode>& ops) {
  for (const ir::Instruction& i : body) {
    ops.insert(i.op);
    if (i.region) collect(i.region->body, ops);
  }
}

TEST(Programs, AreValidAndRight) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    std::mt19937_64 random(seed);
    const ir::Document document = random_program(random);
    ir::DiagnosticSink sink;
    ir::validate(document, sink);
    ASSERT_TRUE(sink.ok()) << "seed " << seed << ": " << sink.take().front().message;
    const execution::SearchResult executed = execution::find_counterexample(document);
    EXPECT_FALSE(executed.differs_in_field) << "seed " << seed;
    EXPECT_FALSE(executed.counterexample) << "seed " << seed;
    EXPECT_GT(executed.field_runs, 0) << "seed " << seed << ": " << executed.reason;
  }
}

TEST(Programs, DependOnTheSeedAlone) {
  std::mt19937_64 first(5), second(5), other(6);
  const std::string text = text_of(random_program(first));
  EXPECT_EQ(text, text_of(random_program(second)));
  EXPECT_NE(text, text_of(random_program(other)));
}

// An op that is added to the table is to be attacked, too.
TEST(Programs, HaveEveryOperator) {
  std::set<OpCode> ops = {
      OpCode::rng_uniform, OpCode::send, OpCode::recv, OpCode::release,  // not proved so far, or no value
      OpCode::power,                                                      // in adamw
  };
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    std::mt19937_64 random(seed);
    const ir::Document document = random_program(random);
    collect(document.reference.program.body, ops);
    collect(document.plan.stages[0].program.body, ops);
  }
  for (const ir::OpSchema& schema : ir::op_table()) EXPECT_TRUE(ops.contains(schema.code)) << schema.name;
}

// Who does which attack changes nothing; neither does where a run starts.
TEST(Campaign, CountsDoNotDependOnTheJobs) {
  Options options;
  options.seed = 3;
  options.count = 60;
  std::ostringstream out;
  std::int64_t done = 0;
  const Table alone = run(options, out, done);
  EXPECT_EQ(done, 60);
  for (const Bases bases : {Bases::known, Bases::random}) {
    Count total;
    for (const auto& [row, count] : alone)
      if (row.first == bases) total += count;
    EXPECT_GT(total.proved, 0);
    EXPECT_GT(total.refuted, 0);
    EXPECT_EQ(total.wrong, 0);
  }
  const Count& right = alone.at({Bases::random, kUnedited});
  EXPECT_EQ(right.refuted + right.structure, 0);
  options.jobs = 3;
  EXPECT_EQ(run(options, out, done), alone);
  EXPECT_EQ(done, 60);
  options.jobs = 1;
  options.count = 25;
  Table parts = run(options, out, done);
  options.first = 25;
  options.count = 35;
  for (const auto& [row, count] : run(options, out, done)) parts[row] += count;
  EXPECT_EQ(parts, alone);
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace shardproof::attack

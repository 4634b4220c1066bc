// Training that one plan saved and another goes on with.
#include "verifier/structure/reshard.h"

#include "tests/unit/structure/plans.h"

namespace shardproof::verifier::structure {
namespace {

struct Options {
  std::string mesh = R"(["dp", 4], ["tp", 2])";
  std::string w = R"({"name": "w", "dims": [["tp"], []], "next": "w"})";
  std::string shape = "[8,4]", moment = "exp_avg", step = "step";
  std::string buffer = R"({"name": "bucket", "size": 32, "members": [{"param": "w", "offset": 0, "dims": [["tp"], []]}, {"param": "v", "offset": 16, "dims": [[]]}]})";
  std::string shard = R"("type": "f32[8]", "dims": [["dp"]])";
  std::string bucket_key = "optimizer.bucket.m";
  std::string more_state, more_entries;
};

ir::Document plan_of(const Options& o) {
  return read(R"({"shardproof": 1, "mesh": [)" + o.mesh + R"(], "reference": {"inputs": [], "outputs": [], "body": [], "state": [
    {"name": "w", "type": "f32)" + o.shape + R"(", "role": "param", "next": "w"}, {"name": "v", "type": "f32[6]", "role": "param", "next": "v"},
    {"name": "w.m", "type": "f32)" + o.shape + R"(", "role": ")" + o.moment + R"(", "param": "w", "next": "w.m"},
    {"name": "v.m", "type": "f32[6]", "role": ")" + o.moment + R"(", "param": "v", "next": "v.m"},
    {"name": ")" + o.step + R"(", "type": "i64[]", "role": "step", "next": ")" + o.step + R"("}]},
    "buffers": [)" + o.buffer + R"(], "inputs": [], "outputs": [], "body": [],
    "state": [)" + o.w + R"(, {"name": "v", "next": "v"}, {"name": ")" + o.step + R"(", "next": ")" + o.step + R"("},
      {"name": "m", "buffer": "bucket", "role": ")" + o.moment + R"(", )" + o.shard + R"(, "next": "m"})" + o.more_state + R"(],
    "checkpoint": [{"key": "model.w", "state": "w", "file": "model"}, {"key": "model.v", "state": "v", "file": "model"}, {"key": "step", "state": ")" + o.step + R"(", "file": "model"},
      {"key": ")" + o.bucket_key + R"(", "state": "m", "file": "optimizer"})" + o.more_entries + "]}");
}

std::vector<std::string> between(const Options& saved, const Options& resumed) {
  const ir::Document a = plan_of(saved), b = plan_of(resumed);
  EXPECT_EQ(text(check(a).violations), "");
  const Findings found = check_reshard(a, b);
  for (const ir::Diagnostic& d : found.violations) {
    EXPECT_FALSE(d.expected.empty()) << d.message;
    EXPECT_FALSE(d.found.empty()) << d.message;
    EXPECT_TRUE(d.labels.front().span.known()) << d.message;
  }
  EXPECT_EQ(text(found.undecided), "");
  std::vector<std::string> all = codes(found.violations);
  for (const std::string& code : codes(found.warnings)) all.push_back(code);
  return all;
}
using Codes = std::vector<std::string>;

TEST(Reshard, TheSamePlan) { EXPECT_EQ(between({}, {}), Codes{}); }

TEST(Reshard, OtherDegreesAndPadding) {
  Options b;
  b.shard = R"("type": "f32[8]", "dims": [["dp"]])";
  b.mesh = R"(["dp", 8], ["tp", 4])";
  b.w = R"({"name": "w", "dims": [["tp"], []], "next": "w"})";
  // Other offsets and another size: the members are the same.
  b.buffer = R"({"name": "bucket", "size": 64, "members": [{"param": "v", "offset": 0, "dims": [[]]}, {"param": "w", "offset": 16, "dims": [["tp"], []]}]})";
  EXPECT_EQ(between({}, b), Codes{});
  EXPECT_EQ(between(b, {}), Codes{});
  Options c;
  c.w = R"({"name": "w", "dims": [["tp", "dp"], []], "next": "w"})";
  EXPECT_EQ(between({}, c), Codes{});
}

TEST(Reshard, AnotherGroupingOfTheBuffer) {
  Options b;
  b.shard = R"("type": "f32[4]", "dims": [["dp"]])";
  b.buffer = R"({"name": "bucket", "size": 16, "members": [{"param": "w", "offset": 0, "dims": [["tp"], []]}]})";
  b.more_state = R"(, {"name": "vm", "of": "v.m", "next": "vm"})";
  b.more_entries = R"(, {"key": "optimizer.v.m", "state": "vm", "file": "optimizer"})";
  EXPECT_EQ(between({}, b), (Codes{"SP0508", "SP0507"}));  // the bucket, and v.m, which is under the bucket's key
  EXPECT_EQ(between(b, {}), Codes{"SP0508"});
}

TEST(Reshard, KeysAreNames) {
  Options b;
  b.bucket_key = "optimizer.m";
  EXPECT_EQ(between({}, b), Codes{"SP0507"});
}

TEST(Reshard, AnotherModelOrOptimizer) {
  Options shape;
  shape.shape = "[16,2]";
  EXPECT_EQ(between({}, shape), Codes{"SP0507"});
  Options role;
  role.moment = "momentum";
  EXPECT_EQ(between({}, role), Codes{"SP0507"});
  Options step;
  step.step = "iteration";
  // The saved counter is lost, the new one has nothing, and the key names another tensor.
  const std::vector<std::string> found = between({}, step);
  EXPECT_EQ(std::count(found.begin(), found.end(), "SP0507"), 2) << found.size();
  EXPECT_EQ(std::count(found.begin(), found.end(), "SP0508"), 1);
}

TEST(Reshard, NarrowerTypes) {
  Options half;
  half.w = R"({"name": "w", "type": "bf16[4,4]", "dims": [["tp"], []], "next": "w"})";
  EXPECT_EQ(between(half, {}), Codes{"SP0605"});
  EXPECT_EQ(between({}, half), Codes{});
  // A copy without an entry comes from the wider of what there is.
  Options both = half;
  both.more_state = R"(, {"name": "main", "of": "w", "dims": [["tp"], []], "next": "main"})";
  EXPECT_EQ(between({}, both), Codes{});
  EXPECT_EQ(between(half, both), Codes{"SP0605"});
}

TEST(Reshard, SummandsCannotBeLoaded) {
  Options partial;
  partial.w = R"({"name": "w", "dims": [["tp"], []], "partial": {"dp": "sum"}, "next": "w"})";
  EXPECT_EQ(between({}, partial), Codes{"SP0507"});
}

}  // namespace
}  // namespace shardproof::verifier::structure

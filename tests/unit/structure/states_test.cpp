// State that nobody holds, and checkpoints that are not all of it.
#include "tests/unit/structure/plans.h"

namespace shardproof::verifier::structure {
namespace {

const std::string reference = R"("reference": {"inputs": [], "outputs": [], "body": [], "state": [
  {"name": "w", "type": "f32[8,4]", "role": "param", "next": "w"},
  {"name": "w.m", "type": "f32[8,4]", "role": "exp_avg", "param": "w", "next": "w.m"},
  {"name": "step", "type": "i64[]", "role": "step", "next": "step"}]})";

std::string stage(const std::string& name, const std::string& where, const std::string& state) {
  return R"({"name": ")" + name + R"(", "where": {)" + where + R"(}, "inputs": [], "outputs": [], "body": [], "state": [)" + state + "]}";
}
ir::Document document(const std::string& stages, const std::string& checkpoint = "", const std::string& mesh = R"(["pp", 4], ["dp", 2], ["tp", 2])", const std::string& more = "") {
  return read(R"({"shardproof": 1, "mesh": [)" + mesh + "], " + reference + more + R"(, "stages": [)" + stages + "]" + (checkpoint.empty() ? "" : R"(, "checkpoint": [)" + checkpoint + "]") + "}");
}
std::string state(const std::string& name, const std::string& of, const std::string& dims, const std::string& type = "") {
  return R"({"name": ")" + name + R"(", "of": ")" + of + R"(", "next": ")" + name + "\"" + (dims.empty() ? "" : R"(, "dims": )" + dims) + (type.empty() ? "" : R"(, "type": ")" + type + "\"") + "}";
}
const std::string low = R"("pp": [0, 1])", high = R"("pp": [2, 3])";
const std::string rest = state("m", "w.m", "[[], []]") + "," + state("step", "step", "");

TEST(States, OneStageHoldsAll) {
  expect_clean(document(stage("main", "", state("w", "w", R"([["pp"], ["tp"]])") + "," + rest)));
  expect_clean(document(stage("a", low, state("w", "w", R"([["tp", "dp"], []])") + "," + rest) + "," + stage("b", high, "")));
}

TEST(States, TwoStagesHoldHalfEach) {
  const std::string w = R"([["pp"], []])";
  expect_clean(document(stage("a", low, state("w", "w", w) + "," + rest) + "," + stage("b", high, state("w2", "w", w))));
  const ir::Diagnostic d = expect_one(document(stage("a", low, state("w", "w", w) + "," + rest) + "," + stage("b", high, "")), "SP0504");
  EXPECT_EQ(d.subject.rank, "ranks pp=2");
  // The major digit of the axis is 0 at 0 and 1.
  expect_one(document(stage("a", low, state("w", "w", R"([["pp:(1)2"], []])") + "," + rest) + "," + stage("b", high, "")), "SP0504");
  // The minor digit of the axis takes both values at 0 and 1.
  expect_clean(document(stage("a", low, state("w", "w", R"([["pp:(2)2"], []])") + "," + rest) + "," + stage("b", high, "")));
}

TEST(States, AlongTwoAxes) {
  const std::string w = R"([["pp"], ["dp"]])";
  const auto at = [](const std::string& pp, const std::string& dp) { return R"("pp": [)" + pp + R"(], "dp": [)" + dp + "]"; };
  const auto all = [&](const std::string& last) {
    return document(stage("a", at("0, 1", "0"), state("w", "w", w) + "," + rest) + "," + stage("b", at("2, 3", "0"), state("w", "w", w)) + "," + stage("c", at("0, 1", "1"), state("w", "w", w)) + "," +
                    stage("d", at("2, 3", "1"), last));
  };
  expect_clean(all(state("w", "w", w)));
  EXPECT_EQ(expect_one(all(""), "SP0504").subject.rank, "ranks dp=1, pp=2");
}

TEST(States, PartsInDifferentLayoutsAreNotDecided) {
  expect_undecided(document(stage("a", low, state("w", "w", R"([["pp"], []])") + "," + rest) + "," + stage("b", high, state("w2", "w", R"([[], ["pp"]])"))));
}

TEST(States, AMomentHasOneOwnerInAProgram) {
  const Findings found = check(document(stage("main", "", state("w", "w", R"([[], []])") + "," + rest + "," + state("m2", "w.m", R"([["dp"], []])"))));
  EXPECT_EQ(text(found.violations), "");
  EXPECT_EQ(codes(found.warnings), std::vector<std::string>{"SP0503"});
  // Copies of a parameter, and replicas in another stage, are none of its business.
  const Findings copies = check(document(stage("a", low, state("w", "w", R"([[], []])") + "," + state("half", "w", R"([[], []])", "bf16[8,4]") + "," + rest) + "," + stage("b", high, state("m", "w.m", R"([[], []])"))));
  EXPECT_EQ(text(copies.warnings), "");
}

std::string entry(const std::string& state, const std::string& key = "") { return R"({"key": ")" + (key.empty() ? state : key) + R"(", "state": ")" + state + R"(", "file": "f"})"; }
const std::string whole = state("w", "w", R"([["dp"], ["tp"]])");

TEST(Checkpoint, Complete) { expect_clean(document(stage("main", "", whole + "," + rest), entry("w") + "," + entry("m") + "," + entry("step"))); }

TEST(Checkpoint, EachStateIsNeeded) {
  for (const std::string missing : {"w", "m", "step"}) {
    std::string entries;
    for (const std::string name : {"w", "m", "step"})
      if (name != missing) entries += (entries.empty() ? "" : ",") + entry(name);
    const ir::Diagnostic d = expect_one(document(stage("main", "", whole + "," + rest), entries), "SP0505");
    EXPECT_EQ(d.subject.reference, missing == "m" ? "w.m" : missing);
  }
}

TEST(Checkpoint, PartsOfAllStages) {
  const std::string w = R"([["pp"], []])";
  const std::string stages = stage("a", low, state("w", "w", w) + "," + rest) + "," + stage("b", high, state("w2", "w", w));
  expect_clean(document(stages, entry("w") + "," + entry("w2") + "," + entry("m") + "," + entry("step")));
  const ir::Diagnostic d = expect_one(document(stages, entry("w") + "," + entry("m") + "," + entry("step")), "SP0505");
  EXPECT_NE(d.message.find("pp=2"), std::string::npos) << d.message;
}

TEST(Checkpoint, AKeyNamesOneTensor) {
  const std::string entries = entry("w") + "," + entry("m") + "," + entry("step") + "," + entry("x");
  const auto with = [&](const std::string& a, const std::string& b) {
    return document(stage("a", low, whole + "," + rest + "," + a) + "," + stage("b", high, b), entries);
  };
  expect_clean(with(state("x", "w", R"([[], []])"), state("x", "w", R"([["dp"], []])")));  // a tied parameter on two stages
  expect_one(with(state("x", "w", R"([[], []])"), state("x", "w.m", R"([[], []])")), "SP0506");
}

TEST(Checkpoint, SummandsAreNotSaved) {
  const std::string partial = R"({"name": "w", "of": "w", "dims": [["tp"], []], "partial": {"dp": "sum"}, "next": "w"})";
  expect_one(document(stage("main", "", partial + "," + rest), entry("w") + "," + entry("m") + "," + entry("step")), "SP0506");
}

TEST(Checkpoint, NarrowerThanHeld) {
  const std::string half = state("half", "w", R"([[], []])", "bf16[8,4]");
  const auto saving = [&](const std::string& names) { return check(document(stage("main", "", whole + "," + half + "," + rest), names + "," + entry("m") + "," + entry("step"))); };
  EXPECT_EQ(codes(saving(entry("half")).warnings), std::vector<std::string>{"SP0605"});
  EXPECT_EQ(text(saving(entry("half")).violations), "");
  EXPECT_EQ(text(saving(entry("w")).warnings), "");
  EXPECT_EQ(text(saving(entry("w") + "," + entry("half")).warnings), "");
}

}  // namespace
}  // namespace shardproof::verifier::structure

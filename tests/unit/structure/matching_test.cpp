// Collectives and messages between stages: right plans are clean, each fault is found once and with its code.
#include "tests/unit/structure/plans.h"

namespace shardproof::verifier::structure {
namespace {

const std::string first = R"("pp": [0])", second = R"("pp": [1])";

std::string all_reduce(const std::string& out, const std::string& in, const std::string& axes = R"("pp")", const std::string& more = "") {
  return R"({"out": ")" + out + R"(", "op": "all_reduce", "in": ")" + in + R"(", "axes": [)" + axes + R"(], "reduce": "sum")" + more + "}";
}
std::string loop(const std::string& index, int trip, const std::string& body) {
  return R"({"op": "loop", "index": ")" + index + R"(", "trip": )" + std::to_string(trip) + R"(, "carry": [], "body": [)" + body + "]}";
}
std::string send(const std::string& in, const std::string& peer, const std::string& channel, const std::string& more = "") {
  return R"({"op": "send", "in": ")" + in + R"(", "peer": ")" + peer + R"(", "channel": ")" + channel + "\"" + more + "}";
}
std::string recv(const std::string& out, const std::string& peer, const std::string& channel, const std::string& type = "f32[8]", const std::string& more = "") {
  return R"({"out": ")" + out + R"(", "op": "recv", "type": ")" + type + R"(", "peer": ")" + peer + R"(", "channel": ")" + channel + "\"" + more + "}";
}

ir::Document two(const std::string& a, const std::string& b, const std::string& mesh = R"(["pp", 2], ["tp", 2])", const std::string& more = "") {
  return plan(mesh, {{"a", first, a}, {"b", second, b}}, more);
}

TEST(Matching, SameCollectivesAreClean) {
  expect_clean(two(all_reduce("y", "x") + "," + all_reduce("z", "y", R"("pp", "tp")"), all_reduce("y", "x") + "," + all_reduce("z", "y", R"("pp", "tp")")));
}

TEST(Matching, CollectivesWithinAStageNeedNoCounterpart) {
  expect_clean(two(all_reduce("y", "x", R"("tp")") + "," + all_reduce("z", "y", R"("tp")"), ""));
}

TEST(Matching, OneStageMatchesItself) { expect_clean(plan(R"(["dp", 4])", {{"main", "", all_reduce("y", "x", R"("dp")")}})); }

TEST(Matching, StageThatTakesNoPart) {
  const ir::Diagnostic d = expect_one(two(all_reduce("y", "x"), ""), "SP0301");
  EXPECT_NE(d.message.find("take part in none"), std::string::npos) << d.message;
  EXPECT_EQ(d.subject.rank, "ranks pp=1 (stage `b`)");
}

TEST(Matching, EachPropertyOfACollectiveCounts) {
  const std::string pp = R"("axes": ["pp"])";
  const auto op = [&](const std::string& fields) { return R"({"out": "y", "in": "x", "op": )" + fields + "," + pp + "}"; };
  const std::string sum = op(R"("all_reduce", "reduce": "sum")");
  expect_one(two(sum, op(R"("all_gather", "dim": 0)")), "SP0301");
  expect_one(two(sum, op(R"("all_reduce", "reduce": "max")")), "SP0301");
  expect_one(two(op(R"("broadcast_from", "root": 0)"), op(R"("broadcast_from", "root": 1)")), "SP0301");
  expect_one(two(op(R"("permute", "shift": 0)"), op(R"("permute", "shift": 1)")), "SP0301");
  const std::string half = R"({"out": "h", "op": "slice", "in": "x", "dim": 0, "start": 0, "size": 4},)" + all_reduce("y", "h");
  const ir::Diagnostic size = expect_one(two(sum, half), "SP0301");
  EXPECT_NE(size.message.find("number of elements"), std::string::npos) << size.message;
  const std::string narrow = R"({"out": "h", "op": "cast", "in": "x", "dtype": "bf16"},)" + all_reduce("y", "h");
  expect_one(two(sum, narrow), "SP0301");
  // The same bytes in another shape are the same transfer.
  expect_clean(two(sum, R"({"out": "h", "op": "reshape", "in": "x", "shape": [2, 4]},)" + all_reduce("y", "h")));
}

TEST(Matching, TheOrderOfAGroupCountsWherePositionsDo) {
  const auto gather = [](const std::string& axes) { return R"({"out": "y", "in": "x", "op": "all_gather", "dim": 0, "axes": [)" + axes + "]}"; };
  const ir::Diagnostic d = expect_one(two(gather(R"("pp", "tp")"), gather(R"("tp", "pp")")), "SP0301");
  EXPECT_NE(d.message.find("order of the group"), std::string::npos) << d.message;
  expect_clean(two(all_reduce("y", "x", R"("pp", "tp")"), all_reduce("y", "x", R"("tp", "pp")")));
  // An axis of one rank does not make another group.
  expect_clean(two(gather(R"("pp", "cp")"), gather(R"("pp")"), R"(["pp", 2], ["cp", 1], ["tp", 2])"));
}

TEST(Matching, OrderOfTwoCollectives) {
  const std::string big = all_reduce("y", "x");
  const std::string small = R"({"out": "h", "op": "slice", "in": "x", "dim": 0, "start": 0, "size": 4},)" + all_reduce("z", "h");
  const ir::Diagnostic d = expect_one(two(big + "," + small, small + "," + big), "SP0301");
  EXPECT_NE(d.message.find("in different orders"), std::string::npos) << d.message;
}

TEST(Matching, LoopsUnrolledAndRolledAreTheSame) {
  expect_clean(two(loop("m", 4, all_reduce("y", "x")), loop("i", 4, all_reduce("y", "x"))));
  expect_clean(two(loop("m", 3, all_reduce("y", "x")), all_reduce("p", "x") + "," + all_reduce("q", "x") + "," + all_reduce("r", "x")));
  expect_clean(two(loop("m", 2, loop("n", 3, all_reduce("y", "x"))), loop("m", 6, all_reduce("y", "x"))));
  // Work without communication makes no difference.
  expect_clean(two(loop("m", 4, all_reduce("y", "x")), loop("i", 4, all_reduce("y", "x") + R"(,{"out": "s", "op": "add", "in": ["y", "y"]})")));
}

TEST(Matching, TripCountsCount) {
  const ir::Diagnostic d = expect_one(two(loop("m", 4, all_reduce("y", "x")), loop("m", 3, all_reduce("y", "x"))), "SP0301");
  EXPECT_NE(d.message.find("take part in 3 only"), std::string::npos) << d.message;
  // Long loops that are alike are compared once.
  expect_clean(two(loop("m", 2000000000, all_reduce("y", "x", R"("tp")")), loop("m", 3, all_reduce("y", "x", R"("tp")"))));
}

TEST(Matching, LongLoopsThatDifferAreNotDecided) {
  expect_undecided(two(loop("m", 100000000, all_reduce("y", "x")), loop("m", 50000000, all_reduce("y", "x") + "," + all_reduce("z", "x"))));
}

TEST(Matching, ClassesOfManyRanks) {
  const std::string mesh = R"(["pp", 8], ["dp", 1024], ["tp", 8])";
  expect_clean(plan(mesh, {{"a", R"("pp": [0, 1, 2, 3])", all_reduce("y", "x")}, {"b", R"("pp": [4, 5, 6, 7])", all_reduce("y", "x")}}));
  const ir::Diagnostic d = expect_one(plan(mesh, {{"a", R"("pp": [0, 1, 2, 3])", all_reduce("y", "x")}, {"b", R"("pp": [4, 5, 6, 7])", ""}}), "SP0301");
  EXPECT_EQ(d.subject.rank, "ranks pp=4..7 (stage `b`)");
}

TEST(Matching, ManyStages) {
  const auto stages = [](int count, int without) {
    std::vector<Stage> all;
    for (int s = 0; s < count; ++s) all.push_back({"s" + std::to_string(s), R"("pp": [)" + std::to_string(s) + "]", s == without ? "" : all_reduce("y", "x") + "," + all_reduce("z", "x")});
    return plan(R"(["pp", )" + std::to_string(count) + "]", all);
  };
  expect_clean(stages(1000, -1));
  EXPECT_EQ(expect_one(stages(1000, 500), "SP0301").subject.rank, "ranks pp=500 (stage `s500`)");
  expect_undecided(stages(5000, -1));
}

TEST(Matching, ExplicitGroups) {
  const auto grouped = [](const std::string& groups) { return R"({"out": "y", "op": "all_reduce", "in": "x", "reduce": "sum", "groups": )" + groups + "}"; };
  const std::vector<Stage> embedding = {{"a", R"("pp": [0])", grouped("[[0, 3], [1, 2]]")}, {"b", R"("pp": [1, 2])", ""}, {"c", R"("pp": [3])", grouped("[[0, 3], [1, 2]]")}};
  expect_clean(plan(R"(["pp", 4])", embedding));
  std::vector<Stage> missing = embedding;
  missing[2].body = "";
  expect_one(plan(R"(["pp", 4])", missing), "SP0301");
  // Lists that say the same as axes are the same communicator.
  expect_clean(two(all_reduce("y", "x"), grouped("[[0, 2], [1, 3]]")));
  expect_clean(two(grouped("[[2, 0], [3, 1]]"), all_reduce("y", "x")));
  const Findings crossed = check(two(all_reduce("y", "x"), grouped("[[0, 3], [1, 2]]")));
  EXPECT_EQ(codes(crossed.violations), (std::vector<std::string>{"SP0301", "SP0301"})) << text(crossed.violations);
}

TEST(Matching, GroupsThatTreatRanksOfAStageUnlikeAreNotDecided) {
  const std::string groups = R"({"out": "y", "op": "all_reduce", "in": "x", "reduce": "sum", "groups": [[0, 2], [1, 4], [3, 5]]})";
  const std::vector<Stage> stages = {{"a", R"("pp": [0])", groups}, {"b", R"("pp": [1])", groups}, {"c", R"("pp": [2])", groups}};
  const Findings found = check(plan(R"(["pp", 3], ["tp", 2])", stages));
  EXPECT_TRUE(found.violations.empty()) << text(found.violations);
  EXPECT_FALSE(found.undecided.empty());
}

TEST(Matching, GroupsOverAnotherMesh) {
  const std::string text = R"({"shardproof": 1,
    "meshes": [{"name": "dense", "axes": [["pp", 2], ["dp", 4]]}, {"name": "expert", "axes": [["pp", 2], ["edp", 2], ["ep", 2]]}],
    "reference": {"inputs": [{"name": "x", "type": "f32[8]"}], "state": [], "outputs": [], "body": []},
    "stages": [{"name": "a", "where": {"pp": [0]}, "inputs": [{"name": "x"}], "state": [], "outputs": [], "body": [)" +
                           all_reduce("y", "x", R"("ep")") + "," + all_reduce("z", "x", R"("pp", "edp")") + R"(]},
               {"name": "b", "where": {"pp": [1]}, "inputs": [{"name": "x"}], "state": [], "outputs": [], "body": [)";
  expect_clean(read(text + all_reduce("z", "x", R"("pp", "edp")") + "]}]}"));
  expect_one(read(text + "]}]}"), "SP0301");
}

TEST(Messages, InOrder) {
  expect_clean(two(send("x", "b", "act"), recv("y", "a", "act")));
  expect_clean(two(loop("m", 4, send("x", "b", "act", R"(, "number": "m")")), loop("i", 4, recv("y", "a", "act", "f32[8]", R"(, "number": "i")"))));
  expect_clean(two(loop("m", 4, send("x", "b", "act", R"(, "number": "2*m + tp")")), loop("i", 4, recv("y", "a", "act", "f32[8]", R"(, "number": "2*i + tp")")),
                   R"(["pp", 2], ["tp", 8])"));
  expect_clean(two(loop("m", 4, send("x", "b", "act", R"(, "number": "2*m + pp")")), loop("i", 4, recv("y", "a", "act", "f32[8]", R"(, "number": "2*i + (pp/2)*7")")),
                   R"(["pp", 2], ["tp", 8])"));
}

TEST(Messages, WithoutCounterpart) {
  const ir::Diagnostic sent = expect_one(two(send("x", "b", "act"), ""), "SP0303");
  EXPECT_NE(sent.message.find("receives 0"), std::string::npos) << sent.message;
  expect_one(two("", recv("y", "a", "act")), "SP0303");
  const Findings renamed = check(two(send("x", "b", "act"), recv("y", "a", "grad")));
  EXPECT_EQ(codes(renamed.violations), (std::vector<std::string>{"SP0303", "SP0303"})) << text(renamed.violations);
  expect_one(two(send("x", "c", "act"), ""), "SP0303");
  expect_one(two(loop("m", 4, send("x", "b", "act")), loop("m", 3, recv("y", "a", "act"))), "SP0303");
}

TEST(Messages, TypesAndNumbers) {
  expect_one(two(send("x", "b", "act"), recv("y", "a", "act", "f32[2,4]")), "SP0303");
  expect_one(two(send("x", "b", "act"), recv("y", "a", "act", "bf16[8]")), "SP0303");
  const ir::Diagnostic d = expect_one(two(loop("m", 4, send("x", "b", "act", R"(, "number": "m")")), loop("i", 4, recv("y", "a", "act", "f32[8]", R"(, "number": "3 - 1*i")"))), "SP0303");
  EXPECT_EQ(d.expected, "number 0");
  EXPECT_EQ(d.found, "number 3");
  expect_one(two(send("x", "b", "act", R"(, "number": "tp")"), recv("y", "a", "act", "f32[8]", R"(, "number": 0)")), "SP0303");
  // A number that only one side gives says nothing.
  expect_clean(two(send("x", "b", "act", R"(, "number": 7)"), recv("y", "a", "act")));
}

TEST(Messages, BetweenStagesOnSeveralCoordinates) {
  const std::string mesh = R"(["pp", 4])";
  expect_clean(plan(mesh, {{"a", R"("pp": [0, 1])", send("x", "b", "act")}, {"b", R"("pp": [2, 3])", recv("y", "a", "act")}}));
  expect_one(plan(mesh, {{"a", R"("pp": [0])", send("x", "b", "act")}, {"b", R"("pp": [1, 2, 3])", recv("y", "a", "act")}}), "SP0303");
}

}  // namespace
}  // namespace shardproof::verifier::structure

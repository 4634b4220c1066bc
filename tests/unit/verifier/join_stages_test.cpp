// Collectives across stages mean what they mean within one program: two stages that hold x and y, on tp=2 ranks each, and what
// each of them gets. With the two results exchanged nothing is proved.
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>

#include "ir/read_json.h"
#include "lowering/join_stages.h"
#include "verifier/verify.h"

namespace shardproof::verifier {
namespace {

struct Case {
  std::string name;
  std::string collective;      // fields of the instruction
  std::string body;            // of the reference: defines o0 and o1
  std::string dims = "[[], []]";  // placement of the results
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

ir::Document read(const std::string& text) {
  ir::DiagnosticSink sink;
  auto document = ir::read_document(std::make_shared<ir::SourceFile>("join.json", text), sink);
  EXPECT_TRUE(document && sink.ok()) << (sink.diagnostics().empty() ? "" : sink.diagnostics().front().message + ": " + sink.diagnostics().front().expected);
  return document ? std::move(*document) : ir::Document{};
}

std::string stage(const std::string& at, const std::string& input, const std::string& output, const Case& c) {
  return R"({"name": "s)" + at + R"(", "where": {"pp": [)" + at + R"(]}, "inputs": [{"name": ")" + input + R"("}], "state": [], "outputs": [{"name": ")" + output +
         R"(", "value": "r", "dims": )" + c.dims + R"(}], "body": [{"out": "r", "in": ")" + input + R"(", )" + c.collective + "}]}";
}

ir::Document document(const Case& c, bool exchanged) {
  return read(R"({"shardproof": 1, "mesh": [["pp", 2], ["tp", 2]], "reference": {"inputs": [{"name": "x", "type": "f32[4,4]"}, {"name": "y", "type": "f32[4,4]"}], "state": [],
    "outputs": [{"name": "o0"}, {"name": "o1"}], "body": [)" + c.body + "]}, \"stages\": [" + stage("0", "x", exchanged ? "o1" : "o0", c) + ", " + stage("1", "y", exchanged ? "o0" : "o1", c) + "]}");
}

std::string same(const std::string& name, const std::string& of) { return R"({"out": ")" + name + R"(", "op": "add", "in": [")" + of + R"("]})"; }
std::string rows(const std::string& name, const std::string& of, int start, int count) {
  return R"({"out": ")" + name + R"(", "op": "slice", "in": ")" + of + R"(", "dim": 0, "start": )" + std::to_string(start) + R"(, "size": )" + std::to_string(count) + "}";
}
std::string both(const std::string& op, const std::string& name, const std::string& a, const std::string& b, const std::string& more = "") {
  return R"({"out": ")" + name + R"(", "op": ")" + op + R"(", "in": [")" + a + R"(", ")" + b + "\"]" + more + "}";
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"AllGather", R"("op": "all_gather", "axes": "pp", "dim": 0)", both("concat", "o0", "x", "y", ", \"dim\": 0") + ", " + both("concat", "o1", "x", "y", ", \"dim\": 0")},
      {"AllReduce", R"("op": "all_reduce", "axes": ["tp", "pp"], "reduce": "avg")",
       both("add", "s", "x", "y") + R"(, {"out": "h", "op": "constant", "value": "1/2", "type": "f32[4,4]"}, )" + both("mul", "o0", "s", "h") + ", " + both("mul", "o1", "s", "h")},
      {"Maximum", R"("op": "all_reduce", "axes": ["pp{0,1}"], "reduce": "max")", both("max", "o0", "x", "y") + ", " + both("max", "o1", "x", "y")},
      {"ReduceScatter", R"("op": "reduce_scatter", "axes": "pp", "dim": 0, "reduce": "sum")", both("add", "s", "x", "y") + ", " + rows("o0", "s", 0, 2) + ", " + rows("o1", "s", 2, 2)},
      {"ReduceScatterOverBoth", R"("op": "reduce_scatter", "axes": ["pp", "tp"], "dim": 0, "reduce": "avg")",
       both("add", "s", "x", "y") + R"(, {"out": "h", "op": "constant", "value": "1/2", "type": "f32[4,4]"}, )" + both("mul", "m", "s", "h") + ", " + rows("o0", "m", 0, 2) + ", " + rows("o1", "m", 2, 2),
       R"([["tp"], []])"},
      {"AllToAll", R"("op": "all_to_all", "axes": "pp", "split_dim": 0, "concat_dim": 1)",
       rows("x0", "x", 0, 2) + ", " + rows("x1", "x", 2, 2) + ", " + rows("y0", "y", 0, 2) + ", " + rows("y1", "y", 2, 2) + ", " + both("concat", "o0", "x0", "y0", ", \"dim\": 1") + ", " +
           both("concat", "o1", "x1", "y1", ", \"dim\": 1")},
      {"Broadcast", R"("op": "broadcast_from", "axes": "pp", "root": 1)", same("o0", "y") + ", " + same("o1", "y")},
      {"BroadcastOverBoth", R"("op": "broadcast_from", "axes": ["pp", "tp"], "root": 1)", same("o0", "x") + ", " + same("o1", "x")},
      {"Permute", R"("op": "permute", "axes": "pp", "shift": 1)", same("o0", "y") + ", " + same("o1", "x")},
      {"Lists", R"("op": "all_gather", "groups": [[2, 0], [3, 1]], "dim": 0)", both("concat", "o0", "y", "x", ", \"dim\": 0") + ", " + both("concat", "o1", "y", "x", ", \"dim\": 0")},
      {"ListsWithin", R"("op": "all_gather", "groups": [[0, 1], [2, 3]], "dim": 0)", both("concat", "o0", "x", "x", ", \"dim\": 0") + ", " + both("concat", "o1", "y", "y", ", \"dim\": 0")},
      {"Within", R"("op": "all_reduce", "axes": "tp", "reduce": "sum")", both("add", "o0", "x", "x") + ", " + both("add", "o1", "y", "y")},
      {"Alone", R"("op": "all_reduce", "axes": ["pp{0}"], "reduce": "sum")", same("o0", "x") + ", " + same("o1", "y")},
  };
  return all;
}

class JoinStages : public testing::TestWithParam<Case> {};

Report prove(const ir::Document& document) {
  VerifyOptions options = proof_alone({});
  return verify(document, options);
}

TEST_P(JoinStages, CollectiveMeansWhatItIsDefinedToBe) {
  const Case& c = GetParam();
  if (c.name == "Alone") return;  // stage 1 is not in that group: the next test
  const Report report = prove(document(c, false));
  EXPECT_EQ(report.verdict, Verdict::equivalent) << report.unknown_reason << (report.diagnostics.empty() ? "" : report.diagnostics.front().message);
}

TEST_P(JoinStages, ExchangedResultsAreNotProved) {
  const Case& c = GetParam();
  const bool alike = c.name == "AllGather" || c.name == "AllReduce" || c.name == "Maximum" || c.name.starts_with("Broadcast") || c.name == "Lists";
  if (alike || c.name == "Alone") return;  // both stages get the same
  EXPECT_NE(prove(document(c, true)).verdict, Verdict::equivalent);
}

INSTANTIATE_TEST_SUITE_P(All, JoinStages, testing::ValuesIn(cases()), [](const testing::TestParamInfo<Case>& test) { return test.param.name; });

TEST(JoinStagesRefuses, GroupsThatAStageIsNotIn) {
  const Case& alone = cases().back();
  EXPECT_EQ(prove(document(alone, false)).verdict, Verdict::invalid);
}

// What may be a wrong order of stages is not read as a right one.
TEST(JoinStagesRefuses, RanksOfAStageThatVarySlowerThanStages) {
  // They hold x, y, x, y; x, x, y, y is what stages in the first place would give.
  const auto four = [](const std::string& name) { return R"({"out": ")" + name + R"(", "op": "concat", "in": ["x", "x", "y", "y"], "dim": 0})"; };
  const Case c{"", R"("op": "all_gather", "axes": ["tp", "pp"], "dim": 0)", four("o0") + ", " + four("o1")};
  EXPECT_EQ(prove(document(c, false)).verdict, Verdict::unknown);
}

TEST(JoinStagesRefuses, SummandsOverStages) {
  // Each stage holds x, so that the sum over both is 2 x.
  const auto stage = [](const std::string& at) {
    return R"({"name": "s)" + at + R"(", "where": {"pp": [)" + at + R"(]}, "inputs": [{"name": "x"}], "state": [], "outputs": [{"name": "o", "value": "r", "partial": {"pp": "sum"}}],
      "body": [{"out": "r", "op": "add", "in": ["x"]}]})";
  };
  const std::string text = R"({"shardproof": 1, "mesh": [["pp", 2]], "reference": {"inputs": [{"name": "x", "type": "f32[4]"}], "state": [], "outputs": [{"name": "o"}],
    "body": [{"out": "o", "op": "add", "in": ["x"]}]}, "stages": [)" + stage("0") + ", " + stage("1") + "]}";
  EXPECT_EQ(prove(read(text)).verdict, Verdict::unknown);
}

TEST(JoinStagesRefuses, LoopsThatAreOutOfStep) {
  // The loop receives x0 and x1, as messages come in order; x2 is received behind it.
  const std::string text = R"({"shardproof": 1, "mesh": [["pp", 2]], "reference": {"inputs": [{"name": "x", "type": "f32[3]"}], "state": [], "outputs": [{"name": "o"}],
      "body": [{"out": "p", "op": "slice", "in": "x", "dim": 0, "start": 1, "size": 2}, {"out": "o", "op": "reduce_sum", "in": "p", "dims": [0]}]}, "stages": [
      {"name": "a", "where": {"pp": [0]}, "inputs": [{"name": "x"}], "state": [], "outputs": [], "body": [
        {"out": "x0", "op": "slice", "in": "x", "dim": 0, "start": 0, "size": 1}, {"op": "send", "in": "x0", "peer": "b", "channel": "c", "async": true},
        {"op": "loop", "index": "m", "trip": 2, "carry": [], "body": [
          {"out": "xm", "op": "slice", "in": "x", "dim": 0, "start": "m + 1", "size": 1}, {"op": "send", "in": "xm", "peer": "b", "channel": "c", "async": true}]}]},
      {"name": "b", "where": {"pp": [1]}, "inputs": [], "state": [], "outputs": [{"name": "o", "value": "r"}], "body": [
        {"out": "z", "op": "constant", "value": 0, "type": "f32[]"},
        {"op": "loop", "index": "k", "trip": 2, "carry": [{"init": "z", "arg": "t", "next": "u", "out": "r"}], "body": [
          {"out": "q", "op": "recv", "peer": "a", "channel": "c", "type": "f32[1]"}, {"out": "s", "op": "reduce_sum", "in": "q", "dims": [0]}, {"out": "u", "op": "add", "in": ["t", "s"]}]},
        {"out": "rest", "op": "recv", "peer": "a", "channel": "c", "type": "f32[1]"}]}]})";
  EXPECT_EQ(prove(read(text)).verdict, Verdict::unknown);
}

TEST(JoinStagesRefuses, LoopsOfDifferentTrips) {
  // x0 and x2 are what one message of each of the sender's iterations gives.
  const std::string text = R"({"shardproof": 1, "mesh": [["pp", 2]], "reference": {"inputs": [{"name": "x", "type": "f32[4]"}], "state": [], "outputs": [{"name": "o"}],
      "body": [{"out": "p", "op": "slice", "in": "x", "dim": 0, "start": 0, "size": 2, "stride": 2}, {"out": "o", "op": "reduce_sum", "in": "p", "dims": [0]}]}, "stages": [
      {"name": "a", "where": {"pp": [0]}, "inputs": [{"name": "x"}], "state": [], "outputs": [], "body": [{"op": "loop", "index": "m", "trip": 2, "carry": [], "body": [
          {"out": "even", "op": "slice", "in": "x", "dim": 0, "start": "2*m", "size": 1}, {"op": "send", "in": "even", "peer": "b", "channel": "c", "async": true},
          {"out": "odd", "op": "slice", "in": "x", "dim": 0, "start": "2*m + 1", "size": 1}, {"op": "send", "in": "odd", "peer": "b", "channel": "c", "async": true}]}]},
      {"name": "b", "where": {"pp": [1]}, "inputs": [], "state": [], "outputs": [{"name": "o", "value": "r"}], "body": [
        {"out": "z", "op": "constant", "value": 0, "type": "f32[]"},
        {"op": "loop", "index": "k", "trip": 4, "carry": [{"init": "z", "arg": "t", "next": "u", "out": "r"}], "body": [
          {"out": "q", "op": "recv", "peer": "a", "channel": "c", "type": "f32[1]"}, {"out": "s", "op": "reduce_sum", "in": "q", "dims": [0]}, {"out": "u", "op": "add", "in": ["t", "s"]}]}]}]})";
  EXPECT_EQ(prove(read(text)).verdict, Verdict::unknown);
}

TEST(JoinStagesRefuses, MessagesThatCrossIterations) {
  const auto text = [](const std::string& receiver) {
    return R"({"shardproof": 1, "mesh": [["pp", 2]], "reference": {"inputs": [{"name": "x", "type": "f32[4]"}], "state": [], "outputs": [{"name": "o"}],
      "body": [{"out": "o", "op": "reduce_sum", "in": "x", "dims": [0]}]}, "stages": [
      {"name": "a", "where": {"pp": [0]}, "inputs": [{"name": "x"}], "state": [], "outputs": [], "body": [{"op": "loop", "index": "m", "trip": 4, "carry": [], "body": [
        {"out": "p", "op": "slice", "in": "x", "dim": 0, "start": "m", "size": 1}, {"op": "send", "in": "p", "peer": "b", "channel": "c", "async": true}]}]},
      {"name": "b", "where": {"pp": [1]}, "inputs": [], "state": [], "outputs": [{"name": "o", "value": "r"}], "body": [)" + receiver + "]}]}";
  };
  const std::string zero = R"({"out": "z", "op": "constant", "value": 0, "type": "f32[]"}, )";
  const std::string part = R"({"out": "q", "op": "recv", "peer": "a", "channel": "c", "type": "f32[1]"}, {"out": "s", "op": "reduce_sum", "in": "q", "dims": [0]})";
  const std::string loop = R"({"op": "loop", "index": "k", "trip": 4, "carry": [{"init": "z", "arg": "t", "next": "u", "out": "r"}], "body": [)";
  EXPECT_EQ(prove(read(text(zero + loop + part + R"(, {"out": "u", "op": "add", "in": ["t", "s"]}]})"))).verdict, Verdict::equivalent);
  // Two messages in each of two iterations.
  const std::string again = R"(, {"out": "q2", "op": "recv", "peer": "a", "channel": "c", "type": "f32[1]"}, {"out": "s2", "op": "reduce_sum", "in": "q2", "dims": [0]})";
  std::string two = loop;
  two.replace(two.find("\"trip\": 4"), 9, "\"trip\": 2");
  EXPECT_EQ(prove(read(text(zero + two + part + again + R"(, {"out": "u", "op": "add", "in": ["t", "s", "s2"]}]})"))).verdict, Verdict::unknown);
}

}  // namespace
}  // namespace shardproof::verifier

// Actions of instructions, and schedules that run them: what has a meaning, and where what has none is found.
#include <gtest/gtest.h>

#include "ir/read_json.h"
#include "ir/validate.h"

namespace shardproof::ir {
namespace {

const std::string kForth = R"({"out": "y", "op": "neg", "in": "x", "action": "0F"})";
const std::string kBack = R"({"out": "z", "op": "neg", "in": "y", "action": "0B"})";

std::string loop(const std::string& body, const std::string& more = "") { return R"({"op": "loop", "index": "m", "trip": 4, )" + more + R"("body": [)" + body + "]}"; }

// Two pipeline ranks; `first` and `second` are the bodies of their programs.
std::string document(const std::string& first, const std::string& second, const std::string& schedule = "") {
  return R"({"shardproof": 1, "mesh": [["pp", 2]],
  "reference": {"inputs": [{"name": "x", "type": "f32[8]"}], "state": [], "outputs": [], "body": []},
  "stages": [{"name": "a", "where": {"pp": [0]}, "inputs": [{"name": "x"}], "state": [], "outputs": [], "body": [)" +
         first + R"(]}, {"name": "b", "where": {"pp": [1]}, "inputs": [{"name": "x"}], "state": [], "outputs": [], "body": [)" + second + "]}]" +
         (schedule.empty() ? "" : R"(, "schedule": )" + schedule) + "}";
}

std::string stage(int number, bool split = false) {
  const std::string s = std::to_string(number);
  std::string body = R"({"out": "y)" + s + R"(", "op": "neg", "in": "x", "action": ")" + s + R"(F"},)";
  body += R"({"out": "z)" + s + R"(", "op": "neg", "in": "y)" + s + R"(", "action": ")" + s + (split ? "I" : "B") + "\"}";
  if (split) body += R"(,{"out": "w)" + s + R"(", "op": "neg", "in": "z)" + s + R"(", "action": ")" + s + "W\"}";
  return body;
}
std::string scheduled(const std::string& schedule) { return document(loop(stage(0)), loop(stage(1)), schedule); }

std::vector<Diagnostic> findings(const std::string& text) {
  DiagnosticSink sink;
  const auto read = read_document(std::make_shared<SourceFile>("test.json", text), sink);
  if (read) validate(*read, sink);
  return sink.take();
}

void expect_clean(const std::string& text) {
  for (const Diagnostic& d : findings(text)) ADD_FAILURE() << d.code << ": " << d.message << " expected " << d.expected << " found " << d.found;
}

// One finding, with its place and what to do.
Diagnostic expect_one(const std::string& text, const std::string& message, const std::string& code = "SP0121") {
  const auto found = findings(text);
  EXPECT_EQ(found.size(), 1U) << message;
  if (found.empty()) return {};
  const Diagnostic& d = found.front();
  EXPECT_EQ(d.code, code) << d.message;
  EXPECT_NE(d.message.find(message), std::string::npos) << d.message;
  EXPECT_FALSE(d.expected.empty()) << d.message;
  EXPECT_FALSE(d.found.empty()) << d.message;
  EXPECT_TRUE(d.labels.size() == 1 && d.labels.front().span.known()) << d.message;
  EXPECT_TRUE(code != "SP0121" || d.fix.has_value()) << d.message;
  return d;
}

TEST(ValidateActions, OneLoopCarriesThem) {
  expect_clean(document(loop(kForth + "," + kBack), ""));
  expect_clean(document(R"({"out": "u", "op": "neg", "in": "x"},)" + loop(kForth + "," + kBack) + R"(,{"out": "v", "op": "neg", "in": "u"})", ""));
  expect_clean(document(R"({"op": "loop", "index": "l", "trip": 3, "body": [{"out": "u", "op": "neg", "in": "x"}]},)" + loop(kForth), ""));
  // A loop inside is run as a whole; what it holds may repeat its action.
  const auto inside = [](const std::string& action) {
    return R"({"op": "loop", "index": "l", "trip": 3, "action": "0F", "body": [{"out": "u", "op": "neg", "in": "x")" + action + "}]}";
  };
  expect_clean(document(loop(inside("")), ""));
  expect_clean(document(loop(inside(R"(, "action": "0F")")), ""));
  expect_one(document(loop(inside(R"(, "action": "0B")")), ""), "another action than the loop around it");
  expect_one(document(kForth, ""), "outside the loop over microbatches");
  expect_one(document(loop(kForth) + "," + R"({"op": "loop", "index": "n", "trip": 4, "body": [{"out": "v", "op": "neg", "in": "x", "action": "0B"}]})", ""), "has two loops");
  expect_one(document(loop(kForth + R"(, {"out": "u", "op": "neg", "in": "x"})"), ""), "carries no action");
  expect_one(document(loop(kForth, R"("action": "0F", )"), ""), "outside the loop over microbatches");
  expect_one(document(loop(R"({"op": "loop", "index": "l", "trip": 3, "body": [{"out": "u", "op": "neg", "in": "x", "action": "0F"}]})"), ""), "outside the loop");
}

TEST(ValidateActions, TheyAreAStageAndAType) {
  for (const char* action : {"F", "0", "0F0", "0OPT", "0UNSHARD", "x"}) {
    const std::string body = R"({"out": "y", "op": "neg", "in": "x", "action": ")" + std::string(action) + "\"}";
    EXPECT_EQ(expect_one(document(loop(body), ""), "").found, "`" + std::string(action) + "`");
  }
  expect_one(document(loop(kForth + "," + kBack + R"(,{"out": "w", "op": "neg", "in": "y", "action": "0W"})"), ""), "both whole and split");
}

TEST(ValidateActions, TheReferenceHasNone) {
  std::string text = document("", "");
  text.replace(text.find(R"("body": [])"), 10, R"("body": [{"out": "r", "op": "neg", "in": "x", "action": "0F"}])");
  expect_one(text, "the reference carries an action");
}

TEST(ValidateSchedule, RightOnes) {
  expect_clean(scheduled(R"({"generator": "1f1b", "microbatches": 4})"));
  expect_clean(scheduled(R"({"generator": "gpipe", "microbatches": 4, "max_in_flight": 4})"));
  expect_clean(scheduled(R"({"microbatches": 4, "actions": [["0F0", "", "0B0"], ["1F0", " 1B0 ", "(1F1;1B1)OVERLAP_F_B", "1OPT"]]})"));
  expect_clean(document(loop(stage(0) + "," + stage(2)), loop(stage(1) + "," + stage(3)), R"({"generator": "1f1b", "microbatches": 4, "virtual_stages": 2})"));
  expect_clean(document(loop(stage(0, true) + "," + stage(3, true)), loop(stage(1, true) + "," + stage(2, true)), R"({"generator": "zb-v", "microbatches": 4})"));
  // A program with I and W runs both as B.
  expect_clean(document(loop(stage(0, true)), loop(stage(1)), R"({"microbatches": 4, "actions": [["0B0", "0I1", "0W1"], ["1B0"]]})"));
  // Each direction of a bidirectional pipeline has half of the microbatches.
  expect_clean(scheduled(R"({"microbatches": 8, "actions": [["0F0"], ["1F0"]]})"));
}

TEST(ValidateSchedule, Generators) {
  const Diagnostic near = expect_one(scheduled(R"({"generator": "1f1B", "microbatches": 4})"), "there is no schedule `1f1B`");
  EXPECT_NE(near.fix->message.find("`1f1b`"), std::string::npos) << near.fix->message;
  expect_one(scheduled(R"({"generator": "nonsense", "microbatches": 4})"), "there is no schedule");
  expect_one(scheduled(R"({"generator": "interleaved-1f1b", "microbatches": 4})"), "at least 2 stages");
  expect_one(scheduled(R"({"generator": "dualpipe-v", "microbatches": 3})"), "both ways");
  expect_one(scheduled(R"({"generator": "1f1b", "microbatches": 4000000000000})"), "too many actions");
  const auto swapped = findings(document(loop(stage(1)), loop(stage(0)), R"({"generator": "1f1b", "microbatches": 4})"));
  ASSERT_EQ(swapped.size(), 2U);
  EXPECT_NE(swapped.front().message.find("other stages of the model than stage `a` has"), std::string::npos) << swapped.front().message;
  EXPECT_EQ(swapped.front().expected, "stages 0");
  expect_one(document(loop(stage(0, true)), loop(stage(1)), R"({"generator": "zb-h1", "microbatches": 4})"), "the action 1I, which stage `b` does not have");
  expect_one(document(loop(stage(0)), loop(R"({"out": "y", "op": "neg", "in": "x", "action": "1F"})"), R"({"generator": "1f1b", "microbatches": 4})"), "the action 1B, which");
}

TEST(ValidateSchedule, Rows) {
  expect_one(scheduled(R"({"microbatches": 4, "actions": [["0F0"]]})"), "another number of rows");
  expect_one(scheduled(R"({"microbatches": 4, "actions": [["0F0"], ["1F0"], []]})"), "another number of rows");
  const Diagnostic bad = expect_one(scheduled(R"({"microbatches": 4, "actions": [["0F0"], ["1F0", "", "1Q7"]]})"), "row 2, column 3 of the schedule");
  EXPECT_EQ(bad.labels.front().span.end - bad.labels.front().span.begin, 5U);  // "1Q7" with its quotes
  expect_one(scheduled(R"({"microbatches": 4, "actions": [["1F0"], ["1F0"]]})"), "row 1, column 1 of the schedule: stage `a` has no instructions for 1F0");
  expect_one(scheduled(R"({"microbatches": 4, "actions": [["0I0"], ["1F0"]]})"), "no instructions for 0I0");
  expect_one(scheduled(R"({"microbatches": 4, "actions": [["0SEND_F0"], ["1F0"]]})"), "no instructions for 0SEND_F0");
  expect_one(scheduled(R"({"microbatches": 4, "actions": [["1OPT"], ["1F0"]]})"), "no instructions for 1OPT");
  expect_one(scheduled(R"({"microbatches": 4, "actions": [["0UNSHARD", "0F0"], ["1F0"]]})"), "part of no microbatch");
  expect_one(scheduled(R"({"microbatches": 5, "actions": [["0F0"], ["1F0"]]})"), "does not fit the schedule");
}

TEST(ValidateSchedule, Forms) {
  expect_one(scheduled(R"({"generator": "1f1b", "microbatches": 0})"), "no microbatch or no stage");
  expect_one(scheduled(R"({"generator": "1f1b", "microbatches": 4, "virtual_stages": -2})"), "no microbatch or no stage");
  expect_one(scheduled(R"({"generator": "1f1b", "microbatches": 4, "max_in_flight": 0})"), "holds no microbatch", "SP0005");
  expect_one(document("", loop(stage(1)), R"({"generator": "1f1b", "microbatches": 4})"), "no instruction of stage `a`");
  expect_one(document(loop(stage(0)), loop(stage(0)), R"({"generator": "1f1b", "microbatches": 4})"), "both carry actions of model stage 0");
}

TEST(ValidateSchedule, ManyActions) {
  std::string row;
  for (int i = 0; i < 1'000'000; ++i) row += (i == 0 ? "\"0F" : ",\"0F") + std::to_string(i % 4) + "\"";
  expect_clean(scheduled(R"({"microbatches": 4, "actions": [[)" + row + R"(], ["1F0"]]})"));
  expect_one(scheduled(R"({"microbatches": 4, "actions": [[)" + row + "], [" + row + "]]}"), "too many actions", "SP0009");
  // As many faults: a bounded number of findings.
  std::string wrong = row;
  for (char& c : wrong)
    if (c == 'F') c = 'Q';
  EXPECT_LE(findings(scheduled(R"({"microbatches": 4, "actions": [[)" + wrong + R"(], ["1F0"]]})")).size(), 100U);
}

}  // namespace
}  // namespace shardproof::ir

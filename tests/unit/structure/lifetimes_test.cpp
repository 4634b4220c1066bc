// Transfers in flight and released memory, in one program.
#include "tests/unit/structure/plans.h"

namespace shardproof::verifier::structure {
namespace {

const std::string start = R"({"out": "s", "op": "all_reduce", "in": "x", "axes": ["dp"], "reduce": "sum", "async": true})";
const std::string wait = R"({"out": "y", "op": "wait", "in": "s"})";
std::string add(const std::string& out, const std::string& a, const std::string& b) { return R"({"out": ")" + out + R"(", "op": "add", "in": [")" + a + R"(", ")" + b + R"("]})"; }
std::string release(const std::string& values) { return R"({"op": "release", "in": [)" + values + "]}"; }
std::string loop(const std::string& body, const std::string& carry = "") { return R"({"op": "loop", "index": "m", "trip": 4, "carry": [)" + carry + R"(], "body": [)" + body + "]}"; }
std::string list(const std::vector<std::string>& items) {
  std::string all;
  for (const std::string& item : items) all += (all.empty() ? "" : ",\n") + item;
  return all;
}
ir::Document one(const std::vector<std::string>& items) { return plan(R"(["dp", 2])", {{"main", "", list(items)}}); }

// With an output `o`, which shows the reference's `o`.
ir::Document with_output(const std::string& value, const std::vector<std::string>& items) {
  return read(R"({"shardproof": 1, "mesh": [["dp", 2]],
    "reference": {"inputs": [{"name": "x", "type": "f32[8]"}], "state": [{"name": "w", "type": "f32[8]", "next": "w2"}], "outputs": [{"name": "o"}],
                  "body": [{"out": "o", "op": "add", "in": ["x", "x"]}, {"out": "w2", "op": "add", "in": ["w", "w"]}]},
    "inputs": [{"name": "x"}], "state": [{"name": "w", "next": "w2"}], "outputs": [{"name": "o", "value": ")" +
              value + R"("}], "body": [)" + list(items) + "]}");
}

TEST(InFlight, WaitedForIsClean) {
  expect_clean(one({start, add("z", "x", "x"), wait, add("t", "y", "z")}));
  expect_clean(one({start, wait, R"({"out": "again", "op": "wait", "in": "s"})"}));
  expect_clean(one({add("z", "x", "x"), R"({"out": "y", "op": "wait", "in": "z"})"}));
  expect_clean(one({loop(list({start, wait}))}));
  expect_clean(one({start, loop(wait)}));
}

TEST(InFlight, ReadBeforeItsWait) {
  const ir::Diagnostic d = expect_one(one({start, add("z", "s", "x"), wait}), "SP0402");
  EXPECT_EQ(d.subject.value, "s");
  expect_one(one({start, wait, add("z", "s", "x")}), "SP0402");  // only the result of the wait may be read
  expect_one(one({loop(list({start, add("z", "s", "x"), wait}))}), "SP0402");
  expect_one(one({R"({"out": "s", "op": "recv", "type": "f32[8]", "peer": "main", "channel": "c", "async": true})", R"({"op": "send", "in": "x", "peer": "main", "channel": "c"})",
                  add("z", "s", "x"), wait}),
             "SP0402");
}

TEST(InFlight, ReadWithoutAnyWaitIsOneFinding) { expect_one(one({start, add("z", "s", "x"), add("t", "s", "x")}), "SP0402"); }

TEST(InFlight, CarriedByALoop) {
  const std::string carry = R"({"init": "s", "arg": "a", "next": "n", "out": "r"})";
  expect_one(one({start, loop(add("n", "a", "x"), carry), wait}), "SP0402");
  const std::string started_inside = R"({"out": "n", "op": "all_reduce", "in": "a", "axes": ["dp"], "reduce": "sum", "async": true})";
  expect_one(one({loop(started_inside, R"({"init": "x", "arg": "a", "next": "n", "out": "r"})")}), "SP0402");
}

TEST(InFlight, ResultOfTheStep) {
  const std::string w2 = add("w2", "w", "w"), sum = R"({"out": "o2", "op": "all_reduce", "in": "x", "axes": ["dp"], "reduce": "sum", "async": true})";
  expect_one(with_output("o2", {w2, sum}), "SP0402");
  expect_one(with_output("o", {add("o", "x", "x"), R"({"out": "w2", "op": "all_reduce", "in": "w", "axes": ["dp"], "reduce": "sum", "async": true})"}), "SP0402");
  expect_clean(with_output("o", {w2, sum, R"({"out": "o", "op": "wait", "in": "o2"})"}));
}

TEST(InFlight, NeverWaitedFor) {
  expect_one(one({start}), "SP0404");
  expect_one(one({loop(start)}), "SP0404");
  // Inner loops have ended, the outer one goes on.
  const ir::Diagnostic d = expect_one(one({loop(list({start, R"({"op": "loop", "index": "n", "trip": 2, "carry": [], "body": []})"}))}), "SP0404");
  EXPECT_NE(d.message.find("an iteration of loop `m`"), std::string::npos) << d.message;
  // One of two.
  const std::string other = R"({"out": "s2", "op": "all_reduce", "in": "x", "axes": ["dp"], "reduce": "sum", "async": true})";
  EXPECT_EQ(expect_one(one({start, other, wait}), "SP0404").subject.value, "s2");
}

TEST(InFlight, ManyPlacesAreOneFinding) {
  std::vector<std::string> items;
  for (int i = 0; i < 50; ++i) items.push_back(R"({"out": "s)" + std::to_string(i) + R"(", "op": "all_reduce", "in": "x", "axes": ["dp"], "reduce": "sum", "async": true})");
  EXPECT_EQ(expect_one(one(items), "SP0404").places, 50);
}

TEST(Released, AfterTheLastUseIsClean) {
  expect_clean(one({add("z", "x", "x"), add("t", "z", "x"), release(R"("z")")}));
  expect_clean(one({loop(list({add("z", "x", "x"), add("t", "z", "x"), release(R"("z", "t")")}))}));
  expect_clean(one({start, wait, add("z", "y", "x"), release(R"("x", "y")")}));
}

TEST(Released, UsedAfterwards) {
  const ir::Diagnostic d = expect_one(one({add("z", "x", "x"), release(R"("z")"), add("t", "z", "x")}), "SP0403");
  EXPECT_EQ(d.labels.size(), 2U);
  expect_one(one({add("z", "x", "x"), release(R"("z")"), release(R"("z")")}), "SP0403");
  expect_one(one({add("z", "x", "x"), release(R"("z", "z")")}), "SP0403");
  expect_one(with_output("o", {add("o", "x", "x"), add("w2", "w", "w"), release(R"("o")")}), "SP0403");
  expect_one(with_output("o", {add("o", "x", "x"), add("w2", "w", "w"), release(R"("w2")")}), "SP0403");
  // The entry value of a state is free once its successor is there.
  expect_clean(with_output("o", {add("o", "x", "x"), add("w2", "w", "w"), release(R"("w")")}));
}

TEST(Released, InLoops) {
  // The second iteration reads it.
  expect_one(one({add("z", "x", "x"), loop(list({add("t", "z", "x"), release(R"("z")")}))}), "SP0403");
  const std::string carry = R"({"init": "x", "arg": "a", "next": "n", "out": "r"})";
  expect_one(one({loop(list({add("n", "a", "x"), release(R"("n")")}), carry)}), "SP0403");
  expect_clean(one({loop(list({add("n", "a", "x"), release(R"("a")")}), carry)}));
  expect_one(one({add("z", "x", "x"), release(R"("z")"), loop(add("n", "a", "x"), R"({"init": "z", "arg": "a", "next": "n", "out": "r"})")}), "SP0403");
  expect_one(one({add("z", "x", "x"), release(R"("z")"), loop(add("n", "z", "x"))}), "SP0403");
}

TEST(Released, UnderATransfer) {
  expect_one(one({add("z", "x", "x"), R"({"out": "s", "op": "all_reduce", "in": "z", "axes": ["dp"], "reduce": "sum", "async": true})", release(R"("z")"), wait}), "SP0403");
  expect_one(one({start, release(R"("s")"), add("z", "x", "x")}), "SP0403");
  // A send has no wait: its operand is read until the step ends.
  const std::string take = R"({"out": "r", "op": "recv", "type": "f32[8]", "peer": "main", "channel": "c"})";
  expect_one(one({add("z", "x", "x"), R"({"op": "send", "in": "z", "peer": "main", "channel": "c", "async": true})", release(R"("z")"), take}), "SP0403");
  expect_clean(one({R"({"op": "send", "in": "x", "peer": "main", "channel": "c", "async": true})", take, release(R"("r")")}));
}

TEST(Released, TheResultOfAWaitIsThatOfItsTransfer) {
  expect_one(one({start, wait, release(R"("s")"), add("z", "y", "x")}), "SP0403");
  expect_one(one({start, wait, release(R"("s")"), release(R"("y")")}), "SP0403");
  expect_clean(one({start, wait, add("z", "y", "x"), release(R"("s")")}));
}

}  // namespace
}  // namespace shardproof::verifier::structure

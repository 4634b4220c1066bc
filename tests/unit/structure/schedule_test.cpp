// Schedules of pipelines: right ones are clean, each fault is found once and with its code.
#include "verifier/structure/schedule.h"

#include <chrono>

#include "tests/unit/structure/pipeline_plans.h"
#include "verifier/structure/schedule_summary.h"

namespace shardproof::verifier::structure {
namespace {

struct Kind {
  const char* generator;
  std::int64_t virtual_stages;
  bool split;
};
const std::vector<Kind> kinds = {{"gpipe", 1, false}, {"1f1b", 1, false}, {"1f1b", 2, false}, {"interleaved-1f1b", 3, false}, {"looped-bfs", 2, false}, {"zb-h1", 1, true},
                                 {"zb-h2", 1, true},  {"zb-v", 2, true},  {"dualpipe", 2, true}, {"dualpipe-v", 2, true}};

TEST(Schedule, GeneratedOnesAreRight) {
  for (const Kind& kind : kinds)
    for (const std::int64_t ranks : {1, 2, 3, 4})
      for (const std::int64_t rounds : {1, 2, 3})
        for (const bool one_sum : {false, true}) {
          Pipeline p{kind.generator, {ranks, kind.virtual_stages, ranks * rounds}, kind.split};
          p.one_sum = one_sum;
          if (ir::size_problem(p.info(), p.size)) continue;
          SCOPED_TRACE(std::string(kind.generator) + " on " + std::to_string(ranks) + " ranks, " + std::to_string(p.size.microbatches) + " microbatches");
          expect_clean(pipeline(p, generated(p)));
          expect_clean(pipeline(p, explicit_rows(rows_of(p), p.size.microbatches)));
          // A split backward pass may also run whole: what a schedule without I and W says.
          if (kind.split || kind.generator == std::string("dualpipe")) continue;
          p.split = true;
          expect_clean(pipeline(p, generated(p)));
        }
}

// A schedule is what ranks do: synchronous sends wait for a receiver who waits for another message.
TEST(Schedule, OrderOfActionsDecidesWhoWaitsForWhom) {
  Pipeline p{"1f1b", {2, 1, 4}};
  p.async_sends = false;
  EXPECT_EQ(codes(check(pipeline(p, generated(p))).violations), std::vector<std::string>{"SP0302"});
  // One microbatch after the other is a right order for them, and the order of the loop.
  const Rows in_turn = {{"0F0", "0B0", "0F1", "0B1", "0F2", "0B2", "0F3", "0B3"}, {"1F0", "1B0", "1F1", "1B1", "1F2", "1B2", "1F3", "1B3"}};
  expect_clean(pipeline(p, explicit_rows(in_turn, 4)));
  expect_clean(pipeline(p, ""));
  // All forward passes first go well too; backward passes in another order than the other rank's do not.
  p.generator = "gpipe";
  expect_clean(pipeline(p, generated(p)));
  const Rows turned = {{"0F0", "0F1", "0F2", "0F3", "0B0", "0B1", "0B2", "0B3"}, {"1F0", "1F1", "1F2", "1F3", "1B3", "1B2", "1B1", "1B0"}};
  const ir::Diagnostic d = expect_one(pipeline(p, explicit_rows(turned, 4)), "SP0303");
  EXPECT_NE(d.message.find("in another order than they are sent"), std::string::npos) << d.message;
  p.async_sends = true;
  expect_one(pipeline(p, explicit_rows(turned, 4)), "SP0303");
}

TEST(Schedule, RanksThatWaitInACircle) {
  const Pipeline p{"1f1b", {2, 1, 2}};
  const Rows rows = {{"0F0", "0B0", "0F1", "0B1"}, {"1F0", "1F1", "1B0", "1B1"}};
  const ir::Diagnostic d = expect_one(pipeline(p, explicit_rows(rows, 2)), "SP0302");
  bool placed = false;
  for (const ir::Label& label : d.labels) placed = placed || label.text.find("in iteration m=") != std::string::npos;
  EXPECT_TRUE(placed);
}

TEST(ScheduleCoverage, MissingTwiceAndBeyond) {
  const Pipeline p{"1f1b", {2, 1, 4}};
  const auto with = [&](const std::function<void(Rows&)>& edit) {
    Rows rows = rows_of(p);
    edit(rows);
    return pipeline(p, explicit_rows(rows, 4));
  };
  const ir::Diagnostic missing = expect_one(with([](Rows& rows) { std::erase(rows[1], "1B2"); }), "SP0310");
  EXPECT_EQ(missing.message, "stage `r1` never runs 1B2");
  EXPECT_EQ(missing.expected, "each of 1B0 to 1B3 once");
  const ir::Diagnostic none = expect_one(with([](Rows& rows) { std::erase_if(rows[1], [](const std::string& a) { return a[1] == 'B'; }); }), "SP0310");
  EXPECT_EQ(none.message, "stage `r1` never runs 1B0, nor 3 more of its 4 actions 1B");
  const ir::Diagnostic twice = expect_one(with([](Rows& rows) { rows[0].push_back("0F3"); }), "SP0310");
  EXPECT_EQ(twice.message, "stage `r0` runs 0F3 twice");
  EXPECT_EQ(twice.labels.size(), 2U);
  const ir::Diagnostic beyond = expect_one(with([](Rows& rows) { rows[0].push_back("0F4"); }), "SP0310");
  EXPECT_EQ(beyond.message, "stage `r0` runs 0F4, and its loop ends with microbatch 3");
  // One for another is two faults.
  const Findings both = check(with([](Rows& rows) { *std::find(rows[0].begin(), rows[0].end(), "0F3") = "0F1"; }));
  EXPECT_EQ(codes(both.violations), (std::vector<std::string>{"SP0310", "SP0310"}));
  // A generator for other microbatches than the loop has.
  Pipeline longer = p;
  longer.trip = "5";
  EXPECT_EQ(codes(check(pipeline(longer, generated(p))).violations), std::vector<std::string>{"SP0310"});
  longer.trip = "1000000000000";
  EXPECT_EQ(codes(check(pipeline(longer, generated(p))).violations), std::vector<std::string>{"SP0310"});
  longer.trip = "3";
  EXPECT_EQ(codes(check(pipeline(longer, generated(p))).violations), std::vector<std::string>{"SP0310"});
}

TEST(ScheduleCoverage, AWholeBackwardPassIsBothHalves) {
  const Pipeline p{"zb-h1", {2, 1, 3}, true};
  Rows rows = {{"0F0", "0F1", "0F2", "0I0", "0W0", "0B1", "0I2", "0W2"}, {"1F0", "1B0", "1F1", "1B1", "1F2", "1I2", "1W2"}};
  expect_clean(pipeline(p, explicit_rows(rows, 3)));
  rows[1].push_back("1W1");
  EXPECT_EQ(expect_one(pipeline(p, explicit_rows(rows, 3)), "SP0310").message, "stage `r1` runs 1W1 twice");
}

TEST(ScheduleOrder, ValuesAreThereBeforeTheyAreRead) {
  const Pipeline p{"1f1b", {1, 1, 2}};
  const ir::Diagnostic d = expect_one(pipeline(p, explicit_rows({{"0B0", "0F0", "0F1", "0B1"}}, 2)), "SP0311");
  EXPECT_EQ(d.message, "stage `r0` runs 0B0 before 0F0, and it reads `y0` of it");
  EXPECT_EQ(d.expected, "0F0 before 0B0");
  EXPECT_EQ(d.found, "row 1, column 1: 0B0; row 1, column 2: 0F0");
  expect_one(pipeline(p, explicit_rows({{"0F0", "0B0", "(0B1;0F1)OVERLAP_F_B"}}, 2)), "SP0311");
  expect_clean(pipeline(p, explicit_rows({{"0F0", "0B0", "(0F1;0B1)OVERLAP_F_B"}}, 2)));
  const Pipeline zb{"zb-h1", {1, 1, 2}, true};
  expect_one(pipeline(zb, explicit_rows({{"0F0", "0W0", "0I0", "0F1", "0B1"}}, 2)), "SP0311");
  // Stages of one rank hand values on without a message.
  const Pipeline v{"zb-v", {1, 2, 1}, true};
  expect_clean(pipeline(v, explicit_rows({{"0F0", "1F0", "1I0", "0I0", "0W0", "1W0"}}, 1)));
  expect_one(pipeline(v, explicit_rows({{"1F0", "0F0", "1I0", "0I0", "0W0", "1W0"}}, 1)), "SP0311");
  expect_one(pipeline(v, explicit_rows({{"0F0", "1F0", "0I0", "1I0", "0W0", "1W0"}}, 1)), "SP0311");
}

// One rank, with the loop `body` and `carry`, run by `row`.
ir::Document one_rank(const std::string& body, const std::string& carry, const std::string& row) {
  return plan(R"(["pp", 1])",
              {{"only", "", R"({"out": "zero", "op": "constant", "value": 0, "type": "f32[8]"}, {"op": "loop", "index": "m", "trip": 2, "carry": [)" + carry + R"(], "body": [)" + body + "]}"}},
              R"(, "schedule": {"microbatches": 2, "actions": [[)" + row + "]]}");
}
std::string op(const std::string& name, const std::string& out, const std::string& in, const std::string& action) {
  return R"({"out": ")" + out + R"(", "op": ")" + name + R"(", "in": [)" + in + R"(], "action": ")" + action + "\"}";
}
std::string sum(const std::string& arg, const std::string& next) { return R"({"init": "zero", "arg": ")" + arg + R"(", "next": ")" + next + R"(", "out": "total_)" + arg + "\"}"; }
const std::string kRow = R"("0F0", "0F1", "0B0", "0B1")";

TEST(ScheduleOrder, MemoryIsReleasedAfterItsLastUse) {
  const auto body = [](const std::string& released, const std::string& read) {
    return op("neg", "y", R"("x")", "0F") + "," + op("neg", "z", R"("y")", read) + R"(, {"op": "release", "in": ["y"], "action": ")" + released + R"("}, )" + op("neg", "u", R"("x")", "0B");
  };
  expect_clean(one_rank(body("0B", "0F"), "", kRow));
  // The release stands behind the last use in the text, and runs before it.
  const ir::Diagnostic d = expect_one(one_rank(body("0F", "0B"), "", kRow), "SP0311");
  EXPECT_NE(d.message.find("it releases `y`"), std::string::npos) << d.message;
  // A collective reads its operand until its wait.
  const std::string begin = op("neg", "y", R"("x")", "0F") + R"(, {"out": "s", "op": "all_reduce", "in": "y", "axes": "pp", "reduce": "sum", "async": true, "action": "0F"}, {"out": "w", "op": "wait", "in": "s", "action": "0B"}, {"op": "release", "in": ["y"], "action": ")";
  expect_clean(one_rank(begin + "0B\"}", "", kRow));
  expect_one(one_rank(begin + "0F\"}", "", kRow), "SP0311");
}

TEST(ScheduleCarry, SumsHaveNoOrder) {
  const std::string gradient = op("neg", "g", R"("x")", "0F");
  expect_clean(one_rank(gradient + "," + op("add", "t", R"("s", "g")", "0B"), sum("s", "t"), kRow));
  expect_clean(one_rank(gradient + "," + op("add", "t", R"("g", "s")", "0B"), sum("s", "t"), kRow));
  expect_clean(one_rank(gradient + "," + op("add", "t", R"("g", "s", "g")", "0B"), sum("s", "t"), kRow));
  expect_clean(one_rank(gradient + "," + op("add", "t", R"("s", "g")", "0B") + R"(, {"op": "release", "in": ["s"], "action": "0B"})", sum("s", "t"), kRow));
  // Two actions add to one sum, in an order that is not that of the text.
  const std::string two = gradient + "," + op("add", "t", R"("s", "g")", "0B") + "," + op("neg", "h", R"("x")", "1F") + "," + op("add", "u", R"("t", "h")", "1B");
  expect_clean(one_rank(two, sum("s", "u"), R"("0F0", "1F0", "1B0", "0B0", "0F1", "0B1", "1F1", "1B1")"));
  // What never changes, or is the same in each iteration, has no order either.
  expect_clean(one_rank(gradient + "," + op("mul", "t", R"("s", "g")", "0B"), sum("s", "s"), kRow));
  expect_clean(one_rank(gradient + "," + op("neg", "t", R"("g")", "0B"), sum("s", "x"), kRow));
}

TEST(ScheduleCarry, ProductsAndMaximaHaveNoneEither) {
  const std::string gradient = op("neg", "g", R"("x")", "0F"), turned = R"("0F0", "0F1", "0B1", "0B0")";
  for (const char* name : {"add", "sub", "mul", "max", "min"}) expect_clean(one_rank(gradient + "," + op(name, "t", R"("s", "g")", "0B"), sum("s", "t"), turned));
  const std::string mixed = gradient + "," + op("mul", "t", R"("s", "g")", "0B") + "," + op("add", "u", R"("t", "g")", "0B");
  expect_one(one_rank(mixed, sum("s", "u"), turned), "SP0312");
  expect_one(one_rank(gradient + "," + op("sub", "t", R"("g", "s")", "0B"), sum("s", "t"), turned), "SP0312");
  expect_one(one_rank(gradient + "," + op("div", "t", R"("s", "g")", "0B"), sum("s", "t"), turned), "SP0312");
}

TEST(ScheduleCarry, AnythingElseKeepsTheOrderOfTheLoop) {
  const std::string gradient = op("neg", "g", R"("x")", "0F");
  const std::string add = op("add", "t", R"("s", "g")", "0B");
  const auto check_both = [&](const std::string& body, const std::string& carry, bool in_order_is_right = true) {
    SCOPED_TRACE(body);
    if (in_order_is_right) expect_clean(one_rank(body, carry, kRow));
    else expect_one(one_rank(body, carry, kRow), "SP0312");
    const Findings turned = check(one_rank(body, carry, R"("0F0", "0F1", "0B1", "0B0")"));
    ASSERT_FALSE(turned.violations.empty());
    for (const ir::Diagnostic& d : turned.violations) EXPECT_EQ(d.code, "SP0312") << text(turned.violations);
  };
  check_both(gradient + "," + op("sub", "t", R"("g", "s")", "0B"), sum("s", "t"));
  check_both(gradient + "," + op("neg", "t", R"("g")", "0B"), sum("s", "t"));                                   // the last iteration decides
  check_both(gradient + "," + add + "," + op("neg", "u", R"("s")", "0B"), sum("s", "t"));                       // reads what is there so far
  check_both(gradient + "," + add + "," + op("neg", "u", R"("t")", "0B"), sum("s", "t"));                       // likewise, after the addition
  check_both(gradient + "," + add + "," + op("add", "u", R"("t", "t")", "0B"), sum("s", "u"));                  // doubles it
  check_both(gradient + "," + op("add", "t", R"("s")", "0B"), sum("s", "t"));                                   // adds nothing
  check_both(gradient + "," + add + "," + op("add", "u", R"("t", "g")", "0B"), sum("s", "t"));                  // the sum goes on, and not into `next`
  check_both(gradient + "," + op("add", "t", R"("s", "r")", "0B"), sum("s", "t") + "," + sum("r", "t"));        // each adds the other
  check_both(gradient + "," + add + "," + op("add", "u", R"("r", "t")", "0B"), sum("s", "t") + "," + sum("r", "u"));
  check_both(gradient + "," + add, sum("s", "t") + "," + sum("r", "t"));
  check_both(gradient + "," + add, sum("s", "t") + "," + sum("r", "s"), false);                                 // the sum of the iteration before
  const std::string inside = R"({"op": "loop", "index": "l", "trip": 2, "action": "0B", "carry": [], "body": [{"out": "u", "op": "neg", "in": "s"}]})";
  check_both(gradient + "," + add + "," + inside, sum("s", "t"));
}

// Where a sum is not one, its parts have the order of the text.
TEST(ScheduleCarry, PartsOfASumThatIsReadAreNoAccumulator) {
  const std::string parts = op("neg", "g", R"("x")", "0F") + "," + op("add", "t", R"("s", "g")", "0B") + "," + op("add", "u", R"("t", "g")", "1B") + "," + op("neg", "v", R"("u")", "1B");
  expect_clean(one_rank(parts, sum("s", "u"), R"("0F0", "0B0", "1B0", "0F1", "0B1", "1B1")"));
  expect_one(one_rank(parts, sum("s", "u"), R"("0F0", "1B0", "0B0", "0F1", "1B1", "0B1")"), "SP0311");
  // A part that another loop-carried value takes over is read.
  const std::string taken = op("neg", "g", R"("x")", "0F") + "," + op("add", "t", R"("s", "g")", "0B") + "," + op("add", "u", R"("t", "g")", "1B");
  expect_one(one_rank(taken, sum("s", "u") + "," + sum("r", "t"), R"("0F0", "1B0", "0B0", "0F1", "1B1", "0B1")"), "SP0311");
  expect_clean(one_rank(taken, sum("s", "u"), R"("0F0", "1B0", "0B0", "0F1", "1B1", "0B1")"));
}

TEST(ScheduleCarry, WithoutAScheduleTheLoopHasItsOrder) {
  const std::string body = op("neg", "g", R"("x")", "0F") + "," + op("mul", "t", R"("s", "g")", "0B");
  const std::string text = R"({"out": "zero", "op": "constant", "value": 0, "type": "f32[8]"}, {"op": "loop", "index": "m", "trip": 2, "carry": [)" + sum("s", "t") + R"(], "body": [)" + body + "]}";
  expect_clean(plan(R"(["pp", 1])", {{"only", "", text}}));
}

TEST(ScheduleInFlight, PeaksAndBound) {
  const auto peaks = [](const Pipeline& p) { return check(pipeline(p, generated(p))).schedule->in_flight; };
  EXPECT_EQ(peaks({"1f1b", {4, 1, 8}}), (std::vector<std::int64_t>{4, 3, 2, 1}));
  EXPECT_EQ(peaks({"gpipe", {4, 1, 8}}), (std::vector<std::int64_t>{8, 8, 8, 8}));
  EXPECT_EQ(peaks({"zb-h2", {3, 1, 8}, true}), (std::vector<std::int64_t>{5, 5, 5}));
  EXPECT_EQ(peaks({"dualpipe", {4, 2, 8}, true}), (std::vector<std::int64_t>{5, 5, 5, 5}));
  const Pipeline p{"1f1b", {4, 1, 8}};
  expect_clean(pipeline(p, generated(p, R"(, "max_in_flight": 4)")));
  const ir::Diagnostic d = expect_one(pipeline(p, generated(p, R"(, "max_in_flight": 3)")), "SP0313");
  EXPECT_EQ(d.message, "stage `r0` holds the activations of 4 microbatches at 0F3, more than the plan allows");
  EXPECT_EQ(d.found, "4 at row 1, column 4");
  EXPECT_EQ(check(pipeline(p, generated(p, R"(, "max_in_flight": 2)"))).violations.front().places, 2);
}

TEST(ScheduleWeights, AsynchronousOnesAreNotTheReference) {
  const Pipeline p{"pipedream", {4, 1, 8}};
  const ir::Diagnostic d = expect_one(pipeline(p, generated(p)), "SP0314");
  EXPECT_NE(d.message.find("stage 0 computes with weights up to 3 updates behind, first for microbatch 1"), std::string::npos) << d.message;
  ASSERT_EQ(d.notes.size(), 4U);
  EXPECT_NE(d.notes[2].find("up to 1 update behind"), std::string::npos) << d.notes[2];
  EXPECT_NE(d.notes[3].find("no gradient is behind; the forward pass of microbatch 1 is the first with other weights"), std::string::npos) << d.notes[3];
  EXPECT_NE(d.notes[0].find("the forward pass of microbatch 4 is the first"), std::string::npos) << d.notes[0];
}

TEST(ScheduleWeights, AnUpdateAfterTheLastBackwardIsTheStep) {
  const Pipeline p{"1f1b", {2, 1, 2}};
  Rows rows = rows_of(p);
  rows[0].push_back("0OPT");
  rows[1].push_back("1OPT");
  expect_clean(pipeline(p, explicit_rows(rows, 2)));
  rows[1] = {"1F0", "1B0", "1F1", "1OPT", "1B1"};
  const ir::Diagnostic d = expect_one(pipeline(p, explicit_rows(rows, 2)), "SP0314");
  EXPECT_NE(d.message.find("stage 1 computes with weights up to 1 update behind, first for microbatch 1"), std::string::npos) << d.message;
  EXPECT_EQ(d.found, "row 2, column 4: 1OPT; row 2, column 5: 1B1");
}

// Messages labelled by themselves, as in PyTorch's tables with communication.
TEST(Schedule, SendsAndReceivesMayBeActions) {
  const std::string first = R"({"op": "loop", "index": "m", "trip": 2, "carry": [], "body": [{"out": "y", "op": "neg", "in": "x", "action": "0F"},
    {"op": "send", "in": "y", "peer": "b", "channel": "act", "number": "m", "action": "0SEND_F"}]})";
  const std::string second = R"({"op": "loop", "index": "m", "trip": 2, "carry": [], "body": [{"out": "x1", "op": "recv", "type": "f32[8]", "peer": "a", "channel": "act", "number": "m", "action": "1RECV_F"},
    {"out": "y", "op": "neg", "in": "x1", "action": "1F"}]})";
  const auto run = [&](const std::string& a, const std::string& b) {
    return plan(R"(["pp", 2])", {{"a", R"("pp": [0])", first}, {"b", R"("pp": [1])", second}}, R"(, "schedule": {"microbatches": 2, "actions": [[)" + a + "], [" + b + "]]}");
  };
  expect_clean(run(R"("0F0", "0F1", "0SEND_F0", "0SEND_F1")", R"("1RECV_F0", "1RECV_F1", "1F0", "1F1")"));
  expect_one(run(R"("0F0", "0F1", "0SEND_F1", "0SEND_F0")", R"("1RECV_F0", "1RECV_F1", "1F0", "1F1")"), "SP0303");
  expect_clean(run(R"("0F0", "0F1", "0SEND_F1", "0SEND_F0")", R"("1RECV_F1", "1RECV_F0", "1F0", "1F1")"));
  expect_one(run(R"("0F0", "0SEND_F0", "0SEND_F1", "0F1")", R"("1RECV_F0", "1RECV_F1", "1F0", "1F1")"), "SP0311");
  expect_one(run(R"("0F0", "0F1", "0SEND_F0")", R"("1RECV_F0", "1RECV_F1", "1F0", "1F1")"), "SP0310");
}

// A wait ends the transfer of its own microbatch, whatever was started since.
TEST(Schedule, WaitsOfOneMicrobatch) {
  const std::string first = R"({"op": "loop", "index": "m", "trip": 2, "carry": [], "body": [{"op": "send", "in": "x", "peer": "b", "channel": "act", "number": "m", "action": "0F"},
    {"out": "d", "op": "recv", "type": "f32[8]", "peer": "b", "channel": "grad", "number": "m", "action": "0B"}]})";
  const std::string second = R"({"op": "loop", "index": "m", "trip": 2, "carry": [], "body": [{"out": "x1", "op": "recv", "type": "f32[8]", "peer": "a", "channel": "act", "number": "m", "async": true, "action": "1RECV_F"},
    {"out": "x2", "op": "wait", "in": "x1", "action": "1F"}, {"op": "send", "in": "x2", "peer": "a", "channel": "grad", "number": "m", "action": "1B"}]})";
  const auto run = [&](const std::string& a, const std::string& b) {
    return plan(R"(["pp", 2])", {{"a", R"("pp": [0])", first}, {"b", R"("pp": [1])", second}}, R"(, "schedule": {"microbatches": 2, "actions": [[)" + a + "], [" + b + "]]}");
  };
  // The second receive is under way while the first is waited for; the sender sends the second after the first gradient.
  expect_clean(run(R"("0F0", "0B0", "0F1", "0B1")", R"("1RECV_F0", "1RECV_F1", "1F0", "1B0", "1F1", "1B1")"));
  expect_one(run(R"("0F0", "0B0", "0F1", "0B1")", R"("1RECV_F0", "1RECV_F1", "1F1", "1F0", "1B0", "1B1")"), "SP0302");
}

TEST(Schedule, StatesItsSlots) {
  const auto slots = [](const Pipeline& p) { return *check(pipeline(p, generated(p))).schedule->slots; };
  EXPECT_EQ(slots({"1f1b", {4, 1, 8}}).idle, 4 * 6);
  EXPECT_EQ(slots({"1f1b", {4, 1, 8}}).all, 4 * 22);
  EXPECT_EQ(slots({"zb-h1", {4, 1, 8}, true}).idle, 4 * 3);
  EXPECT_EQ(slots({"interleaved-1f1b", {4, 2, 8}}).idle, 4 * 6);
  EXPECT_FALSE(check(pipeline({"1f1b", {2, 1, 4}}, "")).schedule.has_value());
  // What messages say is what the generator says.
  for (const Kind& kind : kinds) {
    const Pipeline p{kind.generator, {4, kind.virtual_stages, 8}, kind.split};
    const ir::ScheduleTable order = lowering::generate_schedule(p.info(), p.size);
    EXPECT_EQ(slots(p).idle, lowering::lay_out(order, lowering::needs_of(p.info(), p.size, order))->idle) << kind.generator;
  }
}

TEST(Schedule, CostDoesNotGrowWithTheWorld) {
  Pipeline p{"zb-v", {16, 2, 192}, true};
  p.more_mesh = R"(, ["dp", 128], ["tp", 8])";
  const ir::Document document = pipeline(p, generated(p));
  const auto start = std::chrono::steady_clock::now();
  const Findings found = check(document);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(text(found.violations) + text(found.undecided), "");
  RecordProperty("milliseconds", static_cast<int>(seconds * 1000));
  EXPECT_LT(seconds, 2.0);  // 0.06 s on one core that does nothing else
}

TEST(Schedule, HostileRowsEnd) {
  const Pipeline p{"1f1b", {1, 1, 4}};
  Rows rows(1);
  for (int i = 0; i < 1'000'000; ++i) rows[0].push_back((i % 2 == 0 ? "0F" : "0B") + std::to_string(i % 8 / 2));
  EXPECT_EQ(codes(check(pipeline(p, explicit_rows(rows, 4))).violations), std::vector<std::string>{"SP0310"});
  // Right, and long: 2^18 microbatches on two ranks.
  Pipeline large{"gpipe", {2, 1, 1 << 17}};
  const Findings found = check(pipeline(large, generated(large)));
  EXPECT_EQ(text(found.violations), "");
}

}  // namespace
}  // namespace shardproof::verifier::structure

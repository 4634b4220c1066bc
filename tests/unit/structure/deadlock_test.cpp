// Circles of waits between stages, and orders that look like one and are none.
#include "tests/unit/structure/plans.h"

namespace shardproof::verifier::structure {
namespace {

std::string all_reduce(const std::string& out, const std::string& axes, const std::string& more = "") {
  return R"({"out": ")" + out + R"(", "op": "all_reduce", "in": "x", "axes": [)" + axes + R"(], "reduce": "sum")" + more + "}";
}
std::string wait(const std::string& out, const std::string& in) { return R"({"out": ")" + out + R"(", "op": "wait", "in": ")" + in + "\"}"; }
std::string send(const std::string& peer, const std::string& channel, const std::string& more = "") {
  return R"({"op": "send", "in": "x", "peer": ")" + peer + R"(", "channel": ")" + channel + "\"" + more + "}";
}
std::string recv(const std::string& out, const std::string& peer, const std::string& channel, const std::string& more = "") {
  return R"({"out": ")" + out + R"(", "op": "recv", "type": "f32[8]", "peer": ")" + peer + R"(", "channel": ")" + channel + "\"" + more + "}";
}
std::string list(const std::vector<std::string>& items) {
  std::string all;
  for (const std::string& item : items) all += (all.empty() ? "" : ",\n") + item;
  return all;
}
const std::string async = R"(, "async": true)";

ir::Document two(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return plan(R"(["pp", 2], ["tp", 4])", {{"a", R"("pp": [0])", list(a)}, {"b", R"("pp": [1])", list(b)}});
}

TEST(Deadlock, HeadToHead) {
  const ir::Diagnostic d = expect_one(two({send("b", "f"), recv("g", "b", "g")}, {send("a", "g"), recv("f", "a", "f")}), "SP0302");
  EXPECT_EQ(d.found, "pp=0 -> pp=1 -> pp=0");
  EXPECT_EQ(d.labels.size(), 2U);
  ASSERT_EQ(d.notes.size(), 2U);
  EXPECT_NE(d.notes[0].find("ranks pp=0 (stage `a`) wait in"), std::string::npos) << d.notes[0];
  EXPECT_NE(d.notes[0].find("for ranks pp=1 (stage `b`)"), std::string::npos) << d.notes[0];
  EXPECT_NE(d.notes[1].find("for ranks pp=0 (stage `a`)"), std::string::npos) << d.notes[1];
}

TEST(Deadlock, MessagesThatMeet) {
  expect_clean(two({send("b", "f"), recv("g", "b", "g")}, {recv("f", "a", "f"), send("a", "g")}));
  // Both receive first.
  expect_one(two({recv("g", "b", "g"), send("b", "f")}, {recv("f", "a", "f"), send("a", "g")}), "SP0302");
  // One of the sends does not wait.
  expect_clean(two({send("b", "f", async), recv("g", "b", "g")}, {send("a", "g"), recv("f", "a", "f")}));
  expect_clean(two({recv("g0", "b", "g", async), send("b", "f"), wait("g", "g0")}, {send("a", "g"), recv("f", "a", "f")}));
  // Waiting for it at once is the same as not starting it early.
  expect_one(two({recv("g0", "b", "g", async), wait("g", "g0"), send("b", "f")}, {recv("f", "a", "f"), send("a", "g")}), "SP0302");
}

TEST(Deadlock, TwoMessagesOfOneChannelCannotOvertake) {
  expect_one(two({send("b", "f"), send("b", "g")}, {recv("g", "a", "g"), recv("f", "a", "f")}), "SP0302");
  expect_clean(two({send("b", "f", async), send("b", "g")}, {recv("g", "a", "g"), recv("f", "a", "f")}));
}

TEST(Deadlock, AStreamIsAQueue) {
  const std::string on = R"(, "async": true, "stream": "s")";
  // The second send is behind the first one, which nobody takes until the second has arrived.
  expect_one(two({send("b", "f", on), send("b", "g", on), recv("h", "b", "h")}, {recv("g", "a", "g"), recv("f", "a", "f"), send("a", "h")}), "SP0302");
  expect_clean(two({send("b", "f", on), send("b", "g", async), recv("h", "b", "h")}, {recv("g", "a", "g"), recv("f", "a", "f"), send("a", "h")}));
}

TEST(Deadlock, StreamsOfTwoRanksInOppositeOrders) {
  // Everything is started; nothing can end: what is first on the stream of one is second on that of the other.
  const std::string on = R"(, "async": true, "stream": "s")";
  const ir::Diagnostic d = expect_one(two({send("b", "f", on), all_reduce("u", R"("pp")", on), wait("w", "u")},
                                          {all_reduce("u", R"("pp")", on), recv("f0", "a", "f", on), wait("f", "f0"), wait("w", "u")}),
                                      "SP0302");
  EXPECT_NE(d.message.find("pp=0"), std::string::npos) << d.message;
  EXPECT_NE(text({d}).find("on stream `s` of ranks pp=1 (stage `b`)"), std::string::npos) << text({d});
  expect_clean(two({send("b", "f", on), all_reduce("u", R"("pp")", on), wait("w", "u")}, {recv("f0", "a", "f", on), all_reduce("u", R"("pp")", on), wait("f", "f0"), wait("w", "u")}));
}

TEST(Deadlock, ACollectiveWithinAStageStandsBehindOthersOnItsStream) {
  const auto stages = [](const std::string& stream) {
    const std::string inside = all_reduce("v", R"("tp")", R"(, "async": true, "stream": ")" + stream + "\"");
    return two({recv("f", "b", "f"), all_reduce("u", R"("pp")")}, {all_reduce("u", R"("pp")", R"(, "async": true, "stream": "s")"), inside, wait("y", "v"), send("a", "f"), wait("w", "u")});
  };
  const ir::Diagnostic d = expect_one(stages("s"), "SP0302");
  EXPECT_NE(text({d}).find("the wait for %v"), std::string::npos) << text({d});
  expect_clean(stages("t"));
}

TEST(Deadlock, ToItself) {
  const ir::Diagnostic d = expect_one(plan(R"(["dp", 2])", {{"main", "", list({send("main", "c"), recv("y", "main", "c")})}}), "SP0302");
  EXPECT_NE(d.message.find("wait for themselves"), std::string::npos) << d.message;
  expect_clean(plan(R"(["dp", 2])", {{"main", "", list({send("main", "c", async), recv("y", "main", "c")})}}));
}

// Two groups that overlap in one stage each: rows and columns of a mesh of stages.
TEST(Deadlock, AcrossGroups) {
  const auto grid = [](const std::string& first, const std::string& second, bool last_turned) {
    const auto at = [](int p, int q) { return R"("pp": [)" + std::to_string(p) + R"(], "qq": [)" + std::to_string(q) + "]"; };
    const std::string straight = list({all_reduce("u", first), all_reduce("v", second)});
    const std::string turned = list({all_reduce("v", second), all_reduce("u", first)});
    return plan(R"(["pp", 2], ["qq", 2], ["tp", 4])",
                {{"s00", at(0, 0), straight}, {"s01", at(0, 1), turned}, {"s10", at(1, 0), turned}, {"s11", at(1, 1), last_turned ? turned : straight}});
  };
  // pp first on (0,0) and (1,1), qq first on the others: (0,0) waits in pp for (1,0), that in qq for (1,1), that in pp for (0,1), that in qq for (0,0).
  const ir::Diagnostic d = expect_one(grid(R"("pp")", R"("qq")", false), "SP0302");
  EXPECT_EQ(d.notes.size(), 4U) << text({d});
  EXPECT_EQ(d.labels.size(), 4U);
}

TEST(Deadlock, OneOrderOnAllRanksIsClean) {
  const std::string both = list({all_reduce("u", R"("pp")"), all_reduce("v", R"("qq")"), all_reduce("w", R"("pp", "qq")")});
  std::vector<Stage> stages;
  for (int p = 0; p < 2; ++p)
    for (int q = 0; q < 2; ++q) stages.push_back({"s" + std::to_string(p) + std::to_string(q), R"("pp": [)" + std::to_string(p) + R"(], "qq": [)" + std::to_string(q) + "]", both});
  expect_clean(plan(R"(["pp", 2], ["qq", 2])", stages));
}

TEST(Deadlock, ACollectiveAndAMessage) {
  expect_one(two({all_reduce("u", R"("pp")"), send("b", "f")}, {recv("f", "a", "f"), all_reduce("u", R"("pp")")}), "SP0302");
  expect_clean(two({all_reduce("u", R"("pp")", async), send("b", "f"), wait("w", "u")}, {recv("f", "a", "f"), all_reduce("u", R"("pp")")}));
}

TEST(Deadlock, CollectivesOfOneCommunicatorEndInOrder) {
  // The second collective of `b` waits behind the first, which `a` starts after the message that `b` sends after the second.
  expect_one(two({recv("f", "b", "f"), all_reduce("u", R"("pp")"), all_reduce("v", R"("pp")")},
                 {all_reduce("u", R"("pp")", async), all_reduce("v", R"("pp")"), wait("w", "u"), send("a", "f")}),
             "SP0302");
}

std::string loop(int trip, const std::string& body) {
  return R"({"op": "loop", "index": "m", "trip": )" + std::to_string(trip) + R"(, "carry": [], "body": [)" + body + "]}";
}

TEST(Deadlock, InLoops) {
  const std::string a = list({send("b", "f"), recv("g", "b", "g")});
  expect_clean(two({loop(6, a)}, {loop(6, list({recv("f", "a", "f"), send("a", "g")}))}));
  expect_one(two({loop(6, a)}, {loop(6, list({send("a", "g"), recv("f", "a", "f")}))}), "SP0302");
  // One forward, one backward: stage `a` is one microbatch ahead. With gradients that are sent late it would wait for ever.
  expect_clean(two({send("b", "f"), loop(5, a), recv("last", "b", "g")}, {recv("f0", "a", "f"), loop(5, list({recv("f", "a", "f"), send("a", "g")})), send("a", "g")}));
  const ir::Diagnostic d = expect_one(two({send("b", "f"), loop(5, list({recv("g", "b", "g"), send("b", "f")})), recv("last", "b", "g")},
                                          {recv("f0", "a", "f"), loop(5, list({recv("f", "a", "f"), send("a", "g")})), send("a", "g")}),
                                      "SP0302");
  EXPECT_NE(d.notes[0].find("in iteration m=0"), std::string::npos) << d.notes[0];
}

TEST(Deadlock, ARingOfManyStages) {
  const auto ring = [](bool first_receives) {
    std::vector<Stage> stages;
    for (int s = 0; s < 16; ++s) {
      const std::string next = "s" + std::to_string((s + 1) % 16), before = "s" + std::to_string((s + 15) % 16);
      const std::string out = send(next, "ring"), in = recv("y", before, "ring");
      stages.push_back({"s" + std::to_string(s), R"("pp": [)" + std::to_string(s) + "]", first_receives && s == 0 ? list({in, out}) : list({out, in})});
    }
    return plan(R"(["pp", 16], ["dp", 128], ["tp", 8])", stages);
  };
  const ir::Diagnostic d = expect_one(ring(false), "SP0302");
  EXPECT_EQ(d.notes.size(), 16U);
  expect_clean(ring(true));
}

TEST(Deadlock, RanksThatWaitForACircleAreNoCircle) {
  // `c` waits for `b`, which waits with `a` for each other: one finding, of two kinds of ranks.
  const ir::Diagnostic d = expect_one(plan(R"(["pp", 3])", {{"c", R"("pp": [0])", recv("h", "b", "h")},
                                                            {"a", R"("pp": [1])", list({send("b", "f"), recv("g", "b", "g")})},
                                                            {"b", R"("pp": [2])", list({send("a", "g"), recv("f", "a", "f"), send("c", "h")})}}),
                                      "SP0302");
  EXPECT_EQ(d.notes.size(), 2U);
  EXPECT_EQ(d.found, "pp=1 -> pp=2 -> pp=1");
}

}  // namespace
}  // namespace shardproof::verifier::structure

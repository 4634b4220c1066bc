// Public reports of steps that hang, and of messages and checkpoints that are mixed up (tests/bugs/README.md): the right plan is
// clean, the wrong one is found with its code. They need stages, which the prover does not take yet.
#include <algorithm>

#include "tests/unit/structure/plans.h"

namespace shardproof::verifier::structure {
namespace {

std::string list(const std::vector<std::string>& items) {
  std::string all;
  for (const std::string& item : items) all += (all.empty() ? "" : ",\n") + item;
  return all;
}
std::string collective(const std::string& op, const std::string& in, const std::string& axes) {
  static int number = 0;
  return R"({"out": "c)" + std::to_string(++number) + R"(", "op": ")" + op + R"(", "in": ")" + in + R"(", "axes": [)" + axes + "]" +
         (op == "all_reduce" ? R"(, "reduce": "sum")" : op == "broadcast_from" ? R"(, "root": 0)" : R"(, "split_dim": 0, "concat_dim": 0)") + "}";
}
std::string constant(const std::string& out, const std::string& type) { return R"({"out": ")" + out + R"(", "op": "constant", "value": 0, "type": ")" + type + "\"}"; }
std::string send(const std::string& in, const std::string& peer, const std::string& channel) { return R"({"op": "send", "in": ")" + in + R"(", "peer": ")" + peer + R"(", "channel": ")" + channel + "\"}"; }
std::string recv(const std::string& out, const std::string& type, const std::string& peer, const std::string& channel) {
  return R"({"out": ")" + out + R"(", "op": "recv", "type": ")" + type + R"(", "peer": ")" + peer + R"(", "channel": ")" + channel + "\"}";
}
ir::Document stages(const std::vector<std::vector<std::string>>& bodies, const std::string& mesh) {
  std::vector<Stage> all;
  for (std::size_t s = 0; s < bodies.size(); ++s) all.push_back({"s" + std::to_string(s), R"("pp": [)" + std::to_string(s) + "]", list(bodies[s])});
  return plan(mesh, all);
}

// B194, Megatron-LM #3401: the tracker of auxiliary losses has an entry more on stages with multi-token prediction.
TEST(PublicBugs, Megatron3401SizesDifferByStage) {
  const auto tracker = [](int last) {
    const auto stage = [](int entries) { return std::vector<std::string>{constant("losses", "f32[" + std::to_string(entries) + "]"), collective("all_reduce", "losses", R"("pp")")}; };
    return stages({stage(15), stage(15), stage(15), stage(last)}, R"(["pp", 4], ["dp", 8], ["tp", 8])");
  };
  expect_clean(tracker(15));
  const ir::Diagnostic d = expect_one(tracker(14), "SP0301");
  EXPECT_EQ(d.expected.find("15") != std::string::npos, true) << d.expected;
  EXPECT_EQ(d.subject.rank, "ranks pp=3 (stage `s3`)");
}

// B197, ColossalAI #1175: ranks that overflow leave the step before the norm is reduced.
TEST(PublicBugs, ColossalAi1175SomeStagesSkipACollective) {
  const std::string found = collective("all_reduce", "x", R"("pp", "tp")"), norm = collective("all_reduce", "x", R"("pp")");
  expect_clean(stages({{found, norm}, {found, norm}}, R"(["pp", 2], ["tp", 4])"));
  const ir::Diagnostic d = expect_one(stages({{found, norm}, {found}}, R"(["pp", 2], ["tp", 4])"), "SP0301");
  EXPECT_NE(d.message.find("take part in none"), std::string::npos) << d.message;
}

// B198, torchrec #4149: two groups in rank-dependent order. Here the rows are groups of one collective, the columns of the other.
TEST(PublicBugs, Torchrec4149TwoGroupsInTwoOrders) {
  const auto ranks = [](bool turned) {
    const std::string shard = collective("all_to_all", "x", R"("pp")"), replicas = collective("all_reduce", "x", R"("qq")");
    std::vector<Stage> all;
    for (int p = 0; p < 2; ++p)
      for (int q = 0; q < 2; ++q) {
        const bool other = turned && p != q;
        all.push_back({"s" + std::to_string(p) + std::to_string(q), R"("pp": [)" + std::to_string(p) + R"(], "qq": [)" + std::to_string(q) + "]", other ? list({replicas, shard}) : list({shard, replicas})});
      }
    return plan(R"(["pp", 2], ["qq", 2], ["dp", 16])", all);
  };
  expect_clean(ranks(false));
  expect_one(ranks(true), "SP0302");
}

// B199, apex #19: one broadcast for each dtype, in the order of an unordered map.
TEST(PublicBugs, Apex19OrderOfAnUnorderedMap) {
  const std::string half = constant("half", "f16[8]"), first = collective("broadcast_from", "x", R"("pp")"), second = collective("broadcast_from", "half", R"("pp")");
  expect_clean(stages({{half, first, second}, {half, first, second}}, R"(["pp", 2])"));
  const ir::Diagnostic d = expect_one(stages({{half, first, second}, {half, second, first}}, R"(["pp", 2])"), "SP0301");
  EXPECT_NE(d.message.find("in different orders"), std::string::npos) << d.message;
}

// B097, Megatron-LM #1450: with two stages the next and the previous one coincide; shapes are exchanged over one queue for each
// direction, and both sides post them in the order of a longer pipeline.
TEST(PublicBugs, Megatron1450NextIsPrevious) {
  const auto exchange = [](const std::string& peer, bool forward_first, bool wrong) {
    const std::vector<std::string> out = {send("forward", peer, "p2p"), send("x", peer, "p2p")};
    const std::vector<std::string> in = forward_first != wrong ? std::vector<std::string>{recv("a", "f32[4]", peer, "p2p"), recv("b", "f32[8]", peer, "p2p")}
                                                               : std::vector<std::string>{recv("b", "f32[8]", peer, "p2p"), recv("a", "f32[4]", peer, "p2p")};
    return std::pair(out, in);
  };
  const auto both = [&](bool wrong) {
    const auto [out0, in0] = exchange("s1", true, false);
    const auto [out1, in1] = exchange("s0", true, wrong);
    std::vector<std::string> first{constant("forward", "f32[4]")}, second{constant("forward", "f32[4]")};
    first.insert(first.end(), out0.begin(), out0.end());
    first.insert(first.end(), in0.begin(), in0.end());
    second.insert(second.end(), in1.begin(), in1.end());
    second.insert(second.end(), out1.begin(), out1.end());
    return stages({first, second}, R"(["pp", 2], ["tp", 2])");
  };
  expect_clean(both(false));
  expect_one(both(true), "SP0303");
}

// B176, Megatron-LM #4200: tensor parallel shards that no rank writes. The writers are a stage here, as the format has no writers.
TEST(PublicBugs, Megatron4200ShardsWithoutAWriter) {
  const auto saved = [](bool all) {
    return read(R"({"shardproof": 1, "mesh": [["edp", 2], ["tp", 2]],
      "reference": {"inputs": [], "outputs": [], "body": [], "state": [{"name": "w", "type": "f32[8]", "role": "param", "next": "w"}]},
      "stages": [
        {"name": "writers", "where": {"edp": [0]}, "inputs": [], "outputs": [], "body": [], "state": [{"name": "w", "dims": [["edp", "tp"]], "next": "w"}]},
        {"name": "others", "where": {"edp": [1]}, "inputs": [], "outputs": [], "body": [], "state": [{"name": "w.other", "of": "w", "dims": [["edp", "tp"]], "next": "w.other"}]}],
      "checkpoint": [{"key": "w", "state": "w", "file": "f"})" +
                std::string(all ? R"(, {"key": "w.other", "state": "w.other", "file": "f"})" : "") + "]}");
  };
  expect_clean(saved(true));
  expect_one(saved(false), "SP0505");
}

}  // namespace
}  // namespace shardproof::verifier::structure

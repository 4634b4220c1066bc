// Random stages against a machine that runs every rank by itself: the checks, which know only classes of ranks, find
// something wrong exactly if some rank of that machine starts what its group does not, or waits for ever.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "tests/unit/structure/plans.h"
#include "tests/unit/structure/rank_machine.h"

namespace shardproof::verifier::structure {
namespace {

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::max(1, std::atoi(text));
}

// ---------------------------------------------------------------- random stages

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine_); }
  bool one_in(int n) { return below(n) == 0; }

 private:
  std::mt19937 engine_;
};

// A sequence that all stages share: `c` collectives and `m` messages, in loops. Each stage then writes it in its own way, and
// some make a mistake.
struct Shared {
  enum class Kind { collective, message, loop };
  Kind kind = Kind::collective;
  std::string axes;      // collective
  int size = 8;
  int from = 0, to = 0;  // message
  int channel = 0;
  int trip = 2;          // loop
  std::vector<Shared> body;
};

std::vector<Shared> shared(Random& random, int stages, int length, int depth) {
  static const std::vector<std::string> axes = {R"("pp")", R"("qq")", R"("tp")", R"("pp", "qq")", R"("qq", "tp")", R"("pp", "tp", "qq")"};
  std::vector<Shared> items;
  for (int k = 0; k < length; ++k) {
    Shared s;
    const int what = random.below(depth < 1 ? 7 : 6);
    if (what == 6) {
      s.kind = Shared::Kind::loop;
      s.trip = 1 + random.below(3);
      s.body = shared(random, stages, 1 + random.below(3), depth + 1);
    } else if (what >= 3) {
      s.kind = Shared::Kind::message;
      s.from = random.below(stages);
      s.to = random.below(stages);
      s.channel = random.below(2);
      if (s.from == s.to) s.to = (s.to + 1) % stages;
    } else {
      s.axes = axes[static_cast<std::size_t>(random.below(static_cast<int>(axes.size())))];
    }
    s.size = random.one_in(3) ? 4 : 8;
    items.push_back(std::move(s));
  }
  return items;
}

class Writer {
 public:
  // A fault in one of `faults` places (0: none); `order_only`: things are done in another order, and no others are done.
  Writer(Random& random, int stage, int faults, bool order_only) : random_(random), stage_(stage), faults_(faults), order_only_(order_only) {}

  std::string write(const std::vector<Shared>& items) {
    std::vector<std::string> lines{R"({"out": "half", "op": "slice", "in": "x", "dim": 0, "start": 0, "size": 4})"};
    body(items, lines);
    std::string text;
    for (const std::string& line : lines) text += (text.empty() ? "" : ",\n") + line;
    return text;
  }

 private:
  bool fault() { return faults_ > 0 && !order_only_ && random_.one_in(faults_); }

  void body(std::vector<Shared> items, std::vector<std::string>& lines) {
    if (items.size() > 1 && faults_ > 0 && random_.one_in(order_only_ ? 2 : faults_)) std::swap(items[0], items[static_cast<std::size_t>(1 + random_.below(static_cast<int>(items.size()) - 1))]);
    std::vector<std::string> open;  // transfers to wait for at the end
    for (const Shared& s : items) {
      if (s.kind == Shared::Kind::loop) {
        std::vector<std::string> inner;
        body(s.body, inner);
        std::string text;
        for (const std::string& line : inner) text += (text.empty() ? "" : ",\n") + line;
        if (random_.one_in(4)) {  // unrolled
          for (int k = 0; k < s.trip + (fault() ? 1 : 0); ++k) body(s.body, lines);
        } else {
          lines.push_back(R"({"op": "loop", "index": "i)" + std::to_string(++names_) + R"(", "trip": )" + std::to_string(s.trip + (fault() ? 1 : 0)) + R"(, "carry": [], "body": [)" + text + "]}");
        }
        continue;
      }
      if (s.kind == Shared::Kind::message && s.from != stage_ && s.to != stage_) continue;
      if (fault() && random_.one_in(2)) continue;  // left out
      const bool narrow = (s.size == 4) != fault();
      const bool async = random_.one_in(3);
      const std::string flags = (async ? R"(, "async": true)" : "") + std::string(async && random_.one_in(2) ? R"(, "stream": "s")" : "");
      const std::string out = "v" + std::to_string(++names_), in = narrow ? "half" : "x", type = narrow ? "f32[4]" : "f32[8]";
      const std::string channel = R"(, "channel": "c)" + std::to_string(s.channel) + "\"";
      bool result = true;
      if (s.kind == Shared::Kind::collective) {
        lines.push_back(R"({"out": ")" + out + R"(", "op": "all_reduce", "in": ")" + in + R"(", "axes": [)" + s.axes + R"(], "reduce": "sum")" + flags + "}");
      } else if (s.from == stage_) {
        lines.push_back(R"({"op": "send", "in": ")" + in + R"(", "peer": "s)" + std::to_string(s.to) + "\"" + channel + flags + "}");
        result = false;
      } else {
        lines.push_back(R"({"out": ")" + out + R"(", "op": "recv", "type": ")" + type + R"(", "peer": "s)" + std::to_string(s.from) + "\"" + channel + flags + "}");
      }
      if (!async || !result) continue;
      if (random_.one_in(2)) lines.push_back(wait(out));
      else open.push_back(out);
    }
    for (const std::string& out : open) lines.push_back(wait(out));
  }

  std::string wait(const std::string& in) { return R"({"out": "w)" + std::to_string(++names_) + R"(", "op": "wait", "in": ")" + in + "\"}"; }

  Random& random_;
  int stage_, faults_;
  bool order_only_;
  int names_ = 0;
};

ir::Document random_plan(unsigned seed) {
  Random random(seed);
  const int layout = random.below(3);
  std::vector<std::string> places;
  if (layout == 0) places = {R"("pp": [0])", R"("pp": [1])", R"("pp": [2])"};
  if (layout == 1) places = {R"("pp": [0], "qq": [0])", R"("pp": [0], "qq": [1])", R"("pp": [1], "qq": [0])", R"("pp": [1], "qq": [1])"};
  if (layout == 2) places = {R"("pp": [0, 2])", R"("pp": [1, 3])"};
  const std::string mesh = R"(["pp", )" + std::to_string(layout == 0 ? 3 : layout == 1 ? 2 : 4) + R"(], ["qq", 2], ["tp", 2])";
  const auto items = shared(random, static_cast<int>(places.size()), 1 + random.below(6), 0);
  const int faults = random.one_in(3) ? 0 : 4 + random.below(30);
  const bool order_only = random.one_in(2);
  std::vector<Stage> stages;
  for (std::size_t s = 0; s < places.size(); ++s) stages.push_back({"s" + std::to_string(s), places[s], Writer(random, static_cast<int>(s), faults, order_only).write(items)});
  return plan(mesh, stages);
}

TEST(CommunicationFuzz, ClassesOfRanksBehaveAsRanksDo) {
  const auto first = static_cast<unsigned>(from_environment("SHARDPROOF_FUZZ_SEED", 1));
  const int count = 1500 * from_environment("SHARDPROOF_FUZZ_SCALE", 1);
  int right = 0;
  std::map<std::string, int> wrong;
  for (unsigned seed = first; seed < first + static_cast<unsigned>(count); ++seed) {
    const ir::Document document = random_plan(seed);
    const Findings found = check(document);
    ASSERT_EQ(text(found.undecided), "") << "seed " << seed;
    const bool runs = Machine(document.plan).runs();
    ASSERT_EQ(found.violations.empty(), runs) << "seed " << seed << "\n" << text(found.violations);
    ++(runs ? right : wrong[found.violations.front().code]);
  }
  // All sorts occur.
  EXPECT_GT(right, count / 10);
  for (const char* code : {"SP0301", "SP0302", "SP0303"}) EXPECT_GT(wrong[code], count / 50) << code;
}

}  // namespace
}  // namespace shardproof::verifier::structure

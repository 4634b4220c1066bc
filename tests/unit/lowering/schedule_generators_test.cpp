// Generated schedules have the orders, memory and idle slots that their authors publish.
#include "lowering/schedule_generators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace shardproof::lowering {
namespace {

using ir::ActionType;
using ir::ScheduleAction;
using ir::ScheduleGenerator;
using ir::ScheduleSize;
using ir::ScheduleTable;

const ScheduleGenerator& generator(const std::string& name, std::int64_t virtual_stages = 1) {
  const ScheduleGenerator* found = ir::find_schedule_generator(name, virtual_stages);
  if (found == nullptr) throw std::runtime_error("no schedule " + name);
  return *found;
}

ScheduleTable table(const std::string& name, ScheduleSize size) {
  const ScheduleGenerator& g = generator(name, size.virtual_stages);
  EXPECT_FALSE(ir::size_problem(g, size).has_value()) << name;
  return generate_schedule(g, size);
}

std::string row_text(const std::vector<ir::ScheduleCell>& row) {
  std::string text;
  for (const ir::ScheduleCell& cell : row) text += (text.empty() ? "" : " ") + (cell.empty() ? "." : to_string(cell));
  return text;
}

std::vector<ScheduleAction> actions(const std::vector<ir::ScheduleCell>& row) {
  std::vector<ScheduleAction> all;
  for (const ir::ScheduleCell& cell : row) all.insert(all.end(), cell.begin(), cell.end());
  return all;
}

bool backward(ActionType type) { return type == ActionType::backward || type == ActionType::backward_input; }

std::int64_t forwards_before_first_backward(const std::vector<ir::ScheduleCell>& row) {
  std::int64_t count = 0;
  for (const ScheduleAction& a : actions(row)) {
    if (backward(a.type)) return count;
    count += a.type == ActionType::forward ? 1 : 0;
  }
  return count;
}

// Forward passes whose backward pass (its weight gradient, if that is apart) is to come.
std::int64_t peak(const std::vector<ir::ScheduleCell>& row) {
  std::int64_t now = 0, most = 0;
  for (const ScheduleAction& a : actions(row)) {
    now += a.type == ActionType::forward ? 1 : a.type == ActionType::backward || a.type == ActionType::backward_weight ? -1 : 0;
    most = std::max(most, now);
  }
  return most;
}

struct Idle {
  std::int64_t all = 0;                // of all ranks
  std::vector<std::int64_t> of_rank;   // in all slots
  std::vector<std::int64_t> inside;    // between the first and the last action of the rank
};
Idle idle(const std::string& name, ScheduleSize size) {
  const ScheduleGenerator& g = generator(name, size.virtual_stages);
  const ScheduleTable order = table(name, size);
  const auto grid = lay_out(order, needs_of(g, size, order));
  EXPECT_TRUE(grid.has_value()) << name << " waits in a circle";
  Idle result;
  if (!grid) return result;
  result.all = grid->idle;
  for (const auto& row : grid->rows) {
    const auto empty = [](const ir::ScheduleCell& cell) { return cell.empty(); };
    result.of_rank.push_back(std::count_if(row.begin(), row.end(), empty));
    const auto first = std::find_if_not(row.begin(), row.end(), empty);
    const auto last = std::find_if_not(row.rbegin(), row.rend(), empty).base();
    result.inside.push_back(std::count_if(first, last, empty));
  }
  return result;
}

// Each action once, each stage on its rank, and no rank waits for ever.
void expect_complete(const std::string& name, ScheduleSize size) {
  const ScheduleGenerator& g = generator(name, size.virtual_stages);
  const ScheduleTable order = table(name, size);
  const std::string what = name + " P=" + std::to_string(size.ranks) + " V=" + std::to_string(size.virtual_stages) + " M=" + std::to_string(size.microbatches);
  ASSERT_EQ(static_cast<std::int64_t>(order.size()), size.ranks) << what;
  for (std::int64_t r = 0; r < size.ranks; ++r) {
    std::map<std::string, int> count;
    for (const ScheduleAction& a : actions(order[static_cast<std::size_t>(r)])) ++count[to_string(a)];
    std::erase_if(count, [](const auto& entry) { return entry.first.ends_with("OPT"); });
    for (const auto& [action, times] : count) ASSERT_EQ(times, 1) << what << " " << action;
    std::size_t expected = 0;
    for (std::int64_t chunk = 0; chunk < ir::chunks_per_rank(g, size); ++chunk)
      for (std::int64_t m = 0; m < ir::microbatches_per_stage(g, size); ++m) {
        const std::string s = std::to_string(ir::stage_of(g, size, r, chunk)), mb = std::to_string(m);
        ASSERT_TRUE(count.contains(s + "F" + mb)) << what << " " << s << "F" << mb;
        const bool split = count.contains(s + "I" + mb) && count.contains(s + "W" + mb), whole = count.contains(s + "B" + mb);
        ASSERT_NE(split, whole) << what << " " << s << " " << mb;
        expected += split ? 3 : 2;
      }
    ASSERT_EQ(count.size(), expected) << what;
  }
  ASSERT_TRUE(lay_out(order, needs_of(g, size, order)).has_value()) << what;
}

TEST(ScheduleGenerators, EachActionOnceAndNobodyWaitsForEver) {
  for (std::int64_t p = 1; p <= 8; ++p)
    for (std::int64_t m = 1; m <= 3 * p + 3; ++m) {
      for (const char* name : {"gpipe", "1f1b", "zb-h1", "zb-h2", "zb-v", "pipedream"}) expect_complete(name, {p, 1, m});
      for (std::int64_t v = 1; v <= 4; ++v) {
        expect_complete("looped-bfs", {p, v, m});
        if (v > 1 && m % std::max<std::int64_t>(1, m / p) == 0) expect_complete("interleaved-1f1b", {p, v, m});
      }
      if (m >= 2 * p) expect_complete("dualpipe-v", {p, 2, m});
      if (p % 2 == 0 && m >= 2 * p && m % 2 == 0) expect_complete("dualpipe", {p, 2, m});
    }
}

TEST(ScheduleGenerators, GpipeRunsAllForwardsFirst) {
  EXPECT_EQ(row_text(table("gpipe", {2, 1, 3})[0]), "0F0 0F1 0F2 0B0 0B1 0B2");
  for (std::int64_t p : {1, 2, 4, 7})
    for (std::int64_t m : {1, 4, 9}) {
      for (const auto& row : table("gpipe", {p, 1, m})) {
        EXPECT_EQ(forwards_before_first_backward(row), m);
        EXPECT_EQ(peak(row), m);
      }
      for (const std::int64_t slots : idle("gpipe", {p, 1, m}).of_rank) EXPECT_EQ(slots, 2 * (p - 1));
    }
}

TEST(ScheduleGenerators, OneForwardOneBackward) {
  const ScheduleTable four = table("1f1b", {4, 1, 5});
  EXPECT_EQ(row_text(four[0]), "0F0 0F1 0F2 0F3 0B0 0F4 0B1 0B2 0B3 0B4");
  EXPECT_EQ(row_text(four[3]), "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4");
  for (std::int64_t p : {1, 2, 4, 7})
    for (std::int64_t m : {1, 3, 8, 20}) {
      const ScheduleTable rows = table("1f1b", {p, 1, m});
      for (std::int64_t r = 0; r < p; ++r) {
        const auto& row = rows[static_cast<std::size_t>(r)];
        // P - 1 - rank to warm up, and one that is followed by a backward pass.
        EXPECT_EQ(forwards_before_first_backward(row), std::min(m, p - 1 - r + 1));
        EXPECT_EQ(peak(row), std::min(m, p - r));
      }
      for (const std::int64_t slots : idle("1f1b", {p, 1, m}).of_rank) EXPECT_EQ(slots, 2 * (p - 1));
    }
}

TEST(ScheduleGenerators, Interleaved) {
  EXPECT_EQ(row_text(table("1f1b", {2, 2, 2})[1]), "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1");
  for (std::int64_t p : {2, 4, 5})
    for (std::int64_t v : {2, 3})
      for (std::int64_t rounds : {1, 2, 4}) {
        const std::int64_t m = p * rounds;
        const ScheduleTable rows = table("interleaved-1f1b", {p, v, m});
        for (std::int64_t r = 0; r < p; ++r) {
          const std::int64_t warm = std::min((p - r - 1) * 2 + (v - 1) * p, m * v);
          EXPECT_EQ(forwards_before_first_backward(rows[static_cast<std::size_t>(r)]), std::min(warm + 1, m * v));
          EXPECT_EQ(peak(rows[static_cast<std::size_t>(r)]), std::min(warm + 1, m * v));
        }
        // The slots are those of a chunk: V times as short as those of 1F1B.
        for (const std::int64_t slots : idle("interleaved-1f1b", {p, v, m}).of_rank) EXPECT_EQ(slots, 2 * (p - 1));
      }
  // Rounds of five microbatches on four ranks.
  EXPECT_EQ(forwards_before_first_backward(table("interleaved-1f1b", {4, 2, 10})[3]), 5 + 1);
}

TEST(ScheduleGenerators, LoopedBreadthFirst) {
  EXPECT_EQ(row_text(table("looped-bfs", {2, 2, 2})[0]), "0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1");
  EXPECT_EQ(table("gpipe", {2, 2, 2}), table("looped-bfs", {2, 2, 2}));
  for (const auto& row : table("looped-bfs", {3, 2, 4})) EXPECT_EQ(peak(row), 8);
}

TEST(ScheduleGenerators, ZeroBubble) {
  for (std::int64_t p : {2, 3, 4, 8})
    for (std::int64_t m : {2 * p - 1, 2 * p, 5 * p}) {
      const ScheduleTable h1 = table("zb-h1", {p, 1, m}), h2 = table("zb-h2", {p, 1, m}), v = table("zb-v", {p, 2, m});
      for (std::int64_t r = 0; r < p; ++r) {
        const auto at = static_cast<std::size_t>(r);
        EXPECT_EQ(forwards_before_first_backward(h1[at]), p - r);           // that of 1F1B
        EXPECT_EQ(peak(h1[at]), p);                                         // the most that 1F1B holds
        EXPECT_EQ(forwards_before_first_backward(h2[at]), 2 * (p - r) - 1);
        EXPECT_EQ(peak(h2[at]), 2 * p - 1);
        EXPECT_EQ(peak(v[at]), 2 * p);                                      // of half the size
      }
      // With equal times of F, I and W: a third of the slots of 1F1B, and none.
      for (const std::int64_t slots : idle("zb-h1", {p, 1, m}).of_rank) EXPECT_EQ(slots, p - 1);
      for (const std::int64_t slots : idle("zb-h2", {p, 1, m}).inside) EXPECT_EQ(slots, 0);
      if (m < 2 * p) continue;
      for (const std::int64_t slots : idle("zb-v", {p, 2, m}).inside) EXPECT_EQ(slots, 0);
    }
}

TEST(ScheduleGenerators, DualPipe) {
  for (std::int64_t p : {2, 4, 6, 8})
    for (std::int64_t m : {2 * p, 2 * p + 2, 4 * p}) {
      for (const auto& row : table("dualpipe", {p, 2, m})) EXPECT_EQ(peak(row), p + 1);
      for (const auto& row : table("dualpipe-v", {p, 2, m})) EXPECT_EQ(peak(row), 2 * p + 1);  // p: devices, of half the stages each
    }
  // Ranks at the same distance from an end do the same, in opposite directions.
  const ScheduleTable rows = table("dualpipe", {4, 2, 8});
  std::string mirrored;
  for (const ir::ScheduleCell& cell : rows[3]) {
    ir::ScheduleCell other = cell;
    for (ScheduleAction& a : other) a.stage = (a.stage + 4) % 8;
    mirrored += (mirrored.empty() ? "" : " ") + to_string(other);
  }
  EXPECT_EQ(row_text(rows[0]), mirrored);
  EXPECT_NE(row_text(rows[0]).find("OVERLAP_F_B"), std::string::npos);
}

TEST(ScheduleGenerators, PipeDreamUpdatesAfterEachBackward) {
  EXPECT_EQ(row_text(table("pipedream", {2, 1, 2})[0]), "0F0 0F1 0B0 0OPT 0B1 0OPT");
}

TEST(ScheduleGenerators, SizesThatDoNotExist) {
  const std::vector<std::tuple<std::string, ScheduleSize, std::string>> cases = {
      {"1f1b", {0, 1, 4}, "needs pipeline ranks"},
      {"1f1b", {4, 1, 0}, "needs pipeline ranks"},
      {"zb-h1", {4, 2, 4}, "puts 1 stage on each rank"},
      {"zb-v", {4, 3, 8}, "puts 2 stages on each rank"},
      {"interleaved-1f1b", {4, 1, 8}, "at least 2 stages"},
      {"interleaved-1f1b", {4, 2, 9}, "rounds of equal size"},
      {"dualpipe", {3, 2, 12}, "pairs each pipeline rank"},
      {"dualpipe", {4, 2, 9}, "half of the microbatches"},
      {"dualpipe", {4, 2, 6}, "half of the microbatches"},
      {"dualpipe-v", {4, 2, 7}, "both ways"},
      {"gpipe", {4, 1, std::int64_t{1} << 62}, "too many actions"},
      {"looped-bfs", {1 << 20, 1 << 20, 1 << 20}, "too many actions"},
      {"1f1b", {1 << 20, 1, 1}, "too many actions"},
  };
  for (const auto& [name, size, message] : cases) {
    const auto problem = ir::size_problem(generator(name, size.virtual_stages), size);
    ASSERT_TRUE(problem.has_value()) << name << " " << message;
    EXPECT_NE(problem->message.find(message), std::string::npos) << problem->message;
    EXPECT_FALSE(problem->expected.empty() || problem->found.empty() || problem->fix.empty()) << name;
  }
  EXPECT_EQ(ir::find_schedule_generator("2f2b", 1), nullptr);
}

TEST(ScheduleGenerators, LargeTables) {
  for (const auto& [name, size] : std::vector<std::pair<std::string, ScheduleSize>>{{"1f1b", {16, 1, 20000}}, {"zb-v", {64, 2, 2000}}, {"interleaved-1f1b", {16, 8, 1600}}})
    EXPECT_GT(idle(name, size).all, 0);
}

// A circle of waits has no layout.
TEST(ScheduleGrid, CirclesAreFound) {
  const ScheduleSize size{2, 1, 2};
  ScheduleTable order = table("1f1b", size);
  std::swap(order[0].front(), order[0].back());    // 0B1 before its forward pass, which 1F1 waits for
  EXPECT_FALSE(lay_out(order, needs_of(generator("1f1b"), size, order)).has_value());
}

}  // namespace
}  // namespace shardproof::lowering

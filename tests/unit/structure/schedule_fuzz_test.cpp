// Right schedules of small pipelines with random changes, against a machine that does what the rows say: every action looked up
// in the text of the program, every value kept by microbatch, every rank by itself. The checks find something wrong exactly if the
// machine does not come to a right end.
#include <cstdlib>
#include <random>
#include <set>

#include "tests/unit/structure/pipeline_plans.h"
#include "tests/unit/structure/rank_machine.h"

namespace shardproof::verifier::structure {
namespace {

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::max(1, std::atoi(text));
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(engine_); }
  bool one_in(std::size_t n) { return below(n) == 0; }

 private:
  std::mt19937 engine_;
};

// ---------------------------------------------------------------- what rows mean

class RowRun {
 public:
  RowRun(const ir::StageProgram& stage, const std::vector<std::string>& row) : row_(actions_of(row)) {
    for (const ir::Instruction& i : stage.program.body)
      if (i.op == ir::OpCode::loop) region_ = i.region.get();
    for (const ir::Instruction& i : region_->body) {
      labels_.insert(i.action);
      for (const ir::ValueId v : i.outputs) made_in_loop_.insert(v.index);
    }
  }

  // Whether the row computes each value of each microbatch once and from values that are there, on the weights that the step
  // began with, with at most `bound` microbatches of stages in flight (0: any number).
  bool right(std::int64_t bound) {
    std::int64_t in_flight = 0;
    std::set<std::string> updated;  // stages
    for (const RowAction& action : row_) {
      const std::string stage = action.label.substr(0, action.label.find_first_not_of("0123456789")), type = action.label.substr(stage.size());
      if (type == "OPT") {
        if (!has_stage(stage)) return false;
        updated.insert(stage);
        continue;
      }
      if (updated.contains(stage) || action.microbatch >= region_->trip || !has(stage, type)) return false;
      for (const ir::Instruction& i : region_->body)
        if (runs(action.label, i.action) && !run(i, action.microbatch)) return false;
      const bool split = labels_.contains(stage + "W");
      in_flight += type == "F" ? 1 : type == "B" || (type == "W" && split) ? -1 : 0;
      if (bound > 0 && in_flight > bound) return false;
    }
    return done_.size() == region_->body.size() * static_cast<std::size_t>(region_->trip);
  }

 private:
  bool has_stage(const std::string& stage) const {
    return std::any_of(labels_.begin(), labels_.end(), [&](const std::string& label) { return label.find_first_not_of("0123456789") == stage.size() && label.starts_with(stage); });
  }
  bool has(const std::string& stage, const std::string& type) const {
    return labels_.contains(stage + type) || (type == "B" && labels_.contains(stage + "W"));
  }

  bool run(const ir::Instruction& i, std::int64_t microbatch) {
    if (!done_.emplace(&i, microbatch).second) return false;  // twice
    for (const ir::ValueId v : i.inputs) {
      if (i.op == ir::OpCode::add && v == i.inputs.front()) continue;  // one accumulator for all
      if (made_in_loop_.contains(v.index) && !values_.contains({v.index, microbatch})) return false;
      for (const ir::Carry& carry : region_->carries)
        if (carry.argument == v && microbatch > 0 && !values_.contains({carry.next.index, microbatch - 1})) return false;
    }
    for (const ir::ValueId v : i.outputs) values_.emplace(v.index, microbatch);
    return true;
  }

  std::vector<RowAction> row_;
  const ir::Region* region_ = nullptr;
  std::set<std::string> labels_;
  std::set<std::int32_t> made_in_loop_;
  std::set<std::pair<std::int32_t, std::int64_t>> values_;
  std::set<std::pair<const ir::Instruction*, std::int64_t>> done_;
};

bool right(const ir::Plan& plan) {
  for (std::size_t p = 0; p < plan.stages.size(); ++p)
    if (!RowRun(plan.stages[p], plan.schedule->actions[p]).right(plan.schedule->max_in_flight)) return false;
  return Machine(plan).runs();
}

// ---------------------------------------------------------------- random changes

void change(Rows& rows, const Pipeline& p, Random& random) {
  auto& row = rows[random.below(rows.size())];
  if (row.empty()) return;
  const std::size_t at = random.below(row.size());
  const auto place = [&](std::vector<std::string>& in) { return in.begin() + static_cast<std::ptrdiff_t>(random.below(in.size() + 1)); };
  const std::string action = row[at];
  switch (random.below(12)) {
    case 0: row.erase(row.begin() + static_cast<std::ptrdiff_t>(at)); break;
    case 1: row.insert(place(row), action); break;
    case 2:
      row.erase(row.begin() + static_cast<std::ptrdiff_t>(at));
      rows[random.below(rows.size())].push_back(action);
      break;
    case 3:
    case 4:
    case 5: {  // somewhere else in its row
      row.erase(row.begin() + static_cast<std::ptrdiff_t>(at));
      row.insert(place(row), action);
      break;
    }
    case 6:
    case 7: std::swap(row[at], row[random.below(row.size())]); break;
    case 8:
      if (at > 0) std::swap(row[at], row[at - 1]);
      break;
    case 9: row.insert(place(row), std::to_string(random.below(static_cast<std::size_t>(p.stages()))) + "OPT"); break;
    case 10: row.insert(place(row), std::string()); break;
    default: {  // another microbatch
      const std::size_t digits = action.find_last_not_of("0123456789");
      if (digits == std::string::npos || action.ends_with(")OVERLAP_F_B") || action.ends_with("OPT")) break;
      row[at] = action.substr(0, digits + 1) + std::to_string(random.below(static_cast<std::size_t>(p.size.microbatches) + 2));
    }
  }
}

struct Sample {
  std::string text;
  std::size_t changes = 0;
};

Sample sample(unsigned seed) {
  static const std::vector<std::pair<const char*, std::int64_t>> generators = {{"gpipe", 1}, {"1f1b", 1}, {"1f1b", 2}, {"looped-bfs", 2}, {"zb-h1", 1}, {"zb-h2", 1}, {"zb-v", 2}, {"dualpipe", 2}, {"dualpipe-v", 2}, {"pipedream", 1}};
  Random random(seed);
  for (;;) {
    const auto& [name, chunks] = generators[random.below(generators.size())];
    Pipeline p{name, {static_cast<std::int64_t>(1 + random.below(4)), chunks, static_cast<std::int64_t>(1 + random.below(8))}};
    p.split = p.info().splits_backward || random.one_in(4);
    p.async_sends = !random.one_in(4);
    p.one_sum = random.one_in(2);
    p.recurrence = random.one_in(4);
    if (ir::size_problem(p.info(), p.size)) continue;
    Rows rows = rows_of(p);
    Sample result;
    if (!random.one_in(4)) result.changes = 1 + random.below(3);
    for (std::size_t n = 0; n < result.changes; ++n) change(rows, p, random);
    const std::string bound = random.one_in(4) ? R"(, "max_in_flight": )" + std::to_string(1 + random.below(static_cast<std::size_t>(2 * p.size.ranks + 1))) : "";
    result.text = pipeline_text(p, explicit_rows(rows, p.size.microbatches, bound));
    return result;
  }
}

TEST(ScheduleFuzz, ChecksAgreeWithAMachine) {
  const auto first = static_cast<unsigned>(from_environment("SHARDPROOF_FUZZ_SEED", 1));
  const int count = 6000 * from_environment("SHARDPROOF_FUZZ_SCALE", 1);
  int good = 0, good_and_changed = 0;
  std::map<std::string, int> wrong;
  for (unsigned seed = first; seed < first + static_cast<unsigned>(count); ++seed) {
    const Sample s = sample(seed);
    ir::DiagnosticSink sink;
    const auto document = ir::read_document(std::make_shared<ir::SourceFile>("plan.json", s.text), sink);
    ASSERT_TRUE(document.has_value()) << "seed " << seed;
    ir::validate(*document, sink);
    std::vector<ir::Diagnostic> violations = sink.take();
    if (violations.empty()) {
      Findings found = check(*document);
      ASSERT_EQ(text(found.undecided), "") << "seed " << seed;
      violations = std::move(found.violations);
    }
    const bool runs = right(document->plan);
    ASSERT_EQ(violations.empty(), runs) << "seed " << seed << "\n" << text(violations) << s.text;
    good += runs ? 1 : 0;
    good_and_changed += runs && s.changes > 0 ? 1 : 0;
    if (!runs) ++wrong[violations.front().code];
  }
  // All sorts occur.
  EXPECT_GT(good, count / 8);
  EXPECT_GT(good_and_changed, count / 40);
  for (const char* code : {"SP0121", "SP0302", "SP0303", "SP0310", "SP0311", "SP0312", "SP0313", "SP0314"}) EXPECT_GT(wrong[code], count / 150) << code;
}

}  // namespace
}  // namespace shardproof::verifier::structure

#include "verifier/structure/schedule_summary.h"

#include "verifier/structure/cursor.h"
#include "verifier/structure/schedule.h"

namespace shardproof::verifier::structure {

namespace {

constexpr std::size_t kMaxMessages = std::size_t{1} << 21;
constexpr std::size_t kOutside = static_cast<std::size_t>(-1);  // before or after the loop over microbatches

// The cells in which a stage sends, or receives, the messages of each channel, in order.
using Cells = std::map<std::size_t, std::vector<std::size_t>>;
struct Messages {
  Cells sent, received;
};

bool collect(const std::vector<Item>& script, const Communication& communication, Messages& messages, std::size_t& count) {
  for (const Item& part : script) {
    const std::size_t cell = part.kind == Item::Kind::action ? part.cell : kOutside;
    const std::vector<Item> one{part};
    for (Cursor cursor(one); !cursor.at_end();) {
      const Item& item = cursor.item();
      if (item.has_body()) {
        cursor.enter();
        continue;
      }
      if (++count > kMaxMessages) return false;
      const Site& site = communication.sites[item.site];
      if (item.kind == Item::Kind::start && site.message) (site.instruction->op == ir::OpCode::send ? messages.sent : messages.received)[site.link].push_back(cell);
      cursor.advance();
    }
  }
  return true;
}

}  // namespace

ScheduleSummary summary_of(const ir::Plan& plan, const ScheduledPlan& scheduled) {
  ScheduleSummary summary;
  summary.name = scheduled.name;
  summary.microbatches = plan.schedule->microbatches;
  for (const ScheduledProgram& program : scheduled.programs) summary.in_flight.push_back(most_in_flight(program).most);
  return summary;
}

std::optional<lowering::ScheduleGrid> grid_of(const ScheduledPlan& scheduled, const Communication& communication) {
  std::vector<Messages> messages(scheduled.programs.size());
  std::size_t count = 0;
  for (std::size_t p = 0; p < messages.size(); ++p)
    if (!collect(communication.scripts[p], communication, messages[p], count)) return std::nullopt;
  ir::ScheduleTable order;
  lowering::ScheduleNeeds needs;
  for (const ScheduledProgram& program : scheduled.programs) {
    order.push_back(program.cells);
    needs.emplace_back(program.cells.size());
  }
  for (std::size_t p = 0; p < messages.size(); ++p)
    for (const auto& [link, cells] : messages[p].received) {
      const std::size_t from = communication.channels[link].from;
      const auto sent = messages[from].sent.find(link);
      for (std::size_t n = 0; n < cells.size(); ++n) {
        if (sent == messages[from].sent.end() || n >= sent->second.size()) return std::nullopt;
        if (cells[n] != kOutside && sent->second[n] != kOutside) needs[p][cells[n]].push_back({from, sent->second[n]});
      }
    }
  return lowering::lay_out(order, needs);
}

std::optional<lowering::ScheduleGrid> grid_of(const ir::Plan& plan) {
  const std::optional<ScheduledPlan> scheduled = scheduled_plan(plan);
  const RankClasses classes(plan, axes_crossed_by_messages(plan));
  if (!scheduled || classes.count() == 0) return std::nullopt;
  Findings findings;
  const Communication communication = communication_of(plan, classes, &*scheduled, findings);
  return grid_of(*scheduled, communication);
}

std::optional<ScheduleSummary::Slots> slots_of(const ScheduledPlan& scheduled, const Communication& communication) {
  const auto grid = grid_of(scheduled, communication);
  if (!grid) return std::nullopt;
  return ScheduleSummary::Slots{grid->slots, grid->idle};
}

}  // namespace shardproof::verifier::structure

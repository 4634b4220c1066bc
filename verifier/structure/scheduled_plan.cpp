#include "verifier/structure/scheduled_plan.h"

#include <algorithm>
#include <map>

#include "ir/check.h"
#include "ir/schedule_generator.h"
#include "lowering/schedule_generators.h"

namespace shardproof::verifier::structure {

using ir::ActionType;

namespace {

ir::ScheduleTable rows_of(const ir::Plan& plan) {
  const ir::Schedule& schedule = *plan.schedule;
  if (schedule.actions.empty()) {
    const ir::ScheduleGenerator* generator = ir::find_schedule_generator(schedule.generator, schedule.virtual_stages);
    SHARDPROOF_CHECK(generator != nullptr);  // validated
    return lowering::generate_schedule(*generator, {static_cast<std::int64_t>(plan.stages.size()), schedule.virtual_stages, schedule.microbatches});
  }
  ir::ScheduleTable table;
  std::string problem;
  for (const auto& row : schedule.actions) {
    table.emplace_back();
    for (const std::string& text : row) {
      auto cell = ir::parse_cell(text, problem);
      SHARDPROOF_CHECK(cell.has_value());  // validated
      table.back().push_back(*std::move(cell));
    }
  }
  return table;
}

class Reader {
 public:
  explicit Reader(ScheduledProgram& program) : program_(program) {
    for (std::size_t l = 0; l < program.labels.size(); ++l) position_.emplace(program.labels[l], l);
  }

  void read(const std::vector<ir::ScheduleCell>& row) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      if (row[column].empty()) continue;
      for (const ir::ScheduleAction& action : row[column]) program_.steps.push_back(step(action));
      program_.cells.push_back(row[column]);
      program_.columns.push_back(column);
    }
  }

 private:
  std::size_t at(std::int64_t stage, ActionType type) const {
    const auto found = position_.find({stage, type});
    return found == position_.end() ? kNoLabel : found->second;
  }

  ScheduledStep step(const ir::ScheduleAction& action) const {
    ScheduledStep step{action, program_.cells.size()};
    const std::size_t input = at(action.stage, ActionType::backward_input), weight = at(action.stage, ActionType::backward_weight);
    const bool split = input != kNoLabel || weight != kNoLabel;
    step.labels[0] = at(action.stage, action.type);
    if (action.type == ActionType::backward && split) step.labels = {input, weight};
    // Half of a split backward pass may have nothing to do.
    const bool half = split && (action.type == ActionType::backward_input || action.type == ActionType::backward_weight);
    step.foreign = step.labels[0] == kNoLabel && step.labels[1] == kNoLabel && !half && action.type != ActionType::optimizer;
    return step;
  }

  ScheduledProgram& program_;
  std::map<ir::ActionLabel, std::size_t> position_;
};

ScheduledProgram program_of(const ir::StageProgram& stage) {
  ScheduledProgram result;
  result.loop = ir::labelled_loop(stage.program);
  SHARDPROOF_CHECK(result.loop != nullptr);  // validated
  std::map<ir::ActionLabel, std::size_t> position;
  std::string problem;
  for (const ir::Instruction& i : result.loop->region->body) {
    const auto label = ir::parse_label(i.action, problem);
    SHARDPROOF_CHECK(label.has_value());  // validated
    const auto [entry, fresh] = position.emplace(*label, result.labels.size());
    if (fresh) {
      result.labels.push_back(*label);
      result.first_of.push_back(result.label_of.size());
    }
    result.label_of.push_back(entry->second);
  }
  return result;
}

}  // namespace

std::optional<ScheduledPlan> scheduled_plan(const ir::Plan& plan) {
  if (!plan.schedule) return std::nullopt;
  ScheduledPlan result;
  result.name = plan.schedule->actions.empty() ? plan.schedule->generator : "explicit";
  const ir::ScheduleTable rows = rows_of(plan);
  SHARDPROOF_CHECK(rows.size() == plan.stages.size());
  for (std::size_t p = 0; p < plan.stages.size(); ++p) {
    ScheduledProgram program = program_of(plan.stages[p]);
    Reader(program).read(rows[p]);
    result.programs.push_back(std::move(program));
  }
  return result;
}

}  // namespace shardproof::verifier::structure

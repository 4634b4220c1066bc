// Actions that instructions carry, and the schedule that runs them. Whether a schedule runs each of them once and in a right
// order is no matter of form: verifier/structure.
#include <algorithm>
#include <map>
#include <set>

#include "ir/nearest.h"
#include "ir/print.h"
#include "ir/schedule_action.h"
#include "ir/schedule_generator.h"
#include "ir/validate_parts.h"

namespace shardproof::ir {

namespace {

using Labels = std::set<ActionLabel>;

void malformed(Problems& problems, std::string message, Span span, std::string expected, std::string found, std::string fix) {
  problems.error("SP0121", "malformed-schedule", std::move(message), span, std::move(expected), std::move(found), std::move(fix));
}

bool has_labels(const Instruction& loop) {
  return loop.op == OpCode::loop && loop.region != nullptr &&
         std::any_of(loop.region->body.begin(), loop.region->body.end(), [](const Instruction& i) { return !i.action.empty(); });
}

class LabelChecker {
 public:
  LabelChecker(const StageProgram& stage, Problems& problems) : stage_(stage), problems_(problems) {}

  Labels run() {
    const Instruction* loop = nullptr;
    for (const Instruction& i : stage_.program.body) {
      if (!i.action.empty()) outside(i);
      if (i.op != OpCode::loop || i.region == nullptr) continue;
      if (!has_labels(i)) {
        for (const Instruction& inner : i.region->body) nested(inner, "");
      } else if (loop != nullptr) {
        malformed(problems_, "stage " + backticked(stage_.name) + " has two loops whose instructions carry actions", i.span, "one loop over microbatches", "a second one",
                  "take the actions of one of the loops out");
      } else {
        loop = &i;
        body(i.region->body);
      }
    }
    for (const ActionLabel& label : labels_) {
      if (label.type != ActionType::backward) continue;
      if (!labels_.contains({label.stage, ActionType::backward_input}) && !labels_.contains({label.stage, ActionType::backward_weight})) continue;
      malformed(problems_, "stage " + std::to_string(label.stage) + " has its backward pass both whole and split, so an action does not say what it runs", loop->span,
                "either B, or I and W", to_string(label), "label the instructions of the backward pass with I and W: an action B runs both");
    }
    return std::move(labels_);
  }

 private:
  void outside(const Instruction& i) {
    malformed(problems_, describe(stage_.program, i) + " carries the action " + backticked(i.action) + " outside the loop over microbatches", i.span,
              "actions in the body of one loop of the program", backticked(i.action), "leave `action` out, or move the instruction into the loop");
  }

  void body(const std::vector<Instruction>& instructions) {
    for (const Instruction& i : instructions) {
      if (problems_.full()) return;
      if (i.action.empty()) {
        malformed(problems_, describe(stage_.program, i) + " carries no action, and others of its loop do", i.span, "the action that runs it, such as `0F`", "none",
                  "give each instruction of the loop its `action`");
        continue;
      }
      std::string problem;
      const auto label = parse_label(i.action, problem);
      if (label) labels_.insert(*label);
      else malformed(problems_, problem, i.span, "a stage and a type, such as `0F` or `1B`", backticked(i.action), "correct `action`");
      if (i.region != nullptr)
        for (const Instruction& inner : i.region->body) nested(inner, i.action);
    }
  }

  // Inside a loop that an action runs as a whole.
  void nested(const Instruction& i, const std::string& around) {
    if (problems_.full()) return;
    if (!i.action.empty() && i.action != around) {
      if (around.empty()) return outside(i);
      malformed(problems_, describe(stage_.program, i) + " carries another action than the loop around it", i.span, backticked(around), backticked(i.action),
                "leave `action` out: the loop runs as a whole");
    }
    if (i.region != nullptr)
      for (const Instruction& inner : i.region->body) nested(inner, around);
  }

  const StageProgram& stage_;
  Problems& problems_;
  Labels labels_;
};

bool names(const Labels& labels, const ScheduleAction& action) {
  const auto has = [&](ActionType type) { return labels.contains({action.stage, type}); };
  switch (action.type) {
    case ActionType::backward: return has(ActionType::backward) || has(ActionType::backward_input) || has(ActionType::backward_weight);
    case ActionType::backward_input:
    case ActionType::backward_weight: return has(ActionType::backward_input) || has(ActionType::backward_weight);
    case ActionType::optimizer: return std::any_of(labels.begin(), labels.end(), [&](const ActionLabel& label) { return label.stage == action.stage; });
    default: return has(action.type);
  }
}

std::string text_of(const Labels& labels) {
  std::string text;
  std::size_t count = 0;
  for (const ActionLabel& label : labels) {
    if (++count > 12) return text + ", ...";
    text += (text.empty() ? "" : ", ") + to_string(label);
  }
  return text.empty() ? "none" : text;
}

std::string text_of(const std::set<std::int64_t>& stages) {
  std::string text;
  std::size_t count = 0;
  for (const std::int64_t stage : stages) {
    if (++count > 12) return text + ", ...";
    text += (text.empty() ? "" : ", ") + std::to_string(stage);
  }
  return text.empty() ? "none" : text;
}

std::set<std::int64_t> stages_of(const Labels& labels) {
  std::set<std::int64_t> stages;
  for (const ActionLabel& label : labels) stages.insert(label.stage);
  return stages;
}

class ScheduleChecker {
 public:
  ScheduleChecker(const Plan& plan, const std::vector<Labels>& labels, Problems& problems) : plan_(plan), schedule_(*plan.schedule), labels_(labels), problems_(problems) {}

  void run() {
    if (schedule_.microbatches < 1 || schedule_.virtual_stages < 1)
      return malformed(problems_, "the schedule has no microbatch or no stage", schedule_.span, "1 or more", std::to_string(std::min(schedule_.microbatches, schedule_.virtual_stages)),
                       "give the number of microbatches of a step");
    if (schedule_.max_in_flight < 0)
      return malformed(problems_, "the bound on microbatches in flight is negative", schedule_.span, "`max_in_flight` of 1 or more", std::to_string(schedule_.max_in_flight), "correct `max_in_flight`");
    if (schedule_.generator.empty() == schedule_.actions.empty())
      return malformed(problems_, "the schedule is not given in one way", schedule_.span, "one of `generator` and `actions`", schedule_.generator.empty() ? "none" : "both", "give one of them");
    if (!owners()) return;
    if (schedule_.actions.empty()) generated();
    else explicit_rows();
  }

 private:
  // Each stage of the model belongs to one program, and each program has some.
  bool owners() {
    std::map<std::int64_t, std::size_t> owner;
    for (std::size_t p = 0; p < plan_.stages.size(); ++p) {
      if (labels_[p].empty()) {
        malformed(problems_, "there is a schedule, and no instruction of stage " + backticked(plan_.stages[p].name) + " carries an action of it", plan_.stages[p].span,
                  "a loop over microbatches whose instructions carry an `action`, such as `0F`", "none", "label the instructions of the loop, or leave the schedule out");
        return false;
      }
      for (const std::int64_t stage : stages_of(labels_[p])) {
        const auto [first, fresh] = owner.emplace(stage, p);
        if (fresh) continue;
        malformed(problems_, "stages " + backticked(plan_.stages[first->second].name) + " and " + backticked(plan_.stages[p].name) + " both carry actions of model stage " + std::to_string(stage),
                  plan_.stages[p].span, "each stage of the model in one program", std::to_string(stage) + " in two", "number the stages of the model through all programs");
        return false;
      }
    }
    return true;
  }

  void generated() {
    const Span span = schedule_.generator_span.known() ? schedule_.generator_span : schedule_.span;
    const ScheduleGenerator* generator = find_schedule_generator(schedule_.generator, schedule_.virtual_stages);
    if (generator == nullptr) {
      const auto known = schedule_generator_names();
      std::string all;
      for (const std::string_view name : known) all += (all.empty() ? "" : ", ") + std::string(name);
      const std::string_view near = nearest(schedule_.generator, known);
      return malformed(problems_, "there is no schedule " + backticked(schedule_.generator), span, "one of " + all, backticked(schedule_.generator),
                       near.empty() ? "name one of them, or list the `actions`" : "did you mean `" + std::string(near) + "`?");
    }
    const ScheduleSize size{static_cast<std::int64_t>(plan_.stages.size()), schedule_.virtual_stages, schedule_.microbatches};
    if (auto problem = size_problem(*generator, size)) return malformed(problems_, std::move(problem->message), span, std::move(problem->expected), std::move(problem->found), std::move(problem->fix));
    for (std::size_t p = 0; p < plan_.stages.size() && !problems_.full(); ++p) {
      std::set<std::int64_t> wanted;
      for (std::int64_t chunk = 0; chunk < chunks_per_rank(*generator, size); ++chunk) wanted.insert(stage_of(*generator, size, static_cast<std::int64_t>(p), chunk));
      const std::string where = backticked(std::string(generator->name)) + " gives pipeline rank " + std::to_string(p);
      if (stages_of(labels_[p]) != wanted) {
        malformed(problems_, where + " other stages of the model than stage " + backticked(plan_.stages[p].name) + " has", plan_.stages[p].span, "stages " + text_of(wanted),
                  "stages " + text_of(stages_of(labels_[p])), "number the stages of the model as the schedule does, or list the `actions`");
        continue;
      }
      for (const std::int64_t stage : wanted) {
        if (generator->splits_backward && labels_[p].contains({stage, ActionType::backward})) lacks(p, {stage, ActionType::backward_input}, where);
        for (const ActionType type : {ActionType::forward, ActionType::backward})
          if (!names(labels_[p], {stage, type, 0})) lacks(p, {stage, type}, where);
      }
    }
  }

  void lacks(std::size_t program, const ActionLabel& label, const std::string& where) {
    malformed(problems_, where + " the action " + to_string(label) + ", which stage " + backticked(plan_.stages[program].name) + " does not have", plan_.stages[program].span,
              "instructions labelled " + to_string(label), text_of(labels_[program]),
              label.type == ActionType::backward_input ? "split the backward pass into I and W, which this schedule runs apart" : "label the instructions of that action");
  }

  void explicit_rows() {
    if (schedule_.actions.size() != plan_.stages.size())
      return malformed(problems_, "the schedule has another number of rows than there are stage programs", schedule_.span, std::to_string(plan_.stages.size()) + " rows, one for each pipeline rank",
                       std::to_string(schedule_.actions.size()), "give each stage program its row");
    std::int64_t count = 0;
    for (const auto& row : schedule_.actions) count += static_cast<std::int64_t>(row.size());
    if (count > kMaxScheduleActions) {
      problems_.error("SP0009", "limit-exceeded", "the schedule has too many actions", schedule_.span, "at most " + std::to_string(kMaxScheduleActions), std::to_string(count));
      return;
    }
    for (std::size_t row = 0; row < schedule_.actions.size(); ++row)
      for (std::size_t cell = 0; cell < schedule_.actions[row].size(); ++cell) {
        if (problems_.full()) return;
        check_cell(row, cell);
      }
    for (const StageProgram& stage : plan_.stages) {
      const std::int64_t trip = labelled_loop(stage.program)->region->trip;
      if (trip == schedule_.microbatches || (schedule_.microbatches % 2 == 0 && trip == schedule_.microbatches / 2)) continue;
      return malformed(problems_, "the loop over microbatches of stage " + backticked(stage.name) + " does not fit the schedule", stage.span,
                       "as many iterations as there are microbatches (" + std::to_string(schedule_.microbatches) + "), or half of them", std::to_string(trip), "correct `microbatches`, or `trip` of the loop");
    }
  }

  void check_cell(std::size_t row, std::size_t column) {
    const std::string place = "row " + std::to_string(row + 1) + ", column " + std::to_string(column + 1) + " of the schedule: ";
    const Span span = schedule_.span_of(row, column);
    std::string problem;
    const auto cell = parse_cell(schedule_.actions[row][column], problem);
    if (!cell) return malformed(problems_, place + problem, span, "an action such as `0F3`, or an empty cell", backticked(schedule_.actions[row][column].substr(0, 40)), "correct the action");
    for (const ScheduleAction& action : *cell) {
      if (!per_microbatch(action.type) && action.type != ActionType::optimizer) {
        malformed(problems_, place + to_string(action) + " is part of no microbatch: a program does it before or after its loop", span, "actions of the loop over microbatches", to_string(action),
                  "leave it out");
      } else if (!names(labels_[row], action)) {
        malformed(problems_, place + "stage " + backticked(plan_.stages[row].name) + " has no instructions for " + to_string(action), span, "an action of this program: " + text_of(labels_[row]),
                  to_string(action), "move the action to the row of its stage, or label the instructions");
      }
    }
  }

  const Plan& plan_;
  const Schedule& schedule_;
  const std::vector<Labels>& labels_;
  Problems& problems_;
};

}  // namespace

void check_no_actions(const std::vector<Instruction>& body, Problems& problems) {
  for (const Instruction& i : body) {
    if (!i.action.empty())
      return malformed(problems, "the reference carries an action of a schedule, and runs on one device in its own order", i.span, "no `action`", backticked(i.action), "leave `action` out");
    if (i.region != nullptr) check_no_actions(i.region->body, problems);
  }
}

void check_schedule(const Plan& plan, Problems& problems) {
  const std::size_t before = problems.count();
  std::vector<Labels> labels;
  for (const StageProgram& stage : plan.stages) labels.push_back(LabelChecker(stage, problems).run());
  if (plan.schedule && problems.count() == before) ScheduleChecker(plan, labels, problems).run();
}

}  // namespace shardproof::ir

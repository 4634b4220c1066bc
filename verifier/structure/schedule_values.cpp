// What the actions of one program read from each other.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "ir/print.h"
#include "verifier/structure/schedule.h"

namespace shardproof::verifier::structure {

using ir::Instruction;
using ir::OpCode;
using ir::ValueId;

namespace {

template <typename Visit>
void for_each_read(const Instruction& i, const Visit& visit) {
  for (const ValueId v : i.inputs) visit(v);
  if (i.region == nullptr) return;
  for (const Instruction& inner : i.region->body) for_each_read(inner, visit);
  for (const ir::Carry& carry : i.region->carries) visit(carry.next);
}

class Values {
 public:
  Values(const ir::Plan& plan, std::size_t stage, const ScheduledProgram& program, Findings& findings)
      : plan_(plan), stage_(stage), values_(plan.stages[stage].program), program_(program), region_(*program.loop->region), found_(findings.violations) {
    for (std::size_t k = 0; k < region_.body.size(); ++k) {
      for (const ValueId v : region_.body[k].outputs) defined_by_.emplace(v.index, k);
      if (region_.body[k].op != OpCode::release) for_each_read(region_.body[k], [&](ValueId v) { readers_[v.index].push_back(k); });
    }
  }

  bool run() {
    index_steps();
    for (const ir::Carry& carry : region_.carries)
      if (!sums_up(carry)) check_carry(carry);
    dependencies();
    return check_order();
  }

 private:
  // ---- SP0312

  bool is_next(ValueId v) const {
    return std::any_of(region_.carries.begin(), region_.carries.end(), [&](const ir::Carry& carry) { return carry.next == v; });
  }

  // Whether a value goes through the instruction as a summand (factor, ...) that nothing else looks at. `kind`: of the operations so
  // far; a difference is a sum with its second operand negated.
  static bool takes_up(const Instruction& i, ValueId sum, std::optional<OpCode>& kind) {
    const OpCode op = i.op == OpCode::sub ? OpCode::add : i.op;
    if (op != OpCode::add && op != OpCode::mul && op != OpCode::max && op != OpCode::min) return false;
    if (i.inputs.size() < 2 || std::count(i.inputs.begin(), i.inputs.end(), sum) != 1 || (i.op == OpCode::sub && i.inputs.front() != sum)) return false;
    if (!kind) kind = op;
    return *kind == op;
  }

  // Follows the sum from `arg` through its additions to `next`: then the order of iterations, and of actions that add to it, is free.
  bool sums_up(const ir::Carry& carry) {
    if (carry.next == carry.argument) return true;  // never changes
    const auto is_argument = [&](const ir::Carry& other) { return other.argument == carry.next; };
    const bool from_outside = !defined_by_.contains(carry.next.index) && std::none_of(region_.carries.begin(), region_.carries.end(), is_argument);
    if (from_outside && readers_[carry.argument.index].empty()) return true;  // the same in every iteration
    std::optional<OpCode> kind;
    std::vector<std::int32_t> sums;
    std::vector<std::size_t> steps;
    ValueId sum = carry.argument;
    while (sum != carry.next) {
      const std::vector<std::size_t>& readers = readers_[sum.index];
      if (readers.size() != 1 || is_next(sum) || !takes_up(region_.body[readers.front()], sum, kind)) return false;
      sums.push_back(sum.index);
      steps.push_back(readers.front());
      sum = region_.body[readers.front()].outputs.front();
    }
    const auto takes_over = [&](const ir::Carry& other) { return other.next == sum; };
    if (!readers_[sum.index].empty() || std::count_if(region_.carries.begin(), region_.carries.end(), takes_over) > 1) return false;
    sums_.insert(sums.begin(), sums.end());
    takes_up_sums_.insert(steps.begin(), steps.end());
    return true;
  }

  // Anything else has to be computed in the order of the iterations: `next` of each before whatever reads or replaces it.
  void check_carry(const ir::Carry& carry) {
    const auto definition = defined_by_.find(carry.next.index);
    const std::vector<std::size_t>& readers = readers_[carry.argument.index];
    if (definition == defined_by_.end()) return order_dependent(carry, readers.empty() ? nullptr : &region_.body[readers.front()], {});
    std::vector<std::size_t> later = readers;
    later.push_back(definition->second);
    const std::size_t first = program_.label_of[definition->second];
    for (std::size_t m = 1; m < static_cast<std::size_t>(region_.trip); ++m)
      for (const std::size_t k : later) {
        const std::size_t second = program_.label_of[k];
        if (step_of_[first][m - 1] < step_of_[second][m]) continue;
        const ScheduledStep &early = program_.steps[step_of_[second][m]], &late = program_.steps[step_of_[first][m - 1]];
        return order_dependent(carry, &region_.body[k], place_of(stage_, program_, early) + ": " + to_string(early.action) + " before " + place_of(stage_, program_, late) + ": " + to_string(late.action));
      }
  }

  void order_dependent(const ir::Carry& carry, const Instruction* reader, const std::string& found) {
    const std::string arg = "`" + name(carry.argument) + "`";
    ir::Diagnostic d;
    d.code = "SP0312";
    d.name = "order-dependent-carry";
    d.message = "what " + arg + " carries depends on the order of the iterations, and the schedule runs them in another one";
    d.labels.push_back({carry.span.known() ? carry.span : program_.loop->span, "carried by the loop", true});
    if (reader != nullptr) d.labels.push_back({reader->span, "depends on the iteration before", false});
    d.expected = "a sum that nothing else of the loop reads, or the order of the loop";
    d.found = found.empty() ? "a value of the iteration before" : found;
    d.subject.value = name(carry.argument);
    d.subject.rank = rank_text();
    d.fix = ir::Fix{"add up what each microbatch gives, and use the sum after the loop", {}, ir::Applicability::display_only};
    found_.add(std::move(d), "");
  }

  // ---- SP0311

  void index_steps() {
    step_of_.assign(program_.labels.size(), std::vector<std::size_t>(static_cast<std::size_t>(region_.trip)));
    for (std::size_t s = 0; s < program_.steps.size(); ++s)
      for (const std::size_t label : program_.steps[s].labels)
        if (label != kNoLabel) step_of_[label][static_cast<std::size_t>(*program_.steps[s].action.microbatch)] = s;
  }

  // Actions of one iteration in the order in which they have to run, with an instruction of the second that says why.
  struct Reason {
    std::size_t instruction;
    ValueId value;
    bool release;
  };

  void depend(std::size_t first, std::size_t second, ValueId value, bool release) {
    const std::size_t a = program_.label_of[first], b = program_.label_of[second];
    if (a != b) after_.emplace(std::pair(a, b), Reason{second, value, release});
  }

  void dependencies() {
    std::unordered_map<std::int32_t, std::int32_t> memory;             // of the result of a wait: that of its transfer
    std::unordered_map<std::int32_t, std::vector<std::size_t>> users;  // of memory, so far
    const auto memory_of = [&](ValueId v) {
      const auto found = memory.find(v.index);
      return found == memory.end() ? v.index : found->second;
    };
    for (std::size_t k = 0; k < region_.body.size(); ++k) {
      const Instruction& i = region_.body[k];
      if (i.op == OpCode::release) {
        for (const ValueId v : i.inputs)
          for (const std::size_t user : users[memory_of(v)]) depend(user, k, v, true);
        continue;
      }
      for_each_read(i, [&](ValueId v) {
        users[memory_of(v)].push_back(k);
        const auto definition = defined_by_.find(v.index);
        const bool adds = sums_.contains(v.index) && takes_up_sums_.contains(k);  // one accumulator, in whatever order
        if (definition != defined_by_.end() && definition->second < k && !adds) depend(definition->second, k, v, false);
      });
      for (const ValueId v : i.outputs) users[memory_of(v)].push_back(k);
      if (i.op != OpCode::wait) continue;
      memory[i.outputs.front().index] = memory_of(i.inputs.front());
      // A transfer reads its operands until its wait.
      const auto started = defined_by_.find(i.inputs.front().index);
      if (started != defined_by_.end())
        for (const ValueId v : region_.body[started->second].inputs) users[memory_of(v)].push_back(k);
    }
  }

  bool check_order() {
    bool good = true;
    for (const auto& [labels, reason] : after_)
      for (std::size_t m = 0; m < static_cast<std::size_t>(region_.trip); ++m) {
        const std::size_t first = step_of_[labels.first][m], second = step_of_[labels.second][m];
        if (first <= second) continue;  // equal: one action runs both, in the order of the text
        too_early(program_.steps[second], program_.steps[first], labels.first, labels.second, reason);
        good = false;
        break;
      }
    return good;
  }

  void too_early(const ScheduledStep& early, const ScheduledStep& late, std::size_t first, std::size_t second, const Reason& reason) {
    const std::string microbatch = std::to_string(*early.action.microbatch);
    const std::string a = to_string(program_.labels[first]) + microbatch, b = to_string(program_.labels[second]) + microbatch;
    ir::Diagnostic d;
    d.code = "SP0311";
    d.name = "schedule-order";
    d.message = "stage `" + plan_.stages[stage_].name + "` runs " + b + " before " + a + (reason.release ? ", and it releases `" : ", and it reads `") + name(reason.value) + "`" +
                (reason.release ? ", which that uses" : " of it");
    d.labels.push_back({span_of(plan_, stage_, program_, early), b + " runs here", true});
    if (span_of(plan_, stage_, program_, late) != span_of(plan_, stage_, program_, early)) d.labels.push_back({span_of(plan_, stage_, program_, late), a + " runs here", false});
    d.labels.push_back({region_.body[reason.instruction].span, (reason.release ? "releases `" : "reads `") + name(reason.value) + "`", false});
    d.expected = a + " before " + b;
    d.found = place_of(stage_, program_, early) + ": " + to_string(early.action) + "; " + place_of(stage_, program_, late) + ": " + to_string(late.action);
    d.subject.value = name(reason.value);
    d.subject.instruction = ir::describe(values_, region_.body[reason.instruction]);
    d.subject.rank = rank_text();
    d.fix = ir::Fix{"run " + b + " after " + a, {}, ir::Applicability::display_only};
    found_.add(std::move(d), std::string(action_type_name(program_.labels[first].type)) + " " + std::string(action_type_name(program_.labels[second].type)));
  }

  const std::string& name(ValueId v) const { return values_.value(v).name; }
  std::string rank_text() const { return "ranks of stage `" + plan_.stages[stage_].name + "`"; }

  const ir::Plan& plan_;
  std::size_t stage_;
  const ir::Program& values_;
  const ScheduledProgram& program_;
  const ir::Region& region_;
  Grouped found_;
  std::unordered_map<std::int32_t, std::size_t> defined_by_;           // value to instruction of the body
  std::unordered_map<std::int32_t, std::vector<std::size_t>> readers_;  // instructions of the body, but for releases
  std::vector<std::vector<std::size_t>> step_of_;  // of each label and microbatch
  std::set<std::int32_t> sums_;            // carried values and sums on their way, whose order is free
  std::set<std::size_t> takes_up_sums_;    // instructions that add to them
  std::map<std::pair<std::size_t, std::size_t>, Reason> after_;  // labels
};

}  // namespace

bool check_schedule_values(const ir::Plan& plan, std::size_t stage, const ScheduledProgram& program, Findings& findings) { return Values(plan, stage, program, findings).run(); }

}  // namespace shardproof::verifier::structure

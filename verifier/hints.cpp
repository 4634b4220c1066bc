#include "verifier/hints.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "verifier/execution/alignment.h"
#include "verifier/execution/counterexample.h"
#include "verifier/execution/scale.h"
#include "verifier/execution/step.h"

namespace shardproof::verifier {

namespace {

using execution::Alignment;
using execution::Held;
using ir::ValueId;

constexpr std::int64_t kMostWork = 20'000'000;  // of the step that is run: seconds

class Hints {
 public:
  // `scaled`: the run was at smaller sizes, and so are factors that come from them.
  Hints(const Session& session, const Alignment& alignment, bool scaled) : session_(session), alignment_(alignment), scaled_(scaled) {
    for (const ir::MeshAxis& axis : session.mesh().axes) axes_.insert(axis.name);
    const std::vector<Step>& steps = session.plan_run().steps();
    for (std::size_t i = 0; i < steps.size(); ++i)
      for (const ValueId output : steps[i].instruction->outputs) definition_[output] = i;
  }

  std::vector<Repair> run() {
    for (const Alignment::Differing& each : alignment_.differing) about(each.value);
    for (const ValueId id : alignment_.frontier) {
      const auto step = definition_.find(id);
      if (step == definition_.end()) continue;
      const ir::Instruction& instruction = *session_.plan_run().steps()[step->second].instruction;
      if (instruction.op == ir::OpCode::add) about_sum(instruction);
      for (const ValueId input : instruction.inputs) about(input);
    }
    for (const Step& step : session_.plan_run().steps())
      if (step.instruction->op == ir::OpCode::concat) about_packing(*step.instruction);
    return std::move(repairs_);
  }

 private:
  const std::optional<Held>& held(ValueId value) const { return alignment_.values.at(static_cast<std::size_t>(value.index)); }

  // Axes of the mesh over which the ranks hold summands.
  std::set<std::string> summed(const Held& held) const {
    std::set<std::string> axes;
    for (const Held::Axis& axis : held.axes)
      if (axis.kind == Held::Axis::Kind::partial && axes_.contains(axis.axis)) axes.insert(axis.axis);
    return axes;
  }

  void about(ValueId value) {
    const std::optional<Held>& what = held(value);
    if (!what || what->is_plain() || !definition_.contains(value) || !what->times.empty() || !what->divided_by.empty()) return;
    const std::set<std::string> axes = summed(*what);
    const auto loops = std::any_of(what->axes.begin(), what->axes.end(), [&](const Held::Axis& axis) { return !axes_.contains(axis.axis); });
    if (loops || axes.empty() == what->factor.is_one()) return;  // both at once is two faults
    if (!axes.empty()) lacks_sum(value, axes);
    else if (!scaled_) has_factor(value, *what);
  }

  // Summands of two values, added up, are summands of their sum.
  void about_sum(const ir::Instruction& add) {
    std::set<std::string> shared = axes_;
    for (const ValueId input : add.inputs) {
      const std::set<std::string> axes = held(input) ? summed(*held(input)) : std::set<std::string>();
      std::erase_if(shared, [&](const std::string& axis) { return !axes.contains(axis); });
    }
    if (!shared.empty()) lacks_sum(add.outputs[0], shared);
  }

  // What is packed into one buffer is reduced as one: all of it has to be summands over the same axes.
  void about_packing(const ir::Instruction& concat) {
    std::set<std::string> shared = axes_;
    for (const ValueId input : concat.inputs) {
      if (!held(input)) continue;
      const std::set<std::string> axes = summed(*held(input));
      std::erase_if(shared, [&](const std::string& axis) { return !axes.contains(axis); });
    }
    for (const ValueId input : concat.inputs) {
      if (!held(input) || !definition_.contains(input)) continue;
      std::set<std::string> more = summed(*held(input));
      std::erase_if(more, [&](const std::string& axis) { return shared.contains(axis); });
      if (!more.empty()) lacks_sum(input, more);
    }
  }

  void lacks_sum(ValueId value, const std::set<std::string>& over) {
    if (seen_.insert(value).second) repairs_.push_back(missing_reduction(definition_.at(value), value, {over.begin(), over.end()}, "sum"));
  }

  void has_factor(ValueId value, const Held& what) {
    if (!seen_.insert(value).second) return;
    Repair r;
    r.step = definition_.at(value);
    r.value = value;
    r.code = "SP0205";
    r.name = "wrong-scale";
    r.factor = ir::inverse(what.factor);
    r.finding = "is " + ir::to_string(what.factor) + " times `" + what.reference + "` of the reference";
    r.fix = "multiply it by " + ir::to_string(*r.factor);
    r.expected = "1 times the reference value";
    r.found = ir::to_string(what.factor) + " times the reference value";
    repairs_.push_back(std::move(r));
  }

  const Session& session_;
  const Alignment& alignment_;
  bool scaled_;
  std::set<std::string> axes_;  // of the mesh
  std::map<ValueId, std::size_t> definition_;  // step
  std::set<ValueId> seen_;
  std::vector<Repair> repairs_;
};

}  // namespace

std::vector<Repair> hinted_changes(const Session& session) {
  const ir::Document& document = session.document();
  execution::Scaled scaled;
  bool is_scaled = false;
  if (execution::estimated_work(document) > kMostWork) {
    scaled = execution::scale(document);
    if (!scaled.changed || execution::estimated_work(scaled.small) > kMostWork) return {};
    is_scaled = true;
  }
  const std::optional<Alignment> alignment = execution::align(execution::in_core_ops(is_scaled ? scaled.small : document));
  if (!alignment) return {};
  return Hints(session, *alignment, is_scaled).run();
}

}  // namespace shardproof::verifier

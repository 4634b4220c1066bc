// Instructions whose results are named alike but for numbers (those of two layers or buffers) are expected to do the same.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "ir/print.h"
#include "verifier/patch.h"
#include "verifier/plan_repairs.h"

namespace shardproof::verifier {
namespace {

using ir::Instruction;
using ir::ValueId;

constexpr std::size_t kMaxModels = 2;  // tried for one instruction
constexpr int kMaxLevels = 6;          // from a suspect back to what is odd
constexpr int kMaxReaders = 6;         // the same, forwards
constexpr int kFar = std::numeric_limits<int>::max();

// A name as text with a mark for each number, and the numbers.
struct Pattern {
  std::string text;
  std::vector<std::string> numbers;
  std::string filled(const std::vector<std::string>& with) const {
    std::string name;
    std::size_t next = 0;
    for (const char c : text) {
      if (c == '#') name += with[next++];
      else name += c;
    }
    return name;
  }
};

Pattern pattern_of(const std::string& name) {
  Pattern p;
  bool in_number = false;
  for (const char c : name) {
    const bool digit = (c >= '0' && c <= '9') || c == '#';
    if (digit && !in_number) {
      p.text += '#';
      p.numbers.emplace_back();
    }
    if (digit) p.numbers.back() += c;
    else p.text += c;
    in_number = digit;
  }
  return p;
}

class Siblings {
 public:
  Siblings(Session& session, Blame& blame) : session_(session), blame_(blame), program_(session.document().plan.stages.front().program) {
    for (std::size_t v = 0; v < program_.values.size(); ++v) by_name_.emplace(program_.values[v].name, ValueId{static_cast<std::int32_t>(v)});
    collect(program_.body);
  }

  std::vector<Repair> changes() {
    std::vector<std::pair<int, Repair>> found;  // by distance from what is suspected
    const std::map<ValueId, int> distances = distances_to_suspects();
    for (const auto& [unused, group] : groups_) {
      std::map<std::string, std::vector<const Instruction*>> forms;
      for (const Instruction* i : group) forms[form(*i)].push_back(i);
      if (forms.size() < 2) continue;
      for (const auto& [own_form, alike] : forms)
        for (const Instruction* odd : alike) {
          const auto at = distances.find(odd->outputs[0]);
          const int distance = at == distances.end() ? kFar : at->second;
          std::vector<std::pair<std::size_t, const Instruction*>> models;  // by what is in common, most first
          for (const auto& [other_form, others] : forms) {
            if (other_form == own_form || others.size() < alike.size()) continue;
            const auto nearest = std::max_element(others.begin(), others.end(), [&](const auto* a, const auto* b) { return in_common(*odd, *a) < in_common(*odd, *b); });
            models.emplace_back(in_common(*odd, **nearest), *nearest);
          }
          std::stable_sort(models.begin(), models.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
          if (models.size() > kMaxModels) models.resize(kMaxModels);
          for (const auto& [common, model] : models)
            if (auto changed = like(*odd, *model)) found.emplace_back(distance, repair(*odd, *model, *std::move(changed)));
        }
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Repair> repairs = together(found);
    for (auto& [distance, r] : found)
      if (distance != kFar) repairs.push_back(std::move(r));
    return repairs;
  }

 private:
  const std::string& name(ValueId v) const { return program_.value(v).name; }

  void collect(const std::vector<Instruction>& body) {
    for (const Instruction& i : body) {
      if (i.region != nullptr) collect(i.region->body);
      if (i.region != nullptr || i.outputs.empty() || i.inputs.empty()) continue;
      const Pattern p = pattern_of(name(i.outputs[0]));
      if (p.numbers.empty()) continue;
      groups_[p.text].push_back(&i);
      by_result_.emplace(i.outputs[0], &i);
    }
  }

  // How many numbers of the names agree.
  std::size_t in_common(const Instruction& a, const Instruction& b) const {
    const std::vector<std::string> x = pattern_of(name(a.outputs[0])).numbers, y = pattern_of(name(b.outputs[0])).numbers;
    std::size_t count = 0;
    for (std::size_t k = 0; k < std::min(x.size(), y.size()); ++k) count += x[k] == y[k];
    return count;
  }

  // What it does, with the numbers of its own name left out of the names that it reads.
  std::string form(const Instruction& i) const {
    const std::vector<std::string> own = pattern_of(name(i.outputs[0])).numbers;
    Instruction without = i;
    without.inputs.clear();
    without.source.clear();
    without.recompute.clear();
    std::string text = ir::instruction_json(program_, without);
    text = text.substr(text.find("\"op\""));
    for (const ValueId v : i.inputs) {
      const Pattern p = pattern_of(name(v));
      const std::vector<std::string> none(own.size(), "#");
      text += " " + p.filled(with_own(p.numbers, own, none).value_or(p.numbers));
    }
    return text;
  }

  // The numbers of an operand's name where those of the result are `to` instead of `from`; nullopt if it begins with others.
  static std::optional<std::vector<std::string>> with_own(std::vector<std::string> numbers, const std::vector<std::string>& from, const std::vector<std::string>& to) {
    std::size_t common = 0;
    for (; common < std::min(numbers.size(), from.size()) && numbers[common] == from[common]; ++common) numbers[common] = to[common];
    if (common == 0 && !numbers.empty()) return std::nullopt;
    return numbers;
  }

  // `odd` doing what `model` does, on values whose names have its own numbers.
  std::optional<Instruction> like(const Instruction& odd, const Instruction& model) const {
    const std::vector<std::string> own = pattern_of(name(odd.outputs[0])).numbers, other = pattern_of(name(model.outputs[0])).numbers;
    if (own.size() != other.size() || odd.outputs.size() != model.outputs.size()) return std::nullopt;
    for (std::size_t k = 0; k < odd.outputs.size(); ++k)
      if (program_.value(odd.outputs[k]).type != program_.value(model.outputs[k]).type) return std::nullopt;
    Instruction changed = model;
    changed.outputs = odd.outputs;
    changed.span = odd.span;
    changed.source = odd.source;
    changed.recompute = odd.recompute;
    for (ValueId& v : changed.inputs) {
      const Pattern p = pattern_of(name(v));
      if (p.numbers.empty() || std::find(odd.inputs.begin(), odd.inputs.end(), v) != odd.inputs.end()) continue;
      const auto numbers = with_own(p.numbers, other, own);
      const auto mine = numbers ? by_name_.find(p.filled(*numbers)) : by_name_.end();
      if (mine == by_name_.end() || program_.value(mine->second).type != program_.value(v).type) return std::nullopt;
      v = mine->second;
    }
    return changed;
  }

  Repair repair(const Instruction& odd, const Instruction& model, Instruction changed) const {
    Repair r;
    r.code = "SP0207";
    r.name = "wrong-value";
    r.finding = "is computed in another way than `" + name(model.outputs[0]) + "`";
    r.fix = "compute it as `" + name(model.outputs[0]) + "` is computed";
    r.expected = ir::describe(program_, changed);
    r.found = ir::describe(program_, odd);
    r.value = odd.outputs[0];
    r.subject = name(odd.outputs[0]);
    r.span = odd.span;
    r.change = [changed = std::move(changed)](ir::Document& document) {
      *own_definition(document.plan.stages.front().program.body, changed.outputs[0]) = changed;
    };
    return r;
  }

  bool share_operand(ValueId a, ValueId b) const {
    const std::vector<ValueId> &x = by_result_.at(a)->inputs, &y = by_result_.at(b)->inputs;
    return std::any_of(x.begin(), x.end(), [&](ValueId v) { return std::find(y.begin(), y.end(), v) != y.end(); });
  }

  // What is odd together with something that has the same numbers and reads the same, as where two values were exchanged.
  std::vector<Repair> together(const std::vector<std::pair<int, Repair>>& found) const {
    std::vector<Repair> all;
    std::set<std::set<ValueId>> done;
    for (const auto& [distance, first] : found) {
      if (distance == kFar) break;  // sorted
      std::map<ValueId, const Repair*> parts;
      for (const auto& [unused, other] : found)
        if (pattern_of(other.subject).numbers == pattern_of(first.subject).numbers && share_operand(first.value, other.value)) parts.try_emplace(other.value, &other);
      std::set<ValueId> values;
      for (const auto& [value, part] : parts) values.insert(value);
      if (parts.size() < 2 || !done.insert(values).second) continue;
      Repair r = first;
      std::vector<std::function<void(ir::Document&)>> changes;
      for (const auto& [value, part] : parts) {
        changes.push_back(part->change);
        if (value != first.value) r.fix += ", and likewise `" + name(value) + "`";
      }
      r.change = [changes](ir::Document& document) {
        for (const auto& change : changes) change(document);
      };
      all.push_back(std::move(r));
    }
    return all;
  }

  // How many instructions before a suspect, or reading it.
  std::map<ValueId, int> distances_to_suspects() {
    const std::vector<Step>& steps = session_.plan_run().steps();
    std::set<std::size_t> open;
    for (const std::size_t root : blame_.roots()) open.insert(root);
    if (const auto suspect = blame_.first_suspect()) open.insert(suspect->step);
    std::map<ValueId, int> distances;
    std::set<ValueId> suspected;
    for (const std::size_t i : open) suspected.insert(steps[i].instruction->outputs.begin(), steps[i].instruction->outputs.end());
    for (int level = 0; level < kMaxLevels && !open.empty(); ++level) {
      std::set<std::size_t> before;
      for (const std::size_t i : open) {
        for (const ValueId out : steps[i].instruction->outputs) distances.emplace(named(out), level);
        for (const ValueId v : steps[i].instruction->inputs)
          if (blame_.definition(v) != Blame::npos) before.insert(blame_.definition(v));
      }
      open = std::move(before);
    }
    for (int level = 1; level <= kMaxReaders; ++level) {
      std::set<ValueId> readers;
      for (const Step& step : steps)
        if (step.instruction->region == nullptr && std::any_of(step.instruction->inputs.begin(), step.instruction->inputs.end(), [&](ValueId v) { return suspected.count(v) != 0; }))
          readers.insert(step.instruction->outputs.begin(), step.instruction->outputs.end());
      for (const ValueId v : readers) distances.emplace(named(v), level);
      suspected = std::move(readers);
    }
    return distances;
  }

  // Parts of macros are named "<result>/<part>".
  ValueId named(ValueId v) const {
    if (static_cast<std::size_t>(v.index) < program_.values.size()) return v;
    const std::string& part = session_.plan_program().value(v).name;
    const auto whole = by_name_.find(part.substr(0, part.find('/')));
    return whole == by_name_.end() ? v : whole->second;
  }

  Session& session_;
  Blame& blame_;
  const ir::Program& program_;
  std::map<std::string, ValueId> by_name_;
  std::map<std::string, std::vector<const Instruction*>> groups_;  // by pattern of the result
  std::map<ValueId, const Instruction*> by_result_;
};

}  // namespace

std::vector<Repair> sibling_changes(Session& session, Blame& blame) { return Siblings(session, blame).changes(); }

}  // namespace shardproof::verifier

#include "verifier/structure/states.h"

#include <algorithm>
#include <map>
#include <set>

#include "verifier/structure/holdings.h"

namespace shardproof::verifier::structure {

namespace {

std::string quoted(const std::string& name) { return "`" + name + "`"; }

ir::Diagnostic finding(std::string code, std::string name, std::string message, ir::Span span, std::string here, std::string expected, std::string found, std::string fix) {
  ir::Diagnostic d = ir::make_error(std::move(code), std::move(name), std::move(message), span, std::move(expected), std::move(found));
  d.labels.front().text = std::move(here);
  d.fix = ir::Fix{std::move(fix), {}, ir::Applicability::display_only};
  return d;
}

using ByReference = std::map<ir::ValueId, std::vector<const Holding*>>;

ByReference by_reference(const std::vector<Holding>& holdings) {
  ByReference result;
  for (const Holding& holding : holdings) result[holding.reference].push_back(&holding);
  return result;
}

void not_decided(const ir::ReferenceState& reference, const char* what, ir::Span span, Findings& findings) {
  findings.undecided.push_back(ir::make_error("SP0905", "unsupported", "whether all elements of " + quoted(reference.name) + " are " + what + " is not decided: stages hold parts of it in different layouts", span,
                                              "parts in one layout", "several"));
}

// Every reference state is held (validated), so only too many holdings leave none.
bool too_many(const ir::Document& document, const std::vector<Holding>& holdings, Findings& findings) {
  if (!holdings.empty() || document.reference.state.empty()) return false;
  findings.undecided.push_back(ir::make_error("SP0905", "unsupported", "the plan has too many states in buffers to check which of them hold what", document.plan.stages.front().span,
                                              "at most " + std::to_string(kMaxHoldings) + " tensors in states", "more"));
  return true;
}

}  // namespace

void check_states(const ir::Document& document, Findings& findings) {
  const ir::ReferenceIndex index(document.reference);
  const std::vector<Holding> holdings = holdings_of(document, index);
  if (too_many(document, holdings, findings)) return;
  const ByReference held = by_reference(holdings);
  Grouped violations(findings.violations), warnings(findings.warnings);
  for (const ir::ReferenceState& reference : document.reference.state) {
    const auto own = held.find(reference.value);
    if (own == held.end()) continue;  // refused by validation
    const Cover cover = cover_of(document.plan, own->second);
    const ir::PlanState& first = *own->second.front()->state;
    if (cover.kind == Cover::Kind::unknown) not_decided(reference, "held", first.span, findings);
    if (cover.kind == Cover::Kind::partly) {
      ir::Diagnostic d = finding("SP0504", "state-partly-held", "no rank holds the part of " + quoted(reference.name) + " that belongs to " + cover.missing, first.span, "cut here over an axis along which the stage does not run everywhere",
                                 "every element on some rank", "the elements of the other coordinates only", "hold the other part in the stages that run there, or do not cut the tensor over an axis that places stages");
      d.subject.value = first.name;
      d.subject.reference = reference.name;
      d.subject.rank = "ranks " + cover.missing;
      violations.add(std::move(d), cover.missing);
    }
    // Parameters have copies in several types; what the optimizer knows of them has one owner.
    if (reference.param.empty() || reference.role == "param") continue;
    std::map<const ir::StageProgram*, const Holding*> owner;
    for (const Holding* holding : own->second) {
      const auto [known, fresh] = owner.emplace(holding->stage, holding);
      if (fresh) continue;
      const ir::PlanState& other = *known->second->state;
      ir::Diagnostic d = finding("SP0503", "state-held-twice", quoted(other.name) + " and " + quoted(holding->state->name) + " both hold the " + quoted(reference.role) + " of " + quoted(reference.param), holding->state->span,
                                 "held here again", "one owner of each element of an optimizer state", "two states in one program", "keep one of them");
      d.severity = ir::Severity::warning;
      d.labels.push_back({other.span, "held here", false});
      d.subject.value = holding->state->name;
      d.subject.reference = reference.name;
      warnings.add(std::move(d), {});
    }
  }
}

namespace {

class Checkpoint {
 public:
  Checkpoint(const ir::Document& document, Findings& findings) : document_(document), plan_(document.plan), index_(document.reference), holdings_(holdings_of(document, index_)),
                                                                 findings_(findings), violations_(findings.violations), warnings_(findings.warnings) {}

  void run() {
    if (holdings_.empty()) return;  // check_states says so
    std::map<std::string, const ir::CheckpointEntry*> entries;
    for (const ir::CheckpointEntry& entry : plan_.checkpoint) entries.emplace(entry.state, &entry);
    std::map<const ir::CheckpointEntry*, std::vector<const Holding*>> of_entry;
    std::map<ir::ValueId, std::vector<const Holding*>> saved;
    for (const Holding& holding : holdings_) {
      const auto entry = entries.find(holding.state->name);
      if (entry == entries.end()) continue;
      of_entry[entry->second].push_back(&holding);
      saved[holding.reference].push_back(&holding);
    }
    for (const ir::CheckpointEntry& entry : plan_.checkpoint) one_meaning(entry, of_entry[&entry]);
    const auto held = by_reference(holdings_);
    for (const ir::ReferenceState& reference : document_.reference.state) {
      const auto own = saved.find(reference.value);
      if (own == saved.end()) not_saved(reference);
      else complete(reference, own->second, held.at(reference.value));
    }
  }

 private:
  // The position of an element in a file is its index in the tensor that the key names: there has to be one.
  void one_meaning(const ir::CheckpointEntry& entry, const std::vector<const Holding*>& holdings) {
    std::map<const ir::StageProgram*, std::set<ir::ValueId>> tensors;
    for (const Holding* holding : holdings) {
      if (is_partial(*holding)) {
        ir::Diagnostic d = finding("SP0506", "checkpoint-ambiguous", "checkpoint key " + quoted(entry.key) + " saves " + quoted(entry.state) + " while each rank holds a summand of it", entry.span, "saved here",
                                   "a state that some rank holds whole, element by element", "partial", "reduce the state before it is saved");
        d.subject.value = entry.state;
        return violations_.add(std::move(d), "partial");
      }
      tensors[holding->stage].insert(holding->reference);
    }
    for (const auto& [stage, own] : tensors) {
      if (own == tensors.begin()->second) continue;
      const ir::StageProgram& first = *tensors.begin()->first;
      ir::Diagnostic d = finding("SP0506", "checkpoint-ambiguous", "checkpoint key " + quoted(entry.key) + " names one tensor in stage " + quoted(first.name) + " and another in stage " + quoted(stage->name), entry.span, "saved here",
                                 "one set of tensors under each key", list(tensors.begin()->second) + " and " + list(own), "give the states of different tensors different names and keys");
      d.subject.value = entry.state;
      return violations_.add(std::move(d), "tensors");
    }
  }

  std::string list(const std::set<ir::ValueId>& tensors) const {
    std::string text;
    std::size_t shown = 0;
    for (const ir::ValueId v : tensors) {
      if (++shown > 3) return text + ", ...";
      text += (text.empty() ? "" : ", ") + quoted(document_.reference.program.value(v).name);
    }
    return text;
  }

  void not_saved(const ir::ReferenceState& reference) {
    const std::string role = reference.role.empty() ? "" : ", the " + quoted(reference.role) + (reference.param.empty() ? " state" : " of " + quoted(reference.param));
    ir::Diagnostic d = finding("SP0505", "checkpoint-incomplete", "the checkpoint does not save reference state " + quoted(reference.name) + role, plan_.checkpoint.front().span, "the checkpoint",
                               "an entry for a plan state that represents it", "none", "save a state that holds " + quoted(reference.name));
    d.subject.reference = reference.name;
    d.labels.push_back({reference.span, "not saved", false});
    violations_.add(std::move(d), "missing " + reference.role);
  }

  void complete(const ir::ReferenceState& reference, const std::vector<const Holding*>& saved, const std::vector<const Holding*>& held) {
    const Cover cover = cover_of(plan_, saved);
    const ir::Span span = plan_.checkpoint.front().span;
    if (cover.kind == Cover::Kind::unknown) not_decided(reference, "saved", span, findings_);
    if (cover.kind == Cover::Kind::partly && cover_of(plan_, held).kind == Cover::Kind::whole) {  // else SP0504
      ir::Diagnostic d = finding("SP0505", "checkpoint-incomplete", "the checkpoint saves " + quoted(reference.name) + " without the part that belongs to " + cover.missing, span, "the checkpoint", "entries for all states that hold parts of it",
                                 "entries for some", "save the states of the other stages, too");
      d.subject.reference = reference.name;
      violations_.add(std::move(d), "part " + cover.missing);
    }
    const auto size = [](const Holding* a) { return ir::byte_size(a->dtype); };
    const auto widest = [&](const std::vector<const Holding*>& all) { return *std::max_element(all.begin(), all.end(), [&](const Holding* a, const Holding* b) { return size(a) < size(b); }); };
    const Holding& kept = *widest(saved);
    const Holding& best = *widest(held);
    if (size(&kept) >= size(&best)) return;
    ir::Diagnostic d = finding("SP0605", "narrower-checkpoint", quoted(reference.name) + " is held in " + std::string(ir::dtype_name(best.dtype)) + " and saved in " + std::string(ir::dtype_name(kept.dtype)) + " only", best.state->span,
                               "held here", "an entry for " + quoted(best.state->name), "an entry for " + quoted(kept.state->name) + " only", "save the wider copy, or both");
    d.severity = ir::Severity::warning;
    d.subject.value = best.state->name;
    d.subject.reference = reference.name;
    warnings_.add(std::move(d), {});
  }

  const ir::Document& document_;
  const ir::Plan& plan_;
  const ir::ReferenceIndex index_;
  const std::vector<Holding> holdings_;
  Findings& findings_;
  Grouped violations_, warnings_;
};

}  // namespace

void check_checkpoint(const ir::Document& document, Findings& findings) {
  if (!document.plan.checkpoint.empty()) Checkpoint(document, findings).run();
}

namespace {

// The value that `v` is a copy of: instructions outside loops that keep every element and its place.
ir::ValueId original(const std::map<ir::ValueId, const ir::Instruction*>& definitions, ir::ValueId v) {
  for (;;) {
    const auto definition = definitions.find(v);
    if (definition == definitions.end()) return v;
    const ir::Instruction& i = *definition->second;
    if (i.op != ir::OpCode::reshape && i.op != ir::OpCode::cast && i.op != ir::OpCode::stop_gradient && i.op != ir::OpCode::wait) return v;
    v = i.inputs.front();
  }
}

}  // namespace

void name_lost_updates(const ir::Document& document, std::vector<ir::Diagnostic>& diagnostics) {
  const auto wrong = [](const ir::Diagnostic& d) { return d.code == "SP0207" && !d.labels.empty() && d.labels.front().text.starts_with("declared here"); };
  if (std::none_of(diagnostics.begin(), diagnostics.end(), wrong)) return;
  const ir::ReferenceIndex index(document.reference);
  std::map<ir::ValueId, ir::ValueId> next;  // of reference states
  for (const ir::ReferenceState& state : document.reference.state) next[state.value] = state.next;
  std::set<std::string> lost;
  for (const ir::StageProgram& stage : document.plan.stages) {
    std::map<ir::ValueId, const ir::Instruction*> definitions;
    for (const ir::Instruction& i : stage.program.body)
      if (i.outputs.size() == 1) definitions[i.outputs.front()] = &i;
    for (const ir::PlanState& state : stage.state)
      if (original(definitions, state.next) == state.value) lost.insert(state.name);
  }
  std::map<std::string, std::string> changed;  // state to a reference state that changes
  for (const Holding& holding : holdings_of(document, index))
    if (lost.contains(holding.state->name) && next.at(holding.reference) != holding.reference)
      changed.emplace(holding.state->name, document.reference.program.value(holding.reference).name);
  for (ir::Diagnostic& d : diagnostics) {
    const auto found = wrong(d) ? changed.find(d.subject.value) : changed.end();
    if (found == changed.end()) continue;
    d.code = "SP0502";
    d.name = "lost-update";
    d.message = "the update of state " + quoted(d.subject.value) + " is lost: it leaves the step as it entered, and " + quoted(found->second) + " of the reference changes";
    d.subject.reference = found->second;
  }
}

}  // namespace shardproof::verifier::structure

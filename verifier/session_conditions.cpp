// Side conditions of a whole verification. A condition of the reference that is not discharged is an assumption about
// its inputs; the plan must be defined wherever the reference is, so it may rest on those assumptions and no others.
#include <algorithm>

#include "verifier/session.h"
#include "verifier/side_conditions.h"

namespace shardproof::verifier {

using solvers::Obligation;
using solvers::TensorId;
using solvers::TermId;

// The largest set of states for which "all elements are >= 0" is an invariant of the step (second moments of Adam).
std::set<TensorId> Session::kept_nonnegative() {
  std::map<TensorId, TermId> next;
  for (const ir::ReferenceState& state : document_.reference.state) {
    const solvers::TermNode& entry = pool_.node(reference_run_->term(state.value));
    if (entry.kind == solvers::TermKind::access) next[entry.tensor] = reference_run_->term(state.next);
  }
  for (;;) {
    SideConditions conditions(atoms_);
    for (const auto& [tensor, term] : next) conditions.suppose_nonnegative(tensor);
    const std::size_t before = next.size();
    std::erase_if(next, [&](const auto& entry) { return !conditions.holds({Obligation::Kind::nonnegative, entry.second}); });
    if (next.size() == before) break;
  }
  std::set<TensorId> result;
  for (const auto& [tensor, term] : next) result.insert(tensor);
  return result;
}

std::set<TensorId> Session::inputs_of_reference() {
  std::set<TensorId> result;
  for (const auto& [name, value] : reference_entry_)
    if (const solvers::TermNode& n = pool_.node(reference_run_->term(value)); n.kind == solvers::TermKind::access) result.insert(n.tensor);
  return result;
}

Session::SideConditionResult Session::judge_side_conditions() {
  SideConditionResult result;
  result.assumptions.push_back("real arithmetic: rounding, overflow and NaN of floating-point numbers are not modelled");
  for (const ir::ReferenceInput& input : document_.reference.inputs)
    if (input.below > 0)
      result.assumptions.push_back("every element of `" + reference_program_.value(input.value).name + "` is in [0, " + std::to_string(input.below) + ")");
  if (reference_semantics_->assumes_no_overflow() || plan_semantics_->assumes_no_overflow())
    result.assumptions.push_back("integers without declared bounds do not overflow");

  const std::vector<Obligation> used = pool_.obligations();  // a copy: judging may record more
  std::vector<DomainCondition> of_reference = reference_semantics_->domain_conditions(), of_plan = plan_semantics_->domain_conditions();
  // Arbitrary elements may be out of any domain, as long as no result depends on them; a rewrite must not rest on them.
  std::erase_if(of_plan, [&](const DomainCondition& c) { return plan_run_->mentions(c.obligation.term, paddings_); });
  for (std::size_t i = 0; i < used.size(); ++i) (i < reference_obligations_ ? of_reference : of_plan).push_back({used[i], {}});

  // Answers are remembered, so each new premise starts afresh.
  std::optional<SideConditions> conditions(std::in_place, atoms_);
  const auto open = [&](std::vector<DomainCondition>& list) {
    std::erase_if(list, [&](const DomainCondition& c) { return conditions->holds(c.obligation); });
  };
  const auto leaves = [&] {
    std::set<Obligation> all;
    for (const DomainCondition& c : of_reference)
      for (const Obligation& o : conditions->reduced(c.obligation)) all.insert(o);
    return all;
  };
  open(of_reference);
  open(of_plan);
  std::set<TensorId> kept;
  const std::set<Obligation> without_invariant = leaves();
  if (!without_invariant.empty()) {
    kept = kept_nonnegative();
    conditions.emplace(atoms_);
    for (const TensorId tensor : kept) conditions->suppose_nonnegative(tensor);
    if (leaves() == without_invariant) {
      kept.clear();
      conditions.emplace(atoms_);
    } else {
      std::string text = "every element of `" + pool_.tensor(*kept.begin()).name + "`";
      if (kept.size() > 1) text += " and of " + std::to_string(kept.size() - 1) + " other states";
      result.assumptions.push_back(text + " is not negative at the start (each step keeps that)");
      open(of_reference);
    }
  }
  std::set<std::string> listed;
  const auto fail = [&](std::vector<SideConditionResult::Failure>& failures, const DomainCondition& c) {
    const std::string text = conditions->describe(c.obligation);
    if (listed.insert(text).second)
      failures.push_back({text, c.span, conditions->depends_on_data(c.obligation) && !conditions->refuted(c.obligation)});
  };
  // Premises that hold together for some inputs, here for all that are positive, are no contradiction.
  SideConditions if_positive(atoms_);
  for (const TensorId tensor : inputs_of_reference()) if_positive.suppose_positive(tensor);
  std::vector<Obligation> assumed;
  for (const DomainCondition& c : of_reference) {
    if (conditions->refuted(c.obligation)) {
      fail(result.contradictions, c);
    } else if (!conditions->depends_on_data(c.obligation)) {
      fail(result.unmet, c);
    } else {
      for (const Obligation& o : conditions->reduced(c.obligation)) {
        assumed.push_back(o);
        std::string text = conditions->describe(o);
        if (!if_positive.holds(o)) text += " (no inputs were found that satisfy it)";
        if (listed.insert(text).second) result.assumptions.push_back(text);
      }
    }
  }
  conditions.emplace(atoms_);
  for (const TensorId tensor : kept) conditions->suppose_nonnegative(tensor);
  for (const Obligation& o : assumed) conditions->suppose(o);
  open(of_plan);
  for (const DomainCondition& c : of_plan) fail(result.unmet, c);
  return result;
}

}  // namespace shardproof::verifier

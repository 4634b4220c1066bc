// Side conditions of a whole verification. A condition of the reference that is not discharged is an assumption about
// its inputs; the plan must be defined wherever the reference is, so it may rest on those assumptions and no others.
#include <optional>

#include "verifier/kernel/nonnegative_states.h"
#include "verifier/session.h"
#include "verifier/kernel/side_conditions.h"

namespace shardproof::verifier {

using solvers::Obligation;
using solvers::TensorId;
using solvers::TermId;

SideConditions Session::conditions_with(const std::set<TensorId>& nonnegative) {
  SideConditions conditions(atoms_);
  for (const auto& [key, tensor] : literals_) conditions.know_literal(tensor, key.first.empty());
  for (const TensorId tensor : nonnegative) conditions.suppose_nonnegative(tensor);
  return conditions;
}

// Of the reference's states that are one tensor on entry, what they are on exit.
std::map<TensorId, TermId> Session::terms_after_step() const {
  std::map<TensorId, TermId> next;
  for (const ir::ReferenceState& state : document_.reference.state) {
    const solvers::TermNode& entry = pool_.node(reference_run_->term(state.value));
    if (entry.kind == solvers::TermKind::access) next[entry.tensor] = reference_run_->term(state.next);
  }
  return next;
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

  // What the reference needs to be defined is a premise; what rewrites of its terms used must follow from that.
  std::vector<DomainCondition> of_reference = reference_semantics_->domain_conditions(), of_plan = plan_semantics_->domain_conditions();
  std::vector<DomainCondition> of_rewrites;
  for (const Obligation& o : reference_obligations_) of_rewrites.push_back({o, {}});
  // Rewrites must not rest on arbitrary elements either.
  for (const Obligation& o : pool_.obligations()) of_plan.push_back({o, {}});

  // Answers are remembered, so each new premise starts afresh.
  std::optional<SideConditions> conditions(conditions_with({}));
  const auto discharge = [&](std::vector<DomainCondition>& list) {
    std::erase_if(list, [&](const DomainCondition& c) { return conditions->holds(c.obligation); });
  };
  discharge(of_reference);
  std::vector<Obligation> needed;
  for (const DomainCondition& c : of_reference) needed.push_back(c.obligation);
  std::set<TensorId> kept;
  if (!needed.empty()) kept = kept_nonnegative(terms_after_step(), needed, [this](const std::set<TensorId>& t) { return conditions_with(t); });
  if (!kept.empty()) {
    std::string text = "every element of `" + pool_.tensor(*kept.begin()).name + "`";
    if (kept.size() == 2) text += " and of `" + pool_.tensor(*kept.rbegin()).name + "`";
    if (kept.size() > 2) text += " and of " + std::to_string(kept.size() - 1) + " other states";
    result.assumptions.push_back(text + " is not negative at the start (each step keeps that)");
    for (const TensorId tensor : kept) result.nonnegative_states.push_back(pool_.tensor(tensor).name);
    conditions.emplace(conditions_with(kept));
    discharge(of_reference);
  }
  const auto fail = [&](std::vector<SideConditionResult::Failure>& failures, const DomainCondition& c) {
    const bool may_hold = conditions->depends_on_data(c.obligation) && !conditions->refuted(c.obligation);
    failures.push_back({conditions->describe(c.obligation), c.span, may_hold});
  };
  // Premises that hold together for some inputs, here for all that are positive, are no contradiction.
  SideConditions if_positive = conditions_with({});
  for (const TensorId tensor : inputs_of_reference()) if_positive.suppose_positive(tensor);
  std::set<std::string> listed;
  const auto assume = [&](const DomainCondition& c) {
    for (const Obligation& part : conditions->reduced(c.obligation)) {
      std::string text = conditions->describe(part);
      if (!if_positive.holds(part)) {
        result.unshown.push_back({text, c.span, true});
        text += " (no inputs were found that satisfy it)";
      }
      if (listed.insert(text).second) result.assumptions.push_back(text);
    }
  };
  std::vector<Obligation> premises;
  for (const DomainCondition& c : of_reference) {
    if (conditions->refuted(c.obligation)) {
      fail(result.contradictions, c);
    } else if (!conditions->depends_on_data(c.obligation)) {
      fail(result.unmet, c);
    } else {
      premises.push_back(c.obligation);
      assume(c);
    }
  }
  conditions.emplace(conditions_with(kept));
  for (const Obligation& o : premises) conditions->suppose(o);
  discharge(of_rewrites);
  for (const DomainCondition& c : of_rewrites) {
    if (conditions->depends_on_data(c.obligation) && !conditions->refuted(c.obligation)) assume(c);
    else fail(result.unmet, c);
  }
  discharge(of_plan);
  for (const DomainCondition& c : of_plan) fail(result.unmet, c);
  result.unmet.insert(result.unmet.end(), undefined_claims_.begin(), undefined_claims_.end());
  return result;
}

}  // namespace shardproof::verifier

// States of which "all elements are >= 0" is an invariant of the step (second moments of Adam). Part of the trusted base.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "verifier/kernel/side_conditions.h"

namespace shardproof::verifier {

// Law: if each element of the returned states is >= 0 on entry, each is on exit, whatever the other tensors hold, where the
// step is defined. Those are taken that discharging the conditions `needed` takes, and no more: a premise must not say
// anything about other tensors.
// `next`: of states that are one tensor on entry, what they are on exit. `conditions_with`: what is known if these states
// are >= 0 on entry.
std::set<solvers::TensorId> kept_nonnegative(
    std::map<solvers::TensorId, solvers::TermId> next, const std::vector<solvers::Obligation>& needed,
    const std::function<SideConditions(const std::set<solvers::TensorId>& nonnegative)>& conditions_with);

}  // namespace shardproof::verifier

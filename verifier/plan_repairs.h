// Changes of a plan that are more than another instruction for one result: how often a loop runs, what its iterations take and
// carry, and how the plan's inputs and states are laid out. Each is tried on the whole plan, so only what looks odd is changed.
#pragma once

#include <vector>

#include "verifier/blame.h"
#include "verifier/repairs.h"

namespace shardproof::verifier {

// Loops whose iterations do not take each part of what they read once, or that carry one value's next as another's.
std::vector<Repair> loop_changes(Session& session);
// Inputs, states and members of buffers that are laid out in another way than what is like them.
std::vector<Repair> layout_changes(Session& session);
// Instructions near the suspects that do something else than those named alike, as of another layer.
std::vector<Repair> sibling_changes(Session& session, Blame& blame);
// Members of buffers where claims fail on these alone: exchanged, or laid out otherwise.
std::vector<Repair> member_changes(Session& session);
// Layouts for which there is no other evidence than that what they declare fails, or that what reads them is at fault.
std::vector<Repair> declaration_changes(Session& session, Blame& blame);

}  // namespace shardproof::verifier

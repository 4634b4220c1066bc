// State of the plan: every element of every reference state is held by some rank, and by one state of a program; what is
// saved restores all of it.
#pragma once

#include "ir/plan.h"
#include "verifier/structure/findings.h"

namespace shardproof::verifier::structure {

// SP0504: elements of a reference state that no rank holds. SP0503 (warning): two states of one program hold the same
// optimizer state.
void check_states(const ir::Document& document, Findings& findings);

// Saving and loading is the identity. An entry of the checkpoint saves one plan state under one key: the file holds each
// element of its reference tensors once, as the first of the ranks that hold a copy of it has it, and loading gives every
// rank the elements of its own placement. That is the identity on all state if
//   every reference state is saved (SP0505), all of its elements (SP0505),
//   and a key names one set of tensors in all stages, none of them as summands, which no single rank has whole (SP0506).
// SP0605 (warning): saved only in a narrower type than it is held in.
void check_checkpoint(const ir::Document& document, Findings& findings);

// Says of findings about plan states that are not what they are declared to be (SP0207, by the prover) when the reason is that
// the state leaves the step as it entered, though the reference changes it (SP0502). A finding has to be there: by its
// structure alone such a plan may be right, as when the reference adds zero.
void name_lost_updates(const ir::Document& document, std::vector<ir::Diagnostic>& diagnostics);

}  // namespace shardproof::verifier::structure

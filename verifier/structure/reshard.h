// Whether training that one plan saved goes on under another plan: with other degrees of parallelism, other buffers, other
// stages.
#pragma once

#include "ir/plan.h"
#include "verifier/structure/findings.h"

namespace shardproof::verifier::structure {

// Findings of the check are about `resumed`; its reader looks for each tensor of a state under the key of that state, and
// goes by the index maps of both plans. What is loaded is what was saved if
//   the references have the same states: names, roles, shapes, kinds of numbers (SP0507),
//   each state of `resumed` finds its tensors in the checkpoint, under its key if it has one, and holds them as they are (SP0507),
//   and a key that both plans use holds the same tensors in both (SP0508).
// That maps of the two plans compose needs no check of its own: each reaches every element of the reference tensor exactly
// once for each set of replicas (ir::validate), and the saved one does so in all its stages (check_checkpoint).
// SP0605 (warning): a state is loaded from a narrower type.
//
// Both documents have passed ir::validate, and `saved` has a checkpoint and passed check_states and check_checkpoint.
Findings check_reshard(const ir::Document& saved, const ir::Document& resumed);

}  // namespace shardproof::verifier::structure

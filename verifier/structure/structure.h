// Structural checks of a plan: what holds or fails whatever the numbers are. A schedule runs each action once and in an order that
// its values allow; collectives and messages meet their counterparts and no wait goes round in a circle; started transfers are waited for and not disturbed; memory is not
// used after its release. They take every valid document, also those with several stages, which the prover does not take yet.
//
// Cost is linear in the instructions, in the actions of a schedule, and in the number of classes of ranks that run different
// programs; the number of ranks does not matter.
#pragma once

#include "ir/plan.h"
#include "verifier/structure/findings.h"

namespace shardproof::verifier::structure {

// `document` has passed ir::validate. Throws nothing but InternalError and std::bad_alloc.
Findings check(const ir::Document& document);

}  // namespace shardproof::verifier::structure

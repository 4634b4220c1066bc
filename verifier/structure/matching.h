// Whether the two sides of every transfer agree: on each communicator all members start the same collectives in the same
// order, and each message that is sent is received, with its type and in its turn.
#pragma once

#include "verifier/structure/communication.h"

namespace shardproof::verifier::structure {

// Reports SP0301 and SP0303. True if every transfer has its counterparts, so that a run of the plan can only get stuck in a
// circle of waits.
bool check_matching(const ir::Plan& plan, const RankClasses& classes, const Communication& communication, Findings& findings);

}  // namespace shardproof::verifier::structure

// Whether a step can come to its end: whether the waits of its ranks for one another ever go round in a circle.
//
// The rules of execution, which are those of NCCL's communicators and of MPI's synchronous mode:
//   a collective, or a message, ends when all of its ranks have started it, and what was started before it on the same
//     communicator or channel, and by the same rank on the same `stream`, has ended;
//   a rank goes on after an instruction that is not `async` when it has ended, after one that is when it has started;
//   `wait` ends when its transfer has. No buffer is assumed to exist that takes a message nobody is ready to receive.
// Each of these depends on the past alone, so the order in which ranks are run does not change what becomes of them
// (a Kahn network): one run of all classes of ranks decides.
#pragma once

#include "verifier/structure/communication.h"

namespace shardproof::verifier::structure {

// Reports SP0302. All transfers match (check_matching).
void check_deadlock(const ir::Plan& plan, const RankClasses& classes, const Communication& communication, Findings& findings);

}  // namespace shardproof::verifier::structure

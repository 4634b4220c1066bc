// Transfers in flight, and memory that was given back. Both are questions of one program at a time.
//
//   What an `async` collective or `recv` makes may be read by `wait` only; a loop may not carry it, and it is no result of
//     the step (SP0402).
//   It is waited for before the body that started it ends: the next iteration, or the next step, writes to the same place
//     (SP0404).
//   `release` gives memory back: its operand is not used after it, nor released again, nor read or written by a transfer in
//     flight, nor alive in the next iteration of a loop (SP0403). An `async` send has no `wait`, so it may read its operand until
//     the step ends.
// Each result has memory of its own, except that of `wait`, which is the memory of the transfer's result. Programs are in
// single assignment, so nothing else can write to the memory of a value that is alive.
#pragma once

#include "verifier/structure/findings.h"
#include "ir/plan.h"

namespace shardproof::verifier::structure {

void check_lifetimes(const ir::StageProgram& stage, Findings& findings);

}  // namespace shardproof::verifier::structure

// A plan whose ranks run several programs (pipeline stages), as one program on the ranks of a stage.
//
// Ranks that differ only along the axes by which stages are placed run different programs; all others run the same. So one
// program that does what all stages do, each value of a stage a value of its own, computes on every rank of the remaining mesh
// what the whole column of stages computes: a coordinate along the removed axes is a number in each stage, a message is the
// value that was sent, and a collective across stages is an operation on the values of its members. What is proved of that
// program under the bindings of all stages is proved of the plan. Part of the trusted base.
//
// What it takes for that to be true, and is refused otherwise (SP0905):
//   - Messages of a channel are received in the order in which they are sent, in the same iteration of loops of equal trip, as
//     many in each; collectives across stages likewise. Loops of stages that communicate become one loop.
//   - No value is needed before it can be there: instructions are put in an order in which each one has what it reads.
//   - No placement cuts or sums a tensor along the removed axes: what stages hold together is bound stage by stage.
// That iterations may run in another order, as a schedule says, is for verifier/structure to show (loops that are scheduled
// carry nothing but sums), and that the ranks never wait for each other in a circle.
#pragma once

#include <variant>

#include "ir/diagnostic.h"
#include "ir/plan.h"

namespace shardproof::lowering {

// More than one program for all ranks: stages that do not run everywhere, or an order that a schedule gives.
bool has_stages(const ir::Plan& plan);

// The document with the joined plan: one stage, the remaining mesh axes, no schedule, no checkpoint. Values are named as in
// their stage where that is unique, else "stage/name"; Value::written has their name in the file. Instructions keep their
// spans. The document must be valid. A finding (SP0905) if the stages cannot be joined.
std::variant<ir::Document, ir::Diagnostic> join_stages(const ir::Document& document);

}  // namespace shardproof::lowering

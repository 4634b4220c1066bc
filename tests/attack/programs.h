// Random reference programs from the table of operators, each with a plan that computes the same on a random mesh: the
// placements of the inputs are drawn, and each operator is written in one of the ways that are right for how its operands
// are held. What a plan that nobody thought about looks like; right by construction, and executed to be sure.
#pragma once

#include <random>

#include "ir/plan.h"

namespace shardproof::attack {

ir::Document random_program(std::mt19937_64& random);

}  // namespace shardproof::attack

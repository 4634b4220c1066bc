// A plan made of a reference program by chance: every operation is done again on copies that are whole, sliced by mesh
// coordinates, gathered, reduced or permuted. Much of it computes parts of the reference's values, much of it is wrong; for
// the meaning of terms both will do.
#pragma once

#include <map>
#include <random>
#include <vector>

#include "ir/builder.h"
#include "ir/mesh.h"
#include "tests/semantics/program_generator.h"

namespace shardproof::semantics_test {

struct Replay {
  ir::Program program;
  std::map<ir::ValueId, ir::ValueId> inputs;                // reference input -> the plan's replicated copy
  std::map<ir::ValueId, std::vector<ir::ValueId>> copies;  // reference value -> plan values made in its place
};

// `reference` has no loops. `most`: instructions at which the replay stops to add copies.
Replay replay_sharded(std::mt19937_64& random, const ir::Program& reference, const std::vector<ProgramInput>& inputs,
                      const ir::Mesh& mesh, std::size_t most);

}  // namespace shardproof::semantics_test

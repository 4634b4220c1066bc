// What the second witness is asked: that an instruction's result, a loop's result or a claim is the term that the prover says
// it is, for all elements, ranks and iterations at full sizes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "verifier/witness/meaning.h"

namespace shardproof::verifier::witness {

struct Obligation {
  enum class Kind { instruction, accumulation, last_iteration, claim };
  Kind kind = Kind::instruction;
  std::string place;                               // for people
  const ir::Instruction* instruction = nullptr;    // instruction
  std::vector<Operand> operands;  // instruction: its operands; accumulation: init, next, carried; last_iteration: next; claim: the value
  ir::TensorType type;                             // of the result
  solvers::TermId result;                          // what the prover says
  std::map<std::string, solvers::VarId> loops;     // around it
  solvers::VarId iteration;                        // of the loop that ends
  const std::vector<ir::PartialAxis>* partial = nullptr;  // claim
  solvers::TermId care;                            // claim: both sides are compared where this is 1
  const ir::Mesh* mesh = nullptr;
};

// Definitions of atoms that are put in for both sides to read the same tensors, in the order in which they are.
using Unfoldings = std::vector<solvers::TensorId>;
using DefinitionOf = std::function<solvers::witness::TermReader::Definition(solvers::TensorId)>;

// Equal texts: equal obligations up to the names of tensors and variables.
std::string canonical(const solvers::TermPool& pool, const Obligation& obligation, const Unfoldings& unfoldings, const DefinitionOf& definition);

struct Sides {
  solvers::witness::Form computed, told;
};
// Throws solvers::witness::NotCovered and std::overflow_error.
Sides sides_of(solvers::TermPool& pool, solvers::witness::Algebra& algebra, const Obligation& obligation, const Unfoldings& unfoldings,
               const DefinitionOf& definition);

}  // namespace shardproof::verifier::witness

// One generated program, executed and with a term for every value.
#pragma once

#include <map>
#include <memory>

#include "solvers/z3_backend.h"
#include "tests/semantics/program_generator.h"
#include "tests/semantics/term_values.h"

namespace shardproof::semantics_test {

// rank = 3 dp + tp; two other meshes of the same world have numbers against the positions, and an axis of one.
std::vector<ir::Mesh> test_meshes();

using InputTensors = std::map<ir::ValueId, execution::RankTensors>;

// Contents of every input, for each rank (one without a mesh).
InputTensors random_inputs(std::mt19937_64& random, const ir::Program& program, const std::vector<ProgramInput>& inputs,
                           const ir::Mesh* mesh);

// Values of all instructions outside loops, by value.
std::map<ir::ValueId, execution::RankTensors> execute_all(const ir::Program& program, const InputTensors& inputs, const ir::Mesh* mesh);

// Largest finite magnitude in the executed values.
double magnitude(const std::map<ir::ValueId, execution::RankTensors>& values);

// A term pool with everything that gives programs their terms.
struct Terms {
  explicit Terms(const ir::Mesh* mesh_or_null)
      : mesh(mesh_or_null), z3(pool), atoms(pool, z3.oracle()), semantics(atoms, literals, mesh), values(atoms) {}

  const ir::Mesh* mesh;
  solvers::TermPool pool;
  solvers::Z3Range z3;
  solvers::AtomTable atoms;
  verifier::LiteralTable literals;
  verifier::Semantics semantics;
  TermValues values;

  solvers::TermId enter_input(const ir::Program& program, const ProgramInput& input, const InputTensors& contents) {
    const ir::Value& v = program.value(input.id);
    return enter(atoms, values, v.name, v.type, input.below, mesh, semantics.coordinates(), contents.at(input.id));
  }
  Difference compare(solvers::TermId term, const execution::RankTensors& expected, double scale) {
    values.set_literals(literals);
    return compare_term(values, pool, term, mesh, semantics.coordinates(), expected, scale);
  }
};

// The program as text, for messages.
std::string describe_program(const ir::Program& program);

}  // namespace shardproof::semantics_test

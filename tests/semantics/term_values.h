// Terms as numbers: tensors hold given contents, atoms what their definitions say, and every element of a term is
// compared with an execution.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/mesh.h"
#include "runtime/virtual_cluster.h"
#include "solvers/kernel/atoms.h"
#include "solvers/evaluate.h"
#include "verifier/kernel/semantics.h"

namespace shardproof::semantics_test {

class TermValues {
 public:
  explicit TermValues(solvers::AtomTable& atoms);
  TermValues(const TermValues&) = delete;
  TermValues& operator=(const TermValues&) = delete;

  // Row-major contents of a tensor without definition.
  void set(solvers::TensorId tensor, std::vector<double> data);
  // Stand-ins hold the values of the terms that they stand for.
  void set_stand_ins(const std::map<solvers::TermId, solvers::TermId>& stand_ins);
  // Literal tables and long constants hold what their key says.
  void set_literals(const verifier::LiteralTable& literals);
  double at(solvers::TermId term, const solvers::Assignment& values);

 private:
  double element(solvers::TensorId tensor, const std::vector<std::int64_t>& indices);

  solvers::AtomTable& atoms_;
  solvers::TensorContents contents_;
  std::map<solvers::TensorId, std::vector<double>> data_;
  std::map<solvers::TensorId, std::pair<solvers::TermId, solvers::TermId>> stand_ins_;  // access and term
  std::map<std::pair<solvers::TensorId, std::vector<std::int64_t>>, double> known_;
};

struct Difference {
  std::int64_t elements = 0;    // compared
  std::int64_t undefined = 0;   // the execution gave no number there
  std::string first;            // of the elements that differ; empty: none does
};

// The term at every element of every rank (position of the mesh) against `expected`, one tensor per rank. `scale`: largest
// magnitude that went into the computation.
Difference compare_term(TermValues& values, solvers::TermPool& pool, solvers::TermId term, const ir::Mesh* mesh,
                        const std::vector<solvers::VarId>& coordinates, const execution::RankTensors& expected, double scale = 1);

// A new tensor indexed by `coordinates` and then by the element indices of `type`, with one rank's contents each, as the
// term of a value. `below` > 0: integers in [0, below).
solvers::TermId enter(solvers::AtomTable& atoms, TermValues& values, const std::string& name, const ir::TensorType& type,
                      std::int64_t below, const ir::Mesh* mesh, const std::vector<solvers::VarId>& coordinates,
                      const execution::RankTensors& contents);

}  // namespace shardproof::semantics_test

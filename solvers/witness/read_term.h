// Terms of the pool as expressions of the second witness. Reductions get variables of their own; definitions of atoms are
// put in where the caller says so.
#pragma once

#include <functional>
#include <map>

#include "solvers/witness/expression.h"

namespace shardproof::solvers::witness {

// What stands for variables of the pool. Those that are missing get a variable each, the same at every occurrence.
using Environment = std::map<VarId, Index>;

class TermReader {
 public:
  // The definition of a tensor that is to be unfolded, over one variable per dimension; an invalid term: it stays.
  struct Definition {
    TermId term;
    std::vector<VarId> dims;
  };
  using Unfolding = std::function<Definition(TensorId)>;

  TermReader(Algebra& algebra, Unfolding unfolding) : algebra_(algebra), pool_(algebra.pool()), unfolding_(std::move(unfolding)) {}

  Form read(TermId term, const Environment& environment);
  Index read(IndexId e, const Environment& environment);
  // The variable that stands for one of the pool's.
  Index variable(VarId v);

 private:
  Form factor(TermId term, const Environment& environment);

  Algebra& algebra_;
  const TermPool& pool_;
  Unfolding unfolding_;
  std::map<VarId, Variable> free_;
};

}  // namespace shardproof::solvers::witness

// Contents of tensors of which some are atoms: those hold what their definitions say, and beyond their shape numbers that
// no value may depend on.
#pragma once

#include <map>
#include <memory>

#include "solvers/kernel/atoms.h"
#include "solvers/evaluate.h"

namespace shardproof::solvers::testing {

class DefinedContents {
 public:
  DefinedContents(AtomTable& atoms, std::uint64_t seed) : atoms_(atoms), inputs_(hashed_contents(atoms.pool(), seed)) {
    contents_.integer = inputs_.integer;
    contents_.real = [this](TensorId tensor, const std::vector<std::int64_t>& indices) {
      return element(tensor, indices);
    };
  }
  DefinedContents(const DefinedContents&) = delete;
  DefinedContents& operator=(const DefinedContents&) = delete;

  const TensorContents& contents() const { return contents_; }

 private:
  double element(TensorId tensor, const std::vector<std::int64_t>& indices) {
    if (!atoms_.has_definition(tensor)) return inputs_.real(tensor, indices);
    const std::vector<std::int64_t>& extents = atoms_.pool().tensor(tensor).shape;
    for (std::size_t d = 0; d < extents.size(); ++d)
      if (indices[d] < 0 || indices[d] >= extents[d]) return 1000 + inputs_.real(tensor, indices);
    const auto [it, added] = known_.try_emplace({tensor, indices}, 0.0);
    if (added) {
      TermPool& pool = atoms_.pool();
      Assignment values;
      const std::vector<std::int64_t> shape = pool.tensor(tensor).shape;
      for (std::size_t d = 0; d < shape.size(); ++d) values.set(pool.pattern(d, shape[d]), indices[d]);
      const double value = evaluate(pool, atoms_.definition(tensor), values, contents_);
      known_[{tensor, indices}] = value;
      return value;
    }
    return it->second;
  }

  AtomTable& atoms_;
  TensorContents inputs_, contents_;
  std::map<std::pair<TensorId, std::vector<std::int64_t>>, double> known_;
};

}  // namespace shardproof::solvers::testing

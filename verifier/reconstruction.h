// Hypotheses taken from the reference: an instruction of the plan should compute what the reference computes from values
// that the plan has. An operand that was dropped or mistaken, another operation, another order of dimensions.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "verifier/blame.h"
#include "verifier/repairs.h"

namespace shardproof::verifier {

class Reconstruction {
 public:
  // Looks at the plan's terms as they are now. `suspects`: steps whose places come first.
  Reconstruction(Session& session, Blame& blame, const std::vector<std::size_t>& suspects);

  // An instruction of the reference that none of the plan's values is the result of, and an instruction of the plan
  // that reads one of its operands and could be it. In the order of the reference; those of suspects first.
  struct Place {
    const ir::Instruction* reference = nullptr;
    std::size_t step = 0;
  };
  const std::vector<Place>& places_of_suspects() const { return likely_; }
  const std::vector<Place>& other_places() const { return places_; }
  // The plan's instruction at the place computing the same as the reference's, where that matches better than what it
  // computes now.
  std::vector<Repair> at(const Place& place);
  // One more operation on the step's result that makes it a value of the reference: a factor, a summand or a mask that
  // the plan has, and that the reference uses together with what the result is made of.
  std::vector<Repair> insertions(std::size_t step);

 private:
  using Key = std::set<solvers::TensorId>;  // what a term is made of
  void find_values();
  void find_places(const std::vector<ir::Instruction>& body);
  std::optional<Repair> insertion(std::size_t step, const ir::Instruction& added);
  Key companions(const Key& own) const;
  std::vector<ir::ValueId> partners(std::size_t step) const;
  std::vector<ir::ValueId> nearest(std::vector<ir::ValueId> values, std::size_t step, std::size_t limit) const;
  std::vector<ir::ValueId> candidates(ir::ValueId operand, const ir::Instruction& reference, std::size_t step) const;
  bool usable(ir::ValueId value, std::size_t step) const;

  Session& session_;
  Blame& blame_;
  std::map<Key, std::vector<ir::ValueId>> values_;  // of the plan, floats only
  std::vector<ir::ValueId> conditions_;             // of the plan, booleans
  std::vector<std::pair<ir::ValueId, Key>> keys_;   // of all of them that did not stray
  std::map<solvers::TensorId, Key> missing_;  // what the reference's values that the plan does not have are made of
  std::map<ir::ValueId, std::vector<std::size_t>> readers_;  // steps on the way to a failed claim
  std::set<std::size_t> suspects_;
  std::vector<Place> likely_, places_;
};

}  // namespace shardproof::verifier

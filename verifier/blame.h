// Where the plan leaves its reference: the instructions whose results match no reference value although their
// operands do, and from which that loss reaches a failed claim.
#pragma once

#include <map>
#include <vector>

#include "verifier/session.h"

namespace shardproof::verifier {

class Blame {
 public:
  explicit Blame(Session& session);

  // Step indices in the failed claims' cone, in execution order, with all operands folded, the result not, and a
  // path of unfolded values to a failed claim.
  std::vector<std::size_t> roots();
  // Step indices in the backward cone of the failed claims, in execution order.
  std::vector<std::size_t> cone();
  // All steps with an unfolded result and a path of unfolded values to a failed claim, in execution order.
  std::vector<std::size_t> bad_steps();
  std::vector<bool> bad_values();   // by value id
  std::vector<bool> fine_values();  // by value id: they match, or something computed from them does
  // How many of them compute or communicate (copies do not count): falls when a repair is right.
  std::size_t bad_count();
  bool folded(ir::ValueId value);
  bool folded_term(solvers::TermId term);
  // Step that defines a value; npos for inputs and state.
  std::size_t definition(ir::ValueId value) const { return definition_[static_cast<std::size_t>(value.index)]; }
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);

 private:
  solvers::TermId within_shapes(solvers::TermId term);
  bool completes(const Step& step, solvers::TermId term);
  std::vector<ir::ValueId> operands_of(std::size_t step, const std::vector<bool>& wanted) const;

  Session& session_;
  std::vector<std::size_t> definition_;
  std::map<solvers::TermId, bool> completes_;
};

}  // namespace shardproof::verifier

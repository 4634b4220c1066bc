// Where the plan leaves its reference: the instructions whose results match no reference value although their
// operands do, and from which that loss reaches a failed claim.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "verifier/session.h"

namespace shardproof::verifier {

// Where the fault may be.
struct Suspect {
  enum class Why {
    unmatched,  // the value matches nothing, though all it is computed from is right
    scale,      // it is a reference value times a number that the reference never has there
    misplaced,  // it is a reference value, but a claim says that it should be another
    unused,     // it is right, and nothing reads it
    summand     // it is a reference value, but not one that the reference adds up there
  };
  std::size_t step = 0;
  ir::ValueId value;
  Why why = Why::unmatched;
};

// Parts of a sum can be moved and added up; anything else takes them for the sum.
bool passes_parts(ir::OpCode op);

class Blame {
 public:
  explicit Blame(Session& session);

  // Step indices in the failed claims' cone, in execution order, with all operands folded, the result not, and a
  // path of unfolded values to a failed claim.
  std::vector<std::size_t> roots();
  // The earliest instruction that is likely to be at fault.
  std::optional<Suspect> first_suspect();
  // Steps and their results that are right parts of sums, and from which the given steps are computed; last first.
  std::vector<std::pair<std::size_t, ir::ValueId>> parts_before(const std::vector<std::size_t>& steps);
  // Step indices in the backward cone of the failed claims, in execution order.
  std::vector<std::size_t> cone();
  // All steps with an unfolded result and a path of unfolded values to a failed claim, in execution order.
  std::vector<std::size_t> bad_steps();
  std::vector<bool> bad_values();   // by value id
  std::vector<bool> fine_values();  // by value id: they match, or something computed from them does
  // How many of them compute or communicate (copies do not count): falls when a repair is right.
  std::size_t bad_count();
  bool folded(ir::ValueId value);
  // Whether `changed` leaves fewer pieces of the value unmatched than `old`, or makes it the right part of a sum.
  bool better(ir::ValueId value, solvers::TermId old, solvers::TermId changed);
  // Whether the reference has each value in the term with the same rational factor somewhere.
  bool known_scale(solvers::TermId term);
  bool folded_term(solvers::TermId term);
  // Matches, with a factor that the reference has, and of scalars each summand.
  bool right(solvers::TermId term) { return known_scale(term) && recognised_term(term); }
  // Step that defines a value; npos for inputs and state.
  std::size_t definition(ir::ValueId value) const { return definition_[static_cast<std::size_t>(value.index)]; }
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);

 private:
  std::pair<std::string, std::int32_t> likeness(ir::ValueId value) const;
  bool recognised(ir::ValueId value);
  bool recognised_term(solvers::TermId term);
  bool sums_match(solvers::TermId term);
  std::vector<bool> vouched();
  std::optional<Suspect> misplaced();
  std::optional<Suspect> rescaled_before(std::size_t step);
  std::optional<Suspect> unused(bool only_read_by_reference);
  bool reference_reads(solvers::TermId term);
  using Lookups = std::set<std::tuple<std::size_t, std::size_t, solvers::TensorId, std::int64_t>>;
  void lookups(solvers::TermId term, Lookups& found);
  bool known_lookups(solvers::TermId term);
  std::optional<Suspect> odd_summand(const Suspect& root);
  bool is_padding(solvers::TermId term);
  solvers::TermId within_shapes(solvers::TermId term);
  bool completes(const Step& step, solvers::TermId term);
  std::vector<ir::ValueId> operands_of(std::size_t step, const std::vector<bool>& wanted) const;

  Session& session_;
  std::vector<std::size_t> definition_;
  std::map<solvers::TermId, bool> completes_;
  Lookups reference_lookups_;
  bool lookups_read_ = false;
  std::vector<bool> part_;                       // by value, as of the last bad_values()
  std::vector<solvers::TermId> markers_;         // symbols that tell pieces apart
  std::set<solvers::TermId> reference_scalars_;  // and summands of scalars
  std::set<std::pair<solvers::TensorId, std::pair<std::int64_t, std::int64_t>>> reference_scales_;
};

}  // namespace shardproof::verifier

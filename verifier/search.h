// The search for what would repair a plan that does not prove. One fault at a time, earliest first:
//
//   1 the place: the first value that matches nothing although all it is computed from is right, or what looks odd before
//     it (blame.h)
//   2 hypotheses about the place and what it reads (repairs.h, reconstruction.h) replace a term; what depends on it is run
//     again, and most are given up at the first place that does not get better
//   3 a hypothesis counts if every claim proves with it, or if it makes the place right and less is wrong behind it. The
//     best is kept as if the plan had been repaired, so that the next fault is found independently of the first
//
// How far it goes is counted in work, not in seconds, so that findings do not depend on the machine.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "verifier/blame.h"
#include "verifier/repairs.h"

namespace shardproof::verifier {

class Search {
 public:
  explicit Search(Session& session);

  // Finds and keeps the repair of one fault; nullopt if none was found. First what is likely; what needs a longer search is
  // looked for by `next_hidden`, after `next_likely` has found nothing.
  std::optional<Repair> next_likely();
  std::optional<Repair> next_hidden();
  // After `next_likely`: changes of conditions and indices that make a root right. Layers share them (a causal mask), and to follow
  // a change through all layers costs more terms than one fault is worth, so the plan with it is verified instead.
  std::vector<Repair> of_conditions();
  Blame& blame() { return blame_; }

 private:
  struct Score {
    std::size_t failed_claims;
    std::size_t bad;  // unmatched values on the way to failed claims
    friend auto operator<=>(const Score&, const Score&) = default;
  };
  struct Best {
    std::optional<Repair> repair;
    Score score{};
  };
  void begin();
  std::optional<Repair> find_likely();
  std::optional<Repair> find_hidden();
  std::optional<Repair> kept(std::optional<Repair> repair);
  std::vector<std::size_t> suspected(const std::optional<Suspect>& first, const std::vector<std::size_t>& roots);
  std::set<std::size_t> steps_before(std::vector<std::size_t> open, int levels) const;
  std::optional<Repair> other_claims();
  std::vector<Repair> other_collective(std::size_t step);
  bool rights_a_root(const Repair& repair);
  bool exhausted() const;
  Score score();
  bool improves(const Repair& repair, const Score& after) const;
  bool summed_later(ir::ValueId value, const std::string& axes) const;
  bool defined_by_collective(ir::ValueId value) const;
  Score apply(const Repair& repair, bool local);
  bool try_all(const std::vector<Repair>& repairs, Best& best, bool local = true);
  void keep(const Repair& repair);

  Session& session_;
  Blame blame_;
  // Of the current fault:
  Score before_{};
  std::vector<std::size_t> root_steps_;
  std::set<ir::ValueId> roots_;      // their results
  std::vector<ir::ValueId> first_;   // results of the first root
  std::optional<Suspect> suspect_;
  std::vector<std::size_t> suspects_;
  std::vector<std::pair<std::size_t, ir::ValueId>> places_;  // where a reduction may be missing
  Best best_;
  std::size_t nodes_at_start_;       // of all faults
  std::size_t nodes_of_fault_ = 0;   // when the search for the current fault began
  std::size_t changes_ = 0, changes_of_fault_ = 0;  // the same, of changed values
  // Of the last hypothesis:
  std::vector<bool> bad_;  // by value
  bool spoils_ = false;    // something that was right is not with it
};

}  // namespace shardproof::verifier

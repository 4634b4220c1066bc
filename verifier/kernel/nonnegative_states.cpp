#include "verifier/kernel/nonnegative_states.h"

#include <algorithm>

namespace shardproof::verifier {

using solvers::Obligation;
using solvers::TensorId;
using solvers::TermId;

std::set<TensorId> kept_nonnegative(std::map<TensorId, TermId> next, const std::vector<Obligation>& needed,
                                    const std::function<SideConditions(const std::set<TensorId>& nonnegative)>& conditions_with) {
  // The largest set of states for which "all are >= 0 before" implies "all are >= 0 after".
  std::set<TensorId> largest;
  for (;;) {
    largest.clear();
    for (const auto& [tensor, term] : next) largest.insert(tensor);
    SideConditions conditions = conditions_with(largest);
    std::erase_if(next, [&](const auto& entry) { return !conditions.holds({Obligation::Kind::nonnegative, entry.second}); });
    if (next.size() == largest.size()) break;
  }
  // Of them what the conditions that they help rest on, and what that rests on.
  std::vector<Obligation> helped;
  SideConditions conditions = conditions_with(largest);
  for (const Obligation& o : needed)
    if (conditions.holds(o)) helped.push_back(o);
  std::set<TensorId> kept, asked;
  for (std::vector<Obligation> open = std::move(helped); !open.empty();) {
    SideConditions tracing = conditions_with(largest);
    for (const Obligation& o : open) tracing.holds(o);
    kept.insert(tracing.premises_used().begin(), tracing.premises_used().end());
    open.clear();
    for (const TensorId tensor : kept)
      if (asked.insert(tensor).second) open.push_back({Obligation::Kind::nonnegative, next.at(tensor)});
  }
  SideConditions check = conditions_with(kept);
  const bool closed = std::all_of(kept.begin(), kept.end(), [&](TensorId t) { return check.holds({Obligation::Kind::nonnegative, next.at(t)}); });
  return closed ? kept : std::set<TensorId>{};
}

}  // namespace shardproof::verifier

#include "verifier/fold_search.h"

namespace shardproof::verifier {

using solvers::TermId;

TermId FoldSearch::reference_value(const std::string& name, TermId term, bool may_define) {
  return may_define ? folder_.define(name, term) : folder_.fold(term);
}

// Sums over part of a contraction are expected to fold only once a collective completes them; everything else
// that does not fold at once is looked at harder.
TermId FoldSearch::plan_value(const std::string& /*name*/, TermId term, bool completes_sums) {
  const TermId folded = folder_.fold(term);
  if (containment_.strayed(folded)) return folded;
  return completes_sums || pool_.node(folded).height == 0 ? folder_.refold(folded) : folder_.fold_cancelling(folded);
}

TermId FoldSearch::contain(TermId term, const std::vector<TermId>& operands, bool arithmetic, const Keep& keep) {
  return containment_.contain(term, operands, arithmetic, keep);
}

TermId FoldSearch::claimed_value(const std::string& /*claim*/, ClaimStep /*step*/, TermId term) { return folder_.refold(term); }

bool FoldSearch::proves_range(solvers::IndexId e, std::int64_t lo, std::int64_t hi, const std::vector<TermId>& guards) {
  return z3_.prove_in_range(e, lo, hi, guards);
}

}  // namespace shardproof::verifier

// A proof by search: values are folded to reference atoms (solvers/fold.h), those that stray are contained, and Z3 is asked where
// intervals do not settle the range of an index.
#pragma once

#include "solvers/fold.h"
#include "solvers/z3_backend.h"
#include "verifier/containment.h"
#include "verifier/kernel/proof_source.h"

namespace shardproof::verifier {

class FoldSearch : public ProofSource {
 public:
  explicit FoldSearch(solvers::AtomTable& atoms) : pool_(atoms.pool()), folder_(atoms), containment_(folder_), z3_(pool_) {}

  solvers::TermId reference_value(const std::string& name, solvers::TermId term, bool may_define) override;
  solvers::TermId plan_value(const std::string& name, solvers::TermId term, bool completes_sums) override;
  solvers::TermId contain(solvers::TermId term, const std::vector<solvers::TermId>& operands, bool arithmetic, const Keep& keep) override;
  solvers::TermId claimed_value(const std::string& claim, ClaimStep step, solvers::TermId term) override;
  bool proves_range(solvers::IndexId e, std::int64_t lo, std::int64_t hi, const std::vector<solvers::TermId>& guards) override;

  solvers::Folder& folder() { return folder_; }
  Containment& containment() { return containment_; }
  solvers::Z3Range& z3() { return z3_; }

 private:
  solvers::TermPool& pool_;
  solvers::Folder folder_;
  Containment containment_;
  solvers::Z3Range z3_;
};

}  // namespace shardproof::verifier

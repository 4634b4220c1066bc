// One verification: a proof by search, and what diagnosis and repairs ask of the search.
#pragma once

#include "verifier/certify.h"
#include "verifier/fold_search.h"
#include "verifier/kernel/proof.h"
#include "verifier/verify.h"

namespace shardproof::verifier {

class Session : public Proof {
 public:
  Session(const ir::Document& document, const VerifyOptions& options);

  solvers::Folder& folder() { return search_->folder(); }
  Containment& containment() { return search_->containment(); }
  const Containment& containment() const { return search_->containment(); }
  solvers::Z3Range& z3() { return search_->z3(); }
  CertifyingSearch* certifier() { return dynamic_cast<CertifyingSearch*>(search_); }  // null: none was asked for

 private:
  FoldSearch* search_;  // the proof's source
};

}  // namespace shardproof::verifier

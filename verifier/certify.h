// A search that writes down what it finds, for verifier/certificate.
#pragma once

#include <string>
#include <vector>

#include "verifier/certificate/term_writer.h"
#include "verifier/fold_search.h"

namespace shardproof::verifier {

class CertifyingSearch : public FoldSearch {
 public:
  explicit CertifyingSearch(solvers::AtomTable& atoms)
      : FoldSearch(atoms), atoms_(atoms), pool_(atoms.pool()), writer_(pool_, [this](solvers::TensorId t) { return number_of(t); }) {}

  solvers::TermId reference_value(const std::string& name, solvers::TermId term, bool may_define) override;
  solvers::TermId plan_value(const std::string& name, solvers::TermId term, bool completes_sums) override;
  solvers::TermId contain(solvers::TermId term, const std::vector<solvers::TermId>& operands, bool arithmetic, const Keep& keep) override;
  solvers::TermId claimed_value(const std::string& claim, ClaimStep step, solvers::TermId term) override;

  // Nothing is written from now on: what follows is no part of the proof.
  void stop();
  const TermWriter& written() const { return writer_; }

 private:
  struct Value {  // of the plan, not written yet
    std::string name;
    solvers::TermId computed, folded;
    bool lost = false;
  };
  void number_tensors();
  std::int64_t number_of(solvers::TensorId tensor) const;
  bool has_number(solvers::TermId term) const;
  void write(const char* kind, const std::string& name, solvers::TermId computed, solvers::TermId found);
  void write_pending();
  void write_definition(const std::string& name, solvers::TensorId tensor, solvers::TermId value);

  solvers::AtomTable& atoms_;
  solvers::TermPool& pool_;
  TermWriter writer_;
  std::vector<std::int64_t> numbers_;  // of tensors; -1: a stand-in
  std::int64_t next_number_ = 0;
  std::vector<Value> pending_;  // at most one
  bool stopped_ = false;
};

}  // namespace shardproof::verifier

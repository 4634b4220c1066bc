// A proof from a certificate: what a search found is read instead of searched for, and taken only if FoldCheck agrees.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verifier/certificate/fold_check.h"
#include "verifier/certificate/term_reader.h"
#include "verifier/kernel/proof_source.h"

namespace shardproof::verifier {

// What the certificate says does not hold, or is no certificate.
class Rejection : public std::runtime_error {
 public:
  enum class Why { malformed, unproved };
  Rejection(Why kind, std::int64_t at_line, std::string of_value, const std::string& message)
      : std::runtime_error(message), why(kind), line(at_line), value(std::move(of_value)) {}
  Why why;
  std::int64_t line;  // from 1; 0: none
  std::string value;  // of plan or reference, or a claim; may be empty
};

class Replay : public ProofSource {
 public:
  // `lines`: the body of the certificate; the first has the number `first_line`.
  Replay(solvers::AtomTable& atoms, std::vector<std::string_view> lines, std::int64_t first_line);

  solvers::TermId reference_value(const std::string& name, solvers::TermId term, bool may_define) override;
  solvers::TermId plan_value(const std::string& name, solvers::TermId term, bool completes_sums) override;
  solvers::TermId contain(solvers::TermId term, const std::vector<solvers::TermId>& operands, bool arithmetic, const Keep& keep) override;
  solvers::TermId claimed_value(const std::string& claim, ClaimStep step, solvers::TermId term) override;

  // Throws if some result was not asked for. Then what the certificate's terms of reference values needed is asked of the plan: it must follow
  // from what the reference needs, and may not become an assumption.
  void finish();
  std::int64_t checked() const { return checked_; }  // results so far

 private:
  bool take(std::string_view kind, const std::string& name);
  solvers::TermId replaced(std::string_view kind, const std::string& name, solvers::TermId term);
  solvers::TermId define(Words& words, const std::string& name, solvers::TermId term);
  void number_tensors();
  [[noreturn]] void reject(Rejection::Why why, const std::string& name, const std::string& message) const;
  template <typename F>
  solvers::TermId deferring(F&& value);
  template <typename F>
  auto guarded(const std::string& name, F&& read);

  solvers::AtomTable& atoms_;
  solvers::TermPool& pool_;
  FoldCheck check_;
  TermReader reader_;
  std::vector<std::string_view> lines_;
  std::int64_t first_line_;
  std::vector<std::size_t> results_;  // lines with results
  std::size_t next_result_ = 0, next_line_ = 0;
  std::size_t tensors_seen_ = 0;
  std::vector<solvers::Obligation> deferred_;
  bool lost_ = false;  // the value just read
  std::int64_t checked_ = 0;
};

}  // namespace shardproof::verifier

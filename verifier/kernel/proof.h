// One proof: pool, atoms, the two program runs and the claims between them. What values are called and how they are recognised comes from
// a ProofSource; what is proved does not depend on it.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/plan.h"
#include "solvers/kernel/atoms.h"
#include "verifier/kernel/bindings.h"
#include "verifier/kernel/limits.h"
#include "verifier/kernel/proof_source.h"
#include "verifier/kernel/run_program.h"
#include "verifier/kernel/semantics.h"

namespace shardproof::verifier {

// One equality to prove: a plan value under its placement and the reference value it claims to be.
struct Claim {
  enum class Kind { state, output };
  Kind kind = Kind::state;
  std::string name;             // of the plan state or output
  std::string reference;        // of the reference tensor(s), for people
  ir::ValueId value;            // plan value
  const ir::Binding* binding = nullptr;
  ir::Span span;
  solvers::TermId care;         // of the binding; expected and found are multiplied by it
  solvers::TermId expected;
  solvers::TermId found;
  bool proved = false;
};

// The document in the form that a proof takes: stages as one program (lowering/join_stages.h), which `joined` keeps. What a proof
// cannot take yet is said before any work is done (SP0905).
const ir::Document& provable(const ir::Document& document, std::optional<ir::Document>& joined, ir::DiagnosticSink& sink);

class Proof {
 public:
  using MakeSource = std::function<std::unique_ptr<ProofSource>(solvers::AtomTable&)>;
  Proof(const ir::Document& document, ProofLimits limits, const MakeSource& make_source);
  Proof(const Proof&) = delete;
  Proof& operator=(const Proof&) = delete;

  // The steps of verify(), in order. Each throws solvers::BudgetExceeded when time or memory is used up.
  void run_reference();
  void run_plan();
  void check_claims();            // fills claims
  bool check_claim(Claim& claim); // recomputes found from the current plan terms; expected is fixed

  const ir::Document& document() const { return document_; }
  const ir::Program& plan_program() const { return plan_program_; }
  const ir::Program& reference_program() const { return reference_program_; }
  ProgramRun& plan_run() { return *plan_run_; }
  const ProgramRun& plan_run() const { return *plan_run_; }
  ProgramRun& reference_run() { return *reference_run_; }
  solvers::TermPool& pool() { return pool_; }
  solvers::AtomTable& atoms() { return atoms_; }
  ProofSource& source() { return *source_; }
  Semantics& plan_semantics() { return *plan_semantics_; }
  std::vector<Claim>& claims() { return claims_; }
  const std::vector<Claim>& claims() const { return claims_; }
  const ir::Mesh& mesh() const { return document_.plan.meshes.front(); }
  double seconds_allowed() const;  // by the caller; infinite if there is no time-out
  double seconds_left() const;

  // Judges all side conditions met so far. Once after the reference has run, then after the claims are checked.
  struct SideConditionResult {
    std::vector<std::string> assumptions;  // what the reference needs of its inputs
    std::vector<std::string> nonnegative_states;  // one of the assumptions: at the start no element is negative
    struct Failure {
      std::string text;
      ir::Span span;                // of the instruction, if it is known
      bool depends_on_data = true;  // it may hold for some inputs
    };
    std::vector<Failure> unshown;         // assumptions for which no inputs were found
    std::vector<Failure> contradictions;  // what it needs and no input satisfies
    std::vector<Failure> unmet;           // what the plan needs and the reference does not
  };
  SideConditionResult judge_side_conditions();

  // Equality of two terms: same normal form, or the same after unfolding definitions a few levels.
  bool prove_equal(const std::string& claim, solvers::TermId a, solvers::TermId b);

 private:
  SideConditions conditions_with(const std::set<solvers::TensorId>& nonnegative);
  std::map<solvers::TensorId, solvers::TermId> terms_after_step() const;
  std::set<solvers::TensorId> inputs_of_reference();  // and states; real numbers
  void watch();
  void bind_inputs();
  Denotation reference_entry(const std::string& name) const;  // inputs and states on entry
  Denotation reference_exit(Claim::Kind kind, const std::string& name) const;
  std::string state_of(const std::string& param, const std::string& role) const;
  solvers::TermId apply_partial(const Claim& claim, solvers::TermId term);
  void report(const std::string& phase, std::int64_t done, std::int64_t total) const;

  const ir::Document& document_;
  const ProofLimits limits_;
  std::chrono::steady_clock::time_point start_;
  solvers::TermPool pool_;
  solvers::AtomTable atoms_;
  std::unique_ptr<ProofSource> source_;
  LiteralTable literals_;
  ir::Program reference_program_;  // macros unfolded
  ir::Program plan_program_;
  std::unique_ptr<Semantics> reference_semantics_;
  std::unique_ptr<Semantics> plan_semantics_;
  std::unique_ptr<Bindings> bindings_;
  std::unique_ptr<ProgramRun> reference_run_;
  std::unique_ptr<ProgramRun> plan_run_;
  std::unordered_map<std::string, ir::ValueId> reference_entry_;
  std::unordered_map<std::string, ir::ValueId> states_on_exit_, outputs_;
  std::map<std::pair<std::string, std::string>, std::string> state_by_role_;
  std::vector<Claim> claims_;
  std::vector<SideConditionResult::Failure> undefined_claims_;
  std::set<solvers::TensorId> paddings_;       // arbitrary elements of plan inputs
  std::vector<solvers::Obligation> reference_obligations_;  // of rewrites
};

}  // namespace shardproof::verifier

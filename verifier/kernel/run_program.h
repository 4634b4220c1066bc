// Gives every value of a program its term. On the reference side each arithmetic value defines an atom; on the
// plan side each value is folded to reference atoms as soon as it is computed, so terms stay small and cost does
// not depend on depth. Who finds the atoms is not known here (ProofSource).
//
// Loops stay rolled. A carried value must be an accumulation, next = carried + f with f free of all carried
// values: then its result is init + sum over iterations of f; or not depend on carried values at all: then its
// result is that of the last iteration. Both are exact; anything else is reported as not supported.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/program.h"
#include "solvers/kernel/atoms.h"
#include "verifier/kernel/proof_source.h"
#include "verifier/kernel/semantics.h"

namespace shardproof::verifier {

enum class Side { reference, plan };

// An instruction and the loops around it, in execution order. A loop itself comes after its body.
struct Step {
  const ir::Instruction* instruction = nullptr;
  std::vector<std::pair<std::string, solvers::VarId>> loops;
};

// An instruction whose result has no usable term; the value was replaced by an opaque tensor.
struct Fault {
  const ir::Instruction* instruction = nullptr;
  ir::ValueId value;  // that has no term
  std::string code, name, message, expected, found;
};

class ProgramRun {
 public:
  ProgramRun(Side side, solvers::AtomTable& atoms, ProofSource& source, Semantics& semantics, const ir::Program& program);

  void set(ir::ValueId value, solvers::TermId term) { terms_[static_cast<std::size_t>(value.index)] = term; }
  // 1 where the value may be undefined (see Semantics::undefined_region).
  solvers::TermId undefined_region(ir::ValueId value) const { return undefined_[static_cast<std::size_t>(value.index)]; }
  // Whether the value is a real number everywhere; else some of its elements may be minus infinity.
  bool is_finite(ir::ValueId value);
  // Whether it is the result of a collective that no `wait` has ended.
  bool is_pending(ir::ValueId value) const { return pending_[static_cast<std::size_t>(value.index)]; }
  solvers::TermId term(ir::ValueId value) const { return terms_[static_cast<std::size_t>(value.index)]; }
  const std::vector<solvers::TermId>& terms() const { return terms_; }

  // Replaces the computed term of a value from now on (repair hypotheses). Run again to take effect.
  void override_value(ir::ValueId value, solvers::TermId term);
  void clear_override(ir::ValueId value);
  const std::set<ir::ValueId>& overridden() const { return overridden_; }

  // Runs the whole program, or only what depends on `changed` values.
  void run(const std::function<void(std::int64_t done)>& progress = {});
  // `accept` is told of every value whose term changes and may return false to give up: then RerunStopped is thrown and
  // the terms are to be restored from a snapshot.
  using AcceptChange = std::function<bool(ir::ValueId value, solvers::TermId before, solvers::TermId after)>;
  class RerunStopped {};
  void rerun_dependents(const std::set<ir::ValueId>& changed, AcceptChange accept = {});

  // All instructions of the last full run.
  const std::vector<Step>& steps() const { return steps_; }
  // The folded term that `instruction` (a variation of step's instruction) has on the current terms of its operands.
  // Throws SemanticsError, BudgetExceeded, std::overflow_error.
  solvers::TermId evaluate(const Step& step, const ir::Instruction& instruction);
  // All terms, to try something and take it back.
  std::vector<solvers::TermId> snapshot() const { return terms_; }
  void restore(std::vector<solvers::TermId> terms) { terms_ = std::move(terms); }

  // The term less the values carried by loops that it adds up.
  solvers::TermId without_carried(solvers::TermId term) const;
  const std::vector<Fault>& faults() const { return faults_; }
  const ir::Program& program() const { return program_; }

  bool mentions(solvers::TermId term, const std::set<solvers::TensorId>& tensors) const;

  // Reference tensors, and multiples of such, that are assumed to fit their integer type: those that are computed from integers without known
  // bounds. The plan may compute no other such integers than these, in no narrower types.
  using Multiple = std::pair<solvers::TensorId, std::pair<std::int64_t, std::int64_t>>;  // a tensor times a rational
  using FittingTensors = std::map<Multiple, ir::DType>;
  const FittingTensors& assumed_fits() const { return assumed_fits_; }
  void allow_fits(FittingTensors tensors) { assumed_fits_ = std::move(tensors); }

  // Fresh tensor indexed by all coordinates, open loops and the element indices of `type`.
  solvers::TermId opaque(const std::string& name, const ir::TensorType& type);

 private:
  void run_body(const std::vector<ir::Instruction>& body);
  void run_instruction(const ir::Instruction& instruction);
  void run_loop(const ir::Instruction& instruction);
  void finish_loop(const ir::Instruction& instruction, solvers::VarId index, const std::vector<solvers::TensorId>& carried);
  void assign(ir::ValueId value, solvers::TermId term);
  void fail(const ir::Instruction& instruction, Fault fault);
  void fail_carry(const ir::Instruction& loop, const ir::Carry& carry, Fault fault);
  std::vector<Denotation> operands_of(const ir::Instruction& instruction) const;
  std::optional<Multiple> as_multiple(solvers::TermId term) const;
  void settle_unbounded(solvers::TermId term, solvers::TermId folded);
  solvers::TermId plan_value(const ir::Value& value, solvers::TermId term, bool completes_sums, const std::vector<solvers::TermId>& operands, bool arithmetic);
  solvers::TermId tensor_over(solvers::Tensor tensor, const std::vector<solvers::VarId>& variables);
  solvers::TermId unknown(const std::string& name, const ir::TensorType& type);  // of an instruction without a meaning
  std::vector<solvers::VarId> scope_of(const ir::TensorType& type);  // coordinates, open loops, element indices
  bool needs_run(const ir::Instruction& instruction) const;

  Side side_;
  solvers::AtomTable& atoms_;
  solvers::TermPool& pool_;
  ProofSource& source_;
  Semantics& semantics_;
  const ir::Program& program_;
  std::vector<solvers::TermId> terms_;
  std::vector<Infinity> infinities_;  // of values; what a loop carries is finite
  std::vector<solvers::TermId> undefined_;
  std::vector<bool> pending_;              // asynchronous results before their wait
  std::vector<solvers::VarId> open_loops_;
  // Arguments of open loops. No atom may be defined by them: its definition would hide that a value depends on them.
  std::set<solvers::TensorId> carried_;
  std::set<solvers::TensorId> ever_carried_;  // of closed loops as well
  FittingTensors assumed_fits_;
  std::set<ir::ValueId> overridden_;
  std::vector<solvers::TermId> override_terms_;
  std::vector<Fault> faults_;
  std::vector<Step> steps_;
  std::vector<std::pair<std::string, solvers::VarId>> loop_context_;
  std::function<void(std::int64_t)> progress_;
  std::int64_t done_ = 0;
  std::int64_t loop_counter_ = 0;
  bool partial_run_ = false;
  AcceptChange accept_change_;
  std::vector<bool> changed_;
};

}  // namespace shardproof::verifier

#include "verifier/kernel/run_program.h"

#include "ir/check.h"
#include "solvers/kernel/accesses.h"

namespace shardproof::verifier {

using ir::Instruction;
using ir::OpCode;
using ir::ValueId;
using solvers::IndexId;
using solvers::TensorId;
using solvers::TermId;
using solvers::TermKind;
using solvers::VarId;
using solvers::VarKind;

namespace {
bool completes_sums(const Instruction& instruction) { return ir::schema_of(instruction.op).family == ir::OpFamily::communication; }
}  // namespace

ProgramRun::ProgramRun(Side side, solvers::AtomTable& atoms, ProofSource& source, Semantics& semantics, const ir::Program& program)
    : side_(side), atoms_(atoms), pool_(atoms.pool()), source_(source), semantics_(semantics), program_(program), terms_(program.values.size()), infinities_(program.values.size()), undefined_(program.values.size(), pool_.zero()), pending_(program.values.size()),
      override_terms_(program.values.size()), changed_(program.values.size()) {}

std::vector<VarId> ProgramRun::scope_of(const ir::TensorType& type) {
  std::vector<VarId> variables = semantics_.coordinates();
  variables.insert(variables.end(), open_loops_.begin(), open_loops_.end());
  for (std::size_t d = 0; d < type.shape.size(); ++d) variables.push_back(pool_.element(d, type.shape[d]));
  return variables;
}

bool ProgramRun::is_finite(ValueId value) {
  return infinities_[static_cast<std::size_t>(value.index)] == Infinity::none || SideConditions(atoms_).is_finite(term(value));
}

TermId ProgramRun::tensor_over(solvers::Tensor tensor, const std::vector<VarId>& variables) {
  std::vector<IndexId> indices;
  for (VarId v : variables) {
    tensor.shape.push_back(pool_.var(v).extent);
    indices.push_back(pool_.index_var(v));
  }
  return pool_.access(atoms_.opaque(std::move(tensor)), std::move(indices));
}

TermId ProgramRun::opaque(const std::string& name, const ir::TensorType& type) { return tensor_over({name, {}, false, 0}, scope_of(type)); }

TermId ProgramRun::unknown(const std::string& name, const ir::TensorType& type) {
  return tensor_over({"unknown value of " + name, {}, false, 0, true}, scope_of(type));
}

void ProgramRun::override_value(ValueId value, TermId term) {
  overridden_.insert(value);
  override_terms_[static_cast<std::size_t>(value.index)] = term;
}

void ProgramRun::clear_override(ValueId value) {
  overridden_.erase(value);
  override_terms_[static_cast<std::size_t>(value.index)] = TermId{};
}

void ProgramRun::assign(ValueId value, TermId term) {
  const auto at = static_cast<std::size_t>(value.index);
  if (override_terms_[at].valid()) term = override_terms_[at];
  if (partial_run_ && terms_[at] != term) {
    changed_[at] = true;
    if (accept_change_ && terms_[at].valid() && !accept_change_(value, terms_[at], term)) throw RerunStopped();
  }
  terms_[at] = term;
}

void ProgramRun::fail(const Instruction& instruction, Fault fault) {
  fault.instruction = &instruction;
  fault.value = instruction.outputs.at(0);
  if (!partial_run_) faults_.push_back(std::move(fault));
  for (ValueId out : instruction.outputs) assign(out, unknown(program_.value(out).name, program_.value(out).type));
}

// At fault is what the loop's body makes of the carried value.
void ProgramRun::fail_carry(const Instruction& loop, const ir::Carry& carry, Fault fault) {
  fault.instruction = &loop;
  for (const Instruction& i : loop.region->body)
    for (ValueId out : i.outputs)
      if (out == carry.next) fault.instruction = &i;
  fault.value = carry.next;
  if (!partial_run_) faults_.push_back(std::move(fault));
  assign(carry.result, unknown(program_.value(carry.result).name, program_.value(carry.result).type));
}

void ProgramRun::run(const std::function<void(std::int64_t)>& progress) {
  progress_ = progress;
  done_ = 0;
  loop_counter_ = 0;
  faults_.clear();
  steps_.clear();
  partial_run_ = false;
  run_body(program_.body);
  progress_ = {};  // what it refers to may be gone when dependents run again
}

void ProgramRun::rerun_dependents(const std::set<ValueId>& changed, AcceptChange accept) {
  partial_run_ = true;
  loop_counter_ = 0;
  accept_change_ = std::move(accept);
  std::fill(changed_.begin(), changed_.end(), false);
  for (ValueId v : changed) changed_[static_cast<std::size_t>(v.index)] = true;
  const auto finish = [&] {
    for (const auto& [name, unused] : loop_context_) semantics_.unbind_loop(name);
    loop_context_.clear();
    open_loops_.clear();
    accept_change_ = {};
    partial_run_ = false;
  };
  try {
    run_body(program_.body);
  } catch (...) {
    finish();
    throw;
  }
  finish();
}

bool ProgramRun::needs_run(const Instruction& instruction) const {
  if (!partial_run_) return true;
  for (ValueId v : instruction.inputs)
    if (changed_[static_cast<std::size_t>(v.index)]) return true;
  for (ValueId v : instruction.outputs)
    if (changed_[static_cast<std::size_t>(v.index)]) return true;
  return false;
}

void ProgramRun::run_body(const std::vector<Instruction>& body) {
  for (const Instruction& instruction : body) {
    if (instruction.op == OpCode::loop) {
      run_loop(instruction);
    } else if (instruction.op != OpCode::release && needs_run(instruction)) {
      run_instruction(instruction);
    }
    if (!partial_run_) steps_.push_back({&instruction, loop_context_});
    ++done_;
    if (progress_ && (done_ & 0xFF) == 0) progress_(done_);
  }
}

void ProgramRun::run_instruction(const Instruction& instruction) {
  if (instruction.outputs.size() != 1)
    throw SemanticsError("SP0905", "unsupported", "the prover has no rule for `" + std::string(ir::schema_of(instruction.op).name) + "` yet");
  const ValueId out = instruction.outputs[0];
  const ir::Value& value = program_.value(out);
  for (ValueId in : instruction.inputs) {
    if (pending_[static_cast<std::size_t>(in.index)] && instruction.op != OpCode::wait) {
      return fail(instruction, {nullptr, {}, "SP0402", "use-before-ready",
                                "`" + program_.value(in).name + "` is read before the wait of the collective that produces it",
                                "a `wait` between the collective and its use", "a direct use"});
    }
  }
  const std::vector<Denotation> operands = operands_of(instruction);
  if (instruction.attributes.get_or<bool>("async", false)) pending_[static_cast<std::size_t>(out.index)] = true;
  try {
    TermId result = pool_.assume(semantics_.evaluate(instruction, operands, value.type), {});
    const TermId computed = result;
    if (side_ == Side::reference) {
      const ir::OpFamily family = ir::schema_of(instruction.op).family;
      const bool structural = family == ir::OpFamily::source || (family == ir::OpFamily::structure && instruction.op != OpCode::scatter_add);
      // Indices and conditions on them stay what they are: an atom would hide that its value is known.
      const bool index = !ir::is_float(value.type.dtype) && semantics_.is_index_function(result);
      if (!index) result = source_.reference_value(value.name, result, !structural && !mentions(result, carried_));
    } else {
      std::vector<TermId> terms;
      for (const Denotation& operand : operands) terms.push_back(operand.term);
      const ir::OpFamily family = ir::schema_of(instruction.op).family;
      const bool arithmetic = family != ir::OpFamily::structure && family != ir::OpFamily::source;
      result = plan_value(value, result, completes_sums(instruction), terms, arithmetic);
    }
    settle_unbounded(computed, result);
    std::vector<TermId> regions;
    for (ValueId in : instruction.inputs) regions.push_back(undefined_region(in));
    undefined_[static_cast<std::size_t>(out.index)] = semantics_.undefined_region(instruction, operands, regions, value.type);
    infinities_[static_cast<std::size_t>(out.index)] = semantics_.infinity(instruction, operands);
    assign(out, result);
  } catch (const SemanticsError& e) {
    fail(instruction, {nullptr, {}, e.code, e.name, e.what(), e.expected, e.found});
  } catch (const std::overflow_error&) {
    fail(instruction, {nullptr, {}, "SP0903", "too-large", "index arithmetic of `" + value.name + "` leaves 64 bits", "", ""});
  } catch (const solvers::BudgetExceeded& e) {
    if (e.what_kind != solvers::BudgetExceeded::What::size) throw;
    fail(instruction, {nullptr, {}, "SP0903", "too-large", "the term of `" + value.name + "` grew beyond the size cap", "", ""});
  }
}

std::vector<Denotation> ProgramRun::operands_of(const Instruction& instruction) const {
  std::vector<Denotation> operands;
  for (ValueId in : instruction.inputs) operands.push_back({term(in), program_.value(in).type, infinities_[static_cast<std::size_t>(in.index)]});
  return operands;
}

TermId ProgramRun::plan_value(const ir::Value& value, TermId term, bool completes, const std::vector<TermId>& operands, bool arithmetic) {
  const TermId folded = source_.plan_value(value.name, term, completes);
  if (!ir::is_float(value.type.dtype)) return folded;
  return source_.contain(folded, operands, arithmetic, [this](TermId t) { return mentions(t, carried_); });
}

std::optional<ProgramRun::Multiple> ProgramRun::as_multiple(TermId term) const {
  const std::vector<solvers::Monomial> monomials = pool_.monomials_of(term);
  if (monomials.size() != 1 || monomials[0].factors.size() != 1 || monomials[0].factors[0].power != 1) return std::nullopt;
  const solvers::TermNode& factor = pool_.node(monomials[0].factors[0].term);
  if (factor.kind != TermKind::access) return std::nullopt;
  return Multiple{factor.tensor, {monomials[0].coefficient.num, monomials[0].coefficient.den}};
}

// What an open loop carries may wrap around on the way: the loop's result is a sum, which has to fit at its end, and anything
// but a sum of it is refused there.
void ProgramRun::settle_unbounded(TermId term, TermId folded) {
  const std::optional<Semantics::Unbounded> unbounded = semantics_.take_unbounded();
  if (!unbounded || mentions(term, carried_)) return;
  const std::optional<Multiple> multiple = as_multiple(folded);
  if (side_ == Side::reference) {
    semantics_.assume_fits(*unbounded);
    if (multiple) assumed_fits_.try_emplace(*multiple, unbounded->dtype);
    return;
  }
  if (multiple) {
    const auto assumed = assumed_fits_.find(*multiple);
    if (assumed != assumed_fits_.end() && Semantics::contains(unbounded->dtype, assumed->second)) return;
  }
  if (unbounded->dtype != ir::DType::i64) Semantics::refuse(*unbounded);
  semantics_.assume_fits(*unbounded);
}

TermId ProgramRun::evaluate(const Step& step, const Instruction& instruction) {
  for (const auto& [name, variable] : step.loops) semantics_.bind_loop(name, variable);
  const auto unbind = [&] {
    for (const auto& [name, variable] : step.loops) semantics_.unbind_loop(name);
  };
  const std::vector<Denotation> operands = operands_of(instruction);
  try {
    const ir::Value& value = program_.value(instruction.outputs.at(0));
    const TermId result = pool_.assume(semantics_.evaluate(instruction, operands, value.type), {});
    const TermId folded = source_.plan_value(value.name, result, completes_sums(instruction));
    unbind();
    return folded;
  } catch (...) {
    unbind();
    throw;
  }
}

TermId ProgramRun::without_carried(TermId term) const {
  std::vector<solvers::Monomial> rest = pool_.monomials_of(term);
  std::erase_if(rest, [&](const solvers::Monomial& m) {
    return m.factors.size() == 1 && m.factors[0].power == 1 && pool_.node(m.factors[0].term).kind == TermKind::access &&
           ever_carried_.count(pool_.node(m.factors[0].term).tensor) != 0;
  });
  return pool_.poly(std::move(rest));
}

bool ProgramRun::mentions(TermId term, const std::set<TensorId>& tensors) const {
  return !tensors.empty() && solvers::accesses(pool_, term, [&](TensorId t) { return tensors.count(t) != 0; });
}

void ProgramRun::run_loop(const Instruction& instruction) {
  const ir::Region& region = *instruction.region;
  // Loop variables are told apart by program position; a mesh axis may not be shadowed (validated).
  const std::string name = region.index + "#" + std::to_string(++loop_counter_) + (side_ == Side::reference ? "r" : "");
  const VarId index = pool_.named(VarKind::loop, name, region.trip);
  semantics_.bind_loop(region.index, index);
  loop_context_.emplace_back(region.index, index);
  open_loops_.push_back(index);
  std::vector<TensorId> carried;
  for (const ir::Carry& carry : region.carries) {
    TermId argument = term(carry.argument);
    if (!partial_run_ || !argument.valid()) {
      argument = opaque("carried " + program_.value(carry.argument).name, program_.value(carry.argument).type);
      set(carry.argument, argument);
    }
    carried.push_back(pool_.node(argument).tensor);
    ever_carried_.insert(carried.back());
  }
  carried_.insert(carried.begin(), carried.end());
  run_body(region.body);
  for (TensorId t : carried) carried_.erase(t);
  open_loops_.pop_back();
  loop_context_.pop_back();
  semantics_.unbind_loop(region.index);
  finish_loop(instruction, index, carried);
}

void ProgramRun::finish_loop(const Instruction& instruction, VarId index, const std::vector<TensorId>& carried) {
  const ir::Region& region = *instruction.region;
  const std::set<TensorId> all(carried.begin(), carried.end());
  for (const ir::Carry& carry : region.carries) {
    if (partial_run_ && !changed_[static_cast<std::size_t>(carry.init.index)] && !changed_[static_cast<std::size_t>(carry.next.index)] &&
        !changed_[static_cast<std::size_t>(carry.result.index)])
      continue;
    const ir::Value& value = program_.value(carry.result);
    try {
      for (const ValueId v : {carry.init, carry.next}) {
        if (is_pending(v))
          throw SemanticsError("SP0402", "use-before-ready", "`" + program_.value(v).name + "` is carried by a loop before the wait of the collective that produces it",
                               "a `wait` before", "a direct use");
        if (undefined_region(v) != pool_.zero())
          throw SemanticsError("SP0905", "unsupported", "a loop carries `" + program_.value(v).name + "`, of which some elements may be undefined");
        if (infinities_[static_cast<std::size_t>(v.index)] != Infinity::none)
          throw SemanticsError("SP0905", "unsupported", "a loop carries `" + program_.value(v).name + "`, which may be minus infinity");
      }
      const TermId next = term(carry.next);
      const TermId step = pool_.sub(next, term(carry.argument));
      TermId result;
      if (!mentions(step, all)) {
        solvers::TermPool::FreshScope scope(pool_);
        const VarId iteration = scope.fresh(region.trip);
        solvers::Substitution s;
        s.set(index, pool_.index_var(iteration));
        result = pool_.add(term(carry.init), pool_.reduce(solvers::Reduction::sum, {iteration}, pool_.substitute(step, s)));
      } else if (!mentions(next, all)) {
        solvers::Substitution s;
        s.set(index, pool_.index_constant(region.trip - 1));
        result = pool_.substitute(next, s);
      } else {
        throw SemanticsError("SP0905", "unsupported", "the loop-carried value `" + program_.value(carry.argument).name + "` is not an accumulation",
                             "next = carried + something that depends on no carried value", "a general recurrence");
      }
      semantics_.require_sum_fits(value.name, result, value.type.dtype);
      const TermId computed = result;
      if (side_ == Side::plan) result = plan_value(value, result, false, {term(carry.init), next}, true);
      else result = source_.reference_value(value.name, result, !mentions(result, carried_));
      settle_unbounded(computed, result);
      assign(carry.result, result);
    } catch (const SemanticsError& e) {
      fail_carry(instruction, carry, {nullptr, {}, e.code, e.name, e.what(), e.expected, e.found});
    } catch (const std::overflow_error&) {
      fail_carry(instruction, carry, {nullptr, {}, "SP0903", "too-large", "index arithmetic of `" + value.name + "` leaves 64 bits", "", ""});
    } catch (const solvers::BudgetExceeded& e) {
      if (e.what_kind != solvers::BudgetExceeded::What::size) throw;
      fail_carry(instruction, carry, {nullptr, {}, "SP0903", "too-large", "the term of `" + value.name + "` grew beyond the size cap", "", ""});
    }
  }
}

}  // namespace shardproof::verifier

#include "verifier/kernel/proof.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <unistd.h>

#include "ir/check.h"
#include "ir/validate.h"
#include "lowering/join_stages.h"
#include "lowering/unfold.h"
#include "verifier/kernel/equality.h"

namespace shardproof::verifier {

using ir::ValueId;
using solvers::BudgetExceeded;
using solvers::TermId;

namespace {

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  if (!(statm >> total >> resident)) return 0;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

namespace {

// What no output or state of the reference needs is not part of the claim, and asks nothing of the inputs.
ir::Program used_reference(const ir::Document& document) {
  std::vector<ValueId> needed;
  for (const ir::ReferenceState& state : document.reference.state) needed.push_back(state.next);
  for (const ir::ReferenceOutput& output : document.reference.outputs) needed.push_back(output.value);
  return ir::without_unused(lowering::unfold(document.reference.program), needed);
}

}  // namespace

const ir::Document& provable(const ir::Document& document, std::optional<ir::Document>& joined, ir::DiagnosticSink& sink) {
  const ir::Plan& plan = document.plan;
  if (plan.meshes.size() != 1)
    sink.error("SP0905", "unsupported", "the prover takes plans on one mesh so far", plan.meshes.empty() ? ir::Span{} : plan.meshes[1].span,
               "one entry in `meshes`", std::to_string(plan.meshes.size()));
  if (!sink.ok() || !lowering::has_stages(plan)) return document;
  auto result = lowering::join_stages(document);
  if (auto* refusal = std::get_if<ir::Diagnostic>(&result)) {
    sink.add(std::move(*refusal));
    return document;
  }
  joined = std::get<ir::Document>(std::move(result));
  ir::DiagnosticSink problems;  // no value before it is there, types, placements: as of any other plan
  ir::validate(*joined, problems);
  SHARDPROOF_CHECK(problems.ok());
  return *joined;
}

Proof::Proof(const ir::Document& document, ProofLimits limits, const MakeSource& make_source)
    : document_(document), limits_(std::move(limits)), start_(std::chrono::steady_clock::now()),
      atoms_(pool_, [this](solvers::IndexId e, std::int64_t lo, std::int64_t hi, const std::vector<TermId>& guards) { return source_->proves_range(e, lo, hi, guards); }),
      source_(make_source(atoms_)), reference_program_(used_reference(document)),
      plan_program_(lowering::unfold(document.plan.stages.front().program)) {
  pool_.set_watchdog([this] { watch(); });
  reference_semantics_ = std::make_unique<Semantics>(atoms_, literals_, nullptr);
  plan_semantics_ = std::make_unique<Semantics>(atoms_, literals_, &document.plan.meshes.front());
  bindings_ = std::make_unique<Bindings>(atoms_, *plan_semantics_, document.plan,
                                         [this](const std::string& param, const std::string& role) { return state_of(param, role); });
  reference_run_ = std::make_unique<ProgramRun>(Side::reference, atoms_, *source_, *reference_semantics_, reference_program_);
  plan_run_ = std::make_unique<ProgramRun>(Side::plan, atoms_, *source_, *plan_semantics_, plan_program_);
  for (const ir::ReferenceInput& input : document.reference.inputs)
    reference_entry_[reference_program_.value(input.value).name] = input.value;
  for (const ir::ReferenceState& state : document.reference.state) {
    reference_entry_[state.name] = state.value;
    states_on_exit_[state.name] = state.next;
    if (!state.param.empty()) state_by_role_.try_emplace({state.param, state.role}, state.name);
  }
  // An output is known by its name, and also by that of the value it shows (ir::ReferenceIndex has the same order).
  for (const ir::ReferenceOutput& output : document.reference.outputs) outputs_.try_emplace(output.name, output.value);
  for (const ir::ReferenceOutput& output : document.reference.outputs)
    outputs_.try_emplace(reference_program_.value(output.value).name, output.value);
}

double Proof::seconds_allowed() const {
  return limits_.timeout_seconds > 0 ? limits_.timeout_seconds : std::numeric_limits<double>::infinity();
}

double Proof::seconds_left() const {
  return seconds_allowed() - std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Proof::watch() {
  if (limits_.cancel != nullptr && limits_.cancel->load()) throw BudgetExceeded(BudgetExceeded::What::cancelled, "cancelled");
  if (limits_.timeout_seconds > 0) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    if (elapsed.count() > limits_.timeout_seconds) throw BudgetExceeded(BudgetExceeded::What::time, "time-out");
  }
  if (limits_.memory_bytes > 0 && resident_bytes() > limits_.memory_bytes)
    throw BudgetExceeded(BudgetExceeded::What::memory, "memory limit");
}

void Proof::report(const std::string& phase, std::int64_t done, std::int64_t total) const {
  if (limits_.progress) limits_.progress({phase, done, total});
}

std::string Proof::state_of(const std::string& param, const std::string& role) const {
  if (role.empty() || role == "param") return param;
  const auto it = state_by_role_.find({param, role});
  SHARDPROOF_CHECK(it != state_by_role_.end());  // validated
  return it->second;
}

Denotation Proof::reference_entry(const std::string& name) const {
  const auto it = reference_entry_.find(name);
  SHARDPROOF_CHECK(it != reference_entry_.end());
  return {reference_run_->term(it->second), reference_program_.value(it->second).type};
}

Denotation Proof::reference_exit(Claim::Kind kind, const std::string& name) const {
  const auto& names = kind == Claim::Kind::state ? states_on_exit_ : outputs_;
  const auto it = names.find(name);
  SHARDPROOF_CHECK(it != names.end());
  return {reference_run_->term(it->second), reference_program_.value(it->second).type};
}

void Proof::run_reference() {
  const auto enter = [&](ValueId value, std::int64_t below) {
    const ir::Value& v = reference_program_.value(value);
    const std::vector<solvers::IndexId> indices = reference_semantics_->element_indices(v.type.shape);
    if (below > 0 && ir::is_integer(v.type.dtype)) {
      const solvers::TensorId tensor = atoms_.opaque({v.name, v.type.shape, true, below});
      reference_run_->set(value, pool_.index_value(pool_.index_load(tensor, indices)));
    } else {
      const solvers::TensorId tensor = atoms_.opaque({v.name, v.type.shape, false, 0});
      if (!ir::is_float(v.type.dtype))
        for (Semantics* semantics : {reference_semantics_.get(), plan_semantics_.get()}) semantics->know_type(tensor, v.type.dtype);
      reference_run_->set(value, pool_.access(tensor, indices));
    }
  };
  for (const ir::ReferenceInput& input : document_.reference.inputs) enter(input.value, input.below);
  for (const ir::ReferenceState& state : document_.reference.state) enter(state.value, 0);
  const auto total = static_cast<std::int64_t>(reference_program_.body.size());
  reference_run_->run([&](std::int64_t done) { report("reference", done, total); });
  reference_obligations_ = pool_.take_obligations();
  // A state is a real number on entry, so the step has to leave one.
  for (const ir::ReferenceState& state : document_.reference.state)
    if (!reference_run_->is_finite(state.next))
      throw SemanticsError("SP0905", "unsupported", "state `" + state.name + "` may become minus infinity in the reference",
                           "a real number after each step", "masked scores");
}

void Proof::bind_inputs() {
  const ir::StageProgram& stage = document_.plan.stages.front();
  const auto enter = [&](ValueId value, const ir::Binding& binding) {
    const ir::TensorType& type = plan_program_.value(value).type;
    if (!binding.placement.partial.empty())
      throw SemanticsError("SP0905", "unsupported", "an input that is partial over a mesh axis has no term yet");
    bool other_type = false;
    const Bound bound = bindings_->bind(binding, type, [&](const std::string& name) {
      const Denotation tensor = reference_entry(name);
      other_type = other_type || tensor.type.dtype != type.dtype;
      return tensor;
    });
    TermId term = bound.term;
    if (other_type) plan_semantics_->require_held(plan_program_.value(value).name, term, type.dtype);
    // Where the placement promises nothing the value is arbitrary, and no result may depend on it.
    if (bound.care != pool_.one()) {
      const TermId padding = plan_run_->opaque("padding of " + plan_program_.value(value).name, type);
      paddings_.insert(pool_.node(padding).tensor);
      term = pool_.add(pool_.mul(bound.care, term), pool_.mul(pool_.complement(bound.care), padding));
    }
    plan_run_->set(value, term);
  };
  for (const ir::PlanInput& input : stage.inputs) enter(input.value, input.binding);
  for (const ir::PlanState& state : stage.state) enter(state.value, state.binding);
}

void Proof::run_plan() {
  bind_inputs();
  plan_semantics_->set_arbitrary(paddings_);
  plan_run_->allow_fits(reference_run_->assumed_fits());
  const auto total = static_cast<std::int64_t>(plan_program_.body.size());
  plan_run_->run([&](std::int64_t done) { report("plan", done, total); });
}

TermId Proof::apply_partial(const Claim& claim, TermId term) {
  const ir::Placement& placement = claim.binding->placement;
  const auto is_max = [](const ir::PartialAxis& p) { return p.reduce == ir::ReduceKind::max; };
  const auto maxima = std::count_if(placement.partial.begin(), placement.partial.end(), is_max);
  if (maxima != 0 && maxima != static_cast<std::ptrdiff_t>(placement.partial.size()))
    throw SemanticsError("SP0905", "unsupported", "a placement that is a maximum over one mesh axis and a sum over another does not say in which order");
  for (const ir::PartialAxis& partial : placement.partial) {
    solvers::TermPool::FreshScope scope(pool_);
    const solvers::VarId c = plan_semantics_->coordinate(partial.axis);
    const std::int64_t size = pool_.var(c).extent;
    const solvers::VarId v = scope.fresh(size);
    solvers::Substitution s;
    s.set(c, pool_.index_var(v));
    const TermId body = pool_.substitute(term, s);
    switch (partial.reduce) {
      case ir::ReduceKind::sum: term = pool_.reduce(solvers::Reduction::sum, {v}, body); break;
      case ir::ReduceKind::avg: term = pool_.scale(pool_.reduce(solvers::Reduction::sum, {v}, body), ir::Rational(1, size)); break;
      case ir::ReduceKind::max: term = pool_.reduce(solvers::Reduction::max, {v}, body); break;
      default: throw SemanticsError("SP0905", "unsupported", "this partial reduction has no term yet");
    }
  }
  return placement.partial.empty() ? term : source_->claimed_value(claim.name, ProofSource::ClaimStep::summed, term);
}

void Proof::check_claims() {
  const ir::StageProgram& stage = document_.plan.stages.front();
  claims_.clear();
  undefined_claims_.clear();
  const auto claim = [&](Claim::Kind kind, const std::string& name, ValueId value, const ir::Binding& binding, ir::Span span) {
    Claim c;
    c.kind = kind;
    c.name = name;
    c.reference = !binding.of.empty() ? binding.of : !binding.buffer.empty() ? binding.buffer : name;
    c.value = value;
    c.binding = &binding;
    c.span = span;
    const Bound bound = bindings_->bind(binding, plan_program_.value(value).type, [&](const std::string& n) { return reference_exit(kind, n); });
    c.care = bound.care;
    c.expected = pool_.mul(bound.care, bound.term);
    if (plan_run_->is_pending(value))
      throw SemanticsError("SP0402", "use-before-ready", "`" + plan_program_.value(value).name + "` is the result of the step before the wait of the collective that produces it",
                           "a `wait` at the end of the step at the latest", "no `wait`");
    if (!is_zero_everywhere(atoms_, pool_.mul(c.care, plan_run_->undefined_region(value))))
      undefined_claims_.push_back({"`" + plan_program_.value(value).name + "` is defined where it holds `" + c.reference + "`", span, false});
    claims_.push_back(std::move(c));
    claims_.back().proved = check_claim(claims_.back());
  };
  const auto total = static_cast<std::int64_t>(stage.state.size() + stage.outputs.size());
  for (const ir::PlanState& state : stage.state) {
    claim(Claim::Kind::state, state.name, state.next, state.binding, state.span);
    report("claims", static_cast<std::int64_t>(claims_.size()), total);
  }
  for (const ir::PlanOutput& output : stage.outputs) {
    claim(Claim::Kind::output, output.name, output.value, output.binding, output.span);
    report("claims", static_cast<std::int64_t>(claims_.size()), total);
  }
}

bool Proof::check_claim(Claim& c) {
  c.found = pool_.mul(c.care, apply_partial(c, plan_run_->term(c.value)));
  try {
    return prove_equal(c.name, c.expected, c.found);
  } catch (const BudgetExceeded& e) {
    if (e.what_kind != BudgetExceeded::What::size) throw;
    return false;
  } catch (const std::overflow_error&) {
    return false;
  }
}

bool Proof::prove_equal(const std::string& claim, TermId a, TermId b) {
  if (a == b) return true;
  b = source_->claimed_value(claim, ProofSource::ClaimStep::compared, b);
  if (a == b) return true;
  if (equal_by_cases(atoms_, a, b)) return true;
  const auto all = [](solvers::TensorId) { return true; };
  TermId x = a, y = b;
  for (int level = 0; level < 3; ++level) {
    if (pool_.node(x).size > 300 || pool_.node(y).size > 300) return false;
    const TermId x_next = atoms_.unfold(x, all);
    const TermId y_next = atoms_.unfold(y, all);
    if (x_next == y || x == y_next || x_next == y_next) return true;
    if (x_next == x && y_next == y) return false;
    x = x_next;
    y = y_next;
  }
  return false;
}

}  // namespace shardproof::verifier

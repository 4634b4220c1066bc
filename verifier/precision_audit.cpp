#include "verifier/precision_audit.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "ir/print.h"

namespace shardproof::verifier {

namespace {

using ir::Instruction;
using ir::OpCode;
using ir::OpFamily;
using ir::ValueId;

bool is_low(ir::DType dtype) { return ir::is_float(dtype) && ir::byte_size(dtype) < 4; }

// Ops that keep numbers as they are, on this rank or from another one.
bool moves(const Instruction& i) {
  switch (i.op) {
    case OpCode::reshape:
    case OpCode::transpose:
    case OpCode::broadcast:
    case OpCode::slice:
    case OpCode::concat:
    case OpCode::pad:
    case OpCode::cast:
    case OpCode::stop_gradient:
    case OpCode::all_gather:
    case OpCode::all_to_all:
    case OpCode::broadcast_from:
    case OpCode::permute:
    case OpCode::wait:
      return true;
    default:
      return false;
  }
}

bool sums_over_ranks(const Instruction& i) {
  if (i.op != OpCode::all_reduce && i.op != OpCode::reduce_scatter) return false;
  const auto& kind = i.attributes.get<std::string>("reduce");
  return kind == "sum" || kind == "avg";
}

class Audit {
 public:
  explicit Audit(const ir::StageProgram& stage) : stage_(stage), program_(stage.program) { index(program_.body); }

  std::vector<ir::Diagnostic> run() {
    gradients();
    accumulation();
    states();
    exponentials();
    std::vector<ir::Diagnostic> all;
    for (auto& [code, diagnostic] : found_) all.push_back(std::move(diagnostic));
    return all;
  }

 private:
  void index(const std::vector<Instruction>& body) {
    for (const Instruction& i : body) {
      for (const ValueId output : i.outputs) definition_[output] = &i;
      all_.push_back(&i);
      if (!i.region) continue;
      for (const ir::Carry& carry : i.region->carries) carry_of_result_[carry.result] = carry_of_argument_[carry.argument] = &carry;
      index(i.region->body);
    }
  }
  const Instruction* definition(ValueId id) const {
    const auto found = definition_.find(id);
    return found == definition_.end() ? nullptr : found->second;
  }
  ir::DType dtype(ValueId id) const { return program_.value(id).type.dtype; }
  std::string type_text(ValueId id) const { return std::string(ir::dtype_name(dtype(id))); }

  void warn(const char* code, const char* name, const Instruction* at, ValueId value, const std::string& message,
            const std::string& expected, const std::string& fix) {
    const auto [entry, added] = found_.try_emplace(code);
    ir::Diagnostic& d = entry->second;
    if (!added) {
      ++d.places;
      return;
    }
    d = ir::make_error(code, name, message, at != nullptr ? at->span : program_.value(value).span, expected,
                       ir::to_string(program_.value(value).type), fix);
    d.severity = ir::Severity::warning;
    d.subject.value = program_.value(value).name;
    if (at != nullptr) d.subject.instruction = ir::describe(program_, *at);
  }

  // Visits what `from` is computed from without a sum over elements: visit(value, definition or null) says whether to go on.
  void backwards(ValueId from, std::set<ValueId>& seen,
                 const std::function<bool(ValueId, const Instruction*)>& visit) const {
    std::vector<ValueId> open = {from};
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      if (!seen.insert(value).second) continue;
      const Instruction* i = definition(value);
      if (!visit(value, i)) continue;
      if (const auto carry = carry_of_result_.find(value); carry != carry_of_result_.end()) {
        open.push_back(carry->second->init);
        open.push_back(carry->second->next);
      }
      if (const auto carry = carry_of_argument_.find(value); carry != carry_of_argument_.end()) {
        open.push_back(carry->second->init);
        open.push_back(carry->second->next);
      }
      if (i == nullptr || i->op == OpCode::loop) continue;
      const OpFamily family = ir::schema_of(i->op).family;
      if (family == OpFamily::contraction || family == OpFamily::source) continue;
      if (family == OpFamily::macro && i->op != OpCode::adamw) continue;
      open.insert(open.end(), i->inputs.begin(), i->inputs.end());
    }
  }

  // Sums over ranks on the way of a gradient into a state: what is added up there is not rounded away once.
  void gradients() {
    std::set<ValueId> seen;
    std::vector<const Instruction*> sums;
    for (const ir::PlanState& state : stage_.state)
      backwards(state.next, seen, [&](ValueId, const Instruction* i) {
        if (i != nullptr && sums_over_ranks(*i) && is_low(dtype(i->inputs.front()))) sums.push_back(i);
        return true;
      });
    for (const Instruction* i : sums)
      warn("SP0601", "low-precision-reduction", i, i->inputs.front(),
           "the gradient `" + program_.value(i->inputs.front()).name + "` is summed over ranks in " + type_text(i->inputs.front()),
           "a sum in f32", "cast to f32 before the reduction");
  }

  void accumulation() {
    for (const Instruction* i : all_) {
      if (!i->region) continue;
      for (const ir::Carry& carry : i->region->carries) {
        const Instruction* next = definition(carry.next);
        if (next == nullptr || next->op != OpCode::add || !is_low(dtype(carry.argument))) continue;
        if (std::find(next->inputs.begin(), next->inputs.end(), carry.argument) == next->inputs.end()) continue;
        warn("SP0602", "low-precision-accumulation", next, carry.argument,
             "`" + program_.value(carry.result).name + "` is accumulated over `" + i->region->index + "` in " + type_text(carry.argument),
             "an accumulator in f32", "start from zeros in f32 and cast each summand");
      }
    }
  }

  // Small updates vanish beside a 16-bit weight, and squares of gradients below the least 16-bit number.
  void states() {
    for (const ir::PlanState& state : stage_.state) {
      if (!is_low(dtype(state.value)) || state.next == state.value) continue;
      bool from_wide = false;
      std::set<ValueId> seen;
      backwards(state.next, seen, [&](ValueId, const Instruction* i) {
        if (i == nullptr || !moves(*i)) return false;
        from_wide = from_wide || (i->op == OpCode::cast && !is_low(dtype(i->inputs.front())));
        return i->op != OpCode::cast;
      });
      if (!from_wide)
        warn("SP0603", "low-precision-state", definition(state.next), state.value,
             "state `" + state.name + "` is updated in " + type_text(state.value) + ", without a wider copy", "a state in f32",
             "keep the state in f32 and cast a copy for compute");
    }
  }

  void exponentials() {
    for (const Instruction* i : all_) {
      if (i->op != OpCode::exp || ir::byte_size(dtype(i->inputs.front())) > 4) continue;
      bool guarded = false;
      std::set<ValueId> seen;
      backwards(i->inputs.front(), seen, [&](ValueId, const Instruction* d) {
        guarded = guarded || (d != nullptr && (d->op == OpCode::reduce_max || d->op == OpCode::max || d->op == OpCode::min ||
                                               d->op == OpCode::log || d->op == OpCode::log_softmax || d->op == OpCode::reduce_min));
        return !guarded;
      });
      if (!guarded)
        warn("SP0604", "unguarded-exponential", i, i->inputs.front(),
             "`" + program_.value(i->outputs.front()).name + "` is an exponential that nothing bounds", "a maximum that is subtracted first",
             "subtract the maximum before, and divide or multiply by its exponential after");
    }
  }

  const ir::StageProgram& stage_;
  const ir::Program& program_;
  std::map<ValueId, const Instruction*> definition_;
  std::map<ValueId, const ir::Carry*> carry_of_result_, carry_of_argument_;
  std::vector<const Instruction*> all_;
  std::map<std::string, ir::Diagnostic> found_;
};

}  // namespace

std::vector<ir::Diagnostic> audit_precision(const ir::Plan& plan) {
  std::vector<ir::Diagnostic> all;
  for (const ir::StageProgram& stage : plan.stages)
    for (ir::Diagnostic& d : Audit(stage).run()) all.push_back(std::move(d));
  return all;
}

}  // namespace shardproof::verifier

#include "verifier/blame.h"

namespace shardproof::verifier {

using ir::OpCode;
using ir::ValueId;

Blame::Blame(Session& session) : session_(session), definition_(session.plan_program().values.size(), npos) {
  const std::vector<Step>& steps = session.plan_run().steps();
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (ValueId out : steps[i].instruction->outputs) definition_[static_cast<std::size_t>(out.index)] = i;
}

bool Blame::folded(ValueId value) {
  const solvers::TermId term = session_.plan_run().term(value);
  if (!term.valid()) return true;
  const auto [it, added] = folded_.try_emplace(term);
  if (added) it->second = session_.folder().is_folded(term);
  return it->second;
}

// What a step reads; a loop reads the next values of its carries besides the inits.
std::vector<ValueId> Blame::operands_of(std::size_t step) const {
  const ir::Instruction& instruction = *session_.plan_run().steps()[step].instruction;
  std::vector<ValueId> operands = instruction.inputs;
  if (instruction.region != nullptr)
    for (const ir::Carry& carry : instruction.region->carries) operands.push_back(carry.next);
  return operands;
}

std::vector<std::size_t> Blame::cone() {
  const std::size_t count = session_.plan_run().steps().size();
  std::vector<bool> in_cone(count);
  for (const Claim& claim : session_.claims())
    if (!claim.proved && definition(claim.value) != npos) in_cone[definition(claim.value)] = true;
  std::vector<std::size_t> result;
  for (std::size_t i = count; i-- > 0;) {
    if (!in_cone[i]) continue;
    for (ValueId v : operands_of(i))
      if (definition(v) != npos) in_cone[definition(v)] = true;
  }
  for (std::size_t i = 0; i < count; ++i)
    if (in_cone[i]) result.push_back(i);
  return result;
}

std::vector<std::size_t> Blame::roots() {
  const std::vector<Step>& steps = session_.plan_run().steps();
  std::vector<bool> bad(session_.plan_program().values.size());  // unfolded, and the loss reaches a failed claim
  for (const Claim& claim : session_.claims())
    if (!claim.proved && !folded(claim.value)) bad[static_cast<std::size_t>(claim.value.index)] = true;
  for (std::size_t i = steps.size(); i-- > 0;) {
    bool result_bad = false;
    for (ValueId out : steps[i].instruction->outputs) result_bad = result_bad || bad[static_cast<std::size_t>(out.index)];
    if (!result_bad) continue;
    for (ValueId v : operands_of(i))
      if (!folded(v)) bad[static_cast<std::size_t>(v.index)] = true;
  }
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    bool result_bad = false, operands_folded = true;
    for (ValueId out : steps[i].instruction->outputs) result_bad = result_bad || bad[static_cast<std::size_t>(out.index)];
    if (!result_bad) continue;
    for (ValueId v : operands_of(i)) operands_folded = operands_folded && folded(v);
    if (operands_folded) result.push_back(i);
  }
  return result;
}

std::size_t Blame::unfolded_count() {
  std::size_t count = 0;
  for (const Step& step : session_.plan_run().steps())
    for (ValueId out : step.instruction->outputs) count += !folded(out);
  return count;
}

}  // namespace shardproof::verifier

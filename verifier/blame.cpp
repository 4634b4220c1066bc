#include "verifier/blame.h"

#include <algorithm>

namespace shardproof::verifier {

using ir::OpCode;
using ir::ValueId;

Blame::Blame(Session& session) : session_(session), definition_(session.plan_program().values.size(), npos) {
  const std::vector<Step>& steps = session.plan_run().steps();
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (ValueId out : steps[i].instruction->outputs) definition_[static_cast<std::size_t>(out.index)] = i;
}

bool Blame::folded(ValueId value) {
  return folded_term(session_.plan_run().term(value));
}

bool Blame::folded_term(solvers::TermId term) {
  return !term.valid() || session_.plan_run().containment().matches(term);
}

// What a step reads for those of its results that `wanted` marks: a result of a loop comes from its own carry.
std::vector<ValueId> Blame::operands_of(std::size_t step, const std::vector<bool>& wanted) const {
  const ir::Instruction& instruction = *session_.plan_run().steps()[step].instruction;
  if (instruction.region == nullptr) return instruction.inputs;
  std::vector<ValueId> operands;
  for (const ir::Carry& carry : instruction.region->carries) {
    if (!wanted[static_cast<std::size_t>(carry.result.index)]) continue;
    operands.push_back(carry.init);
    operands.push_back(carry.next);
  }
  return operands;
}

std::vector<std::size_t> Blame::cone() {
  const std::vector<Step>& steps = session_.plan_run().steps();
  std::vector<bool> wanted(session_.plan_program().values.size());
  for (const Claim& claim : session_.claims())
    if (!claim.proved) wanted[static_cast<std::size_t>(claim.value.index)] = true;
  std::vector<std::size_t> result;
  for (std::size_t i = steps.size(); i-- > 0;) {
    const std::vector<ValueId>& outputs = steps[i].instruction->outputs;
    if (std::none_of(outputs.begin(), outputs.end(), [&](ValueId out) { return wanted[static_cast<std::size_t>(out.index)]; })) continue;
    result.push_back(i);
    for (ValueId v : operands_of(i, wanted)) wanted[static_cast<std::size_t>(v.index)] = true;
  }
  std::reverse(result.begin(), result.end());
  return result;
}

// Values that are unfolded, and whose loss reaches a failed claim.
std::vector<bool> Blame::bad_values() {
  const std::vector<Step>& steps = session_.plan_run().steps();
  std::vector<bool> bad(session_.plan_program().values.size());
  for (const Claim& claim : session_.claims())
    if (!claim.proved && !folded(claim.value)) bad[static_cast<std::size_t>(claim.value.index)] = true;
  for (std::size_t i = steps.size(); i-- > 0;) {
    bool result_bad = false;
    for (ValueId out : steps[i].instruction->outputs) result_bad = result_bad || bad[static_cast<std::size_t>(out.index)];
    if (!result_bad) continue;
    for (ValueId v : operands_of(i, bad))
      if (!folded(v)) bad[static_cast<std::size_t>(v.index)] = true;
  }
  return bad;
}

std::vector<std::size_t> Blame::bad_steps() {
  const std::vector<Step>& steps = session_.plan_run().steps();
  const std::vector<bool> bad = bad_values();
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (ValueId out : steps[i].instruction->outputs)
      if (bad[static_cast<std::size_t>(out.index)]) {
        result.push_back(i);
        break;
      }
  return result;
}

std::vector<std::size_t> Blame::roots() {
  const std::vector<bool> bad = bad_values();
  std::vector<std::size_t> result;
  for (std::size_t i : bad_steps()) {
    bool operands_folded = true;
    for (ValueId v : operands_of(i, bad)) operands_folded = operands_folded && folded(v);
    if (operands_folded) result.push_back(i);
  }
  return result;
}

std::size_t Blame::bad_count() {
  std::size_t count = 0;
  for (std::size_t i : bad_steps()) {
    const ir::OpFamily family = ir::schema_of(session_.plan_run().steps()[i].instruction->op).family;
    count += family != ir::OpFamily::structure && family != ir::OpFamily::source;
  }
  return count;
}

}  // namespace shardproof::verifier

#include "verifier/blame.h"

#include <algorithm>
#include <set>

namespace shardproof::verifier {

using ir::ValueId;
using solvers::TermId;

bool passes_parts(ir::OpCode op) {
  const ir::OpFamily family = ir::schema_of(op).family;
  return family == ir::OpFamily::structure || family == ir::OpFamily::communication || op == ir::OpCode::cast ||
         op == ir::OpCode::add;
}

Blame::Blame(Session& session) : session_(session), definition_(session.plan_program().values.size(), npos) {
  const std::vector<Step>& steps = session.plan_run().steps();
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (ValueId out : steps[i].instruction->outputs) definition_[static_cast<std::size_t>(out.index)] = i;
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
    if (std::none_of(outputs.begin(), outputs.end(),
                     [&](ValueId out) { return wanted[static_cast<std::size_t>(out.index)]; }))
      continue;
    result.push_back(i);
    for (ValueId v : operands_of(i, wanted)) wanted[static_cast<std::size_t>(v.index)] = true;
  }
  std::reverse(result.begin(), result.end());
  return result;
}

// A value is right as far as one can tell if it matches, or if something computed from it does: partial sums that a
// collective completes, steps of a computation that is grouped in another way.
std::vector<bool> Blame::fine_values() {
  const std::vector<Step>& steps = session_.plan_run().steps();
  std::vector<bool> fine(session_.plan_program().values.size());
  for (std::size_t v = 0; v < fine.size(); ++v)
    fine[v] = definition_[v] == npos || recognised(ValueId{static_cast<std::int32_t>(v)});
  for (std::size_t i = steps.size(); i-- > 0;) {
    std::vector<bool> vouching(fine.size());
    bool result_fine = false;
    for (ValueId out : steps[i].instruction->outputs) {
      vouching[static_cast<std::size_t>(out.index)] = fine[static_cast<std::size_t>(out.index)];
      result_fine = result_fine || fine[static_cast<std::size_t>(out.index)];
    }
    if (!result_fine) continue;
    for (ValueId v : operands_of(i, vouching)) fine[static_cast<std::size_t>(v.index)] = true;
  }
  return fine;
}

// Values that are not fine, and whose loss reaches a failed claim.
std::vector<bool> Blame::bad_values() {
  const std::vector<Step>& steps = session_.plan_run().steps();
  const std::vector<bool> fine = fine_values();
  std::vector<bool> bad(session_.plan_program().values.size());
  for (const Claim& claim : session_.claims())
    if (!claim.proved && !folded(claim.value)) bad[static_cast<std::size_t>(claim.value.index)] = true;
  for (std::size_t i = steps.size(); i-- > 0;) {
    bool result_bad = false;
    for (ValueId out : steps[i].instruction->outputs)
      result_bad = result_bad || bad[static_cast<std::size_t>(out.index)];
    if (!result_bad) continue;
    for (ValueId v : operands_of(i, bad))
      if (!fine[static_cast<std::size_t>(v.index)]) bad[static_cast<std::size_t>(v.index)] = true;
  }
  // Values like one of another layer or buffer that is fine, though it matches nothing either.
  std::set<std::pair<std::string, std::int32_t>> usual;
  for (std::size_t v = 0; v < fine.size(); ++v) {
    const TermId term = session_.plan_run().term({static_cast<std::int32_t>(v)});
    if (fine[v] && definition_[v] != npos && !folded_term(term)) usual.insert(likeness({static_cast<std::int32_t>(v)}));
  }
  // Right parts of sums, as long as all they are computed from is right.
  part_.assign(bad.size(), false);
  std::set<ValueId> declared;  // whole by their placement
  for (const Claim& claim : session_.claims())
    if (!claim.proved && claim.binding->placement.partial.empty()) declared.insert(claim.value);
  for (const Step& step : steps) {
    if (step.instruction->outputs.size() != 1) {
      // A loop: each result from its own carry.
      if (step.instruction->region == nullptr) continue;
      for (const ir::Carry& carry : step.instruction->region->carries)
        if (bad[static_cast<std::size_t>(carry.result.index)] && declared.count(carry.result) == 0 &&
            !bad[static_cast<std::size_t>(carry.init.index)] && !bad[static_cast<std::size_t>(carry.next.index)] &&
            completes(step, session_.plan_run().term(carry.result))) {
          bad[static_cast<std::size_t>(carry.result.index)] = false;
          part_[static_cast<std::size_t>(carry.result.index)] = true;
        }
      continue;
    }
    const ValueId out = step.instruction->outputs[0];
    if (!bad[static_cast<std::size_t>(out.index)] || declared.count(out) != 0) continue;
    const std::vector<ValueId> operands = operands_of(definition(out), bad);
    if (std::any_of(operands.begin(), operands.end(),
                    [&](ValueId v) { return bad[static_cast<std::size_t>(v.index)]; }))
      continue;
    // Parts of a sum can be moved and added up; anything else takes them for the sum.
    const bool usable = passes_parts(step.instruction->op) ||
                        std::none_of(operands.begin(), operands.end(),
                                     [&](ValueId v) { return part_[static_cast<std::size_t>(v.index)]; });
    const bool adds_parts = step.instruction->op == ir::OpCode::add &&
                            std::all_of(operands.begin(), operands.end(),
                                        [&](ValueId v) { return part_[static_cast<std::size_t>(v.index)]; });
    if (adds_parts) part_[static_cast<std::size_t>(out.index)] = true;
    if (adds_parts || usual.count(likeness(out)) != 0) {
      bad[static_cast<std::size_t>(out.index)] = false;
    } else if (usable && completes(step, session_.plan_run().term(out))) {
      bad[static_cast<std::size_t>(out.index)] = false;
      part_[static_cast<std::size_t>(out.index)] = true;
    }
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

std::vector<std::pair<std::size_t, ValueId>> Blame::parts_before(const std::vector<std::size_t>& from) {
  const std::vector<Step>& steps = session_.plan_run().steps();
  bad_values();
  std::vector<bool> wanted(part_.size());
  std::vector<bool> start(steps.size());
  for (std::size_t i : from) {
    start[i] = true;
    for (ValueId out : steps[i].instruction->outputs) wanted[static_cast<std::size_t>(out.index)] = true;
  }
  std::vector<std::pair<std::size_t, ValueId>> result;
  for (std::size_t i = steps.size(); i-- > 0;) {
    std::vector<bool> parts(wanted.size());
    bool some = false;
    for (ValueId out : steps[i].instruction->outputs) {
      const auto at = static_cast<std::size_t>(out.index);
      if (!wanted[at] || (!start[i] && (folded(out) || !completes(steps[i], session_.plan_run().term(out))))) continue;
      parts[at] = some = true;
      if (!folded(out)) result.emplace_back(i, out);
    }
    if (!some) continue;
    for (ValueId v : operands_of(i, parts)) wanted[static_cast<std::size_t>(v.index)] = true;
  }
  return result;
}

std::vector<std::size_t> Blame::roots() {
  const std::vector<bool> bad = bad_values();
  std::vector<std::size_t> result;
  for (std::size_t i : bad_steps()) {
    const std::vector<ValueId> operands = operands_of(i, bad);
    if (std::none_of(operands.begin(), operands.end(),
                     [&](ValueId v) { return bad[static_cast<std::size_t>(v.index)]; }))
      result.push_back(i);
  }
  return result;
}

std::size_t Blame::bad_count() {
  std::size_t count = 0;
  for (std::size_t i : bad_steps()) {
    const ir::OpFamily family = ir::schema_of(session_.plan_run().steps()[i].instruction->op).family;
    if (family == ir::OpFamily::structure || family == ir::OpFamily::source) continue;
    std::size_t pieces = 0;
    for (ValueId out : session_.plan_run().steps()[i].instruction->outputs)
      for (const auto& [guards, piece] : session_.containment().pieces(session_.plan_run().term(out)))
        pieces += !folded_term(piece);
    count += std::max<std::size_t>(pieces, 1);
  }
  return count;
}

}  // namespace shardproof::verifier

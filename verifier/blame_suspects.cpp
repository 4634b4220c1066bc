// The place to name: the first value that matches nothing, unless something before it looks odd.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "verifier/blame.h"

namespace shardproof::verifier {

using ir::ValueId;
using solvers::TermId;

// The earliest value that the step depends on and that has a factor unknown to the reference.
std::optional<Suspect> Blame::rescaled_before(std::size_t step) {
  const std::vector<Step>& steps = session_.plan_run().steps();
  std::vector<bool> wanted(session_.plan_program().values.size(), false);
  for (ValueId out : steps[step].instruction->outputs) wanted[static_cast<std::size_t>(out.index)] = true;
  std::map<std::string, int> odd_of_name;
  for (const Step& other : steps)
    for (ValueId out : other.instruction->outputs)
      if (folded(out) && !known_scale(session_.plan_run().term(out))) ++odd_of_name[likeness(out).first];
  std::optional<Suspect> first;
  for (std::size_t i = step + 1; i-- > 0;) {
    for (ValueId out : steps[i].instruction->outputs) {
      if (!wanted[static_cast<std::size_t>(out.index)]) continue;
      const TermId term = session_.plan_run().term(out);
      const bool odd = folded_term(term) && !known_scale(term);
      if (odd && odd_of_name[likeness(out).first] == 1) first = Suspect{i, out, Suspect::Why::scale};
      // Only through values with the odd factor, or that match nothing.
      if (i == step || odd || !folded_term(term))
        for (ValueId v : operands_of(i, wanted)) wanted[static_cast<std::size_t>(v.index)] = true;
    }
  }
  return first;
}

// Values of which proved claims are copies.
std::vector<bool> Blame::vouched() {
  std::vector<bool> result(session_.plan_program().values.size());
  std::vector<ValueId> open;
  for (const Claim& claim : session_.claims())
    if (claim.proved) open.push_back(claim.value);
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    const auto at = static_cast<std::size_t>(value.index);
    if (result[at]) continue;
    result[at] = true;
    const std::size_t step = definition(value);
    if (step == npos) continue;
    const ir::Instruction& instruction = *session_.plan_run().steps()[step].instruction;
    const ir::OpFamily family = ir::schema_of(instruction.op).family;
    if (family == ir::OpFamily::structure || family == ir::OpFamily::communication)
      open.insert(open.end(), instruction.inputs.begin(), instruction.inputs.end());
  }
  return result;
}

// Claims on values that match: the one computed first, and the copies on the way to it of which no other claim is proved.
std::optional<Suspect> Blame::misplaced() {
  const std::vector<bool> right = vouched();
  std::optional<Suspect> first;
  for (const Claim& claim : session_.claims()) {
    if (claim.proved || !folded(claim.value)) continue;
    const std::size_t step = definition(claim.value);
    if (step == npos || (first && first->step <= step)) continue;
    first = Suspect{step, claim.value, Suspect::Why::misplaced};
  }
  while (first) {
    const ir::Instruction& instruction = *session_.plan_run().steps()[first->step].instruction;
    if (instruction.inputs.size() != 1 || instruction.region != nullptr) break;
    if (right[static_cast<std::size_t>(instruction.inputs[0].index)]) break;
    const std::size_t before = definition(instruction.inputs[0]);
    const ir::OpFamily family = before == npos
                                    ? ir::OpFamily::source
                                    : ir::schema_of(session_.plan_run().steps()[before].instruction->op).family;
    if (family != ir::OpFamily::structure && family != ir::OpFamily::communication) break;
    first = Suspect{before, instruction.inputs[0], Suspect::Why::misplaced};
  }
  return first;
}

// A right value that nothing reads: where it should have been read is near.
std::optional<Suspect> Blame::unused(bool only_read_by_reference) {
  const std::vector<Step>& steps = session_.plan_run().steps();
  std::vector<int> uses(session_.plan_program().values.size());
  for (const Step& step : steps) {
    for (ValueId v : step.instruction->inputs) ++uses[static_cast<std::size_t>(v.index)];
    if (step.instruction->region == nullptr) continue;
    for (const ir::Carry& carry : step.instruction->region->carries) ++uses[static_cast<std::size_t>(carry.next.index)];
  }
  for (const Claim& claim : session_.claims()) ++uses[static_cast<std::size_t>(claim.value.index)];
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const ir::Instruction& instruction = *steps[i].instruction;
    const ir::OpFamily family = ir::schema_of(instruction.op).family;
    if (instruction.outputs.size() != 1 || family == ir::OpFamily::source) continue;
    const ValueId out = instruction.outputs[0];
    if (uses[static_cast<std::size_t>(out.index)] != 0 || !ir::is_float(session_.plan_program().value(out).type.dtype))
      continue;
    // A copy of something that is used is no loss.
    const bool copy = family == ir::OpFamily::structure || instruction.op == ir::OpCode::cast;
    if (copy && (instruction.inputs.size() != 1 || definition(instruction.inputs[0]) == npos ||
                 uses[static_cast<std::size_t>(instruction.inputs[0].index)] > 1))
      continue;
    if (only_read_by_reference && !reference_reads(session_.plan_run().term(out))) continue;
    return Suspect{i, out, Suspect::Why::unused};
  }
  return std::nullopt;
}

// Whether the reference computes something from the reference value that the term is.
bool Blame::reference_reads(TermId term) {
  const std::vector<solvers::TensorId> own = session_.folder().atoms_in(term);
  if (own.size() != 1 || !folded_term(term)) return false;
  const std::function<bool(const std::vector<ir::Instruction>&)> reads = [&](const std::vector<ir::Instruction>& body) {
    for (const ir::Instruction& i : body) {
      if (i.region != nullptr && reads(i.region->body)) return true;
      for (ValueId v : i.inputs) {
        const TermId t = session_.reference_run().term(v);
        if (t.valid() && session_.folder().atoms_in(t) == own) return true;
      }
    }
    return false;
  };
  return reads(session_.reference_program().body);
}

// In a sum most of whose summands are reference values: where the tensors in the others come from.
std::optional<Suspect> Blame::odd_summand(const Suspect& root) {
  solvers::TermPool& pool = session_.pool();
  std::set<solvers::TensorId> odd, right;
  for (const solvers::Monomial& m : pool.monomials_of(session_.plan_run().term(root.value))) {
    const TermId summand = pool.poly({m});
    const std::vector<solvers::TensorId> atoms = session_.folder().atoms_in(summand);
    const bool matches = completes(session_.plan_run().steps()[root.step], summand);
    (matches ? right : odd).insert(atoms.begin(), atoms.end());
  }
  if (right.empty()) return std::nullopt;
  for (solvers::TensorId t : right) odd.erase(t);
  std::erase_if(odd, [&](solvers::TensorId t) { return pool.tensor(t).shape.empty(); });
  if (odd.empty()) return std::nullopt;
  const auto mentions = [&](ValueId v) {
    const TermId term = session_.plan_run().term(v);
    if (!term.valid()) return false;
    const std::vector<solvers::TensorId> atoms = session_.folder().atoms_in(term);
    return std::any_of(atoms.begin(), atoms.end(), [&](solvers::TensorId t) { return odd.count(t) != 0; });
  };
  Suspect origin = root;
  for (int hops = 0; hops < 40; ++hops) {
    std::vector<bool> wanted(session_.plan_program().values.size());
    wanted[static_cast<std::size_t>(origin.value.index)] = true;
    std::optional<Suspect> before;
    for (ValueId v : operands_of(origin.step, wanted))
      if (!before && definition(v) != npos && mentions(v)) before = Suspect{definition(v), v, Suspect::Why::summand};
    if (!before) break;
    origin = *before;
  }
  return origin.why == Suspect::Why::summand ? std::optional(origin) : std::nullopt;
}

std::optional<Suspect> Blame::first_suspect() {
  std::optional<Suspect> first;
  const std::vector<bool> bad = bad_values();
  const std::vector<std::size_t> all = roots();
  if (!all.empty()) {
    const ir::Instruction& instruction = *session_.plan_run().steps()[all.front()].instruction;
    for (ValueId out : instruction.outputs)
      if (!first && bad[static_cast<std::size_t>(out.index)])
        first = Suspect{all.front(), out, Suspect::Why::unmatched};
  }
  // Only moved here: the arithmetic before it made it what it is.
  while (first && passes_parts(session_.plan_run().steps()[first->step].instruction->op)) {
    const ir::Instruction& instruction = *session_.plan_run().steps()[first->step].instruction;
    if (instruction.op == ir::OpCode::add) break;
    const auto from = std::find_if(instruction.inputs.begin(), instruction.inputs.end(), [&](ValueId v) {
      return definition(v) != npos && !folded(v) &&
             !completes(session_.plan_run().steps()[definition(v)], session_.plan_run().term(v));
    });
    if (from == instruction.inputs.end()) break;
    first = Suspect{definition(*from), *from, Suspect::Why::unmatched};
  }
  const std::optional<Suspect> copy = misplaced();
  if (copy && (!first || copy->step < first->step)) first = copy;
  const bool any =
      !first || first->why == Suspect::Why::misplaced || session_.plan_program().value(first->value).type.shape.empty();
  if (const auto dead = unused(!any)) return dead;
  if (first)
    if (const auto odd = rescaled_before(first->step)) return odd;
  if (first && first->why == Suspect::Why::unmatched && session_.plan_program().value(first->value).type.shape.empty())
    if (const auto odd = odd_summand(*first)) return odd;
  if (!first || session_.plan_run().steps()[first->step].instruction->region == nullptr) return first;
  // A result of a loop: what its body makes of the carried value.
  for (const ir::Carry& carry : session_.plan_run().steps()[first->step].instruction->region->carries)
    if (carry.result == first->value && definition(carry.next) != npos)
      return Suspect{definition(carry.next), carry.next, first->why};
  return first;
}

}  // namespace shardproof::verifier

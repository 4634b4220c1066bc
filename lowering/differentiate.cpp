// The walk: from the last instruction to the first, the cotangent of each result is the sum of what its users sent
// back; the op's rule turns it into cotangents of the operands. Only values that depend on `wrt` and that a seed
// depends on take part, so constants, masks and position tables cost nothing.
#include "lowering/differentiate.h"

#include <array>
#include <unordered_map>
#include <unordered_set>

#include "ir/check.h"
#include "lowering/emit.h"
#include "lowering/vjp.h"

namespace shardproof::lowering {
namespace {

using ir::Instruction;
using ir::OpCode;
using ir::ValueId;
using Values = std::vector<ValueId>;

// Ops without a rule. `zero`: their derivative is zero; otherwise nobody should differentiate through them.
struct NoRule {
  OpCode op;
  bool zero;
  std::string_view reason;
};

constexpr NoRule kNoRule[] = {
    {OpCode::constant, true, "has no operands"},
    {OpCode::table, true, "has no operands"},
    {OpCode::iota, true, "has no operands"},
    {OpCode::coord, true, "has no operands"},
    {OpCode::rng_uniform, true, "has no operands"},
    {OpCode::compare, true, "boolean result"},
    {OpCode::logical_and, true, "boolean result"},
    {OpCode::logical_or, true, "boolean result"},
    {OpCode::logical_not, true, "boolean result"},
    {OpCode::stop_gradient, true, "its derivative is zero by definition"},
    {OpCode::release, true, "has no result"},
    {OpCode::all_reduce, false, "its transpose depends on whether the ranks' cotangents are copies or summands"},
    {OpCode::broadcast_from, false, "its transpose depends on whether the ranks' cotangents are copies or summands"},
    {OpCode::send, false, "crosses stages; a planner sends the cotangent back itself"},
    {OpCode::recv, false, "crosses stages; a planner sends the cotangent back itself"},
    {OpCode::loop, false, "unroll it, or differentiate its body and carry the cotangents in a loop of their own"},
    {OpCode::adamw, false, "the optimizer's update is not part of the loss"},
};

constexpr std::size_t kOpCount = static_cast<std::size_t>(OpCode::count_);

std::array<VjpRule, kOpCount> make_rules() {
  std::array<VjpRule, kOpCount> rules{};
  for (const std::span<const VjpEntry> family : {structure_vjps(), elementwise_vjps(), contraction_vjps(),
                                                 communication_vjps(), norm_vjps(), attention_vjps()}) {
    for (const VjpEntry& entry : family) {
      VjpRule& slot = rules[static_cast<std::size_t>(entry.op)];
      SHARDPROOF_CHECK(slot == nullptr);
      slot = entry.rule;
    }
  }
  return rules;
}

VjpRule find_rule(OpCode op) {
  static const std::array<VjpRule, kOpCount> rules = make_rules();
  return rules[static_cast<std::size_t>(op)];
}

const NoRule* find_no_rule(OpCode op) {
  for (const NoRule& entry : kNoRule) {
    if (entry.op == op) return &entry;
  }
  return nullptr;
}

bool passes_gradient(OpCode op) {
  const NoRule* none = find_no_rule(op);
  return none == nullptr || !none->zero;
}

// Which values of `forward` carry a cotangent, and how many instructions send one to each.
class Reach {
 public:
  Reach(const ir::Program& program, const std::vector<Instruction>& forward, const std::map<ValueId, ValueId>& seeds,
        const Values& wrt) {
    for (const ValueId id : wrt) depends_.insert(id.index);
    for (const Instruction& instruction : forward) {
      if (!passes_gradient(instruction.op)) continue;
      bool any = false;
      for (const ValueId input : instruction.inputs) any = any || depends_.contains(input.index);
      if (!any) continue;
      for (const ValueId output : instruction.outputs) {
        if (ir::is_float(program.value(output).type.dtype)) depends_.insert(output.index);
      }
    }
    for (const auto& [value, seed] : seeds) {
      if (seed.valid() && depends_.contains(value.index)) ++sources_[value.index];
    }
    for (std::size_t i = forward.size(); i-- > 0;) {
      if (!takes_part(forward[i])) continue;
      for (const ValueId input : forward[i].inputs) {
        if (depends_.contains(input.index)) ++sources_[input.index];
      }
    }
  }

  bool depends(ValueId value) const { return depends_.contains(value.index); }
  std::size_t sources(ValueId value) const {
    const auto found = sources_.find(value.index);
    return found == sources_.end() ? 0 : found->second;
  }
  bool takes_part(const Instruction& instruction) const {
    if (!passes_gradient(instruction.op)) return false;
    for (const ValueId output : instruction.outputs) {
      if (depends(output) && sources(output) > 0) return true;
    }
    return false;
  }

 private:
  std::unordered_set<std::int32_t> depends_;
  std::unordered_map<std::int32_t, std::size_t> sources_;
};

std::string gradient_name(const ir::Program& program, ValueId value) {
  return program.value(value).name + ".grad";
}

}  // namespace

std::string_view why_no_derivative(OpCode op) {
  const NoRule* none = find_no_rule(op);
  return none == nullptr ? std::string_view() : none->reason;
}

Values append_vjp(ir::Builder& builder, const Instruction& instruction, const Values& cotangents,
                  const std::vector<bool>& wanted, const std::vector<std::string>& names) {
  const std::size_t count = instruction.inputs.size();
  SHARDPROOF_CHECK(wanted.size() == count && cotangents.size() == instruction.outputs.size());
  std::vector<bool> asked(count);
  std::vector<std::string> all_names(count);
  bool any = false;
  for (std::size_t i = 0; i < count; ++i) {
    asked[i] = wanted[i] && ir::is_float(builder.type(instruction.inputs[i]).dtype);
    any = any || asked[i];
    if (asked[i]) all_names[i] = names.empty() ? gradient_name(builder.program(), instruction.inputs[i]) : names[i];
  }
  bool seeded = false;
  for (const ValueId cotangent : cotangents) seeded = seeded || cotangent.valid();
  if (!any || !seeded || !passes_gradient(instruction.op)) return Values(count);
  const VjpRule rule = find_rule(instruction.op);
  if (rule == nullptr) {
    throw ir::BuildError(std::string(ir::schema_of(instruction.op).name) +
                         " has no derivative rule: " + std::string(why_no_derivative(instruction.op)));
  }
  Values out = rule(VjpCall{builder, instruction, cotangents, asked, all_names});
  SHARDPROOF_CHECK(out.size() == count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!asked[i]) out[i] = ValueId{};
    if (!out[i].valid()) continue;
    // Mixed operands were promoted; the cotangent has the type of its value.
    const ir::DType dtype = builder.type(instruction.inputs[i]).dtype;
    if (builder.type(out[i]).dtype != dtype) {
      out[i] = builder.op(OpCode::cast, {out[i]}, {{"dtype", std::string(ir::dtype_name(dtype))}}, all_names[i]);
    }
  }
  return out;
}

Values append_backward(ir::Builder& builder, const std::vector<Instruction>& forward,
                       const std::map<ValueId, ValueId>& seeds, const Values& wrt) {
  const Reach reach(builder.program(), forward, seeds, wrt);
  std::unordered_map<std::int32_t, Values> sent;
  for (const auto& [value, seed] : seeds) {
    if (seed.valid() && reach.depends(value)) sent[value.index].push_back(seed);
  }
  const auto total = [&](ValueId value) -> ValueId {
    const auto found = sent.find(value.index);
    if (found == sent.end()) return {};
    Values& terms = found->second;
    if (terms.size() > 1) terms = {emit_add(builder, terms, gradient_name(builder.program(), value))};
    return terms.front();
  };
  for (std::size_t i = forward.size(); i-- > 0;) {
    const Instruction& instruction = forward[i];
    if (!reach.takes_part(instruction)) continue;
    builder.set_source(instruction.source);
    Values cotangents;
    for (const ValueId output : instruction.outputs) cotangents.push_back(total(output));
    std::vector<bool> wanted;
    std::vector<std::string> names;
    for (const ValueId input : instruction.inputs) {
      wanted.push_back(reach.depends(input));
      names.push_back(gradient_name(builder.program(), input) + (reach.sources(input) > 1 ? ".part" : ""));
    }
    const Values back = append_vjp(builder, instruction, cotangents, wanted, names);
    for (std::size_t k = 0; k < back.size(); ++k) {
      if (back[k].valid()) sent[instruction.inputs[k].index].push_back(back[k]);
    }
  }
  Values out;
  for (const ValueId value : wrt) out.push_back(total(value));
  return out;
}

Values append_backward(ir::Builder& builder, InstructionRange range, const std::map<ValueId, ValueId>& seeds,
                       const Values& wrt) {
  // A copy: the builder appends to the body while it is read.
  const std::vector<Instruction>& body = builder.program().body;
  SHARDPROOF_CHECK(range.first <= range.last && range.last <= body.size());
  const std::vector<Instruction> forward(body.begin() + static_cast<std::ptrdiff_t>(range.first),
                                         body.begin() + static_cast<std::ptrdiff_t>(range.last));
  return append_backward(builder, forward, seeds, wrt);
}

}  // namespace shardproof::lowering

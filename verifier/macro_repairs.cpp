#include "verifier/macro_repairs.h"

#include <algorithm>
#include <type_traits>
#include <variant>

namespace shardproof::verifier {
namespace {

using ir::Instruction;
using ir::OpCode;
using ir::ValueId;

constexpr std::size_t kMaxOperands = 6;  // tried in place of one

bool same(const ir::AttrValue& a, const ir::AttrValue& b) {
  return a.index() == b.index() && std::visit(
                                       [&](const auto& x) {
                                         using T = std::decay_t<decltype(x)>;
                                         if constexpr (std::is_same_v<T, ir::CoordExpr> || std::is_same_v<T, std::vector<ir::CoordExpr>>)
                                           return false;  // no macro has them
                                         else
                                           return x == std::get<T>(b);
                                       },
                                       a);
}

bool same(const ir::Attributes& a, const ir::Attributes& b) {
  return std::equal(a.entries().begin(), a.entries().end(), b.entries().begin(), b.entries().end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && same(x.second, y.second); });
}

const Instruction* defining(const std::vector<Instruction>& body, ValueId value) {
  for (const Instruction& i : body) {
    if (std::find(i.outputs.begin(), i.outputs.end(), value) != i.outputs.end()) return &i;
    if (i.region == nullptr) continue;
    if (const Instruction* inner = defining(i.region->body, value)) return inner;
  }
  return nullptr;
}

void same_op(const std::vector<Instruction>& body, OpCode op, std::vector<const Instruction*>& found) {
  for (const Instruction& i : body) {
    if (i.op == op) found.push_back(&i);
    if (i.region != nullptr) same_op(i.region->body, op, found);
  }
}

// Values of the same type that may be read where `body` defines `before`, nearest first.
bool visible_values(const ir::Program& program, const std::vector<Instruction>& body, ValueId before, const ir::TensorType& type,
                    std::vector<ValueId>& found) {
  const std::size_t outside = found.size();
  for (const Instruction& i : body) {
    if (std::find(i.outputs.begin(), i.outputs.end(), before) != i.outputs.end()) return true;
    if (i.region != nullptr && visible_values(program, i.region->body, before, type, found)) return true;
    for (const ValueId out : i.outputs)
      if (program.value(out).type == type) found.push_back(out);
  }
  found.resize(outside);
  return false;
}

}  // namespace

std::vector<Repair> macro_changes(Session& session, const Suspect& suspect) {
  std::vector<Repair> repairs;
  const ir::Program& program = session.document().plan.stages.front().program;
  // Parts are named "<result>/<part>".
  const std::string& name = session.plan_program().value(suspect.value).name;
  const ValueId value = static_cast<std::size_t>(suspect.value.index) < program.values.size() ? suspect.value : program.find(name.substr(0, name.find('/')));
  const Instruction* macro = value.valid() ? defining(program.body, value) : nullptr;
  if (macro == nullptr || ir::schema_of(macro->op).family != ir::OpFamily::macro) return repairs;
  const std::string op(ir::schema_of(macro->op).name);
  const auto propose = [&](std::string finding, std::string fix, std::string expected, std::string found, Instruction changed) {
    Repair r;
    r.code = "SP0207";
    r.name = "wrong-value";
    r.finding = std::move(finding);
    r.fix = std::move(fix);
    r.expected = std::move(expected);
    r.found = std::move(found);
    r.step = suspect.step;
    r.value = value;
    r.replacement = std::move(changed);
    repairs.push_back(std::move(r));
  };
  // As the reference does it.
  std::vector<const Instruction*> references;
  same_op(session.document().reference.program.body, macro->op, references);
  std::vector<ir::Attributes> tried{macro->attributes};
  for (const Instruction* reference : references) {
    if (std::any_of(tried.begin(), tried.end(), [&](const ir::Attributes& a) { return same(a, reference->attributes); })) continue;
    tried.push_back(reference->attributes);
    Instruction changed = *macro;
    changed.attributes = reference->attributes;
    std::string names;
    for (const auto& [attribute, setting] : reference->attributes.entries()) {
      const ir::AttrValue* own = macro->attributes.find(attribute);
      if (own == nullptr || !same(*own, setting)) names += (names.empty() ? "`" : ", `") + attribute + "`";
    }
    propose("is computed by `" + op + "` with another " + names + " than the reference has", "set " + names + " as in the reference", names + " of the reference",
            "another " + names, std::move(changed));
  }
  for (std::size_t a = 0; a < macro->inputs.size(); ++a)
    for (std::size_t b = a + 1; b < macro->inputs.size(); ++b) {
      if (program.value(macro->inputs[a]).type != program.value(macro->inputs[b]).type || macro->inputs[a] == macro->inputs[b]) continue;
      Instruction changed = *macro;
      std::swap(changed.inputs[a], changed.inputs[b]);
      const std::string pair = "`" + program.value(macro->inputs[a]).name + "` and `" + program.value(macro->inputs[b]).name + "`";
      propose("has its operands in the wrong order", "exchange " + pair + " in the `" + op + "`", "the other order of " + pair, "this order", std::move(changed));
    }
  for (std::size_t k = 0; k < macro->inputs.size(); ++k) {
    std::vector<ValueId> others;
    for (const ir::PlanState& state : session.document().plan.stages.front().state)
      if (program.value(state.value).type == program.value(macro->inputs[k]).type) others.push_back(state.value);
    visible_values(program, program.body, value, program.value(macro->inputs[k]).type, others);
    std::reverse(others.begin(), others.end());
    std::size_t count = 0;
    for (const ValueId other : others) {
      if (other == macro->inputs[k] || ++count > kMaxOperands) continue;
      Instruction changed = *macro;
      changed.inputs[k] = other;
      const std::string &now = program.value(macro->inputs[k]).name, &then = program.value(other).name;
      propose("reads `" + now + "` instead of `" + then + "`", "use `" + then + "` in place of `" + now + "` in the `" + op + "`", "`" + then + "`", "`" + now + "`", std::move(changed));
    }
  }
  for (const OpCode other : {OpCode::gelu_tanh, OpCode::gelu_erf, OpCode::silu}) {
    if (other == macro->op || macro->inputs.size() != 1 || macro->op == OpCode::softmax || macro->op == OpCode::log_softmax) continue;
    Instruction changed = *macro;
    changed.op = other;
    const std::string wanted(ir::schema_of(other).name);
    propose("is computed by `" + op + "` instead of `" + wanted + "`", "use `" + wanted + "`", "`" + wanted + "`", "`" + op + "`", std::move(changed));
  }
  return repairs;
}

}  // namespace shardproof::verifier

#include "verifier/patch.h"

#include <algorithm>

#include "ir/print.h"

namespace shardproof::verifier {

using ir::Instruction;
using ir::ValueId;

Patch::Place Patch::definition(std::vector<Instruction>& body, ValueId value) const {
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (std::find(body[i].outputs.begin(), body[i].outputs.end(), value) != body[i].outputs.end()) return {&body, i};
    if (body[i].region == nullptr) continue;
    // Regions are shared between copies of a document.
    body[i].region = std::make_shared<ir::Region>(*body[i].region);
    if (const Place inner = definition(body[i].region->body, value); inner.body != nullptr) return inner;
  }
  return {};
}

ValueId Patch::new_value(ValueId like, const std::string& suffix) {
  ir::Value value = program().value(like);
  value.name += suffix;
  while (program().find(value.name).valid()) value.name += "_";
  program().values.push_back(std::move(value));
  return ValueId{static_cast<std::int32_t>(program().values.size() - 1)};
}

bool Patch::apply_to_claim(const Claim& claim, ValueId value) {
  ir::StageProgram& stage = document_.plan.stages.front();
  if (claim.kind == Claim::Kind::state) {
    for (ir::PlanState& state : stage.state)
      if (state.name == claim.name) state.next = value;
  } else {
    for (ir::PlanOutput& output : stage.outputs)
      if (output.name == claim.name) output.value = value;
  }
  return true;
}

bool Patch::apply(const Session& session, const Repair& repair) {
  if (repair.claim) return apply_to_claim(session.claims()[*repair.claim], repair.claimed);
  const ir::OpCode repaired = session.plan_run().steps()[repair.step].instruction->op;
  const bool of_macro = repair.replacement && ir::schema_of(repair.replacement->op).family == ir::OpFamily::macro;
  if (static_cast<std::size_t>(repair.value.index) >= program().values.size()) return false;
  if (repaired == ir::OpCode::loop && !of_macro) return repair.inserted && insert_behind_loop(repair);
  const Place place = definition(program().body, repair.value);
  if (place.body == nullptr || !(repair.replacement || repair.inserted || repair.factor)) return false;
  if (ir::schema_of((*place.body)[place.index].op).family == ir::OpFamily::macro && !of_macro) return false;
  if (repair.replacement) {
    Instruction& old = (*place.body)[place.index];
    Instruction changed = *repair.replacement;
    changed.span = old.span;
    changed.source = old.source;
    old = std::move(changed);
    changed_.insert(old.outputs.front());
    return true;
  }
  std::vector<Instruction> added;
  if (repair.inserted) {
    added.push_back(*repair.inserted);
  } else {
    const ValueId number = new_value(repair.value, ".factor");
    Instruction constant, product;
    constant.op = ir::OpCode::constant;
    constant.outputs = {number};
    constant.attributes.set("value", *repair.factor);
    product.op = ir::OpCode::mul;
    product.inputs = {repair.value, number};
    product.outputs = {repair.value};
    added = {constant, product};
  }
  // The old result becomes "<name>.before"; the new instruction defines the name that everyone reads.
  const ValueId before = new_value(repair.value, added.back().op == ir::OpCode::all_reduce ? ".partial" : ".before");
  Instruction& producer = (*place.body)[place.index];
  std::replace(producer.outputs.begin(), producer.outputs.end(), repair.value, before);
  changed_.erase(repair.value);
  changed_.insert(producer.outputs.front());
  for (Instruction& i : added) {
    std::replace(i.inputs.begin(), i.inputs.end(), repair.value, before);
    i.span = {};
    added_.insert(i.outputs.front());
  }
  place.body->insert(place.body->begin() + static_cast<std::ptrdiff_t>(place.index) + 1, added.begin(), added.end());
  return true;
}

// The collective goes before the first instruction that reads the loop's result, and all read what it makes.
bool Patch::insert_behind_loop(const Repair& repair) {
  const ir::StageProgram& stage = document_.plan.stages.front();
  for (const ir::PlanState& state : stage.state)
    if (state.next == repair.value) return false;
  for (const ir::PlanOutput& output : stage.outputs)
    if (output.value == repair.value) return false;
  std::vector<Instruction>& body = program().body;
  std::vector<std::size_t> readers;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i].op == ir::OpCode::release || std::find(body[i].inputs.begin(), body[i].inputs.end(), repair.value) == body[i].inputs.end()) continue;
    if (body[i].region != nullptr) return false;
    readers.push_back(i);
  }
  if (readers.empty()) return false;
  const ValueId whole = new_value(repair.value, ".whole");
  for (const std::size_t i : readers) {
    std::replace(body[i].inputs.begin(), body[i].inputs.end(), repair.value, whole);
    changed_.insert(body[i].outputs.front());
  }
  Instruction collective = *repair.inserted;
  collective.inputs = {repair.value};
  collective.outputs = {whole};
  collective.span = {};
  added_.insert(whole);
  body.insert(body.begin() + static_cast<std::ptrdiff_t>(readers.front()), std::move(collective));
  return true;
}

// A line break and the indentation of the line that the span starts on.
std::string Patch::line_break(ir::Span span) const {
  std::string text = "\n";
  if (document_.source != nullptr) {
    const ir::LineColumn at = document_.source->line_column(span.begin);
    text.append(at.column > 0 ? at.column - 1 : 0, ' ');
  }
  return text;
}

void Patch::collect(const std::vector<Instruction>& body, std::vector<ir::Edit>& edits) const {
  const ir::Program& program = document_.plan.stages.front().program;
  std::vector<std::string> waiting;  // added instructions without a neighbour in the file yet
  bool edited_before = false;        // the last instruction of the file
  const auto append_waiting = [&] {
    for (const std::string& text : waiting) edits.back().content += "," + line_break(edits.back().span) + text;
    waiting.clear();
  };
  for (const Instruction& i : body) {
    if (!i.outputs.empty() && added_.count(i.outputs.front()) != 0) {
      waiting.push_back(ir::instruction_json(program, i));
      continue;
    }
    const bool edited = !i.outputs.empty() && changed_.count(i.outputs.front()) != 0 && i.span.known();
    if (!waiting.empty() && edited_before) append_waiting();
    if (edited) {
      std::string text;
      for (const std::string& before : waiting) text += before + "," + line_break(i.span);
      waiting.clear();
      edits.push_back({i.span, text + ir::instruction_json(program, i)});
    }
    edited_before = edited;
    if (i.region != nullptr) collect(i.region->body, edits);
  }
  if (!waiting.empty() && edited_before) append_waiting();
}

std::vector<ir::Edit> Patch::edits() const {
  std::vector<ir::Edit> edits;
  collect(document_.plan.stages.front().program.body, edits);
  return edits;
}

}  // namespace shardproof::verifier

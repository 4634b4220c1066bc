#include "verifier/patch.h"

#include <algorithm>
#include <functional>

#include "ir/print.h"

namespace shardproof::verifier {

using ir::Instruction;
using ir::ValueId;

namespace {

struct Place {
  std::vector<Instruction>* body = nullptr;
  std::size_t index = 0;
};

Place definition(std::vector<Instruction>& body, ValueId value) {
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (std::find(body[i].outputs.begin(), body[i].outputs.end(), value) != body[i].outputs.end()) return {&body, i};
    if (body[i].region == nullptr) continue;
    body[i].region = std::make_shared<ir::Region>(*body[i].region);
    if (const Place inner = definition(body[i].region->body, value); inner.body != nullptr) return inner;
  }
  return {};
}

// An edit for each entry of a list that is printed in another way than it was. Entries are neither added nor removed.
template <typename T, typename Print>
void compare(const std::vector<T>& before, const std::vector<T>& after, const Print& print, std::vector<ir::Edit>& edits) {
  for (std::size_t i = 0; i < after.size(); ++i)
    if (std::string text = print(after[i]); text != print(before[i])) edits.push_back({after[i].span, std::move(text)});
}

}  // namespace

Instruction* own_definition(std::vector<Instruction>& body, ValueId value) {
  const Place place = definition(body, value);
  if (place.body == nullptr) return nullptr;
  Instruction& found = (*place.body)[place.index];
  if (found.region != nullptr) found.region = std::make_shared<ir::Region>(*found.region);
  return &found;
}

ValueId Patch::new_value(ValueId like, const std::string& suffix) {
  ir::Value value = program().value(like);
  value.name += suffix;
  if (!value.written.empty()) value.written += suffix;
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
  if (repair.change) {
    repair.change(document_);
    return true;
  }
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
  for (Instruction& i : added) {
    std::replace(i.inputs.begin(), i.inputs.end(), repair.value, before);
    i.span = {};
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
  }
  Instruction collective = *repair.inserted;
  collective.inputs = {repair.value};
  collective.outputs = {whole};
  collective.span = {};
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

void Patch::collect(const std::vector<Instruction>& body, const Originals& originals, std::vector<ir::Edit>& edits) const {
  const ir::Program& program = document_.plan.stages.front().program;
  std::vector<std::string> waiting;  // added instructions whose place in the file is not known yet
  const Instruction* before = nullptr;  // the last instruction of the file
  bool edited_before = false;
  const auto append_waiting = [&] {
    if (!waiting.empty() && !edited_before) edits.push_back({{before->span.end, before->span.end}, ""});
    for (const std::string& text : waiting) edits.back().content += "," + line_break(before->span) + text;
    waiting.clear();
  };
  for (const Instruction& i : body) {
    if (!i.span.known()) {
      waiting.push_back(ir::instruction_json(program, i));
      continue;
    }
    if (edited_before) append_waiting();
    const auto original = i.outputs.empty() ? originals.end() : originals.find(i.outputs.front());
    std::string text;
    if (i.region == nullptr && !i.outputs.empty()) text = ir::instruction_json(program, i);
    const bool edited = !text.empty() && (original == originals.end() || text != ir::instruction_json(original_.plan.stages.front().program, *original->second));
    if (edited) {
      std::string first;
      for (const std::string& added : waiting) first += added + "," + line_break(i.span);
      waiting.clear();
      edits.push_back({i.span, first + text});
    } else if (before != nullptr) {
      append_waiting();
    }
    before = &i;
    edited_before = edited;
    if (i.region == nullptr) continue;
    if (original != originals.end()) collect_loop(*i.region, *original->second->region, edits);
    collect(i.region->body, originals, edits);
  }
  if (before != nullptr) append_waiting();
}

// The head of a loop: its body is looked at by itself.
void Patch::collect_loop(const ir::Region& region, const ir::Region& original, std::vector<ir::Edit>& edits) const {
  if (region.trip != original.trip) edits.push_back({region.trip_span, std::to_string(region.trip)});
  const ir::Program& program = document_.plan.stages.front().program;
  compare(original.carries, region.carries, [&](const ir::Carry& carry) { return ir::carry_json(program, carry); }, edits);
}

void Patch::collect_declarations(std::vector<ir::Edit>& edits) const {
  for (std::size_t b = 0; b < document_.plan.buffers.size(); ++b)
    compare(original_.plan.buffers[b].members, document_.plan.buffers[b].members, [&](const ir::BufferMember& member) { return ir::member_json(document_, member); }, edits);
  const ir::StageProgram &before = original_.plan.stages.front(), &after = document_.plan.stages.front();
  compare(before.inputs, after.inputs, [&](const ir::PlanInput& input) { return ir::input_json(document_, input); }, edits);
  compare(before.state, after.state, [&](const ir::PlanState& state) { return ir::state_json(document_, state); }, edits);
  compare(before.outputs, after.outputs, [&](const ir::PlanOutput& output) { return ir::output_json(document_, output); }, edits);
}

std::vector<ir::Edit> Patch::edits() const {
  std::vector<ir::Edit> edits;
  if (document_.source == nullptr) return edits;
  Originals originals;
  const std::function<void(const std::vector<Instruction>&)> index = [&](const std::vector<Instruction>& body) {
    for (const Instruction& i : body) {
      if (!i.outputs.empty()) originals.emplace(i.outputs.front(), &i);
      if (i.region != nullptr) index(i.region->body);
    }
  };
  index(original_.plan.stages.front().program.body);
  collect_declarations(edits);
  collect(document_.plan.stages.front().program.body, originals, edits);
  return edits;
}

}  // namespace shardproof::verifier

#include "mutations/mutate.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <variant>

#include "ir/infer_type.h"

namespace shardproof::mutations {
namespace {

void copy_regions(std::vector<ir::Instruction>& body) {
  for (ir::Instruction& i : body) {
    if (i.region == nullptr) continue;
    i.region = std::make_shared<ir::Region>(*i.region);
    copy_regions(i.region->body);
  }
}

void list(const ir::Program& program, const std::vector<ir::Instruction>& body, bool in_loop,
          std::vector<Subject::Entry>& into) {
  for (const ir::Instruction& i : body) {
    if (!i.outputs.empty()) into.push_back({&i, program.value(i.outputs[0]).name, in_loop});
    if (i.region != nullptr) list(program, i.region->body, true, into);
  }
}

std::int64_t size_on(const ir::Plan& plan, const std::string& axis) {
  const ir::Mesh& mesh = plan.meshes.front();
  const auto i = mesh.find_axis(axis);
  return i ? mesh.axes[*i].size : 0;
}

}  // namespace

Subject::Subject(std::string plan_name, ir::Document base) : name(std::move(plan_name)), document(std::move(base)) {
  const ir::Program& program = document.plan.stages.front().program;
  list(program, program.body, false, entries);
}

std::int64_t Subject::axis_size(const std::string& axis) const {
  return size_on(document.plan, axis);
}

Editor::Editor(const ir::Document& base) : document_(base) {
  copy_regions(program().body);
}

std::int64_t Editor::axis_size(const std::string& axis) const {
  const std::int64_t size = size_on(document_.plan, axis);
  if (size == 0) throw NotApplicable();
  return size;
}

bool Editor::has_axis(const std::string& axis) const {
  return size_on(document_.plan, axis) != 0;
}

Editor::Place Editor::find(std::string_view name) {
  const ir::ValueId id = value(name);
  std::vector<std::vector<ir::Instruction>*> bodies = {&program().body};
  while (!bodies.empty()) {
    std::vector<ir::Instruction>* body = bodies.back();
    bodies.pop_back();
    for (std::size_t i = 0; i < body->size(); ++i) {
      ir::Instruction& instruction = (*body)[i];
      if (std::find(instruction.outputs.begin(), instruction.outputs.end(), id) != instruction.outputs.end())
        return {body, i};
      if (instruction.region != nullptr) bodies.push_back(&instruction.region->body);
    }
  }
  throw NotApplicable();
}

ir::Instruction& Editor::at(std::string_view name) {
  const Place place = find(name);
  return (*place.body)[place.index];
}

ir::ValueId Editor::value(std::string_view name) const {
  const ir::ValueId id = document_.plan.stages.front().program.find(name);
  if (!id.valid()) throw NotApplicable();
  return id;
}

std::vector<ir::TensorType> Editor::infer(const ir::Instruction& instruction,
                                          const std::vector<ir::TensorType>& declared) const {
  std::vector<ir::TensorType> operands;
  for (const ir::ValueId id : instruction.inputs) operands.push_back(type(id));
  const auto types = ir::infer_types(instruction, operands, declared,
                                     [this](const std::string& axis) { return size_on(document_.plan, axis); });
  const auto* good = std::get_if<std::vector<ir::TensorType>>(&types);
  if (good == nullptr) throw NotApplicable();
  return *good;
}

ir::ValueId Editor::insert(ir::Instruction instruction, const std::vector<ir::TensorType>& declared) {
  const std::vector<ir::TensorType> types = infer(instruction, declared);
  const ir::ValueId id{static_cast<std::int32_t>(program().values.size())};
  program().values.push_back({"fault." + std::to_string(fresh_++), types.at(0), {}});
  touch(program().values.back().name);
  instruction.outputs = {id};
  cursor_.body->insert(cursor_.body->begin() + static_cast<std::ptrdiff_t>(cursor_.index++), std::move(instruction));
  return id;
}

void Editor::before(std::string_view name) {
  cursor_ = find(name);
}

namespace {
ir::Instruction make(ir::OpCode op, std::vector<ir::ValueId> inputs, AttrPairs attributes) {
  ir::Instruction instruction;
  instruction.op = op;
  instruction.inputs = std::move(inputs);
  for (auto& [key, value] : attributes) instruction.attributes.set(key, std::move(value));
  return instruction;
}
}  // namespace

ir::ValueId Editor::emit(ir::OpCode op, std::vector<ir::ValueId> inputs, AttrPairs attributes) {
  return insert(make(op, std::move(inputs), std::move(attributes)), {});
}

ir::ValueId Editor::typed(ir::OpCode op, ir::TensorType type, AttrPairs attributes) {
  return insert(make(op, {}, std::move(attributes)), {std::move(type)});
}

ir::ValueId Editor::constant(ir::Rational value, const ir::TensorType& type) {
  return typed(ir::OpCode::constant, type, {{"value", value}});
}

ir::ValueId Editor::coordinate(ir::CoordExpr value) {
  return emit(ir::OpCode::coord, {}, {{"value", std::move(value)}});
}

void Editor::redefine(std::string_view name, ir::OpCode op, std::vector<ir::ValueId> inputs, AttrPairs attributes) {
  ir::Instruction replacement = make(op, std::move(inputs), std::move(attributes));
  ir::Instruction& instruction = at(name);
  if (instruction.outputs.size() != 1) throw NotApplicable();
  const bool dropped = op == ir::OpCode::reshape ||
                       (op != instruction.op && ir::schema_of(instruction.op).family == ir::OpFamily::communication);
  for (const ir::ValueId id : instruction.inputs)
    if (dropped || std::count(replacement.inputs.begin(), replacement.inputs.end(), id) < std::count(instruction.inputs.begin(), instruction.inputs.end(), id))
      lost_.push_back(this->name(id));
  replacement.outputs = instruction.outputs;
  if (infer(replacement, {type(replacement.outputs[0])}).at(0) != type(replacement.outputs[0])) throw NotApplicable();
  instruction = std::move(replacement);
  touch(name);
}

void Editor::become(std::string_view name, ir::ValueId same) {
  redefine(name, ir::OpCode::reshape, {same}, {{"shape", type(same).shape}});
}

void Editor::become_operand(std::string_view name, std::size_t operand) {
  const std::vector<ir::ValueId> inputs = at(name).inputs;
  if (operand >= inputs.size()) throw NotApplicable();
  become(name, inputs[operand]);
}

ir::ValueId Editor::displace(std::string_view name) {
  const Place place = find(name);
  const ir::ValueId old = value(name);
  const ir::ValueId id{static_cast<std::int32_t>(program().values.size())};
  program().values.push_back({"fault." + std::to_string(fresh_++), type(old), {}});
  touch(program().values.back().name);
  for (ir::ValueId& output : (*place.body)[place.index].outputs)
    if (output == old) output = id;
  cursor_ = {place.body, place.index + 1};
  return id;
}

void Editor::define(std::string_view name, ir::OpCode op, std::vector<ir::ValueId> inputs, AttrPairs attributes) {
  ir::Instruction instruction = make(op, std::move(inputs), std::move(attributes));
  const ir::ValueId id = value(name);
  if (infer(instruction, {type(id)}).at(0) != type(id)) throw NotApplicable();
  instruction.outputs = {id};
  cursor_.body->insert(cursor_.body->begin() + static_cast<std::ptrdiff_t>(cursor_.index++), std::move(instruction));
  touch(name);
}

void Editor::scale(std::string_view name, ir::Rational factor) {
  const ir::ValueId raw = displace(name);
  if (!ir::is_float(type(raw).dtype)) throw NotApplicable();
  const ir::ValueId by = constant(factor, type(raw));
  define(name, ir::OpCode::mul, {raw, by});
}

void Editor::set(std::string_view name, const std::string& attribute, ir::AttrValue value) {
  ir::Instruction& instruction = at(name);
  instruction.attributes.set(attribute, std::move(value));
  std::vector<ir::TensorType> declared;
  for (const ir::ValueId id : instruction.outputs) declared.push_back(type(id));
  if (infer(instruction, declared) != declared) throw NotApplicable();
  touch(name);
}

void Editor::use(std::string_view name, std::size_t operand, ir::ValueId instead) {
  ir::Instruction& instruction = at(name);
  if (operand >= instruction.inputs.size() || instruction.inputs[operand] == instead) throw NotApplicable();
  lost_.push_back(this->name(instruction.inputs[operand]));
  instruction.inputs[operand] = instead;
  std::vector<ir::TensorType> declared;
  for (const ir::ValueId id : instruction.outputs) declared.push_back(type(id));
  if (infer(instruction, declared) != declared) throw NotApplicable();
  touch(name);
}

bool matches(std::string_view glob, std::string_view text) {
  if (glob.empty()) return text.empty();
  if (glob.front() == '*') {
    for (std::size_t skip = 0; skip <= text.size(); ++skip)
      if (matches(glob.substr(1), text.substr(skip))) return true;
    return false;
  }
  return !text.empty() && glob.front() == text.front() && matches(glob.substr(1), text.substr(1));
}

Kind at_instructions(std::string kind, Accept accept, Edit edit) {
  return {std::move(kind), [accept = std::move(accept), edit = std::move(edit)](const Subject& subject) {
            std::vector<Site> sites;
            for (const Subject::Entry& entry : subject.entries)
              if (accept(subject, entry)) sites.push_back({entry.name, edit});
            return sites;
          }};
}

Kind at_names(std::string kind, std::string glob, Edit edit) {
  return at_instructions(
      std::move(kind),
      [glob = std::move(glob)](const Subject&, const Subject::Entry& entry) { return matches(glob, entry.name); },
      std::move(edit));
}

Kinds all_kinds() {
  Kinds all;
  for (Kinds (*family)() :
       {collective_kinds, placement_kinds, layer_kinds, loss_kinds, accumulation_kinds, optimizer_kinds, context_kinds})
    for (Kind& kind : family()) all.push_back(std::move(kind));
  return all;
}

}  // namespace shardproof::mutations

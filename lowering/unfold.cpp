// Macro instructions are replaced by a copy of their definition. A definition is built once per (op, attributes,
// operand types): a model repeats the same few macros in every layer.
#include "lowering/unfold.h"

#include <map>
#include <string>
#include <unordered_set>

#include "ir/builder.h"
#include "ir/check.h"
#include "lowering/unfold_definitions.h"

namespace shardproof::lowering {
namespace {

using ir::Instruction;
using ir::Program;
using ir::ValueId;

bool is_macro(ir::OpCode op) {
  return ir::schema_of(op).family == ir::OpFamily::macro;
}

std::string attribute_text(const ir::AttrValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* number = std::get_if<ir::Rational>(&value)) return ir::to_string(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  throw InternalError("a macro attribute is an integer, a rational or a flag");
}

class Unfolder {
 public:
  explicit Unfolder(Program& program) : program_(program) {
    names_.reserve(2 * program.values.size());
    for (const ir::Value& value : program.values) names_.insert(value.name);
  }

  void unfold_body(std::vector<Instruction>& body) {
    std::vector<Instruction> out;
    out.reserve(4 * body.size());
    for (Instruction& instruction : body) {
      if (is_macro(instruction.op)) {
        splice(instruction, out);
        continue;
      }
      if (instruction.region) {
        // Regions are shared between copies of a program: change a copy of ours.
        auto region = std::make_shared<ir::Region>(*instruction.region);
        unfold_body(region->body);
        instruction.region = std::move(region);
      }
      out.push_back(std::move(instruction));
    }
    body = std::move(out);
  }

 private:
  const MacroDefinition& definition_of(const Instruction& macro) {
    std::vector<ir::TensorType> operands;
    std::string key(ir::schema_of(macro.op).name);
    for (const auto& [name, value] : macro.attributes.entries()) key += " " + name + "=" + attribute_text(value);
    for (const ValueId input : macro.inputs) {
      operands.push_back(program_.value(input).type);
      key += " " + ir::to_string(operands.back());
    }
    const auto found = definitions_.find(key);
    if (found != definitions_.end()) return found->second;
    return definitions_.emplace(std::move(key), define_macro(macro, operands)).first->second;
  }

  void splice(const Instruction& macro, std::vector<Instruction>& out) {
    const MacroDefinition& definition = definition_of(macro);
    std::vector<ValueId> here(definition.program.values.size());
    for (std::size_t i = 0; i < macro.inputs.size(); ++i) here[index(definition.inputs[i])] = macro.inputs[i];
    for (std::size_t i = 0; i < macro.outputs.size(); ++i) {
      ValueId& slot = here[index(definition.results[i])];
      SHARDPROOF_CHECK(!slot.valid());  // each result is computed by an instruction of its own
      slot = macro.outputs[i];
      SHARDPROOF_CHECK(definition.program.value(definition.results[i]).type == program_.value(slot).type);
    }
    const std::string prefix = program_.value(macro.outputs.front()).name + "/";
    for (const Instruction& part : definition.program.body) {
      Instruction copy;
      copy.op = part.op;
      copy.attributes = part.attributes;
      copy.source = macro.source;
      copy.recompute = macro.recompute;
      copy.action = macro.action;
      copy.span = macro.span;
      for (const ValueId input : part.inputs) copy.inputs.push_back(here[index(input)]);
      for (const ValueId output : part.outputs) {
        ValueId& slot = here[index(output)];
        if (!slot.valid())
          slot = add_value(prefix + definition.program.value(output).name, definition, output, macro.span);
        copy.outputs.push_back(slot);
      }
      out.push_back(std::move(copy));
    }
  }

  ValueId add_value(std::string name, const MacroDefinition& definition, ValueId original, ir::Span span) {
    while (!names_.insert(name).second) name += "'";
    program_.values.push_back({std::move(name), definition.program.value(original).type, span});
    return ValueId{static_cast<std::int32_t>(program_.values.size() - 1)};
  }

  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id.index); }

  Program& program_;
  std::unordered_set<std::string> names_;
  std::map<std::string, MacroDefinition> definitions_;
};

}  // namespace

MacroDefinition define_macro(const Instruction& instruction, const std::vector<ir::TensorType>& operands) {
  MacroDefinition definition;
  ir::Builder builder(definition.program);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    definition.inputs.push_back(builder.input("operand" + std::to_string(i), operands[i]));
  }
  definition.results = append_definition(builder, instruction, definition.inputs);
  return definition;
}

Program unfold(const Program& program, std::vector<ValueId>* mapping) {
  Program out = program;
  Unfolder(out).unfold_body(out.body);
  if (mapping != nullptr) {
    mapping->clear();
    for (std::size_t i = 0; i < program.values.size(); ++i) mapping->push_back(ValueId{static_cast<std::int32_t>(i)});
  }
  return out;
}

}  // namespace shardproof::lowering

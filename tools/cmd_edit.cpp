// shardproof edit: takes one instruction out of a plan, as a mistake would. What read its results reads its operands
// instead. For demonstrations and for asking "what is this collective good for?".
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "ir/print.h"
#include "tools/commands.h"
#include "tools/input_file.h"
#include "tools/output_file.h"

namespace shardproof::tools {

namespace {

bool produces(const ir::Program& program, const ir::Instruction& instruction, const std::string& name) {
  return std::any_of(instruction.outputs.begin(), instruction.outputs.end(),
                     [&](ir::ValueId output) { return program.value(output).name == name; });
}

// Takes the instruction that produces `name` out of `body` or a loop in it.
std::optional<ir::Instruction> take_out(const ir::Program& program, std::vector<ir::Instruction>& body,
                                        const std::string& name) {
  for (auto at = body.begin(); at != body.end(); ++at) {
    if (produces(program, *at, name)) {
      ir::Instruction found = *at;
      body.erase(at);
      return found;
    }
    if (at->region == nullptr) continue;
    if (auto found = take_out(program, at->region->body, name)) return found;
  }
  return std::nullopt;
}

void replace_uses(std::vector<ir::Instruction>& body, ir::ValueId from, ir::ValueId to) {
  for (ir::Instruction& instruction : body) {
    std::replace(instruction.inputs.begin(), instruction.inputs.end(), from, to);
    if (instruction.region == nullptr) continue;
    for (ir::Carry& carry : instruction.region->carries) {
      if (carry.init == from) carry.init = to;
      if (carry.next == from) carry.next = to;
    }
    replace_uses(instruction.region->body, from, to);
  }
}

void replace_uses(ir::StageProgram& stage, ir::ValueId from, ir::ValueId to) {
  replace_uses(stage.program.body, from, to);
  for (ir::PlanState& state : stage.state) {
    if (state.next == from) state.next = to;
  }
  for (ir::PlanOutput& output : stage.outputs) {
    if (output.value == from) output.value = to;
  }
}

// Returns the text of the instruction that was taken out.
std::string drop(ir::Plan& plan, const std::string& name) {
  for (ir::StageProgram& stage : plan.stages) {
    ir::Program& program = stage.program;
    const std::optional<ir::Instruction> dropped = take_out(program, program.body, name);
    if (!dropped) continue;
    std::string text = ir::describe(program, *dropped);
    const std::size_t operands = dropped->inputs.size(), results = dropped->outputs.size();
    if (dropped->region != nullptr) throw UsageError("cannot drop `" + text + "`: it is a loop");
    if (operands != results) {
      const auto many = [](std::size_t n, const std::string& word) { return std::to_string(n) + " " + word + (n == 1 ? "" : "s"); };
      throw UsageError("cannot drop `" + text + "`: what reads its result would read its operand instead, but it has " + many(operands, "operand") +
                       " and " + many(results, "result"));
    }
    for (std::size_t i = 0; i < dropped->outputs.size(); ++i) {
      const ir::Value& result = program.value(dropped->outputs[i]);
      const ir::Value& operand = program.value(dropped->inputs[i]);
      if (result.type != operand.type) {
        throw UsageError("cannot drop `" + text + "`: its result is " + to_string(result.type) + ", its operand " +
                         to_string(operand.type));
      }
      replace_uses(stage, dropped->outputs[i], dropped->inputs[i]);
    }
    return text;
  }
  throw UsageError("no instruction of the plan produces a value '" + name + "'; `shardproof show` lists them");
}

}  // namespace

int cmd_edit(Arguments arguments) {
  CLI::App app(
      "Take one instruction out of a plan; what read its result reads its operand instead. The result can be verified "
      "to see what the instruction was good for.",
      "shardproof edit");
  std::string path;
  std::string name;
  std::string output;
  app.add_option("plan", path, "plan file, or - for standard input")->required();
  app.add_option("--drop", name, "name of the value whose instruction is taken out")->required();
  app.add_option("-o,--output", output, "file to write, or - for standard output")->required();
  if (!parse_arguments(app, arguments)) return 0;

  LoadedDocument loaded = load_document(path);
  if (!loaded.document)
    return report_invalid(loaded.report.diagnostics, loaded.source.get(), path, "nothing was edited");
  const std::string text = drop(loaded.document->plan, name);
  write_file(output, [&](std::ostream& out) { ir::print_json(*loaded.document, out); });
  std::cerr << "removed " << text << "\n";
  return 0;
}

}  // namespace shardproof::tools

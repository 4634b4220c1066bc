// shardproof plan: a model configuration and degrees of parallelism -> a plan file, by the bundled planner.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "ir/check.h"
#include "ir/print.h"
#include "ir/validate.h"
#include "lowering/build_reference.h"
#include "lowering/model_config.h"
#include "lowering/parallel_config.h"
#include "lowering/plan_degrees.h"
#include "lowering/plan_error.h"
#include "lowering/plan_training.h"
#include "lowering/setup_fields.h"
#include "lowering/training_config.h"
#include "tools/commands.h"
#include "tools/input_file.h"
#include "tools/output_file.h"

namespace shardproof::tools {

namespace {

// Said of the set-up, where it gives what the planner could not do.
ir::Diagnostic to_diagnostic(const lowering::PlanError& error, const ir::SourceFile& setups, const std::string& name) {
  ir::Diagnostic diagnostic;
  diagnostic.labels.push_back({lowering::setup_place(setups, name, error.setting), {}, true});
  if (!name.empty()) diagnostic.notes.push_back("in " + lowering::setup_title(name));
  diagnostic.code = error.code;
  diagnostic.message = error.what();
  diagnostic.expected = error.expected;
  diagnostic.found = error.found;
  if (!error.fix.empty()) diagnostic.fix = ir::Fix{error.fix, {}, ir::Applicability::display_only};
  return diagnostic;
}

std::size_t count_instructions(const std::vector<ir::Instruction>& body) {
  std::size_t count = body.size();
  for (const ir::Instruction& instruction : body) {
    if (instruction.region != nullptr) count += count_instructions(instruction.region->body);
  }
  return count;
}

std::string summary(const ir::Document& document) {
  std::size_t plan_instructions = 0;
  for (const ir::StageProgram& stage : document.plan.stages)
    plan_instructions += count_instructions(stage.program.body);
  std::string axes;
  const ir::Mesh& mesh = document.plan.meshes.front();
  for (const ir::MeshAxis& axis : mesh.axes) {
    axes += (axes.empty() ? "" : ", ") + axis.name + "=" + std::to_string(axis.size);
  }
  return std::to_string(mesh.size()) + " ranks (" + axes + "), " +
         std::to_string(count_instructions(document.reference.program.body)) + " reference and " +
         std::to_string(plan_instructions) + " plan instructions";
}

// The planner's own mistakes must not look like the user's.
void check_planner_output(const ir::Document& document) {
  ir::DiagnosticSink sink;
  ir::validate(document, sink);
  if (!sink.ok()) throw InternalError("the planner made an invalid plan: " + sink.diagnostics().front().message);
}

struct PlanArguments {
  std::string model;
  std::string parallel;
  std::string select;
  std::string output;
  bool dropout_to_zero = false;
};

int no_plan(std::vector<ir::Diagnostic> findings, const ir::SourceFile& source, const std::string& path) {
  return report_invalid(std::move(findings), &source, path, "no plan was made");
}

// The model that a set-up names.
std::string model_beside(const std::string& setups, const lowering::ParallelConfig& parallel) {
  const std::string setup = (parallel.name.empty() ? "" : lowering::setup_title(parallel.name) + " of ") + setups;
  if (parallel.model.empty()) throw UsageError("no model: give --model, or a \"model\" in " + setup);
  const std::string path = (std::filesystem::path(setups).parent_path() / parallel.model).string();
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw UsageError("cannot open '" + path + "', the model of " + setup);
  return path;
}

int plan(const PlanArguments& arguments) {
  require_folder(arguments.output);
  ir::DiagnosticSink sink;
  const auto parallel_source = read_source(arguments.parallel);
  const auto parallel = lowering::read_parallel_config(parallel_source, sink, arguments.select);
  const auto training =
      parallel ? lowering::read_training_config(parallel_source, sink, arguments.select) : std::nullopt;
  if (!parallel || !training) return no_plan(sink.take(), *parallel_source, arguments.parallel);

  const std::string model_path =
      arguments.model.empty() ? model_beside(arguments.parallel, *parallel) : arguments.model;
  std::error_code ignored;
  for (const std::string& input : {arguments.parallel, model_path})
    if (std::filesystem::equivalent(arguments.output, input, ignored)) throw UsageError("the plan would replace '" + input + "', which it is made from; give another --output");
  const auto model_source = read_source(model_path);
  const auto model = lowering::read_model_config(model_source, sink, {arguments.dropout_to_zero});
  if (!model) return no_plan(sink.take(), *model_source, model_path);
  report_warnings(sink.take(), model_source.get(), model_path);
  if (!lowering::check_setup_model(parallel_source, sink, arguments.select, *model)) {
    return no_plan(sink.take(), *parallel_source, arguments.parallel);
  }

  ir::Document document;
  try {
    lowering::plan_degrees(*model, *parallel);  // refuses what would not fit before the reference is built
    document.reference =
        lowering::build_reference(*model, *training, parallel->global_batch_size, parallel->seq_length);
    document.plan = lowering::plan_training(*model, *training, *parallel, document.reference);
  } catch (const lowering::PlanError& error) {
    return no_plan({to_diagnostic(error, *parallel_source, parallel->name)}, *parallel_source, arguments.parallel);
  }
  check_planner_output(document);
  write_file(arguments.output, [&](std::ostream& out) { ir::print_json(document, out); });
  std::cerr << (arguments.output == "-" ? "" : "wrote " + arguments.output + ": ") << summary(document) << "\n";
  return 0;
}

std::string setup_help() {
  std::string fields;
  std::string line = "  ";
  for (const std::string_view field : lowering::setup_fields()) {
    if (line.size() + field.size() > 100) {
      fields += line + "\n";
      line = "  ";
    }
    line += (line.size() > 2 ? " " : "") + std::string(field);
  }
  return "A set-up needs world_size, global_batch_size and seq_length; any other field may be left out. Its fields "
         "are\n" +
         fields + line +
         "\nwith the names and meanings of Megatron-LM's arguments; tools/README.md has their defaults.\n"
         "Example: shardproof plan --parallel tools/configs/parallel.json --select gpt2-small@8 --dropout-to-zero -o "
         "p.json";
}

}  // namespace

int cmd_plan(Arguments arguments) {
  CLI::App app("Lower a model and its degrees of parallelism to a plan file, with the bundled planner.",
               "shardproof plan");
  PlanArguments parsed;
  app.add_option("--model", parsed.model, "Hugging Face config.json (default: the file that the set-up names)");
  app.add_option("--parallel", parsed.parallel, "set-up with Megatron-LM's argument names, JSON")->required();
  app.add_option("--select", parsed.select,
                 "name of the set-up, if the file holds several (each is an object of its own)");
  app.add_option("-o,--output", parsed.output, "plan file to write, or - for standard output")->required();
  app.add_flag("--dropout-to-zero", parsed.dropout_to_zero,
               "read non-zero dropout of the model as 0 instead of refusing it (GPT-2 has 0.1 by default)");
  app.footer(setup_help());
  if (!parse_arguments(app, arguments)) return 0;
  return plan(parsed);
}

}  // namespace shardproof::tools

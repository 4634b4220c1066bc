// shardproof show: a plan in the form for people.
#include <CLI/CLI.hpp>

#include "ir/print.h"
#include "tools/commands.h"
#include "tools/input_file.h"
#include "tools/output_file.h"

namespace shardproof::tools {

int cmd_show(Arguments arguments) {
  CLI::App app("Print a plan for people: meshes, placements, and the programs with one instruction a line.",
               "shardproof show");
  std::string path;
  std::string output = "-";
  app.add_option("plan", path, "plan file, or - for standard input")->required();
  app.add_option("-o,--output", output, "file to write (default: standard output)");
  if (!parse_arguments(app, arguments)) return 0;

  const LoadedDocument loaded = load_document(path);
  if (!loaded.document) return report_invalid(loaded.report.diagnostics, loaded.source.get(), path, "nothing is shown");
  write_file(output, [&](std::ostream& out) { ir::print_text(*loaded.document, out); });
  return 0;
}

}  // namespace shardproof::tools

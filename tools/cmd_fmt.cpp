// shardproof fmt: the canonical form of a plan file (one instruction a line).
#include <CLI/CLI.hpp>
#include <iostream>
#include <sstream>

#include "ir/print.h"
#include "tools/commands.h"
#include "tools/input_file.h"
#include "tools/output_file.h"

namespace shardproof::tools {

int cmd_fmt(Arguments arguments) {
  CLI::App app("Print a plan file in canonical form: one instruction a line, fields in a fixed order.",
               "shardproof fmt");
  std::string path;
  std::string output = "-";
  bool in_place = false;
  bool check = false;
  app.add_option("plan", path, "plan file, or - for standard input")->required();
  CLI::Option* output_option = app.add_option("-o,--output", output, "file to write (default: standard output)");
  CLI::Option* in_place_option =
      app.add_flag("-i,--in-place", in_place, "replace the file itself")->excludes(output_option);
  app.add_flag("--check", check, "write nothing; exit with 1 if the file is not canonical")
      ->excludes(output_option)
      ->excludes(in_place_option);
  if (!parse_arguments(app, arguments)) return 0;

  const LoadedDocument loaded = load_document(path);
  if (!loaded.document)
    return report_invalid(loaded.report.diagnostics, loaded.source.get(), path, "nothing was formatted");
  if (!check) {
    write_file(in_place ? path : output, [&](std::ostream& out) { ir::print_json(*loaded.document, out); });
    return 0;
  }
  std::ostringstream canonical;
  ir::print_json(*loaded.document, canonical);
  if (canonical.view() == loaded.source->text()) return 0;
  std::cerr << path << ": not in canonical form; `shardproof fmt -i` rewrites it\n";
  return 1;
}

}  // namespace shardproof::tools

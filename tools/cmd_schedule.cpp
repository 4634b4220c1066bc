// shardproof schedule: which action each pipeline rank runs when.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iomanip>
#include <iostream>

#include "ir/schedule_action.h"
#include "ir/schedule_generator.h"
#include "lowering/schedule_generators.h"
#include "tools/commands.h"
#include "tools/input_file.h"
#include "tools/output_file.h"
#include "verifier/structure/schedule_summary.h"

namespace shardproof::tools {

namespace {

using lowering::ScheduleGrid;

// The order of actions where there is no run in which they could be laid out.
ScheduleGrid without_slots(const ir::Plan& plan) {
  ScheduleGrid grid;
  const auto scheduled = verifier::structure::scheduled_plan(plan);
  for (const auto& program : scheduled->programs) grid.rows.push_back(program.cells);
  return grid;
}

void print_text(const ScheduleGrid& grid, std::ostream& out) {
  std::size_t width = 1, columns = 0;
  for (const auto& row : grid.rows) {
    columns = std::max(columns, row.size());
    for (const ir::ScheduleCell& cell : row) width = std::max(width, to_string(cell).size());
  }
  const std::string last = std::to_string(grid.rows.empty() ? 0 : grid.rows.size() - 1);
  for (std::size_t r = 0; r < grid.rows.size(); ++r) {
    out << "rank " << std::setw(static_cast<int>(last.size())) << std::left << r << " |";
    std::string line;
    for (const ir::ScheduleCell& cell : grid.rows[r]) {
      const std::string text = cell.empty() ? "." : to_string(cell);
      line += " " + text + std::string(width - text.size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  }
  if (grid.slots > 0)
    out << columns << " slots on " << grid.rows.size() << (grid.rows.size() == 1 ? " pipeline rank" : " pipeline ranks") << ", " << grid.idle << " of " << grid.slots
        << " idle, if each action takes one slot\n";
}

ScheduleGrid of_generator(const std::string& name, const ir::ScheduleSize& size) {
  const ir::ScheduleGenerator* generator = ir::find_schedule_generator(name, size.virtual_stages);
  if (generator == nullptr) {
    const auto names = ir::schedule_generator_names();
    std::string all;
    for (const std::string_view each : names) all += (all.empty() ? "" : ", ") + std::string(each);
    throw UsageError("there is no schedule '" + name + "'" + nearest_hint(name, std::vector<std::string>(names.begin(), names.end())) + "; there are " + all);
  }
  if (const auto problem = ir::size_problem(*generator, size)) throw UsageError(problem->message + ": expected " + problem->expected + ", found " + problem->found + "; " + problem->fix);
  const ir::ScheduleTable order = lowering::generate_schedule(*generator, size);
  auto grid = lowering::lay_out(order, lowering::needs_of(*generator, size, order));
  if (!grid) throw std::runtime_error("the schedule waits for itself");
  return *std::move(grid);
}

std::string list_of_generators() {
  std::string text = "schedules:\n";
  for (const ir::ScheduleGenerator& generator : ir::schedule_generators()) {
    const std::string name(generator.name);
    text += "  " + name + std::string(20 - name.size(), ' ') + std::string(generator.summary) + "\n";
  }
  return text + "1f1b and gpipe with --virtual are interleaved-1f1b and looped-bfs.";
}

}  // namespace

int cmd_schedule(Arguments arguments) {
  CLI::App app("Print the table of a pipeline schedule, of a plan or by name: a row for each pipeline rank, a column for each slot, in the notation of torch.distributed.pipelining. "
               "Ranks run as early as messages let them, and each action takes one slot.",
               "shardproof schedule");
  std::string path, generator, output = "-", format = "text";
  ir::ScheduleSize size;
  CLI::Option* plan = app.add_option("plan", path, "plan file with a schedule, or - for standard input");
  CLI::Option* by_name = app.add_option("--generator", generator, "schedule by name, without a plan")->excludes(plan);
  CLI::Option* ranks = app.add_option("--ranks", size.ranks, "pipeline ranks")->needs(by_name);
  CLI::Option* microbatches = app.add_option("--microbatches", size.microbatches, "microbatches of a step")->needs(by_name);
  app.add_option("--virtual", size.virtual_stages, "stages of the model on each rank (default: what the schedule has)")->needs(by_name);
  app.add_option("--format", format, "text, or csv as PyTorch reads it")->check(CLI::IsMember({"text", "csv"}));
  app.add_option("-o,--output", output, "file to write (default: standard output)");
  app.footer(list_of_generators());
  if (!parse_arguments(app, arguments)) return 0;

  std::optional<ScheduleGrid> grid;
  if (!generator.empty()) {
    if (ranks->count() == 0 || microbatches->count() == 0) throw UsageError("--generator needs --ranks and --microbatches; see `shardproof schedule --help`");
    grid = of_generator(generator, size);
  } else {
    if (path.empty()) throw UsageError("a plan or --generator is required; see `shardproof schedule --help`");
    const LoadedDocument loaded = load_document(path);
    if (!loaded.document) return report_invalid(loaded.report.diagnostics, loaded.source.get(), path, "nothing is shown");
    if (!loaded.document->plan.schedule) throw UsageError(path + " has no `schedule`");
    grid = verifier::structure::grid_of(loaded.document->plan);
    if (!grid) {
      std::cerr << "note: ranks wait for each other, or messages do not meet, so that actions have no slots; see `shardproof verify`\n";
      grid = without_slots(loaded.document->plan);
    }
  }
  write_file(output, [&](std::ostream& out) {
    if (format == "csv") out << ir::write_schedule_csv(grid->rows);
    else print_text(*grid, out);
  });
  return 0;
}

}  // namespace shardproof::tools

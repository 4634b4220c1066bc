// shardproof reshard-check: whether what one plan saves is what another one loads.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "ir/validate.h"
#include "tools/commands.h"
#include "tools/input_file.h"
#include "tools/output_file.h"
#include "verifier/render_text.h"
#include "verifier/structure/reshard.h"
#include "verifier/structure/states.h"

namespace shardproof::tools {

namespace {

using verifier::structure::Findings;

// What is wrong with the state and the checkpoint of one plan by itself.
Findings own_findings(const ir::Document& document) {
  Findings findings;
  verifier::structure::check_states(document, findings);
  verifier::structure::check_checkpoint(document, findings);
  return findings;
}

int exit_code_of(const Findings& findings) { return !findings.violations.empty() ? 1 : !findings.undecided.empty() ? kExitUnknown : 0; }

void print(Findings findings, const LoadedDocument& loaded, const std::string& path, std::ostream& out) {
  verifier::Report report;
  report.verdict = verifier::Verdict::not_equivalent;
  for (auto* list : {&findings.violations, &findings.undecided, &findings.warnings})
    for (ir::Diagnostic& d : *list) report.diagnostics.push_back(std::move(d));
  verifier::TextOptions options;
  options.quiet = true;
  options.color = use_color("auto", STDOUT_FILENO);
  verifier::render_full(report, loaded.source.get(), path, options, out);
}

}  // namespace

int cmd_reshard_check(Arguments arguments) {
  CLI::App app("Check that training saved by one plan goes on under another: every state of the second finds its tensors in the checkpoint of "
               "the first, whole and under the same keys, however either plan lays them out.",
               "shardproof reshard-check");
  std::string saved_path, resumed_path;
  app.add_option("saved", saved_path, "plan that saved the checkpoint")->required();
  app.add_option("resumed", resumed_path, "plan that loads it; the same plan: whether saving and loading is the identity")->required();
  app.footer("exit codes: 0 it goes on with the same state, 1 it does not, 2 bad input, 3 not decided");
  if (!parse_arguments(app, arguments)) return 0;

  const LoadedDocument saved = load_document(saved_path), resumed = load_document(resumed_path);
  for (const auto& [loaded, path] : {std::pair(&saved, &saved_path), std::pair(&resumed, &resumed_path)}) {
    ir::DiagnosticSink sink;
    if (loaded->document) ir::validate(*loaded->document, sink);
    if (!loaded->document || !sink.ok())
      return report_invalid(loaded->document ? sink.take() : loaded->report.diagnostics, loaded->source.get(), *path, "nothing is checked");
  }
  if (saved.document->plan.checkpoint.empty()) throw UsageError(saved_path + " has no `checkpoint`, so it saves nothing");
  Findings own = own_findings(*saved.document);
  if (const int code = exit_code_of(own); code != 0) {
    print(std::move(own), saved, saved_path, std::cout);
    std::cout << "the checkpoint does not hold the state of its own plan\n";
    return code;
  }
  Findings findings = verifier::structure::check_reshard(*saved.document, *resumed.document);
  for (ir::Diagnostic& d : own_findings(*resumed.document).undecided) findings.undecided.push_back(std::move(d));
  const int code = exit_code_of(findings);
  const std::size_t states = saved.document->reference.state.size();
  print(std::move(findings), resumed, resumed_path, std::cout);
  if (code == 0) std::cout << "the resumed plan goes on with the saved state: " << states << " reference states, each element from one place\n";
  else std::cout << "the resumed plan does not go on with the saved state\n";
  return code;
}

}  // namespace shardproof::tools

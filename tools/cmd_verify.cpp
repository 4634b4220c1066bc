// shardproof verify: reads plans, proves them, prints the reports in the order of the arguments.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>

#include "ir/print.h"
#include "tools/commands.h"
#include "tools/input_file.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "verifier/render_json.h"
#include "verifier/render_text.h"
#include "verifier/verify.h"

namespace shardproof::tools {

namespace {

struct VerifyArguments {
  std::vector<std::string> plans;
  std::string format = "full";
  std::string output = "-";
  std::string color = "auto";
  double timeout_seconds = 0;
  bool assume_defined = false;
  std::size_t memory_megabytes = 0;
  std::size_t jobs = 1;
  bool quiet = false;
  bool no_suggestions = false;
  bool no_counterexample = false;
  std::vector<std::string> witnesses = {"smt", "execution"};
  std::string smt_answers;  // empty: the user's cache folder
  std::string dump_smt;     // folder
  std::string keep_counterexample;  // prefix of two files
  std::string certificate;
};

std::atomic<bool> interrupted = false;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): signal handler

// The first interrupt asks the prover to stop and report; a second one ends the program.
void handle_interrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted.store(true); };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
}

// What became of one plan.
struct Outcome {
  verifier::Report report;
  std::string certificate;  // empty: none
  std::shared_ptr<const ir::SourceFile> source;
  std::exception_ptr failure;  // a bug in shardproof
  std::shared_ptr<const ir::Document> document;  // if its counterexample is to be kept
};

verifier::Report out_of_memory() {
  ir::Diagnostic diagnostic;
  diagnostic.code = "SP0902";
  diagnostic.name = "memory";
  diagnostic.message = "not decided: the machine has no more memory to give";
  verifier::Report report;
  report.verdict = verifier::Verdict::unknown;
  report.unknown_reason = diagnostic.message;
  report.diagnostics.push_back(std::move(diagnostic));
  return report;
}

// The file of answers, in the folder that the system has for such files.
std::string answers_file(const std::string& chosen) {
  if (chosen == "none") return "";
  if (!chosen.empty()) return chosen;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (cache != nullptr && *cache != 0) folder = cache;
  else if (home != nullptr && *home != 0) folder = std::filesystem::path(home) / ".cache";
  else return "";
  std::error_code error;
  std::filesystem::create_directories(folder / "shardproof", error);
  return error ? "" : (folder / "shardproof" / "smt-answers").string();
}

void write_query(const std::string& folder, int number, const verifier::SmtQuery& query) {
  const std::string digits = std::to_string(number);
  const std::string name = std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits + ".smt2";
  std::string place = query.place;
  for (char& c : place)
    if (c == '\n' || c == '\r') c = ' ';
  write_file((std::filesystem::path(folder) / name).string(), [&](std::ostream& out) { out << "; " << place << ": unsat if the step is right\n" << query.script; });
}

// The executed plan, and one line for each tensor of the reference.
void keep_counterexample(const Outcome& outcome, const VerifyArguments& arguments) {
  const std::string plan = arguments.keep_counterexample + ".json", inputs = arguments.keep_counterexample + ".inputs.json";
  write_file(plan, [&](std::ostream& out) { ir::print_json(*outcome.document, out); });
  write_file(inputs, [&](std::ostream& out) {
    const char* separator = "{\n";
    for (const auto& [name, values] : outcome.report.counterexample->values) {
      out << separator << nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << ": " << nlohmann::json(values).dump();
      separator = ",\n";
    }
    out << "\n}\n";
  });
  if (!arguments.quiet && arguments.format == "full" && arguments.output == "-") std::cout << "wrote " << plan << " and " << inputs << "\n";
}

Outcome verify_one(const std::string& path, const VerifyArguments& arguments, ProgressLine& progress) {
  Outcome outcome;
  try {
    LoadedDocument loaded = load_document(path);
    outcome.source = loaded.source;
    outcome.report = std::move(loaded.report);
    if (!loaded.document) return outcome;
    verifier::VerifyOptions options;
    options.timeout_seconds = arguments.timeout_seconds;
    options.memory_bytes = arguments.memory_megabytes << 20U;
    options.assume_defined = arguments.assume_defined;
    options.suggest_fixes = !arguments.no_suggestions;
    options.find_counterexample = !arguments.no_counterexample;
    const auto asked = [&](const char* witness) {
      return std::find(arguments.witnesses.begin(), arguments.witnesses.end(), witness) != arguments.witnesses.end();
    };
    options.cross_check = asked("execution");
    if (asked("smt")) {
      options.smt_witness = verifier::SmtOptions{answers_file(arguments.smt_answers), {}};
      if (!arguments.dump_smt.empty())
        options.smt_witness->dump = [&, count = 0](const verifier::SmtQuery& query) mutable { write_query(arguments.dump_smt, ++count, query); };
    }
    options.cancel = &interrupted;
    options.progress = [&](const verifier::Progress& p) { progress.update(path + ": " + p.phase, p.done, p.total); };
    if (!arguments.certificate.empty()) options.certificate = &outcome.certificate;
    outcome.report = verifier::verify(*loaded.document, options);
    if (outcome.report.counterexample && !arguments.keep_counterexample.empty()) {
      outcome.document = outcome.report.counterexample->executed;
      if (!outcome.document) outcome.document = std::make_shared<const ir::Document>(std::move(*loaded.document));
    }
  } catch (const std::bad_alloc&) {
    outcome.report = out_of_memory();
  } catch (...) {
    outcome.failure = std::current_exception();
  }
  return outcome;
}

// Each worker takes the next plan; what it finds does not depend on which worker that is.
std::vector<Outcome> verify_all(const VerifyArguments& arguments, ProgressLine& progress) {
  std::vector<Outcome> outcomes(arguments.plans.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < outcomes.size(); i = next++) {
      outcomes[i] = verify_one(arguments.plans[i], arguments, progress);
    }
  };
  std::vector<std::jthread> workers;
  for (std::size_t i = 1; i < std::min(arguments.jobs, outcomes.size()); ++i) workers.emplace_back(work);
  work();
  return outcomes;
}

void render_one(const Outcome& outcome, const std::string& path, const VerifyArguments& arguments, std::ostream& out) {
  if (arguments.format == "json") {
    verifier::render_json(outcome.report, outcome.source.get(), path, {SHARDPROOF_VERSION, true}, out);
    return;
  }
  verifier::TextOptions options;
  options.color = use_color(arguments.output == "-" ? arguments.color : "never", STDOUT_FILENO);
  options.quiet = arguments.quiet;
  if (arguments.format == "concise") {
    verifier::render_concise(outcome.report, outcome.source.get(), path, options, out);
  } else {
    verifier::render_full(outcome.report, outcome.source.get(), path, options, out);
  }
}

void render_all(const std::vector<Outcome>& outcomes, const VerifyArguments& arguments, std::ostream& out) {
  const bool several = outcomes.size() > 1;
  const bool json = arguments.format == "json";
  if (several && json) out << "[\n";
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (several && json && i > 0) out << ",\n";
    if (several && arguments.format == "full" && !arguments.quiet) {
      out << (i > 0 ? "\n" : "") << "== " << arguments.plans[i] << "\n";
    }
    render_one(outcomes[i], arguments.plans[i], arguments, out);
  }
  if (several && json) out << "]\n";
}

// One code for several plans: invalid input first, then a disproof, then what is not decided.
int overall_exit_code(const std::vector<Outcome>& outcomes) {
  int worst = 0;
  const auto rank = [](int code) { return code == 2 ? 3 : code == 1 ? 2 : code == 3 ? 1 : 0; };
  for (const Outcome& outcome : outcomes) {
    const int code = verifier::exit_code(outcome.report.verdict);
    if (rank(code) > rank(worst)) worst = code;
  }
  return worst;
}

}  // namespace

int cmd_verify(Arguments arguments) {
  CLI::App app("Prove that a plan computes the same training step as the reference in its file, for all inputs.",
               "shardproof verify");
  VerifyArguments parsed;
  app.add_option("plans", parsed.plans, "plan files, or - for standard input")->required();
  app.add_option("--format", parsed.format,
                 "full: for people; concise: a line per finding; json: shardproof-report/1, "
                 "a list of them for several plans")
      ->check(CLI::IsMember({"full", "concise", "json"}))
      ->capture_default_str();
  app.add_option("-o,--output", parsed.output, "file to write the report to (default: standard output)");
  app.add_option("-j,--jobs", parsed.jobs, "plans verified at the same time; changes nothing but speed")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--timeout", parsed.timeout_seconds,
                 "seconds of wall-clock time per plan, for its proof and the searches for repairs and counterexamples, not for reading "
                 "the file; beyond that it is not decided, SP0901 (0: no limit)")
      ->check([](const std::string& text) {
        double seconds = 0;
        const bool good = CLI::detail::lexical_cast(text, seconds) && seconds >= 0 && seconds <= 1e9;  // not a NaN either
        return good ? std::string() : "`" + text + "` is no number of seconds from 0 to 1000000000";
      });
  app.add_option("--memory", parsed.memory_megabytes,
                 "megabytes of the process; beyond that a plan is not decided (0: no limit)")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1} << 30U));
  app.add_flag("--assume-defined", parsed.assume_defined,
               "take divisions, roots and logarithms of the plan as defined, and list what that needs");
  app.add_flag("--no-suggestions", parsed.no_suggestions, "do not look for repairs of a wrong plan: a finding is then where the plan leaves its reference, and no cause");
  app.add_flag("--no-counterexample", parsed.no_counterexample, "do not execute a plan that is not proved, to disprove it");
  app.footer(
      "exit codes: 0 all plans are equivalent, 1 disproved, 2 bad input, 3 not decided, 70 internal error; of several\n"
      "plans the worst, in the order 70, 2, 1, 3, 0. Let CI take everything but 0 as a failure.");
  app.add_option("--certificate", parsed.certificate, "file to write a certificate to, if the plan is proved: `check-certificate` replays it without a search");
  app.add_option("--witnesses", parsed.witnesses,
                 "what a proof is checked with: smt (Z3 confirms each distinct step), execution (both programs are run on random inputs), none")
      ->delimiter(',')
      ->check(CLI::IsMember({"smt", "execution", "none"}))
      ->default_str("smt,execution");
  app.add_option("--smt-answers", parsed.smt_answers,
                 "file that keeps Z3's answers for the next time; none: keep nothing (default: shardproof/smt-answers in $XDG_CACHE_HOME or ~/.cache)");
  app.add_option("--keep-counterexample", parsed.keep_counterexample,
                 "PREFIX: write the plan as it was executed to PREFIX.json and the inputs to PREFIX.inputs.json, for `shardproof parity PREFIX.json --inputs PREFIX.inputs.json`");
  app.add_option("--dump-smt", parsed.dump_smt, "existing folder for what Z3 is asked, as SMT-LIB files: all of them unsat for a right proof");
  app.add_flag("-q,--quiet", parsed.quiet, "print findings only, no verdict");
  app.add_option("--color", parsed.color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  if (!parse_arguments(app, arguments)) return 0;

  if (!parsed.certificate.empty()) {
    if (parsed.plans.size() > 1) throw UsageError("--certificate is for one plan, not for " + std::to_string(parsed.plans.size()));
    if (parsed.assume_defined) throw UsageError("--certificate is for a plan that is proved without --assume-defined");
    require_folder(parsed.certificate);
  }
  if (!parsed.dump_smt.empty()) {
    if (parsed.plans.size() > 1) throw UsageError("--dump-smt is for one plan, not for " + std::to_string(parsed.plans.size()));
    if (std::find(parsed.witnesses.begin(), parsed.witnesses.end(), "smt") == parsed.witnesses.end()) throw UsageError("--dump-smt needs the witness `smt`");
    require_folder(parsed.dump_smt + "/query");
  }
  if (!parsed.keep_counterexample.empty()) {
    if (parsed.plans.size() > 1) throw UsageError("--keep-counterexample is for one plan, not for " + std::to_string(parsed.plans.size()));
    require_folder(parsed.keep_counterexample + ".json");
  }
  require_folder(parsed.output);
  handle_interrupts();
  ProgressLine progress(!parsed.quiet);
  const std::vector<Outcome> outcomes = verify_all(parsed, progress);
  progress.wipe();
  for (const Outcome& outcome : outcomes) {
    if (outcome.failure) std::rethrow_exception(outcome.failure);
  }
  write_file(parsed.output, [&](std::ostream& out) { render_all(outcomes, parsed, out); });
  if (outcomes[0].document) keep_counterexample(outcomes[0], parsed);
  if (parsed.certificate.empty() || outcomes[0].report.verdict != verifier::Verdict::equivalent) return overall_exit_code(outcomes);
  if (outcomes[0].certificate.empty()) return kExitUnknown;  // the report says why
  write_file(parsed.certificate, [&](std::ostream& out) { out << outcomes[0].certificate; });
  if (!parsed.quiet && parsed.format == "full" && parsed.output == "-")
    std::cout << "wrote " << parsed.certificate << ": a certificate of " << outcomes[0].certificate.size() << " bytes\n";
  return 0;
}

}  // namespace shardproof::tools

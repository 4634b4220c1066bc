// shardproof parity: runs plan and reference beside each other, tensor by tensor.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ir/validate.h"
#include "lowering/join_stages.h"
#include "tools/commands.h"
#include "tools/input_file.h"
#include "tools/output_file.h"
#include "verifier/execution/counterexample.h"
#include "verifier/execution/dense_domain.h"
#include "verifier/execution/parity.h"
#include "verifier/execution/rounding.h"
#include "verifier/execution/scale.h"
#include "verifier/execution/step.h"

namespace shardproof::tools {

namespace {

using execution::DenseDomain;
using execution::ParityReport;
using execution::ParityRow;
using execution::RealNumbers;

constexpr std::int64_t kMostWork = 500'000'000;  // scalar operations of a draw: seconds
constexpr double kMostElements = 2e7;            // of all values on all ranks: a gigabyte

std::string error_text(double error) {
  std::ostringstream text;
  if (error == 0) text << "0";
  else text << std::scientific << std::setprecision(1) << error;
  return text.str();
}

// Largest errors against the float64 reference: of the plan in float64 (`exact`), of the plan in the declared types
// (`plan`), and of the reference in the declared types (`reference`), which is what rounding does without any plan.
struct Row {
  const ParityRow* exact = nullptr;
  const ParityRow* plan = nullptr;
  double reference = 0;
};

double worst(const ParityReport& report) {
  double error = 0;
  for (const ParityRow& row : report.rows) error = std::max(error, row.problem.empty() ? row.max_rel_error : HUGE_VAL);
  return error;
}

void print_table(const ir::Plan& plan, const std::vector<Row>& rows, double tolerance, std::ostream& out) {
  out << "largest error of each tensor, relative to its largest element\n"
      << "  plan in float64   in ulps   plan as declared   reference as declared   tensor\n";
  for (const Row& row : rows) {
    const ParityRow& r = *row.exact;
    out << "  " << std::left << std::setw(18);
    if (!r.problem.empty()) {
      out << "missing" << std::setw(52) << "" << r.name << ": " << r.problem << "\n";
      continue;
    }
    out << error_text(r.max_rel_error) << std::setw(10) << error_text(r.max_rel_error / execution::epsilon(ir::DType::f64))
        << std::setw(19) << error_text(row.plan->max_rel_error) << std::setw(24) << error_text(row.reference) << r.name
        << (r.equal() ? "" : "   DIFFERS") << "\n";
    if (r.first) out << "      " << r.mismatches << " elements; first: " << execution::describe(plan, *r.first) << "\n";
  }
  const auto differ = std::count_if(rows.begin(), rows.end(), [](const Row& row) { return !row.exact->equal(); });
  const auto same_bits = std::count_if(rows.begin(), rows.end(), [](const Row& row) { return row.exact->problem.empty() && row.exact->max_abs_error == 0; });
  out << same_bits << " of " << rows.size() << " tensors have the same bits in float64\n";
  if (differ == 0) {
    out << "plan and reference agree in float64 on " << rows.size() << " tensors\n";
  } else {
    out << "plan and reference differ in " << differ << " of " << rows.size() << " tensors by more than " << tolerance
        << " of the largest element\n";
  }
}

// The plan reads outside of a tensor on inputs on which the reference does not.
class PlanLeavesTensor : public execution::OutOfBounds {
 public:
  using OutOfBounds::OutOfBounds;
};

// Numbers from a file. Throws UsageError.
void set_values(std::map<std::string, execution::Tensor>& values, const std::string& path) {
  const auto refuse = [&](const std::string& why) { throw UsageError(path + ": " + why); };
  const nlohmann::json file = nlohmann::json::parse(read_source(path)->text(), nullptr, false);
  if (!file.is_object()) refuse("expected an object of tensors by name, {\"x\": [1, 2, ...]}");
  for (const auto& [name, data] : file.items()) {
    const auto it = values.find(name);
    if (it == values.end()) refuse("the reference has no input or state `" + name + "`");
    std::vector<double>& numbers = it->second.data;
    if (!data.is_array() || data.size() != numbers.size())
      refuse("`" + name + "` needs a list of " + std::to_string(numbers.size()) + " numbers, " + ir::to_string(it->second.type) + " in row-major order");
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (!data[i].is_number()) refuse("element " + std::to_string(i) + " of `" + name + "` is no number");
      numbers[i] = data[i].get<double>();
      if (!ir::is_float(it->second.type.dtype) && numbers[i] != std::floor(numbers[i])) refuse("element " + std::to_string(i) + " of `" + name + "` is no integer");
    }
  }
}

}  // namespace

int cmd_parity(Arguments arguments) {
  CLI::App app(
      "Run a plan on all its ranks and its reference on the same random inputs, in this process, and compare every output and "
      "state: in float64, where a right plan agrees up to rounding, and with every value rounded to its declared type, where the "
      "reference shows what rounding does without any plan.",
      "shardproof parity");
  std::string path;
  std::string output = "-";
  execution::ParityOptions options;
  app.add_option("plan", path, "plan file, or - for standard input")->required();
  int draws = 4;
  std::string inputs;
  bool powers_of_two = false;
  app.add_option("--seed", options.seed, "of the first random inputs")->capture_default_str();
  app.add_option("--draws", draws, "how many sets of random inputs; the one with the largest error is shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--inputs", inputs,
                 "file with inputs and states of the reference by name, {\"x\": [1, 2, ...], ...} in row-major order; what is missing is random. "
                 "`verify --keep-counterexample` writes one");
  app.add_flag("--exact", powers_of_two,
               "random inputs that are powers of two: until something rounds, a right plan gives the same bits as its reference");
  app.add_option("--tolerance", options.tolerance.relative, "largest error in float64, relative to the largest element")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("-o,--output", output, "file to write (default: standard output)");
  app.footer("exit codes: 0 they agree in float64, 1 they differ or the plan leaves a tensor, 2 bad input, 3 the plan cannot be executed here");
  if (!parse_arguments(app, arguments)) return 0;

  const LoadedDocument loaded = load_document(path);
  ir::DiagnosticSink sink;
  if (loaded.document) ir::validate(*loaded.document, sink);
  if (!loaded.document || !sink.ok()) {
    return report_invalid(loaded.document ? sink.take() : loaded.report.diagnostics, loaded.source.get(), path, "nothing is run");
  }
  std::optional<ir::Document> joined;
  if (lowering::has_stages(loaded.document->plan)) {
    auto result = lowering::join_stages(*loaded.document);
    if (const auto* refusal = std::get_if<ir::Diagnostic>(&result)) {
      std::cerr << "error: " << path << " cannot be executed: " << refusal->message << "\n";
      return kExitUnknown;
    }
    joined = std::get<ir::Document>(std::move(result));
  }
  try {
    const ir::Document document = execution::in_core_ops(joined ? *joined : *loaded.document);
    if (execution::estimated_work(document) > kMostWork || execution::total_elements(document) > kMostElements) {
      std::cerr << "error: " << path << " is too large to be executed element by element\n";
      return kExitUnknown;
    }
    const auto draw_values = [&](std::uint64_t seed) {
      std::map<std::string, execution::Tensor> values =
          powers_of_two ? execution::exact_values(document.reference, seed) : execution::random_values(document.reference, seed);
      if (!inputs.empty()) set_values(values, inputs);
      return values;
    };
    if (!inputs.empty()) draws = 1;
    options.values = draw_values(options.seed);
    const DenseDomain<RealNumbers<double>> exact;
    const DenseDomain<RealNumbers<double>> declared(RealNumbers<double>(), true);
    const auto run = [&](const execution::ParityOptions& with) {
      const execution::ReferenceRun reference = execution::run_reference<double>(exact, document.reference, with.values);
      try {
        return execution::run_parity_against(exact, document, reference.exit, with);
      } catch (const execution::OutOfBounds& error) {
        throw PlanLeavesTensor(error.what(), error.rank());
      }
    };
    ParityReport in_float64 = run(options);
    const std::uint64_t first_seed = options.seed;
    for (int draw = 1; draw < draws; ++draw) {
      execution::ParityOptions next = options;
      next.seed = first_seed + static_cast<std::uint64_t>(draw);
      next.values = draw_values(next.seed);
      ParityReport report = run(next);
      if (worst(report) <= worst(in_float64)) continue;
      in_float64 = std::move(report);
      options = std::move(next);
    }
    const execution::ReferenceRun reference = execution::run_reference<double>(exact, document.reference, options.values);
    const execution::ReferenceRun rounded = execution::run_reference<double>(declared, document.reference, options.values);
    const ParityReport as_declared = execution::run_parity_against(declared, document, reference.exit, options);
    std::vector<Row> rows;
    for (std::size_t i = 0; i < in_float64.rows.size(); ++i) {
      Row row{&in_float64.rows[i], &as_declared.rows[i], 0};
      for (const std::string& tensor : row.exact->tensors) {
        const auto& wanted = reference.exit.by_name.at(tensor).data;
        const auto& found = rounded.exit.by_name.at(tensor).data;
        double largest = 0, error = 0;
        for (std::size_t k = 0; k < wanted.size(); ++k) {
          largest = std::max(largest, std::abs(wanted[k]));
          error = std::max(error, std::abs(wanted[k] - found[k]));
        }
        row.reference = std::max(row.reference, largest > 0 ? error / largest : error);
      }
      rows.push_back(row);
    }
    write_file(output, [&](std::ostream& out) {
      print_table(document.plan, rows, options.tolerance.relative, out);
    });
    return in_float64.equal() ? 0 : 1;
  } catch (const PlanLeavesTensor& error) {
    const std::string message = "rank " + std::to_string(error.rank()) + " leaves a tensor, and the reference does not: " + error.what() + "\n";
    write_file(output, [&](std::ostream& out) { out << message; });
    return 1;
  } catch (const execution::ExecutionError& error) {
    std::cerr << "error: " << path << " cannot be executed: " << error.what() << "\n";
    return kExitUnknown;
  }
}

}  // namespace shardproof::tools

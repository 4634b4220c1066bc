#include "verifier/execution/parity.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <random>
#include <sstream>
#include <utility>

#include "verifier/execution/step.h"

namespace shardproof::execution {

namespace {

// Rows are full, half full or almost empty, so that an average of averages differs from the average on most draws. None is
// empty, where there is room: that is for those who look for it.
Tensor random_mask(std::mt19937_64& random, const ir::TensorType& type) {
  Tensor mask = zeros(type);
  const std::int64_t last = type.shape.empty() ? 1 : type.shape.back();
  const std::int64_t length = last > 1 ? last : static_cast<std::int64_t>(mask.data.size());
  for (std::size_t row = 0; row < mask.data.size(); row += static_cast<std::size_t>(length)) {
    const auto begin = mask.data.begin() + static_cast<std::ptrdiff_t>(row);
    const std::int64_t tenths = 1 + 4 * uniform_integer(random, 3);
    for (std::int64_t i = 0; i < length; ++i) begin[i] = uniform_integer(random, 10) < tenths ? 1.0 : 0.0;
    begin[uniform_integer(random, length)] = 1.0;
  }
  return mask;
}

Tensor random_input(std::mt19937_64& random, const ir::Value& value, std::int64_t below) {
  const ir::DType dtype = value.type.dtype;
  if (dtype == ir::DType::boolean) return random_integers(random, value.type, 2);
  if (ir::is_integer(dtype)) return random_integers(random, value.type, below > 0 ? below : 2);
  if (value.name.find("mask") != std::string::npos) return random_mask(random, value.type);
  if (value.type.shape.empty()) return random_uniform(random, value.type, 0.1, 0.5);  // learning rate, scale
  return random_normal(random, value.type);
}

Tensor random_state(std::mt19937_64& random, const ir::ReferenceState& state, const ir::TensorType& type) {
  if (ir::is_integer(type.dtype)) {
    Tensor tensor = random_integers(random, type, 4);
    for (double& element : tensor.data) element += 1.0;  // steps count from 1
    return tensor;
  }
  if (state.role == "exp_avg") return random_normal(random, type, 0.05);
  // Of the size of squared gradients, so that a wrong gradient shows in it.
  if (state.role == "exp_avg_sq") return random_uniform(random, type, 1e-4, 1e-2);
  if (type.shape.empty()) return random_uniform(random, type, 0.5, 1.5);
  return random_normal(random, type, 0.5);
}

void merge(std::map<std::string, std::vector<bool>>& all, const std::map<std::string, std::vector<bool>>& some) {
  for (const auto& [name, elements] : some) {
    std::vector<bool>& covered = all[name];
    covered.resize(elements.size(), false);
    for (std::size_t i = 0; i < elements.size(); ++i) covered[i] = covered[i] || elements[i];
  }
}

std::vector<std::string> names_of(const std::map<std::string, std::vector<bool>>& covered) {
  std::vector<std::string> names;
  for (const auto& [name, elements] : covered) names.push_back(name);
  return names;
}

ParityRow row(ParityRow::Kind kind, std::string name, const Comparison& comparison) {
  return {kind,
          std::move(name),
          comparison.max_abs_error,
          comparison.max_rel_error,
          comparison.mismatches,
          comparison.first,
          {},
          names_of(comparison.covered)};
}

// A reference tensor of which no rank holds some element at the end is lost, whatever the others hold.
std::optional<ParityRow> uncovered(ParityRow::Kind kind, const std::string& name,
                                   const std::map<std::string, std::vector<bool>>& covered, const Tensor& tensor) {
  const auto found = covered.find(name);
  ParityRow missing;
  missing.kind = kind;
  missing.name = name;
  if (found == covered.end()) {
    missing.problem = "nothing in the plan represents it";
    return missing;
  }
  const auto gap = std::find(found->second.begin(), found->second.end(), false);
  if (gap == found->second.end()) return std::nullopt;
  missing.problem = "no rank holds element " + describe_index(tensor.type.shape, gap - found->second.begin());
  return missing;
}

}  // namespace

bool ParityReport::equal() const {
  return std::all_of(rows.begin(), rows.end(), [](const ParityRow& r) { return r.equal(); });
}

std::map<std::string, Tensor> random_values(const ir::Reference& reference, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::map<std::string, Tensor> values;
  for (const ir::ReferenceInput& input : reference.inputs) {
    const ir::Value& value = reference.program.value(input.value);
    values[value.name] = random_input(random, value, input.below);
  }
  for (const ir::ReferenceState& state : reference.state) {
    values[state.name] = random_state(random, state, reference.program.value(state.value).type);
  }
  return values;
}

std::map<std::string, Tensor> exact_values(const ir::Reference& reference, std::uint64_t seed) {
  std::map<std::string, Tensor> values = random_values(reference, seed);
  for (auto& [name, tensor] : values) {
    if (!ir::is_float(tensor.type.dtype)) continue;
    for (double& x : tensor.data)
      if (x != 0) x = std::copysign(std::ldexp(1.0, std::clamp(static_cast<int>(std::lround(std::log2(std::fabs(x)))), -2, 1)), x);
  }
  return values;
}

namespace {

std::map<std::string, Tensor> values_of(const ir::Document& document, const ParityOptions& options) {
  std::map<std::string, Tensor> values = random_values(document.reference, options.seed);
  for (const auto& [name, tensor] : options.values) values[name] = tensor;
  return values;
}

}  // namespace

ParityReport run_parity(const DomainOf<double>& domain, const ir::Document& document, const ParityOptions& options) {
  return run_parity_against(domain, document,
                            run_reference(domain, document.reference, values_of(document, options)).exit, options);
}

ParityReport run_parity_against(const DomainOf<double>& domain, const ir::Document& document,
                                const ReferenceTensors& wanted, const ParityOptions& options) {
  ReferenceTensors entry;
  entry.by_name = values_of(document, options);
  entry.by_role = names_by_role(document.reference);
  std::mt19937_64 random(options.seed ^ 0x5bd1e995U);
  LocalMaps maps;
  const std::vector<RankTensors> results = run_plan(domain, RealNumbers<double>(), document.plan, entry, random, maps);
  ParityReport report;
  std::map<std::string, std::vector<bool>> covered;
  const auto check = [&](ParityRow::Kind kind, const std::string& name, const ir::Binding& binding) {
    const RankTensors& local = results[report.rows.size()];
    const Comparison comparison = compare(document.plan, wanted, binding, local, options.tolerance);
    merge(covered, comparison.covered);
    report.rows.push_back(row(kind, name, comparison));
  };
  const ir::StageProgram& stage = only_stage(document.plan);
  for (const ir::PlanOutput& output : stage.outputs) check(ParityRow::Kind::output, output.name, output.binding);
  for (const ir::PlanState& state : stage.state) check(ParityRow::Kind::state, state.name, state.binding);
  const auto look_for = [&](ParityRow::Kind kind, const std::string& name) {
    std::optional<ParityRow> missing = uncovered(kind, name, covered, wanted.by_name.at(name));
    if (missing) report.rows.push_back(std::move(*missing));
  };
  for (const ir::ReferenceOutput& output : document.reference.outputs) {
    // A binding may name the output or the value that it shows.
    const std::string& shown = document.reference.program.value(output.value).name;
    look_for(ParityRow::Kind::output, covered.contains(output.name) ? output.name : shown);
  }
  for (const ir::ReferenceState& state : document.reference.state) look_for(ParityRow::Kind::state, state.name);
  return report;
}

std::string describe(const ir::Plan& plan, const ParityReport& report) {
  std::ostringstream text;
  for (const ParityRow& r : report.rows) {
    text << (r.equal() ? "  ok    " : "  DIFFER") << "  " << (r.kind == ParityRow::Kind::output ? "output " : "state  ")
         << std::left << std::setw(48) << r.name;
    if (r.problem.empty()) {
      text << " abs " << std::scientific << std::setprecision(2) << r.max_abs_error << "  rel " << r.max_rel_error;
    } else {
      text << " " << r.problem;
    }
    text << "\n";
    if (r.first) text << "          " << r.mismatches << " elements; " << describe(plan, *r.first) << "\n";
  }
  return text.str();
}

}  // namespace shardproof::execution

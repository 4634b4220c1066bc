#include "runtime/parity.h"

#include <algorithm>
#include <iomanip>
#include <random>
#include <sstream>
#include <utility>

#include "runtime/torch_executor.h"
#include "runtime/virtual_cluster.h"

namespace shardproof::runtime {

namespace {

// Adjacent rows have different numbers of ones: an average of averages then differs from the average.
Tensor random_mask(std::mt19937_64& random, const ir::TensorType& type) {
  Tensor mask = zeros(type);
  const std::int64_t length = type.shape.empty() ? 1 : type.shape.back();
  const std::int64_t rows = static_cast<std::int64_t>(mask.data.size()) / length;
  const std::int64_t start = uniform_integer(random, length);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t ones = 1 + (start + row) % length;
    const auto begin = mask.data.begin() + row * length;
    std::fill(begin, begin + ones, 1.0);
    for (std::int64_t i = length - 1; i > 0; --i) std::swap(begin[i], begin[uniform_integer(random, i + 1)]);
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

const Tensor& value_of(const std::map<std::string, Tensor>& values, const std::string& name,
                       const ir::TensorType& type) {
  const auto found = values.find(name);
  if (found == values.end()) throw ExecutionError("no value for reference tensor `" + name + "`");
  if (found->second.type.shape != type.shape) {
    throw ExecutionError("`" + name + "` is " + ir::to_string(type) + " and is given as " +
                         ir::to_string(found->second.type));
  }
  return found->second;
}

void add_roles(const ir::Reference& reference, ReferenceTensors& tensors) {
  for (const ir::ReferenceState& state : reference.state) {
    if (state.role == "param") {
      tensors.by_role[{state.role, state.name}] = state.name;
    } else if (!state.param.empty()) {
      tensors.by_role[{state.role, state.param}] = state.name;
    }
  }
}

void merge(std::map<std::string, std::vector<bool>>& all, const std::map<std::string, std::vector<bool>>& some) {
  for (const auto& [name, elements] : some) {
    std::vector<bool>& covered = all[name];
    covered.resize(elements.size(), false);
    for (std::size_t i = 0; i < elements.size(); ++i) covered[i] = covered[i] || elements[i];
  }
}

ParityRow row(ParityRow::Kind kind, std::string name, const Comparison& comparison) {
  return {kind,
          std::move(name),
          comparison.max_abs_error,
          comparison.max_rel_error,
          comparison.mismatches,
          comparison.first,
          {}};
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

class PlanRun {
 public:
  PlanRun(const ir::Document& document, const ReferenceRun& reference, const ParityOptions& options)
      : plan_(document.plan),
        stage_(only_stage(document.plan)),
        reference_(reference),
        options_(options),
        random_(options.seed ^ 0x5bd1e995U) {}

  ParityReport run(const ir::Reference& reference) {
    execute();
    ParityReport report;
    std::map<std::string, std::vector<bool>> covered;
    const auto check = [&](ParityRow::Kind kind, const std::string& name, const ir::Binding& binding) {
      const RankTensors& local = results_[next_++];
      const Comparison comparison = compare(plan_, reference_.exit, binding, local, options_.tolerance);
      merge(covered, comparison.covered);
      report.rows.push_back(row(kind, name, comparison));
    };
    for (const ir::PlanOutput& output : stage_.outputs) check(ParityRow::Kind::output, output.name, output.binding);
    for (const ir::PlanState& state : stage_.state) check(ParityRow::Kind::state, state.name, state.binding);
    const auto look_for = [&](ParityRow::Kind kind, const std::string& name) {
      std::optional<ParityRow> missing = uncovered(kind, name, covered, reference_.exit.by_name.at(name));
      if (missing) report.rows.push_back(std::move(*missing));
    };
    for (const ir::ReferenceOutput& output : reference.outputs) {
      // A binding may name the output or the value that it shows.
      const std::string& shown = reference.program.value(output.value).name;
      look_for(ParityRow::Kind::output, covered.contains(output.name) ? output.name : shown);
    }
    for (const ir::ReferenceState& state : reference.state) look_for(ParityRow::Kind::state, state.name);
    return report;
  }

 private:
  static const ir::StageProgram& only_stage(const ir::Plan& plan) {
    if (plan.stages.size() != 1 || !plan.stages.front().where.empty()) {
      throw ExecutionError("only plans of one SPMD stage are executed yet, and this one has " +
                           std::to_string(plan.stages.size()) + " stages");
    }
    return plan.stages.front();
  }

  void execute() {
    std::map<ir::ValueId, RankTensors> inputs;
    const auto give = [&](ir::ValueId id, const ir::Binding& binding) {
      const ir::Value& value = stage_.program.value(id);
      try {
        inputs[id] = place(plan_, reference_.entry, binding, value.type, random_);
      } catch (const ExecutionError& error) {
        throw ExecutionError("%" + value.name + ": " + error.what());
      }
    };
    for (const ir::PlanInput& input : stage_.inputs) give(input.value, input.binding);
    for (const ir::PlanState& state : stage_.state) give(state.value, state.binding);
    std::vector<ir::ValueId> wanted;
    for (const ir::PlanOutput& output : stage_.outputs) wanted.push_back(output.value);
    for (const ir::PlanState& state : stage_.state) wanted.push_back(state.next);
    results_ = run_cluster(plan_.meshes, stage_.program, inputs, wanted);
  }

  const ir::Plan& plan_;
  const ir::StageProgram& stage_;
  const ReferenceRun& reference_;
  const ParityOptions& options_;
  std::mt19937_64 random_;
  std::vector<RankTensors> results_;  // outputs, then next states
  std::size_t next_ = 0;
};

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

ReferenceRun run_reference(const ir::Reference& reference, const std::map<std::string, Tensor>& values) {
  const ir::Program& program = reference.program;
  ReferenceRun run;
  std::map<ir::ValueId, Tensor> inputs;
  const auto give = [&](ir::ValueId id, const std::string& name) {
    const Tensor& tensor = value_of(values, name, program.value(id).type);
    inputs[id] = tensor;
    run.entry.by_name[name] = tensor;
  };
  for (const ir::ReferenceInput& input : reference.inputs) give(input.value, program.value(input.value).name);
  for (const ir::ReferenceState& state : reference.state) give(state.value, state.name);
  std::vector<ir::ValueId> wanted;
  for (const ir::ReferenceOutput& output : reference.outputs) wanted.push_back(output.value);
  for (const ir::ReferenceState& state : reference.state) wanted.push_back(state.next);
  const std::vector<Tensor> results = execute(program, inputs, wanted);
  std::size_t next = 0;
  for (const ir::ReferenceOutput& output : reference.outputs) {
    run.exit.by_name[program.value(output.value).name] = results[next];
    run.exit.by_name[output.name] = results[next++];
  }
  for (const ir::ReferenceState& state : reference.state) run.exit.by_name[state.name] = results[next++];
  add_roles(reference, run.entry);
  add_roles(reference, run.exit);
  return run;
}

ParityReport run_parity(const ir::Document& document, const ParityOptions& options) {
  std::map<std::string, Tensor> values = random_values(document.reference, options.seed);
  for (const auto& [name, tensor] : options.values) values[name] = tensor;
  const ReferenceRun reference = run_reference(document.reference, values);
  return PlanRun(document, reference, options).run(document.reference);
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

}  // namespace shardproof::runtime

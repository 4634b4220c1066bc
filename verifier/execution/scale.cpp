#include "verifier/execution/scale.h"

#include <algorithm>
#include <exception>
#include <optional>

#include "ir/diagnostic.h"
#include "ir/validate.h"
#include "lowering/unfold.h"
#include "verifier/execution/counterexample.h"
#include "verifier/execution/scale_collect.h"
#include "verifier/execution/scale_rewrite.h"
#include "verifier/execution/scale_sizes.h"
#include "verifier/execution/scale_solve.h"

namespace shardproof::execution {

namespace {

double elements(const ir::Program& program) {
  double all = 0;
  for (const ir::Value& value : program.values) {
    double size = 1;
    for (const std::int64_t extent : value.type.shape) size *= static_cast<double>(extent);
    all += size;
  }
  return all;
}

double ranks(const ir::Document& document) {
  double all = 1;
  if (document.plan.meshes.empty()) return all;
  for (const ir::MeshAxis& axis : document.plan.meshes.front().axes) all *= static_cast<double>(axis.size);
  return all;
}

ir::Document unfolded(const ir::Document& document) {
  ir::Document result = document;
  result.reference.program = lowering::unfold(document.reference.program);
  for (ir::StageProgram& stage : result.plan.stages) stage.program = lowering::unfold(stage.program);
  return result;
}

// A slice whose start varies stays inside for all ranks and iterations; where it does not at full size either, the plan
// is at fault and not the sizes.
class SliceCheck {
 public:
  explicit SliceCheck(const ir::Document& document) {
    for (const ir::Mesh& mesh : document.plan.meshes) {
      for (const ir::MeshAxis& axis : mesh.axes) counts_[axis.name] = axis.size;
    }
  }

  // Names of the results of slices that leave their dimension. Corners only, so that full size is no more work.
  std::set<std::string> outside(const ir::Program& program) {
    std::set<std::string> names;
    body(program, program.body, names);
    return names;
  }

 private:
  void body(const ir::Program& program, const std::vector<ir::Instruction>& instructions, std::set<std::string>& names) {
    for (const ir::Instruction& each : instructions) {
      if (each.op == ir::OpCode::loop) {
        const auto outer = counts_;
        counts_[each.region->index] = each.region->trip;
        body(program, each.region->body, names);
        counts_ = outer;
      } else if (each.op == ir::OpCode::slice && !inside(program, each)) {
        names.insert(program.value(each.outputs[0]).name);
      }
    }
  }

  bool inside(const ir::Program& program, const ir::Instruction& each) const {
    const auto& start = each.attributes.get<ir::CoordExpr>("start");
    if (start.is_constant()) return true;
    std::set<std::string> names;
    ir::for_each_variable(start, [&](const std::string& name) { names.insert(name); });
    const std::vector<std::string> variables(names.begin(), names.end());
    const auto dim = static_cast<std::size_t>(each.attributes.get<std::int64_t>("dim"));
    const std::int64_t extent = program.value(each.inputs[0]).type.shape[dim];
    const std::int64_t reach = (each.attributes.get<std::int64_t>("size") - 1) * each.attributes.get_or<std::int64_t>("stride", 1) + 1;
    if (variables.size() > 6) return true;
    for (std::size_t corner = 0; corner < (std::size_t{1} << variables.size()); ++corner) {
      const std::int64_t first = ir::evaluate(start, [&](const std::string& name) {
        const auto at = static_cast<std::size_t>(std::find(variables.begin(), variables.end(), name) - variables.begin());
        const auto count = counts_.find(name);
        return ((corner >> at) & 1U) != 0 && count != counts_.end() ? count->second - 1 : 0;
      });
      if (first < 0 || first + reach > extent) return false;
    }
    return true;
  }

  std::map<std::string, std::int64_t> counts_;
};

std::optional<std::string> first_new_outside(const ir::Document& full, const ir::Document& small) {
  SliceCheck check_full(full), check_small(small);
  for (std::size_t i = 0; i < full.plan.stages.size(); ++i) {
    const std::set<std::string> before = check_full.outside(full.plan.stages[i].program);
    for (const std::string& name : check_small.outside(small.plan.stages[i].program)) {
      if (!before.contains(name)) return name;
    }
  }
  return std::nullopt;
}

class Scaler {
 public:
  Scaler(const ir::Document& document, const ScaleOptions& options)
      : options_(options), full_(unfolded(document)), slots_(Collector(full_, base_).collect()) {}

  // As many coincidences and differences kept as possible while the result is affordable; else the smallest.
  std::optional<Scaled> run() {
    // Dropping the order of pieces, or the number of ranks, is the last resort.
    const std::pair<bool, std::int64_t> stages[] = {{true, options_.max_ranks}, {false, options_.max_ranks}, {true, 8 * options_.max_ranks}, {false, 8 * options_.max_ranks}};
    const auto work = [](const Scaled& scaled) { return estimated_work(scaled.small); };
    std::optional<Scaled> best;
    for (const auto& [ordered, max_ranks] : stages) {
      if (best && max_ranks != options_.max_ranks) break;
      for (const Ties ties : {Ties::like_pieces, Ties::generators, Ties::mentioned, Ties::none}) {
        if (best && ties == Ties::none) break;
        Sizes sizes = base_;
        sizes.close(ties, ordered);
        for (const int distinct : {2, 1, 0}) {
          std::optional<Scaled> found = attempt(sizes, ties, distinct, ordered, max_ranks);
          if (found && (!best || work(*found) < work(*best))) best = std::move(found);
          if (best && work(*best) <= options_.affordable) return best;
        }
      }
      if (best && work(*best) <= 10 * options_.affordable) break;
    }
    return best;
  }

  std::string reason() const { return reason_; }

 private:
  std::optional<Scaled> attempt(const Sizes& sizes, Ties ties, int distinct, bool ordered, std::int64_t max_ranks) {
    SolveRequest request;
    for (const auto& [name, node] : slots_.axes) request.axes.push_back(node);
    if (!full_.plan.meshes.empty()) {
      request.axes.clear();
      for (const ir::MeshAxis& axis : full_.plan.meshes.front().axes) request.axes.push_back(slots_.axes.at(axis.name));
    }
    request.max_ranks = max_ranks;
    request.ordered_pieces = ordered;
    if (distinct >= 1) request.distinct.insert(request.axes.begin(), request.axes.end());
    if (distinct >= 2) request.distinct.insert(slots_.constants.begin(), slots_.constants.end());
    const auto small = solve(sizes, request);
    if (!small) {
      if (reason_.empty()) reason_ = "no small sizes satisfy all products and sums";
      return std::nullopt;
    }
    try {
      Rewriter rewriter(sizes, slots_, *small);
      Scaled result;
      result.small = rewriter.rewrite(full_);
      result.changed = true;
      result.not_kept = slots_.notes;
      for (std::string& note : rewriter.take_notes()) result.not_kept.push_back(std::move(note));
      ir::DiagnosticSink sink;
      ir::validate(result.small, sink);
      if (!sink.ok()) throw NotScaled(sink.diagnostics().front().message + " (expected " + sink.diagnostics().front().expected + ", found " + sink.diagnostics().front().found + ")");
      if (const auto name = first_new_outside(full_, result.small)) throw NotScaled("slice `" + *name + "` leaves its dimension");
      for (const Node root : sizes.roots()) result.numbers[sizes.full(root)].insert((*small)[static_cast<std::size_t>(root)]);
      if (!ordered) result.not_kept.emplace_back("the order of pieces that overlap in one dimension");
      if (ties == Ties::none) result.not_kept.emplace_back("a number that stands for several sizes was taken for the first of them");
      return result;
    } catch (const std::exception& error) {
      reason_ = error.what();
      return std::nullopt;
    }
  }

  ScaleOptions options_;
  ir::Document full_;
  Sizes base_;
  Slots slots_;
  std::string reason_;
};

}  // namespace

double total_elements(const ir::Document& document) {
  double all = elements(document.reference.program);
  for (const ir::StageProgram& stage : document.plan.stages) all += ranks(document) * elements(stage.program);
  return all;
}

Scaled scale(const ir::Document& document, const ScaleOptions& options) {
  Scaled unscaled;
  if (total_elements(document) > static_cast<double>(options.small_enough)) {
    try {
      Scaler scaler(document, options);
      if (std::optional<Scaled> found = scaler.run()) return *std::move(found);
      unscaled.not_kept.push_back("not scaled: " + scaler.reason());
    } catch (const std::exception& error) {
      unscaled.not_kept.push_back(std::string("not scaled: ") + error.what());
    }
  }
  unscaled.small = document;
  return unscaled;
}

}  // namespace shardproof::execution

#include "tests/semantics/case_run.h"

#include <algorithm>
#include <cmath>

#include "ir/print.h"

namespace shardproof::semantics_test {

using execution::RankTensors;
using execution::Tensor;

std::vector<ir::Mesh> test_meshes() {
  return {{"main", {{"dp", 2, {}}, {"tp", 3, {}}}, {}, {}},
          {"renumbered", {{"dp", 2, {}}, {"tp", 3, {}}}, {5, 3, 1, 4, 2, 0}, {}},
          {"cube", {{"pp", 2, {}}, {"one", 1, {}}, {"cp", 2, {}}}, {}, {}}};
}

InputTensors random_inputs(std::mt19937_64& random, const ir::Program& program, const std::vector<ProgramInput>& inputs,
                           const ir::Mesh* mesh) {
  InputTensors result;
  for (const ProgramInput& input : inputs) {
    RankTensors& ranks = result[input.id];
    for (std::int64_t rank = mesh == nullptr ? 1 : mesh->size(); rank > 0; --rank) {
      Tensor t = execution::zeros(program.value(input.id).type);
      for (double& x : t.data) {
        if (input.below > 0) {
          x = static_cast<double>(execution::uniform_integer(random, input.below));
        } else {
          x = static_cast<double>(1 + execution::uniform_integer(random, 16)) / 8;
          if (!input.positive && execution::uniform_integer(random, 2) == 0) x = -x;
        }
      }
      ranks.push_back(std::move(t));
    }
  }
  return result;
}

std::map<ir::ValueId, RankTensors> execute_all(const ir::Program& program, const InputTensors& inputs, const ir::Mesh* mesh) {
  std::vector<ir::ValueId> wanted;
  for (const ir::Instruction& i : program.body) wanted.insert(wanted.end(), i.outputs.begin(), i.outputs.end());
  std::vector<ir::Mesh> meshes;
  if (mesh != nullptr) meshes.push_back(*mesh);
  const std::vector<RankTensors> results = runtime::run_cluster(meshes, program, inputs, wanted);
  std::map<ir::ValueId, RankTensors> values;
  for (std::size_t k = 0; k < wanted.size(); ++k) values[wanted[k]] = results[k];
  return values;
}

double magnitude(const std::map<ir::ValueId, RankTensors>& values) {
  double most = 1;
  for (const auto& [id, ranks] : values)
    for (const Tensor& t : ranks)
      for (double x : t.data)
        if (std::isfinite(x)) most = std::max(most, std::abs(x));
  return most;
}

std::string describe_program(const ir::Program& program) {
  std::string text;
  for (const ir::Instruction& i : program.body) {
    text += ir::describe(program, i) + "\n";
    if (i.region)
      for (const ir::Instruction& inner : i.region->body) text += "    " + ir::describe(program, inner) + "\n";
  }
  return text;
}

}  // namespace shardproof::semantics_test

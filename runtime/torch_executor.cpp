#include "runtime/torch_executor.h"

#include "runtime/parity.h"
#include "runtime/virtual_cluster.h"

namespace shardproof::runtime {

std::vector<Array> execute(const ir::Program& program, const std::map<ir::ValueId, Array>& inputs,
                           std::span<const ir::ValueId> wanted) {
  const TorchDomain domain;
  Interpreter interpreter(domain, program, single_device());
  for (const auto& [id, array] : inputs) {
    check_given(program, id, domain.shape_of(array));
    interpreter.set(id, {array});
  }
  interpreter.run();
  std::vector<Array> results;
  for (const ir::ValueId id : wanted) results.push_back(interpreter.get(id).front());
  return results;
}

std::vector<Tensor> execute(const ir::Program& program, const std::map<ir::ValueId, Tensor>& inputs,
                            std::span<const ir::ValueId> wanted) {
  const TorchDomain domain;
  std::map<ir::ValueId, Array> arrays;
  for (const auto& [id, tensor] : inputs) arrays[id] = domain.upload(tensor);
  const std::vector<Array> results = execute(program, arrays, wanted);
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < results.size(); ++i) {
    tensors.push_back(domain.download(results[i], program.value(wanted[i]).type.dtype));
  }
  return tensors;
}

std::vector<RankTensors> run_cluster(std::span<const ir::Mesh> meshes, const ir::Program& program,
                                     const std::map<ir::ValueId, RankTensors>& inputs,
                                     std::span<const ir::ValueId> wanted) {
  return execution::run_cluster<double>(TorchDomain(), meshes, program, inputs, wanted);
}

ParityReport run_parity(const ir::Document& document, const ParityOptions& options) {
  return execution::run_parity(TorchDomain(), document, options);
}

ReferenceRun run_reference(const ir::Reference& reference, const std::map<std::string, Tensor>& values) {
  return execution::run_reference<double>(TorchDomain(), reference, values);
}

}  // namespace shardproof::runtime

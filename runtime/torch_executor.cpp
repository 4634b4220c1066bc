#include "runtime/torch_executor.h"

#include <utility>

#include "ir/print.h"
#include "runtime/interpreter.h"
#include "runtime/torch_kernels.h"

namespace shardproof::runtime {

namespace {

std::string shape_text(const ir::Shape& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) text += (text.size() > 1 ? "," : "") + std::to_string(extent);
  return text + "]";
}

KernelResults run_kernel(const KernelCall& call) {
  if (KernelResults results = run_structure_kernel(call)) return results;
  if (KernelResults results = run_arithmetic_kernel(call)) return results;
  return run_macro_kernel(call);
}

}  // namespace

std::vector<Array> execute_instruction(const ir::Program& program, const ir::Instruction& instruction,
                                       std::span<const Array> operands, const VariableValue& variables) {
  if (instruction.op == ir::OpCode::release) return {};
  if (instruction.outputs.empty()) throw ExecutionError("no result in " + ir::describe(program, instruction));
  std::vector<Array> results;
  try {
    const KernelCall call{instruction, program.value(instruction.outputs.front()).type, operands, variables};
    KernelResults kernel_results = run_kernel(call);
    if (!kernel_results) throw ExecutionError("no single-rank kernel for this op");
    results = std::move(*kernel_results);
  } catch (const std::exception& error) {
    // LibTorch's own errors carry a C++ backtrace after the first line; it says nothing about the plan.
    const std::string message = error.what();
    throw ExecutionError(message.substr(0, message.find('\n')) + ", in " + ir::describe(program, instruction));
  }
  if (results.size() != instruction.outputs.size()) {
    throw ExecutionError("number of results differs from the declaration in " + ir::describe(program, instruction));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ir::Shape found = shape_of(results[i]);
    if (found != program.value(instruction.outputs[i]).type.shape) {
      throw ExecutionError("result has shape " + shape_text(found) + " in " + ir::describe(program, instruction));
    }
  }
  return results;
}

std::vector<Array> execute(const ir::Program& program, const std::map<ir::ValueId, Array>& inputs,
                           std::span<const ir::ValueId> wanted) {
  Machine machine;
  machine.coordinate = [](std::int64_t, const std::string& name) -> std::int64_t {
    throw ExecutionError("`" + name + "` is not a loop index, and a single device has no mesh axes");
  };
  machine.collective = [](const ir::Instruction&, const RankArrays&) -> RankArrays {
    throw ExecutionError("a single device runs no collectives");
  };
  Interpreter interpreter(program, std::move(machine));
  for (const auto& [id, array] : inputs) {
    const ir::Value& value = program.value(id);
    if (shape_of(array) != value.type.shape) {
      throw ExecutionError("input %" + value.name + " : " + ir::to_string(value.type) + " is given with shape " +
                           shape_text(shape_of(array)));
    }
    interpreter.set(id, {array});
  }
  interpreter.run();
  std::vector<Array> results;
  for (const ir::ValueId id : wanted) results.push_back(interpreter.get(id).front());
  return results;
}

std::vector<Tensor> execute(const ir::Program& program, const std::map<ir::ValueId, Tensor>& inputs,
                            std::span<const ir::ValueId> wanted) {
  std::map<ir::ValueId, Array> arrays;
  for (const auto& [id, tensor] : inputs) arrays[id] = upload(tensor);
  const std::vector<Array> results = execute(program, arrays, wanted);
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < results.size(); ++i) {
    tensors.push_back(download(results[i], program.value(wanted[i]).type.dtype));
  }
  return tensors;
}

}  // namespace shardproof::runtime

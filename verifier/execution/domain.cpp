#include "verifier/execution/domain.h"

#include "ir/print.h"

namespace shardproof::execution {

std::vector<Array> execute_instruction(const Domain& domain, const ir::Program& program,
                                       const ir::Instruction& instruction, std::span<const Array> operands,
                                       const VariableValue& variables) {
  if (instruction.op == ir::OpCode::release) return {};
  if (instruction.outputs.empty()) throw ExecutionError("no result in " + ir::describe(program, instruction));
  std::vector<Array> results;
  try {
    results = domain.compute(program, instruction, operands, variables);
  } catch (const OutOfBounds& error) {
    throw OutOfBounds(std::string(error.what()) + ", in " + ir::describe(program, instruction));
  } catch (const std::exception& error) {
    // LibTorch's own errors carry a C++ backtrace after the first line; it says nothing about the plan.
    const std::string message = error.what();
    throw ExecutionError(message.substr(0, message.find('\n')) + ", in " + ir::describe(program, instruction));
  }
  if (results.size() != instruction.outputs.size()) {
    throw ExecutionError("number of results differs from the declaration in " + ir::describe(program, instruction));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ir::Shape found = domain.shape_of(results[i]);
    if (found != program.value(instruction.outputs[i]).type.shape) {
      throw ExecutionError("result has shape " + describe_shape(found) + " in " + ir::describe(program, instruction));
    }
  }
  return results;
}

}  // namespace shardproof::execution

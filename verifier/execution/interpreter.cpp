#include "verifier/execution/interpreter.h"

#include "ir/check.h"
#include "ir/print.h"

namespace shardproof::execution {

Interpreter::Interpreter(const Domain& domain, const ir::Program& program, Machine machine)
    : domain_(domain), program_(program), machine_(std::move(machine)), values_(program.values.size()) {}

void Interpreter::set(ir::ValueId id, RankArrays arrays) {
  SHARDPROOF_CHECK(static_cast<std::int64_t>(arrays.size()) == machine_.ranks);
  slot(id) = std::move(arrays);
}

const RankArrays& Interpreter::get(ir::ValueId id) const {
  const RankArrays& arrays = values_[static_cast<std::size_t>(id.index)];
  if (arrays.empty()) throw ExecutionError("%" + program_.value(id).name + " has no value at the end (released?)");
  return arrays;
}

void Interpreter::run() {
  run_body(program_.body);
}

void Interpreter::run_body(const std::vector<ir::Instruction>& body) {
  for (const ir::Instruction& instruction : body) {
    switch (instruction.op) {
      case ir::OpCode::loop:
        run_loop(instruction);
        break;
      case ir::OpCode::release:
        for (const ir::ValueId input : instruction.inputs) {
          static_cast<void>(read(input, instruction));  // a second release is an error
          slot(input).clear();
        }
        break;
      default:
        if (ir::schema_of(instruction.op).family == ir::OpFamily::communication) {
          run_collective(instruction);
        } else {
          run_single_rank(instruction);
        }
        if (observe)
          for (const ir::ValueId output : instruction.outputs) observe(instruction, output, slot(output));
    }
  }
}

void Interpreter::run_loop(const ir::Instruction& instruction) {
  const ir::Region& region = *instruction.region;
  std::vector<RankArrays> carried;
  for (const ir::Carry& carry : region.carries) carried.push_back(read(carry.init, instruction));
  indices_.emplace_back(region.index, 0);
  for (std::int64_t i = 0; i < region.trip; ++i) {
    indices_.back().second = i;
    for (std::size_t c = 0; c < carried.size(); ++c) slot(region.carries[c].argument) = carried[c];
    run_body(region.body);
    // All `next` values are read before any argument is replaced: a carry may hand over another one's argument.
    for (std::size_t c = 0; c < carried.size(); ++c) carried[c] = read(region.carries[c].next, instruction);
  }
  indices_.pop_back();
  for (std::size_t c = 0; c < carried.size(); ++c) slot(region.carries[c].result) = carried[c];
}

void Interpreter::run_collective(const ir::Instruction& instruction) {
  if (instruction.op == ir::OpCode::wait) {
    slot(instruction.outputs.front()) = read(instruction.inputs.front(), instruction);
    return;
  }
  if (instruction.op == ir::OpCode::send || instruction.op == ir::OpCode::recv) {
    throw ExecutionError("messages between stages are not executed yet: " + ir::describe(program_, instruction));
  }
  RankArrays results;
  try {
    results = machine_.collective(instruction, read(instruction.inputs.front(), instruction));
  } catch (const std::exception& error) {
    throw ExecutionError(std::string(error.what()) + ", in " + ir::describe(program_, instruction));
  }
  const ir::ValueId output = instruction.outputs.front();
  for (const Array& array : results) {
    if (domain_.shape_of(array) != program_.value(output).type.shape) {
      throw ExecutionError("result differs from the declared shape in " + ir::describe(program_, instruction));
    }
  }
  slot(output) = std::move(results);
}

void Interpreter::run_single_rank(const ir::Instruction& instruction) {
  std::vector<RankArrays> results(instruction.outputs.size());
  for (std::int64_t rank = 0; rank < machine_.ranks; ++rank) {
    const VariableValue variables = [&](const std::string& name) {
      for (std::size_t i = indices_.size(); i-- > 0;) {
        if (indices_[i].first == name) return indices_[i].second;
      }
      return machine_.coordinate(rank, name);
    };
    std::vector<Array> operands;
    for (const ir::ValueId input : instruction.inputs) {
      operands.push_back(read(input, instruction)[static_cast<std::size_t>(rank)]);
    }
    std::vector<Array> one_rank;
    try {
      one_rank = execute_instruction(domain_, program_, instruction, operands, variables);
    } catch (const OutOfBounds& error) {
      throw OutOfBounds(error.what(), rank);
    }
    for (std::size_t i = 0; i < results.size(); ++i) results[i].push_back(std::move(one_rank[i]));
  }
  for (std::size_t i = 0; i < results.size(); ++i) slot(instruction.outputs[i]) = std::move(results[i]);
}

const RankArrays& Interpreter::read(ir::ValueId id, const ir::Instruction& user) const {
  const RankArrays& arrays = values_[static_cast<std::size_t>(id.index)];
  if (arrays.empty()) {
    throw ExecutionError("%" + program_.value(id).name +
                         " has no value (missing input, or used after its release) in " + ir::describe(program_, user));
  }
  return arrays;
}

}  // namespace shardproof::execution

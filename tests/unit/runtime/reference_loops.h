// Tools of the runtime tests: tensors from plain loops, and programs of one instruction.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include "ir/builder.h"
#include "ir/program.h"
#include "runtime/torch_executor.h"

namespace shardproof::runtime::testing {

using Index = std::vector<std::int64_t>;
using Attrs = std::vector<std::pair<std::string, ir::AttrValue>>;

inline Tensor make(ir::DType dtype, ir::Shape shape, const std::function<double(const Index&)>& element) {
  Tensor tensor = zeros({dtype, std::move(shape)});
  for (std::size_t i = 0; i < tensor.data.size(); ++i) {
    tensor.data[i] = element(unflatten(tensor.type.shape, static_cast<std::int64_t>(i)));
  }
  return tensor;
}

inline double at(const Tensor& tensor, const Index& index) {
  return tensor.data[static_cast<std::size_t>(flat_index(tensor.type.shape, index))];
}

// A copy of `index` with one entry replaced, inserted or removed.
inline Index with(Index index, std::size_t d, std::int64_t value) {
  index[d] = value;
  return index;
}
inline Index inserted(Index index, std::size_t d, std::int64_t value) {
  index.insert(index.begin() + static_cast<std::ptrdiff_t>(d), value);
  return index;
}
inline Index removed(Index index, std::size_t d) {
  index.erase(index.begin() + static_cast<std::ptrdiff_t>(d));
  return index;
}

// One instruction, typed by ir::infer_types (or by `declared`, for ops whose type is written down). `axis_size` serves
// collectives.
struct OneOp {
  ir::Program program;
  std::vector<ir::ValueId> inputs;
  std::vector<ir::ValueId> results;
};

inline OneOp one_op(ir::OpCode op, const std::vector<ir::TensorType>& inputs, const Attrs& attrs,
                    const std::vector<ir::TensorType>& declared = {}, const ir::AxisSize& axis_size = {}) {
  OneOp built;
  ir::Instruction instruction;
  instruction.op = op;
  const auto value = [&](std::string name, ir::TensorType type) {
    built.program.values.push_back({std::move(name), std::move(type), {}});
    return ir::ValueId{static_cast<std::int32_t>(built.program.values.size() - 1)};
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) built.inputs.push_back(value("x" + std::to_string(i), inputs[i]));
  instruction.inputs = built.inputs;
  for (const auto& [name, attr] : attrs) instruction.attributes.set(name, attr);
  const auto types = ir::infer_types(instruction, inputs, declared, axis_size);
  if (const auto* error = std::get_if<ir::TypeError>(&types)) {
    throw std::runtime_error("types: expected " + error->expected + ", found " + error->found);
  }
  for (const ir::TensorType& type : std::get<0>(types)) {
    built.results.push_back(value("y" + std::to_string(built.results.size()), type));
  }
  instruction.outputs = built.results;
  built.program.body.push_back(std::move(instruction));
  return built;
}

inline std::vector<Tensor> run(const OneOp& op, const std::vector<Tensor>& inputs) {
  std::map<ir::ValueId, Tensor> given;
  for (std::size_t i = 0; i < inputs.size(); ++i) given[op.inputs[i]] = inputs[i];
  return execute(op.program, given, op.results);
}

inline std::vector<Tensor> run_op(ir::OpCode op, const std::vector<Tensor>& inputs, const Attrs& attrs,
                                  const std::vector<ir::TensorType>& declared = {}) {
  std::vector<ir::TensorType> types;
  for (const Tensor& input : inputs) types.push_back(input.type);
  return run(one_op(op, types, attrs, declared), inputs);
}

inline void expect_near(const Tensor& found, const Tensor& expected, double tolerance = 1e-12) {
  ASSERT_EQ(ir::to_string(found.type), ir::to_string(expected.type));
  for (std::size_t i = 0; i < expected.data.size(); ++i) {
    const double e = expected.data[i];
    if (found.data[i] == e) continue;  // also infinities
    ASSERT_NEAR(found.data[i], e, tolerance * (1.0 + std::abs(e)))
        << "at " << describe_index(expected.type.shape, static_cast<std::int64_t>(i));
  }
}

}  // namespace shardproof::runtime::testing

// What an interpreter computes with: numbers of a prime field, floats of our own, LibTorch tensors. A domain gives
// meaning to single instructions on single ranks and to the few operations that collectives are made of; the walk over
// programs, ranks and groups is the interpreter's and the same for all of them.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/placement.h"
#include "ir/program.h"
#include "verifier/execution/tensor.h"

namespace shardproof::execution {

// A tensor inside an execution: an opaque handle to storage of its domain. Immutable by convention: nobody writes to an
// operand, so that handles may share storage.
struct Array {
  std::any storage;  // empty: no value

  bool has_value() const { return storage.has_value(); }
};

// Value of a mesh axis at the executing rank, or of a loop index. Throws ExecutionError for an unknown name.
using VariableValue = std::function<std::int64_t(const std::string&)>;

class Domain {
 public:
  virtual ~Domain() = default;

  // One result per output of an instruction that is neither communication nor loop nor release. Throws any exception
  // for operands that do not fit; `execute_instruction` says where.
  virtual std::vector<Array> compute(const ir::Program& program, const ir::Instruction& instruction,
                                     std::span<const Array> operands, const VariableValue& variables) const = 0;
  virtual ir::Shape shape_of(const Array& array) const = 0;
  virtual Array concatenate(std::span<const Array> parts, std::int64_t dim) const = 0;
  // `length` elements from `start` on along `dim`, which lie inside.
  virtual Array narrow(const Array& array, std::int64_t dim, std::int64_t start, std::int64_t length) const = 0;
  // Elementwise reduction in the order given.
  virtual Array combine(ir::ReduceKind reduce, std::span<const Array> parts) const = 0;
};

// A domain whose tensors are exchanged as numbers of type T.
template <typename T>
class DomainOf : public Domain {
 public:
  virtual Array upload(const TensorOf<T>& tensor) const = 0;
  // `dtype` is the declared element type: an array knows only float, integer or boolean.
  virtual TensorOf<T> download(const Array& array, ir::DType dtype) const = 0;
};

// `Domain::compute`, and the checks that every domain owes: number and shapes of the results are the declared ones.
// Nothing for `release`. Throws ExecutionError that names the instruction.
std::vector<Array> execute_instruction(const Domain& domain, const ir::Program& program,
                                       const ir::Instruction& instruction, std::span<const Array> operands,
                                       const VariableValue& variables);

}  // namespace shardproof::execution

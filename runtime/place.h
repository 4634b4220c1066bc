// What a Binding means, element by element: which reference element each element of each rank's local tensor holds.
// Written from the comments of ir/placement.h and ir/plan.h alone and by enumeration, as a second implementation that
// is independent of the symbolic one in the prover.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ir/plan.h"
#include "runtime/tensor.h"
#include "runtime/virtual_cluster.h"

namespace shardproof::runtime {

// Reference tensors at one moment (entry or exit of the step), as bindings name them.
struct ReferenceTensors {
  std::map<std::string, Tensor> by_name;
  std::map<std::pair<std::string, std::string>, std::string> by_role;  // (role, param) -> name
};

// One element of a local tensor.
struct LocalElement {
  enum class Kind : std::uint8_t { element, pad_any, pad_zero };
  Kind kind = Kind::pad_any;
  std::int32_t tensor = 0;  // index into LocalMap::tensors
  std::int64_t flat = 0;    // row-major position in that tensor
};

// All elements of one rank's local tensor in row-major order.
struct LocalMap {
  bool exists = true;  // false where the binding's owned axes leave this rank out
  std::vector<std::string> tensors;
  std::vector<LocalElement> elements;
};

// Throws ExecutionError if the binding does not fit the reference tensors or the local shape.
LocalMap map_local(const ir::Plan& plan, const ReferenceTensors& reference, const ir::Binding& binding,
                   const ir::Shape& local_shape, std::int64_t rank);

// Local tensors that represent the reference tensors. What the binding leaves open is filled so that nobody can depend
// on it unseen: padding `any` and ranks that own nothing hold garbage, partial summands are random.
RankTensors place(const ir::Plan& plan, const ReferenceTensors& reference, const ir::Binding& binding,
                  const ir::TensorType& local_type, std::mt19937_64& random);

struct Tolerance {
  double relative = 1e-10;  // of the largest magnitude in the reference tensor
  double absolute = 1e-12;
};

struct Mismatch {
  std::int64_t rank = 0;
  std::string local_index;
  std::string tensor;  // reference tensor; empty: padding that must be zero
  std::string reference_index;
  double expected = 0;
  double found = 0;
};

std::string describe(const ir::Plan& plan, const Mismatch& mismatch);

struct Comparison {
  double max_abs_error = 0;
  double max_rel_error = 0;  // absolute error over the largest magnitude in the reference tensor
  std::int64_t mismatches = 0;
  std::optional<Mismatch> first;
  std::map<std::string, std::vector<bool>> covered;  // reference tensor -> elements that some rank represents
};

// Every element on every rank against the reference element it must represent: replicas must all agree with it.
// Elements of partial tensors are reduced over their axes first.
Comparison compare(const ir::Plan& plan, const ReferenceTensors& reference, const ir::Binding& binding,
                   const RankTensors& local, const Tolerance& tolerance = {});

}  // namespace shardproof::runtime

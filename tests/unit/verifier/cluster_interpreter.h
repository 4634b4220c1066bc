// Runs a program of core ops on all ranks of a mesh, element by element in double, with loops and collectives. Written for
// tests of what the verifier says of terms: it shares nothing with its semantics, nor with the runtime's kernels.
//
// What the reals leave undefined (1/0, the root of a negative number) and what lies outside of a tensor is NaN, and so is
// whatever reads that. There is no minus infinity.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/mesh.h"
#include "ir/program.h"

namespace shardproof::verifier::testing {

using RankValues = std::vector<std::vector<double>>;  // by rank, row-major; booleans are 0 and 1

class ClusterInterpreter {
 public:
  // Of every instruction: its result, and the values of the loops around it.
  using LoopIndices = std::map<std::string, std::int64_t>;
  using Observer = std::function<void(ir::ValueId value, const LoopIndices& loops, const RankValues& contents)>;

  ClusterInterpreter(const ir::Program& program, const ir::Mesh& mesh) : program_(program), mesh_(mesh) {}

  void set(ir::ValueId value, RankValues contents) { values_[value] = std::move(contents); }
  const RankValues& at(ir::ValueId value) const { return values_.at(value); }
  // Throws std::logic_error on an op it does not know.
  void run(const Observer& observer = {});

 private:
  using Index = std::vector<std::int64_t>;
  void run_body(const std::vector<ir::Instruction>& body);
  void run_loop(const ir::Instruction& loop);
  std::vector<double> on_rank(std::int64_t rank);
  double element(std::int64_t rank, const Index& i);
  double arithmetic(std::int64_t rank, const Index& i) const;
  double contraction(std::int64_t rank, const Index& i) const;
  double collective(std::int64_t rank, const Index& i) const;

  const ir::Shape& shape(std::size_t operand) const { return program_.value(in_->inputs[operand]).type.shape; }
  double read(std::size_t operand, std::int64_t rank, const Index& index) const;
  std::int64_t integer(const char* name) const { return in_->attributes.get<std::int64_t>(name); }
  std::size_t dim(const char* name = "dim") const { return static_cast<std::size_t>(in_->attributes.get_or<std::int64_t>(name, 0)); }
  std::int64_t expression(const char* name, std::int64_t rank) const;
  // The ranks of its group, in order.
  std::vector<std::int64_t> group_of(std::int64_t rank) const;

  const ir::Program& program_;
  const ir::Mesh& mesh_;
  std::map<ir::ValueId, RankValues> values_;
  LoopIndices loops_;
  const ir::Instruction* in_ = nullptr;
  Observer observer_;
};

}  // namespace shardproof::verifier::testing

// Walks a program for several ranks in lockstep: every instruction is executed for all ranks before the next one, so
// that a collective finds the operands of its whole group. One rank is the special case of a single device.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ir/program.h"
#include "verifier/execution/domain.h"

namespace shardproof::execution {

// One array per rank; empty: no value (not yet defined, or released).
using RankArrays = std::vector<Array>;

// Called with every value as soon as it is there (again in each iteration of a loop); not with inputs.
using Observer = std::function<void(const ir::Instruction&, ir::ValueId, const RankArrays&)>;

// What an interpreter needs to know of the machine.
struct Machine {
  std::int64_t ranks = 1;
  // Coordinate of a rank along a mesh axis. Throws ExecutionError for an unknown axis.
  std::function<std::int64_t(std::int64_t rank, const std::string& axis)> coordinate;
  // Results of a collective, one per rank, from the operands, one per rank.
  std::function<RankArrays(const ir::Instruction&, const RankArrays& operand)> collective;
};

class Interpreter {
 public:
  Interpreter(const Domain& domain, const ir::Program& program, Machine machine);

  Observer observe;

  void set(ir::ValueId id, RankArrays arrays);
  // Throws ExecutionError if the value has none (never defined, or released).
  const RankArrays& get(ir::ValueId id) const;
  void run();

 private:
  void run_body(const std::vector<ir::Instruction>& body);
  void run_loop(const ir::Instruction& instruction);
  void run_collective(const ir::Instruction& instruction);
  void run_single_rank(const ir::Instruction& instruction);
  RankArrays& slot(ir::ValueId id) { return values_[static_cast<std::size_t>(id.index)]; }
  const RankArrays& read(ir::ValueId id, const ir::Instruction& user) const;

  const Domain& domain_;
  const ir::Program& program_;
  Machine machine_;
  std::vector<RankArrays> values_;                             // by ValueId
  std::vector<std::pair<std::string, std::int64_t>> indices_;  // open loops, outermost first
};

}  // namespace shardproof::execution

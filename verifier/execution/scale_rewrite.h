// The document with small sizes in place of the full ones, in the order of `Collector`.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "verifier/execution/scale_collect.h"

namespace shardproof::execution {

class NotScaled : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Rewriter {
 public:
  Rewriter(const Sizes& sizes, const Slots& slots, const std::vector<std::int64_t>& small);

  // Throws NotScaled where a number has no small counterpart.
  ir::Document rewrite(const ir::Document& document);
  std::vector<std::string> take_notes() { return std::move(notes_); }

 private:
  std::int64_t value(Node node) const { return small_[static_cast<std::size_t>(node)]; }
  std::int64_t number(std::int64_t full) const;
  ir::Rational constant(ir::Rational full) const;
  ir::Rational count(ir::Rational full, const SizeCount& count) const;
  std::int64_t position(Node whole, std::int64_t at, const std::string& what) const;
  void note(std::string text);

  void meshes(ir::Plan& plan);
  void program(ir::Program& program, const ProgramSlots& slots);
  void body(std::vector<ir::Instruction>& body);
  void instruction(ir::Instruction& instruction);
  void slice(ir::Instruction& instruction, const InstructionSlots& slots);
  void table(ir::Instruction& instruction, const InstructionSlots& slots);
  void collective(ir::Instruction& instruction, const InstructionSlots& slots);
  ir::CoordExpr expression(const ir::CoordExpr& full, const std::vector<Node>& numbers, std::size_t& at) const;
  void placement(ir::Placement& placement);
  void fused(std::vector<ir::FusedPart>& parts);
  void binding(ir::Binding& binding);
  void buffers(ir::Plan& plan);

  // The element of the full dimension that stands at `index` of the small one, and back.
  std::int64_t full_index(Node node, std::int64_t index);
  std::int64_t small_index(Node node, std::int64_t index, const std::string& what);

  const Sizes& sizes_;
  const Slots& slots_;
  const std::vector<std::int64_t>& small_;
  std::map<Node, const SizeProduct*> factors_;  // one product for each root that has one
  std::vector<std::string> notes_;
  const std::vector<ir::Mesh>* meshes_ = nullptr;        // small
  const std::vector<ir::Mesh>* full_meshes_ = nullptr;
  const ir::Program* program_ = nullptr;
  const ProgramSlots* program_slots_ = nullptr;
  std::size_t next_instruction_ = 0, next_layout_ = 0;
};

}  // namespace shardproof::execution

// Walks a document with all macros unfolded and says which size is which unknown. `scale_rewrite` walks it in the same
// order.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/axis_table.h"
#include "ir/plan.h"
#include "ir/reference_index.h"
#include "verifier/execution/scale_sizes.h"

namespace shardproof::execution {

// Unknowns of one instruction besides the extents of its values.
struct InstructionSlots {
  std::vector<Node> numbers;              // of its expressions, in the order of `Collector::expression`; of a loop: its trip; of copies end
                                          // to end: how many
  Node stride = no_node;                  // of a slice
  Node counted = no_node;                 // of a table of integers: the extent that they count along
  std::optional<SizeCount> count;         // of a constant that is one, or one over one
  std::vector<std::string> group_axes;    // what an explicit list of groups amounts to
};

struct ProgramSlots {
  std::vector<std::vector<Node>> dims;            // of each value
  std::vector<InstructionSlots> instructions;     // a loop before its body
};

struct LayoutSlots {
  std::vector<Node> digits, before;  // sizes, and for a sub-axis the product of the digits before it
  Node logical = no_node, padded = no_node;
};

struct Slots {
  ProgramSlots reference;
  std::vector<ProgramSlots> stages;
  std::vector<LayoutSlots> layouts;   // of members of buffers, then of each stage's inputs, states, outputs
  std::map<std::string, Node> buffers, axes;
  std::set<Node> constants;           // sizes that constants of the programs name
  std::vector<std::string> notes;
};

class Collector {
 public:
  Collector(const ir::Document& document, Sizes& sizes);
  Slots collect();

 private:
  // Values of a variable or of what an expression makes of it.
  struct Count {
    std::string key;
    Node node = no_node;
  };

  Node fresh(std::int64_t full) { return sizes_.fresh(full); }
  void note(std::string text);

  // scale_collect.cpp
  void program(const ir::Program& program, ProgramSlots& slots);
  void body(const std::vector<ir::Instruction>& body);
  void instruction(const ir::Instruction& instruction);
  void structure(const ir::Instruction& instruction, InstructionSlots& slots);
  void slice(const ir::Instruction& instruction, InstructionSlots& slots);
  void einsum(const ir::Instruction& instruction);
  void collective(const ir::Instruction& instruction, InstructionSlots& slots);
  void loop(const ir::Instruction& instruction, std::size_t at);
  void constant(const ir::Instruction& instruction);
  void constants(const std::vector<ir::Instruction>& body);
  void counts(const ir::Program& program, ProgramSlots& slots, const std::set<std::int64_t>& elsewhere);
  void integers(const ir::Instruction& instruction);
  void coordinate(const ir::Instruction& instruction);
  void order_integers();
  void order_numbers();
  std::vector<Node> group(const ir::Instruction& instruction, InstructionSlots& slots);
  void same(const std::vector<Node>& a, const std::vector<Node>& b);
  void reshaped(const std::vector<Node>& from, const std::vector<Node>& to);
  void expression(const ir::CoordExpr& e, Node whole, Node size, std::vector<Node>& numbers);
  void counted_down(Node start, Node count, Node step);
  void short_reach(Node whole, std::int64_t start, Node count, Node step);
  Count count_of(const ir::CoordTerm& term);
  Count variable(const std::string& name) const;
  // The first and the remaining factor of a count cut after `first` values: coordinates of sub-axes.
  std::pair<Node, Node> factors(const Count& count, std::int64_t first);
  const std::vector<Node>& dims(ir::ValueId id) const { return slots_->dims[static_cast<std::size_t>(id.index)]; }

  // scale_collect_bindings.cpp
  void meshes();
  void buffers();
  void stage_bindings(const ir::StageProgram& stage, const ProgramSlots& slots);
  void binding(const ir::Binding& binding, const std::vector<Node>& logical, const std::vector<Node>& local);
  std::vector<Node> layout(const ir::DimLayout& layout, Node logical);
  std::vector<Node> local_digits(const ir::Placement& placement, const std::vector<Node>& logical);
  std::vector<Node> local_extents(const ir::Placement& placement, const std::vector<Node>& logical);
  std::vector<Node> fused(const std::vector<ir::FusedPart>& parts, std::int64_t fuse_axis);
  const std::vector<Node>& reference_dims(ir::ValueId id) const;
  Node joint(const std::vector<Node>& factors);  // their product

  const ir::Document& document_;
  Sizes& sizes_;
  ir::ReferenceIndex index_;
  Slots all_;
  const ir::Program* program_ = nullptr;
  ProgramSlots* slots_ = nullptr;
  std::vector<std::pair<std::string, Count>> indices_;     // of enclosing loops
  std::map<std::pair<std::string, std::int64_t>, std::pair<Node, Node>> factors_;
  std::vector<int> unit_;                                  // integer values that count the same thing
  std::vector<std::pair<int, Node>> counted_;              // value, a number or extent of its kind
  std::map<std::string, int> coordinates_;                 // by axis or loop: a value that is nothing but its coordinate
  std::vector<std::pair<std::size_t, int>> tables_;        // of integers: instruction, value
  int loops_ = 0;
};

// A concatenation of copies of one value, whose number is a size too.
bool is_repetition(const ir::Instruction& concat);

// The sizes that a constant is made of: those of its numerator, then those of its denominator.
std::vector<std::int64_t> sizes_of_constant(ir::Rational value, const Sizes& sizes);

// Axes whose groups these are, in order; empty if there are none. And the groups of such axes.
std::vector<std::string> axes_of(const std::vector<ir::Mesh>& meshes, const std::vector<std::vector<std::int64_t>>& groups);
std::vector<std::vector<std::int64_t>> groups_along(const ir::Mesh& mesh, const std::vector<std::string>& axes);

}  // namespace shardproof::execution

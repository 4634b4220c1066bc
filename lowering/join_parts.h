// The pieces of join_stages, one per file. Internal.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ir/group_axis.h"
#include "ir/plan.h"

namespace shardproof::lowering::join {

// Why stages cannot be joined.
class Refusal : public std::runtime_error {
 public:
  Refusal(const std::string& what, ir::Span where, std::string expected_text = {}, std::string found_text = {})
      : std::runtime_error(what), span(where), expected(std::move(expected_text)), found(std::move(found_text)) {}
  ir::Span span;
  std::string expected, found;
};

// A stage at one coordinate of each removed axis.
struct Instance {
  const ir::StageProgram* stage = nullptr;
  std::vector<std::int64_t> at;  // along the removed axes
  std::string name;              // "pp3"; with coordinates if the stage runs at several
};

// The removed axes and what runs where along them (join_instances.cpp).
class Layout {
 public:
  explicit Layout(const ir::Plan& plan);  // throws Refusal

  const std::vector<Instance>& instances() const { return instances_; }
  const std::vector<std::string>& removed() const { return removed_; }
  ir::Mesh remaining() const;
  std::optional<std::size_t> removed_axis(const std::string& name) const;

  // The instance on the other side of a message of `instance` to or from `stage`: at the same coordinates, and along axes where
  // the two stages lie at different ones, at the same position of their lists.
  std::size_t peer(std::size_t instance, const std::string& stage, ir::Span span) const;

  // The group of a collective of `instance`: instances with a rank in it, in group order, and the part of the group that lies
  // within one stage (`inner`: mesh axes, or lists of positions in the remaining mesh).
  struct Group {
    std::vector<std::size_t> members;  // at least the instance itself
    std::vector<std::string> inner_axes;
    std::vector<std::vector<std::int64_t>> inner_lists;
    bool stages_are_major = true;  // members vary slowest in the group's order
  };
  Group group_of(std::size_t instance, const ir::Instruction& instruction) const;
  std::int64_t inner_size(const Group& group) const;

 private:
  std::vector<std::int64_t> coordinates_of(const ir::StageProgram& stage, std::size_t axis) const;
  std::size_t instance_at(const std::vector<std::int64_t>& at) const;
  Group along(std::size_t instance, const ir::Instruction& instruction) const;
  Group listed(std::size_t instance, const ir::Instruction& instruction) const;

  const ir::Plan& plan_;
  const ir::Mesh* mesh_ = nullptr;
  std::vector<std::string> removed_;
  std::vector<std::int64_t> sizes_;  // of the removed axes
  std::vector<Instance> instances_;
  std::vector<std::size_t> by_place_;  // instance at the mixed-radix number of its coordinates
};

// One member's side of a collective across stages.
struct Side {
  std::size_t instance = 0;
  const ir::Instruction* instruction = nullptr;
  ir::ValueId operand, result;  // of the joined program
};

// Writes what a collective across stages computes, from the values of its members in group order (join_collectives.cpp).
class CollectiveWriter {
 public:
  CollectiveWriter(ir::Program& program, std::vector<ir::Instruction>& body) : program_(program), body_(body) {}
  void write(const Layout::Group& group, std::int64_t inner_size, const std::vector<Side>& sides);  // throws Refusal

 private:
  ir::ValueId emit(ir::OpCode op, std::vector<ir::ValueId> inputs, ir::TensorType type, ir::Attributes attributes = {});
  void define(ir::ValueId result, ir::ValueId value);  // as it is
  ir::ValueId combined(const std::vector<Side>& sides, const std::string& reduce);
  ir::ValueId inner(ir::OpCode op, ir::ValueId x, ir::TensorType type, ir::Attributes attributes);
  ir::ValueId scaled(ir::ValueId x, ir::Rational factor);
  ir::ValueId block(ir::ValueId x, std::int64_t dim, std::int64_t part, std::int64_t parts);
  void all_reduce(const std::vector<Side>& sides);
  void all_gather(const std::vector<Side>& sides);
  void reduce_scatter(const std::vector<Side>& sides);
  void all_to_all(const std::vector<Side>& sides);
  void broadcast_from(const std::vector<Side>& sides);
  void permute(const std::vector<Side>& sides);
  const ir::TensorType& type(ir::ValueId id) const { return program_.value(id).type; }

  ir::Program& program_;
  std::vector<ir::Instruction>& body_;
  const ir::Instruction* from_ = nullptr;  // that new instructions stand for
  ir::ValueId result_;                     // of it
  int parts_ = 0;                          // new values, named after the result
  const Layout::Group* group_ = nullptr;
  std::int64_t inner_size_ = 1;
};

// The identity: `result` is `value`.
ir::Instruction identity(const ir::Program& program, ir::ValueId result, ir::ValueId value, const ir::Instruction& from);

}  // namespace shardproof::lowering::join

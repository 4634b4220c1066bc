// Building programs in memory: planners, importers and tests append instructions; types are inferred by
// the same rules the reader uses. Misuse (wrong shapes) throws BuildError with the op and the reason.
#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/infer_type.h"
#include "ir/program.h"

namespace shardproof::ir {

class BuildError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using AttrList = std::initializer_list<std::pair<const char*, AttrValue>>;

class Builder {
 public:
  // `axis_size`: sizes of mesh axes for collectives; may be empty for a reference program.
  explicit Builder(Program& program, AxisSize axis_size = {}) : program_(&program), axis_size_(std::move(axis_size)) {}

  // A value without a defining instruction (input or state). Name must be new.
  ValueId input(std::string name, TensorType type);

  // Appends an instruction; the name is made unique by a suffix if taken. Ops whose result type is an
  // attribute (constant, table, iota, rng_uniform, recv) go through `typed`. An op without results (send,
  // release) returns an invalid id. An integer stands for the rational or expression an attribute wants.
  ValueId op(OpCode code, std::vector<ValueId> inputs, AttrList attributes = {}, std::string name = {});
  std::vector<ValueId> multi(OpCode code, std::vector<ValueId> inputs, AttrList attributes, std::vector<std::string> names);
  ValueId typed(OpCode code, TensorType type, AttrList attributes, std::string name = {});

  // Loop: begin_loop returns the argument values of the carries; instructions appended until end_loop go to
  // the body; end_loop takes the next value of each carry and returns the results.
  std::vector<ValueId> begin_loop(std::string index, std::int64_t trip, std::vector<ValueId> inits,
                                  std::vector<std::string> names);
  std::vector<ValueId> end_loop(std::vector<ValueId> next);

  void set_source(std::string source) { source_ = std::move(source); }        // of later instructions
  void set_recompute(std::string region) { recompute_ = std::move(region); }  // of later instructions
  void set_action(std::string action) { action_ = std::move(action); }        // of later instructions
  const TensorType& type(ValueId id) const { return program_->value(id).type; }
  const Shape& shape(ValueId id) const { return program_->value(id).type.shape; }
  Program& program() { return *program_; }

 private:
  std::string unique_name(std::string wanted);
  void index_names();
  ValueId new_value(std::string name, TensorType type);
  std::vector<Instruction>& current_body();
  void append(Instruction instruction);
  std::vector<ValueId> build(OpCode code, std::vector<ValueId> inputs, AttrList attributes,
                             const std::vector<TensorType>& declared, std::vector<std::string> names);

  Program* program_;
  AxisSize axis_size_;
  std::vector<Instruction> open_loops_;
  std::unordered_map<std::string, int> names_;  // taken name -> suffixes tried
  std::size_t named_values_ = 0;                // values of the program that names_ knows
  std::string source_;
  std::string recompute_;
  std::string action_;
};

}  // namespace shardproof::ir

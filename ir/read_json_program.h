// Programs in plan files: names, scopes, instructions, types. Internal to the reader.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/axis_table.h"
#include "ir/program.h"
#include "ir/read_json_fields.h"

namespace shardproof::ir {

// Reads one program: first its inputs and state (`define`), then the body, then the names that refer to
// results (`resolve`), then `finish`. A value whose type could not be found stays known by name, so that one
// mistake does not make every later line wrong as well.
class ProgramReader {
 public:
  ProgramReader(Findings& findings, Program& program, const AxisTable& axes)
      : findings_(findings), program_(program), axes_(axes) {}

  // A value without an instruction. Without a type it is known but untyped.
  ValueId define(JsonRef name, const std::optional<TensorType>& type);
  void read_body(JsonRef body);
  // The value a name stands for in the scope reached so far; a bad name is reported (at the latest by
  // `finish`) and invalid.
  ValueId resolve(JsonRef name);
  bool typed(ValueId id) const { return id.valid() && typed_[static_cast<std::size_t>(id.index)]; }
  const TensorType& type(ValueId id) const { return program_.value(id).type; }
  // Reports names that were never found: now it is known which are defined later.
  void finish();
  // Every loop index that occurred.
  const std::unordered_set<std::string>& loop_indices() const { return loop_indices_; }

 private:
  void read_instructions(JsonRef body, std::vector<Instruction>& into);
  void read_instruction(JsonRef object, std::vector<Instruction>& into);
  void read_loop(JsonRef object, Instruction& loop);
  struct CarryFields {
    JsonRef arg;
    JsonRef next;
    JsonRef out;
  };
  void read_carries(JsonRef list, Region& region, std::vector<CarryFields>& carries);
  bool read_attributes(const Fields& fields, Instruction& instruction);
  std::optional<AttrValue> read_attribute(JsonRef value, AttrKind kind, std::string_view name);
  bool check_variables(const CoordExpr& expr, JsonRef value);
  bool check_axes(JsonRef value, const std::vector<std::string>& axes);
  // Declared or inferred result types; fewer than the results where unknown.
  std::vector<TensorType> result_types(const Fields& fields, const Instruction& instruction, bool inputs_good);
  std::vector<TensorType> declared_types(JsonRef value, bool& good);
  void define_results(const Fields& fields, Instruction& instruction, const std::vector<TensorType>& types);
  std::span<const std::string_view> known_fields(OpCode op);

  Findings& findings_;
  Program& program_;
  const AxisTable& axes_;
  std::unordered_map<std::string_view, ValueId> names_;  // keys lie in the file's text
  std::vector<char> visible_;                            // by value
  std::vector<char> typed_;                              // by value
  std::vector<std::string> open_indices_;                // loops around the current instruction
  std::unordered_set<std::string> loop_indices_;
  std::vector<JsonRef> unresolved_;
  std::unordered_map<int, std::vector<std::string_view>> known_fields_;  // by opcode
};

}  // namespace shardproof::ir

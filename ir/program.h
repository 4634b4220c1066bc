// A program: single-assignment instructions over typed values. The reference step and every stage of a
// plan are programs. Names are for people and for binding inputs and outputs; the prover never uses them
// as evidence.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/check.h"
#include "ir/coord_expr.h"
#include "ir/op_schema.h"
#include "ir/rational.h"
#include "ir/source.h"
#include "ir/tensor_type.h"

namespace shardproof::ir {

struct ValueId {
  std::int32_t index = -1;
  bool valid() const { return index >= 0; }
  friend auto operator<=>(const ValueId&, const ValueId&) = default;
};

struct Value {
  std::string name;  // unique in its program
  TensorType type;
  Span span;         // where it is defined
  std::string written = {};  // its name in the file, where that is another one (in joined programs); else empty

  const std::string& written_name() const { return written.empty() ? name : written; }
};

using AttrValue = std::variant<std::int64_t, std::vector<std::int64_t>, Rational, std::vector<Rational>, std::string,
                               std::vector<std::string>, bool, CoordExpr, std::vector<CoordExpr>,
                               std::vector<std::vector<std::int64_t>>>;

// Attributes of one instruction, sorted by name. `get` throws InternalError if the attribute is missing
// or of another kind: validation has run before anyone asks.
class Attributes {
 public:
  void set(std::string name, AttrValue value);
  bool has(std::string_view name) const;
  template <typename T>
  const T& get(std::string_view name) const;
  template <typename T>
  T get_or(std::string_view name, T fallback) const;
  const std::vector<std::pair<std::string, AttrValue>>& entries() const { return entries_; }
  const AttrValue* find(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, AttrValue>> entries_;
};

struct Region;

struct Instruction {
  OpCode op = OpCode::constant;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attributes attributes;
  std::shared_ptr<Region> region;  // op == loop
  std::string recompute;           // name of the recompute region this instruction re-executes; empty: none
  std::string action;              // of the schedule, that runs this instruction ("3F"); empty: it runs where it stands
  std::string source;              // free text of the producer ("model.py:42 self_attn.q_proj"); never evidence
  Span span;
};

// One loop-carried value: `init` before the loop, `argument` inside an iteration, `next` at its end,
// `result` after the loop.
struct Carry {
  ValueId init;
  ValueId argument;
  ValueId next;
  ValueId result;
  Span span = {};
};

// Body of a loop with index variable 0 <= index < trip. Values defined in the body are not visible
// outside; values from outside are visible inside. The instruction's inputs are the inits and its
// outputs the results, in carry order.
struct Region {
  std::string index;
  std::int64_t trip = 1;
  std::vector<Carry> carries;
  std::vector<Instruction> body;
  Span trip_span;
};

struct Program {
  std::vector<Value> values;           // indexed by ValueId
  std::vector<Instruction> body;

  const Value& value(ValueId id) const;
  ValueId find(std::string_view name) const;  // linear; invalid if absent (use NameIndex for many look-ups)
};

// The loop at the top of the program whose instructions carry actions of a schedule; nullptr: there is none.
const Instruction* labelled_loop(const Program& program);

// The program without instructions whose results nothing needs that is `needed`. Values keep their ids; a loop is kept
// whole or not at all.
Program without_unused(const Program& program, const std::vector<ValueId>& needed);

template <typename T>
const T& Attributes::get(std::string_view name) const {
  const AttrValue* value = find(name);
  if (value == nullptr) throw InternalError("missing attribute " + std::string(name));
  const T* typed = std::get_if<T>(value);
  if (typed == nullptr) throw InternalError("attribute " + std::string(name) + " has another kind");
  return *typed;
}

template <typename T>
T Attributes::get_or(std::string_view name, T fallback) const {
  return has(name) ? get<T>(name) : fallback;
}

}  // namespace shardproof::ir

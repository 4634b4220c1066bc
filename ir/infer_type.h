// Type rules: the result types of an instruction from its operand types and attributes. One rule per op,
// written once; reader, validator, builder and unfolding all use it.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "ir/program.h"

namespace shardproof::ir {

struct TypeError {
  std::string expected;
  std::string found;
};

// Size of a mesh axis by name, or 0 if there is none. Collectives that change shapes need it.
using AxisSize = std::function<std::int64_t(const std::string&)>;

// Result types, or what is wrong. Assumes the instruction obeys its schema (arity, attribute kinds).
// `declared` holds the written result types (used by constant, table, iota, recv). Not for loop.
std::variant<std::vector<TensorType>, TypeError> infer_types(const Instruction& instruction,
                                                             const std::vector<TensorType>& operands,
                                                             const std::vector<TensorType>& declared,
                                                             const AxisSize& axis_size);

// "bsh,fh->bsf" taken apart; nullopt if malformed (labels are letters; no repeated label in one operand;
// every result label occurs in an operand).
struct EinsumSpec {
  std::vector<std::string> operands;
  std::string result;
};
std::optional<EinsumSpec> parse_einsum(const std::string& spec);

}  // namespace shardproof::ir

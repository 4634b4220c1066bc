// Type rules: the result types of an instruction from its operand types and attributes. One rule per op,
// written once; reader, validator, builder and unfolding all use it.
#pragma once

#include <functional>
#include <optional>
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
// `declared` holds the written result types (used by constant, table, iota, rng_uniform, recv). Not for loop.
// Does not check the limits of tensor_type.h on results; throws std::overflow_error beyond 64 bits.
std::variant<std::vector<TensorType>, TypeError> infer_types(const Instruction& instruction,
                                                             const std::vector<TensorType>& operands,
                                                             const std::vector<TensorType>& declared,
                                                             const AxisSize& axis_size);

// What breaks the instruction's schema: number of operands, missing, unknown or wrong kind of attribute.
std::optional<TypeError> check_schema(const Instruction& instruction);

// "bsh,fh->bsf" taken apart; nullopt if malformed (labels are letters; no repeated label in one operand
// or in the result; every result label occurs in an operand).
struct EinsumSpec {
  std::vector<std::string> operands;
  std::string result;
};
std::optional<EinsumSpec> parse_einsum(const std::string& spec);

}  // namespace shardproof::ir

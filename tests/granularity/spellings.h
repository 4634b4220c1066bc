// One computation written in two granularities: a macro op and its parts, one product and several, one contraction and
// the matrix product that libraries call. Each has a wrong third form of equal types.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "bugs/case.h"

namespace shardproof::granularity {

using bugs::Case;
using bugs::Ints;
using bugs::Ops;
using bugs::Values;
using ir::OpCode;
using ir::ValueId;

struct Operand {
  std::string name;
  ir::Shape shape;
  std::string dims;  // placement in the short form of Case
  ir::DType dtype = ir::DType::f32;
  std::int64_t below = 0;
};

using Make = std::function<Values(Ops& ops, const Values& operands)>;

struct Spelling {
  std::string name;
  std::vector<Operand> operands;
  std::vector<std::string> results;  // placements
  Make coarse, fine, wrong;
};
void PrintTo(const Spelling& spelling, std::ostream* out);  // for GoogleTest

std::vector<Spelling> macro_spellings();    // macro ops against core ops
// Keys and values in chunks, each with a maximum of its own, brought together at the end or one after the other as flash
// attention and rings of ranks do.
Spelling attention_in_chunks(std::int64_t chunks, bool running);
std::vector<Spelling> product_spellings();  // fused and separate products and sums

}  // namespace shardproof::granularity

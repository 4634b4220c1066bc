// The same document in other words: no name, order or annotation is evidence, so a verdict may not depend on them.
// Every change keeps the meaning of a document and its validity, whatever the document.
#pragma once

#include <random>

#include "ir/plan.h"

namespace shardproof::disguise {

using Random = std::mt19937_64;  // its sequence is fixed by the standard, unlike the distributions

// Values, states, inputs and outputs of both sides, buffers, mesh axes and loop indices get random names. Names that
// bind the plan to the reference change on both sides.
void rename(ir::Document& document, Random& random);

// Instructions go into a random order that keeps definitions before uses and releases after them, within loops too;
// carried values, inputs, states, outputs and the operands of add, mul, max and min are shuffled.
void reorder(ir::Document& document, Random& random);

// Values get other numbers; they are what a document built in memory refers by.
void renumber(ir::Document& document, Random& random);

// What producers say about their plan goes: sources, recompute regions, notes, the name of the plan, places in a file.
void strip(ir::Document& document);

// Regions are shared between copies of a program: a copy whose loops are its own.
ir::Document copy(const ir::Document& document);

}  // namespace shardproof::disguise

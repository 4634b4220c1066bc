// Makes a document small while something holds of it: results are dropped, instructions replaced by what they read, by a
// constant, or by what is dead without them, and numbers reduced. What is left shows a fault better than what was found.
#pragma once

#include <cstdint>
#include <functional>

#include "ir/plan.h"

namespace shardproof::attack {

// Asked of valid documents only.
using Property = std::function<bool(const ir::Document&)>;

// `property` holds of the document. Tries at most `attempts` valid documents.
ir::Document shrink(ir::Document document, const Property& property, std::int64_t attempts = 2000);

// Removes instructions whose results nothing reads, from both programs.
void remove_dead(ir::Document& document);

std::int64_t instruction_count(const ir::Document& document);  // of both programs, with the bodies of loops

}  // namespace shardproof::attack

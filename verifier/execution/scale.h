// A plan at true sizes as the same plan at small sizes, which can be run element by element on all ranks at once: a
// right plan stays right and a wrong plan stays wrong as far as sizes decide. It serves to find counterexamples and is
// not trusted: nothing is proved from a small plan. README.md says what is kept and what cannot be.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/plan.h"

namespace shardproof::execution {

struct ScaleOptions {
  std::int64_t max_ranks = 16;           // aimed at; more only if the plan allows no fewer
  std::int64_t small_enough = 1 << 21;   // elements of all values on all ranks: a smaller document is returned as it is
  std::int64_t affordable = 100'000'000;  // scalar operations of the small step (`estimated_work`), where the plan allows it
};

struct Scaled {
  ir::Document small;                    // macros unfolded if `changed`; else the document that was given
  bool changed = false;
  std::vector<std::string> not_kept;     // in words: numbers that stay as they are, relations that were dropped
  // Each size of the full document with the small sizes that stand for it, usually one.
  std::map<std::int64_t, std::set<std::int64_t>> numbers;
};

// Never throws for a document that passes ir::validate; what cannot be scaled is returned unscaled with a note.
Scaled scale(const ir::Document& document, const ScaleOptions& options = {});

// Elements of all values of the plan on all ranks and of the reference, with loops counted once.
double total_elements(const ir::Document& document);

}  // namespace shardproof::execution

// What the structural checks found. Internal to verifier/structure and its callers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/diagnostic.h"

namespace shardproof::verifier::structure {

// What a pipeline schedule amounts to. For people: no verdict rests on it.
struct ScheduleSummary {
  std::string name;  // of the generator, or "explicit"
  std::int64_t microbatches = 0;
  std::vector<std::int64_t> in_flight;  // of each pipeline rank: the most microbatches that wait for their backward pass
  // If each cell takes one slot and runs as early as messages let it: slots of all pipeline ranks, and those without work.
  // nullopt: ranks do not meet, so there is no such run.
  struct Slots {
    std::int64_t all = 0, idle = 0;
  };
  std::optional<Slots> slots;
};

struct Findings {
  std::vector<ir::Diagnostic> violations;  // each one a disproof, whatever the values are
  std::vector<ir::Diagnostic> warnings;    // no reason for a verdict
  std::vector<ir::Diagnostic> undecided;   // SP0905: what no rule here decides
  std::optional<ScheduleSummary> schedule;  // of a plan that has one
};

// Equal faults at many places are one finding: the first one, with the number of places.
class Grouped {
 public:
  explicit Grouped(std::vector<ir::Diagnostic>& into) : into_(into) {}
  // `kind`: equal for findings with the same code that have the same cause.
  void add(ir::Diagnostic diagnostic, std::string kind);

 private:
  std::vector<ir::Diagnostic>& into_;
  std::vector<std::pair<std::string, std::size_t>> first_;  // kind, position in `into_`
};

}  // namespace shardproof::verifier::structure

// What the structural checks found. Internal to verifier/structure and its callers.
#pragma once

#include <string>
#include <vector>

#include "ir/diagnostic.h"

namespace shardproof::verifier::structure {

struct Findings {
  std::vector<ir::Diagnostic> violations;  // each one a disproof, whatever the values are
  std::vector<ir::Diagnostic> warnings;    // no reason for a verdict
  std::vector<ir::Diagnostic> undecided;   // SP0905: what no rule here decides
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

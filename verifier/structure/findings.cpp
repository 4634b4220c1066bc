#include "verifier/structure/findings.h"

#include <algorithm>

namespace shardproof::verifier::structure {

void Grouped::add(ir::Diagnostic diagnostic, std::string kind) {
  kind = diagnostic.code + " " + kind;
  const auto known = std::find_if(first_.begin(), first_.end(), [&](const auto& entry) { return entry.first == kind; });
  if (known != first_.end()) {
    ++into_[known->second].places;
    return;
  }
  first_.emplace_back(std::move(kind), into_.size());
  into_.push_back(std::move(diagnostic));
}

}  // namespace shardproof::verifier::structure

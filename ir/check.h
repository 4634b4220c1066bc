// Broken invariants of shardproof itself. Input can be wrong, code cannot: a problem in a plan is a
// Diagnostic, a failed check is an InternalError that front ends report with exit code 70.
#pragma once

#include <stdexcept>
#include <string>

namespace shardproof {

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) + ": check failed: " + condition);
}

}  // namespace shardproof

#define SHARDPROOF_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::shardproof::check_failed(#condition, __FILE__, __LINE__))

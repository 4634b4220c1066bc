// One line on standard error that says how far a long run is. Shown only on a terminal, after a second, and wiped
// before results are printed.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace shardproof::tools {

class ProgressLine {
 public:
  // `wanted` false: never shows anything.
  explicit ProgressLine(bool wanted);
  ~ProgressLine() { wipe(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // May be called from several threads.
  void update(const std::string& what, std::int64_t done, std::int64_t total);
  void wipe();

 private:
  using Clock = std::chrono::steady_clock;

  std::mutex mutex_;
  bool enabled_;
  bool visible_ = false;
  Clock::time_point start_;
  Clock::time_point next_;  // not before: the first second, then ten times a second
};

}  // namespace shardproof::tools

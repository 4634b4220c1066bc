#include "tools/progress.h"

#include <unistd.h>

#include <iomanip>
#include <iostream>

namespace shardproof::tools {

ProgressLine::ProgressLine(bool wanted)
    : enabled_(wanted && ::isatty(STDERR_FILENO) == 1), start_(Clock::now()), next_(start_ + std::chrono::seconds(1)) {}

void ProgressLine::update(const std::string& what, std::int64_t done, std::int64_t total) {
  if (!enabled_) return;
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  visible_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::cerr << "\r\033[K" << what;
  if (total > 0) std::cerr << ": " << done << " of " << total;
  std::cerr << " (" << std::fixed << std::setprecision(0) << seconds << " s)" << std::flush;
}

void ProgressLine::wipe() {
  const std::lock_guard lock(mutex_);
  if (visible_) std::cerr << "\r\033[K" << std::flush;
  visible_ = false;
}

}  // namespace shardproof::tools

// How long a proof may take, and who is told how far it is.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace shardproof::verifier {

struct Progress {
  std::string phase;            // "reference", "plan", "claims", "diagnosis", "counterexample"
  std::int64_t done = 0;        // instructions or claims
  std::int64_t total = 0;
};

// 0: no limit.
struct ProofLimits {
  double timeout_seconds = 0;
  std::size_t memory_bytes = 0;  // resident memory of the process
  std::function<void(const Progress&)> progress;  // called now and then, from the calling thread
  const std::atomic<bool>* cancel = nullptr;      // set to true to stop
};

}  // namespace shardproof::verifier

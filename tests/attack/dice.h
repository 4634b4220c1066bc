// Random choices.
#pragma once

#include <cstdint>
#include <random>

namespace shardproof::attack {

class Dice {
 public:
  explicit Dice(std::mt19937_64& random) : random_(&random) {}

  std::int64_t below(std::int64_t count) { return static_cast<std::int64_t>((*random_)() % static_cast<std::uint64_t>(count)); }
  bool chance(int percent) { return below(100) < percent; }
  auto& one_of(auto&& list) { return list[static_cast<std::size_t>(below(static_cast<std::int64_t>(list.size())))]; }
  void shuffle(auto& list) {
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
  }

 private:
  std::mt19937_64* random_;
};

}  // namespace shardproof::attack

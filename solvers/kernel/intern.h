// Hash-consing: one id per distinct node. Open addressing over ids; the nodes live elsewhere. A look-up is a cache miss,
// so slots are kept small: half of the hash decides where to look and whether to compare.
#pragma once

#include <cstdint>
#include <vector>

namespace shardproof::solvers {

inline std::uint64_t mix(std::uint64_t x) {  // finaliser of splitmix64 (Steele, Lea, Flood 2014)
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}
inline std::uint64_t combine(std::uint64_t a, std::uint64_t b) { return mix(a * 0x9E3779B97F4A7C15ULL + mix(b) + 1); }
inline std::uint64_t hash_int(std::int64_t x) { return mix(static_cast<std::uint64_t>(x)); }

class InternTable {
 public:
  // Id of the node with this hash for which `same(id)` holds, or -1.
  template <typename Same>
  std::int32_t find(std::uint64_t hash, Same&& same) const {
    if (slots_.empty()) return -1;
    const auto half = static_cast<std::uint32_t>(hash);
    for (std::size_t i = half & mask_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.id < 0) return -1;
      if (slot.hash == half && same(slot.id)) return slot.id;
    }
  }
  void insert(std::uint64_t hash, std::int32_t id) {
    if ((count_ + 1) * 2 > slots_.size()) grow();
    place(static_cast<std::uint32_t>(hash), id);
    ++count_;
  }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t id = -1;
  };
  void place(std::uint32_t hash, std::int32_t id) {
    std::size_t i = hash & mask_;
    while (slots_[i].id >= 0) i = (i + 1) & mask_;
    slots_[i] = {hash, id};
  }
  void grow() {
    std::vector<Slot> old = std::move(slots_);
    slots_.assign(old.empty() ? 1024 : old.size() * 2, {});
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old)
      if (slot.id >= 0) place(slot.hash, slot.id);
  }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  std::size_t count_ = 0;
};

}  // namespace shardproof::solvers

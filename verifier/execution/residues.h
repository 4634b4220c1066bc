// Residues modulo the two primes of the field (field_numbers.h).
#pragma once

#include <cstdint>

namespace shardproof::execution::residues {

__extension__ using Wide = unsigned __int128;

// P = 2 Q + 1, both prime (checked by a test).
inline constexpr std::uint64_t kP = (std::uint64_t{1} << 61) - 2373;
inline constexpr std::uint64_t kQ = (std::uint64_t{1} << 60) - 1187;

// x mod (2^bits - gap) for x < 2^(2 bits): the high part counts `gap` times.
template <int bits, std::uint64_t gap>
std::uint64_t reduced(Wide x) {
  constexpr std::uint64_t modulus = (std::uint64_t{1} << bits) - gap;
  constexpr std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  x = (x & mask) + (x >> bits) * gap;
  x = (x & mask) + (x >> bits) * gap;
  auto r = static_cast<std::uint64_t>(x);
  while (r >= modulus) r -= modulus;
  return r;
}
inline std::uint64_t times_p(std::uint64_t a, std::uint64_t b) { return reduced<61, 2373>(Wide{a} * b); }
inline std::uint64_t times_q(std::uint64_t a, std::uint64_t b) { return reduced<60, 1187>(Wide{a} * b); }
inline std::uint64_t plus(std::uint64_t a, std::uint64_t b, std::uint64_t modulus) {
  const std::uint64_t sum = a + b;
  return sum >= modulus ? sum - modulus : sum;
}

}  // namespace shardproof::execution::residues

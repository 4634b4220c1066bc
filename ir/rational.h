// Exact rational numbers. Constants of a plan (1/8, 1e-5, 0.95) are exact; arithmetic that would
// overflow 64 bits throws std::overflow_error instead of wrapping (a wrapped coefficient could prove
// a wrong plan).
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardproof::ir {

// Overflow-checked 64-bit integer arithmetic. Throw std::overflow_error.
std::int64_t checked_add(std::int64_t a, std::int64_t b);
std::int64_t checked_mul(std::int64_t a, std::int64_t b);
std::int64_t floor_div(std::int64_t a, std::int64_t b);  // b > 0
std::int64_t floor_mod(std::int64_t a, std::int64_t b);  // b > 0, result in [0, b)
std::int64_t ceil_div(std::int64_t a, std::int64_t b);   // b > 0; not by negation, which the least integer has none of

// num/den in lowest terms, den > 0.
struct Rational {
  std::int64_t num = 0;
  std::int64_t den = 1;

  Rational() = default;
  Rational(std::int64_t value) : num(value) {}  // NOLINT: numbers convert
  Rational(std::int64_t numerator, std::int64_t denominator);  // denominator != 0

  bool is_zero() const { return num == 0; }
  bool is_one() const { return num == 1 && den == 1; }
  bool is_integer() const { return den == 1; }
  friend bool operator==(const Rational&, const Rational&) = default;
};

Rational operator+(Rational a, Rational b);
Rational operator-(Rational a, Rational b);
Rational operator-(Rational a);
Rational operator*(Rational a, Rational b);
Rational inverse(Rational a);              // a != 0
int sign(Rational a);                      // -1, 0, 1
std::strong_ordering compare(Rational a, Rational b);

// "3", "-1/8". Reads decimal ("0.1", "1e-5") and fraction ("1/8") text exactly; nullopt if malformed or
// not representable in 64 bits.
std::string to_string(Rational value);
std::optional<Rational> parse_rational(std::string_view text);

}  // namespace shardproof::ir

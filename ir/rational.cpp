#include "ir/rational.h"

#include <limits>
#include <stdexcept>

#include "ir/check.h"

namespace shardproof::ir {
namespace {

// Wide enough for one product of two 64-bit numbers and for the sum of two such products: |num| <= 2^63 and
// den < 2^63, so every intermediate below stays under 2^127.
__extension__ typedef __int128 Wide;

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

bool fits(Wide value) { return value >= kMin && value <= kMax; }

Wide gcd(Wide a, Wide b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b != 0) {
    const Wide rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

Rational reduced(Wide num, Wide den) {
  SHARDPROOF_CHECK(den != 0);
  if (den < 0) {
    num = -num;
    den = -den;
  }
  const Wide divisor = gcd(num, den);
  num /= divisor;
  den /= divisor;
  if (!fits(num) || !fits(den)) throw std::overflow_error("rational number exceeds 64 bits");
  Rational result;
  result.num = static_cast<std::int64_t>(num);
  result.den = static_cast<std::int64_t>(den);
  return result;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// An unsigned integer as text, at most 64 bits signed.
std::optional<std::int64_t> parse_digits(std::string_view text) {
  if (text.empty()) return std::nullopt;
  std::int64_t value = 0;
  for (const char c : text) {
    if (!is_digit(c)) return std::nullopt;
    if (__builtin_mul_overflow(value, std::int64_t{10}, &value)) return std::nullopt;
    if (__builtin_add_overflow(value, std::int64_t{c - '0'}, &value)) return std::nullopt;
  }
  return value;
}

// Long division of a decimal numeral by 2 or 5; the numeral is left unchanged if it does not divide.
bool divide_exactly(std::string& digits, int divisor) {
  std::string quotient;
  int rest = 0;
  for (const char c : digits) {
    const int value = rest * 10 + (c - '0');
    if (value / divisor != 0 || !quotient.empty()) quotient += static_cast<char>('0' + value / divisor);
    rest = value % divisor;
  }
  if (rest != 0) return false;
  digits = std::move(quotient);
  return true;
}

// digits * 10^exponent for a non-empty numeral without leading or trailing zeros. For a negative exponent the
// fraction is reduced before anything is multiplied, so that every representable number is read (2^-60 has a
// 42-digit numeral).
std::optional<Rational> scaled(std::string digits, std::int64_t exponent) {
  constexpr std::size_t kMaxDigits = 64;  // 5^62 * 2^63 is shorter: longer numerals cannot reduce to 64 bits
  if (digits.size() > kMaxDigits || exponent > 18 || exponent < -80) return std::nullopt;
  int twos = exponent < 0 ? static_cast<int>(-exponent) : 0;
  int fives = twos;
  while (twos > 0 && divide_exactly(digits, 2)) --twos;
  while (fives > 0 && divide_exactly(digits, 5)) --fives;
  std::optional<std::int64_t> num = parse_digits(digits);
  if (!num) return std::nullopt;
  std::int64_t den = 1;
  for (; twos > 0; --twos) {
    if (__builtin_mul_overflow(den, std::int64_t{2}, &den)) return std::nullopt;
  }
  for (; fives > 0; --fives) {
    if (__builtin_mul_overflow(den, std::int64_t{5}, &den)) return std::nullopt;
  }
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(*num, std::int64_t{10}, &*num)) return std::nullopt;
  }
  return Rational(*num, den);
}

// digits [. digits] [e [sign] digits], no sign in front.
std::optional<Rational> parse_decimal(std::string_view text) {
  std::string digits;
  std::int64_t exponent = 0;
  std::size_t i = 0;
  for (; i < text.size() && is_digit(text[i]); ++i) digits += text[i];
  if (digits.empty()) return std::nullopt;
  if (i < text.size() && text[i] == '.') {
    const std::size_t first = ++i;
    for (; i < text.size() && is_digit(text[i]); ++i) digits += text[i];
    if (i == first) return std::nullopt;
    exponent -= static_cast<std::int64_t>(i - first);
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    const bool negative = i < text.size() && text[i] == '-';
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    const std::size_t first = i;
    std::int64_t written = 0;
    for (; i < text.size() && is_digit(text[i]); ++i) {
      if (written < kMax / 100) written = written * 10 + (text[i] - '0');  // saturates: out of range either way
    }
    if (i == first) return std::nullopt;
    exponent += negative ? -written : written;
  }
  if (i != text.size()) return std::nullopt;
  const std::size_t begin = digits.find_first_not_of('0');
  if (begin == std::string::npos) return Rational(0);
  const std::size_t end = digits.find_last_not_of('0') + 1;
  exponent += static_cast<std::int64_t>(digits.size() - end);
  return scaled(digits.substr(begin, end - begin), exponent);
}

}  // namespace

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) throw std::overflow_error("integer sum exceeds 64 bits");
  return result;
}

std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) throw std::overflow_error("integer product exceeds 64 bits");
  return result;
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  SHARDPROOF_CHECK(b > 0);
  return a / b - (a % b < 0 ? 1 : 0);
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  SHARDPROOF_CHECK(b > 0);
  return a / b + (a % b > 0 ? 1 : 0);
}

std::int64_t floor_mod(std::int64_t a, std::int64_t b) {
  SHARDPROOF_CHECK(b > 0);
  const std::int64_t rest = a % b;
  return rest < 0 ? rest + b : rest;
}

Rational::Rational(std::int64_t numerator, std::int64_t denominator) { *this = reduced(numerator, denominator); }

Rational operator+(Rational a, Rational b) {
  return reduced(Wide{a.num} * b.den + Wide{b.num} * a.den, Wide{a.den} * b.den);
}

Rational operator-(Rational a, Rational b) {
  return reduced(Wide{a.num} * b.den - Wide{b.num} * a.den, Wide{a.den} * b.den);
}

Rational operator-(Rational a) { return reduced(-Wide{a.num}, a.den); }

Rational operator*(Rational a, Rational b) { return reduced(Wide{a.num} * b.num, Wide{a.den} * b.den); }

Rational inverse(Rational a) {
  SHARDPROOF_CHECK(!a.is_zero());
  return reduced(a.den, a.num);
}

int sign(Rational a) { return a.num > 0 ? 1 : a.num < 0 ? -1 : 0; }

std::strong_ordering compare(Rational a, Rational b) {
  const Wide left = Wide{a.num} * b.den;
  const Wide right = Wide{b.num} * a.den;
  if (left < right) return std::strong_ordering::less;
  return left > right ? std::strong_ordering::greater : std::strong_ordering::equal;
}

std::string to_string(Rational value) {
  std::string text = std::to_string(value.num);
  if (!value.is_integer()) text += "/" + std::to_string(value.den);
  return text;
}

std::optional<Rational> parse_rational(std::string_view text) {
  const bool negative = !text.empty() && text.front() == '-';
  std::string_view rest = negative ? text.substr(1) : text;
  // The least 64-bit number has no positive counterpart to negate.
  if (text == "-9223372036854775808") return Rational(kMin);
  std::optional<Rational> value;
  if (const std::size_t slash = rest.find('/'); slash != std::string_view::npos) {
    const auto num = parse_digits(rest.substr(0, slash));
    const auto den = parse_digits(rest.substr(slash + 1));
    if (!num || !den || *den == 0) return std::nullopt;
    value = Rational(*num, *den);
  } else {
    value = parse_decimal(rest);
  }
  if (value && negative) value = -*value;
  return value;
}

}  // namespace shardproof::ir

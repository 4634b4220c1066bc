#include "verifier/execution/field_numbers.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

namespace shardproof::execution {

namespace {

using Number = FieldNumber;
using Kind = FieldNumber::Kind;
using residues::kP;
using residues::kQ;
using residues::plus;
using residues::times_p;
using residues::times_q;
constexpr std::uint64_t kGenerator = 4;  // a square, so of order Q

std::uint64_t minus(std::uint64_t a, std::uint64_t modulus) { return a == 0 ? 0 : modulus - a; }

template <typename Times>
std::uint64_t raised(std::uint64_t base, std::uint64_t exponent, const Times& times) {
  std::uint64_t result = 1;
  for (; exponent > 0; exponent >>= 1U) {
    if ((exponent & 1U) != 0) result = times(result, base);
    base = times(base, base);
  }
  return result;
}
std::uint64_t inverse_p(std::uint64_t a) { return raised(a, kP - 2, times_p); }
std::uint64_t inverse_q(std::uint64_t a) { return raised(a, kQ - 2, times_q); }

std::uint64_t residue(std::int64_t value, std::uint64_t modulus) {
  const auto m = static_cast<std::int64_t>(modulus);
  const std::int64_t r = value % m;
  return static_cast<std::uint64_t>(r < 0 ? r + m : r);
}

// SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t x, std::uint64_t salt) {
  x += 0x9e3779b97f4a7c15ULL * (salt + 1);
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}
constexpr std::uint64_t kExponentSalt = 1;  // of second components; functions have those of their opcode + 100

std::uint64_t exponent_of(std::uint64_t p) { return mix(p, kExponentSalt) % kQ; }

Number number(std::uint64_t p, std::uint64_t q, bool hashed) { return {p, q, 1, hashed, Kind::number}; }
Number hashed_number(std::uint64_t p) { return number(p, exponent_of(p), true); }
Number undefined_number() { return {0, 0, 1, false, Kind::undefined}; }

Number hash_of(std::uint64_t p, std::uint64_t salt) { return hashed_number(mix(p, salt) % kP); }

// The one of x and -x that stands for both, and whether it is the other one.
std::pair<std::uint64_t, bool> unsigned_part(std::uint64_t p) {
  const std::uint64_t negative = minus(p, kP);
  return negative < p ? std::pair{negative, true} : std::pair{p, false};
}

bool all_numbers(const Number& a, const Number& b) { return a.kind == Kind::number && b.kind == Kind::number; }

Number exponential(const Number& x) {
  if (x.kind == Kind::negative_infinity) return number(0, 0, false);
  if (x.p == 0 && x.q == 0 && x.factor == 1) return number(1, 1, false);  // exp(0) = 1, the integer
  return hashed_number(times_p(x.factor, raised(kGenerator, x.q, times_p)));
}

}  // namespace

std::uint64_t inverse_residue(std::uint64_t a) { return inverse_p(a); }
std::uint64_t residue_of(ir::Rational value) { return times_p(residue(value.num, kP), inverse_p(residue(value.den, kP))); }

struct FieldNumbers::Sets {
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> members;  // number -> sorted members
};

FieldNumbers::FieldNumbers(bool zero_garbage) : sets_(std::make_unique<Sets>()), zero_garbage_(zero_garbage) {}
FieldNumbers::~FieldNumbers() = default;
FieldNumbers::FieldNumbers(FieldNumbers&&) noexcept = default;

Number FieldNumbers::from(std::int64_t value) const { return number(residue(value, kP), residue(value, kQ), false); }
Number FieldNumbers::from(ir::Rational value) const {
  const Number numerator = from(value.num);
  return value.den == 1 ? numerator : div(numerator, from(value.den));
}
std::int64_t FieldNumbers::to_integer(const Number& x) const {
  const auto [magnitude, negative] = unsigned_part(x.p);
  if (x.kind != Kind::number || magnitude >= (std::uint64_t{1} << 40U)) throw ExecutionError("not an integer");
  return negative ? -static_cast<std::int64_t>(magnitude) : static_cast<std::int64_t>(magnitude);
}
Number FieldNumbers::negative_infinity() const { return {0, 0, 1, false, Kind::negative_infinity}; }
Number FieldNumbers::unit(std::uint64_t bits) const { return number(mix(bits, 2) % kP, mix(bits, 3) % kQ, false); }

Number FieldNumbers::add_others(const Number& a, const Number& b) const {
  if (all_numbers(a, b))
    return {plus(a.p, b.p, kP), plus(a.q, b.q, kQ), times_p(a.factor, b.factor), a.hashed || b.hashed, Kind::number};
  return a.kind == Kind::undefined || b.kind == Kind::undefined ? undefined_number() : negative_infinity();
}
Number FieldNumbers::neg(const Number& a) const {
  if (a.kind != Kind::number) return undefined_number();  // plus infinity is not a number of this domain
  return {minus(a.p, kP), minus(a.q, kQ), a.factor == 1 ? 1 : inverse_p(a.factor), a.hashed, Kind::number};
}
Number FieldNumbers::sub(const Number& a, const Number& b) const { return add(a, neg(b)); }
Number FieldNumbers::mul(const Number& a, const Number& b) const {
  if (!all_numbers(a, b)) return undefined_number();
  if (a.p == 1 && !a.hashed) return b;
  if (b.p == 1 && !b.hashed) return a;
  if (a.p == kP - 1 && !a.hashed) return neg(b);
  if (b.p == kP - 1 && !b.hashed) return neg(a);
  if (a.hashed || b.hashed) return hashed_number(times_p(a.p, b.p));
  return number(times_p(a.p, b.p), times_q(a.q, b.q), false);
}
Number FieldNumbers::div(const Number& a, const Number& b) const {
  if (!all_numbers(a, b) || b.p == 0) return undefined_number();
  if (a.hashed || b.hashed || b.q == 0) return hashed_number(times_p(a.p, inverse_p(b.p)));
  return number(times_p(a.p, inverse_p(b.p)), times_q(a.q, inverse_q(b.q)), false);
}
Number FieldNumbers::contracted(Number a) const { return a.kind == Kind::number && a.hashed ? hashed_number(a.p) : a; }

Number FieldNumbers::apply(ir::OpCode function, const Number& x) const {
  if (x.kind == Kind::undefined) return x;
  if (function == ir::OpCode::exp) return exponential(x);
  if (x.kind == Kind::negative_infinity) return undefined_number();
  const std::uint64_t salt = 100 + static_cast<std::uint64_t>(function);
  const Number one = from(std::int64_t{1});
  switch (function) {
    case ir::OpCode::log: {
      if (x.p == 0) return undefined_number();
      if (x.p == 1) return from(std::int64_t{0});
      Number result = hash_of(x.p, salt);
      result.q = 0;
      result.factor = x.p;
      return result;
    }
    case ir::OpCode::reciprocal: return div(one, x);
    case ir::OpCode::sqrt: return x.p <= 1 ? x : hash_of(x.p, salt);
    case ir::OpCode::rsqrt: return div(one, apply(ir::OpCode::sqrt, x));
    case ir::OpCode::sigmoid: return div(one, add(one, exponential(neg(x))));
    case ir::OpCode::tanh: {  // 2 sigmoid(2x) - 1
      const Number s = apply(ir::OpCode::sigmoid, add(x, x));
      return sub(add(s, s), one);
    }
    case ir::OpCode::erf:
    case ir::OpCode::sin: {
      if (x.p == 0) return x;
      const auto [part, negative] = unsigned_part(x.p);
      const Number result = hash_of(part, salt);
      return negative ? neg(result) : result;
    }
    case ir::OpCode::cos: return x.p == 0 ? one : hash_of(unsigned_part(x.p).first, salt);
    case ir::OpCode::abs: return x.p == 0 ? x : hash_of(unsigned_part(x.p).first, salt);
    default: throw ExecutionError("not a function of one number");
  }
}

Number FieldNumbers::power(const Number& base, std::int64_t exponent) const {
  if (base.kind != Kind::number || (base.p == 0 && exponent < 0)) return undefined_number();
  if (exponent < 0) return div(from(std::int64_t{1}), power(base, -exponent));
  Number result = from(std::int64_t{1});
  Number square = base;
  for (; exponent > 0; exponent >>= 1U) {
    if ((exponent & 1) != 0) result = mul(result, square);
    square = mul(square, square);
  }
  return result;
}
Number FieldNumbers::pow(const Number& x, ir::Rational exponent) const {
  if (exponent.is_integer()) return power(x, exponent.num);
  if (exponent.den == 2) return power(apply(ir::OpCode::sqrt, x), exponent.num);
  if (x.kind != Kind::number) return undefined_number();
  return hash_of(mix(mix(x.p, residue(exponent.num, kP)), residue(exponent.den, kP)), 4);
}

Number FieldNumbers::greatest(std::span<const Number> values) const {
  std::vector<std::uint64_t> members;
  for (const Number& x : values) {
    if (x.kind == Kind::undefined) return x;
    if (x.kind == Kind::negative_infinity) continue;
    const auto set = sets_->members.find(x.p);
    if (set == sets_->members.end()) {
      members.push_back(x.p);
    } else {
      members.insert(members.end(), set->second.begin(), set->second.end());
    }
  }
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  if (members.empty()) return negative_infinity();
  if (members.size() == 1) {  // itself, with its own second component
    for (const Number& x : values)
      if (x.kind == Kind::number) return x;
  }
  std::uint64_t hash = members.size();
  for (const std::uint64_t member : members) hash = mix(hash ^ member, 5);
  const Number result = hashed_number(hash % kP);
  sets_->members.try_emplace(result.p, std::move(members));
  return result;
}
Number FieldNumbers::least(std::span<const Number> values) const {
  std::vector<Number> negated;
  for (const Number& x : values) negated.push_back(neg(x));
  return neg(greatest(negated));
}

// A hash that is antisymmetric: one of a < b and b < a holds where a and b differ.
bool FieldNumbers::less(const Number& a, const Number& b) const {
  if (a == b || b.kind == Kind::negative_infinity) return false;
  if (a.kind == Kind::negative_infinity) return true;
  const auto [part, negative] = unsigned_part(plus(a.p, minus(b.p, kP), kP));
  return ((mix(part, 6) & 1U) != 0) != negative;
}

Number FieldNumbers::any(std::mt19937_64& random) const {
  const std::uint64_t p = random() % kP;
  return number(p, random() % kQ, false);
}

}  // namespace shardproof::execution

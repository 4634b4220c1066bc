// Numbers of a prime field as a domain of execution (random evaluation in the sense of Schwartz and Zippel): two
// polynomials that differ are equal at a random point with a probability of about degree / 2^61, and no rounding blurs
// the answer. Two fields are used together so that exp keeps its law (Mirage: Wu et al., OSDI 2025): P = 2 Q + 1 is a
// safe prime, a number is known modulo P and modulo Q, and exp(x) = g^(x mod Q) mod P with g of order Q, so that
// exp(a + b) = exp(a) exp(b).
//   - After exp the second component is a hash of the first; a product or sum over tensors with such a number takes the
//     hash of its own first component again (`contracted`), so that it depends on the value and not on the way to it.
//   - log(x) is a hash that remembers x, so that exp(log x) = x and exp(s - log x) = exp(s) / x.
//   - max is the hash of the SET of what it was taken of (idempotent, commutative, associative; minus infinity is the
//     empty set). Numbers of a field have no order, and an order of their representatives would make max of a set and
//     of almost all of it equal too often.
//   - other functions are hashes that keep parity (sin, erf, tanh odd; cos, abs even).
// Laws of the reals beyond these do not hold (log of a product, rsqrt(x)^2 x = 1, max(x + c) = max(x) + c): a difference
// here may be a missing law and has to be replayed in floats; equality is as good as certain where no order of reals is
// compared (`less` on reals is a hash too).
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>

#include "ir/op_schema.h"
#include "ir/rational.h"
#include "verifier/execution/residues.h"
#include "verifier/execution/tensor.h"

namespace shardproof::execution {

struct FieldNumber {
  std::uint64_t p = 0;       // modulo P
  std::uint64_t q = 0;       // modulo Q: the exponent if exp is applied
  std::uint64_t factor = 1;  // modulo P: exp(this) = factor * g^q
  bool hashed = false;       // q does not follow from the inputs' second components: products have to hash again
  enum class Kind : std::uint8_t { number, negative_infinity, undefined } kind = Kind::number;

  // As values: what only decides a later exp does not count.
  friend bool operator==(const FieldNumber& a, const FieldNumber& b) { return a.kind == b.kind && a.p == b.p; }
};

// Residues modulo P.
std::uint64_t inverse_residue(std::uint64_t a);  // a != 0
std::uint64_t residue_of(ir::Rational value);

class FieldNumbers {
 public:
  using Number = FieldNumber;

  explicit FieldNumbers(bool zero_garbage = false);  // as in RealNumbers
  ~FieldNumbers();
  FieldNumbers(FieldNumbers&&) noexcept;

  Number from(std::int64_t value) const;
  Number from(ir::Rational value) const;
  std::int64_t to_integer(const Number& x) const;  // throws ExecutionError unless |x| < 2^40
  Number negative_infinity() const;
  Number unit(std::uint64_t bits) const;

  Number add(const Number& a, const Number& b) const {
    if (a.kind == Number::Kind::number && b.kind == Number::Kind::number && a.factor == 1 && b.factor == 1)
      return {residues::plus(a.p, b.p, residues::kP), residues::plus(a.q, b.q, residues::kQ), 1, a.hashed || b.hashed, Number::Kind::number};
    return add_others(a, b);
  }
  Number sub(const Number& a, const Number& b) const;
  Number mul(const Number& a, const Number& b) const;
  Number div(const Number& a, const Number& b) const;
  Number neg(const Number& a) const;
  Number contracted(Number a) const;
  // A product that is only added up, until the sum is `contracted`, which takes a hash once for all of them.
  Number summand(const Number& a, const Number& b) const {
    const bool plain = a.kind == Number::Kind::number && b.kind == Number::Kind::number;
    if (!plain || !(a.hashed || b.hashed)) return mul(a, b);
    return {residues::times_p(a.p, b.p), 0, 1, true, Number::Kind::number};
  }
  Number apply(ir::OpCode function, const Number& x) const;
  Number pow(const Number& x, ir::Rational exponent) const;
  Number power(const Number& base, std::int64_t exponent) const;
  Number greatest(std::span<const Number> values) const;
  Number least(std::span<const Number> values) const;
  bool less(const Number& a, const Number& b) const;
  bool equal(const Number& a, const Number& b) const { return a == b; }
  bool undefined(const Number& a) const { return a.kind == Number::Kind::undefined; }

  Number garbage(std::mt19937_64& random) const { return zero_garbage_ ? from(std::int64_t{0}) : any(random); }
  Number any(std::mt19937_64& random) const;
  Number positive(std::mt19937_64& random) const { return any(random); }
  Number not_greater(const Number& x, std::mt19937_64&) const { return x; }  // the only ones in a world without order
  Number not_less(const Number& x, std::mt19937_64&) const { return x; }

 private:
  Number add_others(const Number& a, const Number& b) const;

  struct Sets;  // which numbers are maxima, and of what
  std::unique_ptr<Sets> sets_;
  bool zero_garbage_;
};

}  // namespace shardproof::execution

// Floating-point numbers as a domain of execution: what a person reads as inputs and results of a counterexample.
// `double` is what a plan is replayed in; `long double` beside it shows how much of a difference is rounding.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <random>
#include <span>

#include "ir/op_schema.h"
#include "ir/rational.h"
#include "verifier/execution/tensor.h"

namespace shardproof::execution {

template <std::floating_point F>
class RealNumbers {
 public:
  using Number = F;

  // `zero_garbage`: what a placement leaves open is 0, which is where a plan that divides by it fails.
  explicit RealNumbers(bool zero_garbage = false) : zero_garbage_(zero_garbage) {}

  F from(std::int64_t value) const { return static_cast<F>(value); }
  F from(ir::Rational value) const { return static_cast<F>(value.num) / static_cast<F>(value.den); }
  std::int64_t to_integer(F x) const { return static_cast<std::int64_t>(x); }
  F negative_infinity() const { return -std::numeric_limits<F>::infinity(); }
  // A number in [0, 1) from 53 random bits.
  F unit(std::uint64_t bits) const { return static_cast<F>(bits) * static_cast<F>(0x1.0p-53); }

  F add(F a, F b) const { return a + b; }
  F sub(F a, F b) const { return a - b; }
  F mul(F a, F b) const { return a * b; }
  F summand(F a, F b) const { return a * b; }  // of a sum that is `contracted`
  F div(F a, F b) const { return a / b; }
  F neg(F a) const { return -a; }
  F contracted(F a) const { return a; }  // see FieldNumbers

  F apply(ir::OpCode function, F x) const {
    switch (function) {
      case ir::OpCode::exp: return exponential(x);
      case ir::OpCode::log: return std::log(x);
      case ir::OpCode::sqrt: return std::sqrt(x);
      case ir::OpCode::rsqrt: return F{1} / std::sqrt(x);
      case ir::OpCode::reciprocal: return F{1} / x;
      case ir::OpCode::tanh: return std::tanh(x);
      case ir::OpCode::erf: return std::erf(x);
      case ir::OpCode::sigmoid: return F{1} / (F{1} + std::exp(-x));
      case ir::OpCode::sin: return std::sin(x);
      case ir::OpCode::cos: return std::cos(x);
      case ir::OpCode::abs: return std::abs(x);
      default: throw ExecutionError("not a function of one number");
    }
  }
  F pow(F x, ir::Rational exponent) const { return std::pow(x, from(exponent)); }
  F power(F base, std::int64_t exponent) const { return std::pow(base, static_cast<F>(exponent)); }

  // NaN wins, as in LibTorch.
  F greatest(std::span<const F> values) const {
    F result = values.front();
    for (const F x : values.subspan(1)) result = std::isnan(result) || x <= result ? result : x;
    return result;
  }
  F least(std::span<const F> values) const {
    F result = values.front();
    for (const F x : values.subspan(1)) result = std::isnan(result) || x >= result ? result : x;
    return result;
  }
  bool less(F a, F b) const { return a < b; }
  bool equal(F a, F b) const { return a == b; }
  bool undefined(F a) const { return std::isnan(a); }

  // Contents of what a placement leaves open. Positive, so that a root of it does not turn a harmless use (times zero)
  // into NaN; one number, so that a person can tell it to another.
  F garbage(std::mt19937_64&) const { return zero_garbage_ ? F{0} : F{3} / F{4}; }
  // Any number, for summands, and a positive one, for factors.
  F any(std::mt19937_64& random) const { return static_cast<F>(normal(random)); }
  F positive(std::mt19937_64& random) const { return static_cast<F>(uniform(random, 0.5, 2.0)); }
  F not_greater(F x, std::mt19937_64& random) const { return x - static_cast<F>(uniform(random, 0.0, 2.0)); }
  F not_less(F x, std::mt19937_64& random) const { return x + static_cast<F>(uniform(random, 0.0, 2.0)); }

 private:
  // Of a number it is positive, so that a zero tells the masked scores.
  static F exponential(F x) {
    const F result = std::exp(x);
    return result == 0 && std::isfinite(x) ? std::numeric_limits<F>::denorm_min() : result;
  }

  bool zero_garbage_;
};

}  // namespace shardproof::execution

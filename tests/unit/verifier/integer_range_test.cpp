// Intervals of integer terms against all values that the terms have.
#include "verifier/kernel/integer_range.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

namespace shardproof::verifier {
namespace {

using solvers::Function;
using solvers::Reduction;
using solvers::TermId;
using solvers::TermPool;
using solvers::VarId;

constexpr std::int64_t kRows = 4, kColumns = 3;

// A term over two element variables together with what it is.
struct Integer {
  TermId term;
  std::function<std::int64_t(std::int64_t, std::int64_t)> value;
};

class Generator {
 public:
  Generator(TermPool& pool, unsigned seed) : pool_(pool), random_(seed), row_(pool.element(0, kRows)), column_(pool.element(1, kColumns)) {}

  Integer integer(int depth) {
    switch (depth == 0 ? below(3) : below(9)) {
      case 0: return {pool_.index_value(pool_.index_var(row_)), [](std::int64_t i, std::int64_t) { return i; }};
      case 1: return {pool_.index_value(pool_.index_scale(pool_.index_var(column_), -2, 1)), [](std::int64_t, std::int64_t j) { return 1 - 2 * j; }};
      case 2: {
        const std::int64_t c = below(9) - 4;
        return {pool_.constant(ir::Rational(c)), [c](std::int64_t, std::int64_t) { return c; }};
      }
      case 3: return both(depth, [this](TermId a, TermId b) { return pool_.add(a, b); }, [](std::int64_t a, std::int64_t b) { return a + b; });
      case 4: return both(depth, [this](TermId a, TermId b) { return pool_.sub(a, b); }, [](std::int64_t a, std::int64_t b) { return a - b; });
      case 5: return both(depth, [this](TermId a, TermId b) { return pool_.mul(a, b); }, [](std::int64_t a, std::int64_t b) { return a * b; });
      case 6: return both(depth, [this](TermId a, TermId b) { return pool_.apply(Function::max, {a, b}); }, [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
      case 7: {
        const Integer a = integer(depth - 1);
        return {pool_.apply(Function::abs, {a.term}), [a](std::int64_t i, std::int64_t j) { return std::abs(a.value(i, j)); }};
      }
      default: {
        const Integer a = integer(depth - 1);
        const bool largest = below(2) == 0;
        TermPool::FreshScope scope(pool_);
        const VarId bound = scope.fresh(kColumns);
        solvers::Substitution s;
        s.set(column_, pool_.index_var(bound));
        const TermId reduced = pool_.reduce(largest ? Reduction::max : Reduction::sum, {bound}, pool_.substitute(a.term, s));
        return {reduced, [a, largest](std::int64_t i, std::int64_t) {
                  std::int64_t total = largest ? std::numeric_limits<std::int64_t>::min() : 0;
                  for (std::int64_t j = 0; j < kColumns; ++j) total = largest ? std::max(total, a.value(i, j)) : total + a.value(i, j);
                  return total;
                }};
      }
    }
  }

 private:
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }
  Integer both(int depth, const std::function<TermId(TermId, TermId)>& term, std::int64_t (*value)(std::int64_t, std::int64_t)) {
    const Integer a = integer(depth - 1), b = integer(depth - 1);
    return {term(a.term, b.term), [a, b, value](std::int64_t i, std::int64_t j) { return value(a.value(i, j), b.value(i, j)); }};
  }

  TermPool& pool_;
  std::mt19937_64 random_;
  VarId row_, column_;
};

TEST(IntegerRange, HoldsEveryValue) {
  TermPool pool;
  solvers::AtomTable atoms(pool, {});
  IntegerRange ranges(atoms);
  int tight = 0;
  for (unsigned seed = 1; seed <= 3000; ++seed) {
    Generator generator(pool, seed);
    const Integer integer = generator.integer(3);
    const IntegerRange::Interval range = ranges.of(integer.term, {});
    ASSERT_FALSE(range.undeclared) << pool.to_string(integer.term);
    if (range.unknown) continue;
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), greatest = std::numeric_limits<std::int64_t>::min();
    for (std::int64_t i = 0; i < kRows; ++i)
      for (std::int64_t j = 0; j < kColumns; ++j) {
        least = std::min(least, integer.value(i, j));
        greatest = std::max(greatest, integer.value(i, j));
      }
    EXPECT_LE(range.lo, least) << seed << ": " << pool.to_string(integer.term);
    EXPECT_GE(range.hi, greatest) << seed << ": " << pool.to_string(integer.term);
    tight += range.lo == least && range.hi == greatest ? 1 : 0;
  }
  EXPECT_GT(tight, 1000);  // wide enough for everything would be right, and of no use
}

TEST(IntegerRange, WhatIsNotDeclaredIsSaid) {
  TermPool pool;
  solvers::AtomTable atoms(pool, {});
  IntegerRange ranges(atoms);
  const auto tensor = [&](const char* name) { return atoms.opaque({name, {}, false, 0}); };
  const solvers::TensorId any = tensor("any"), byte = tensor("byte"), literal = tensor("literal");
  ranges.know(byte, -128, 127, true);
  ranges.know(literal, 3, 5);
  const auto of = [&](solvers::TensorId a, solvers::TensorId b) { return ranges.of(pool.add(pool.access(a, {}), pool.access(b, {})), {}); };
  EXPECT_TRUE(of(any, literal).undeclared);
  EXPECT_TRUE(of(any, literal).unknown);
  EXPECT_TRUE(of(byte, literal).undeclared);
  EXPECT_EQ(of(byte, literal).hi, 132);
  EXPECT_FALSE(of(literal, literal).undeclared);
  EXPECT_EQ(of(literal, literal).lo, 6);
  // Beyond 64 bits nothing is known.
  const TermId large = pool.scale(pool.access(byte, {}), ir::Rational(std::int64_t{1} << 60));
  EXPECT_TRUE(ranges.of(large, {}).unknown);
}

}  // namespace
}  // namespace shardproof::verifier

// Joining a sum with one more instance of its summand, against evaluation.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <stdexcept>

#include "tests/unit/solvers/term_generator.h"

namespace shardproof::solvers::testing {
namespace {

struct Tally {
  std::uint64_t cases = 0, joined = 0, compared = 0;
};

// Where `joined` is a term, it must have the value of first + second.
void compare(TermPool& pool, std::uint64_t seed, const std::vector<VarId>& vars, TermId first, TermId second, const std::optional<TermId>& joined,
             Random& random, Tally& tally) {
  ++tally.cases;
  if (!joined) return;
  ++tally.joined;
  const TensorContents contents = hashed_contents(pool, seed);
  for (const Assignment& values : assignments(pool, vars, 16, random)) {
    const double expected = evaluate(pool, first, values, contents) + evaluate(pool, second, values, contents);
    if (!std::isfinite(expected) || std::fabs(expected) > 1e6) continue;
    ++tally.compared;
    ASSERT_TRUE(close(expected, evaluate(pool, *joined, values, contents)))
        << "seed " << seed << ": " << pool.to_string(first) << "\n and " << pool.to_string(second) << "\n-> " << pool.to_string(*joined);
  }
}

Term summand(TermGenerator& generator, Random& random) {
  std::vector<Term> factors{generator.factor()};
  if (random.chance(50)) factors.push_back(generator.factor());
  if (random.chance(40)) factors.push_back(generator.guard());
  if (random.chance(30)) {
    const VarId inner = generator.bind(random.between(2, 4));
    factors.push_back(generator.factor());
    if (random.chance(40)) factors.push_back(generator.guard());
    generator.unbind();
    return reduce(Reduction::sum, {inner}, multiply(std::move(factors)));
  }
  return multiply(std::move(factors));
}

TEST(RollFuzz, OneMoreInstance) {
  Tally extended, paired;
  for (std::uint64_t seed = first_seed(); seed <= last_seed(12'000); ++seed) {
    TermPool pool({3000, 600});
    Random random(seed);
    TermGenerator generator(pool, random, {});
    const std::int64_t extent = random.between(2, 5);
    const VarId t = generator.bind(extent);
    const Term body = summand(generator, random);
    generator.unbind();
    const Term outside = random.chance(50) ? constant(random.between(1, 3)) : generator.factor();
    const auto instance = [&](std::int64_t from, std::int64_t wrong_percent) {
      if (random.chance(static_cast<int>(wrong_percent))) from = random.between(-1, extent + 1);
      return multiply({random.chance(95) ? outside : constant(2), replace(body, t, number(from))});
    };
    try {
      const bool front = random.chance(40);
      const std::int64_t shift = front ? 1 : 0;
      const TermId total = build(pool, multiply({outside, reduce(Reduction::sum, {t}, replace(body, t, linear(shift, {{1, variable(t)}})))}));
      const TermId next = build(pool, instance(front ? 0 : extent, 25));
      compare(pool, seed, generator.free_vars(), total, next, pool.extend_sum(total, next), random, extended);

      const VarId two = pool.named(VarKind::loop, "two", 2);
      const TermId first = build(pool, instance(0, 15)), second = build(pool, instance(1, 15));
      const TermId guess = build(pool, multiply({outside, replace(body, t, variable(two))}));
      compare(pool, seed, generator.free_vars(), first, second, pool.sum_of_two(guess, two, first, second), random, paired);
    } catch (const BudgetExceeded&) {
    } catch (const std::overflow_error&) {
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
  for (const Tally& tally : {extended, paired}) {
    std::cout << "compared " << tally.compared << ", joined " << tally.joined << " of " << tally.cases << "\n";
    EXPECT_GT(tally.joined, tally.cases / 5);
    EXPECT_LT(tally.joined, tally.cases * 99 / 100);
    EXPECT_GT(tally.compared, 20'000U);
  }
}

// The shards before and part of this one; sometimes off by one, over too short a range or with another summand.
TEST(RollFuzz, RunningSums) {
  Tally tally;
  for (std::uint64_t seed = first_seed(); seed <= last_seed(6'000); ++seed) {
    TermPool pool({3000, 600});
    Random random(seed);
    const std::int64_t ranks = random.between(2, 4), length = random.between(2, 5);
    const VarId rank = pool.named(VarKind::mesh, "r", ranks), local = pool.named(VarKind::mesh, "i", length);
    const TensorId x = pool.new_tensor({"x", {64}, false, 0}), y = pool.new_tensor({"y", {64}, false, 0});
    const auto off = [&](std::int64_t percent) { return random.chance(static_cast<int>(percent)) ? random.between(-2, 2) : 0; };
    const bool squared = random.chance(30);
    const auto summand = [&](IndexId place) {
      const TermId value = pool.access(random.chance(4) ? y : x, {place});
      return squared ? pool.mul(value, pool.access(y, {pool.index_scale(place, 1, off(4))})) : value;
    };
    const IndexId start = pool.index_scale(pool.index_var(rank), length + off(5), random.chance(70) ? 0 : random.between(0, 3));
    const VarId v = pool.named(VarKind::loop, "v", ranks * length + off(5) + 3), w = pool.named(VarKind::loop, "w", length);
    const IndexId place = pool.index_var(v);
    const TermId before = pool.reduce(Reduction::sum, {v}, pool.mul(summand(place), pool.range(pool.index_sub(place, start), -kUnbounded, -1 + off(10))));
    const IndexId last = random.chance(70) ? pool.index_var(local) : pool.index_constant(random.between(0, length));
    const TermId up_to = pool.range(pool.index_sub(pool.index_var(w), last), random.chance(10) ? -1 : -kUnbounded, off(10));
    const TermId window = pool.reduce(Reduction::sum, {w}, pool.mul(summand(pool.index_linear(start, 1, pool.index_var(w), 1, off(8))), up_to));
    compare(pool, seed, {rank, local}, before, window, pool.continue_sum(before, window), random, tally);
    // The shards before as ranks and places, with a guard on the rank alone.
    const VarId a = pool.named(VarKind::loop, "a", ranks), b = pool.named(VarKind::loop, "b", length);
    const IndexId merged = pool.index_linear(pool.index_var(a), length, pool.index_var(b), 1);
    const TermId guard = pool.range(pool.index_sub(pool.index_var(a), pool.index_var(rank)), random.chance(20) ? -1 : -kUnbounded, -1 + off(30));
    const TermId digits = pool.mul(pool.mul(summand(merged), guard), random.chance(20) ? pool.access(y, {pool.index_var(a)}) : pool.one());
    const TermId total = pool.reduce(Reduction::sum, {a, b}, digits);
    TermId written = pool.zero();
    for (std::int64_t p = 0; p < ranks; ++p)
      for (std::int64_t q = 0; q < length; ++q) {
        Substitution at;
        at.set(a, pool.index_constant(p));
        at.set(b, pool.index_constant(q));
        written = pool.add(written, pool.substitute(digits, at));
      }
    compare(pool, seed, {rank, local}, written, pool.zero(), total, random, tally);
  }
  std::cout << "joined " << tally.joined << " of " << tally.cases << ", compared " << tally.compared << "\n";
  EXPECT_GT(tally.joined, 6'000U + 2'000U);  // all of the second kind, and a third of the first
}

}  // namespace
}  // namespace shardproof::solvers::testing

// Scalar terms against direct evaluation of the expression as written.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <stdexcept>

#include "tests/unit/solvers/term_generator.h"

namespace shardproof::solvers::testing {
namespace {

struct Tally {
  std::uint64_t compared = 0, undefined = 0, over_budget = 0;
};

// Builds what `make` writes, once per seed, and compares at all or at `points` assignments of the free variables.
void fuzz(int cases, Shape shape, std::size_t points, const std::function<Term(TermGenerator&)>& make) {
  Tally tally;
  std::unique_ptr<TermPool> owned;
  for (std::uint64_t seed = first_seed(); seed <= last_seed(cases); ++seed) {
    if (!owned || seed % 200 == 0) owned = std::make_unique<TermPool>(PoolLimits{3000, 600});
    TermPool& pool = *owned;
    Random random(seed);
    TermGenerator generator(pool, random, shape);
    const Term raw = make(generator);
    TermId built;
    try {
      built = build(pool, raw);
    } catch (const BudgetExceeded&) {
      ++tally.over_budget;
      continue;
    } catch (const std::overflow_error&) {  // a large power of a rational
      ++tally.over_budget;
      continue;
    }
    const TensorContents contents = hashed_contents(pool, seed);
    for (const Assignment& values : assignments(pool, generator.free_vars(), points, random)) {
      const double expected = evaluate(pool, raw, values, contents);
      if (std::isnan(expected) || (std::fabs(expected) > 1e6 && std::isfinite(expected))) {
        ++tally.undefined;
        continue;
      }
      double largest = 0;
      const double found = evaluate(pool, built, values, contents, &largest);
      if (largest > 1e8 * (1 + std::fabs(expected))) {  // rounding may show
        ++tally.undefined;
        continue;
      }
      ++tally.compared;
      ASSERT_TRUE(close(expected, found)) << "seed " << seed << ": expected " << expected << ", found " << found << "\n"
                                          << to_string(pool, raw) << "\n-> " << pool.to_string(built);
    }
  }
  std::cout << "compared " << tally.compared << ", undefined " << tally.undefined << ", over budget "
            << tally.over_budget << "\n";
  // Otherwise the test compares too little to mean anything.
  EXPECT_GT(tally.compared, 2 * tally.undefined);
  EXPECT_LT(tally.over_budget, static_cast<std::uint64_t>(cases) / 10 + 1);
}

TEST(GuardFuzz, Ranges) {
  fuzz(20'000, {}, 40, [](TermGenerator& g) { return g.guard(); });
}

TEST(GuardFuzz, ProductsAndSums) {
  fuzz(10'000, {}, 40, [](TermGenerator& g) {
    return add({multiply({g.guard(), g.guard(), g.guard()}), multiply({constant(2), g.guard(), g.guard()}),
                multiply({g.guard(), g.condition()})});
  });
}

TEST(GuardFuzz, Complement) {
  fuzz(10'000, {}, 40, [](TermGenerator& g) {
    return select(g.condition(), constant(3), multiply({constant(5), g.condition()}));
  });
}

// Functions of several guarded arguments are split into cases.
TEST(GuardFuzz, CasesUnderFunctions) {
  fuzz(4'000, {}, 40, [](TermGenerator& g) {
    const Term x = add({multiply({g.guard(), g.factor()}), multiply({g.guard(), g.guard()}), g.factor()});
    return apply(Function::max, {x, add({multiply({g.condition(), g.factor()}), g.guard()}),
                                 apply(Function::sin, {multiply({g.guard(), g.factor()})})});
  });
}

TEST(TermFuzz, Polynomials) {
  fuzz(10'000, {}, 20, [](TermGenerator& g) { return g.term(3); });
}

TEST(TermFuzz, Functions) {
  fuzz(20'000, {true, false, false}, 20, [](TermGenerator& g) { return g.term(3); });
}

TEST(TermFuzz, Logarithms) {
  for (const bool masks : {false, true})
    fuzz(10'000, {true, false, masks}, 20, [](TermGenerator& g) { return g.logarithm(2); });
}

TEST(TermFuzz, Reciprocals) {
  fuzz(10'000, {true, false, false}, 20, [](TermGenerator& g) { return g.reciprocal(2); });
}

TEST(TermFuzz, MaskedFunctions) {
  fuzz(10'000, {true, false, true}, 20, [](TermGenerator& g) { return apply(Function::tanh, {g.term(2)}); });
}

TEST(ReductionFuzz, Sums) {
  fuzz(10'000, {}, 8, [](TermGenerator& g) { return g.sum(); });
}

TEST(ReductionFuzz, AdjacentSums) {
  fuzz(4'000, {}, 8, [](TermGenerator& g) { return g.chunks(); });
}

TEST(ReductionFuzz, AdjacentMaxima) {
  fuzz(4'000, {}, 8, [](TermGenerator& g) { return g.chunks(Reduction::max); });
}

TEST(ReductionFuzz, Maxima) {
  fuzz(10'000, {}, 8, [](TermGenerator& g) { return g.maximum(); });
}

TEST(ReductionFuzz, MaskedMaxima) {
  fuzz(10'000, {false, false, true}, 8, [](TermGenerator& g) { return g.maximum(); });
}

TEST(ReductionFuzz, InTerms) {
  fuzz(3'000, {true, true, true}, 6, [](TermGenerator& g) { return g.term(3); });
}

}  // namespace
}  // namespace shardproof::solvers::testing

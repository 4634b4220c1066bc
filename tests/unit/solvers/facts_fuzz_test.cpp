// Substitution, renaming, and what follows from guards, on random terms.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <stdexcept>

#include "tests/unit/solvers/term_generator.h"

namespace shardproof::solvers::testing {
namespace {

// Runs `body` once per seed on a term of the given shape; terms beyond the caps are skipped.
template <typename Body>
void for_random_terms(int cases, Shape shape, int depth, const Body& body) {
  for (std::uint64_t seed = first_seed(); seed <= last_seed(cases); ++seed) {
    TermPool pool({3000, 600});
    Random random(seed);
    TermGenerator generator(pool, random, shape);
    try {
      const TermId term = build(pool, generator.term(depth));
      body(seed, pool, random, generator, term);
    } catch (const BudgetExceeded&) {
    } catch (const std::overflow_error&) {
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
}

bool comparable(double x) {
  return !std::isnan(x) && !(std::isfinite(x) && std::fabs(x) > 1e6);
}

TEST(SubstitutionFuzz, IsEvaluationElsewhere) {
  std::uint64_t compared = 0;
  for_random_terms(6'000, {true, true, false}, 3,
                   [&](std::uint64_t seed, TermPool& pool, Random& random, TermGenerator& generator, TermId term) {
                     // Some free variables at once get values within their extents, over the same and over a new
                     // variable.
                     std::vector<VarId> vars = generator.free_vars();
                     vars.push_back(generator.bind(random.between(2, 6)));
                     std::vector<std::pair<VarId, IndexId>> replaced;
                     Substitution substitution;
                     for (VarId v : generator.free_vars()) {
                       if (random.chance(30)) continue;
                       Index to = generator.index(1);
                       if (random.chance(30)) to = linear(0, {{random.between(1, 3), variable(vars.back())}, {1, to}});
                       to = random.chance(20) ? number(random.between(0, pool.var(v).extent - 1))
                                              : mod(to, pool.var(v).extent);
                       replaced.emplace_back(v, build(pool, to));
                       substitution.set(v, replaced.back().second);
                     }
                     const TermId result = pool.substitute(term, substitution);
                     const TensorContents contents = hashed_contents(pool, seed);
                     for (const Assignment& values : assignments(pool, vars, 10, random)) {
                       Assignment moved = values;
                       for (const auto& [v, to] : replaced) moved.set(v, evaluate(pool, to, values, contents));
                       const double expected = evaluate(pool, term, moved, contents);
                       double largest = 0;
                       const double found = evaluate(pool, result, values, contents, &largest);
                       if (!comparable(expected) || largest > 1e8 * (1 + std::fabs(expected))) continue;  // rounding may show
                       ++compared;
                       ASSERT_TRUE(close(expected, found))
                           << "seed " << seed << ": " << pool.to_string(term) << "\n-> " << pool.to_string(result);
                     }
                   });
  EXPECT_GT(compared, 10'000U);
}

// A raw renaming is the substitution. Renaming back finds the same normal form but for rare choices among equivalent
// guards: normal forms may not depend on which variables are older, or instances of a definition are missed.
TEST(SubstitutionFuzz, RawRenaming) {
  std::uint64_t renamings = 0, differ = 0;
  for_random_terms(4'000, {true, true, true}, 3,
                   [&](std::uint64_t seed, TermPool& pool, Random& random, TermGenerator& generator, TermId term) {
                     Substitution raw(true), back(true), full;
                     std::vector<VarId> to;
                     const std::vector<VarId>& from = generator.free_vars();
                     for (std::size_t d = 0; d < from.size(); ++d) {
                       to.push_back(pool.pattern(d, pool.var(from[d]).extent));
                       raw.set(from[d], pool.index_var(to[d]));
                       full.set(from[d], pool.index_var(to[d]));
                       back.set(to[d], pool.index_var(from[d]));
                     }
                     const TermId renamed = pool.substitute(term, raw);
                     ++renamings;
                     if (pool.substitute(renamed, back) != term) ++differ;
                     const TermId substituted = pool.substitute(term, full);
                     const TensorContents contents = hashed_contents(pool, seed);
                     for (const Assignment& values : assignments(pool, to, 6, random)) {
                       Assignment moved;
                       for (std::size_t d = 0; d < from.size(); ++d) moved.set(from[d], values.at(to[d]));
                       const double expected = evaluate(pool, term, moved, contents);
                       if (!comparable(expected)) continue;
                       ASSERT_TRUE(close(expected, evaluate(pool, renamed, values, contents)))
                           << "seed " << seed << ": " << pool.to_string(term);
                       ASSERT_TRUE(close(expected, evaluate(pool, substituted, values, contents)))
                           << "seed " << seed << ": " << pool.to_string(term);
                     }
                   });
  std::cout << differ << " of " << renamings << " normal forms depend on the order of variables\n";
  EXPECT_LE(differ * 2000, renamings);
}

// Instances of definitions are found by comparing ids: a term with digits in place of a variable should have one normal
// form, whether the digits were there from the start or were substituted.
TEST(SubstitutionFuzz, InstancesHaveOneNormalForm) {
  struct Family {
    const char* name;
    Shape shape;
    Term (TermGenerator::*make)();
    std::uint64_t one_in;  // at most one instance in this many may differ
  };
  const std::vector<Family> families{{"guards", {}, &TermGenerator::guard, 1000},
                                     {"sums", {}, &TermGenerator::sum, 400},
                                     {"maxima", {false, true, true}, &TermGenerator::maximum, 100}};
  for (const Family& family : families) {
    std::uint64_t instances = 0, differ = 0;
    for (std::uint64_t seed = first_seed(); seed <= last_seed(4'000); ++seed) {
      TermPool pool({3000, 600});
      Random random(seed);
      TermGenerator generator(pool, random, family.shape);
      const Term raw = (generator.*family.make)();
      const VarId v = random.pick(generator.free_vars());
      const std::int64_t extent = pool.var(v).extent;
      Index to = number(random.between(0, extent - 1));
      if (extent % 2 == 0 && extent > 2)
        to = linear(0, {{2, variable(pool.named(VarKind::mesh, "high" + std::to_string(extent), extent / 2))},
                        {1, variable(pool.element(0, 2))}});
      try {
        Substitution substitution;
        substitution.set(v, build(pool, to));
        ++instances;
        if (pool.substitute(build(pool, raw), substitution) != build(pool, replace(raw, v, to))) ++differ;
      } catch (const BudgetExceeded&) {
      }
    }
    std::cout << family.name << ": " << differ << " of " << instances << " instances differ\n";
    EXPECT_LE(differ * family.one_in, instances) << family.name;
  }
}

std::vector<TermId> random_guards(TermPool& pool, Random& random, TermGenerator& generator) {
  std::vector<TermId> guards;
  do {
    if (const TermId g = build(pool, generator.guard()); pool.is_guard(g)) guards.push_back(g);
  } while (random.chance(60) && guards.size() < 4);
  return guards;
}

bool hold(const TermPool& pool, const std::vector<TermId>& guards, const Assignment& values,
          const TensorContents& contents) {
  for (TermId g : guards)
    if (evaluate(pool, g, values, contents) == 0) return false;
  return true;
}

TEST(GuardFactsFuzz, BoundsUnderGuards) {
  std::uint64_t compared = 0, tighter = 0;
  for (std::uint64_t seed = first_seed(); seed <= last_seed(20'000); ++seed) {
    TermPool pool;
    Random random(seed);
    TermGenerator generator(pool, random, {});
    std::vector<TermId> guards = random_guards(pool, random, generator);
    IndexId e = build(pool, generator.index(3));
    if (!guards.empty() && random.chance(50))
      e = pool.index_linear(e, 1, pool.node(random.pick(guards)).form, random.between(-2, 2));
    if (random.chance(30)) {  // a digit of a number of which a guard knows more digits
      const Index y = generator.index(1);
      const std::int64_t c = random.between(2, 4), m = random.between(2, 5), offset = random.between(-2, 2);
      const std::int64_t low = random.between(0, c * m - 1);
      const Index digits = mod(linear(offset * c, {{1, y}}), c * m);
      if (const TermId g = build(pool, range(digits, low, low + random.between(0, 4))); pool.is_guard(g))
        guards.push_back(g);
      e = build(pool, mod(linear(offset, {{random.chance(70) ? 1 : random.between(-3, 3), div(y, c)}}), m));
    }
    if (random.chance(30)) {  // the same with something beside the division; a digit of the digits
      const Index x = generator.index(1), y = generator.index(1);
      const std::int64_t c = random.between(2, 4), m = random.between(2, 6), k = random.between(-2, 2);
      const Index digits = mod(linear(random.chance(90) ? 0 : 1, {{c * k, x}, {1, y}}), c * m);
      const std::int64_t low = random.between(0, c * m - 1);
      if (const TermId g = build(pool, range(digits, low, low + random.between(0, 4))); pool.is_guard(g))
        guards.push_back(g);
      e = random.chance(50) ? build(pool, mod(linear(0, {{k, x}, {1, div(y, c)}}), m))
                            : build(pool, mod(linear(c * m * random.between(-1, 1), {{c * k, x}, {1, y}}), random.chance(80) ? c : m));
    }
    const auto [lo, hi] = pool.bounds_under(e, guards);
    if (lo > pool.index(e).lo || hi < pool.index(e).hi) ++tighter;
    const TensorContents contents = hashed_contents(pool, seed);
    for (const Assignment& values : assignments(pool, generator.free_vars(), 60, random)) {
      if (!hold(pool, guards, values, contents)) continue;
      ++compared;
      const std::int64_t value = evaluate(pool, e, values, contents);
      ASSERT_TRUE(lo <= value && value <= hi)
          << "seed " << seed << ": " << pool.to_string(e) << " = " << value << " not in [" << lo << ", " << hi << "]";
    }
  }
  EXPECT_GT(compared, 50'000U);
  EXPECT_GT(tighter, 2'000U);
}

// The two terms agree wherever the guards hold.
void expect_equal_under(TermPool& pool, const std::vector<TermId>& guards, TermId term, TermId assumed, const std::vector<Assignment>& points,
                        std::uint64_t seed, std::uint64_t& compared) {
  const TensorContents contents = hashed_contents(pool, seed);
  for (const Assignment& values : points) {
    if (!hold(pool, guards, values, contents)) continue;
    const double expected = evaluate(pool, term, values, contents);
    if (!comparable(expected)) continue;
    ++compared;
    ASSERT_TRUE(close(expected, evaluate(pool, assumed, values, contents)))
        << "seed " << seed << ": " << pool.to_string(term) << "\n-> " << pool.to_string(assumed);
  }
}

// Sums of digits of numbers that guards know, spread over several terms, and guards among them.
TEST(GuardFactsFuzz, DigitsUnderAssumptions) {
  std::uint64_t compared = 0, changed = 0;
  for (std::uint64_t seed = first_seed(); seed <= last_seed(20'000); ++seed) {
    TermPool pool;
    Random random(seed);
    TermGenerator generator(pool, random, {});
    const Index x = generator.index(1), y = generator.index(1);
    const std::int64_t c = random.between(2, 6), k = random.between(-3, 3), offset = random.between(-3, 3);
    const Index number = linear(random.chance(90) ? offset : 0, {{random.chance(90) ? c * k : k, x}, {1, y}});
    std::vector<TermId> guards;
    const std::int64_t low = random.between(-12, 12);
    if (const TermId g = build(pool, range(number, low, low + random.between(0, c))); pool.is_guard(g)) guards.push_back(g);
    if (random.chance(50))
      for (TermId g : random_guards(pool, random, generator)) guards.push_back(g);
    const std::int64_t s = random.between(-2, 3), t = random.between(-2, 3);
    const Index own = linear(random.chance(80) ? offset : random.between(-3, 3), {{1, y}});
    Index digits = linear(random.between(-4, 4), {{s, div(own, c)},
                                                  {random.chance(80) ? s * k : random.between(-3, 3), x},
                                                  {t, mod(own, c)},
                                                  {random.between(-1, 1), generator.index(1)}});
    if (random.chance(30)) {  // a digit of the quotient
      const std::int64_t d = random.chance(80) && c % 2 == 0 ? 2 : random.between(2, 3);
      digits = linear(random.between(-2, 2), {{t, mod(linear(random.between(-2, 2), {{1, div(own, d)}, {random.chance(80) ? k * c / d : 1, x}}), random.chance(80) ? std::max<std::int64_t>(c / d, 2) : 3)},
                                              {random.between(-1, 1), generator.index(1)}});
    }
    const TermId at = build(pool, access(generator.tensors()[0], {digits}));
    const std::int64_t from = random.between(-9, 9);
    const TermId term = pool.add(at, build(pool, multiply({constant(3), range(random.chance(50) ? digits : number, from, from + random.between(0, 6))})));
    const TermId assumed = pool.assume(term, guards, random.chance(50) ? TermPool::Detail::parts : TermPool::Detail::values);
    if (assumed != term) ++changed;
    ASSERT_NO_FATAL_FAILURE(expect_equal_under(pool, guards, term, assumed, assignments(pool, generator.free_vars(), 60, random), seed, compared));
  }
  std::cout << "compared " << compared << ", changed " << changed << "\n";
  EXPECT_GT(compared, 50'000U);
  EXPECT_GT(changed, 2'000U);
}

TEST(GuardFactsFuzz, TermsUnderAssumptions) {
  std::uint64_t compared = 0, changed = 0;
  for_random_terms(10'000, {true, true, false}, 2,
                   [&](std::uint64_t seed, TermPool& pool, Random& random, TermGenerator& generator, TermId term) {
                     std::vector<TermId> guards = random_guards(pool, random, generator);
                     if (random.chance(30) && !guards.empty()) term = pool.mul(term, guards[0]);
                     if (random.chance(40)) {  // parts of a modulus
                       const Index e = generator.index(1);
                       const std::int64_t n = 2 * random.between(2, 6), s = n / 2;
                       const TermId part = build(pool, range(mod(e, n), s * random.between(0, 1) + random.between(0, 1),
                                                             n - 1 - s * random.between(0, 1)));
                       if (pool.is_guard(part)) guards.push_back(part);
                       term = pool.mul(term, build(pool, access(generator.tensors()[0], {mod(e, n)})));
                     }
                     const TermId assumed = pool.assume(
                         term, guards, random.pick(std::vector{TermPool::Detail::parts, TermPool::Detail::whole, TermPool::Detail::values}));
                     if (assumed != term) ++changed;
                     ASSERT_NO_FATAL_FAILURE(
                         expect_equal_under(pool, guards, term, assumed, assignments(pool, generator.free_vars(), 20, random), seed, compared));
                   });
  EXPECT_GT(compared, 10'000U);
  EXPECT_GT(changed, 300U);
}

// Without assumptions a term may still use its own guards, and keeps its value everywhere.
TEST(GuardFactsFuzz, TermsUnderTheirOwnGuards) {
  std::uint64_t changed = 0;
  for_random_terms(10'000, {false, true, false}, 2,
                   [&](std::uint64_t seed, TermPool& pool, Random& random, TermGenerator& generator, TermId term) {
                     for (TermId g : random_guards(pool, random, generator)) term = pool.mul(term, g);
                     const TermId assumed = pool.assume(term, {});
                     if (assumed != term) ++changed;
                     const TensorContents contents = hashed_contents(pool, seed);
                     for (const Assignment& values : assignments(pool, generator.free_vars(), 20, random)) {
                       const double expected = evaluate(pool, term, values, contents);
                       if (!comparable(expected)) continue;
                       ASSERT_TRUE(close(expected, evaluate(pool, assumed, values, contents)))
                           << "seed " << seed << ": " << pool.to_string(term) << "\n-> " << pool.to_string(assumed);
                     }
                   });
  EXPECT_GT(changed, 100U);
}

}  // namespace
}  // namespace shardproof::solvers::testing

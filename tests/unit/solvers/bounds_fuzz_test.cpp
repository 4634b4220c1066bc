// Intervals under guards against all assignments: a value that satisfies every guard lies inside.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <random>

#include "solvers/kernel/atoms.h"
#include "tests/unit/solvers/term_generator.h"

namespace shardproof::solvers {
namespace {

TEST(BoundsFuzz, EveryValueUnderTheGuardsLiesInside) {
  std::uint64_t values = 0, tight = 0, tighter = 0;
  for (std::uint64_t seed = testing::first_seed(); seed <= testing::last_seed(3000); ++seed) {
    std::mt19937_64 random(seed);
    const auto between = [&](std::int64_t lo, std::int64_t hi) { return lo + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(hi - lo + 1)); };
    TermPool pool;
    std::vector<VarId> vars;
    for (int i = 0; i < 3; ++i) vars.push_back(pool.named(VarKind::loop, "v" + std::to_string(i), between(2, 9)));
    // Forms as flat buffers have them: linear, with quotients and remainders of one linear form.
    const auto linear = [&] {
      IndexId e = pool.index_constant(between(-6, 6));
      for (const VarId v : vars)
        if (between(0, 3) != 0) e = pool.index_linear(e, 1, pool.index_var(v), between(0, 3) == 0 ? -between(1, 4) : between(1, 12));
      return e;
    };
    const IndexId base = linear();
    const std::int64_t divisor = between(2, 8);
    const auto form = [&] {
      switch (between(0, 4)) {
        case 0: return pool.index_mod(base, divisor);
        case 1: return pool.index_div(base, divisor);
        case 2: return pool.index_linear(pool.index_div(base, divisor), between(1, 6), linear(), 1);
        case 3: return pool.index_add(pool.index_mod(base, divisor), pool.index_scale(pool.index_div(base, divisor), between(1, 6)));
        default: return between(0, 1) == 0 ? base : linear();
      }
    };
    const IndexId e = form();
    std::vector<TermId> guards;
    for (std::int64_t n = between(1, 3); n > 0; --n) {
      const IndexId f = form();
      const std::int64_t lo = between(pool.index(f).lo, pool.index(f).hi);
      const TermId guard = pool.range(f, between(0, 3) == 0 ? -kUnbounded : lo, between(0, 3) == 0 ? kUnbounded : lo + between(0, 12));
      if (pool.is_guard(guard)) guards.push_back(guard);
    }
    if (guards.empty()) continue;
    const auto [lo, hi] = pool.bounds_under(e, guards);
    const auto [parts_lo, parts_hi] = pool.bounds_by_parts(e, guards);
    std::int64_t least = kUnbounded, most = -kUnbounded;
    std::vector<std::int64_t> at(vars.size());
    const std::function<void(std::size_t)> visit = [&](std::size_t i) {
      if (i < vars.size()) {
        for (at[i] = 0; at[i] < pool.var(vars[i]).extent; ++at[i]) visit(i + 1);
        return;
      }
      Substitution s;
      for (std::size_t k = 0; k < vars.size(); ++k) s.set(vars[k], pool.index_constant(at[k]));
      for (const TermId g : guards)
        if (pool.substitute(g, s) != pool.one()) return;
      const std::int64_t value = pool.index(pool.substitute_index(e, s)).constant;
      ++values;
      least = std::min(least, value);
      most = std::max(most, value);
    };
    visit(0);
    if (least > most) continue;
    ASSERT_LE(std::max(lo, parts_lo), least) << "seed " << seed << ": " << pool.to_string(e) << " under " << pool.to_string(guards[0]);
    ASSERT_GE(std::min(hi, parts_hi), most) << "seed " << seed << ": " << pool.to_string(e) << " under " << pool.to_string(guards[0]);
    tight += std::max(lo, parts_lo) == least && std::min(hi, parts_hi) == most ? 1 : 0;
    tighter += parts_lo > lo || parts_hi < hi ? 1 : 0;
  }
  std::cout << values << " values; " << tight << " intervals are exact, " << tighter << " tighter by parts\n";
  EXPECT_GT(values, 50'000U);
  EXPECT_GT(tighter, 100U);
}

}  // namespace
}  // namespace shardproof::solvers

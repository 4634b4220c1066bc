// Index terms against direct evaluation of the expression as written.
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/unit/solvers/raw_term.h"

namespace shardproof::solvers::testing {
namespace {

// Expressions of the kind layouts make: digits of sums of scaled digits, divisors that share factors with extents.
class IndexGenerator {
 public:
  IndexGenerator(TermPool& pool, Random& random, bool large) : random_(random) {
    const std::vector<std::int64_t> small{1, 2, 3, 4, 5, 6, 7, 8, 12}, big{16, 24, 60, 64, 128, 1000, 4096, 16032};
    const std::int64_t count = random_.between(1, 4);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t extent = random_.pick(large ? big : small);
      vars_.push_back(pool.named(VarKind::loop, "v" + std::to_string(i) + "_" + std::to_string(extent), extent));
    }
    ids_ = pool.new_tensor({"ids", {8}, true, random_.pick(small) + 1});
    divisors_ = large ? std::vector<std::int64_t>{2, 3, 4, 8, 16, 60, 64, 1000, 4096, 16032}
                      : std::vector<std::int64_t>{2, 2, 3, 4, 4, 6, 8, 12, 16, 24};
    for (VarId v : vars_) divisors_.push_back(pool.var(v).extent);
  }

  const std::vector<VarId>& vars() const { return vars_; }

  Index any(int depth) {
    Index e = fresh(depth);
    made_.push_back(e);
    return e;
  }

 private:
  std::int64_t coefficient() {
    return random_.chance(50) ? random_.pick(divisors_) * (random_.chance(80) ? 1 : -1) : random_.between(-6, 6);
  }

  Index fresh(int depth) {
    if (!made_.empty() && random_.chance(25)) return random_.pick(made_);
    if (depth == 0 || random_.chance(10))
      return random_.chance(85) ? variable(random_.pick(vars_)) : number(random_.between(-20, 20));
    switch (random_.between(0, 10)) {
      case 10: {  // a multiple of the divisor beside a division that contains the rest, perhaps wrongly
        const Index e = any(depth - 1), y = any(depth - 1);
        const std::int64_t d = random_.pick(divisors_), q = random_.between(1, 3), m = random_.chance(70) ? 1 : d, c = q * d / m;
        if (c < 1) return e;
        return linear(random_.between(-2, 2),
                      {{random_.chance(85) ? q : q + 1, div(e, c)}, {1, div(linear(random_.between(-3, 3), {{m, mod(e, c)}, {random_.between(-1, 1), y}}), d)}});
      }
      case 0:
      case 1:
        return div(any(depth - 1), random_.pick(divisors_));
      case 2:
      case 3:
        return mod(any(depth - 1), random_.pick(divisors_));
      case 4: {  // digits put together again, perhaps wrongly
        const Index e = any(depth - 1);
        const std::int64_t c = random_.pick(divisors_), k = random_.between(1, 3);
        return linear(0, {{k, mod(e, c)}, {random_.chance(80) ? k * c : k * c + 1, div(e, c)}});
      }
      case 5: {  // three digits
        const Index e = any(depth - 1);
        const std::int64_t c = random_.pick(divisors_), m = random_.pick(divisors_);
        return linear(
            random_.between(-1, 1),
            {{1, mod(e, c)}, {c, mod(div(e, c), m)}, {c * m, random_.chance(50) ? div(div(e, c), m) : div(e, c * m)}});
      }
      case 6: {  // e - c*(e div c)
        const Index e = any(depth - 1);
        const std::int64_t c = random_.pick(divisors_), k = random_.between(-2, 2);
        return linear(random_.between(-3, 3), {{k, e}, {-k * c, div(random_.chance(80) ? e : any(depth - 1), c)}});
      }
      case 7:
        if (random_.chance(40)) return load(ids_, {any(depth - 1)});
        [[fallthrough]];
      default: {
        std::vector<std::pair<std::int64_t, Index>> terms;
        for (std::int64_t n = random_.between(1, 3); n > 0; --n) terms.emplace_back(coefficient(), any(depth - 1));
        return linear(random_.chance(50) ? 0 : coefficient(), std::move(terms));
      }
    }
  }

  Random& random_;
  std::vector<VarId> vars_;
  std::vector<std::int64_t> divisors_;
  TensorId ids_;
  std::vector<Index> made_;
};

void fuzz(int cases, bool large) {
  std::uint64_t overflows = 0;
  auto owned = std::make_unique<TermPool>();
  for (std::uint64_t seed = first_seed(); seed <= last_seed(cases); ++seed) {
    if (seed % 1000 == 0) owned = std::make_unique<TermPool>();
    TermPool& pool = *owned;
    Random random(seed);
    IndexGenerator generator(pool, random, large);
    const Index raw = generator.any(4);
    IndexId e;
    try {
      e = build(pool, raw);
    } catch (const std::overflow_error&) {
      ++overflows;
      continue;
    }
    const TensorContents contents = hashed_contents(pool, seed);
    const IndexNode& node = pool.index(e);
    for (const Assignment& values : assignments(pool, generator.vars(), 100, random)) {
      const std::int64_t expected = evaluate(raw, values, contents);
      ASSERT_EQ(expected, evaluate(pool, e, values, contents))
          << "seed " << seed << ": " << to_string(pool, raw) << " -> " << pool.to_string(e);
      ASSERT_TRUE(node.lo <= expected && expected <= node.hi)
          << "seed " << seed << ": " << expected << " not in [" << node.lo << ", " << node.hi
          << "]: " << pool.to_string(e);
    }
  }
  EXPECT_LE(overflows, (last_seed(cases) - first_seed() + 1) / 1000);
}

TEST(IndexFuzz, SmallExtents) {
  fuzz(20'000, false);
}
TEST(IndexFuzz, LargeExtents) {
  fuzz(20'000, true);
}

TEST(IndexFuzz, SubstitutionIsEvaluationElsewhere) {
  auto owned = std::make_unique<TermPool>();
  for (std::uint64_t seed = first_seed(); seed <= last_seed(10'000); ++seed) {
    if (seed % 1000 == 0) owned = std::make_unique<TermPool>();
    TermPool& pool = *owned;
    Random random(seed);
    IndexGenerator generator(pool, random, seed % 2 == 0);
    const Index raw = generator.any(2);
    const IndexId e = build(pool, raw);
    // v := f(w) mod extent(v), for some variables at once; w may be among the replaced.
    Substitution substitution;
    std::vector<std::pair<VarId, Index>> replaced;
    for (VarId v : generator.vars()) {
      if (random.chance(40)) continue;
      const Index to = mod(generator.any(2), pool.var(v).extent);
      replaced.emplace_back(v, to);
      substitution.set(v, build(pool, to));
    }
    IndexId result;
    try {
      result = pool.substitute_index(e, substitution);
    } catch (const std::overflow_error&) {
      continue;
    }
    const TensorContents contents = hashed_contents(pool, seed);
    for (const Assignment& values : assignments(pool, generator.vars(), 30, random)) {
      Assignment moved = values;
      for (const auto& [v, to] : replaced) moved.set(v, evaluate(to, values, contents));
      ASSERT_EQ(evaluate(raw, moved, contents), evaluate(pool, result, values, contents))
          << "seed " << seed << ": " << to_string(pool, raw) << " -> " << pool.to_string(result);
    }
  }
}

}  // namespace
}  // namespace shardproof::solvers::testing

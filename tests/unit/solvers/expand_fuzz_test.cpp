// Unfolding and expanding definitions keep values: chains of definitions with permuted indices, guards, sums and scalars, in
// terms with accesses below reductions and behind guards. Expansions are remembered, so they are asked for between definitions.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <stdexcept>

#include "tests/unit/solvers/defined_contents.h"
#include "tests/unit/solvers/raw_term.h"

namespace shardproof::solvers::testing {
namespace {

class Chain {
 public:
  Chain(AtomTable& atoms, Random& random) : atoms_(atoms), pool_(atoms.pool()), random_(random) {
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{4}, {4, 3}, {}}) tensors_.push_back(atoms.opaque({"A", shape, false, 0}));
    i_ = pool_.element(0, 4);
    j_ = pool_.element(1, 3);
    scope_ = {i_, j_};
  }

  void define() {
    const std::vector<VarId> dims = random_.pick(std::vector<std::vector<VarId>>{{i_}, {i_, j_}, {j_, i_}, {}});
    scope_ = dims;
    const TermId body = term(static_cast<int>(random_.between(0, 2)));
    scope_ = {i_, j_};
    tensors_.push_back(atoms_.define("t" + std::to_string(tensors_.size()), dims, body));
  }

  TermId term(int depth) {
    if (depth <= 0) return random_.chance(90) ? access() : pool_.constant(Rational(random_.between(-2, 2), 3));
    const TermId x = term(depth - 1);
    switch (random_.between(0, 8)) {
      case 0: return pool_.add(x, pool_.scale(term(depth - 1), Rational(random_.between(-2, 2), 2)));
      case 1: return pool_.mul(x, term(depth - 1));
      case 2: return pool_.mul(guard(), x);
      case 3: {
        const TermId g = guard();
        return pool_.add(pool_.mul(g, x), pool_.mul(pool_.complement(g), term(depth - 1)));
      }
      case 4: return pool_.apply(Function::exp, {pool_.scale(x, Rational(1, 64))});
      case 5: return pool_.inverse(pool_.add(pool_.mul(x, x), pool_.constant(Rational(1, 2))));
      case 6: return pool_.apply(Function::max, {x, term(depth - 1)});
      default: {
        TermPool::FreshScope scope(pool_);
        const VarId k = scope.fresh(random_.between(2, 4));
        scope_.push_back(k);
        TermId body = term(depth - 1);
        if (random_.chance(30)) body = pool_.mul(guard(), body);
        scope_.pop_back();
        return pool_.reduce(random_.chance(75) ? Reduction::sum : Reduction::max, {k}, body);
      }
    }
  }

 private:
  IndexId index(std::int64_t extent) {
    if (scope_.empty()) return pool_.index_constant(random_.between(0, extent - 1));
    const IndexId v = pool_.index_var(random_.pick(scope_));
    const IndexId e = random_.chance(30) ? pool_.index_linear(v, random_.between(-1, 2), pool_.index_var(random_.pick(scope_)), 1, random_.between(0, 2)) : v;
    return pool_.index_mod(e, extent);
  }
  TermId access() {
    const TensorId t = random_.chance(60) ? tensors_.back() : random_.pick(tensors_);
    std::vector<IndexId> indices;
    const std::vector<std::int64_t> shape = pool_.tensor(t).shape;
    if (shape.size() == 1 && !scope_.empty() && random_.chance(15)) {  // behind a guard that brings the index into range
      const IndexId e = pool_.index_scale(pool_.index_var(random_.pick(scope_)), 1, -1);
      return pool_.mul(pool_.range(e, 0, shape[0] - 1), pool_.access(t, {e}));
    }
    for (const std::int64_t extent : shape) indices.push_back(index(extent));
    return pool_.access(t, std::move(indices));
  }
  TermId guard() {
    const std::int64_t lo = random_.between(-1, 2);
    return pool_.range(index(4), random_.chance(50) ? -kUnbounded : lo, random_.chance(50) ? kUnbounded : lo + 1);
  }

  AtomTable& atoms_;
  TermPool& pool_;
  Random& random_;
  VarId i_, j_;
  std::vector<VarId> scope_;
  std::vector<TensorId> tensors_;
};

TEST(ExpandFuzz, DefinitionsInPlaceOfAccesses) {
  std::uint64_t compared = 0, expanded = 0, unfolded = 0, again = 0;
  for (std::uint64_t seed = first_seed(); seed <= last_seed(4'000); ++seed) {
    TermPool pool({3000, 600});
    Random random(seed);
    AtomTable atoms(pool, {});
    Chain chain(atoms, random);
    std::vector<std::pair<TermId, TermId>> pairs, expansions;
    try {
      for (int n = 0; n < 5; ++n) {
        chain.define();
        const TermId term = chain.term(static_cast<int>(random.between(1, 2)));
        expansions.emplace_back(term, atoms.expand(term));
        if (expansions.back().second != term) ++expanded;
        const TermId some = atoms.unfold(term, [&](TensorId) { return random.chance(60); });
        if (some != term) ++unfolded;
        pairs.emplace_back(term, some);
      }
      for (const auto& [term, before] : expansions) {
        ASSERT_EQ(atoms.expand(term), before) << "seed " << seed << ": what was remembered depends on when it is asked for";
        ++again;
      }
    } catch (const BudgetExceeded&) {
    } catch (const std::overflow_error&) {
    }
    pairs.insert(pairs.end(), expansions.begin(), expansions.end());
    const DefinedContents held(atoms, seed);
    for (const auto& [before, after] : pairs) {
      const std::vector<VarId> vars = pool.members(pool.union_of(pool.node(before).free, pool.node(after).free));
      for (const Assignment& values : assignments(pool, vars, 12, random)) {
        double largest = 0;
        const double expected = evaluate(pool, before, values, held.contents());
        const double found = evaluate(pool, after, values, held.contents(), &largest);
        if (!std::isfinite(expected) || std::fabs(expected) > 1e6 || largest > 1e6 * (1 + std::fabs(expected))) continue;
        ++compared;
        ASSERT_TRUE(close(expected, found)) << "seed " << seed << ": " << expected << " is " << pool.to_string(before) << "\n" << found << " is " << pool.to_string(after);
      }
    }
  }
  std::cout << "compared " << compared << ", expanded " << expanded << ", unfolded " << unfolded << ", asked for again " << again << "\n";
  EXPECT_GT(compared, 50'000U);
  EXPECT_GT(expanded, 2'000U);
  EXPECT_GT(unfolded, 4'000U);
}

}  // namespace
}  // namespace shardproof::solvers::testing

#include "solvers/kernel/atoms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <stdexcept>

#include "solvers/z3_backend.h"
#include "tests/unit/solvers/defined_contents.h"
#include "tests/unit/solvers/term_generator.h"

namespace shardproof::solvers::testing {
namespace {

class AtomsTest : public ::testing::Test {
 protected:
  AtomsTest() {
    a_ = atoms_.opaque({"a", {8, 16}, false, 0});
    b_ = atoms_.opaque({"b", {16}, false, 0});
    // t[y0, y1] = 2 a[y0, y1] * b[y1]
    const VarId i = pool_.element(0, 8), j = pool_.element(1, 16);
    body_ = pool_.scale(pool_.mul(pool_.access(a_, {v(i), v(j)}), pool_.access(b_, {v(j)})), Rational(2));
    t_ = atoms_.define("t", {i, j}, body_);
    atoms_.add_variant({t_, atoms_.definition(t_), Rational(1), {}});
  }
  IndexId v(VarId var) { return pool_.index_var(var); }
  IndexId loop(const char* name, std::int64_t extent) { return v(pool_.named(VarKind::loop, name, extent)); }
  TermId instance(IndexId i, IndexId j) {
    return pool_.scale(pool_.mul(pool_.access(a_, {i, j}), pool_.access(b_, {j})), Rational(2));
  }

  TermPool pool_;
  AtomTable atoms_{pool_, nullptr};
  TensorId a_, b_, t_;
  TermId body_;
};

TEST_F(AtomsTest, DefinitionIsOverPatternVariables) {
  EXPECT_EQ(pool_.tensor(t_).shape, (std::vector<std::int64_t>{8, 16}));
  EXPECT_EQ(atoms_.definition(t_), instance(v(pool_.pattern(0, 8)), v(pool_.pattern(1, 16))));
  EXPECT_TRUE(atoms_.has_definition(t_));
  EXPECT_FALSE(atoms_.has_definition(a_));
}

TEST_F(AtomsTest, AcceptsAnInstanceInRange) {
  const IndexId p = loop("p", 8), q = loop("q", 4);
  const auto accepted = atoms_.accept(instance(p, pool_.index_scale(q, 4, 3)), 0, {p, pool_.index_scale(q, 4, 3)}, {});
  ASSERT_TRUE(accepted);
  EXPECT_EQ(*accepted, pool_.access(t_, {p, pool_.index_scale(q, 4, 3)}));
}

TEST_F(AtomsTest, RefusesAnotherTerm) {
  const IndexId p = loop("p", 8), q = loop("q", 16);
  EXPECT_FALSE(atoms_.accept(instance(p, q), 0, {p, pool_.index_mod(pool_.index_scale(q, 1, 1), 16)}, {}));
  EXPECT_FALSE(atoms_.accept(pool_.scale(instance(p, q), Rational(2)), 0, {p, q}, {}));
  EXPECT_FALSE(atoms_.accept(pool_.add(instance(p, q), pool_.one()), 0, {p, q}, {}));
  EXPECT_FALSE(atoms_.accept(pool_.access(a_, {p, q}), 0, {p, q}, {}));
}

// The definition was simplified for indices within the shape; outside it says nothing.
TEST_F(AtomsTest, RefusesIndicesOutsideTheShape) {
  const IndexId p = loop("p", 8), q = loop("q", 16), wide = loop("wide", 9);
  EXPECT_FALSE(atoms_.accept(instance(wide, q), 0, {wide, q}, {}));
  EXPECT_FALSE(atoms_.accept(instance(p, pool_.index_scale(q, 1, 1)), 0, {p, pool_.index_scale(q, 1, 1)}, {}));
  EXPECT_FALSE(atoms_.accept(instance(p, pool_.index_scale(q, 1, -1)), 0, {p, pool_.index_scale(q, 1, -1)}, {}));
}

TEST_F(AtomsTest, GuardsBringIndicesIntoRange) {
  const IndexId p = loop("p", 8), wide = loop("wide", 32);
  const IndexId shifted = pool_.index_scale(wide, 1, -10);
  const TermId low = pool_.range(wide, 10, kUnbounded), high = pool_.range(wide, -kUnbounded, 25),
               tight = pool_.range(wide, -kUnbounded, 24);
  const TermId term = instance(p, shifted);
  EXPECT_TRUE(atoms_.accept(term, 0, {p, shifted}, {low, high}));
  EXPECT_TRUE(atoms_.accept(term, 0, {p, shifted}, {tight, low}));
  EXPECT_FALSE(atoms_.accept(term, 0, {p, shifted}, {low}));
  EXPECT_FALSE(atoms_.accept(term, 0, {p, shifted}, {high}));
  EXPECT_FALSE(atoms_.accept(term, 0, {p, shifted}, {pool_.range(wide, 9, kUnbounded), high}));
  EXPECT_FALSE(atoms_.accept(term, 0, {p, shifted}, {low, pool_.range(wide, -kUnbounded, 26)}));
  EXPECT_FALSE(atoms_.accept(term, 0, {p, shifted}, {pool_.range(p, 1, kUnbounded)}));
}

TEST_F(AtomsTest, DimensionsOfExtentOneAreChecked) {
  const VarId one = pool_.element(0, 1), j = pool_.element(1, 16);
  const TensorId u = atoms_.define("u", {one, j}, pool_.mul(pool_.access(b_, {v(j)}), pool_.access(b_, {v(j)})));
  atoms_.add_variant({u, atoms_.definition(u), Rational(1), {}});
  const IndexId q = loop("q", 16);
  const TermId term = pool_.mul(pool_.access(b_, {q}), pool_.access(b_, {q}));
  EXPECT_TRUE(atoms_.accept(term, 1, {pool_.index_constant(0), q}, {}));
  EXPECT_FALSE(atoms_.accept(term, 1, {pool_.index_constant(1), q}, {}));
  EXPECT_FALSE(atoms_.accept(term, 1, {loop("two", 2), q}, {}));
}

TEST_F(AtomsTest, VariantsScale) {
  atoms_.add_variant({t_, pool_.scale(atoms_.definition(t_), Rational(1, 2)), Rational(1, 2), {}});
  const IndexId p = loop("p", 8), q = loop("q", 16);
  const TermId half = pool_.mul(pool_.access(a_, {p, q}), pool_.access(b_, {q}));
  const auto accepted = atoms_.accept(half, 1, {p, q}, {});
  ASSERT_TRUE(accepted);
  EXPECT_EQ(*accepted, pool_.scale(pool_.access(t_, {p, q}), Rational(1, 2)));
}

// A piece of a piecewise definition may stand for the whole only where its guard is known to hold.
TEST_F(AtomsTest, PiecesNeedTheirGuard) {
  const VarId j = pool_.element(0, 16);
  const TermId low = pool_.range(v(j), -kUnbounded, 7);
  const TermId square = pool_.mul(pool_.access(b_, {v(j)}), pool_.access(b_, {v(j)}));
  const TensorId u = atoms_.define(
      "u", {j}, pool_.add(pool_.mul(low, square), pool_.mul(pool_.complement(low), pool_.access(b_, {v(j)}))));
  atoms_.add_variant({u, atoms_.definition(u), Rational(1), {}});
  const IndexId q = loop("q", 16);
  const TermId piece = pool_.mul(pool_.access(b_, {q}), pool_.access(b_, {q}));
  EXPECT_TRUE(atoms_.accept(piece, 1, {q}, {pool_.range(q, -kUnbounded, 7)}));
  EXPECT_TRUE(atoms_.accept(piece, 1, {q}, {pool_.range(q, 2, 5)}));
  EXPECT_FALSE(atoms_.accept(piece, 1, {q}, {}));
  EXPECT_FALSE(atoms_.accept(piece, 1, {q}, {pool_.range(q, -kUnbounded, 8)}));
  EXPECT_FALSE(atoms_.accept(piece, 1, {q}, {pool_.range(q, 8, kUnbounded)}));
}

TEST_F(AtomsTest, UnfoldReplacesSelectedAtomsOneLevelDeep) {
  const VarId i = pool_.element(0, 8), j = pool_.element(1, 16);
  const TensorId row = atoms_.define("row", {i}, pool_.reduce(Reduction::sum, {j}, pool_.access(t_, {v(i), v(j)})));
  const IndexId p = loop("p", 8);
  const TermId use = pool_.apply(Function::exp, {pool_.access(row, {p})});
  const TermId once = atoms_.unfold(use, [&](TensorId t) { return t == row; });
  const TermId sum = pool_.reduce(Reduction::sum, {j}, pool_.access(t_, {p, v(j)}));
  EXPECT_EQ(once, pool_.apply(Function::exp, {sum}));
  EXPECT_EQ(atoms_.unfold(use, [&](TensorId t) { return t == t_; }), use);
  EXPECT_EQ(atoms_.unfold(once, [](TensorId) { return true; }),
            pool_.apply(Function::exp, {pool_.reduce(Reduction::sum, {j}, instance(p, v(j)))}));
  EXPECT_TRUE(atoms_.has_reduction(row));
  EXPECT_FALSE(atoms_.has_reduction(t_));
}

// Whatever is proposed: what is accepted is in range and has the term's value wherever the guards hold.
TEST(AtomsFuzz, AcceptIsSound) {
  int accepted_count = 0, refused = 0;
  for (std::uint64_t seed = first_seed(); seed <= last_seed(3'000); ++seed) {
    TermPool pool({3000, 600});
    Random random(seed);
    Z3Range z3(pool);
    AtomTable atoms(pool, random.chance(2) ? z3.oracle() : RangeOracle());
    TermGenerator generator(pool, random, {random.chance(50), random.chance(50), false});
    const Term raw = random.chance(30) ? generator.sum() : generator.term(2);
    const std::vector<VarId> dims = generator.free_vars();
    TermGenerator other(pool, random, {});
    try {
      const TermId body = build(pool, raw);
      const TensorId t = atoms.define("t", dims, body);
      const Rational factor(random.between(1, 3), random.between(1, 2));
      atoms.add_variant({t, pool.scale(atoms.definition(t), factor), factor, {}});
      std::vector<Index> raw_indices;
      std::vector<IndexId> indices;
      Substitution instance;
      for (std::size_t d = 0; d < dims.size(); ++d) {
        const std::int64_t extent = pool.var(dims[d]).extent;
        Index e = other.index(1);
        if (random.chance(60)) e = mod(e, extent);
        raw_indices.push_back(e);
        indices.push_back(build(pool, e));
        instance.set(pool.pattern(d, extent), indices.back());
      }
      std::vector<TermId> guards;
      while (random.chance(50)) {
        if (const TermId g = build(pool, other.guard()); pool.is_guard(g)) guards.push_back(g);
      }
      for (std::size_t d = 0; d < dims.size(); ++d)
        if (random.chance(40))
          if (const TermId g = pool.range(indices[d], random.between(-1, 1), pool.var(dims[d]).extent - 1);
              pool.is_guard(g))
            guards.push_back(g);
      TermId term = pool.scale(pool.substitute(atoms.definition(t), instance), factor);
      for (TermId g : guards)
        if (random.chance(20)) term = pool.mul(term, g);
      if (random.chance(10)) indices[0] = pool.index_scale(indices[0], 1, random.between(-1, 1));
      const auto accepted = atoms.accept(term, 0, indices, guards);
      if (!accepted) {
        ++refused;
        continue;
      }
      ++accepted_count;
      DefinedContents held(atoms, seed);
      for (const Assignment& values : assignments(pool, other.free_vars(), 40, random)) {
        bool hold = true;
        for (TermId g : guards) hold = hold && evaluate(pool, g, values, held.contents()) != 0;
        if (!hold) continue;
        for (std::size_t d = 0; d < dims.size(); ++d) {
          const std::int64_t e = evaluate(pool, indices[d], values, held.contents());
          ASSERT_TRUE(0 <= e && e < pool.var(dims[d]).extent) << "seed " << seed;
        }
        const double expected = evaluate(pool, term, values, held.contents());
        const double found = evaluate(pool, *accepted, values, held.contents());
        if (std::isnan(found)) continue;  // a singular point, or 0 times one
        if (std::isnan(expected) || std::fabs(expected) > 1e9) continue;
        ASSERT_TRUE(close(expected, found)) << "seed " << seed << ": " << pool.to_string(atoms.definition(t)) << "\n"
                                            << pool.to_string(term) << "\n-> " << pool.to_string(*accepted);
      }
    } catch (const BudgetExceeded&) {
    } catch (const std::overflow_error&) {
    }
  }
  std::cout << "accepted " << accepted_count << ", refused " << refused << "\n";
  EXPECT_GT(accepted_count, 500);
  EXPECT_GT(refused, 500);
}

TEST(AtomsFuzz, UnfoldKeepsTheValue) {
  for (std::uint64_t seed = first_seed(); seed <= last_seed(2'000); ++seed) {
    TermPool pool({3000, 600});
    Random random(seed);
    AtomTable atoms(pool, nullptr);
    std::vector<TensorId> defined;
    TermGenerator generator(pool, random, {random.chance(50), random.chance(50), false});
    const std::vector<VarId> dims = generator.free_vars();
    const auto in_range = [&] {
      std::vector<IndexId> indices;
      for (VarId v : dims) indices.push_back(build(pool, mod(generator.index(1), pool.var(v).extent)));
      return indices;
    };
    try {
      for (int n = 0; n < 2; ++n) {
        TermId body = build(pool, generator.term(1));
        if (n > 0) body = pool.add(pool.mul(body, pool.access(defined[0], in_range())), pool.constant(2));
        defined.push_back(atoms.define("t", dims, body));
      }
      // under a sum and a function, and free
      const VarId i = generator.bind(random.between(2, 5));
      TermId inside = pool.mul(pool.access(random.pick(defined), in_range()), build(pool, generator.factor()));
      if (random.chance(40)) inside = pool.apply(Function::tanh, {inside});
      generator.unbind();
      const Reduction op = random.chance(50) ? Reduction::sum : Reduction::max;
      const TermId term = pool.add(pool.reduce(op, {i}, inside), pool.mul(pool.access(random.pick(defined), in_range()),
                                                                          build(pool, generator.guard())));
      const TensorId chosen = random.pick(defined);
      const TermId unfolded = atoms.unfold(term, [&](TensorId t) { return t == chosen; });
      DefinedContents held(atoms, seed);
      for (const Assignment& values : assignments(pool, dims, 10, random)) {
        const double expected = evaluate(pool, term, values, held.contents());
        if (std::isnan(expected) || std::fabs(expected) > 1e6) continue;
        ASSERT_TRUE(close(expected, evaluate(pool, unfolded, values, held.contents())))
            << "seed " << seed << ": " << pool.to_string(term) << "\n-> " << pool.to_string(unfolded);
      }
    } catch (const BudgetExceeded&) {
    } catch (const std::overflow_error&) {
    }
  }
}

}  // namespace
}  // namespace shardproof::solvers::testing

// Sums, maxima and accesses that are equal are shown to be by the SMT solver; those that are not quite equal are not.
#include <gtest/gtest.h>

#include "solvers/witness/identity.h"
#include "solvers/witness/smt_solver.h"

namespace shardproof::solvers::witness {
namespace {

class Identity : public testing::Test {
 protected:
  Identity() : algebra_(pool_) {
    a_ = pool_.new_tensor({"a", {1 << 20}, false, 0});
    b_ = pool_.new_tensor({"b", {1 << 20}, false, 0});
    ids_ = pool_.new_tensor({"ids", {1 << 20}, true, 4096});
  }

  Index v(Variable x) { return algebra_.variable(x); }
  Index at(const Index& e, std::int64_t k, std::int64_t c = 0) { return Algebra::scale(e, k, c); }
  Index plus(const Index& e, const Index& f) { return Algebra::combine(e, 1, f, 1); }
  Form a(const Index& e) { return algebra_.access(a_, {e}); }
  Form b(const Index& e) { return algebra_.access(b_, {e}); }

  bool shown(const Form& l, const Form& r) {
    const Reduced reduced = reduce_identity(algebra_, l, r);
    if (!reduced.covered()) return false;
    for (const std::string& script : reduced.scripts)
      if (solver_.check(script) != Answer::unsatisfiable) return false;
    return true;
  }
  void expect(bool equal, const Form& l, const Form& r) {
    EXPECT_EQ(shown(l, r), equal);
    EXPECT_EQ(shown(r, l), equal);
  }

  TermPool pool_;
  Algebra algebra_;
  SmtSolver solver_;
  TensorId a_, b_, ids_;
};

// A contraction over 4096 places, on 8 ranks of 512.
TEST_F(Identity, ShardsMakeUpTheWhole) {
  const Variable i = algebra_.fresh(4096), rank = algebra_.fresh(8), k = algebra_.fresh(512);
  const Form whole = algebra_.sum({i}, algebra_.multiply(a(v(i)), b(at(v(i), 3))));
  const auto shards = [&](std::int64_t stride, std::int64_t offset) {
    const Index place = plus(at(v(rank), stride, offset), v(k));
    return algebra_.sum({rank, k}, algebra_.multiply(a(place), b(at(place, 3))));
  };
  expect(true, whole, shards(512, 0));
  expect(false, whole, shards(511, 0));  // one place twice
  expect(false, whole, shards(513, 0));  // gaps
  expect(false, whole, shards(512, 1));  // off by one
  expect(false, whole, algebra_.scale(shards(512, 0), Rational(1, 8)));
  expect(false, whole, algebra_.sum({k}, algebra_.multiply(a(v(k)), b(at(v(k), 3)))));  // one shard alone
}

TEST_F(Identity, InterleavedShardsMakeUpTheWholeToo) {
  const Variable i = algebra_.fresh(4096), rank = algebra_.fresh(8), k = algebra_.fresh(512);
  const Form whole = algebra_.sum({i}, a(v(i)));
  expect(true, whole, algebra_.sum({rank, k}, a(plus(v(rank), at(v(k), 8)))));
  expect(false, whole, algebra_.sum({rank, k}, a(plus(v(rank), at(v(k), 7)))));
  // The operand of a product must be the same shard.
  const Form product = algebra_.sum({i}, algebra_.multiply(a(v(i)), b(v(i))));
  const Index strided = plus(v(rank), at(v(k), 8)), blocked = plus(at(v(rank), 512), v(k));
  expect(true, product, algebra_.sum({rank, k}, algebra_.multiply(a(strided), b(strided))));
  expect(false, product, algebra_.sum({rank, k}, algebra_.multiply(a(strided), b(blocked))));
}

TEST_F(Identity, PiecesUnderGuardsPartTheRange) {
  const Variable i = algebra_.fresh(1000), j = algebra_.fresh(1000), k = algebra_.fresh(300), l = algebra_.fresh(700);
  const Form whole = algebra_.sum({i}, a(v(i)));
  const auto parts = [&](std::int64_t second) {
    return algebra_.add(algebra_.sum({k}, a(v(k))), algebra_.sum({l}, a(at(v(l), 1, second))));
  };
  expect(true, whole, parts(300));
  expect(false, whole, parts(299));
  const auto split = [&](std::int64_t from) {
    return algebra_.add(algebra_.guarded(Guard{v(j), 0, 249}, a(v(j))), algebra_.guarded(Guard{v(j), from, kUnbounded}, a(v(j))));
  };
  expect(true, a(v(j)), split(250));
  expect(false, a(v(j)), split(251));
  expect(false, a(v(j)), split(249));
}

// A vocabulary on 8 ranks: one of them has the row.
TEST_F(Identity, OneRankHasTheRow) {
  const Variable t = algebra_.fresh(64), rank = algebra_.fresh(8);
  const Index id = algebra_.load(ids_, {v(t)});
  const auto masked = [&](std::int64_t rows, std::int64_t shift) {
    const Index local = Algebra::combine(id, 1, v(rank), -512);
    return algebra_.sum({rank}, algebra_.guarded(Guard{local, 0, rows - 1}, a(plus(Algebra::scale(local, 1, shift), at(v(rank), 512)))));
  };
  expect(true, a(id), masked(512, 0));
  expect(false, a(id), masked(511, 0));
  expect(false, a(id), masked(513, 0));
  expect(false, a(id), masked(512, 1));
}

TEST_F(Identity, Maxima) {
  const Variable i = algebra_.fresh(4096), rank = algebra_.fresh(8), k = algebra_.fresh(512);
  const auto max = [&](std::vector<Variable> bound, Form body) { return algebra_.maximum({{std::move(bound), {}, std::move(body)}}); };
  const Form whole = max({i}, a(v(i)));
  const auto shards = [&](std::int64_t stride) { return max({rank}, max({k}, a(plus(at(v(rank), stride), v(k))))); };
  expect(true, whole, shards(512));
  expect(false, whole, shards(513));
  // A maximum may look at a place twice, as long as it misses none.
  expect(false, whole, shards(500));
  EXPECT_FALSE(shown(whole, algebra_.sum({rank, k}, a(plus(at(v(rank), 512), v(k))))));
}

TEST_F(Identity, FunctionsOfEqualArguments) {
  const Variable x = algebra_.fresh(4096), i = algebra_.fresh(64), rank = algebra_.fresh(8), k = algebra_.fresh(8);
  const auto denominator = [&](const Form& sum) { return algebra_.apply(Function::inverse, {algebra_.add(algebra_.number(Rational(1)), sum)}); };
  const Form whole = denominator(algebra_.sum({i}, algebra_.apply(Function::exp, {a(plus(at(v(x), 64), v(i)))})));
  const auto parts = [&](std::int64_t stride) {
    return denominator(algebra_.sum({rank, k}, algebra_.apply(Function::exp, {a(plus(at(v(x), 64), plus(at(v(rank), stride), v(k))))})));
  };
  expect(true, whole, parts(8));
  expect(false, whole, parts(7));
  EXPECT_FALSE(shown(algebra_.apply(Function::sin, {a(v(x))}), algebra_.apply(Function::cos, {a(v(x))})));
}

// Binders within each other: an outer variable is not an inner one, in keys either.
TEST_F(Identity, NestedBindersAreToldApart) {
  const TensorId table = pool_.new_tensor({"table", {64, 64}, false, 0});
  const auto largest_sum = [&](bool turned) {
    const Variable i = algebra_.fresh(64), j = algebra_.fresh(64);
    const Form element = turned ? algebra_.access(table, {v(j), v(i)}) : algebra_.access(table, {v(i), v(j)});
    return algebra_.maximum({{{i}, {}, algebra_.sum({j}, element)}});
  };
  expect(true, largest_sum(false), largest_sum(false));
  expect(true, largest_sum(true), largest_sum(true));
  expect(false, largest_sum(false), largest_sum(true));
  const auto exponentials = [&](bool turned) {
    const Variable i = algebra_.fresh(64), j = algebra_.fresh(64);
    const Form element = turned ? algebra_.access(table, {v(j), v(i)}) : algebra_.access(table, {v(i), v(j)});
    return algebra_.sum({i}, algebra_.apply(Function::exp, {algebra_.sum({j}, element)}));
  };
  expect(true, exponentials(true), exponentials(true));
  expect(false, exponentials(false), exponentials(true));
  EXPECT_EQ(algebra_.simplified(algebra_.add(exponentials(false), exponentials(true))).size(), 2U);
}

TEST_F(Identity, DigitsAreRecombined) {
  const Variable x = algebra_.fresh(4096);
  const Index digits = plus(at(algebra_.quotient(v(x), 16), 16), algebra_.remainder(v(x), 16));
  expect(true, a(v(x)), a(digits));
  expect(false, a(v(x)), a(plus(at(algebra_.quotient(v(x), 16), 8), algebra_.remainder(v(x), 16))));
}

}  // namespace
}  // namespace shardproof::solvers::witness

// Folding keeps values. Small reference programs define atoms; sharded, chunked, regrouped and wrong versions of the
// same operations are folded, and must mean the same before and after. How much folds is only counted.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <stdexcept>

#include "solvers/fold.h"
#include "solvers/z3_backend.h"
#include "tests/unit/solvers/defined_contents.h"
#include "tests/unit/solvers/raw_term.h"

namespace shardproof::solvers::testing {
namespace {

constexpr std::int64_t kRows = 4, kColumns = 6;

// Values are matrices: terms over element(0, rows) and element(1, columns).
class Program {
 public:
  Program(AtomTable& atoms, Folder& folder, Random& random)
      : atoms_(atoms), pool_(atoms.pool()), folder_(folder), random_(random) {
    row_ = pool_.element(0, kRows);
    column_ = pool_.element(1, kColumns);
    k_ = pool_.named(VarKind::loop, "k", kColumns);
    for (const char* name : {"X", "Y"}) {
      const TensorId t = atoms_.opaque({name, {kRows, kColumns}, false, 0});
      values_.push_back(pool_.access(t, {pool_.index_var(row_), pool_.index_var(column_)}));
    }
    weight_ = atoms_.opaque({"W", {kColumns, kColumns}, false, 0});
    scale_ = atoms_.opaque({"s", {}, false, 0});
  }

  // One operation on values at given places; `row` and `column` say which element is wanted.
  struct Operation {
    int kind = 0;
    std::size_t a = 0, b = 0;
  };
  Operation random_operation() {
    const auto last = static_cast<std::int64_t>(values_.size()) - 1;
    return {static_cast<int>(random_.between(0, 8)), static_cast<std::size_t>(random_.between(0, last)),
            static_cast<std::size_t>(random_.between(0, last))};
  }

  TermId at(std::size_t value, IndexId row, IndexId column) {
    Substitution s;
    s.set(row_, row);
    s.set(column_, column);
    return pool_.substitute(values_[value], s);
  }

  TermId apply(const Operation& op, IndexId row, IndexId column) {
    switch (op.kind) {
      case 0:
        return pool_.add(at(op.a, row, column), at(op.b, row, column));
      case 1:
        return pool_.mul(at(op.a, row, column), at(op.b, row, column));
      case 2:
        return pool_.apply(Function::exp, {pool_.scale(at(op.a, row, column), Rational(1, 8))});
      case 3: {  // softmax-like denominator
        const TermId e = pool_.apply(Function::exp, {pool_.scale(at(op.a, row, pool_.index_var(k_)), Rational(1, 8))});
        return pool_.mul(at(op.b, row, column), pool_.inverse(pool_.reduce(Reduction::sum, {k_}, e)));
      }
      case 4:
        return product(op, row, column, 0, kColumns);
      case 5:
        return pool_.reduce(Reduction::max, {k_}, at(op.a, row, pool_.index_var(k_)));
      case 6: {  // causal mask
        const TermId below = pool_.range(pool_.index_sub(column, row), -kUnbounded, 0);
        return pool_.mul(below, at(op.a, row, column));
      }
      case 7:
        return pool_.mul(pool_.access(scale_, {}),
                         pool_.scale(at(op.a, row, column), Rational(random_.between(1, 3), 2)));
      default:
        return pool_.inverse(
            pool_.add(pool_.mul(at(op.a, row, column), at(op.a, row, column)), pool_.constant(Rational(1, 2))));
    }
  }

  // Columns [from, from + count) of the contraction with W.
  TermId product(const Operation& op, IndexId row, IndexId column, std::int64_t from, std::int64_t count) {
    const VarId k = pool_.named(VarKind::loop, "k" + std::to_string(count), count);
    const IndexId inner = pool_.index_scale(pool_.index_var(k), 1, from);
    return pool_.reduce(Reduction::sum, {k}, pool_.mul(at(op.a, row, inner), pool_.access(weight_, {inner, column})));
  }

  TermId product_chunk(const Operation& op, IndexId row, IndexId column, IndexId rank) {
    const VarId k = pool_.named(VarKind::loop, "k2", 2);
    const IndexId inner = pool_.index_linear(rank, 2, pool_.index_var(k), 1);
    return pool_.reduce(Reduction::sum, {k}, pool_.mul(at(op.a, row, inner), pool_.access(weight_, {inner, column})));
  }

  void define(const Operation& op) {
    const TermId value = apply(op, pool_.index_var(row_), pool_.index_var(column_));
    defined_.emplace_back(value, folder_.define("v" + std::to_string(values_.size()), value));
    values_.push_back(defined_.back().second);
  }

  // The same or another operation as a rank sees it.
  TermId plan(const Operation& op) {
    const VarId r = pool_.named(VarKind::mesh, "r", 2), t = pool_.named(VarKind::mesh, "t", 3);
    IndexId row = pool_.index_linear(pool_.index_var(r), kRows / 2, pool_.index_var(pool_.element(0, kRows / 2)), 1);
    IndexId column =
        pool_.index_linear(pool_.index_var(t), kColumns / 3, pool_.index_var(pool_.element(1, kColumns / 3)), 1);
    if (random_.chance(20)) row = pool_.index_mod(pool_.index_scale(row, 1, 1), kRows);
    if (random_.chance(20)) column = pool_.index_linear(column, -1, pool_.index_constant(0), 0, kColumns - 1);
    switch (random_.between(0, 7)) {
      case 0: {  // partial sums over ranks, perhaps one too few
        if (op.kind != 4) break;
        const VarId u = random_.chance(75) ? pool_.named(VarKind::loop, "u3", 3) : pool_.named(VarKind::loop, "u2", 2);
        return pool_.reduce(Reduction::sum, {u}, product_chunk(op, row, column, pool_.index_var(u)));
      }
      case 1: {  // behind a guard that brings the index into range
        const IndexId shifted = pool_.index_scale(pool_.index_var(pool_.element(0, 8)), 1, -3);
        const TermId guard = pool_.range(shifted, 0, random_.chance(75) ? kRows - 1 : kRows);
        return pool_.mul(guard, apply(op, shifted, column));
      }
      case 2: {  // two pieces
        const TermId low = pool_.range(row, -kUnbounded, 1);
        return pool_.add(
            pool_.mul(low, apply(op, row, column)),
            pool_.mul(pool_.complement(low), apply(random_.chance(60) ? op : random_operation(), row, column)));
      }
      case 3:
        return pool_.add(apply(op, row, column),
                         pool_.scale(apply(random_operation(), row, column), Rational(random_.between(-1, 1))));
      case 4:
        return pool_.mul(apply(op, row, column), at(op.b, row, column));
      case 5: {  // a contraction of what a value is made of, perhaps with too much of it
        const TermId whole = at(op.a, row, pool_.index_var(k_));
        TermId parts = atoms_.unfold(whole, [](TensorId) { return true; });
        if (random_.chance(30)) parts = pool_.add(parts, pool_.scale(at(op.b, row, pool_.index_var(k_)), Rational(random_.between(-1, 1))));
        return pool_.reduce(Reduction::sum, {k_}, pool_.mul(parts, pool_.access(weight_, {pool_.index_var(k_), column})));
      }
      case 6: {  // a contraction written out, perhaps without a term, with one twice, or with some still in one sum
        const std::int64_t wrong = random_.chance(70) ? -1 : random_.between(0, kColumns - 1);
        const std::int64_t rolled = random_.chance(60) ? 0 : random_.between(1, kColumns - 1);
        TermId total = rolled == 0 ? pool_.zero() : product(op, row, column, 0, rolled);
        for (std::int64_t k = rolled; k < kColumns; ++k) {
          const std::int64_t taken = k == wrong ? random_.between(0, kColumns - 1) : k;
          const IndexId inner = pool_.index_constant(taken);
          total = pool_.add(total, pool_.mul(at(op.a, row, inner), pool_.access(weight_, {inner, column})));
        }
        return total;
      }
      default:
        break;
    }
    return apply(op, row, column);
  }

  const std::vector<std::pair<TermId, TermId>>& defined() const { return defined_; }
  std::vector<VarId> reference_vars() const { return {row_, column_}; }

 private:
  AtomTable& atoms_;
  TermPool& pool_;
  Folder& folder_;
  Random& random_;
  VarId row_, column_, k_;
  std::vector<TermId> values_;
  std::vector<std::pair<TermId, TermId>> defined_;
  TensorId weight_, scale_;
};

TEST(FoldFuzz, FoldingKeepsValues) {
  std::uint64_t compared = 0, folded = 0, plans = 0;
  for (std::uint64_t seed = first_seed(); seed <= last_seed(3'000); ++seed) {
    TermPool pool;
    Random random(seed);
    Z3Range z3(pool);
    AtomTable atoms(pool, seed % 50 == 0 ? z3.oracle() : RangeOracle());
    Folder folder(atoms);
    Program program(atoms, folder, random);
    std::vector<std::pair<TermId, TermId>> pairs;
    try {
      std::vector<Program::Operation> operations;
      for (int n = 0; n < 4; ++n) {
        operations.push_back(program.random_operation());
        program.define(operations.back());
      }
      pairs = program.defined();
      for (int n = 0; n < 8; ++n) {
        const TermId value = program.plan(random.chance(80) ? random.pick(operations) : program.random_operation());
        pairs.emplace_back(value, random.chance(70) ? folder.fold(value) : folder.refold(value));
        ++plans;
        if (folder.is_folded(pairs.back().second) && !folder.is_folded(value)) ++folded;
      }
    } catch (const BudgetExceeded&) {
    } catch (const std::overflow_error&) {
    }
    DefinedContents held(atoms, seed);
    for (const auto& [before, after] : pairs) {
      const std::vector<VarId> vars = pool.members(pool.union_of(pool.node(before).free, pool.node(after).free));
      for (const Assignment& values : assignments(pool, vars, 12, random)) {
        const double expected = evaluate(pool, before, values, held.contents());
        if (!std::isfinite(expected) || std::fabs(expected) > 1e6) continue;
        ++compared;
        ASSERT_TRUE(close(expected, evaluate(pool, after, values, held.contents())))
            << "seed " << seed << ": " << pool.to_string(before) << "\n-> " << pool.to_string(after);
      }
    }
  }
  std::cout << "compared " << compared << ", folded " << folded << " of " << plans << "\n";
  EXPECT_GT(compared, 100'000U);
  EXPECT_GT(folded, plans / 5);
}

}  // namespace
}  // namespace shardproof::solvers::testing

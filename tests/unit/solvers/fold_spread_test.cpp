// Values of which parts cancel: found whichever way they are written, and only if the parts do cancel.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "solvers/fold.h"
#include "tests/unit/solvers/defined_contents.h"
#include "tests/unit/solvers/raw_term.h"

namespace shardproof::solvers::testing {
namespace {

constexpr std::int64_t kRows = 3, kColumns = 5;

// Matrices, and vectors with an element per row, which stand for all of the row.
class Rows {
 public:
  explicit Rows(AtomTable& atoms) : atoms_(atoms), pool_(atoms.pool()), folder_(atoms) {
    row_ = pool_.element(0, kRows);
    column_ = pool_.element(1, kColumns);
    x_ = input("x");
  }
  TermId input(const char* name) {
    return pool_.access(atoms_.opaque({name, {kRows, kColumns}, false, 0}), {pool_.index_var(row_), pool_.index_var(column_)});
  }
  TermId define(TermId value) { return folder_.define("v" + std::to_string(++defined_), value); }
  TermId exp(TermId t) { return pool_.apply(Function::exp, {t}); }
  TermId log(TermId t) { return pool_.apply(Function::log, {t}); }
  TermId over(TermId a, TermId b) { return pool_.mul(a, pool_.inverse(b)); }
  TermId square(TermId t) { return pool_.mul(t, t); }
  TermId sum(TermId t) { return pool_.reduce(Reduction::sum, {column_}, t); }
  TermId max(TermId t) { return pool_.reduce(Reduction::max, {column_}, t); }
  TermId mean(TermId t) { return pool_.scale(sum(t), Rational(1, kColumns)); }
  TermId found(TermId t) { return folder_.fold_cancelling(t); }

  AtomTable& atoms_;
  TermPool& pool_;
  Folder folder_;
  VarId row_, column_;
  TermId x_;
  int defined_ = 0;
};

class FoldSpreadTest : public ::testing::Test {
 protected:
  TermPool pool_;
  AtomTable atoms_{pool_, nullptr};
  Rows rows_{atoms_};
  TermId x_ = rows_.x_;
};

TEST_F(FoldSpreadTest, SoftmaxWithoutTheMaximum) {
  const TermId m = rows_.define(rows_.max(x_)), e = rows_.define(rows_.exp(rows_.define(pool_.sub(x_, m))));
  const TermId p = rows_.define(rows_.over(e, rows_.define(rows_.sum(e))));
  EXPECT_TRUE(pool_.obligations().empty());
  const TermId raw = rows_.exp(x_);
  EXPECT_EQ(rows_.found(rows_.over(raw, rows_.sum(raw))), p);
  // The maximum that cancels is asked to be finite once its cancelling is used.
  ASSERT_EQ(pool_.obligations().size(), 1U);
  EXPECT_EQ(pool_.obligations()[0].kind, Obligation::Kind::finite);
  // Subtracting anything else from all scores of a row is as good, by log-sum-exp as well.
  const TermId other = pool_.reduce(Reduction::sum, {rows_.column_}, rows_.input("y"));
  const TermId shifted = rows_.exp(pool_.sub(x_, other));
  EXPECT_EQ(rows_.found(rows_.over(shifted, rows_.sum(shifted))), p);
  EXPECT_EQ(rows_.found(rows_.exp(pool_.sub(x_, pool_.add(other, rows_.log(rows_.sum(shifted)))))), p);
}

TEST_F(FoldSpreadTest, SoftmaxOfOtherThings) {
  const TermId m = rows_.define(rows_.max(x_)), e = rows_.define(rows_.exp(rows_.define(pool_.sub(x_, m))));
  const TermId p = rows_.define(rows_.over(e, rows_.define(rows_.sum(e))));
  const TermId raw = rows_.exp(x_), y = rows_.input("y");
  const TermId shifted = rows_.exp(pool_.sub(x_, y));  // by another number in each column
  for (const TermId wrong :
       {rows_.over(shifted, rows_.sum(shifted)), rows_.over(e, rows_.sum(raw)), rows_.over(raw, rows_.sum(e)),
        rows_.over(raw, rows_.sum(rows_.square(raw))), rows_.over(raw, pool_.add(rows_.sum(raw), pool_.one())),
        rows_.over(rows_.square(raw), rows_.sum(raw)), rows_.over(raw, rows_.sum(rows_.exp(y))),
        rows_.over(raw, rows_.sum(pool_.mul(raw, pool_.range(pool_.index_var(rows_.column_), 1, kUnbounded)))),
        rows_.exp(pool_.sub(x_, pool_.add(m, rows_.log(rows_.sum(raw)))))}) {
    const TermId folded = rows_.found(wrong);
    EXPECT_NE(folded, p);
    EXPECT_FALSE(rows_.folder_.is_folded(folded)) << pool_.to_string(folded);
  }
}

TEST_F(FoldSpreadTest, LogSumExp) {
  const TermId m = rows_.define(rows_.max(x_)), e = rows_.define(rows_.exp(rows_.define(pool_.sub(x_, m))));
  const TermId lse = rows_.define(pool_.add(rows_.define(rows_.log(rows_.define(rows_.sum(e)))), m));
  EXPECT_EQ(rows_.found(rows_.log(rows_.sum(rows_.exp(x_)))), lse);
  EXPECT_NE(rows_.found(rows_.log(rows_.sum(rows_.exp(pool_.sub(x_, rows_.input("y")))))), lse);
  EXPECT_NE(rows_.found(rows_.log(rows_.sum(rows_.exp(pool_.scale(x_, Rational(2)))))), lse);
  // The softmax by it.
  const TermId p = rows_.define(rows_.exp(rows_.define(pool_.sub(x_, lse))));
  EXPECT_EQ(rows_.found(rows_.over(e, rows_.define(rows_.sum(e)))), p);
}

TEST_F(FoldSpreadTest, VarianceByMoments) {
  const TermId mu = rows_.define(rows_.mean(x_)), c = rows_.define(pool_.sub(x_, mu));
  const TermId variance = rows_.define(rows_.mean(rows_.define(rows_.square(c))));
  const TermId squares = rows_.mean(rows_.square(x_));
  EXPECT_EQ(rows_.found(pool_.sub(squares, rows_.square(mu))), variance);
  EXPECT_EQ(rows_.found(pool_.sub(rows_.mean(pool_.mul(x_, x_)), pool_.mul(mu, rows_.mean(x_)))), variance);
  for (const TermId wrong : {pool_.sub(squares, mu), pool_.add(squares, rows_.square(mu)), pool_.sub(rows_.sum(rows_.square(x_)), rows_.square(mu)),
                             pool_.sub(squares, rows_.square(rows_.define(rows_.mean(rows_.input("y"))))),
                             pool_.sub(rows_.mean(pool_.mul(x_, rows_.input("z"))), rows_.square(mu))}) {
    const TermId folded = rows_.found(wrong);
    EXPECT_NE(folded, variance);
    EXPECT_FALSE(rows_.folder_.is_folded(folded)) << pool_.to_string(folded);
  }
}

// A shift by the row's own variable only: [column <= row] masks differ from row to row.
TEST_F(FoldSpreadTest, MaskedScores) {
  const TermId seen = pool_.range(pool_.index_sub(pool_.index_var(rows_.row_), pool_.index_var(rows_.column_)), 0, kUnbounded);
  const TermId low = pool_.apply(Function::negative_infinity, {});
  const TermId scores = pool_.add(pool_.mul(seen, x_), pool_.mul(pool_.complement(seen), low));
  const TermId m = rows_.define(rows_.max(scores)), e = rows_.define(rows_.exp(pool_.sub(scores, m)));
  const TermId p = rows_.define(rows_.over(e, rows_.define(rows_.sum(e))));
  const TermId raw = pool_.mul(seen, rows_.exp(x_));
  EXPECT_EQ(rows_.found(rows_.over(raw, rows_.sum(raw))), p);
  EXPECT_NE(rows_.found(rows_.over(raw, rows_.sum(rows_.exp(x_)))), p);
  EXPECT_NE(rows_.found(rows_.over(rows_.exp(x_), rows_.sum(raw))), p);
}

// Random programs of such operations, read with the same and with other operations: folding keeps the value.
TEST(FoldSpreadFuzz, FoldingKeepsValues) {
  std::uint64_t compared = 0, folded = 0, undefined = 0;
  for (std::uint64_t seed = first_seed(); seed <= last_seed(2'000); ++seed) {
    TermPool pool;
    Random random(seed);
    AtomTable atoms(pool, nullptr);
    Rows rows(atoms);
    std::vector<TermId> matrices{rows.x_, rows.input("y")}, vectors;
    const auto matrix = [&] { return random.pick(matrices); };
    const auto vector = [&] { return vectors.empty() ? pool.zero() : random.pick(vectors); };
    const auto operate = [&]() -> std::pair<TermId, bool> {  // whether it is a matrix
      switch (random.between(0, 9)) {
        case 0: return {rows.max(matrix()), false};
        case 1: return {rows.mean(matrix()), false};
        case 2:
        case 3: return {pool.sub(matrix(), random.chance(80) ? vector() : matrix()), true};
        case 4: return {rows.exp(pool.scale(random.chance(80) ? matrix() : pool.sub(matrix(), vector()), Rational(1, 2))), true};
        case 5: return {rows.sum(random.chance(50) ? matrix() : rows.square(matrix())), false};
        case 6: return {rows.over(matrix(), pool.add(rows.square(vector()), pool.one())), true};
        case 7: {
          const TermId e = rows.exp(pool.sub(matrix(), vector()));
          return {rows.over(random.chance(80) ? e : rows.exp(matrix()), rows.sum(e)), true};
        }
        case 8: {
          const TermId shift = vector();
          const TermId log = rows.log(rows.sum(rows.exp(pool.sub(matrix(), shift))));
          return {random.chance(70) ? pool.add(log, shift) : log, false};
        }
        default: {
          const TermId of = matrix(), mu = rows.mean(random.chance(80) ? of : matrix());
          if (random.chance(50)) return {pool.sub(rows.mean(rows.square(of)), rows.square(mu)), false};
          return {rows.mean(rows.square(pool.sub(of, random.chance(80) ? mu : vector()))), false};
        }
      }
    };
    try {
      for (int i = 0; i < 7; ++i) {
        const auto [value, is_matrix] = operate();
        (is_matrix ? matrices : vectors).push_back(rows.define(value));
      }
      DefinedContents contents(atoms, seed);
      for (int i = 0; i < 6; ++i) {
        const TermId term = operate().first, result = rows.found(term);
        folded += rows.folder_.is_folded(result) && result != term;
        for (const Assignment& values : assignments(pool, {rows.row_, rows.column_}, 15, random)) {
          const double expected = evaluate(pool, term, values, contents.contents());
          double largest = 0;
          const double found = evaluate(pool, result, values, contents.contents(), &largest);
          if (!std::isfinite(expected) || std::fabs(expected) > 1e6 || largest > 1e8) {
            ++undefined;
            continue;
          }
          ++compared;
          ASSERT_TRUE(close(expected, found)) << "seed " << seed << ": expected " << expected << ", found " << found << "\n"
                                              << pool.to_string(term) << "\n-> " << pool.to_string(result);
        }
      }
    } catch (const BudgetExceeded&) {
    } catch (const std::overflow_error&) {
    }
  }
  std::cout << "compared " << compared << ", folded " << folded << ", undefined " << undefined << "\n";
  EXPECT_GT(compared, 4 * undefined);
  EXPECT_GT(folded, 1000U);
}

TEST_F(FoldSpreadTest, ConditionsOfADefinitionAreNotThoseOfTheRun) {
  const TermId m = rows_.define(rows_.max(x_)), e = rows_.define(rows_.exp(rows_.define(pool_.sub(x_, m))));
  const TermId ratio = rows_.define(rows_.over(e, rows_.define(rows_.sum(e))));
  pool_.require(Obligation::Kind::nonzero, x_);
  const auto spread = atoms_.unfold_definition(pool_.node(ratio).tensor, [](TensorId) { return true; }, 8, 300);
  ASSERT_TRUE(spread);
  EXPECT_EQ(spread->conditions.size(), 1U);
  ASSERT_EQ(pool_.obligations().size(), 1U);
  EXPECT_EQ(pool_.obligations()[0], (Obligation{Obligation::Kind::nonzero, x_}));
  EXPECT_FALSE(atoms_.unfold_definition(pool_.node(ratio).tensor, [](TensorId) { return false; }, 8, 300));
  EXPECT_FALSE(atoms_.unfold_definition(pool_.node(ratio).tensor, [](TensorId) { return true; }, 8, 3));
}

}  // namespace
}  // namespace shardproof::solvers::testing

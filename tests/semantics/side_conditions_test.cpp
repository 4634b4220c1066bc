// Side conditions that the verifier discharges must be true: a term called positive, non-negative or finite is so at every
// value of its variables and tensors.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <random>

#include "verifier/execution/tensor.h"
#include "solvers/evaluate.h"
#include "solvers/z3_backend.h"
#include "tests/semantics/term_values.h"
#include "verifier/kernel/side_conditions.h"

namespace shardproof::semantics_test {
namespace {

using ir::Rational;
using solvers::Function;
using solvers::IndexId;
using solvers::Obligation;
using solvers::Reduction;
using solvers::TensorId;
using solvers::TermId;
using solvers::TermPool;
using solvers::VarId;
using solvers::VarKind;

// Terms of the kinds that softmax, norms, masks and token counts make, right and subtly wrong.
class Terms {
 public:
  Terms(std::mt19937_64& random, solvers::AtomTable& atoms) : random_(random), atoms_(atoms), pool_(atoms.pool()) {
    for (const std::int64_t extent : {3, 4}) free_.push_back(pool_.named(VarKind::mesh, "c" + std::to_string(extent), extent));
    scope_ = free_;
    inputs_ = {atoms_.opaque({"A", {4}, false, 0}), atoms_.opaque({"B", {4, 4}, false, 0})};
    ids_ = atoms_.opaque({"ids", {4}, true, 4});
  }

  std::int64_t below(std::int64_t count) { return execution::uniform_integer(random_, count); }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool chance(int percent) { return below(100) < percent; }

  IndexId small() {  // within [0, 4)
    const IndexId v = pool_.index_var(scope_[static_cast<std::size_t>(below(static_cast<std::int64_t>(scope_.size())))]);
    return chance(15) ? pool_.index_load(ids_, {pool_.index_mod(v, 4)}) : pool_.index_mod(v, 4);
  }
  IndexId form() {
    switch (below(5)) {
      case 0: return small();
      case 1: return pool_.index_linear(small(), between(-2, 2), small(), between(-2, 2), between(-3, 3));
      case 2: return pool_.index_linear(small(), 1, small(), -1, between(-1, 1));
      case 3: return pool_.index_div(pool_.index_linear(small(), 2, small(), 1), between(1, 4));
      default: return pool_.index_linear(small(), 4, small(), 1);
    }
  }
  TermId guard() {
    const std::int64_t lo = between(-3, 5);
    switch (below(4)) {
      case 0: return pool_.range(form(), -solvers::kUnbounded, lo);
      case 1: return pool_.range(form(), lo, solvers::kUnbounded);
      case 2: return pool_.range(form(), lo, lo);
      default: return pool_.range(form(), lo, lo + below(4));
    }
  }
  TermId condition() {
    TermId result = guard();
    while (chance(35)) result = pool_.mul(result, guard());
    if (chance(25)) result = pool_.complement(result);
    if (chance(15)) result = pool_.mul(result, pool_.apply(Function::less, {access()}));
    return result;
  }
  TermId select(TermId c, TermId a, TermId b) { return pool_.add(pool_.mul(c, a), pool_.mul(pool_.complement(c), b)); }
  TermId access() {
    if (chance(25) && !atoms_of_one_.empty())
      return pool_.access(atoms_of_one_[static_cast<std::size_t>(below(static_cast<std::int64_t>(atoms_of_one_.size())))], {small()});
    return chance(50) ? pool_.access(inputs_[0], {small()}) : pool_.access(inputs_[1], {small(), small()});
  }
  TermId masked(int depth) {
    const TermId infinity = pool_.apply(Function::negative_infinity, {});
    TermId x = term(depth - 1);
    const TermId c = condition();
    x = chance(50) ? select(c, x, infinity) : select(c, infinity, x);
    if (chance(20)) x = select(condition(), x, infinity);
    return x;
  }
  TermId reduced(Reduction op, int depth, bool mask) {
    TermPool::FreshScope scope(pool_);
    std::vector<VarId> bound;
    for (std::int64_t n = between(1, 2); n > 0; --n) {
      bound.push_back(scope.fresh(between(1, 4)));
      scope_.push_back(bound.back());
    }
    TermId body = mask ? masked(op == Reduction::sum ? 1 : depth + 1) : term(depth);
    if (op == Reduction::sum && mask) body = pool_.apply(Function::exp, {body});
    if (chance(40)) body = pool_.mul(op == Reduction::sum ? condition() : pool_.one(), body);
    if (op == Reduction::sum && chance(20)) body = condition();
    scope_.resize(scope_.size() - bound.size());
    return pool_.reduce(op, bound, body);
  }
  TermId term(int depth) {
    if (depth <= 0) return chance(75) ? access() : chance(50) ? pool_.constant(Rational(between(-3, 6), 2)) : pool_.index_value(form());
    const TermId x = term(depth - 1);
    switch (below(16)) {
      case 0: return pool_.add(x, term(depth - 1));
      case 1: return pool_.mul(x, term(depth - 1));
      case 2:
      case 3: return pool_.mul(x, x);
      case 4: return pool_.add(pool_.mul(x, x), pool_.constant(Rational(between(-1, 2), 2)));
      case 5: return pool_.apply(Function::exp, {chance(40) ? masked(1) : chance(50) ? access() : reduced(Reduction::max, 0, true)});  // no overflow
      case 6: return pool_.apply(Function::max, {x, term(depth - 1), pool_.constant(Rational(between(-1, 2)))});
      case 7: return pool_.inverse(x);
      case 8: return pool_.apply(chance(50) ? Function::sqrt : Function::abs, {x});
      case 9: return chance(50) ? pool_.apply(Function::sigmoid, {chance(50) ? access() : masked(1)}) : pool_.apply(Function::log, {x});
      case 10: return pool_.apply(Function::power, {x, pool_.index_value(small())});
      case 11: return pool_.mul(condition(), x);
      case 12: return select(condition(), x, term(depth - 1));
      case 13: return reduced(Reduction::max, depth - 1, chance(60));
      default: return reduced(Reduction::sum, depth - 1, chance(50));
    }
  }
  // An atom of one index, for later terms to refer to.
  void define() {
    const VarId y = pool_.named(VarKind::loop, "y4", 4);
    const std::vector<VarId> outer = scope_;
    scope_ = {y};
    const TermId body = term(2);
    scope_ = outer;
    for (VarId v : free_)
      if (pool_.contains(pool_.node(body).free, v)) return;
    atoms_of_one_.push_back(atoms_.define("t" + std::to_string(atoms_of_one_.size()), {y}, body));
  }

  // An exponential of a moderate number is neither 0 nor infinite in doubles.
  bool moderate(TermValues& values) {
    for (const TensorId t : atoms_of_one_)
      for (std::int64_t y = 0; y < 4; ++y) {
        const double value = values.at(pool_.access(t, {pool_.index_constant(y)}), {});
        if (std::isfinite(value) ? std::abs(value) > 200 : value > 0) return false;
      }
    return true;
  }

  void fill(TermValues& values) {
    for (const TensorId t : inputs_) {
      std::vector<double> data;
      const std::size_t count = t == inputs_[0] ? 4 : 16;
      while (data.size() < count) data.push_back(static_cast<double>(between(-8, 8)) / 4);
      values.set(t, std::move(data));
    }
    std::vector<double> ids;
    while (ids.size() < 4) ids.push_back(static_cast<double>(below(4)));
    values.set(ids_, std::move(ids));
  }

 private:
  std::mt19937_64& random_;
  solvers::AtomTable& atoms_;
  TermPool& pool_;
  std::vector<VarId> free_, scope_;
  std::vector<TensorId> inputs_, atoms_of_one_;
  TensorId ids_;
};

bool violated(Obligation::Kind kind, double value) {
  switch (kind) {
    case Obligation::Kind::nonzero: return value == 0;
    case Obligation::Kind::nonnegative: return value < 0;
    case Obligation::Kind::finite: return std::isinf(value) && value < 0;
  }
  return false;
}

TEST(SideConditions, WhatHoldsIsTrue) {
  const std::vector<Obligation::Kind> kinds{Obligation::Kind::nonzero, Obligation::Kind::nonnegative, Obligation::Kind::finite};
  std::map<Obligation::Kind, std::int64_t> held, failed, asked;
  for (std::uint64_t seed = 0; seed < 1500 && !HasFailure(); ++seed) {
    std::mt19937_64 random(seed);
    TermPool pool;
    solvers::Z3Range z3(pool);
    solvers::AtomTable atoms(pool, z3.oracle());
    Terms terms(random, atoms);
    std::vector<TermId> candidates;
    try {
      for (int n = 0; n < 3; ++n) terms.define();
      for (int n = 0; n < 6; ++n) candidates.push_back(terms.term(static_cast<int>(terms.between(1, 4))));
      for (int n = 0; n < 2; ++n) candidates.push_back(terms.reduced(Reduction::max, 1, true));
    } catch (const std::overflow_error&) {
    } catch (const solvers::BudgetExceeded&) {
    }
    // What rewrites asked for on the way.
    for (const Obligation& o : pool.obligations()) candidates.push_back(o.term);
    verifier::SideConditions conditions(atoms);
    for (const TermId term : candidates) {
      for (const Obligation::Kind kind : kinds) {
        ++asked[kind];
        const bool holds = conditions.holds({kind, term}), refuted = conditions.refuted({kind, term});
        ASSERT_FALSE(holds && refuted) << pool.to_string(term).substr(0, 800);
        if (!holds && !refuted) continue;
        ++(holds ? held : failed)[kind];
        for (int contents = 0; contents < 3; ++contents) {
          TermValues values(atoms);
          terms.fill(values);
          if (!terms.moderate(values)) continue;
          // Also variables of binders: rewrites ask below them.
          for (int point = 0; point < 12; ++point) {
            solvers::Assignment at;
            for (VarId v : pool.members(pool.node(term).free)) at.set(v, terms.below(pool.var(v).extent));
            const double value = values.at(term, at);
            ASSERT_EQ(violated(kind, value), refuted) << "seed " << seed << ", question " << static_cast<int>(kind) << ": " << value << " = "
                                                << pool.to_string(term).substr(0, 800);
          }
        }
      }
    }
  }
  for (const Obligation::Kind kind : kinds) {
    std::cout << "question " << static_cast<int>(kind) << ": of " << asked[kind] << " " << held[kind] << " hold, " << failed[kind] << " fail\n";
    EXPECT_GT(held[kind], 500);
    EXPECT_LT(held[kind], asked[kind] - 500);
  }
}

}  // namespace
}  // namespace shardproof::semantics_test

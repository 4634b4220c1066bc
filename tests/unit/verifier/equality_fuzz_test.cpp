// Equality by cases against evaluation: terms that are cut into pieces, rewritten by what holds on each piece, unfolded, and
// now and then made wrong in one place. What is called equal must have one value at every assignment.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <map>

#include "solvers/z3_backend.h"
#include "tests/unit/solvers/defined_contents.h"
#include "tests/unit/solvers/raw_term.h"
#include "verifier/kernel/equality.h"

namespace shardproof::verifier {
namespace {

using namespace solvers::testing;  // NOLINT: raw terms read as formulas
using ir::Rational;
using solvers::kUnbounded;
using solvers::Reduction;
using solvers::TensorId;
using solvers::TermId;
using solvers::TermPool;
using solvers::VarId;
using solvers::VarKind;

constexpr std::int64_t kElements = 12;

class Terms {
 public:
  Terms(solvers::AtomTable& atoms, Random& random) : atoms_(atoms), pool_(atoms.pool()), random_(random) {
    const VarId i = pool_.element(0, kElements), r = pool_.named(VarKind::mesh, "r", random.pick(std::vector<std::int64_t>{2, 3}));
    const VarId j = pool_.element(1, 4);
    vars_ = {i, r, j};
    forms_ = {variable(i), linear(0, {{4, variable(r)}, {1, variable(j)}}), linear(random.between(-2, 2), {{1, variable(i)}, {1, variable(j)}}),
              linear(random.between(0, 2), {{2, variable(i)}}), linear(kElements - 1, {{-1, variable(i)}}), variable(j)};
    x_ = atoms.opaque({"X", {64}, false, 0});
    y_ = atoms.opaque({"Y", {64}, false, 0});
    // Definitions over one element variable: piecewise, on top of each other, and a sum.
    for (int n = 0; n < 3; ++n) {
      const Index at = variable(i);
      Term body;
      const std::int64_t cut = random.between(1, kElements - 2);
      const Term low = multiply({range(at, -kUnbounded, cut), atom(at)}), high = multiply({range(at, cut + 1, kUnbounded), leaf(linear(-cut, {{1, at}}))});
      switch (random.between(0, 3)) {
        case 0: body = add({low, multiply({constant(Rational(3, 2)), high})}); break;
        case 1: body = add({low, high, multiply({range(linear(0, {{1, div(at, 4)}}), 1, 1), leaf(at)})}); break;
        case 2: {
          const VarId k = pool_.named(VarKind::loop, "k", 3);
          body = reduce(Reduction::sum, {k}, multiply({leaf(linear(0, {{1, at}, {1, variable(k)}})), leaf(variable(k))}));
          break;
        }
        default: body = add({multiply({atom(at), leaf(at)}), constant(1)});
      }
      const TensorId t = atoms.define("D" + std::to_string(n), {i}, build(pool_, body));
      defined_.push_back(t);
      bodies_[t] = body;
    }
  }

  const std::vector<VarId>& vars() const { return vars_; }

  Term term(int depth) {
    if (depth <= 0) return atom(random_.pick(std::vector<Index>{forms_[0], forms_[4]}));
    switch (random_.between(0, 6)) {
      case 0: return add({term(depth - 1), term(depth - 1)});
      case 1: return multiply({term(depth - 1), leaf(index())});
      case 2: return multiply({guard(), term(depth - 1)});
      case 3: return select(guard(), term(depth - 1), term(depth - 1));
      case 4: {
        const std::int64_t extent = random_.between(2, 4);
        const VarId k = pool_.named(VarKind::loop, "s" + std::to_string(extent), extent);
        const Term inside = multiply({leaf(linear(0, {{1, random_.pick(forms_)}, {1, variable(k)}})), leaf(variable(k))});
        return reduce(Reduction::sum, {k}, random_.chance(50) ? multiply({range(linear(0, {{1, forms_[0]}, {-1, variable(k)}}), 0, kUnbounded), inside}) : inside);
      }
      default: return multiply({constant(Rational(random_.between(1, 3), random_.between(1, 2))), leaf(index()), term(0)});
    }
  }

  // The same function in another spelling. `wrong_`: places to spoil.
  Term respelled(const Term& t, int wrong) {
    wrong_ = wrong;
    facts_.clear();
    Term result = respell(t, 3);
    if (random_.chance(20)) {  // of no account, if the guards exclude each other
      const Index e = random_.pick(forms_);
      const std::int64_t cut = random_.between(2, 10);
      const Term low = range(linear(0, {{random_.between(1, 2), e}, {random_.between(0, 1), forms_[5]}}), -kUnbounded, cut);
      const Term high = range(random_.chance(50) ? e : random_.pick(forms_), cut + random_.between(-1, 1), kUnbounded);
      result = add({result, multiply({low, high, leaf(e)})});
    }
    return result;
  }

 private:
  struct Fact {
    Index form;
    std::int64_t lo, hi;
  };

  Term leaf(const Index& at) { return access(random_.chance(60) ? x_ : y_, {at}); }
  Term atom(const Index& at) { return defined_.empty() || random_.chance(25) ? leaf(at) : access(random_.pick(defined_), {at}); }
  Index index() {
    const Index e = random_.pick(forms_);
    switch (random_.between(0, 4)) {
      case 0: return mod(e, random_.pick(divisors_));
      case 1: return div(e, random_.pick(divisors_));
      case 2: return linear(random_.between(0, 2), {{1, mod(e, 4)}, {1, div(e, 4)}});
      default: return e;
    }
  }
  Term guard() {
    const Index e = random_.pick(forms_);
    const std::int64_t lo = random_.between(0, 9);
    switch (random_.between(0, 2)) {
      case 0: return range(e, -kUnbounded, lo);
      case 1: return range(e, lo, kUnbounded);
      default: return range(e, lo, lo + random_.between(0, 4));
    }
  }

  std::int64_t spoiled(std::int64_t value) {
    if (wrong_ == 0 || !random_.chance(30)) return value;
    --wrong_;
    return value + (random_.chance(50) ? 1 : -1);
  }

  Index respell(const Index& e) {
    for (const Fact& f : facts_) {
      if (f.form == e && f.lo == f.hi && random_.chance(70)) return number(spoiled(f.lo));
      if ((e->kind == RawIndex::Kind::div || e->kind == RawIndex::Kind::mod) && e->parts[0] == f.form && f.lo != -kUnbounded && f.hi != kUnbounded) {
        const std::int64_t q = ir::floor_div(f.lo, e->divisor);
        if (q != ir::floor_div(f.hi, e->divisor) || random_.chance(20)) continue;
        if (e->kind == RawIndex::Kind::div) return number(spoiled(q));
        return linear(spoiled(-q * e->divisor), {{1, e->parts[0]}});
      }
    }
    if (e->kind != RawIndex::Kind::linear) return e;
    std::vector<std::pair<std::int64_t, Index>> parts;
    for (std::size_t k = 0; k < e->parts.size(); ++k) parts.emplace_back(e->coefficients[k], respell(e->parts[k]));
    return linear(e->constant, std::move(parts));
  }

  Term respell(const Term& t, int cuts) {
    if (cuts > 0 && random_.chance(35)) {  // cut in up to three pieces
      const Index e = random_.pick(forms_);
      const std::int64_t first = random_.between(0, 7), second = random_.chance(50) ? first : first + random_.between(1, 4);
      std::vector<Term> pieces;
      const auto piece = [&](std::int64_t lo, std::int64_t hi) {
        facts_.push_back({e, lo, hi});
        const std::int64_t from = lo == -kUnbounded ? lo : spoiled(lo);
        pieces.push_back(multiply({range(e, from, hi), respell(t, cuts - 1)}));
        facts_.pop_back();
      };
      piece(-kUnbounded, first);
      if (second > first) piece(first + 1, second);
      piece(second + 1, kUnbounded);
      return add(std::move(pieces));
    }
    switch (t->kind) {
      case RawTerm::Kind::access: {
        const auto body = bodies_.find(t->tensor);
        if (body != bodies_.end() && random_.chance(40)) return replace(body->second, vars_[0], respell(t->indices[0]));
        return access(wrong_ > 0 && random_.chance(5) ? y_ : t->tensor, {respell(t->indices[0])});
      }
      case RawTerm::Kind::add: {
        std::vector<Term> parts;
        for (const Term& p : t->parts) parts.push_back(respell(p, cuts - 1));
        return add(std::move(parts));
      }
      case RawTerm::Kind::multiply: {
        std::vector<Term> parts;
        for (const Term& p : t->parts)
          if (p->kind == RawTerm::Kind::range) {
            parts.push_back(p);
            if (p->lo <= p->hi) facts_.push_back({p->indices[0], p->lo, p->hi});
          }
        const std::size_t own = parts.size();
        for (const Term& p : t->parts)
          if (p->kind != RawTerm::Kind::range) parts.push_back(respell(p, cuts - 1));
        for (std::size_t k = 0; k < own; ++k)
          if (parts[k]->lo <= parts[k]->hi) facts_.pop_back();
        return multiply(std::move(parts));
      }
      case RawTerm::Kind::select: {
        const Term& c = t->parts[0];
        return add({multiply({c, respell(t->parts[1], cuts - 1)}), multiply({add({constant(1), multiply({constant(-1), c})}), respell(t->parts[2], cuts - 1)})});
      }
      default: return t;
    }
  }

  solvers::AtomTable& atoms_;
  TermPool& pool_;
  Random& random_;
  std::vector<VarId> vars_;
  std::vector<Index> forms_;
  const std::vector<std::int64_t> divisors_{2, 3, 4};
  TensorId x_, y_;
  std::vector<TensorId> defined_;
  std::map<TensorId, Term> bodies_;
  std::vector<Fact> facts_;
  int wrong_ = 0;
};

TEST(EqualityFuzz, EqualTermsHaveOneValue) {
  std::uint64_t same = 0, equal = 0, right = 0, right_found = 0, wrong = 0, compared = 0;
  for (std::uint64_t seed = first_seed(); seed <= last_seed(4'000); ++seed) {
    TermPool pool({3000, 600});
    Random random(seed);
    solvers::Z3Range z3(pool);  // asked where intervals do not tell; for some terms only, as starting it takes time
    solvers::AtomTable atoms(pool, seed % 20 == 0 ? z3.oracle() : solvers::RangeOracle{});
    Terms terms(atoms, random);
    const Term raw = terms.term(static_cast<int>(random.between(1, 2)));
    const bool spoil = random.chance(50);
    TermId a, b;
    bool called_equal = false;
    try {
      a = build(pool, raw);
      b = build(pool, terms.respelled(raw, spoil ? 1 : 0));
      if (a == b) {
        ++same;
        continue;
      }
      called_equal = equal_by_cases(atoms, a, b);
    } catch (const solvers::BudgetExceeded&) {
      continue;
    }
    DefinedContents held(atoms, seed);
    bool differ = false;
    for (const solvers::Assignment& values : assignments(pool, terms.vars(), 200, random)) {
      const double expected = solvers::evaluate(pool, a, values, held.contents()), found = solvers::evaluate(pool, b, values, held.contents());
      ++compared;
      if (close(expected, found)) continue;
      differ = true;
      ASSERT_FALSE(called_equal) << "seed " << seed << ": " << expected << " and " << found << " are the values of\n" << pool.to_string(a) << "\nand " << pool.to_string(b);
    }
    ++(differ ? wrong : right);
    if (called_equal) ++equal;
    if (!differ && called_equal) ++right_found;
  }
  std::cout << "compared " << compared << "; " << same << " the same at once; of " << right << " right ones " << right_found << " found, " << wrong << " wrong ones refused\n";
  EXPECT_GT(wrong, 500U);
  EXPECT_GT(right_found * 3, right);
  EXPECT_GT(compared, 200'000U);
}

}  // namespace
}  // namespace shardproof::verifier

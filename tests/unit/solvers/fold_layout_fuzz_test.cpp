// Folding of what layouts make of values: pieces of several definitions under guards with divisions and moduli, accesses that
// are permuted, strided, flipped, rotated and broadcast, sums in chunks, rational factors. The folded term must have the value of the
// term at every assignment, and so must every form in which a definition is registered. Part of the terms are near misses:
// one off, another stride, one element wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <stdexcept>

#include "solvers/fold.h"
#include "solvers/z3_backend.h"
#include "tests/unit/solvers/defined_contents.h"
#include "tests/unit/solvers/raw_term.h"

namespace shardproof::solvers::testing {
namespace {

constexpr std::size_t kAllAssignments = 2000;

class Layouts {
 public:
  Layouts(AtomTable& atoms, Folder& folder, Random& random) : atoms_(atoms), pool_(atoms.pool()), folder_(folder), random_(random) {
    for (const char* name : {"X", "Y", "W"}) inputs_.push_back(atoms.opaque({name, {12, 12}, false, 0}));
    vector_ = atoms.opaque({"V", {8}, false, 0});
    scale_ = atoms.opaque({"s", {}, false, 0});
  }

  struct Definition {
    std::int64_t rows = 1, columns = 1;
    TermId body, folded;  // over element(0, rows) and element(1, columns)
    std::optional<std::pair<TensorId, TensorId>> contraction;  // rows of one times columns of the other
  };

  void define() {
    Definition d;
    d.rows = random_.pick(std::vector<std::int64_t>{2, 3, 4});
    d.columns = random_.pick(std::vector<std::int64_t>{2, 4, 6});
    const IndexId i = pool_.index_var(pool_.element(0, d.rows)), j = pool_.index_var(pool_.element(1, d.columns));
    if (random_.chance(25)) {
      d.contraction = std::pair(random_.pick(inputs_), random_.pick(inputs_));
      d.body = contraction(d, i, j, Mistake::none);
    } else {
      d.body = value(d, i, j);
    }
    d.folded = folder_.define("t" + std::to_string(definitions_.size()), d.body);
    definitions_.push_back(d);
  }
  const std::vector<Definition>& definitions() const { return definitions_; }

  // A term that consists of definitions seen through layouts; `spoil`: with one mistake, likely. The same without it.
  struct Plan {
    TermId term, right;
  };
  Plan plan(bool spoil) {
    spoil_ = spoil;
    Plan result{pool_.zero(), pool_.zero()};
    const Place place = some_place();
    const auto add = [&](TermId guard) {
      const auto [term, right] = instance(place);
      const Rational factor(random_.pick(std::vector<std::int64_t>{1, 1, -1, 3}), random_.between(1, 2));
      result.term = pool_.add(result.term, pool_.mul(guard, pool_.scale(term, factor)));
      result.right = pool_.add(result.right, pool_.mul(guard, pool_.scale(right, factor)));
    };
    if (random_.chance(40)) {
      add(random_.chance(30) ? pool_.access(scale_, {}) : pool_.one());
    } else {
      for (const TermId guard : regions(place)) add(guard);
    }
    return result;
  }

 private:
  enum class Mistake { none, index, stride, element };

  // The variables of a plan value: its element at rank r, in rows and columns.
  struct Place {
    std::int64_t rows = 1, columns = 1;  // that a whole value has
    IndexId row, column;                 // of the whole value
    IndexId flat;
  };
  Place some_place() {
    Place p;
    p.rows = random_.pick(std::vector<std::int64_t>{2, 4});
    p.columns = random_.pick(std::vector<std::int64_t>{4, 6});
    const auto whole = [&](std::size_t dim, std::int64_t extent) {
      if (extent % 2 != 0 || random_.chance(50)) return pool_.index_var(pool_.element(dim, extent));
      const IndexId rank = pool_.index_var(pool_.named(VarKind::mesh, "r", 2)), own = pool_.index_var(pool_.element(dim, extent / 2));
      return random_.chance(60) ? pool_.index_linear(rank, extent / 2, own, 1) : pool_.index_linear(own, 2, rank, 1);
    };
    if (random_.chance(35)) {  // a flat buffer
      p.flat = pool_.index_var(pool_.element(0, p.rows * p.columns));
      p.row = pool_.index_div(p.flat, p.columns);
      p.column = pool_.index_mod(p.flat, p.columns);
    } else {
      p.row = whole(0, p.rows);
      p.column = whole(1, p.columns);
      p.flat = pool_.index_linear(p.row, p.columns, p.column, 1);
    }
    return p;
  }

  // Guards of which exactly one holds everywhere.
  std::vector<TermId> regions(const Place& p) {
    const IndexId form = random_.pick(std::vector<IndexId>{p.row, p.column, p.flat, pool_.index_sub(p.column, p.row), pool_.index_mod(p.flat, random_.between(2, 4)),
                                                           pool_.index_div(p.flat, random_.between(2, 5)), pool_.index_mod(p.column, 2)});
    const std::int64_t first = random_.between(pool_.index(form).lo, pool_.index(form).hi), second = first + random_.between(0, 3);
    std::vector<TermId> result{pool_.range(form, -kUnbounded, first), pool_.range(form, first + 1, second), pool_.range(form, second + 1, kUnbounded)};
    std::erase(result, pool_.zero());
    return result;
  }

  TermId input(IndexId a, IndexId b) { return pool_.access(random_.pick(inputs_), {a, b}); }

  TermId value(const Definition& d, IndexId i, IndexId j) {
    TermId x;
    switch (random_.between(0, 7)) {
      case 0: x = input(j, i); break;
      case 1: x = input(pool_.index_scale(i, 2, random_.between(0, 1)), j); break;
      case 2: x = input(pool_.index_linear(i, -1, i, 0, d.rows - 1), j); break;
      case 3: x = pool_.mul(pool_.access(vector_, {random_.chance(50) ? i : j}), input(i, j)); break;
      case 4: x = input(pool_.index_div(j, 2), pool_.index_linear(pool_.index_mod(j, 2), d.rows, i, 1)); break;
      case 5: {  // another piece at the end, or at every other place
        const IndexId form = random_.pick(std::vector<IndexId>{i, j, pool_.index_mod(j, 2), pool_.index_sub(j, i)});
        const TermId guard = pool_.range(form, -kUnbounded, random_.between(0, 1));
        x = pool_.add(pool_.mul(guard, input(i, j)), pool_.scale(pool_.mul(pool_.complement(guard), input(j, i)), Rational(3, 2)));
        break;
      }
      case 6:
        if (!definitions_.empty()) {
          const Definition& other = random_.pick(definitions_);
          x = at(other, pool_.index_mod(i, other.rows), pool_.index_mod(j, other.columns));
          break;
        }
        [[fallthrough]];
      default: x = input(i, j);
    }
    switch (random_.between(0, 5)) {
      case 0: return pool_.apply(Function::exp, {pool_.scale(x, Rational(1, 8))});
      case 1: return pool_.add(pool_.scale(x, Rational(random_.between(1, 5), 3)), pool_.scale(input(i, j), Rational(-1, 2)));
      case 2: return pool_.inverse(pool_.add(pool_.mul(x, x), pool_.constant(Rational(1, 2))));
      case 3: return pool_.mul(pool_.access(scale_, {}), pool_.mul(x, input(i, j)));
      case 4: {
        const VarId k = pool_.named(VarKind::loop, "k3", 3);
        return pool_.mul(x, pool_.reduce(random_.chance(70) ? Reduction::sum : Reduction::max, {k}, input(i, pool_.index_linear(pool_.index_var(k), 2, j, 0, 1))));
      }
      default: return pool_.mul(x, pool_.access(vector_, {j}));
    }
  }

  // Row i of one input times column j of another, the sum perhaps in chunks.
  TermId contraction(const Definition& d, IndexId i, IndexId j, Mistake mistake) {
    constexpr std::int64_t kLength = 6;
    std::vector<VarId> bound;
    IndexId k;
    if (definitions_.empty() || random_.chance(40)) {
      bound = {pool_.named(VarKind::loop, "k6", kLength)};
      k = pool_.index_var(bound[0]);
      if (mistake == Mistake::stride) k = pool_.index_div(k, 2);
    } else {
      const std::int64_t part = random_.pick(std::vector<std::int64_t>{2, 3});
      bound = {pool_.named(VarKind::loop, "u" + std::to_string(part), kLength / part), pool_.named(VarKind::loop, "v" + std::to_string(part), part)};
      const IndexId u = pool_.index_var(bound[0]), v = pool_.index_var(bound[1]);
      const std::int64_t stride = mistake == Mistake::stride ? part - 1 : part;
      k = random_.chance(70) ? pool_.index_linear(u, stride, v, 1) : pool_.index_linear(v, stride == part ? kLength / part : 1, u, 1);
    }
    if (mistake == Mistake::index) k = pool_.index_scale(k, 1, 1);
    TermId product = pool_.mul(pool_.access(d.contraction->first, {i, k}), pool_.access(d.contraction->second, {k, j}));
    if (mistake == Mistake::element) product = pool_.mul(product, pool_.range(k, 1, kUnbounded));
    return pool_.reduce(Reduction::sum, std::move(bound), product);
  }

  TermId at(const Definition& d, IndexId i, IndexId j) {
    Substitution s;
    if (d.rows > 1) s.set(pool_.element(0, d.rows), i);
    if (d.columns > 1) s.set(pool_.element(1, d.columns), j);
    return pool_.substitute(random_.chance(70) ? d.body : d.folded, s);
  }

  // An index of a whole value as an index of a definition.
  IndexId seen(IndexId e, std::int64_t from, std::int64_t to) {
    if (from > to) e = random_.chance(50) ? pool_.index_mod(e, to) : pool_.index_div(e, (from + to - 1) / to);
    if (from * 2 <= to && random_.chance(50)) return pool_.index_scale(e, 2, random_.between(0, 1));
    if (random_.chance(15)) return pool_.index_mod(pool_.index_scale(e, 1, random_.between(1, 3)), to);
    if (random_.chance(15)) return pool_.index_scale(e, -1, pool_.index(e).hi);
    if (random_.chance(8)) return pool_.index_constant(random_.between(0, to - 1));
    return e;
  }

  std::pair<TermId, TermId> instance(const Place& p) {
    const Definition& d = random_.pick(definitions_);
    const bool turned = random_.chance(20);
    if (random_.chance(15)) {  // more rows than there are, behind a guard
      const IndexId row = pool_.index_scale(pool_.index_var(pool_.element(0, d.rows + 4)), 1, -2), column = seen(p.column, p.columns, d.columns);
      Substitution s;
      s.set(pool_.element(0, d.rows), row);
      s.set(pool_.element(1, d.columns), column);
      const TermId body = pool_.substitute(d.body, s);
      return {pool_.mul(pool_.range(row, 0, d.rows - (spoil_ ? 0 : 1)), body), pool_.mul(pool_.range(row, 0, d.rows - 1), body)};
    }
    const IndexId i = turned ? seen(p.column, p.columns, d.rows) : seen(p.row, p.rows, d.rows);
    const IndexId j = turned ? seen(p.row, p.rows, d.columns) : seen(p.column, p.columns, d.columns);
    const TermId right = at(d, i, j);
    const Mistake mistake = spoil_ ? random_.pick(std::vector<Mistake>{Mistake::index, Mistake::stride, Mistake::element}) : Mistake::none;
    if (d.contraction && random_.chance(70)) return {contraction(d, i, j, mistake), right};
    switch (mistake) {
      case Mistake::index: {
        const IndexId off = pool_.index_mod(pool_.index_scale(j, 1, 1), d.columns);
        return {at(d, i, off), right};
      }
      case Mistake::stride: return {at(d, pool_.index_div(i, 2), j), right};
      case Mistake::element: {
        const TermId here = pool_.mul(pool_.range(i, 0, 0), pool_.range(j, d.columns - 1, d.columns - 1));
        return {pool_.add(pool_.mul(pool_.complement(here), right), pool_.mul(here, random_.chance(50) ? at(d, i, pool_.index_constant(0)) : pool_.zero())), right};
      }
      case Mistake::none: break;
    }
    return {right, right};
  }

  AtomTable& atoms_;
  TermPool& pool_;
  Folder& folder_;
  Random& random_;
  std::vector<TensorId> inputs_;
  TensorId vector_, scale_;
  std::vector<Definition> definitions_;
  bool spoil_ = false;
};

struct Tally {
  std::uint64_t compared = 0, terms = 0, folded = 0, near_misses = 0, near_misses_folded = 0, variants = 0;
};

// Whether the terms have one value at every assignment at which `before` has a moderate one.
bool same_values(TermPool& pool, TermId before, TermId after, const DefinedContents& held, Random& random, std::uint64_t& compared) {
  const std::vector<VarId> vars = pool.members(pool.union_of(pool.node(before).free, pool.node(after).free));
  for (const Assignment& values : assignments(pool, vars, kAllAssignments, random)) {
    const double expected = evaluate(pool, before, values, held.contents());
    if (!std::isfinite(expected) || std::fabs(expected) > 1e6) continue;
    ++compared;
    if (!close(expected, evaluate(pool, after, values, held.contents()))) return false;
  }
  return true;
}

TEST(FoldLayoutFuzz, FoldedTermsHaveTheValuesOfTheTerms) {
  Tally tally;
  for (std::uint64_t seed = first_seed(); seed <= last_seed(700); ++seed) {
    TermPool pool;
    Random random(seed);
    Z3Range z3(pool);
    AtomTable atoms(pool, seed % 50 == 0 ? z3.oracle() : RangeOracle());
    Folder folder(atoms);
    Layouts layouts(atoms, folder, random);
    for (int n = 0; n < 4; ++n) layouts.define();
    const DefinedContents held(atoms, seed);
    for (const Layouts::Definition& d : layouts.definitions())
      ASSERT_TRUE(same_values(pool, d.body, d.folded, held, random, tally.compared)) << "seed " << seed << ": " << pool.to_string(d.body) << "\n-> " << pool.to_string(d.folded);
    for (std::size_t v = 0; v < atoms.variant_count(); ++v) {
      const Variant& variant = atoms.variant(v);
      std::vector<IndexId> whole;
      const std::vector<std::int64_t>& shape = pool.tensor(variant.tensor).shape;
      for (std::size_t d = 0; d < shape.size(); ++d) whole.push_back(pool.index_var(pool.pattern(d, shape[d])));
      const TermId said = pool.scale(pool.access(variant.tensor, whole), variant.factor);
      ++tally.variants;
      ASSERT_TRUE(same_values(pool, said, variant.pattern, held, random, tally.compared)) << "seed " << seed << ": " << pool.to_string(said) << "\n is not " << pool.to_string(variant.pattern);
    }
    for (int n = 0; n < 10; ++n) {
      const bool spoil = random.chance(40);
      const Layouts::Plan plan = layouts.plan(spoil);
      const bool again = random.chance(40);
      TermId folded;
      try {
        folded = again ? folder.refold(plan.term) : folder.fold(plan.term);
      } catch (const std::overflow_error&) {
        continue;
      }
      ASSERT_TRUE(same_values(pool, plan.term, folded, held, random, tally.compared))
          << "seed " << seed << ": " << pool.to_string(plan.term) << "\n-> " << pool.to_string(folded);
      if (!spoil) {
        ++tally.terms;
        if (folder.is_folded(folded) && pool.node(folded).height == 0) ++tally.folded;
        continue;
      }
      std::uint64_t unused = 0;
      if (same_values(pool, plan.right, plan.term, held, random, unused)) continue;
      ++tally.near_misses;
      if (folder.is_folded(folded)) ++tally.near_misses_folded;  // to something else
      ASSERT_NE(folded, again ? folder.refold(plan.right) : folder.fold(plan.right)) << "seed " << seed << ": " << pool.to_string(plan.term);
    }
  }
  std::cout << "compared " << tally.compared << "; of " << tally.terms << " terms " << tally.folded << " folded; " << tally.near_misses << " near misses, " << tally.near_misses_folded
            << " folded to what they are; " << tally.variants << " forms of definitions\n";
  EXPECT_GT(tally.compared, 100'000U);
  EXPECT_GT(tally.folded * 2, tally.terms);
  EXPECT_GT(tally.near_misses, 1'000U);
  EXPECT_GT(tally.variants, 3'000U);
}

}  // namespace
}  // namespace shardproof::solvers::testing

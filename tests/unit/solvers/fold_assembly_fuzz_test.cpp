// Folding puts together what it found in parts: factors regrouped, linear operations that were applied to parts, inner sums of
// sums over several variables, buffers of many pieces, sums written out. A part that is lost, taken twice or scaled wrongly there would
// not be seen again, so each family of terms is folded and must keep its values.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <stdexcept>

#include "solvers/fold.h"
#include "tests/unit/solvers/defined_contents.h"
#include "tests/unit/solvers/raw_term.h"

namespace shardproof::solvers::testing {
namespace {

constexpr std::int64_t kLength = 4;

// Values are vectors: terms over element(0, kLength).
class Values {
 public:
  Values(AtomTable& atoms, Folder& folder, Random& random) : atoms_(atoms), pool_(atoms.pool()), folder_(folder), random_(random) {
    for (const char* name : {"A", "B", "C"}) {
      values_.push_back(pool_.access(atoms.opaque({name, {kLength}, false, 0}), {index()}));
      bodies_.push_back(values_.back());
    }
    for (const char* name : {"W", "M"}) matrices_.push_back(atoms.opaque({name, {kLength, kLength}, false, 0}));
    for (const char* name : {"s", "t"}) scalars_.push_back(pool_.access(atoms.opaque({name, {}, false, 0}), {}));
  }

  IndexId index() { return pool_.index_var(pool_.element(0, kLength)); }
  TermId at(TermId value, IndexId e) {
    Substitution s;
    s.set(pool_.element(0, kLength), e);
    return pool_.substitute(value, s);
  }
  TermId any() { return random_.pick(values_); }
  std::size_t count() const { return values_.size(); }
  TermId value(std::size_t n) const { return values_[n]; }
  TermId scalar() { return random_.pick(scalars_); }
  TensorId matrix() { return random_.pick(matrices_); }
  Rational number() { return Rational(random_.pick(std::vector<std::int64_t>{1, 1, 2, 3, -1, -3}), random_.between(1, 2)); }

  void define(TermId body) {
    bodies_.push_back(body);
    values_.push_back(folder_.define("v" + std::to_string(values_.size()), body));
  }
  const std::vector<TermId>& values() const { return values_; }
  const std::vector<TermId>& bodies() const { return bodies_; }

  TermId elementwise() {
    switch (random_.between(0, 5)) {
      case 0: return pool_.apply(Function::exp, {pool_.scale(any(), Rational(1, 8))});
      case 1: return pool_.inverse(pool_.add(pool_.mul(any(), any()), pool_.constant(Rational(5))));
      case 2: return pool_.apply(Function::tanh, {pool_.add(any(), any())});
      default: return pool_.scale(pool_.mul(any(), any()), number());
    }
  }
  // Row x of a matrix times a value.
  TermId product(TensorId matrix, TermId value, IndexId row) {
    TermPool::FreshScope scope(pool_);
    const VarId k = scope.fresh(kLength);
    return pool_.reduce(Reduction::sum, {k}, pool_.mul(pool_.access(matrix, {row, pool_.index_var(k)}), at(value, pool_.index_var(k))));
  }

 private:
  AtomTable& atoms_;
  TermPool& pool_;
  Folder& folder_;
  Random& random_;
  std::vector<TermId> values_, bodies_, scalars_;
  std::vector<TensorId> matrices_;
};

struct Family {
  AtomTable& atoms;
  TermPool& pool;
  Folder& folder;
  Random& random;
  Values values;

  Family(AtomTable& a, Folder& f, Random& r) : atoms(a), pool(a.pool()), folder(f), random(r), values(a, f, r) {}

  // Definitions unfolded here and there.
  TermId unfolded(TermId term) {
    for (int n = static_cast<int>(random.between(0, 2)); n > 0; --n)
      term = atoms.unfold(term, [this](TensorId) { return random.chance(60); });
    return term;
  }
  TermId scaled(TermId term) {
    if (random.chance(20)) term = pool.mul(term, values.scalar());
    return pool.scale(term, values.number());
  }
  TermId guarded(TermId term) {
    return random.chance(75) ? term : pool.mul(pool.range(values.index(), random.between(0, 1), random.between(1, 3)), term);
  }

  // Products of products.
  TermId products() {
    for (int n = 0; n < 3; ++n) values.define(values.elementwise());
    for (int n = 0; n < 3; ++n) values.define(pool.scale(pool.mul(values.any(), values.any()), values.number()));
    const std::size_t last = values.count() - 1;
    TermId product = pool.mul(values.value(last), random.chance(30) ? values.any() : pool.one());
    product = unfolded(product);
    return guarded(scaled(product));
  }

  // A matrix applied to a sum of values, part by part, and other sums.
  TermId distributed() {
    for (int n = 0; n < 3; ++n) values.define(values.elementwise());
    std::vector<TermId> parts;
    for (std::int64_t n = random.between(2, 3); n > 0; --n) parts.push_back(pool.scale(values.any(), values.number()));
    values.define(pool.sum(parts));
    const TermId whole = values.values().back(), other = values.any();
    const TensorId matrix = values.matrix(), second = values.matrix();
    values.define(values.product(matrix, whole, values.index()));
    const TermId applied = values.values().back();
    values.define(values.product(second, other, values.index()));
    values.define(pool.add(pool.scale(applied, values.number()), values.values().back()));
    const Rational factor = values.number();
    TermId term = random.chance(80) ? pool.scale(values.product(second, other, values.index()), values.number()) : pool.zero();
    for (const TermId part : parts) {
      TermId piece = pool.scale(values.product(matrix, part, values.index()), factor);
      if (random.chance(10)) piece = pool.scale(piece, values.number());
      if (!random.chance(6)) term = pool.add(term, piece);
    }
    return guarded(scaled(term));
  }

  // Chains of matrices as one sum.
  TermId chain() {
    values.define(values.elementwise());
    const TensorId first = values.matrix(), second = values.matrix();
    const TermId x = values.any();
    values.define(values.product(first, x, values.index()));
    values.define(values.product(second, pool.scale(values.values().back(), values.number()), values.index()));
    TermPool::FreshScope scope(pool);
    const VarId k = scope.fresh(kLength), l = scope.fresh(kLength);
    const IndexId i = values.index(), at_k = pool.index_var(k), at_l = pool.index_var(l);
    TermId product = pool.mul(pool.mul(pool.access(second, {i, at_k}), pool.access(first, {at_k, at_l})), values.at(x, at_l));
    if (random.chance(25)) product = pool.mul(product, values.at(values.any(), random.chance(50) ? at_k : at_l));
    return guarded(scaled(pool.reduce(Reduction::sum, {k, l}, pool.scale(product, values.number()))));
  }

  // A flat buffer of many members, of which some need more work than others.
  TermId buffer() {
    for (int n = 0; n < 3; ++n) values.define(values.elementwise());
    for (int n = 0; n < 3; ++n) values.define(random.chance(50) ? pool.add(values.any(), values.any()) : pool.mul(values.any(), values.any()));
    const std::int64_t members = random.between(12, 24);
    std::vector<std::int64_t> sizes;
    std::int64_t total = 0;
    for (std::int64_t n = 0; n < members; ++n) {
      sizes.push_back(random.between(1, kLength));
      total += sizes.back();
    }
    const IndexId position = random.chance(50) ? pool.index_var(pool.element(0, total)) : pool.index_linear(pool.index_var(pool.named(VarKind::mesh, "r", 2)), total / 2, pool.index_var(pool.element(0, total / 2)), 1);
    // Perhaps over something that is there where no member is.
    const TermId base = random.chance(40) ? values.at(values.any(), pool.index_mod(position, kLength)) : pool.zero();
    TermId term = base;
    std::int64_t offset = 0;
    for (const std::int64_t size : sizes) {
      const TermId whole = random.chance(4) ? unfolded(values.elementwise()) : random.chance(30) ? unfolded(values.any()) : values.any();
      const TermId member = values.at(whole, pool.index_scale(position, 1, -offset));
      const TermId guard = pool.range(position, offset, offset + size - (random.chance(99) ? 1 : 0));
      if (!random.chance(2)) term = pool.add(term, pool.mul(guard, pool.sub(scaled(member), base)));
      offset += size;
    }
    return term;
  }

  // Pieces that are one polynomial only after unfolding.
  TermId pieces() {
    for (int n = 0; n < 4; ++n) values.define(values.elementwise());
    values.define(pool.add(pool.mul(values.any(), values.any()), values.any()));
    values.define(pool.mul(pool.add(values.values().back(), values.any()), values.any()));
    const std::int64_t cut = random.between(0, 2);
    const TermId low = pool.range(values.index(), -kUnbounded, cut);
    const auto piece = [&] { return scaled(unfolded(unfolded(random.chance(60) ? values.values().back() : values.any()))); };
    return pool.add(pool.mul(low, piece()), pool.mul(pool.complement(low), piece()));
  }

  // A sum with some of its terms written out.
  TermId unrolled() {
    for (int n = 0; n < 2; ++n) values.define(values.elementwise());
    const TensorId matrix = values.matrix();
    const TermId x = values.any();
    values.define(values.product(matrix, x, values.index()));
    values.define(pool.mul(values.values().back(), values.any()));
    TermId term = pool.zero();
    const TermId outside = scaled(random.chance(40) ? values.any() : pool.one());
    for (std::int64_t k = 0; k < kLength; ++k) {
      const IndexId taken = pool.index_constant(random.chance(95) ? k : random.between(0, kLength - 1));
      term = pool.add(term, pool.mul(outside, pool.mul(pool.access(matrix, {values.index(), taken}), values.at(x, taken))));
    }
    return guarded(random.chance(30) ? pool.add(term, values.any()) : term);
  }
};

TEST(FoldAssemblyFuzz, PartsPutTogetherAreTheWhole) {
  const std::vector<std::pair<const char*, TermId (Family::*)()>> families{
      {"products", &Family::products}, {"distributed", &Family::distributed}, {"chain", &Family::chain},
      {"buffer", &Family::buffer},     {"pieces", &Family::pieces},           {"unrolled", &Family::unrolled}};
  for (const auto& [name, make] : families) {
    std::uint64_t terms = 0, changed = 0, folded = 0, compared = 0;
    for (std::uint64_t seed = first_seed(); seed <= last_seed(600); ++seed) {
      TermPool pool;
      Random random(seed);
      AtomTable atoms(pool, {});
      Folder folder(atoms);
      Family family(atoms, folder, random);
      TermId term, result;
      try {
        term = (family.*make)();
        result = random.chance(20) ? folder.fold(term) : folder.refold(term);
      } catch (const BudgetExceeded&) {
        continue;
      } catch (const std::overflow_error&) {
        continue;
      }
      ++terms;
      if (result != term) ++changed;
      if (folder.is_folded(result)) ++folded;
      const DefinedContents held(atoms, seed);
      std::vector<std::pair<TermId, TermId>> pairs{{term, result}};
      for (std::size_t n = 0; n < family.values.count(); ++n) pairs.emplace_back(family.values.bodies()[n], family.values.value(n));
      for (const auto& [before, after] : pairs) {
        const std::vector<VarId> vars = pool.members(pool.union_of(pool.node(before).free, pool.node(after).free));
        for (const Assignment& at : assignments(pool, vars, 300, random)) {
          double largest = 0;
          const double expected = evaluate(pool, before, at, held.contents());
          const double found = evaluate(pool, after, at, held.contents(), &largest);
          if (!std::isfinite(expected) || std::fabs(expected) > 1e6 || largest > 1e8 * (1 + std::fabs(expected))) continue;
          ++compared;
          ASSERT_TRUE(close(expected, found)) << name << ", seed " << seed << ": " << pool.to_string(before) << "\n-> " << pool.to_string(after);
        }
      }
    }
    std::cout << name << ": compared " << compared << ", of " << terms << " terms " << changed << " changed, " << folded << " folded\n";
    EXPECT_GT(changed * 3, terms) << name;
    EXPECT_GT(folded * 8, terms) << name;
    EXPECT_GT(compared, 5'000U) << name;
  }
}

}  // namespace
}  // namespace shardproof::solvers::testing

// Numbers near 2^63 through every rule on index terms, guards, sums and folds: a rule may throw, but what it returns has the
// value that arithmetic on 128 bits gives.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <limits>
#include <optional>
#include <stdexcept>

#include "solvers/fold.h"
#include "solvers/unify.h"
#include "tests/unit/solvers/defined_contents.h"
#include "tests/unit/solvers/raw_term.h"

namespace shardproof::solvers::testing {
namespace {

__extension__ typedef __int128 Wide;

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

Wide floor_quotient(Wide a, Wide b) { return a / b - (a % b < 0 ? 1 : 0); }

// The exact value; nothing if even 128 bits do not hold a part.
std::optional<Wide> exact(const Index& e, const Assignment& values) {
  constexpr Wide kFar = Wide{1} << 100;
  const auto part = [&](std::size_t k) { return exact(e->parts[k], values); };
  switch (e->kind) {
    case RawIndex::Kind::variable: return values.at(e->var);
    case RawIndex::Kind::linear: {
      Wide total = e->constant;
      for (std::size_t k = 0; k < e->parts.size(); ++k) {
        const auto x = part(k);
        if (!x || *x > (Wide{1} << 62) || *x < -(Wide{1} << 62)) return std::nullopt;
        total += *x * e->coefficients[k];
        if (total > kFar * (1 << 25) || total < -kFar * (1 << 25)) return std::nullopt;
      }
      return total;
    }
    case RawIndex::Kind::div:
    case RawIndex::Kind::mod: {
      const auto x = part(0);
      if (!x) return std::nullopt;
      const Wide q = floor_quotient(*x, e->divisor);
      return e->kind == RawIndex::Kind::div ? q : *x - q * e->divisor;
    }
    case RawIndex::Kind::load: break;
  }
  return std::nullopt;
}

class Numbers {
 public:
  Numbers(TermPool& pool, Random& random) : pool_(pool), random_(random) {
    for (int n = 0; n < 3; ++n) {
      const std::int64_t extent = random.chance(50) ? random.between(2, 6) : random.pick(extents_);
      vars.push_back(pool.named(VarKind::loop, "v" + std::to_string(n), extent));
    }
  }

  std::vector<VarId> vars;

  // Anything, mostly close to a power of 2.
  std::int64_t number() {
    if (random_.chance(45)) return random_.between(-9, 9);
    if (random_.chance(8)) return random_.chance(50) ? kMin + random_.between(0, 2) : kMax - random_.between(0, 2);
    const std::int64_t power = std::int64_t{1} << random_.between(8, 62);
    const std::int64_t near = power - 3 + random_.between(0, 6);
    return random_.chance(50) ? near : -near;
  }
  std::int64_t divisor() {
    const std::int64_t n = number();
    return n > 0 ? n : n == 0 || n == kMin ? 7 : -n;
  }
  Index index(int depth) {
    if (depth <= 0) return variable(random_.pick(vars));
    switch (random_.between(0, 4)) {
      case 0: return div(index(depth - 1), divisor());
      case 1: return mod(index(depth - 1), divisor());
      case 2: {  // digits
        const std::int64_t c = divisor();
        const Index e = index(depth - 1);
        return linear(number(), {{random_.chance(70) ? c : number(), div(e, c)}, {1, mod(e, c)}});
      }
      default: return linear(number(), {{number(), index(depth - 1)}, {number(), variable(random_.pick(vars))}});
    }
  }
  Assignment somewhere() {
    Assignment values;
    for (const VarId v : vars) {
      const std::int64_t last = pool_.var(v).extent - 1;
      values.set(v, random_.chance(30) ? 0 : random_.chance(40) ? last : random_.between(0, last));
    }
    return values;
  }
  struct Guard {
    Index form;
    std::int64_t lo, hi;
  };
  // Mostly with bounds near a value that the form has.
  Guard guard(int depth) {
    Guard g{index(depth), -kUnbounded, kUnbounded};
    const auto value = exact(g.form, somewhere());
    std::int64_t middle = number();
    if (value && *value > -(Wide{1} << 62) && *value < (Wide{1} << 62) && random_.chance(80)) middle = static_cast<std::int64_t>(*value);
    const auto moved = [&](std::int64_t by) { return (by > 0 && middle > kMax - by) || (by < 0 && middle < kMin - by) ? middle : middle + by; };
    if (random_.chance(70)) g.lo = moved(random_.between(-3, 1));
    if (random_.chance(70)) g.hi = moved(random_.between(-1, 3));
    return g;
  }

 private:
  TermPool& pool_;
  Random& random_;
  const std::vector<std::int64_t> extents_{1 << 20, (std::int64_t{1} << 31) + 1, std::int64_t{1} << 40, (std::int64_t{1} << 61) - 1, std::int64_t{1} << 61};
};

TEST(OverflowFuzz, IndexTerms) {
  std::uint64_t built = 0, refused = 0, compared = 0, large = 0;
  for (std::uint64_t seed = first_seed(); seed <= last_seed(30'000); ++seed) {
    TermPool pool;
    Random random(seed);
    Numbers numbers(pool, random);
    const Index raw = numbers.index(static_cast<int>(random.between(1, 3)));
    IndexId e;
    try {
      e = build(pool, raw);
    } catch (const std::overflow_error&) {
      ++refused;
      continue;
    }
    ++built;
    const TensorContents contents = hashed_contents(pool, seed);
    for (int n = 0; n < 4; ++n) {
      const Assignment values = numbers.somewhere();
      const auto expected = exact(raw, values);
      if (!expected) continue;
      const std::int64_t found = evaluate(pool, e, values, contents);
      ++compared;
      if (found > (std::int64_t{1} << 50) || found < -(std::int64_t{1} << 50)) ++large;
      ASSERT_TRUE(*expected == found) << "seed " << seed << ": " << to_string(pool, raw) << " is not " << found << " = " << pool.to_string(e);
      ASSERT_TRUE(pool.index(e).lo <= found && found <= pool.index(e).hi) << "seed " << seed << ": " << found << " = " << pool.to_string(e);
    }
  }
  std::cout << built << " built, " << refused << " refused, compared " << compared << ", of which " << large << " exceed 2^50\n";
  EXPECT_GT(built, 5'000U);
  EXPECT_GT(refused, 5'000U);
  EXPECT_GT(large, 2'000U);
}

bool holds(const std::vector<Numbers::Guard>& guards, const Assignment& values, bool& known) {
  for (const Numbers::Guard& g : guards) {
    const auto x = exact(g.form, values);
    known = known && x.has_value();
    if (!x || (g.lo != -kUnbounded && *x < g.lo) || (g.hi != kUnbounded && *x > g.hi)) return false;
  }
  return true;
}

// Products and complements of guards, intervals and terms under them.
TEST(OverflowFuzz, Guards) {
  std::uint64_t compared = 0, bounded = 0, refused = 0, held = 0;
  for (std::uint64_t seed = first_seed(); seed <= last_seed(30'000); ++seed) {
    TermPool pool({3000, 600});
    Random random(seed);
    Numbers numbers(pool, random);
    std::vector<Numbers::Guard> raw;
    for (std::int64_t n = random.between(1, 3); n > 0; --n) raw.push_back(numbers.guard(static_cast<int>(random.between(1, 2))));
    if (raw.size() > 1 && random.chance(40)) raw[1].form = random.chance(50) ? raw[0].form : linear(numbers.number(), {{random.between(-3, 3), raw[0].form}});
    const Index e = random.chance(50) ? raw[0].form : linear(numbers.number(), {{random.between(-2, 2), raw[0].form}, {1, numbers.index(1)}});
    std::vector<TermId> guards;
    TermId product, complement, assumed;
    IndexId form;
    std::pair<std::int64_t, std::int64_t> bounds;
    const TensorId tensor = pool.new_tensor({"A", {std::int64_t{1} << 62}, false, 0});
    try {
      product = pool.one();
      for (const Numbers::Guard& g : raw) {
        guards.push_back(pool.range(build(pool, g.form), g.lo, g.hi));
        product = pool.mul(product, guards.back());
      }
      std::erase_if(guards, [&](TermId g) { return !pool.is_guard(g); });
      form = build(pool, e);
      complement = pool.complement(product);
      bounds = pool.bounds_under(form, guards);
      assumed = pool.assume(pool.add(pool.access(tensor, {form}), pool.range(form, raw[0].lo, raw[0].hi)), guards, random.chance(50) ? TermPool::Detail::values : TermPool::Detail::parts);
    } catch (const std::overflow_error&) {
      ++refused;
      continue;
    } catch (const BudgetExceeded&) {
      continue;
    }
    if (bounds.first > pool.index(form).lo || bounds.second < pool.index(form).hi) ++bounded;
    const TensorContents contents = hashed_contents(pool, seed);
    for (int n = 0; n < 8; ++n) {
      const Assignment values = numbers.somewhere();
      bool known = true;
      const bool expected = holds(raw, values, known);
      const auto at = exact(e, values);
      if (!known || !at) continue;
      ++compared;
      ASSERT_EQ(evaluate(pool, product, values, contents), expected ? 1 : 0) << "seed " << seed << ": " << pool.to_string(product);
      ASSERT_EQ(evaluate(pool, complement, values, contents), expected ? 0 : 1) << "seed " << seed << ": " << pool.to_string(complement);
      if (!expected) continue;
      ++held;
      ASSERT_TRUE(bounds.first <= *at && *at <= bounds.second) << "seed " << seed << ": " << pool.to_string(form) << " in [" << bounds.first << ", " << bounds.second << "]";
      bool inside = (raw[0].lo == -kUnbounded || *at >= raw[0].lo) && (raw[0].hi == kUnbounded || *at <= raw[0].hi);
      ASSERT_EQ(evaluate(pool, assumed, values, contents), contents.real(tensor, {static_cast<std::int64_t>(*at)}) + (inside ? 1 : 0)) << "seed " << seed << ": " << pool.to_string(assumed);
    }
  }
  std::cout << refused << " refused, compared " << compared << ", of which guards hold " << held << ", tighter intervals " << bounded << "\n";
  EXPECT_GT(compared, 30'000U);
  EXPECT_GT(held, 10'000U);
  EXPECT_GT(bounded, 1'000U);
}

// Sums over guards and accesses, against adding up; and how many numbers of a long range a guard admits.
TEST(OverflowFuzz, Sums) {
  std::uint64_t compared = 0, counted = 0, refused = 0;
  for (std::uint64_t seed = first_seed(); seed <= last_seed(20'000); ++seed) {
    TermPool pool({3000, 600});
    Random random(seed);
    Numbers numbers(pool, random);
    const std::int64_t extent = random.between(2, 6);
    numbers.vars.push_back(pool.named(VarKind::loop, "w", extent));
    const VarId bound = numbers.vars.back();
    const TensorId tensor = pool.new_tensor({"A", {std::int64_t{1} << 62}, false, 0});
    const TensorContents contents = hashed_contents(pool, seed);
    try {
      TermId body = pool.access(tensor, {build(pool, numbers.index(2))});
      for (std::int64_t n = random.between(0, 2); n > 0; --n) {
        const Numbers::Guard g = numbers.guard(static_cast<int>(random.between(1, 2)));
        body = pool.mul(body, pool.range(build(pool, g.form), g.lo, g.hi));
      }
      const Reduction op = random.chance(70) ? Reduction::sum : Reduction::max;
      const TermId reduced = pool.reduce(op, {bound}, body);
      for (int n = 0; n < 3; ++n) {
        Assignment values = numbers.somewhere();
        double expected = op == Reduction::sum ? 0 : -HUGE_VAL;
        for (std::int64_t w = 0; w < extent; ++w) {
          values.set(bound, w);
          const double x = evaluate(pool, body, values, contents);
          expected = op == Reduction::sum ? expected + x : std::max(expected, x);
        }
        ++compared;
        ASSERT_TRUE(close(expected, evaluate(pool, reduced, values, contents))) << "seed " << seed << ": " << pool.to_string(body) << "\n-> " << pool.to_string(reduced);
      }
    } catch (const std::overflow_error&) {
      ++refused;
    } catch (const BudgetExceeded&) {
    }
    try {  // lo <= k*v + c <= hi for v < extent
      const VarId v = pool.named(VarKind::loop, "long", random.pick(std::vector<std::int64_t>{1000, (std::int64_t{1} << 40) + 1, std::int64_t{1} << 61}));
      const std::int64_t k = numbers.number(), c = numbers.number(), lo = numbers.number(), hi = numbers.number();
      if (k == 0 || k == kMin) continue;
      const TermId total = pool.reduce(Reduction::sum, {v}, pool.range(pool.index_scale(pool.index_var(v), k, c), lo, hi));
      const auto number = pool.as_constant(total);
      if (!number) continue;
      const auto ceil_quotient = [](Wide a, Wide b) { return -floor_quotient(-a, b); };
      const Wide least = k > 0 ? ceil_quotient(Wide{lo} - c, k) : ceil_quotient(Wide{c} - hi, -Wide{k});
      const Wide most = k > 0 ? floor_quotient(Wide{hi} - c, k) : floor_quotient(Wide{c} - lo, -Wide{k});
      const Wide from = std::max<Wide>(least, 0), to = std::min<Wide>(most, pool.var(v).extent - 1);
      const Wide expected = lo > hi || from > to ? 0 : to - from + 1;
      ++counted;
      ASSERT_TRUE(number->den == 1 && number->num == expected) << "seed " << seed << ": " << lo << " <= " << k << "*v + " << c << " <= " << hi << " below " << pool.var(v).extent << " gives " << ir::to_string(*number);
    } catch (const std::overflow_error&) {
      ++refused;
    }
  }
  std::cout << refused << " refused, compared " << compared << ", counted " << counted << "\n";
  EXPECT_GT(compared, 20'000U);
  EXPECT_GT(counted, 1'000U);
}

// Definitions over long dimensions, found at places far out.
TEST(OverflowFuzz, Folds) {
  std::uint64_t compared = 0, folded = 0, refused = 0;
  for (std::uint64_t seed = first_seed(); seed <= last_seed(8'000); ++seed) {
    TermPool pool({3000, 600});
    Random random(seed);
    Numbers numbers(pool, random);
    AtomTable atoms(pool, {});
    Folder folder(atoms);
    const std::int64_t extent = random.pick(std::vector<std::int64_t>{1 << 20, std::int64_t{1} << 40, (std::int64_t{1} << 60) + 1, std::int64_t{1} << 61});
    const TensorId a = atoms.opaque({"A", {extent}, false, 0}), b = atoms.opaque({"B", {extent}, false, 0});
    const DefinedContents held(atoms, seed);
    TermId term, result;
    try {
      const VarId y = pool.element(0, extent);
      const IndexId at = pool.index_var(y);
      TermId body = pool.mul(pool.access(a, {at}), pool.access(b, {random.chance(50) ? at : pool.index_scale(at, -1, extent - 1)}));
      if (random.chance(40)) {
        const TermId low = pool.range(at, -kUnbounded, std::min(extent - 1, numbers.divisor()));
        body = pool.add(pool.mul(low, body), pool.mul(pool.complement(low), pool.scale(pool.mul(pool.access(b, {at}), pool.access(b, {at})), Rational(3, 2))));
      }
      folder.define("t", body);
      const auto place = [&] {
        IndexId e = build(pool, numbers.index(static_cast<int>(random.between(1, 2))));
        return random.chance(60) ? pool.index_mod(e, extent) : e;
      };
      const auto instance = [&] {
        const IndexId e = place();
        Substitution s;
        s.set(y, e);
        const TermId inside = pool.substitute(body, s);
        return random.chance(50) ? pool.mul(pool.range(e, 0, extent - 1), inside) : inside;
      };
      term = instance();
      if (random.chance(30)) {
        const Numbers::Guard g = numbers.guard(1);
        const TermId low = pool.range(build(pool, g.form), g.lo, g.hi);
        term = pool.add(pool.mul(low, term), pool.mul(pool.complement(low), instance()));
      }
      result = random.chance(50) ? folder.fold(term) : folder.refold(term);
    } catch (const std::overflow_error&) {
      ++refused;
      continue;
    } catch (const BudgetExceeded&) {
      continue;
    }
    if (result != term && folder.is_folded(result)) ++folded;
    for (int n = 0; n < 6; ++n) {
      const Assignment values = numbers.somewhere();
      ++compared;
      ASSERT_TRUE(close(evaluate(pool, term, values, held.contents()), evaluate(pool, result, values, held.contents())))
          << "seed " << seed << ": " << pool.to_string(term) << "\n-> " << pool.to_string(result);
    }
  }
  std::cout << refused << " refused, compared " << compared << ", folded " << folded << "\n";
  EXPECT_GT(compared, 10'000U);
  EXPECT_GT(folded, 1'000U);
}

// Proposals are indices like others: whatever is proposed is a number below 2^62, or there is none.
TEST(OverflowFuzz, Proposals) {
  std::uint64_t proposed = 0, right = 0, refused = 0;
  for (std::uint64_t seed = first_seed(); seed <= last_seed(8'000); ++seed) {
    TermPool pool({3000, 600});
    Random random(seed);
    Numbers numbers(pool, random);
    const std::vector<std::int64_t> shape{random.pick(std::vector<std::int64_t>{16, std::int64_t{1} << 40}), random.between(2, 6)};
    const TensorId a = pool.new_tensor({"A", {std::int64_t{1} << 62}, false, 0});
    const IndexId x = pool.index_var(pool.pattern(0, shape[0])), y = pool.index_var(pool.pattern(1, shape[1]));
    try {
      const IndexId form = random.chance(50) ? pool.index_linear(x, numbers.number(), y, numbers.number(), numbers.number()) : pool.index_linear(x, shape[1], y, 1, numbers.number());
      TermId pattern = pool.apply(Function::exp, {pool.access(a, {form})});
      if (random.chance(40)) pattern = pool.mul(pattern, pool.range(random.chance(50) ? form : x, numbers.number(), kUnbounded));
      Substitution s;
      s.set(pool.pattern(0, shape[0]), build(pool, numbers.index(1)));
      s.set(pool.pattern(1, shape[1]), build(pool, numbers.index(1)));
      const TermId term = random.chance(80) ? pool.substitute(pattern, s) : pool.apply(Function::exp, {pool.access(a, {build(pool, numbers.index(2))})});
      const TensorId of = pool.new_tensor({"T", shape, false, 0});
      const std::vector<TermId> guards{pool.one(), pool.range(build(pool, numbers.index(1)), numbers.number(), kUnbounded)};
      const TermId key = random.chance(20) ? pool.apply(Function::exp, {pool.access(a, {pool.index_div(y, 2)})}) : pattern;
      propose_instances(pool, {of, pattern, Rational(1), key}, term, guards, 16, [&](const std::vector<IndexId>& indices) {
        ++proposed;
        Substitution instance;
        for (std::size_t d = 0; d < shape.size(); ++d) {
          EXPECT_LT(pool.index(indices[d]).hi, std::int64_t{1} << 62);
          EXPECT_GT(pool.index(indices[d]).lo, -(std::int64_t{1} << 62));
          instance.set(pool.pattern(d, shape[d]), indices[d]);
        }
        if (pool.substitute(pattern, instance) != term) return false;
        ++right;
        return true;
      });
    } catch (const std::overflow_error&) {
      ++refused;
    }
  }
  std::cout << refused << " refused, " << proposed << " proposed, " << right << " right\n";
  EXPECT_GT(right, 500U);
}

}  // namespace
}  // namespace shardproof::solvers::testing

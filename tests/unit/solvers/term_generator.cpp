#include "tests/unit/solvers/term_generator.h"

#include <algorithm>

namespace shardproof::solvers::testing {

TermGenerator::TermGenerator(TermPool& pool, Random& random, Shape shape)
    : pool_(pool), random_(random), shape_(shape) {
  const std::vector<std::int64_t> extents{2, 3, 4, 4, 6, 8};
  for (std::int64_t i = random_.between(1, 3); i > 0; --i) {
    const std::int64_t extent = random_.pick(extents);
    free_.push_back(pool_.named(VarKind::mesh, "f" + std::to_string(i) + "_" + std::to_string(extent), extent));
  }
  scope_ = free_;
  tensors_ = {pool_.new_tensor({"A", {64}, false, 0}), pool_.new_tensor({"B", {64}, false, 0}),
              pool_.new_tensor({"C", {64, 64}, false, 0})};
  ids_ = pool_.new_tensor({"ids", {64}, true, random_.between(2, 9)});
  for (int i = 0; i < 2; ++i) {
    std::vector<std::pair<std::int64_t, Index>> parts;
    for (VarId v : free_) parts.emplace_back(random_.between(-4, 4), variable(v));
    forms_.push_back(linear(random_.between(-2, 2), std::move(parts)));
  }
}

VarId TermGenerator::bind(std::int64_t extent) {
  scope_.push_back(
      pool_.named(VarKind::loop, "b" + std::to_string(bound_count_++) + "_" + std::to_string(extent), extent));
  return scope_.back();
}

void TermGenerator::unbind() {
  scope_.pop_back();
}

std::vector<VarId> TermGenerator::bind_some(std::int64_t most) {
  std::vector<VarId> bound;
  for (std::int64_t n = random_.between(1, most); n > 0; --n)
    bound.push_back(bind(random_.pick(std::vector<std::int64_t>{1, 2, 2, 3, 4, 4, 6, 8})));
  return bound;
}

// eb*a + b, perhaps with a reversed, shifted, or with a wrong stride.
Index TermGenerator::digit_form() {
  const VarId a = any_var(), b = any_var();
  const std::int64_t eb = pool_.var(b).extent, ea = pool_.var(a).extent;
  const std::int64_t stride = random_.chance(85) ? eb : random_.between(1, 9);
  std::int64_t offset = random_.chance(70) ? 0 : random_.between(-4, 4);
  if (random_.chance(30)) return linear(stride * (ea - 1) + offset, {{-stride, variable(a)}, {1, variable(b)}});
  std::vector<std::pair<std::int64_t, Index>> parts{{stride, variable(a)}, {1, variable(b)}};
  if (random_.chance(30)) parts.emplace_back(stride * ea, variable(any_var()));
  return linear(offset, std::move(parts));
}

Index TermGenerator::index(int depth) {
  if (depth <= 0) return variable(any_var());
  switch (random_.between(0, 7)) {
    case 0:
      return div(index(depth - 1), random_.between(2, 8));
    case 1:
      return mod(index(depth - 1), random_.between(2, 8));
    case 2:
    case 3:
      return digit_form();
    case 4:
      return random_.chance(30) ? load(ids_, {index(depth - 1)})
                                : linear(random_.between(-5, 5), {{1, index(depth - 1)}});
    case 5:
      return linear(random_.between(-8, 8),
                    {{random_.chance(50) ? 1 : -1, index(depth - 1)}, {random_.between(-4, 4), variable(any_var())}});
    default:
      return index(depth - 1);
  }
}

Index TermGenerator::form() {
  const Index base = random_.chance(60) ? random_.pick(forms_) : index(1);
  switch (random_.between(0, 7)) {
    case 0:
      return div(base, random_.between(2, 4));
    case 1:
      return linear(random_.between(-3, 3),
                    {{random_.between(1, 3), base}, {random_.between(-1, 1), variable(any_var())}});
    case 2:
      return linear(random_.between(-3, 3), {{-1, base}});
    case 3: {  // the same digits, put together
      const std::int64_t c = random_.between(2, 4);
      return linear(0, {{c, div(base, c)}, {1, random_.chance(50) ? mod(base, c) : variable(any_var())}});
    }
    default:
      return base;
  }
}

Term TermGenerator::guard() {
  const Index e = form();
  const std::int64_t lo = random_.between(-8, 16);
  switch (random_.between(0, 4)) {
    case 0:
      return range(e, -kUnbounded, lo);
    case 1:
      return range(e, lo, kUnbounded);
    case 2:
      return range(e, lo, lo);
    case 3:
      return range(e, 4 * (lo / 4), 4 * (lo / 4) + 3);
    default:
      return range(e, lo, lo + random_.between(-1, 8));
  }
}

Term TermGenerator::condition() {
  std::vector<Term> product{guard()};
  while (random_.chance(40)) product.push_back(guard());
  if (random_.chance(70)) return multiply(std::move(product));
  // disjoint alternatives
  const Index e = form();
  const std::int64_t cut = random_.between(-4, 8);
  const Term left = multiply({range(e, -kUnbounded, cut), multiply(product)});
  return add({left, multiply({range(e, cut + random_.between(1, 3), kUnbounded), guard()})});
}

Term TermGenerator::factor() {
  switch (random_.between(0, 5)) {
    case 0:
      return access(tensors_[2], {index(1), index(2)});
    case 1:
      return value(index(1));
    case 2:
      return access(tensors_[1], {index(2)});
    default:
      return access(tensors_[0], {random_.chance(50) ? digit_form() : index(1)});
  }
}

// A product of guards, accesses and, rarely, inner reductions.
Term TermGenerator::body(int factors) {
  std::vector<Term> parts;
  for (std::int64_t n = random_.between(1, factors); n > 0; --n) parts.push_back(factor());
  while (random_.chance(45)) {
    if (random_.chance(50)) {
      parts.push_back(guard());
    } else if (random_.chance(50)) {  // fixes or bounds one variable
      const VarId v = any_var();
      const std::int64_t c = random_.between(0, pool_.var(v).extent);
      parts.push_back(random_.chance(50) ? range(linear(0, {{random_.chance(50) ? 1 : -1, variable(v)},
                                                            {random_.between(-2, 2), variable(any_var())}}),
                                                 c, c)
                                         : range(variable(v), c - random_.between(0, 3), c + random_.between(0, 3)));
    } else {
      const std::int64_t c = random_.between(0, 12);
      const Index e = digit_form();
      parts.push_back(random_.chance(50) ? range(e, c, kUnbounded) : range(e, -kUnbounded, c));
    }
  }
  return multiply(std::move(parts));
}

Term TermGenerator::sum() {
  const std::vector<VarId> bound = bind_some(3);
  std::vector<Term> terms{body(3)};
  if (random_.chance(20)) terms.push_back(body(2));
  if (random_.chance(15)) {
    const Term outer = factor();
    const std::vector<VarId> inner = bind_some(1);
    terms.push_back(multiply({outer, reduce(Reduction::sum, inner, body(2))}));
    for (std::size_t i = 0; i < inner.size(); ++i) unbind();
    if (random_.chance(50)) terms.back() = multiply({body(1), terms.back()});
  }
  for (std::size_t i = 0; i < bound.size(); ++i) unbind();
  return reduce(Reduction::sum, bound, add(std::move(terms)));
}

Term TermGenerator::chunks(Reduction op) {
  // One body over a long variable, cut into pieces; now and then a piece is shifted, doubled or left out.
  const std::int64_t extent = random_.between(4, 12);
  const VarId whole = bind(extent);
  const bool two = random_.chance(40);
  const VarId other = two ? bind(random_.between(2, 4)) : whole;
  const Term all = multiply(
      {body(2),
       access(tensors_[2], {index(1), linear(random_.between(-3, 3), {{random_.between(1, 3), variable(whole)}})})});
  if (two) unbind();
  unbind();
  std::vector<Term> pieces;
  for (std::int64_t from = 0; from < extent;) {
    const std::int64_t size = std::min(random_.between(1, 5), extent - from);
    const VarId v = bind(size);
    unbind();
    const std::int64_t shift = from + (random_.chance(10) ? 1 : 0);
    const Term piece =
        replace(all, whole, size == 1 && random_.chance(50) ? number(shift) : linear(shift, {{1, variable(v)}}));
    std::vector<VarId> bound{v};
    if (two) bound.insert(random_.chance(50) ? bound.begin() : bound.end(), other);
    if (!random_.chance(5))
      pieces.push_back(multiply({constant(random_.chance(5) ? 2 : 1), reduce(op, bound, piece)}));
    from += size;
  }
  for (std::size_t i = pieces.size(); i > 1; --i)
    std::swap(pieces[i - 1], pieces[static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(i) - 1))]);
  if (op == Reduction::max) return pieces.empty() ? constant(1) : apply(Function::max, std::move(pieces));
  return multiply({random_.chance(50) ? constant(3) : factor(), add(std::move(pieces))});
}

Term TermGenerator::masked_score() {
  const Term score =
      random_.chance(60) ? factor() : add({factor(), multiply({constant(random_.between(-2, 2)), factor()})});
  if (!shape_.masks || random_.chance(30)) return random_.chance(50) ? score : multiply({guard(), score});
  Term condition = random_.chance(50) ? guard() : multiply({guard(), guard()});
  if (random_.chance(40)) {  // causal or window masks over digits
    const std::int64_t c = random_.between(0, 12);
    condition = random_.chance(50) ? range(digit_form(), c, kUnbounded) : range(digit_form(), -kUnbounded, c);
  }
  return select(condition, score, apply(Function::negative_infinity, {}));
}

Term TermGenerator::maximum() {
  const std::vector<VarId> bound = bind_some(3);
  Term inside = masked_score();
  if (random_.chance(25)) inside = add({inside, factor()});
  if (random_.chance(15)) inside = multiply({constant(random_.chance(50) ? -1 : 2), inside});
  if (random_.chance(15)) {
    const std::vector<VarId> inner = bind_some(1);
    inside = reduce(Reduction::max, inner, masked_score());
    for (std::size_t i = 0; i < inner.size(); ++i) unbind();
  }
  if (random_.chance(15)) inside = apply(Function::max, {inside, masked_score()});
  for (std::size_t i = 0; i < bound.size(); ++i) unbind();
  return reduce(Reduction::max, bound, inside);
}

// Mostly positive, for sqrt and log.
Term TermGenerator::positive(int depth) {
  const Term x = term(depth - 1);
  switch (random_.between(0, 3)) {
    case 0:
      return add({multiply({x, x}), constant(Rational(1, 2))});
    case 1:
      return apply(Function::exp, {x});
    case 2:
      return multiply({constant(4), x, x});
    default:
      return x;
  }
}

// Of positive values with exponentials to take out, and of reciprocals.
Term TermGenerator::logarithm(int depth) {
  const auto exp = [](const Term& x) { return apply(Function::exp, {x}); };
  const Term shift = exp(multiply({constant(random_.between(-2, 2)), factor()}));
  switch (random_.between(0, 4)) {
    case 0:
      return apply(Function::log, {multiply({shift, positive(depth)})});
    case 1:
      return apply(Function::log, {add({multiply({shift, exp(factor())}), multiply({shift, shift, exp(factor())})})});
    case 2:
      return apply(Function::log, {multiply({shift, apply(Function::inverse, {positive(depth)})})});
    case 3: {  // a row's maximum, or anything else that is subtracted from all of its scores
      const Term maximum = factor();
      const std::vector<VarId> bound = bind_some(2);
      Term shifted = exp(add({shape_.masks ? masked_score() : factor(), multiply({constant(-1), maximum})}));
      if (random_.chance(30)) shifted = multiply({guard(), shifted});
      for (std::size_t i = 0; i < bound.size(); ++i) unbind();
      const Term log = apply(Function::log, {reduce(Reduction::sum, bound, shifted)});
      return random_.chance(50) ? add({log, maximum}) : exp(multiply({constant(-1), log}));
    }
    default:
      return apply(Function::log, {positive(depth)});
  }
}

// Of sums with fractions, and of constants and exponentials.
Term TermGenerator::reciprocal(int depth) {
  const auto exp = [](const Term& x) { return apply(Function::exp, {x}); };
  const auto below = [&]() -> Term {
    switch (random_.between(0, 3)) {
      case 0:
        return apply(Function::inverse, {factor()});
      case 1:
        return exp(multiply({constant(random_.between(-2, 2)), factor()}));
      case 2:
        return apply(Function::inverse, {apply(Function::sqrt, {positive(depth)})});
      default:
        return apply(Function::inverse, {multiply({factor(), factor()})});
    }
  };
  const Rational c(random_.between(1, 2));
  switch (random_.between(0, 2)) {
    case 0:
      return apply(Function::inverse, {add({constant(c), multiply({constant(random_.chance(80) ? c : -c), exp(factor()), exp(factor())})})});
    case 1:
      return apply(Function::inverse, {add({multiply({factor(), below()}), multiply({constant(c), below()}), constant(random_.between(-1, 1))})});
    default:
      return apply(Function::sqrt, {multiply({constant(Rational(random_.between(1, 60), random_.between(1, 60))), positive(depth)})});
  }
}

Term TermGenerator::function(int depth) {
  switch (random_.between(0, 13)) {
    case 0:
    case 1:
      return apply(Function::exp,
                   {add({term(depth - 1),
                         multiply({constant(Rational(random_.between(-3, 3), random_.between(1, 3))), factor()})})});
    case 2:
      return apply(Function::exp,
                   {multiply({constant(random_.between(-2, 2)), apply(Function::log, {positive(depth)})})});
    case 3:
      return apply(Function::inverse, {term(depth - 1)});
    case 4: {  // a common factor to pull out
      const Term x = random_.chance(50) ? factor() : apply(Function::exp, {factor()});
      return apply(
          Function::inverse,
          {add({multiply({constant(random_.between(-6, 6)), x, factor()}), multiply({x, x, term(depth - 1)})})});
    }
    case 5:
      return multiply({term(depth - 1), apply(Function::inverse, {term(depth - 1)})});
    case 6:
      return apply(Function::sqrt,
                   {multiply({constant(random_.pick(std::vector<std::int64_t>{1, 4, 9, 2})), positive(depth)})});
    case 7: {
      const Term root = apply(Function::sqrt, {positive(depth)});
      return random_.chance(50) ? multiply({root, root, factor()})
                                : apply(Function::inverse, {multiply({root, root, root})});
    }
    case 8:
      return apply(Function::max, {term(depth - 1), term(depth - 1), constant(random_.between(-1, 1))});
    case 9:
      return apply(random_.pick(std::vector<Function>{Function::less, Function::less_equal, Function::equal_real}),
                   {random_.chance(50) ? value(index(2)) : add({term(depth - 1), multiply({constant(-1), factor()})})});
    case 10:
      return apply(Function::power, {positive(depth), constant(random_.between(-3, 3))});
    case 11:
      return apply(random_.pick(std::vector<Function>{Function::tanh, Function::sigmoid, Function::sin, Function::cos,
                                                      Function::abs, Function::erf}),
                   {term(depth - 1)});
    case 12:
      return shape_.masks ? apply(Function::exp, {add({masked_score(), multiply({constant(-1), factor()})})})
                          : factor();
    default:
      return shape_.masks
                 ? apply(Function::max, {masked_score(), multiply({constant(random_.between(-1, 2)), masked_score()})})
                 : factor();
  }
}

Term TermGenerator::term(int depth) {
  if (depth <= 0)
    return random_.chance(85) ? factor() : constant(Rational(random_.between(-4, 4), random_.between(1, 4)));
  switch (random_.between(0, 9)) {
    case 0:
    case 1:
      return add({term(depth - 1), term(depth - 1)});
    case 2:
      return multiply({term(depth - 1), term(depth - 1)});
    case 3:
      return multiply({guard(), term(depth - 1)});
    case 4:
      return select(condition(), term(depth - 1), term(depth - 1));
    case 5:
      return add(
          {term(depth - 1), multiply({constant(Rational(random_.between(-4, 4), random_.between(1, 3))), factor()})});
    case 6:
      if (shape_.reductions) return random_.chance(60) ? sum() : maximum();
      [[fallthrough]];
    default:
      return shape_.functions ? function(depth) : add({factor(), multiply({guard(), factor()})});
  }
}

}  // namespace shardproof::solvers::testing

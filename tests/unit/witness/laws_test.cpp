// Each law of the second witness's algebra against numbers: an expression and what it was made of have one value at random points.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "solvers/witness/evaluate_form.h"

namespace shardproof::solvers::witness {
namespace {

// An expression beside its value as a function of the point, computed without the algebra.
struct Both {
  Form form;
  std::function<double(const Point&)> value;
};

class Laws : public testing::Test {
 protected:
  Laws() : algebra_(pool_), contents_(hashed_contents(pool_, 5)) {
    x_ = algebra_.fresh(12);
    y_ = algebra_.fresh(5);
    a_ = pool_.new_tensor({"a", {12}, false, 0});
    b_ = pool_.new_tensor({"b", {12, 5}, false, 0});
    ids_ = pool_.new_tensor({"ids", {12}, true, 7});
  }

  Index x() { return algebra_.variable(x_); }
  Index y() { return algebra_.variable(y_); }

  Both a(const Index& e) {
    return {algebra_.access(a_, {e}), [=, this](const Point& p) { return contents_.real(a_, {evaluate(algebra_, e, p, contents_)}); }};
  }
  Both b(const Index& e, const Index& f) {
    return {algebra_.access(b_, {e, f}), [=, this](const Point& p) {
              return contents_.real(b_, {evaluate(algebra_, e, p, contents_), evaluate(algebra_, f, p, contents_)});
            }};
  }
  Both number(Rational r) {
    return {algebra_.number(r), [=](const Point&) { return static_cast<double>(r.num) / static_cast<double>(r.den); }};
  }
  Both add(const Both& l, const Both& r) {
    return {algebra_.add(l.form, r.form), [=](const Point& p) { return l.value(p) + r.value(p); }};
  }
  Both multiply(const Both& l, const Both& r) {
    return {algebra_.multiply(l.form, r.form), [=](const Point& p) {
              const double left = l.value(p), right = r.value(p);
              return left == 0 || right == 0 ? 0 : left * right;
            }};
  }
  Both where(const Index& e, std::int64_t lo, std::int64_t hi, const Both& inner) {
    return {algebra_.guarded(Guard{e, lo, hi}, inner.form), [=, this](const Point& p) {
              const std::int64_t at = evaluate(algebra_, e, p, contents_);
              return at >= lo && at <= hi ? inner.value(p) : 0;
            }};
  }
  Both apply(Function f, const std::vector<Both>& of, const std::function<double(const std::vector<double>&)>& g) {
    std::vector<Form> arguments;
    for (const Both& o : of) arguments.push_back(o.form);
    return {algebra_.apply(f, arguments), [=](const Point& p) {
              std::vector<double> v;
              for (const Both& o : of) v.push_back(o.value(p));
              return g(v);
            }};
  }
  Both exp(const Both& l) { return apply(Function::exp, {l}, [](const auto& v) { return std::exp(v[0]); }); }
  Both log(const Both& l) { return apply(Function::log, {l}, [](const auto& v) { return std::log(v[0]); }); }
  Both sqrt(const Both& l) { return apply(Function::sqrt, {l}, [](const auto& v) { return std::sqrt(v[0]); }); }
  Both inverse(const Both& l) { return apply(Function::inverse, {l}, [](const auto& v) { return 1 / v[0]; }); }
  Both max(const Both& l, const Both& r) { return apply(Function::max, {l, r}, [](const auto& v) { return std::max(v[0], v[1]); }); }
  Both sum(Variable v, const Both& inner) {
    return {algebra_.sum({v}, inner.form), [=, this](const Point& p) {
              Point q = p;
              double total = 0;
              for (q[static_cast<std::size_t>(v)] = 0; q[static_cast<std::size_t>(v)] < algebra_.extent(v); ++q[static_cast<std::size_t>(v)]) total += inner.value(q);
              return total;
            }};
  }
  Both maximum(Variable v, const Both& inner) {
    return {algebra_.maximum({{{v}, {}, inner.form}}), [=, this](const Point& p) {
              Point q = p;
              double most = -std::numeric_limits<double>::infinity();
              for (q[static_cast<std::size_t>(v)] = 0; q[static_cast<std::size_t>(v)] < algebra_.extent(v); ++q[static_cast<std::size_t>(v)]) most = std::max(most, inner.value(q));
              return most;
            }};
  }

  void expect_equal(const Both& both) {
    for (const Form& form : {both.form, algebra_.simplified(both.form)})
      for (std::int64_t i = 0; i < algebra_.extent(x_); ++i)
        for (std::int64_t j = 0; j < algebra_.extent(y_); ++j) {
          Point point(algebra_.variables());
          point[static_cast<std::size_t>(x_)] = i;
          point[static_cast<std::size_t>(y_)] = j;
          const double wanted = both.value(point);
          if (!std::isfinite(wanted)) continue;  // where the law needs what does not hold here
          const auto found = evaluate(algebra_, form, point, contents_, 1'000'000);
          ASSERT_TRUE(found.has_value());
          ASSERT_NEAR(*found, wanted, 1e-9 * (1 + std::fabs(wanted))) << "at " << i << ", " << j << ": " << key_of(form);
        }
  }

  TermPool pool_;
  Algebra algebra_;
  TensorContents contents_;
  Variable x_ = 0, y_ = 0;
  TensorId a_, b_, ids_;
};

TEST_F(Laws, ProductsOfSumsAreDistributed) {
  const Variable k = algebra_.fresh(3), l = algebra_.fresh(4);
  const Both s = sum(k, b(algebra_.variable(k), y())), t = sum(l, a(algebra_.variable(l)));
  expect_equal(multiply(add(s, a(x())), add(t, number(Rational(-1, 2)))));
  expect_equal(multiply(s, s));                      // the copy gets variables of its own
  expect_equal(multiply(multiply(s, s), multiply(s, t)));
}

TEST_F(Laws, UnusedBoundVariablesAreCounted) { expect_equal(sum(algebra_.fresh(7), a(x()))); }

TEST_F(Laws, GuardsOnOneFormAreBroughtTogether) {
  const Both f = multiply(where(x(), 2, 9, a(x())), where(x(), 0, 4, b(x(), y())));
  expect_equal(f);
  EXPECT_TRUE(multiply(where(x(), 0, 3, a(x())), where(x(), 4, 9, a(x()))).form.empty());
  EXPECT_TRUE(where(x(), 12, 20, a(x())).form.empty());               // outside of its interval
  EXPECT_TRUE(where(x(), 0, 11, a(x())).form.at(0).guards.empty());  // all of it
}

TEST_F(Laws, FunctionsOfPiecesArePiecesOfFunctions) {
  const Both pieces = add(add(where(x(), 0, 3, a(x())), where(x(), 4, 7, b(x(), y()))), where(y(), 1, 2, number(3)));
  expect_equal(exp(pieces));
  expect_equal(max(pieces, a(x())));
  expect_equal(inverse(add(pieces, number(9))));  // 1/0 has no rule
}

TEST_F(Laws, Exponentials) {
  expect_equal(multiply(exp(a(x())), exp(b(x(), y()))));
  expect_equal(multiply(exp(a(x())), inverse(exp(a(x())))));
  expect_equal(inverse(add(number(1), exp(a(x())))));      // a sigmoid
  expect_equal(inverse(add(number(2), multiply(number(2), exp(a(x()))))));
  expect_equal(exp(log(multiply(a(x()), a(x())))));
  expect_equal(log(exp(a(x()))));
  expect_equal(log(multiply(exp(a(x())), multiply(b(x(), y()), b(x(), y())))));
  expect_equal(log(inverse(multiply(a(x()), a(x())))));
}

TEST_F(Laws, InversesAndRoots) {
  const Both s = add(multiply(number(6), multiply(a(x()), b(x(), y()))), multiply(number(-9), a(x())));
  expect_equal(inverse(s));
  expect_equal(inverse(multiply(number(Rational(3, 4)), a(x()))));
  const Both square = multiply(a(x()), a(x()));
  expect_equal(multiply(sqrt(add(square, number(1))), sqrt(add(square, number(1)))));
  expect_equal(sqrt(multiply(number(12), square)));
  expect_equal(sqrt(multiply(number(Rational(8, 9)), square)));
  expect_equal(sqrt(multiply(number(4), add(square, number(1)))));
  expect_equal(inverse(multiply(sqrt(square), multiply(sqrt(square), sqrt(square)))));
}

TEST_F(Laws, Maxima) {
  const Variable k = algebra_.fresh(5), l = algebra_.fresh(3);
  expect_equal(maximum(k, b(x(), algebra_.variable(k))));
  expect_equal(maximum(l, maximum(k, b(algebra_.variable(l), algebra_.variable(k)))));
  expect_equal(max(maximum(k, b(x(), algebra_.variable(k))), a(x())));
  const Index place = algebra_.variable(k);
  expect_equal(maximum(k, add(where(place, 0, 2, b(x(), place)), where(place, 3, 4, a(x())))));
}

TEST_F(Laws, IntegersAreLinear) {
  const Index load = algebra_.load(ids_, {x()});
  const Index e = Algebra::combine(algebra_.quotient(Algebra::scale(x(), 3, 1), 4), 5, algebra_.remainder(load, 3), -2);
  expect_equal({algebra_.integer(e), [=, this](const Point& p) { return static_cast<double>(evaluate(algebra_, e, p, contents_)); }});
  const Form chosen = algebra_.guarded(Guard{x(), 2, 6}, algebra_.integer(e));
  const Index again = algebra_.as_integer(chosen);
  expect_equal({chosen, [=, this](const Point& p) { return static_cast<double>(evaluate(algebra_, again, p, contents_)); }});
  EXPECT_THROW((void)algebra_.as_integer(a(x()).form), NotCovered);
}

// Random expressions of everything.
TEST_F(Laws, RandomExpressions) {
  std::mt19937_64 random(17);
  const std::function<Both(int)> make = [&](int depth) -> Both {
    const std::uint64_t r = random() % (depth == 0 ? 4 : 12);
    const auto part = [&] { return make(depth - 1); };
    switch (r) {
      case 0: return a(x());
      case 1: return b(x(), y());
      case 2: return number(Rational(static_cast<std::int64_t>(random() % 7) - 3, 2));
      case 3: return a(algebra_.remainder(Algebra::combine(x(), 1, y(), 3), 12));
      case 4:
      case 5: return add(part(), part());
      case 6:
      case 7: return multiply(part(), part());
      case 8: return where(random() % 2 == 0 ? x() : y(), static_cast<std::int64_t>(random() % 4), 3 + static_cast<std::int64_t>(random() % 5), part());
      case 9: return exp(multiply(number(Rational(1, 8)), part()));
      case 10: {
        const Variable k = algebra_.fresh(3);
        const Index place = algebra_.variable(k);
        return sum(k, multiply(b(place, y()), part()));
      }
      default: return max(part(), part());
    }
  };
  int tried = 0;
  for (int i = 0; i < 300; ++i) {
    try {
      const Both both = make(3);
      expect_equal(both);
      ++tried;
    } catch (const NotCovered&) {  // too large
    } catch (const std::overflow_error&) {
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(tried, 250);
}

}  // namespace
}  // namespace shardproof::solvers::witness

#include <algorithm>
#include <cmath>

#include "tests/unit/runtime/op_cases.h"

namespace shardproof::runtime::testing {

namespace {

using ir::DType;
using ir::OpCode;
using ir::Rational;
using Integers = std::vector<std::int64_t>;

Tensor random_f32(ir::Shape shape, std::uint64_t seed, double low = -2.0, double high = 2.0) {
  std::mt19937_64 random(seed);
  return random_uniform(random, {DType::f32, std::move(shape)}, low, high);
}

Tensor map(const Tensor& x, double (*function)(double)) {
  Tensor result = x;
  for (double& element : result.data) element = function(element);
  return result;
}

Tensor zip(const std::vector<Tensor>& x, double (*function)(double, double)) {
  Tensor result = x.front();
  for (std::size_t k = 1; k < x.size(); ++k) {
    for (std::size_t i = 0; i < result.data.size(); ++i) result.data[i] = function(result.data[i], x[k].data[i]);
  }
  return result;
}

void add_unary(std::vector<OpCase>& cases) {
  const auto unary = [&](OpCode op, double (*function)(double), double low, double high) {
    const Tensor x = random_f32({3, 5}, static_cast<std::uint64_t>(op), low, high);
    cases.push_back({op, "f32", {x}, {}, {map(x, function)}});
  };
  unary(
      OpCode::neg, [](double a) { return -a; }, -2, 2);
  unary(
      OpCode::exp, [](double a) { return std::exp(a); }, -2, 2);
  unary(
      OpCode::log, [](double a) { return std::log(a); }, 0.1, 3);
  unary(
      OpCode::sqrt, [](double a) { return std::sqrt(a); }, 0.1, 3);
  unary(
      OpCode::rsqrt, [](double a) { return 1.0 / std::sqrt(a); }, 0.1, 3);
  unary(
      OpCode::reciprocal, [](double a) { return 1.0 / a; }, 0.2, 3);
  unary(
      OpCode::tanh, [](double a) { return std::tanh(a); }, -2, 2);
  unary(
      OpCode::erf, [](double a) { return std::erf(a); }, -2, 2);
  unary(
      OpCode::sigmoid, [](double a) { return 1.0 / (1.0 + std::exp(-a)); }, -2, 2);
  unary(
      OpCode::sin, [](double a) { return std::sin(a); }, -4, 4);
  unary(
      OpCode::cos, [](double a) { return std::cos(a); }, -4, 4);
  unary(
      OpCode::abs, [](double a) { return std::fabs(a); }, -2, 2);
  unary(
      OpCode::stop_gradient, [](double a) { return a; }, -2, 2);
  const Tensor positive = random_f32({4}, 90, 0.2, 2);
  cases.push_back({OpCode::pow, "fraction", {positive}, {{"exponent", Rational(-3, 2)}}, {map(positive, [](double a) {
                     return std::pow(a, -1.5);
                   })}});
  const Tensor any = random_f32({4}, 91);
  cases.push_back(
      {OpCode::pow, "square", {any}, {{"exponent", Rational(2)}}, {map(any, [](double a) { return a * a; })}});
  const Tensor base = scalar(DType::f32, 0.95);
  cases.push_back(
      {OpCode::power, "bias_correction", {base, scalar(DType::i64, 3)}, {}, {scalar(DType::f32, 0.95 * 0.95 * 0.95)}});
}

void add_n_ary(std::vector<OpCase>& cases) {
  const std::vector<Tensor> x = {random_f32({2, 3}, 11), random_f32({2, 3}, 12), random_f32({2, 3}, 13)};
  const std::vector<Tensor> pair = {x[0], x[1]};
  const auto n_ary = [&](OpCode op, const std::vector<Tensor>& operands, double (*function)(double, double)) {
    cases.push_back({op, "operands" + std::to_string(operands.size()), operands, {}, {zip(operands, function)}});
  };
  n_ary(OpCode::add, x, [](double a, double b) { return a + b; });
  n_ary(OpCode::mul, x, [](double a, double b) { return a * b; });
  n_ary(OpCode::max, x, [](double a, double b) { return std::max(a, b); });
  n_ary(OpCode::min, x, [](double a, double b) { return std::min(a, b); });
  n_ary(OpCode::add, {x[0]}, [](double a, double b) { return a + b; });
  n_ary(OpCode::sub, pair, [](double a, double b) { return a - b; });
  n_ary(OpCode::div, pair, [](double a, double b) { return a / b; });
  const Tensor i = {{DType::i64, {4}}, {5, -3, 0, 7}};
  const Tensor j = {{DType::i64, {4}}, {2, -3, 4, 9}};
  n_ary(OpCode::add, {i, j}, [](double a, double b) { return a + b; });
  n_ary(OpCode::sub, {i, j}, [](double a, double b) { return a - b; });
  n_ary(OpCode::mul, {i, j}, [](double a, double b) { return a * b; });
}

void add_logic(std::vector<OpCase>& cases) {
  const Tensor i = {{DType::i32, {4}}, {1, 2, 3, 2}};
  const Tensor j = {{DType::i32, {4}}, {2, 2, 2, 5}};
  const auto direction = [&](const char* name, std::vector<double> expected) {
    cases.push_back({OpCode::compare,
                     name,
                     {i, j},
                     {{"direction", std::string(name)}},
                     {Tensor{{DType::boolean, {4}}, std::move(expected)}}});
  };
  direction("eq", {0, 1, 0, 0});
  direction("ne", {1, 0, 1, 1});
  direction("lt", {1, 0, 0, 1});
  direction("le", {1, 1, 0, 1});
  direction("gt", {0, 0, 1, 0});
  direction("ge", {0, 1, 1, 0});
  const Tensor p = {{DType::boolean, {4}}, {0, 0, 1, 1}};
  const Tensor q = {{DType::boolean, {4}}, {0, 1, 0, 1}};
  cases.push_back({OpCode::logical_and, "table", {p, q}, {}, {Tensor{p.type, {0, 0, 0, 1}}}});
  cases.push_back({OpCode::logical_or, "table", {p, q}, {}, {Tensor{p.type, {0, 1, 1, 1}}}});
  cases.push_back({OpCode::logical_not, "table", {p}, {}, {Tensor{p.type, {1, 1, 0, 0}}}});
  const Tensor a = random_f32({4}, 21);
  const Tensor b = random_f32({4}, 22);
  cases.push_back(
      {OpCode::select, "mixed", {q, a, b}, {}, {Tensor{a.type, {b.data[0], a.data[1], b.data[2], a.data[3]}}}});
}

void add_contractions(std::vector<OpCase>& cases) {
  const Tensor x = random_f32({2, 3, 4}, 31);
  const Tensor w = random_f32({5, 4}, 32);
  cases.push_back({OpCode::einsum,
                   "linear",
                   {x, w},
                   {{"spec", std::string("bsh,fh->bsf")}},
                   {make(DType::f32, {2, 3, 5}, [=](const Index& i) {
                     double sum = 0;
                     for (std::int64_t h = 0; h < 4; ++h) sum += at(x, {i[0], i[1], h}) * at(w, {i[2], h});
                     return sum;
                   })}});
  const Tensor y = random_f32({2, 3}, 33);
  cases.push_back({OpCode::einsum,
                   "three_operands",
                   {x, w, y},
                   {{"spec", std::string("bsh,fh,bs->fs")}},
                   {make(DType::f32, {5, 3}, [=](const Index& i) {
                     double sum = 0;
                     for (std::int64_t b = 0; b < 2; ++b) {
                       for (std::int64_t h = 0; h < 4; ++h) {
                         sum += at(x, {b, i[1], h}) * at(w, {i[0], h}) * at(y, {b, i[1]});
                       }
                     }
                     return sum;
                   })}});
  cases.push_back({OpCode::einsum,
                   "label_in_one_operand",
                   {x, y},
                   {{"spec", std::string("bsh,bs->b")}},
                   {make(DType::f32, {2}, [=](const Index& i) {
                     double sum = 0;
                     for (std::int64_t s = 0; s < 3; ++s) {
                       for (std::int64_t h = 0; h < 4; ++h) sum += at(x, {i[0], s, h}) * at(y, {i[0], s});
                     }
                     return sum;
                   })}});
  const auto reduction = [&](OpCode op, double start, double (*function)(double, double)) {
    cases.push_back({op, "outer_dims", {x}, {{"dims", Integers{0, 2}}}, {make(DType::f32, {3}, [=](const Index& i) {
                       double result = start;
                       for (std::int64_t b = 0; b < 2; ++b) {
                         for (std::int64_t h = 0; h < 4; ++h) result = function(result, at(x, {b, i[0], h}));
                       }
                       return result;
                     })}});
    cases.push_back({op, "no_dims", {x}, {{"dims", Integers{}}}, {x}});
  };
  reduction(OpCode::reduce_sum, 0, [](double a, double b) { return a + b; });
  reduction(OpCode::reduce_max, -1e9, [](double a, double b) { return std::max(a, b); });
  reduction(OpCode::reduce_min, 1e9, [](double a, double b) { return std::min(a, b); });
}

}  // namespace

std::vector<OpCase> arithmetic_cases() {
  std::vector<OpCase> cases;
  add_unary(cases);
  add_n_ary(cases);
  add_logic(cases);
  add_contractions(cases);
  return cases;
}

}  // namespace shardproof::runtime::testing

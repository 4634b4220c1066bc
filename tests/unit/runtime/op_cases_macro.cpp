#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/unit/runtime/op_cases.h"

namespace shardproof::runtime::testing {

namespace {

using ir::DType;
using ir::OpCode;
using ir::Rational;

Tensor random_f32(ir::Shape shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  return random_normal(random, {DType::f32, std::move(shape)});
}

double silu(double x) {
  return x / (1.0 + std::exp(-x));
}

// log softmax of x along dimension d at index i.
double log_softmax(const Tensor& x, const Index& i, std::size_t d) {
  double sum = 0;
  for (std::int64_t k = 0; k < x.type.shape[d]; ++k) sum += std::exp(at(x, with(i, d, k)));
  return at(x, i) - std::log(sum);
}

double mean_of(const Tensor& x, const Index& i, double (*function)(double)) {
  const std::size_t last = i.size() - 1;
  double sum = 0;
  for (std::int64_t k = 0; k < x.type.shape[last]; ++k) sum += function(at(x, with(i, last, k)));
  return sum / static_cast<double>(x.type.shape[last]);
}

void add_pointwise(std::vector<OpCase>& cases) {
  const Tensor x = random_f32({2, 5}, 41);
  const Tensor y = random_f32({2, 5}, 42);
  const auto each = [&](OpCode op, double (*function)(double)) {
    cases.push_back(
        {op, "f32", {x}, {}, {make(DType::f32, {2, 5}, [=](const Index& i) { return function(at(x, i)); })}});
  };
  each(OpCode::silu, silu);
  each(OpCode::gelu_erf, [](double a) { return 0.5 * a * (1.0 + std::erf(a / std::numbers::sqrt2)); });
  each(OpCode::gelu_tanh, [](double a) {
    return 0.5 * a * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (a + 0.044715 * a * a * a)));
  });
  cases.push_back({OpCode::swiglu, "f32", {x, y}, {}, {make(DType::f32, {2, 5}, [=](const Index& i) {
                     return silu(at(x, i)) * at(y, i);
                   })}});
}

void add_normalisations(std::vector<OpCase>& cases) {
  const Tensor x = random_f32({2, 3, 5}, 43);
  for (const std::int64_t dim : {1, 2}) {
    const auto d = static_cast<std::size_t>(dim);
    cases.push_back({OpCode::log_softmax,
                     "dim" + std::to_string(dim),
                     {x},
                     {{"dim", dim}},
                     {make(DType::f32, {2, 3, 5}, [=](const Index& i) { return log_softmax(x, i, d); })}});
    cases.push_back({OpCode::softmax,
                     "dim" + std::to_string(dim),
                     {x},
                     {{"dim", dim}},
                     {make(DType::f32, {2, 3, 5}, [=](const Index& i) { return std::exp(log_softmax(x, i, d)); })}});
  }
  const Tensor weight = random_f32({5}, 44);
  const Tensor bias = random_f32({5}, 45);
  cases.push_back({OpCode::rms_norm,
                   "eps",
                   {x, weight},
                   {{"eps", Rational(1, 10)}},
                   {make(DType::f32, {2, 3, 5}, [=](const Index& i) {
                     return at(x, i) / std::sqrt(mean_of(x, i, [](double a) { return a * a; }) + 0.1) *
                            at(weight, {i[2]});
                   })}});
  cases.push_back({OpCode::layer_norm,
                   "eps",
                   {x, weight, bias},
                   {{"eps", Rational(1, 10)}},
                   {make(DType::f32, {2, 3, 5}, [=](const Index& i) {
                     const double mean = mean_of(x, i, [](double a) { return a; });
                     const double square = mean_of(x, i, [](double a) { return a * a; });
                     return (at(x, i) - mean) / std::sqrt(square - mean * mean + 0.1) * at(weight, {i[2]}) +
                            at(bias, {i[2]});
                   })}});
  const Tensor labels = {{DType::i32, {2, 3}}, {4, 0, 2, 1, 1, 3}};
  cases.push_back({OpCode::cross_entropy, "labels", {x, labels}, {}, {make(DType::f32, {2, 3}, [=](const Index& i) {
                     return -log_softmax(x, {i[0], i[1], static_cast<std::int64_t>(at(labels, i))}, 2);
                   })}});
}

// softmax(scale q k^T) v written as loops; a key later than the query has weight zero under `causal`.
Tensor attention_loops(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale) {
  const std::int64_t per_group = q.type.shape[2] / k.type.shape[2];
  const std::int64_t keys = k.type.shape[1];
  return make(DType::f32, {q.type.shape[0], q.type.shape[1], q.type.shape[2], v.type.shape[3]}, [&](const Index& i) {
    const std::int64_t group = i[2] / per_group;
    double numerator = 0;
    double denominator = 0;
    for (std::int64_t t = 0; t < keys; ++t) {
      if (causal && t > i[1]) continue;
      double score = 0;
      for (std::int64_t d = 0; d < q.type.shape[3]; ++d)
        score += at(q, {i[0], i[1], i[2], d}) * at(k, {i[0], t, group, d});
      const double weight = std::exp(scale * score);
      numerator += weight * at(v, {i[0], t, group, i[3]});
      denominator += weight;
    }
    return numerator / denominator;
  });
}

void add_attention(std::vector<OpCase>& cases) {
  const Tensor q = random_f32({2, 3, 4, 6}, 51);
  const Tensor k = random_f32({2, 3, 2, 6}, 52);
  const Tensor v = random_f32({2, 3, 2, 6}, 53);
  cases.push_back({OpCode::attention,
                   "grouped_causal",
                   {q, k, v},
                   {{"causal", true}},
                   {attention_loops(q, k, v, true, 1.0 / std::sqrt(6.0))}});
  const Tensor narrow = random_f32({2, 5, 2, 3}, 54);
  const Tensor longer = random_f32({2, 5, 2, 6}, 55);
  cases.push_back({OpCode::attention,
                   "cross_scaled",
                   {q, longer, narrow},
                   {{"causal", false}, {"scale", Rational(1, 3)}},
                   {attention_loops(q, longer, narrow, false, 1.0 / 3.0)}});
  const Tensor cos = random_f32({3, 3}, 56);
  const Tensor sin = random_f32({3, 3}, 57);
  cases.push_back({OpCode::rope, "rotate_half", {q, cos, sin}, {}, {make(DType::f32, {2, 3, 4, 6}, [=](const Index& i) {
                     const std::int64_t f = i[3] % 3;
                     const double first = at(q, with(i, 3, f));
                     const double second = at(q, with(i, 3, f + 3));
                     const double c = at(cos, {i[1], f});
                     const double s = at(sin, {i[1], f});
                     return i[3] < 3 ? first * c - second * s : second * c + first * s;
                   })}});
}

// torch.optim.AdamW with foreach=False, in its documentation's order of operations.
void add_adamw(std::vector<OpCase>& cases) {
  const Tensor p = random_f32({4}, 61);
  const Tensor g = random_f32({4}, 62);
  const Tensor m = random_f32({4}, 63);
  Tensor v = random_f32({4}, 64);
  for (double& element : v.data) element = element * element;
  const double lr = 0.25;
  Tensor new_p = p;
  Tensor new_m = m;
  Tensor new_v = v;
  for (std::size_t i = 0; i < 4; ++i) {
    new_m.data[i] = 0.9 * m.data[i] + (1.0 - 0.9) * g.data[i];
    new_v.data[i] = 0.95 * v.data[i] + (1.0 - 0.95) * g.data[i] * g.data[i];
    const double step_size = lr / (1.0 - std::pow(0.9, 3));
    const double denominator = std::sqrt(new_v.data[i]) / std::sqrt(1.0 - std::pow(0.95, 3)) + 0.001;
    new_p.data[i] = p.data[i] * (1.0 - lr * 0.1) - step_size * new_m.data[i] / denominator;
  }
  cases.push_back({OpCode::adamw,
                   "third_step",
                   {p, g, m, v, scalar(DType::i64, 3), scalar(DType::f32, lr)},
                   {{"beta1", Rational(9, 10)},
                    {"beta2", Rational(19, 20)},
                    {"eps", Rational(1, 1000)},
                    {"weight_decay", Rational(1, 10)}},
                   {new_p, new_m, new_v}});
}

}  // namespace

std::vector<OpCase> macro_cases() {
  std::vector<OpCase> cases;
  add_pointwise(cases);
  add_normalisations(cases);
  add_attention(cases);
  add_adamw(cases);
  return cases;
}

}  // namespace shardproof::runtime::testing

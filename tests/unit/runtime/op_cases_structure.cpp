#include <limits>

#include "tests/unit/runtime/op_cases.h"

namespace shardproof::runtime::testing {

namespace {

using ir::CoordExpr;
using ir::DType;
using ir::OpCode;
using ir::Rational;
using Integers = std::vector<std::int64_t>;

Tensor random_f32(ir::Shape shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  return random_normal(random, {DType::f32, std::move(shape)});
}

Tensor ids(ir::Shape shape, std::vector<double> values) {
  return {{DType::i32, std::move(shape)}, std::move(values)};
}

void add_sources(std::vector<OpCase>& cases) {
  cases.push_back({OpCode::constant,
                   "fraction",
                   {},
                   {{"value", Rational(3, 8)}},
                   {make(DType::f32, {2, 3}, [](const Index&) { return 0.375; })},
                   true});
  cases.push_back({OpCode::constant, "integer", {}, {{"value", Rational(-7)}}, {scalar(DType::i64, -7)}, true});
  cases.push_back({OpCode::constant,
                   "negative_infinity",
                   {},
                   {{"negative_infinity", true}},
                   {make(DType::f32, {2}, [](const Index&) { return -std::numeric_limits<double>::infinity(); })},
                   true});
  cases.push_back({OpCode::table,
                   "row_major",
                   {},
                   {{"values", std::vector<Rational>{Rational(1), Rational(1, 2), Rational(-3), Rational(4),
                                                     Rational(5), Rational(6)}}},
                   {Tensor{{DType::f32, {2, 3}}, {1, 0.5, -3, 4, 5, 6}}},
                   true});
  for (const std::int64_t dim : {0, 1, 2}) {
    cases.push_back({OpCode::iota,
                     "dim" + std::to_string(dim),
                     {},
                     {{"dim", dim}},
                     {make(DType::i32, {2, 3, 5},
                           [=](const Index& i) { return static_cast<double>(i[static_cast<std::size_t>(dim)]); })},
                     true});
  }
  cases.push_back({OpCode::coord, "constant", {}, {{"value", ir::constant_expr(12)}}, {scalar(DType::i64, 12)}, true});
}

void add_movement(std::vector<OpCase>& cases) {
  const Tensor x = random_f32({2, 3, 5}, 1);
  Tensor flat = x;
  flat.type.shape = {6, 5};
  cases.push_back({OpCode::reshape, "merge", {x}, {{"shape", Integers{6, 5}}}, {flat}});
  cases.push_back({OpCode::transpose,
                   "cycle",
                   {x},
                   {{"perm", Integers{2, 0, 1}}},
                   {make(DType::f32, {5, 2, 3}, [=](const Index& i) {
                     return at(x, {i[1], i[2], i[0]});
                   })}});
  const Tensor m = random_f32({3, 5}, 2);
  cases.push_back({OpCode::broadcast,
                   "insert",
                   {m},
                   {{"shape", Integers{3, 2, 5}}, {"dims", Integers{0, 2}}},
                   {make(DType::f32, {3, 2, 5}, [=](const Index& i) {
                     return at(m, {i[0], i[2]});
                   })}});
  const Tensor column = random_f32({3, 1}, 3);
  cases.push_back({OpCode::broadcast,
                   "expand",
                   {column},
                   {{"shape", Integers{3, 4}}, {"dims", Integers{0, 1}}},
                   {make(DType::f32, {3, 4}, [=](const Index& i) {
                     return at(column, {i[0], 0});
                   })}});
  cases.push_back({OpCode::broadcast,
                   "scalar",
                   {scalar(DType::f32, 2.5)},
                   {{"shape", Integers{2, 2}}, {"dims", Integers{}}},
                   {make(DType::f32, {2, 2}, [](const Index&) { return 2.5; })}});
  cases.push_back({OpCode::slice,
                   "plain",
                   {x},
                   {{"dim", std::int64_t{1}}, {"start", ir::constant_expr(1)}, {"size", std::int64_t{2}}},
                   {make(DType::f32, {2, 2, 5}, [=](const Index& i) {
                     return at(x, {i[0], i[1] + 1, i[2]});
                   })}});
  cases.push_back({OpCode::slice,
                   "stride",
                   {x},
                   {{"dim", std::int64_t{2}},
                    {"start", ir::constant_expr(1)},
                    {"size", std::int64_t{2}},
                    {"stride", std::int64_t{3}}},
                   {make(DType::f32, {2, 3, 2}, [=](const Index& i) {
                     return at(x, {i[0], i[1], 1 + 3 * i[2]});
                   })}});
  const Tensor y = random_f32({2, 1, 5}, 4);
  cases.push_back({OpCode::concat,
                   "uneven",
                   {x, y, x},
                   {{"dim", std::int64_t{1}}},
                   {make(DType::f32, {2, 7, 5}, [=](const Index& i) {
                     if (i[1] < 3) return at(x, i);
                     return i[1] == 3 ? at(y, {i[0], 0, i[2]}) : at(x, {i[0], i[1] - 4, i[2]});
                   })}});
  cases.push_back(
      {OpCode::pad,
       "both_sides",
       {m},
       {{"dim", std::int64_t{1}}, {"low", std::int64_t{2}}, {"high", std::int64_t{1}}, {"value", Rational(-1, 2)}},
       {make(DType::f32, {3, 8}, [=](const Index& i) {
         return i[1] < 2 || i[1] >= 7 ? -0.5 : at(m, {i[0], i[1] - 2});
       })}});
  cases.push_back(
      {OpCode::cast, "lower", {m}, {{"dtype", std::string("bf16")}}, {Tensor{{DType::bf16, {3, 5}}, m.data}}});
  cases.push_back({OpCode::cast,
                   "integer",
                   {ids({3}, {4, -2, 0})},
                   {{"dtype", std::string("f32")}},
                   {Tensor{{DType::f32, {3}}, {4, -2, 0}}}});
}

void add_indexing(std::vector<OpCase>& cases) {
  const Tensor x = random_f32({4, 3}, 5);
  const Tensor rows = ids({2, 3}, {3, 0, 0, 1, 2, 3});
  cases.push_back({OpCode::take, "rows", {x, rows}, {}, {make(DType::f32, {2, 3, 3}, [=](const Index& i) {
                     return at(x, {static_cast<std::int64_t>(at(rows, {i[0], i[1]})), i[2]});
                   })}});
  const Tensor columns = ids({2}, {2, 0});
  cases.push_back({OpCode::take,
                   "columns",
                   {x, columns},
                   {{"dim", std::int64_t{1}}},
                   {make(DType::f32, {4, 2}, [=](const Index& i) {
                     return at(x, {i[0], static_cast<std::int64_t>(at(columns, {i[1]}))});
                   })}});
  const Tensor updates = random_f32({2, 3, 5}, 6);
  // Id 9 equals no position: its update is dropped.
  for (const double other : {1.0, 9.0}) {
    const Tensor targets = ids({2, 3}, {3, 0, 0, other, 2, 0});
    cases.push_back({OpCode::scatter_add,
                     other == 9.0 ? kDroppedIds : "rows",
                     {updates, targets},
                     {{"size", std::int64_t{4}}},
                     {make(DType::f32, {4, 5}, [=](const Index& i) {
                       double sum = 0;
                       for (std::int64_t a = 0; a < 2; ++a) {
                         for (std::int64_t b = 0; b < 3; ++b) {
                           if (at(targets, {a, b}) == static_cast<double>(i[0])) sum += at(updates, {a, b, i[1]});
                         }
                       }
                       return sum;
                     })}});
  }
  const Tensor inner = ids({3}, {1, 1, 0});
  cases.push_back({OpCode::scatter_add,
                   "middle",
                   {updates, inner},
                   {{"dim", std::int64_t{1}}, {"size", std::int64_t{2}}},
                   {make(DType::f32, {2, 2, 5}, [=](const Index& i) {
                     double sum = 0;
                     for (std::int64_t b = 0; b < 3; ++b) {
                       if (at(inner, {b}) == static_cast<double>(i[1])) sum += at(updates, {i[0], b, i[2]});
                     }
                     return sum;
                   })}});
  const Tensor picks = ids({2, 3}, {4, 0, 2, 1, 1, 3});
  cases.push_back({OpCode::take_along, "last", {updates, picks}, {}, {make(DType::f32, {2, 3}, [=](const Index& i) {
                     return at(updates, {i[0], i[1], static_cast<std::int64_t>(at(picks, i))});
                   })}});
  const Tensor weights = random_f32({2, 3}, 7);
  cases.push_back({OpCode::put_along,
                   "last",
                   {weights, picks},
                   {{"size", std::int64_t{5}}},
                   {make(DType::f32, {2, 3, 5}, [=](const Index& i) {
                     return at(picks, {i[0], i[1]}) == static_cast<double>(i[2]) ? at(weights, {i[0], i[1]}) : 0.0;
                   })}});
}

}  // namespace

std::vector<OpCase> source_and_structure_cases() {
  std::vector<OpCase> cases;
  add_sources(cases);
  add_movement(cases);
  add_indexing(cases);
  return cases;
}

}  // namespace shardproof::runtime::testing

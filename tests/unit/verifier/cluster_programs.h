// Random programs of everything that moves, computes, reduces or communicates elements, on small vectors and matrices, with
// operations that are undefined for some numbers.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/mesh.h"
#include "tests/unit/solvers/raw_term.h"

namespace shardproof::verifier::testing {

inline std::int64_t axis_size(const ir::Mesh& mesh, const std::string& axis) {
  const auto position = mesh.find_axis(axis);
  return position ? mesh.axes[*position].size : 0;
}

class ClusterPrograms {
  using DType = ir::DType;
  using OpCode = ir::OpCode;
  using Rational = ir::Rational;
  using Shape = ir::Shape;
  using ValueId = ir::ValueId;
  using Random = solvers::testing::Random;
  using Integers = std::vector<std::int64_t>;

 public:
  ClusterPrograms(const ir::Mesh& mesh, Random& random)
      : mesh_(mesh), random_(random), builder_(program, [&mesh](const std::string& axis) { return axis_size(mesh, axis); }) {
    for (int n = 0; n < 4; ++n) {
      inputs.push_back(builder_.input("x" + std::to_string(n), {DType::f32, n < 2 ? Shape{6} : Shape{2, 6}}));
      reals_.push_back(inputs.back());
    }
    for (int n = 0; n < 3; ++n) reals_.push_back(partial_function());
  }

  void grow(int length, bool may_loop) {
    for (int n = 0; n < length; ++n) {
      try {
        if (may_loop && random_.chance(12)) loop();
        else append();
      } catch (const ir::BuildError&) {  // shapes that do not fit
      }
    }
  }

  ir::Program program;
  std::vector<ValueId> inputs;

 private:
  const Shape& shape(ValueId v) const { return program.value(v).type.shape; }
  ValueId any() { return random_.chance(50) && reals_.size() > 4 ? reals_[reals_.size() - static_cast<std::size_t>(random_.between(1, 3))] : random_.pick(reals_); }
  ValueId like(ValueId x) {
    std::vector<ValueId> same;
    for (ValueId v : reals_)
      if (shape(v) == shape(x)) same.push_back(v);
    return random_.pick(same);
  }
  ValueId number(Rational value, const Shape& of) { return builder_.typed(OpCode::constant, {DType::f32, of}, {{"value", value}}); }
  std::int64_t dim_of(ValueId x) { return random_.between(0, static_cast<std::int64_t>(shape(x).size()) - 1); }
  std::vector<std::string> axes() { return random_.pick(std::vector<std::vector<std::string>>{{"a"}, {"b"}, {"a", "b"}, {"b", "a"}}); }
  void keep(ValueId v) {
    if (!shape(v).empty() && ir::element_count(shape(v)) <= 48) reals_.push_back(v);
  }

  // Something that is undefined for some numbers, of what is likely to be defined where no padding is.
  ValueId partial_function() {
    ValueId x = random_.chance(50) ? random_.pick(inputs) : any();
    if (random_.chance(25)) x = builder_.op(OpCode::add, {builder_.op(OpCode::mul, {x, x}), number(Rational(1, 2), shape(x))});
    switch (random_.between(0, 5)) {
      case 0: return builder_.op(OpCode::reciprocal, {x});
      case 1: return builder_.op(OpCode::sqrt, {x});
      case 2: return builder_.op(OpCode::rsqrt, {x});
      case 3: return builder_.op(OpCode::log, {x});
      case 4: return builder_.op(OpCode::pow, {x}, {{"exponent", random_.pick(std::vector<Rational>{Rational(-1), Rational(1, 2), Rational(-3, 2)})}});
      default: return builder_.op(OpCode::div, {like(x), x});
    }
  }

  // An index function, or a comparison of data: of inputs, so that rounding does not decide it.
  ValueId condition(ValueId x) {
    const std::string direction = random_.pick(std::vector<std::string>{"lt", "le", "gt", "ge", "eq", "ne"});
    const ValueId left = random_.pick(inputs), right = random_.pick(inputs);
    if (shape(left) == shape(x) && shape(right) == shape(x)) return builder_.op(OpCode::compare, {left, right}, {{"direction", direction}});
    const ValueId index = builder_.typed(OpCode::iota, {DType::i64, shape(x)}, {{"dim", dim_of(x)}});
    ir::CoordExpr bound = ir::constant_expr(random_.between(0, 5));
    if (random_.chance(60)) bound = ir::variable_expr(variable(), random_.between(1, 3), random_.between(-1, 2));
    const ValueId scalar = builder_.typed(OpCode::coord, {DType::i64, {}}, {{"value", bound}});
    const ValueId wide = builder_.op(OpCode::broadcast, {scalar}, {{"shape", shape(x)}, {"dims", Integers{}}});
    return builder_.op(OpCode::compare, {index, wide}, {{"direction", direction}});
  }
  std::string variable() {
    std::vector<std::string> names{"a", "b"};
    names.insert(names.end(), loops_.begin(), loops_.end());
    return random_.pick(names);
  }
  ir::CoordExpr start(std::int64_t most) {
    const ir::CoordExpr e = ir::variable_expr(variable(), random_.between(1, 2), random_.between(0, 2));
    return random_.chance(30) ? ir::constant_expr(random_.between(0, most)) : ir::modulo(e, most + 1);
  }
  ValueId ids(const Shape& of, std::int64_t limit) {
    const ValueId index = builder_.typed(OpCode::iota, {DType::i64, of}, {{"dim", std::int64_t{0}}});
    const ValueId coordinate = builder_.typed(OpCode::coord, {DType::i64, {}}, {{"value", ir::modulo(ir::variable_expr(variable()), std::max<std::int64_t>(1, limit - of[0] + 1))}});
    return builder_.op(OpCode::add, {index, builder_.op(OpCode::broadcast, {coordinate}, {{"shape", of}, {"dims", Integers{}}})});
  }

  void append() {
    const ValueId x = any();
    const Shape s = shape(x);
    const std::int64_t d = dim_of(x), extent = s[static_cast<std::size_t>(d)];
    switch (random_.between(0, 21)) {
      case 0:
      case 1:
      case 2: return keep(partial_function());
      case 3: return keep(builder_.op(random_.pick(std::vector<OpCode>{OpCode::add, OpCode::mul, OpCode::sub, OpCode::max, OpCode::min}), {x, like(x)}));
      case 4: return keep(builder_.op(OpCode::mul, {x, number(Rational(random_.between(-1, 1)), s)}));
      case 5: return keep(builder_.op(random_.pick(std::vector<OpCode>{OpCode::exp, OpCode::neg, OpCode::abs, OpCode::tanh, OpCode::stop_gradient}), {x}));
      case 6:
      case 7: {
        const ValueId c = condition(x);
        return keep(builder_.op(OpCode::select, {c, x, random_.chance(40) ? number(Rational(1), s) : like(x)}));
      }
      case 8: {
        const std::int64_t size = random_.between(1, extent);
        return keep(builder_.op(OpCode::slice, {x}, {{"dim", d}, {"start", start(extent - size)}, {"size", size}}));
      }
      case 9: return keep(builder_.op(OpCode::concat, {x, random_.pick(reals_)}, {{"dim", d}}));
      case 10: return keep(builder_.op(OpCode::pad, {x}, {{"dim", d}, {"low", random_.between(0, 2)}, {"high", random_.between(0, 2)}, {"value", Rational(random_.between(0, 2), 2)}}));
      case 11: return keep(builder_.op(OpCode::reshape, {x}, {{"shape", s.size() == 1 && extent % 2 == 0 ? Shape{extent / 2, 2} : Shape{ir::element_count(s)}}}));
      case 12: return keep(s.size() == 2 ? builder_.op(OpCode::transpose, {x}, {{"perm", Integers{1, 0}}})
                                         : builder_.op(OpCode::broadcast, {x}, {{"shape", random_.chance(50) ? Shape{2, extent} : Shape{extent, 3}}, {"dims", Integers{random_.between(0, 1)}}}));
      case 13: {  // rows or columns by number
        const Shape of{random_.between(1, extent)};
        return keep(builder_.op(OpCode::take, {x, ids(of, extent)}, {{"dim", d}}));
      }
      case 14: return keep(s.size() == 2 ? builder_.op(OpCode::take_along, {x, ids({s[0]}, s[1])}, {})
                                         : builder_.op(OpCode::put_along, {x, ids(s, extent + 1)}, {{"size", extent + 1}}));
      case 15: {
        const OpCode op = random_.pick(std::vector<OpCode>{OpCode::reduce_sum, OpCode::reduce_max, OpCode::reduce_min});
        return keep(builder_.op(op, {x}, {{"dims", Integers{d}}}));
      }
      case 16: {
        if (s.size() == 1) return keep(builder_.op(OpCode::einsum, {x, like(x)}, {{"spec", std::string("i,j->ij")}}));
        return keep(builder_.op(OpCode::einsum, {x, like(x)}, {{"spec", random_.pick(std::vector<std::string>{"ij,ij->i", "ij,ij->ji", "ij,ij->j"})}}));
      }
      case 17: return keep(builder_.op(OpCode::all_gather, {x}, {{"axes", axes()}, {"dim", d}}));
      case 18: return keep(builder_.op(OpCode::all_reduce, {x}, {{"axes", axes()}, {"reduce", random_.pick(std::vector<std::string>{"sum", "max", "min", "avg"})}}));
      case 19: return keep(random_.chance(50) ? builder_.op(OpCode::reduce_scatter, {x}, {{"axes", axes()}, {"dim", d}, {"reduce", std::string("sum")}})
                                              : builder_.op(OpCode::broadcast_from, {x}, {{"axes", axes()}, {"root", random_.between(0, 1)}}));
      case 20: return keep(builder_.op(OpCode::all_to_all, {x}, {{"axes", axes()}, {"split_dim", d}, {"concat_dim", dim_of(x)}}));
      default: return keep(builder_.op(OpCode::permute, {x}, {{"axes", axes()}, {"shift", random_.between(-2, 3)}}));
    }
  }

  void loop() {
    const std::string index = "m" + std::to_string(program.values.size());
    const ValueId init = any();
    const std::vector<ValueId> arguments = builder_.begin_loop(index, random_.between(1, 3), {init}, {"carried"});
    const std::vector<ValueId> outside = reals_;
    loops_.push_back(index);
    grow(static_cast<int>(random_.between(1, 4)), false);
    const ValueId step = like(init);
    const std::vector<ValueId> results = builder_.end_loop({random_.chance(70) ? builder_.op(OpCode::add, {arguments[0], step}) : step});
    loops_.pop_back();
    reals_ = outside;
    keep(results[0]);
  }

  const ir::Mesh& mesh_;
  Random& random_;
  ir::Builder builder_;
  std::vector<ValueId> reals_;
  std::vector<std::string> loops_;
};

}  // namespace shardproof::verifier::testing

// A public bug as two plans of one reference: the right one and the one with the reported difference. Cases say what
// they need of a training step and no more, mostly with the gradient that arrives from above as an input.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/plan.h"

namespace shardproof::bugs {

using ir::OpCode;
using ir::ValueId;
using Ints = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;
using Values = std::vector<ValueId>;

enum class Side : std::uint8_t { reference, plan };

// One tensor on both sides.
struct Both {
  ValueId reference;
  ValueId plan;
};

// Extents of a step. `full` are those of a large model, `small` fit into an execution; both keep axes of distinct sizes
// where a case could mix them up.
struct Sizes {
  std::int64_t dp, tp, batch, sequence, hidden, ffn, vocab, heads, head_dim, micro;
};
Sizes full_sizes();
Sizes small_sizes();

// Appends instructions to one side.
class Ops {
 public:
  Ops(Side side, ir::Program& program, ir::AxisSize axis_size) : side_(side), builder_(program, std::move(axis_size)) {}

  ValueId operator[](const Both& value) const { return side_ == Side::plan ? value.plan : value.reference; }
  bool is_plan() const { return side_ == Side::plan; }
  ir::Builder& builder() { return builder_; }
  ir::Shape shape(ValueId x) const { return builder_.shape(x); }

  ValueId op(OpCode code, Values inputs, ir::AttrList attributes = {}) {
    return builder_.op(code, std::move(inputs), attributes);
  }
  ValueId fill(const ir::Shape& shape, ir::Rational value, ir::DType dtype = ir::DType::f32);
  ValueId coordinate(ir::CoordExpr value, const ir::Shape& shape, ir::DType dtype = ir::DType::i64);
  ValueId add(Values terms) { return op(OpCode::add, std::move(terms)); }
  ValueId mul(Values factors) { return op(OpCode::mul, std::move(factors)); }
  ValueId sub(ValueId a, ValueId b) { return op(OpCode::sub, {a, b}); }
  ValueId div(ValueId a, ValueId b) { return op(OpCode::div, {a, b}); }
  ValueId compare(ValueId a, ValueId b, const std::string& direction);
  ValueId select(ValueId condition, ValueId a, ValueId b) { return op(OpCode::select, {condition, a, b}); }
  ValueId einsum(const std::string& spec, Values inputs) {
    return op(OpCode::einsum, std::move(inputs), {{"spec", spec}});
  }
  ValueId sum(ValueId x, Ints dims) { return op(OpCode::reduce_sum, {x}, {{"dims", std::move(dims)}}); }
  ValueId total(ValueId x);  // over all dimensions
  ValueId scale(ValueId x, ir::Rational factor) { return mul({x, fill(shape(x), factor)}); }
  ValueId times(ValueId x, ValueId scalar) { return mul({x, spread(scalar, shape(x), {})}); }
  ValueId spread(ValueId x, const ir::Shape& to, Ints dims) {
    return op(OpCode::broadcast, {x}, {{"shape", Ints(to)}, {"dims", std::move(dims)}});
  }
  ValueId reshape(ValueId x, Ints to) { return op(OpCode::reshape, {x}, {{"shape", std::move(to)}}); }
  ValueId transpose(ValueId x, Ints perm) { return op(OpCode::transpose, {x}, {{"perm", std::move(perm)}}); }
  ValueId slice(ValueId x, std::int64_t dim, ir::CoordExpr start, std::int64_t size);
  ValueId slice(ValueId x, std::int64_t dim, std::int64_t start, std::int64_t size) {
    return slice(x, dim, ir::constant_expr(start), size);
  }
  ValueId part(ValueId x, std::int64_t dim, std::int64_t index, std::int64_t count);  // one of `count` equal parts
  // Element `index` of dimension 0, which is removed.
  ValueId pick(ValueId x, ir::CoordExpr index);
  ValueId concat(Values parts, std::int64_t dim) { return op(OpCode::concat, std::move(parts), {{"dim", dim}}); }
  // next = carried + body(); all start at zero of the shape of the body's values, hence `shapes`.
  Values accumulate(const std::string& index, std::int64_t trip, const std::vector<ir::Shape>& shapes,
                    const std::function<Values()>& body);

  ValueId all_reduce(ValueId x, Texts axes, const std::string& reduce = "sum");
  ValueId all_gather(ValueId x, Texts axes, std::int64_t dim);
  ValueId reduce_scatter(ValueId x, Texts axes, std::int64_t dim, const std::string& reduce = "sum");

  // x over its root mean square along the last dimension, which has `width` elements.
  ValueId normalised(ValueId x, std::int64_t width);
  ValueId descend(ValueId weight, ValueId gradient) { return sub(weight, scale(gradient, {1, 1000})); }

 private:
  Side side_;
  ir::Builder builder_;
};

class Case {
 public:
  // Axis "dp" has the size of that name, any other the size `tp`, unless given.
  Case(bool wrong, const Sizes& sizes, const std::vector<std::pair<std::string, std::int64_t>>& axes);

  bool wrong() const { return wrong_; }
  template <typename T>
  T right_or_wrong(T right, T wrong_value) const {
    return wrong_ ? wrong_value : right;
  }
  const Sizes& n() const { return sizes_; }

  // Placements in short: one word per dimension, "_" whole, "tp" cut, "2+tp" a local digit 2 before the cut, "tp+dp"
  // cut twice; the last local digit is implied. Empty: all whole.
  Both input(const std::string& name, const ir::Shape& shape, const std::string& dims = {},
             ir::DType dtype = ir::DType::f32, std::int64_t below = 0);
  Both state(const std::string& name, const ir::Shape& shape, const std::string& dims = {},
             const std::string& role = "param", const std::string& param = {}, ir::DType dtype = ir::DType::f32);
  // A second plan state for the reference state `of`, of another placement.
  ValueId copy_of(const std::string& of, const std::string& name, const std::string& dims);
  void next(const std::string& state, const Both& value);
  void next_copy(const std::string& name, ValueId value);
  void output(const std::string& name, const Both& value, const std::string& dims = {});

  // The same instructions on both sides.
  Both both(const std::function<ValueId(Ops&)>& make) { return {make(reference), make(plan)}; }

  ir::Document document() &&;

 private:
  ir::Binding binding(const std::string& of, const ir::Shape& shape, const std::string& dims) const;
  std::int64_t size_of(const std::string& axis) const;

  bool wrong_;
  Sizes sizes_;
  ir::Document document_;
  std::map<std::string, ir::Shape> shapes_;

 public:
  Ops reference;
  Ops plan;
};

// One row of tests/bugs/README.md.
struct Bug {
  std::string name;  // project and issue: "megatron_lm_1446"
  std::string id;    // of the corpus: "B001"
  std::function<ir::Document(bool wrong, const Sizes& sizes)> make;
  std::string code = {};  // of a finding there must be on the wrong plan; empty: not settled
};
void PrintTo(const Bug& bug, std::ostream* out);  // for GoogleTest

std::vector<Bug> tensor_parallel_gradient_bugs();
std::vector<Bug> autograd_bugs();
std::vector<Bug> loss_bugs();
std::vector<Bug> norm_bugs();
std::vector<Bug> data_parallel_bugs();
std::vector<Bug> layout_bugs();
std::vector<Bug> optimizer_bugs();
std::vector<Bug> mesh_bugs();
std::vector<Bug> partitioner_bugs();
std::vector<Bug> shared_parameter_bugs();
std::vector<Bug> all_bugs();

}  // namespace shardproof::bugs

// How ranks hold the values of a random plan, and the instructions that change it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attack/dice.h"
#include "ir/builder.h"
#include "ir/plan.h"

namespace shardproof::attack {

using ir::OpCode;
using ir::ValueId;
using Ints = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;

// `dims`: all digits are written down, the last one is local.
struct Layout {
  std::vector<ir::DimLayout> dims;
  Texts partial;  // axes over which the ranks hold something to be reduced, in the order of the mesh
  ir::ReduceKind reduce = ir::ReduceKind::sum;

  friend bool operator==(const Layout&, const Layout&) = default;
};

// A value of the plan that stands for a tensor of `shape`.
struct Held {
  ValueId id;
  ir::Shape shape;
  Layout layout;
};

ir::DimLayout whole(std::int64_t extent);
Layout whole(const ir::Shape& shape);
std::int64_t local_extent(const ir::DimLayout& dim);
ir::Shape local_shape(const Layout& layout);
Texts axes_of(const ir::DimLayout& dim);
Texts axes_of(const Layout& layout);  // of its dimensions
bool uses(const Texts& axes, const std::string& axis);
// Padded or uneven: local elements that stand for nothing.
bool has_surplus(const ir::DimLayout& dim);
// A concatenation of digits, whose neighbouring local ones are one.
ir::DimLayout of_digits(const std::vector<ir::Digit>& digits);

class PlanWriter {
 public:
  PlanWriter(ir::Document& document, Dice dice);

  ir::Builder& builder() { return builder_; }
  const ir::Mesh& mesh() const { return document_->plan.meshes.front(); }
  std::int64_t size_of(const std::string& axis) const;

  // Axes from major to minor, then one local digit.
  bool is_block(const ir::DimLayout& dim) const;
  bool is_whole_axis(const ir::Digit& digit) const { return digit.pre == 1 && digit.size == size_of(digit.axis); }
  // `dim`, a block, cut by one more axis.
  ir::DimLayout cut(const ir::DimLayout& dim, const std::string& axis) const;
  // Each axis cuts a dimension, or none. Odd ones have digits in another order, parts of axes, padding; nothing is made
  // uneven that was not.
  enum class Kind { blocks, odd, uneven };
  Layout random_layout(const ir::Shape& shape, const Texts& taken, Kind kind = Kind::blocks);

  // The same tensor in another layout, by one of the ways there are. `target` is partial by sums only, and uneven only
  // where x is.
  Held place(Held x, const Layout& target);
  // With dimension `dim` whole, or without surplus elements.
  Held gathered(Held x, std::size_t dim);
  Held without_surplus(Held x);
  // Surplus elements of `dim` are zero.
  Held with_zeros(Held x, std::size_t dim);

  ValueId fill(const ir::Shape& shape, ir::Rational value, ir::DType dtype = ir::DType::f32);
  ValueId coordinate(const ir::CoordExpr& value, const ir::Shape& shape, ir::DType dtype = ir::DType::i64);
  ValueId all_reduce(ValueId x, const Texts& axes, const std::string& reduce);
  // The place of rank in a block: of its first element along the dimension.
  ir::CoordExpr first_element(const ir::DimLayout& block) const;

 private:
  ValueId op(OpCode code, std::vector<ValueId> inputs, ir::AttrList attributes = {}) {
    return builder_.op(code, std::move(inputs), attributes);
  }
  ValueId collective(OpCode code, ValueId x, const Texts& axes, ir::Attributes attributes);
  ValueId slice(ValueId x, std::size_t dim, ir::CoordExpr start, std::int64_t size);
  ValueId reshape(ValueId x, const ir::Shape& shape) { return op(OpCode::reshape, {x}, {{"shape", Ints(shape)}}); }
  ir::CoordExpr coordinate_of(const ir::Digit& digit) const;

  ir::DimLayout odd_dim(std::int64_t extent, const std::string& axis, bool may_be_uneven);
  void exchange(Held& x, const Layout& target);
  void gather(Held& x, const Layout& target);
  void reduce(Held& x, const Layout& target);
  void scatter(Held& x, const Layout& target);
  void make_partial(Held& x, const Layout& target);
  Held distributed(Held x, std::size_t dim, const ir::DimLayout& target);
  ValueId in_digit_order(ValueId x, std::size_t dim, const ir::DimLayout& from);
  ValueId unfolded_zigzag(ValueId x, std::size_t dim, std::int64_t width);
  void idle(Held& x);

  ir::Document* document_;
  Dice dice_;
  ir::Builder builder_;
};

}  // namespace shardproof::attack

#include "attack/layouts.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "ir/check.h"
#include "verifier/execution/cluster.h"

namespace shardproof::attack {

namespace {

std::ptrdiff_t at(std::size_t index) {
  return static_cast<std::ptrdiff_t>(index);
}

// The axes that both blocks begin with.
std::size_t common(const Texts& a, const Texts& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

bool starts_with(const Texts& all, const Texts& first) {
  return first.size() <= all.size() && common(all, first) == first.size();
}

ir::Shape replaced(ir::Shape shape, std::size_t dim, const ir::Shape& by) {
  shape.erase(shape.begin() + at(dim));
  shape.insert(shape.begin() + at(dim), by.begin(), by.end());
  return shape;
}

std::int64_t product(const ir::Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

ir::DimLayout whole(std::int64_t extent) {
  ir::DimLayout dim;
  dim.digits.push_back({"", 1, extent});
  return dim;
}

Layout whole(const ir::Shape& shape) {
  Layout layout;
  for (const std::int64_t extent : shape) layout.dims.push_back(whole(extent));
  return layout;
}

std::int64_t local_extent(const ir::DimLayout& dim) {
  std::int64_t extent = 1;
  for (const ir::Digit& digit : dim.digits)
    if (digit.is_local()) extent *= digit.size;
  return extent;
}

ir::Shape local_shape(const Layout& layout) {
  ir::Shape shape;
  for (const ir::DimLayout& dim : layout.dims) shape.push_back(local_extent(dim));
  return shape;
}

Texts axes_of(const ir::DimLayout& dim) {
  Texts axes;
  for (const ir::Digit& digit : dim.digits)
    if (!digit.is_local()) axes.push_back(digit.axis);
  return axes;
}

Texts axes_of(const Layout& layout) {
  Texts axes;
  for (const ir::DimLayout& dim : layout.dims) std::ranges::copy(axes_of(dim), std::back_inserter(axes));
  return axes;
}

bool uses(const Texts& axes, const std::string& axis) {
  return std::ranges::find(axes, axis) != axes.end();
}

bool has_surplus(const ir::DimLayout& dim) {
  return dim.padded_extent != 0 || !dim.offsets.empty();
}

ir::DimLayout of_digits(const std::vector<ir::Digit>& digits) {
  ir::DimLayout dim;
  for (const ir::Digit& digit : digits) {
    if (digit.is_local() && digit.size == 1) continue;
    if (digit.is_local() && !dim.digits.empty() && dim.digits.back().is_local()) dim.digits.back().size *= digit.size;
    else dim.digits.push_back(digit);
  }
  if (dim.digits.empty() || !dim.digits.back().is_local()) dim.digits.push_back({"", 1, 1});
  return dim;
}

PlanWriter::PlanWriter(ir::Document& document, Dice dice)
    : document_(&document),
      dice_(dice),
      builder_(document.plan.stages.front().program, [mesh = document.plan.meshes.front()](const std::string& axis) {
        const auto found = mesh.find_axis(axis);
        return found ? mesh.axes[*found].size : 0;
      }) {}

std::int64_t PlanWriter::size_of(const std::string& axis) const {
  return mesh().axes.at(*mesh().find_axis(axis)).size;
}

bool PlanWriter::is_block(const ir::DimLayout& dim) const {
  if (has_surplus(dim) || dim.permutation != ir::Permutation::none) return false;
  return std::all_of(dim.digits.begin(), dim.digits.end() - 1,
                     [&](const ir::Digit& digit) { return !digit.is_local() && is_whole_axis(digit); });
}

ir::DimLayout PlanWriter::cut(const ir::DimLayout& dim, const std::string& axis) const {
  ir::DimLayout result = dim;
  const std::int64_t size = size_of(axis);
  result.digits.back().size /= size;
  result.digits.insert(result.digits.end() - 1, {axis, 1, size});
  return result;
}

ir::DimLayout PlanWriter::odd_dim(std::int64_t extent, const std::string& axis, bool may_be_uneven) {
  const std::int64_t size = size_of(axis);
  ir::DimLayout dim;
  const std::int64_t choice = dice_.below(10);
  if (choice < 3 && extent % (2 * size) == 0) return of_digits({{"", 1, 2}, {axis, 1, size}, {"", 1, extent / (2 * size)}});
  if (choice < 5 && extent % (2 * size) == 0) {
    dim.digits = {{axis, 1, size}, {"", 1, 2}, {"", 1, extent / (2 * size)}};
    dim.permutation = ir::Permutation::zigzag;
    return dim;
  }
  if (choice < 7 && size == 4 && extent % 2 == 0) {
    dim.digits = {{axis, 1 + dice_.below(2), 2}, {"", 1, extent / 2}};
    return dim;
  }
  if (choice == 7 && may_be_uneven && dice_.chance(20)) {
    std::int64_t largest = 0;
    for (std::int64_t i = 0; i < size; ++i) dim.offsets.push_back(i == 0 ? 0 : dice_.below(extent + 1));
    dim.offsets.push_back(extent);
    std::ranges::sort(dim.offsets);
    for (std::size_t i = 1; i < dim.offsets.size(); ++i) largest = std::max(largest, dim.offsets[i] - dim.offsets[i - 1]);
    dim.digits = {{axis, 1, size}, {"", 1, largest}};
    return dim;
  }
  const std::int64_t local = (extent + size - 1) / size;
  dim.digits = {{axis, 1, size}, {"", 1, local}};
  if (local * size != extent) dim.padded_extent = local * size;
  return dim;
}

Layout PlanWriter::random_layout(const ir::Shape& shape, const Texts& taken, Kind kind) {
  Layout layout = whole(shape);
  if (shape.empty()) return layout;
  Texts axes;
  for (const ir::MeshAxis& axis : mesh().axes)
    if (!uses(taken, axis.name)) axes.push_back(axis.name);
  dice_.shuffle(axes);
  for (const std::string& axis : axes) {
    if (dice_.chance(30)) continue;
    const auto d = static_cast<std::size_t>(dice_.below(static_cast<std::int64_t>(shape.size())));
    ir::DimLayout& dim = layout.dims[d];
    if (kind != Kind::blocks && dim == whole(shape[d]) && dice_.chance(25)) dim = odd_dim(shape[d], axis, kind == Kind::uneven);
    else if (is_block(dim) && local_extent(dim) % size_of(axis) == 0) dim = cut(dim, axis);
  }
  return layout;
}

// ---- instructions

ValueId PlanWriter::fill(const ir::Shape& shape, ir::Rational value, ir::DType dtype) {
  return builder_.typed(OpCode::constant, {dtype, shape}, {{"value", value}});
}

ValueId PlanWriter::coordinate(const ir::CoordExpr& value, const ir::Shape& shape, ir::DType dtype) {
  ValueId scalar = builder_.typed(OpCode::coord, {ir::DType::i64, {}}, {{"value", value}});
  if (dtype != ir::DType::i64) scalar = op(OpCode::cast, {scalar}, {{"dtype", std::string(ir::dtype_name(dtype))}});
  return op(OpCode::broadcast, {scalar}, {{"shape", Ints(shape)}, {"dims", Ints{}}});
}

// The group by its axes or, seldom, by ranks; complete at once or waited for.
ValueId PlanWriter::collective(OpCode code, ValueId x, const Texts& axes, ir::Attributes attributes) {
  const bool async = dice_.chance(10), by_ranks = dice_.chance(10);
  std::vector<std::pair<std::string, ir::AttrValue>> list = attributes.entries();
  if (by_ranks) list.emplace_back("groups", execution::groups_of(document_->plan.meshes, axes));
  else list.emplace_back("axes", axes);
  if (async) list.emplace_back("async", true);
  // The builder takes a list of fixed length only.
  ir::Program& program = builder_.program();
  ir::Instruction instruction;
  instruction.op = code;
  instruction.inputs = {x};
  for (auto& [name, value] : list) instruction.attributes.set(name, std::move(value));
  std::int64_t ranks = 1;
  for (const std::string& axis : axes) ranks *= size_of(axis);
  ir::TensorType type = builder_.type(x);
  const auto extent = [&](const char* dim) -> std::int64_t& {
    return type.shape[static_cast<std::size_t>(attributes.get<std::int64_t>(dim))];
  };
  if (code == OpCode::all_gather) extent("dim") *= ranks;
  if (code == OpCode::reduce_scatter) extent("dim") /= ranks;
  if (code == OpCode::all_to_all) {
    extent("split_dim") /= ranks;
    extent("concat_dim") *= ranks;
  }
  const ValueId result =
      builder_.input(std::string(ir::schema_of(code).name) + "_" + std::to_string(program.values.size()), type);
  instruction.outputs = {result};
  program.body.push_back(std::move(instruction));
  return async ? op(OpCode::wait, {result}) : result;
}

ValueId PlanWriter::all_reduce(ValueId x, const Texts& axes, const std::string& reduce) {
  ir::Attributes attributes;
  attributes.set("reduce", reduce);
  return collective(OpCode::all_reduce, x, axes, attributes);
}

ValueId PlanWriter::slice(ValueId x, std::size_t dim, ir::CoordExpr start, std::int64_t size) {
  return op(OpCode::slice, {x}, {{"dim", static_cast<std::int64_t>(dim)}, {"start", std::move(start)}, {"size", size}});
}

ir::CoordExpr PlanWriter::coordinate_of(const ir::Digit& digit) const {
  const std::int64_t below = size_of(digit.axis) / (digit.pre * digit.size);
  ir::CoordExpr result = ir::variable_expr(digit.axis);
  if (below > 1) result = ir::floor_div(result, below);
  return digit.pre > 1 ? ir::modulo(result, digit.size) : result;
}

ir::CoordExpr PlanWriter::first_element(const ir::DimLayout& block) const {
  ir::CoordExpr result;
  std::int64_t stride = 1;
  for (auto digit = block.digits.rbegin(); digit != block.digits.rend(); ++digit) {
    if (!digit->is_local()) result = result + stride * coordinate_of(*digit);
    stride *= digit->size;
  }
  return result;
}

// ---- dimensions that become whole

// Gathered blocks lie in the order of ranks, then local digits; the digits of the dimension may be in another order, and
// of an axis of which a digit is a part, other parts tell equal copies apart.
ValueId PlanWriter::in_digit_order(ValueId x, std::size_t dim, const ir::DimLayout& from) {
  const ir::Shape outer = builder_.shape(x);
  ir::Shape sizes;
  std::vector<std::size_t> copies;  // positions in `sizes`
  std::vector<std::size_t> where(from.digits.size());
  for (const bool local : {false, true}) {
    for (std::size_t i = 0; i < from.digits.size(); ++i) {
      const ir::Digit& digit = from.digits[i];
      if (digit.is_local() != local) continue;
      if (!local && digit.pre > 1) {
        copies.push_back(sizes.size());
        sizes.push_back(digit.pre);
      }
      where[i] = sizes.size();
      sizes.push_back(digit.size);
      const std::int64_t rest = local ? 1 : size_of(digit.axis) / (digit.pre * digit.size);
      if (rest > 1) {
        copies.push_back(sizes.size());
        sizes.push_back(rest);
      }
    }
  }
  x = reshape(x, replaced(outer, dim, sizes));
  for (const std::size_t position : copies) {
    x = slice(x, dim + position, ir::constant_expr(dice_.below(sizes[position])), 1);
    sizes[position] = 1;
  }
  Ints perm;
  for (std::size_t d = 0; d < dim; ++d) perm.push_back(static_cast<std::int64_t>(d));
  for (const std::size_t position : copies) perm.push_back(static_cast<std::int64_t>(dim + position));
  for (const std::size_t position : where) perm.push_back(static_cast<std::int64_t>(dim + position));
  for (std::size_t d = dim + 1; d < outer.size(); ++d) perm.push_back(static_cast<std::int64_t>(d + sizes.size() - 1));
  if (!std::ranges::is_sorted(perm)) x = op(OpCode::transpose, {x}, {{"perm", perm}});
  return reshape(x, replaced(outer, dim, {product(sizes)}));
}

// Rank r has the chunks r and 2 width - 1 - r.
ValueId PlanWriter::unfolded_zigzag(ValueId x, std::size_t dim, std::int64_t width) {
  const std::int64_t chunk = builder_.shape(x)[dim] / (2 * width);
  std::vector<ValueId> chunks;
  for (std::int64_t c = 0; c < 2 * width; ++c) {
    const std::int64_t position = c < width ? 2 * c : 2 * (2 * width - 1 - c) + 1;
    chunks.push_back(slice(x, dim, ir::constant_expr(position * chunk), chunk));
  }
  return op(OpCode::concat, chunks, {{"dim", static_cast<std::int64_t>(dim)}});
}

Held PlanWriter::gathered(Held x, std::size_t dim) {
  const ir::DimLayout from = x.layout.dims[dim];
  const Texts axes = axes_of(from);
  if (axes.empty()) return x;
  ir::Attributes attributes;
  attributes.set("dim", static_cast<std::int64_t>(dim));
  x.id = collective(OpCode::all_gather, x.id, axes, attributes);
  if (!from.offsets.empty()) {
    const std::int64_t local = local_extent(from);
    std::vector<ValueId> parts;
    for (std::size_t i = 0; i + 1 < from.offsets.size(); ++i) {
      const std::int64_t size = from.offsets[i + 1] - from.offsets[i];
      if (size > 0) parts.push_back(slice(x.id, dim, ir::constant_expr(static_cast<std::int64_t>(i) * local), size));
    }
    x.id = op(OpCode::concat, parts, {{"dim", static_cast<std::int64_t>(dim)}});
  } else if (!is_block(from) && from.padded_extent == 0) {
    x.id = in_digit_order(x.id, dim, from);
    if (from.permutation == ir::Permutation::zigzag) x.id = unfolded_zigzag(x.id, dim, from.digits.front().size);
  } else if (from.padded_extent != 0) {
    x.id = slice(x.id, dim, ir::constant_expr(0), x.shape[dim]);
  }
  x.layout.dims[dim] = whole(x.shape[dim]);
  return x;
}

Held PlanWriter::without_surplus(Held x) {
  for (std::size_t d = 0; d < x.shape.size(); ++d)
    if (has_surplus(x.layout.dims[d])) x = gathered(std::move(x), d);
  return x;
}

Held PlanWriter::with_zeros(Held x, std::size_t dim) {
  const ir::DimLayout& layout = x.layout.dims[dim];
  if (!has_surplus(layout)) return x;
  const ir::Shape shape = builder_.shape(x.id);
  const ValueId index = builder_.typed(OpCode::iota, {ir::DType::i64, shape}, {{"dim", static_cast<std::int64_t>(dim)}});
  ValueId place = index, end;
  if (layout.offsets.empty()) {
    place = op(OpCode::add, {index, coordinate(first_element(layout), shape)});
    end = fill(shape, x.shape[dim], ir::DType::i64);
  } else {
    std::vector<ir::Rational> sizes;
    for (std::size_t i = 0; i + 1 < layout.offsets.size(); ++i) sizes.emplace_back(layout.offsets[i + 1] - layout.offsets[i]);
    const auto ranks = static_cast<std::int64_t>(sizes.size());
    ValueId size = builder_.typed(OpCode::table, {ir::DType::i64, {ranks}}, {{"values", sizes}});
    size = slice(size, 0, ir::variable_expr(layout.digits.front().axis), 1);
    end = op(OpCode::broadcast, {reshape(size, {})}, {{"shape", Ints(shape)}, {"dims", Ints{}}});
  }
  const ValueId inside = op(OpCode::compare, {place, end}, {{"direction", std::string("lt")}});
  x.id = op(OpCode::select, {inside, x.id, fill(shape, 0)});
  return x;
}

// ---- from one layout to another

// An axis goes from one dimension to another without either being whole.
void PlanWriter::exchange(Held& x, const Layout& target) {
  for (std::size_t from = 0; from < x.shape.size(); ++from) {
    for (std::size_t to = 0; to < x.shape.size(); ++to) {
      ir::DimLayout& a = x.layout.dims[from];
      ir::DimLayout& b = x.layout.dims[to];
      if (from == to || !is_block(a) || !is_block(b) || !is_block(target.dims[to])) continue;
      const Texts axes = axes_of(a);
      Texts more = axes_of(b);
      if (axes.empty()) continue;
      more.push_back(axes.back());
      if (uses(axes_of(target.dims[from]), axes.back()) || !starts_with(axes_of(target.dims[to]), more)) continue;
      if (local_extent(b) % size_of(axes.back()) != 0 || dice_.chance(40)) continue;
      ir::Attributes attributes;
      attributes.set("split_dim", static_cast<std::int64_t>(to));
      attributes.set("concat_dim", static_cast<std::int64_t>(from));
      x.id = collective(OpCode::all_to_all, x.id, {axes.back()}, attributes);
      a.digits.back().size *= size_of(axes.back());
      a.digits.erase(a.digits.end() - 2);
      b = cut(b, axes.back());
    }
  }
}

void PlanWriter::gather(Held& x, const Layout& target) {
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    ir::DimLayout& dim = x.layout.dims[d];
    if (dim == target.dims[d]) continue;
    if (!is_block(dim) || !is_block(target.dims[d])) {
      x = gathered(std::move(x), d);
      continue;
    }
    Texts axes = axes_of(dim);
    const std::size_t kept = common(axes, axes_of(target.dims[d]));
    while (axes.size() > kept) {
      // The minor axes together, or one after the other.
      const std::size_t first = dice_.chance(50) ? kept : axes.size() - 1;
      ir::Attributes attributes;
      attributes.set("dim", static_cast<std::int64_t>(d));
      x.id = collective(OpCode::all_gather, x.id, Texts(axes.begin() + at(first), axes.end()), attributes);
      for (; axes.size() > first; axes.pop_back()) {
        dim.digits.back().size *= size_of(axes.back());
        dim.digits.erase(dim.digits.end() - 2);
      }
    }
  }
}

void PlanWriter::reduce(Held& x, const Layout& target) {
  const std::string kind(ir::reduce_name(x.layout.reduce));
  Texts open;
  for (const std::string& axis : x.layout.partial)
    if (!uses(target.partial, axis) || x.layout.reduce != target.reduce) open.push_back(axis);
  dice_.shuffle(open);
  Texts together;
  for (const std::string& axis : open) {
    std::erase(x.layout.partial, axis);
    bool scattered = false;
    for (std::size_t d = 0; d < x.shape.size() && !scattered; ++d) {
      ir::DimLayout& dim = x.layout.dims[d];
      if (!is_block(dim) || !is_block(target.dims[d])) continue;
      Texts more = axes_of(dim);
      more.push_back(axis);
      if (!starts_with(axes_of(target.dims[d]), more) || dice_.chance(25)) continue;
      ir::Attributes attributes;
      attributes.set("dim", static_cast<std::int64_t>(d));
      attributes.set("reduce", kind);
      x.id = collective(OpCode::reduce_scatter, x.id, {axis}, attributes);
      dim = cut(dim, axis);
      scattered = true;
    }
    if (scattered) continue;
    if (dice_.chance(50)) together.push_back(axis);
    else x.id = all_reduce(x.id, {axis}, kind);
  }
  if (!together.empty()) x.id = all_reduce(x.id, together, kind);
  if (x.layout.partial.empty()) x.layout.reduce = ir::ReduceKind::sum;
}

// A whole dimension, cut into digits.
Held PlanWriter::distributed(Held x, std::size_t dim, const ir::DimLayout& target) {
  SHARDPROOF_CHECK(target.offsets.empty());
  const ir::Shape outer = builder_.shape(x.id);
  if (target.permutation == ir::Permutation::zigzag) {
    const std::int64_t width = target.digits.front().size, chunk = x.shape[dim] / (2 * width);
    const std::string& axis = target.digits.front().axis;
    const ValueId first = slice(x.id, dim, ir::variable_expr(axis, chunk), chunk);
    const ValueId second = slice(x.id, dim, ir::variable_expr(axis, -chunk, (2 * width - 1) * chunk), chunk);
    x.id = op(OpCode::concat, {first, second}, {{"dim", static_cast<std::int64_t>(dim)}});
  } else {
    if (target.padded_extent != 0) {
      x.id = op(OpCode::pad, {x.id},
                {{"dim", static_cast<std::int64_t>(dim)}, {"low", std::int64_t{0}}, {"high", target.padded_extent - x.shape[dim]},
                 {"value", ir::Rational(1)}});
    }
    ir::Shape sizes;
    for (const ir::Digit& digit : target.digits) sizes.push_back(digit.size);
    x.id = reshape(x.id, replaced(outer, dim, sizes));
    for (std::size_t i = 0; i < target.digits.size(); ++i)
      if (!target.digits[i].is_local()) x.id = slice(x.id, dim + i, coordinate_of(target.digits[i]), 1);
    x.id = reshape(x.id, replaced(outer, dim, {local_extent(target)}));
  }
  x.layout.dims[dim] = target;
  return x;
}

void PlanWriter::scatter(Held& x, const Layout& target) {
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    ir::DimLayout& dim = x.layout.dims[d];
    if (dim == target.dims[d]) continue;
    if (!is_block(target.dims[d]) || (axes_of(dim).empty() && dice_.chance(20))) {
      x = distributed(std::move(x), d, target.dims[d]);
      continue;
    }
    const Texts axes = axes_of(target.dims[d]);
    for (std::size_t i = axes_of(dim).size(); i < axes.size(); ++i) {
      dim = cut(dim, axes[i]);
      x.id = slice(x.id, d, ir::variable_expr(axes[i], local_extent(dim)), local_extent(dim));
    }
  }
}

void PlanWriter::make_partial(Held& x, const Layout& target) {
  for (const ir::MeshAxis& axis : mesh().axes) {
    if (!uses(target.partial, axis.name) || uses(x.layout.partial, axis.name)) continue;
    const ir::Shape shape = builder_.shape(x.id);
    if (dice_.chance(60)) {
      const ValueId mine = op(OpCode::compare, {coordinate(ir::variable_expr(axis.name), shape),
                                                fill(shape, dice_.below(axis.size), ir::DType::i64)},
                              {{"direction", std::string("eq")}});
      x.id = op(OpCode::select, {mine, x.id, fill(shape, 0)});
    } else {
      x.id = op(OpCode::mul, {x.id, fill(shape, ir::Rational(1, axis.size))});
    }
  }
  x.layout.partial = target.partial;
}

// A collective that changes nothing, as plans have them behind values that are equal already.
void PlanWriter::idle(Held& x) {
  if (!ir::is_float(builder_.type(x.id).dtype)) return;
  for (const ir::MeshAxis& axis : mesh().axes) {
    if (uses(x.layout.partial, axis.name) || uses(axes_of(x.layout), axis.name)) continue;
    ir::Attributes attributes;
    switch (dice_.below(4)) {
      case 0: x.id = all_reduce(x.id, {axis.name}, "max"); return;
      case 1: x.id = all_reduce(x.id, {axis.name}, "avg"); return;
      case 2:
        attributes.set("shift", 1 + dice_.below(axis.size - 1));
        x.id = collective(OpCode::permute, x.id, {axis.name}, attributes);
        return;
      default:
        attributes.set("root", dice_.below(axis.size));
        x.id = collective(OpCode::broadcast_from, x.id, {axis.name}, attributes);
        return;
    }
  }
}

Held PlanWriter::place(Held x, const Layout& target) {
  if (x.layout == target) return x;
  if (dice_.chance(2)) idle(x);
  if (dice_.chance(30)) reduce(x, target);
  exchange(x, target);
  gather(x, target);
  reduce(x, target);
  scatter(x, target);
  make_partial(x, target);
  return x;
}

}  // namespace shardproof::attack

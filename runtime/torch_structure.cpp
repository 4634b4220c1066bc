// Sources, data movement and random numbers.
#include <algorithm>
#include <limits>

#include <ATen/ATen.h>

#include "ir/coord_expr.h"
#include "runtime/torch_kernels.h"
#include "verifier/execution/random_bits.h"

namespace shardproof::runtime {

namespace {

using Integers = std::vector<std::int64_t>;

double to_double(ir::Rational value) {
  return static_cast<double>(value.num) / static_cast<double>(value.den);
}

at::ScalarType execution_type(ir::DType dtype) {
  if (dtype == ir::DType::boolean) return at::kBool;
  return ir::is_integer(dtype) ? at::kLong : at::kDouble;
}

at::Tensor operand(const KernelCall& call, std::size_t i) {
  return std::any_cast<const at::Tensor&>(call.operands[i].storage);
}

std::int64_t integer(const KernelCall& call, std::string_view name) {
  return call.instruction.attributes.get<std::int64_t>(name);
}

std::int64_t integer_or(const KernelCall& call, std::string_view name, std::int64_t fallback) {
  return call.instruction.attributes.get_or<std::int64_t>(name, fallback);
}

at::Tensor constant(const KernelCall& call) {
  const at::ScalarType type = execution_type(call.result_type.dtype);
  if (call.instruction.attributes.get_or<bool>("negative_infinity", false)) {
    if (type != at::kDouble) throw ExecutionError("only a floating-point constant is infinite");
    return at::full(call.result_type.shape, -std::numeric_limits<double>::infinity(), at::TensorOptions(at::kDouble));
  }
  const auto value = call.instruction.attributes.get<ir::Rational>("value");
  if (type != at::kDouble && !value.is_integer()) throw ExecutionError("a fraction is not an integer constant");
  return at::full(call.result_type.shape, to_double(value), at::TensorOptions(at::kDouble)).to(type);
}

at::Tensor table(const KernelCall& call) {
  Tensor literal{call.result_type, {}};
  for (const ir::Rational value : call.instruction.attributes.get<std::vector<ir::Rational>>("values")) {
    literal.data.push_back(to_double(value));
  }
  if (static_cast<std::int64_t>(literal.data.size()) != ir::element_count(literal.type.shape)) {
    throw ExecutionError("the table does not have as many values as elements");
  }
  return std::any_cast<at::Tensor>(upload(literal).storage);
}

at::Tensor iota(const KernelCall& call) {
  const std::int64_t dim = integer(call, "dim");
  const ir::Shape& shape = call.result_type.shape;
  Integers view(shape.size(), 1);
  view.at(static_cast<std::size_t>(dim)) = shape.at(static_cast<std::size_t>(dim));
  const at::Tensor range = at::arange(view[static_cast<std::size_t>(dim)], at::TensorOptions(at::kLong));
  return range.reshape(view).expand(shape).to(execution_type(call.result_type.dtype));
}

at::Tensor broadcast(const KernelCall& call) {
  const auto& shape = call.instruction.attributes.get<Integers>("shape");
  const auto& dims = call.instruction.attributes.get<Integers>("dims");
  const at::Tensor x = operand(call, 0);
  Integers view(shape.size(), 1);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    view.at(static_cast<std::size_t>(dims[i])) = x.size(static_cast<std::int64_t>(i));
  }
  // `dims` need not be increasing (StableHLO): bring the operand's dimensions in result order first.
  Integers order(dims.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return dims[static_cast<std::size_t>(a)] < dims[static_cast<std::size_t>(b)];
  });
  return x.permute(order).reshape(view).expand(shape);
}

at::Tensor slice(const KernelCall& call) {
  const std::int64_t dim = integer(call, "dim");
  const std::int64_t size = integer(call, "size");
  const std::int64_t stride = integer_or(call, "stride", 1);
  const std::int64_t start = ir::evaluate(call.instruction.attributes.get<ir::CoordExpr>("start"), call.variables);
  const at::Tensor x = operand(call, 0);
  const std::int64_t last = start + (size - 1) * stride;
  // LibTorch would clamp: a slice outside of its operand must be an error here.
  if (start < 0 || last >= x.size(dim)) {
    throw OutOfBounds("slice [" + std::to_string(start) + ", " + std::to_string(last) + "] leaves extent " +
                         std::to_string(x.size(dim)));
  }
  return x.slice(dim, start, last + 1, stride);
}

at::Tensor pad(const KernelCall& call) {
  const at::Tensor x = operand(call, 0);
  const std::int64_t dim = integer(call, "dim");
  const ir::Rational value = call.instruction.attributes.get_or<ir::Rational>("value", ir::Rational(0));
  std::vector<at::Tensor> parts;
  const auto margin = [&](std::int64_t extent) {
    if (extent < 0) throw ExecutionError("negative padding");
    if (extent == 0) return;
    Integers shape = x.sizes().vec();
    shape.at(static_cast<std::size_t>(dim)) = extent;
    parts.push_back(at::full(shape, to_double(value), at::TensorOptions(at::kDouble)).to(x.scalar_type()));
  };
  margin(integer_or(call, "low", 0));
  parts.push_back(x);
  margin(integer_or(call, "high", 0));
  return at::cat(parts, dim);
}

at::Tensor cast(const KernelCall& call) {
  return operand(call, 0).to(execution_type(call.result_type.dtype));
}

void check_range(const at::Tensor& ids, std::int64_t extent) {
  if (ids.numel() == 0) return;
  const auto low = ids.min().item<std::int64_t>();
  const auto high = ids.max().item<std::int64_t>();
  if (low < 0 || high >= extent) {
    throw OutOfBounds("index " + std::to_string(low < 0 ? low : high) + " is outside of extent " +
                         std::to_string(extent));
  }
}

// Shape of `take`: dimension `dim` of x replaced by the dimensions of ids.
at::Tensor take(const KernelCall& call) {
  const at::Tensor x = operand(call, 0);
  const at::Tensor ids = operand(call, 1);
  const std::int64_t dim = integer_or(call, "dim", 0);
  check_range(ids, x.size(dim));
  Integers shape = x.sizes().vec();
  shape.erase(shape.begin() + dim);
  const Integers id_shape = ids.sizes().vec();
  shape.insert(shape.begin() + dim, id_shape.begin(), id_shape.end());
  return x.index_select(dim, ids.reshape({-1})).reshape(shape);
}

// An id outside of [0, size) equals no v, so that its update is dropped (the definition in ir/op_schema.h).
at::Tensor scatter_add(const KernelCall& call) {
  const at::Tensor updates = operand(call, 0);
  const at::Tensor ids = operand(call, 1).reshape({-1});
  const std::int64_t dim = integer_or(call, "dim", 0);
  const std::int64_t size = integer(call, "size");
  Integers flat = updates.sizes().vec();
  flat.erase(flat.begin() + dim, flat.begin() + dim + operand(call, 1).dim());
  flat.insert(flat.begin() + dim, ids.numel());
  Integers shape = flat;
  shape[static_cast<std::size_t>(dim)] = size;
  const at::Tensor kept = at::nonzero(at::logical_and(ids.ge(0), ids.lt(size))).reshape({-1});
  return at::zeros(shape, updates.options())
      .index_add(dim, ids.index_select(0, kept), updates.reshape(flat).index_select(dim, kept));
}

at::Tensor take_along(const KernelCall& call) {
  const at::Tensor x = operand(call, 0);
  const at::Tensor ids = operand(call, 1);
  check_range(ids, x.size(-1));
  return x.gather(-1, ids.unsqueeze(-1)).squeeze(-1);
}

at::Tensor put_along(const KernelCall& call) {
  const at::Tensor updates = operand(call, 0);
  const at::Tensor classes = at::arange(integer(call, "size"), at::TensorOptions(at::kLong));
  const at::Tensor hit = operand(call, 1).unsqueeze(-1).eq(classes);
  return at::where(hit, updates.unsqueeze(-1), at::zeros({}, updates.options()));
}

at::Tensor rng_uniform(const KernelCall& call) {
  Tensor numbers{call.result_type, {}};
  for (const std::uint64_t bits : random_bits(call.instruction.attributes, call.result_type.shape, call.variables)) {
    numbers.data.push_back(static_cast<double>(bits) * 0x1.0p-53);
  }
  return std::any_cast<at::Tensor>(upload(numbers).storage);
}

at::Tensor concat(const KernelCall& call) {
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < call.operands.size(); ++i) parts.push_back(operand(call, i));
  return at::cat(parts, integer(call, "dim"));
}

at::Tensor coord(const KernelCall& call) {
  const auto& value = call.instruction.attributes.get<ir::CoordExpr>("value");
  return at::full({}, ir::evaluate(value, call.variables), at::TensorOptions(at::kLong));
}

}  // namespace

KernelResults run_structure_kernel(const KernelCall& call) {
  const ir::Attributes& attributes = call.instruction.attributes;
  const auto one = [](at::Tensor tensor) { return std::vector<Array>{Array{std::move(tensor)}}; };
  switch (call.instruction.op) {
    case ir::OpCode::constant:
      return one(constant(call));
    case ir::OpCode::table:
      return one(table(call));
    case ir::OpCode::iota:
      return one(iota(call));
    case ir::OpCode::coord:
      return one(coord(call));
    case ir::OpCode::reshape:
      return one(operand(call, 0).reshape(attributes.get<Integers>("shape")));
    case ir::OpCode::transpose:
      return one(operand(call, 0).permute(attributes.get<Integers>("perm")));
    case ir::OpCode::broadcast:
      return one(broadcast(call));
    case ir::OpCode::slice:
      return one(slice(call));
    case ir::OpCode::concat:
      return one(concat(call));
    case ir::OpCode::pad:
      return one(pad(call));
    case ir::OpCode::cast:
      return one(cast(call));
    case ir::OpCode::take:
      return one(take(call));
    case ir::OpCode::scatter_add:
      return one(scatter_add(call));
    case ir::OpCode::take_along:
      return one(take_along(call));
    case ir::OpCode::put_along:
      return one(put_along(call));
    case ir::OpCode::rng_uniform:
      return one(rng_uniform(call));
    default:
      return std::nullopt;
  }
}

}  // namespace shardproof::runtime

// Kernels of DenseDomain: one function per kind of instruction. Internal to dense_domain.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "ir/coord_expr.h"
#include "ir/infer_type.h"
#include "verifier/execution/dense_domain.h"
#include "verifier/execution/random_bits.h"

namespace shardproof::execution {

using Integers = std::vector<std::int64_t>;

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

inline Integers row_major_strides(const ir::Shape& shape) {
  Integers strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

// Calls visit(position) for every index of `shape` in row-major order, where position = start + sum index * stride for
// each of N lists of strides.
template <std::size_t N, typename Visit>
void walk(const ir::Shape& shape, std::array<std::int64_t, N> position, const std::array<Integers, N>& strides,
          const Visit& visit) {
  Integers index(shape.size(), 0);
  for (std::int64_t left = ir::element_count(shape); left > 0; --left) {
    visit(position);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) {
        for (std::size_t n = 0; n < N; ++n) position[n] += strides[n][d];
        break;
      }
      for (std::size_t n = 0; n < N; ++n) position[n] -= (shape[d] - 1) * strides[n][d];
      index[d] = 0;
    }
  }
}

template <typename Numbers>
class Kernels {
 public:
  using Number = typename Numbers::Number;
  using Dense = TensorOf<Number>;

  Kernels(const Numbers& numbers, const ir::Instruction& instruction, const ir::TensorType& result,
          std::vector<const Dense*> operands, const VariableValue& variables)
      : numbers_(numbers),
        attributes_(instruction.attributes),
        op_(instruction.op),
        result_(result),
        operands_(std::move(operands)),
        variables_(variables) {}

  Dense run() const;

 private:
  const Dense& x(std::size_t i = 0) const { return *operands_.at(i); }
  std::int64_t integer(const char* name) const { return attributes_.get<std::int64_t>(name); }
  std::int64_t integer_or(const char* name, std::int64_t fallback) const {
    return attributes_.get_or<std::int64_t>(name, fallback);
  }
  Dense filled(Number value) const {
    return {result_, std::vector<Number>(at(ir::element_count(result_.shape)), value)};
  }
  // The result whose element at index i is x at start + sum i * stride.
  Dense view(std::int64_t start, const Integers& strides) const {
    Dense result{result_, {}};
    result.data.reserve(at(ir::element_count(result_.shape)));
    walk<1>(result_.shape, {start}, {strides}, [&](const auto& p) { result.data.push_back(x().data[at(p[0])]); });
    return result;
  }
  std::int64_t id(const Number& number, std::int64_t extent) const {
    const std::int64_t value = numbers_.to_integer(number);
    if (value < 0 || value >= extent) {
      throw OutOfBounds("index " + std::to_string(value) + " is outside of extent " + std::to_string(extent));
    }
    return value;
  }

  Dense constant() const;
  Dense table() const;
  Dense iota() const;
  Dense broadcast() const;
  Dense slice() const;
  Dense pad() const;
  Dense take() const;
  Dense scatter_add() const;
  Dense take_along() const;
  Dense put_along() const;
  Dense rng_uniform() const;
  Dense compare() const;
  Dense einsum() const;
  Dense reduce() const;
  template <typename Function>
  Dense elementwise(const Function& function) const;  // function(span of the operands' elements)
  Number greatest(std::span<const Number> values) const { return extreme(values, true); }
  Number least(std::span<const Number> values) const { return extreme(values, false); }
  Number extreme(std::span<const Number> values, bool greatest) const;
  bool less(const Number& a, const Number& b) const {
    return ir::is_float(x().type.dtype) ? numbers_.less(a, b) : numbers_.to_integer(a) < numbers_.to_integer(b);
  }

  const Numbers& numbers_;
  const ir::Attributes& attributes_;
  ir::OpCode op_;
  const ir::TensorType& result_;
  std::vector<const Dense*> operands_;
  const VariableValue& variables_;
};

template <typename Numbers>
auto Kernels<Numbers>::constant() const -> Dense {
  if (attributes_.template get_or<bool>("negative_infinity", false)) return filled(numbers_.negative_infinity());
  return filled(numbers_.from(attributes_.template get<ir::Rational>("value")));
}

template <typename Numbers>
auto Kernels<Numbers>::table() const -> Dense {
  Dense result{result_, {}};
  for (const ir::Rational value : attributes_.template get<std::vector<ir::Rational>>("values"))
    result.data.push_back(numbers_.from(value));
  if (result.data.size() != at(ir::element_count(result_.shape)))
    throw ExecutionError("the table does not have as many values as elements");
  return result;
}

template <typename Numbers>
auto Kernels<Numbers>::iota() const -> Dense {
  Dense result{result_, {}};
  Integers strides(result_.shape.size(), 0);
  strides.at(at(integer("dim"))) = 1;
  walk<1>(result_.shape, {0}, {strides}, [&](const auto& p) { result.data.push_back(numbers_.from(p[0])); });
  return result;
}

template <typename Numbers>
auto Kernels<Numbers>::broadcast() const -> Dense {
  const auto& dims = attributes_.template get<Integers>("dims");
  const Integers own = row_major_strides(x().type.shape);
  Integers strides(result_.shape.size(), 0);
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (x().type.shape[d] > 1) strides.at(at(dims[d])) = own[d];
  return view(0, strides);
}

template <typename Numbers>
auto Kernels<Numbers>::slice() const -> Dense {
  const std::int64_t dim = integer("dim");
  const std::int64_t stride = integer_or("stride", 1);
  const std::int64_t start = ir::evaluate(attributes_.template get<ir::CoordExpr>("start"), variables_);
  const std::int64_t last = start + (integer("size") - 1) * stride;
  if (start < 0 || last >= x().type.shape.at(at(dim))) {
    throw OutOfBounds("slice [" + std::to_string(start) + ", " + std::to_string(last) + "] leaves extent " +
                         std::to_string(x().type.shape[at(dim)]));
  }
  Integers strides = row_major_strides(x().type.shape);
  const std::int64_t first = start * strides[at(dim)];
  strides[at(dim)] *= stride;
  return view(first, strides);
}

template <typename Numbers>
auto Kernels<Numbers>::pad() const -> Dense {
  const std::int64_t dim = integer("dim");
  Dense result = filled(numbers_.from(attributes_.template get_or<ir::Rational>("value", ir::Rational(0))));
  const Integers strides = row_major_strides(result_.shape);
  std::int64_t from = 0;
  walk<1>(x().type.shape, {integer_or("low", 0) * strides.at(at(dim))}, {strides},
          [&](const auto& p) { result.data[at(p[0])] = x().data[at(from++)]; });
  return result;
}

// Elements are in three groups of dimensions: before `dim`, those of ids (or `dim` itself), after.
template <typename Numbers>
auto Kernels<Numbers>::take() const -> Dense {
  const std::size_t dim = at(integer_or("dim", 0));
  const ir::Shape& shape = x().type.shape;
  const std::int64_t extent = shape.at(dim);
  const std::int64_t after = std::accumulate(shape.begin() + integer_or("dim", 0) + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
  const std::int64_t before = ir::element_count(shape) / (after * extent);
  Dense result{result_, {}};
  for (std::int64_t b = 0; b < before; ++b)
    for (const Number& raw : x(1).data) {
      const std::int64_t start = (b * extent + id(raw, extent)) * after;
      for (std::int64_t a = 0; a < after; ++a) result.data.push_back(x().data[at(start + a)]);
    }
  return result;
}

// An id outside of [0, size) equals no v, so that its update is dropped (the definition in ir/op_schema.h).
template <typename Numbers>
auto Kernels<Numbers>::scatter_add() const -> Dense {
  const std::int64_t size = integer("size");
  const auto begin = result_.shape.begin() + integer_or("dim", 0);
  const std::int64_t before = std::accumulate(result_.shape.begin(), begin, std::int64_t{1}, std::multiplies<>());
  const std::int64_t after = std::accumulate(begin + 1, result_.shape.end(), std::int64_t{1}, std::multiplies<>());
  Dense result = filled(numbers_.from(std::int64_t{0}));
  std::int64_t from = 0;
  for (std::int64_t b = 0; b < before; ++b)
    for (const Number& raw : x(1).data) {
      const std::int64_t target = numbers_.to_integer(raw);
      for (std::int64_t a = 0; a < after; ++a, ++from) {
        if (target < 0 || target >= size) continue;
        Number& sum = result.data[at((b * size + target) * after + a)];
        sum = numbers_.add(sum, x().data.at(at(from)));
      }
    }
  for (Number& sum : result.data) sum = numbers_.contracted(sum);
  return result;
}

template <typename Numbers>
auto Kernels<Numbers>::take_along() const -> Dense {
  const std::int64_t extent = x().type.shape.back();
  Dense result{result_, {}};
  for (std::size_t i = 0; i < x(1).data.size(); ++i)
    result.data.push_back(x().data[i * at(extent) + at(id(x(1).data[i], extent))]);
  return result;
}

template <typename Numbers>
auto Kernels<Numbers>::put_along() const -> Dense {
  const std::int64_t size = integer("size");
  Dense result = filled(numbers_.from(std::int64_t{0}));
  for (std::size_t i = 0; i < x().data.size(); ++i) {
    const std::int64_t target = numbers_.to_integer(x(1).data[i]);
    if (target >= 0 && target < size) result.data[i * at(size) + at(target)] = x().data[i];
  }
  return result;
}

template <typename Numbers>
auto Kernels<Numbers>::rng_uniform() const -> Dense {
  Dense result{result_, {}};
  for (const std::uint64_t bits : random_bits(attributes_, result_.shape, variables_))
    result.data.push_back(numbers_.unit(bits));
  return result;
}

template <typename Numbers>
template <typename Function>
auto Kernels<Numbers>::elementwise(const Function& function) const -> Dense {
  for (const Dense* operand : operands_)
    if (operand->data.size() != x().data.size()) throw ExecutionError("operand shapes differ");
  Dense result{result_, {}};
  result.data.reserve(x().data.size());
  std::vector<Number> elements(operands_.size());
  for (std::size_t i = 0; i < x().data.size(); ++i) {
    for (std::size_t k = 0; k < operands_.size(); ++k) elements[k] = operands_[k]->data[i];
    result.data.push_back(function(std::span<const Number>(elements)));
  }
  return result;
}

template <typename Numbers>
auto Kernels<Numbers>::extreme(std::span<const Number> values, bool greatest) const -> Number {
  if (ir::is_float(x().type.dtype)) return greatest ? numbers_.greatest(values) : numbers_.least(values);
  const auto before = [&](const Number& a, const Number& b) {
    return numbers_.to_integer(a) < numbers_.to_integer(b);
  };
  return greatest ? *std::max_element(values.begin(), values.end(), before)
                  : *std::min_element(values.begin(), values.end(), before);
}

template <typename Numbers>
auto Kernels<Numbers>::compare() const -> Dense {
  const auto& direction = attributes_.template get<std::string>("direction");
  return elementwise([&](std::span<const Number> e) {
    const Number& a = e[0];
    const Number& b = e[1];
    bool holds = false;
    if (direction == "eq") holds = numbers_.equal(a, b);
    else if (direction == "ne") holds = !numbers_.equal(a, b);
    else if (direction == "lt") holds = less(a, b);
    else if (direction == "le") holds = less(a, b) || numbers_.equal(a, b);
    else if (direction == "gt") holds = less(b, a);
    else if (direction == "ge") holds = less(b, a) || numbers_.equal(a, b);
    else throw ExecutionError("unknown direction `" + direction + "`");
    return numbers_.from(std::int64_t{holds});
  });
}

template <typename Numbers>
auto Kernels<Numbers>::einsum() const -> Dense {
  const std::optional<ir::EinsumSpec> spec = ir::parse_einsum(attributes_.template get<std::string>("spec"));
  if (!spec || spec->operands.size() != operands_.size()) throw ExecutionError("malformed einsum");
  // Labels of the result, then those that are summed over; one list of strides per operand.
  std::string labels = spec->result;
  for (const std::string& operand : spec->operands)
    for (const char label : operand)
      if (labels.find(label) == std::string::npos) labels += label;
  ir::Shape extents(labels.size(), 1);
  std::vector<Integers> strides(operands_.size(), Integers(labels.size(), 0));
  for (std::size_t k = 0; k < operands_.size(); ++k) {
    const Integers own = row_major_strides(x(k).type.shape);
    for (std::size_t d = 0; d < spec->operands[k].size(); ++d) {
      const std::size_t label = labels.find(spec->operands[k][d]);
      extents[label] = x(k).type.shape.at(d);
      strides[k][label] = own[d];
    }
  }
  const auto kept = static_cast<std::ptrdiff_t>(spec->result.size());
  // Of each operand: the positions that one element of the result sums over, against the first of them.
  const ir::Shape summed(extents.begin() + kept, extents.end());
  std::vector<Integers> steps(operands_.size());
  for (std::size_t k = 0; k < operands_.size(); ++k)
    walk<1>(summed, {0}, {Integers(strides[k].begin() + kept, strides[k].end())},
            [&](const auto& p) { steps[k].push_back(p[0]); });
  const std::size_t terms = steps.empty() ? 0 : steps[0].size();
  Dense result{result_, {}};
  result.data.reserve(at(ir::element_count(result_.shape)));
  Integers index(at(kept), 0);
  std::vector<const Number*> first(operands_.size());
  for (std::int64_t left = ir::element_count(result_.shape); left > 0; --left) {
    for (std::size_t k = 0; k < first.size(); ++k) {
      std::int64_t position = 0;
      for (std::size_t d = 0; d < index.size(); ++d) position += index[d] * strides[k][d];
      first[k] = x(k).data.data() + position;
    }
    Number total = numbers_.from(std::int64_t{0});
    for (std::size_t n = 0; n < terms; ++n) {
      Number product = first[0][steps[0][n]];
      for (std::size_t k = 1; k < first.size(); ++k) product = numbers_.summand(product, first[k][steps[k][n]]);
      total = numbers_.add(total, product);
    }
    result.data.push_back(numbers_.contracted(total));
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < result_.shape[d]) break;
      index[d] = 0;
    }
  }
  return result;
}

template <typename Numbers>
auto Kernels<Numbers>::reduce() const -> Dense {
  const auto& dims = attributes_.template get<Integers>("dims");
  const ir::Shape& shape = x().type.shape;
  const Integers kept_strides = row_major_strides(result_.shape);
  Integers target(shape.size(), 0);
  std::size_t next = 0;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) == dims.end()) target[d] = kept_strides.at(next++);
  std::vector<std::vector<Number>> groups(at(ir::element_count(result_.shape)));
  std::size_t from = 0;
  walk<1>(shape, {0}, {target}, [&](const auto& p) { groups[at(p[0])].push_back(x().data[from++]); });
  Dense result{result_, {}};
  for (const std::vector<Number>& group : groups) {
    if (op_ != ir::OpCode::reduce_sum) {
      result.data.push_back(op_ == ir::OpCode::reduce_max ? greatest(group) : least(group));
      continue;
    }
    Number total = group.front();
    for (std::size_t i = 1; i < group.size(); ++i) total = numbers_.add(total, group[i]);
    result.data.push_back(group.size() > 1 ? numbers_.contracted(total) : total);
  }
  return result;
}

template <typename Numbers>
auto Kernels<Numbers>::run() const -> Dense {
  using ir::OpCode;
  using Elements = std::span<const Number>;
  const auto truth = [&](const Number& n) { return numbers_.to_integer(n) != 0; };
  const auto fold = [&](auto function) {
    return elementwise([&](Elements e) {
      Number result = e[0];
      for (std::size_t i = 1; i < e.size(); ++i) result = function(result, e[i]);
      return result;
    });
  };
  switch (op_) {
    case OpCode::constant: return constant();
    case OpCode::table: return table();
    case OpCode::iota: return iota();
    case OpCode::coord:
      return filled(numbers_.from(ir::evaluate(attributes_.template get<ir::CoordExpr>("value"), variables_)));
    case OpCode::reshape:
    case OpCode::cast:
    case OpCode::stop_gradient: return {result_, x().data};
    case OpCode::transpose: {
      const Integers own = row_major_strides(x().type.shape);
      Integers strides;
      for (const std::int64_t d : attributes_.template get<Integers>("perm")) strides.push_back(own.at(at(d)));
      return view(0, strides);
    }
    case OpCode::broadcast: return broadcast();
    case OpCode::slice: return slice();
    case OpCode::pad: return pad();
    case OpCode::take: return take();
    case OpCode::scatter_add: return scatter_add();
    case OpCode::take_along: return take_along();
    case OpCode::put_along: return put_along();
    case OpCode::rng_uniform: return rng_uniform();
    case OpCode::add: return fold([&](const Number& a, const Number& b) { return numbers_.add(a, b); });
    case OpCode::mul: return fold([&](const Number& a, const Number& b) { return numbers_.mul(a, b); });
    case OpCode::sub: return fold([&](const Number& a, const Number& b) { return numbers_.sub(a, b); });
    case OpCode::div: return fold([&](const Number& a, const Number& b) { return numbers_.div(a, b); });
    case OpCode::max: return elementwise([&](Elements e) { return greatest(e); });
    case OpCode::min: return elementwise([&](Elements e) { return least(e); });
    case OpCode::neg: return elementwise([&](Elements e) { return numbers_.neg(e[0]); });
    case OpCode::abs:
      if (!ir::is_float(x().type.dtype))
        return elementwise([&](Elements e) { return numbers_.to_integer(e[0]) < 0 ? numbers_.neg(e[0]) : e[0]; });
      [[fallthrough]];
    case OpCode::exp:
    case OpCode::log:
    case OpCode::sqrt:
    case OpCode::rsqrt:
    case OpCode::reciprocal:
    case OpCode::tanh:
    case OpCode::erf:
    case OpCode::sigmoid:
    case OpCode::sin:
    case OpCode::cos: return elementwise([&](Elements e) { return numbers_.apply(op_, e[0]); });
    case OpCode::pow: {
      const auto exponent = attributes_.template get<ir::Rational>("exponent");
      return elementwise([&](Elements e) { return numbers_.pow(e[0], exponent); });
    }
    case OpCode::power:
      return elementwise([&](Elements e) { return numbers_.power(e[0], numbers_.to_integer(e[1])); });
    case OpCode::compare: return compare();
    case OpCode::select: return elementwise([&](Elements e) { return truth(e[0]) ? e[1] : e[2]; });
    case OpCode::logical_and:
      return elementwise([&](Elements e) { return numbers_.from(std::int64_t{truth(e[0]) && truth(e[1])}); });
    case OpCode::logical_or:
      return elementwise([&](Elements e) { return numbers_.from(std::int64_t{truth(e[0]) || truth(e[1])}); });
    case OpCode::logical_not: return elementwise([&](Elements e) { return numbers_.from(std::int64_t{!truth(e[0])}); });
    case OpCode::einsum: return einsum();
    case OpCode::reduce_sum:
    case OpCode::reduce_max:
    case OpCode::reduce_min: return reduce();
    default: throw ExecutionError("this domain runs core ops only");
  }
}

}  // namespace shardproof::execution

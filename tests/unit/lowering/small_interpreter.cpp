#include "tests/unit/lowering/small_interpreter.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

#include "ir/infer_type.h"
#include "lowering/unfold.h"

namespace shardproof::lowering::testing {
namespace {

using ir::Instruction;
using ir::OpCode;
using Index = std::vector<std::int64_t>;

std::size_t flat(const ir::Shape& shape, const Index& index) {
  std::int64_t position = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (index[i] < 0 || index[i] >= shape[i]) throw std::logic_error("index out of range");
    position = position * shape[i] + index[i];
  }
  return static_cast<std::size_t>(position);
}

void for_each_index(const ir::Shape& shape, const std::function<void(const Index&)>& visit) {
  Index index(shape.size(), 0);
  for (std::int64_t left = ir::element_count(shape); left > 0; --left) {
    visit(index);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

double to_double(ir::Rational value) {
  return static_cast<double>(value.num) / static_cast<double>(value.den);
}

std::int64_t whole(double value) {
  return static_cast<std::int64_t>(std::llround(value));
}

class Interpreter {
 public:
  Interpreter(const ir::Program& program, SmallValues& values) : program_(program), values_(values) {}

  void run(const Instruction& instruction) {
    if (instruction.outputs.size() != 1) throw std::logic_error("one result expected");
    const ir::ValueId output = instruction.outputs[0];
    SmallTensor result = filled(program_.value(output).type.shape);
    in_ = &instruction;
    switch (ir::schema_of(instruction.op).family) {
      case ir::OpFamily::source:
        source(result);
        break;
      case ir::OpFamily::structure:
        structure(result);
        break;
      case ir::OpFamily::elementwise:
        elementwise(result);
        break;
      case ir::OpFamily::contraction:
        contraction(result);
        break;
      default:
        throw std::logic_error("not a core op");
    }
    values_[output] = std::move(result);
  }

 private:
  const SmallTensor& operand(std::size_t i) const { return values_.at(in_->inputs[i]); }
  std::int64_t integer(const char* name) const { return in_->attributes.get<std::int64_t>(name); }
  std::size_t dim(const char* name = "dim") const {
    return static_cast<std::size_t>(in_->attributes.get_or<std::int64_t>(name, 0));
  }

  void source(SmallTensor& result) {
    const ir::Attributes& attributes = in_->attributes;
    switch (in_->op) {
      case OpCode::constant:
        result = filled(result.shape, attributes.has("value") ? to_double(attributes.get<ir::Rational>("value"))
                                                              : -std::numeric_limits<double>::infinity());
        return;
      case OpCode::table:
        for (std::size_t i = 0; i < result.data.size(); ++i) {
          result.data[i] = to_double(attributes.get<std::vector<ir::Rational>>("values")[i]);
        }
        return;
      case OpCode::coord:
        result.data[0] = static_cast<double>(
            ir::evaluate(attributes.get<ir::CoordExpr>("value"), [](const std::string&) { return std::int64_t{1}; }));
        return;
      case OpCode::iota:
        for_each_index(result.shape, [&](const Index& i) { result.at(i) = static_cast<double>(i[dim()]); });
        return;
      default:
        throw std::logic_error("unknown source");
    }
  }

  void structure(SmallTensor& result) {
    const ir::Attributes& attributes = in_->attributes;
    switch (in_->op) {
      case OpCode::reshape:
      case OpCode::cast:
        result.data = operand(0).data;
        return;
      case OpCode::transpose: {
        const auto& perm = attributes.get<Index>("perm");
        for_each_index(result.shape, [&](const Index& i) {
          Index from(i.size());
          for (std::size_t d = 0; d < i.size(); ++d) from[static_cast<std::size_t>(perm[d])] = i[d];
          result.at(i) = operand(0).at(from);
        });
        return;
      }
      case OpCode::broadcast: {
        const auto& dims = attributes.get<Index>("dims");
        for_each_index(result.shape, [&](const Index& i) {
          Index from;
          for (std::size_t d = 0; d < dims.size(); ++d) {
            from.push_back(operand(0).shape[d] == 1 ? 0 : i[static_cast<std::size_t>(dims[d])]);
          }
          result.at(i) = operand(0).at(from);
        });
        return;
      }
      case OpCode::slice: {
        const std::int64_t start =
            ir::evaluate(attributes.get<ir::CoordExpr>("start"), [](const std::string&) { return std::int64_t{1}; });
        const std::int64_t stride = attributes.get_or<std::int64_t>("stride", 1);
        for_each_index(result.shape, [&](const Index& i) {
          Index from = i;
          from[dim()] = start + stride * i[dim()];
          result.at(i) = operand(0).at(from);
        });
        return;
      }
      case OpCode::concat:
        for_each_index(result.shape, [&](const Index& i) {
          Index from = i;
          std::size_t which = 0;
          while (from[dim()] >= operand(which).shape[dim()]) from[dim()] -= operand(which++).shape[dim()];
          result.at(i) = operand(which).at(from);
        });
        return;
      case OpCode::pad:
        result = filled(result.shape, to_double(attributes.get<ir::Rational>("value")));
        for_each_index(operand(0).shape, [&](const Index& i) {
          Index to = i;
          to[dim()] += integer("low");
          result.at(to) = operand(0).at(i);
        });
        return;
      case OpCode::take:
      case OpCode::scatter_add: {
        // The tensor with the dimensions of ids is the result of take and the operand of scatter_add.
        const bool gather = in_->op == OpCode::take;
        const auto rank = static_cast<std::ptrdiff_t>(operand(1).shape.size());
        const auto first = static_cast<std::ptrdiff_t>(dim());
        for_each_index(gather ? result.shape : operand(0).shape, [&](const Index& i) {
          const Index id(i.begin() + first, i.begin() + first + rank);
          Index picked(i.begin(), i.begin() + first);
          picked.push_back(whole(operand(1).at(id)));
          picked.insert(picked.end(), i.begin() + first + rank, i.end());
          if (gather)
            result.at(i) = operand(0).at(picked);
          else
            result.at(picked) += operand(0).at(i);
        });
        return;
      }
      case OpCode::take_along:
      case OpCode::put_along:
        for_each_index(operand(1).shape, [&](const Index& i) {
          Index picked = i;
          picked.push_back(whole(operand(1).at(i)));
          if (in_->op == OpCode::take_along)
            result.at(i) = operand(0).at(picked);
          else
            result.at(picked) = operand(0).at(i);
        });
        return;
      default:
        throw std::logic_error("unknown structure op");
    }
  }

  static double unary(OpCode op, double x) {
    switch (op) {
      case OpCode::neg:
        return -x;
      case OpCode::exp:
        return std::exp(x);
      case OpCode::log:
        return std::log(x);
      case OpCode::sqrt:
        return std::sqrt(x);
      case OpCode::rsqrt:
        return 1.0 / std::sqrt(x);
      case OpCode::reciprocal:
        return 1.0 / x;
      case OpCode::tanh:
        return std::tanh(x);
      case OpCode::erf:
        return std::erf(x);
      case OpCode::sigmoid:
        return 1.0 / (1.0 + std::exp(-x));
      case OpCode::sin:
        return std::sin(x);
      case OpCode::cos:
        return std::cos(x);
      case OpCode::abs:
        return std::abs(x);
      case OpCode::stop_gradient:
        return x;
      default:
        throw std::logic_error("unknown elementwise op");
    }
  }

  double element(std::size_t i) const {
    const double x = operand(0).data[i];
    const auto other = [&](std::size_t k) { return operand(k).data[i]; };
    double value = x;
    switch (in_->op) {
      case OpCode::add:
        for (std::size_t k = 1; k < in_->inputs.size(); ++k) value += other(k);
        return value;
      case OpCode::mul:
        for (std::size_t k = 1; k < in_->inputs.size(); ++k) value *= other(k);
        return value;
      case OpCode::max:
        for (std::size_t k = 1; k < in_->inputs.size(); ++k) value = std::max(value, other(k));
        return value;
      case OpCode::min:
        for (std::size_t k = 1; k < in_->inputs.size(); ++k) value = std::min(value, other(k));
        return value;
      case OpCode::sub:
        return x - other(1);
      case OpCode::div:
        return x / other(1);
      case OpCode::pow:
        return std::pow(x, to_double(in_->attributes.get<ir::Rational>("exponent")));
      case OpCode::power:
        return std::pow(x, other(1));
      case OpCode::select:
        return x != 0.0 ? other(1) : other(2);
      case OpCode::compare: {
        const auto& direction = in_->attributes.get<std::string>("direction");
        const double y = other(1);
        const bool holds = direction == "eq"   ? x == y
                           : direction == "ne" ? x != y
                           : direction == "lt" ? x < y
                           : direction == "le" ? x <= y
                           : direction == "gt" ? x > y
                                               : x >= y;
        return holds ? 1.0 : 0.0;
      }
      case OpCode::logical_and:
        return x * other(1);
      case OpCode::logical_or:
        return std::max(x, other(1));
      case OpCode::logical_not:
        return 1.0 - x;
      default:
        return unary(in_->op, x);
    }
  }

  void elementwise(SmallTensor& result) {
    for (std::size_t i = 0; i < result.data.size(); ++i) result.data[i] = element(i);
  }

  void contraction(SmallTensor& result) {
    if (in_->op == OpCode::einsum) {
      einsum(result);
      return;
    }
    const auto& dims = in_->attributes.get<Index>("dims");
    const double inf = std::numeric_limits<double>::infinity();
    if (in_->op == OpCode::reduce_max) result = filled(result.shape, -inf);
    if (in_->op == OpCode::reduce_min) result = filled(result.shape, inf);
    for_each_index(operand(0).shape, [&](const Index& i) {
      Index to;
      for (std::size_t d = 0; d < i.size(); ++d) {
        if (std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) == dims.end()) to.push_back(i[d]);
      }
      double& slot = result.at(to);
      const double x = operand(0).at(i);
      slot = in_->op == OpCode::reduce_sum   ? slot + x
             : in_->op == OpCode::reduce_max ? std::max(slot, x)
                                             : std::min(slot, x);
    });
  }

  void einsum(SmallTensor& result) {
    const ir::EinsumSpec spec = ir::parse_einsum(in_->attributes.get<std::string>("spec")).value();
    std::map<char, std::int64_t> extents;
    for (std::size_t k = 0; k < spec.operands.size(); ++k) {
      for (std::size_t d = 0; d < spec.operands[k].size(); ++d) extents[spec.operands[k][d]] = operand(k).shape[d];
    }
    std::string labels;
    ir::Shape space;
    for (const auto& [label, extent] : extents) {
      labels += label;
      space.push_back(extent);
    }
    for_each_index(space, [&](const Index& i) {
      const auto pick = [&](const std::string& own) {
        Index index;
        for (const char label : own) index.push_back(i[labels.find(label)]);
        return index;
      };
      double product = 1.0;
      for (std::size_t k = 0; k < spec.operands.size(); ++k) product *= operand(k).at(pick(spec.operands[k]));
      result.at(pick(spec.result)) += product;
    });
  }

  const ir::Program& program_;
  SmallValues& values_;
  const Instruction* in_ = nullptr;
};

}  // namespace

double& SmallTensor::at(const Index& index) {
  return data[flat(shape, index)];
}
double SmallTensor::at(const Index& index) const {
  return data[flat(shape, index)];
}

SmallTensor filled(ir::Shape shape, double value) {
  const auto count = static_cast<std::size_t>(ir::element_count(shape));
  return {std::move(shape), std::vector<double>(count, value)};
}

SmallTensor scattered(ir::Shape shape, double low, double high, int seed) {
  SmallTensor tensor = filled(std::move(shape));
  double position = 0.37 * static_cast<double>(seed + 1);
  for (double& element : tensor.data) {
    position += 0.6180339887498949;  // golden ratio: equidistributed, no repeats
    element = low + (high - low) * (position - std::floor(position));
  }
  return tensor;
}

SmallValues interpret(const ir::Program& program, SmallValues inputs) {
  const ir::Program core = unfold(program);
  Interpreter interpreter(core, inputs);
  for (const Instruction& instruction : core.body) interpreter.run(instruction);
  return inputs;
}

}  // namespace shardproof::lowering::testing

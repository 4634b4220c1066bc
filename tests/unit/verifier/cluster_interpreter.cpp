#include "tests/unit/verifier/cluster_interpreter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "ir/infer_type.h"

namespace shardproof::verifier::testing {

using ir::Instruction;
using ir::OpCode;
using ir::ValueId;

namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
constexpr double kRounding = 1e-9;  // a number this close to 0 may be 0

void for_each_index(const ir::Shape& shape, const std::function<void(const std::vector<std::int64_t>&)>& visit) {
  std::vector<std::int64_t> index(shape.size(), 0);
  for (std::int64_t left = ir::element_count(shape); left > 0; --left) {
    visit(index);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

double to_double(ir::Rational value) { return static_cast<double>(value.num) / static_cast<double>(value.den); }

double root(double x) { return x < -kRounding ? kUndefined : std::sqrt(std::max(x, 0.0)); }
double inverse(double x) { return x == 0 ? kUndefined : 1 / x; }
double larger(double x, double y) { return std::isnan(x) || std::isnan(y) ? kUndefined : std::max(x, y); }

double power(double x, ir::Rational exponent) {
  if (x == 0 && exponent.num < 0) return kUndefined;
  if (x < 0 && !exponent.is_integer()) return kUndefined;
  return std::pow(x, to_double(exponent));
}

double combine(const std::string& reduce, const std::vector<double>& parts) {
  double total = parts[0];
  for (std::size_t k = 1; k < parts.size(); ++k)
    total = reduce == "max" ? larger(total, parts[k]) : reduce == "min" ? -larger(-total, -parts[k]) : total + parts[k];
  return reduce == "avg" ? total / static_cast<double>(parts.size()) : total;
}

bool compares(const std::string& direction, double x, double y) {
  if (direction == "eq") return x == y;
  if (direction == "ne") return x != y;
  if (direction == "lt") return x < y;
  if (direction == "le") return x <= y;
  if (direction == "gt") return x > y;
  return x >= y;
}

}  // namespace

void ClusterInterpreter::run(const Observer& observer) {
  observer_ = observer;
  run_body(program_.body);
}

void ClusterInterpreter::run_body(const std::vector<Instruction>& body) {
  for (const Instruction& instruction : body) {
    if (instruction.op == OpCode::loop) {
      run_loop(instruction);
      continue;
    }
    in_ = &instruction;
    RankValues result;
    for (std::int64_t rank = 0; rank < mesh_.size(); ++rank) result.push_back(on_rank(rank));
    const ValueId out = instruction.outputs.at(0);
    if (observer_) observer_(out, loops_, result);
    values_[out] = std::move(result);
  }
}

void ClusterInterpreter::run_loop(const Instruction& loop) {
  const ir::Region& region = *loop.region;
  for (const ir::Carry& carry : region.carries) values_[carry.argument] = values_.at(carry.init);
  for (std::int64_t k = 0; k < region.trip; ++k) {
    loops_[region.index] = k;
    run_body(region.body);
    std::vector<RankValues> next;
    for (const ir::Carry& carry : region.carries) next.push_back(values_.at(carry.next));
    for (std::size_t c = 0; c < next.size(); ++c) values_[region.carries[c].argument] = next[c];
  }
  loops_.erase(region.index);
  for (const ir::Carry& carry : region.carries) {
    values_[carry.result] = values_.at(carry.argument);
    if (observer_) observer_(carry.result, loops_, values_.at(carry.result));
  }
}

std::vector<double> ClusterInterpreter::on_rank(std::int64_t rank) {
  std::vector<double> result;
  for_each_index(program_.value(in_->outputs[0]).type.shape, [&](const Index& i) { result.push_back(element(rank, i)); });
  return result;
}

double ClusterInterpreter::read(std::size_t operand, std::int64_t rank, const Index& index) const {
  const ir::Shape& extents = shape(operand);
  std::int64_t position = 0;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (index[d] < 0 || index[d] >= extents[d]) return kUndefined;
    position = position * extents[d] + index[d];
  }
  return values_.at(in_->inputs[operand]).at(static_cast<std::size_t>(rank)).at(static_cast<std::size_t>(position));
}

std::int64_t ClusterInterpreter::expression(const char* name, std::int64_t rank) const {
  const ir::Coordinate c = ir::coordinate_of(mesh_, rank);
  return ir::evaluate(in_->attributes.get<ir::CoordExpr>(name), [&](const std::string& variable) {
    const auto loop = loops_.find(variable);
    return loop != loops_.end() ? loop->second : c.at(mesh_.find_axis(variable).value());
  });
}

double ClusterInterpreter::element(std::int64_t rank, const Index& i) {
  const ir::Attributes& attributes = in_->attributes;
  Index from = i;
  switch (ir::schema_of(in_->op).family) {
    case ir::OpFamily::elementwise: return arithmetic(rank, i);
    case ir::OpFamily::contraction: return contraction(rank, i);
    case ir::OpFamily::communication: return collective(rank, i);
    default: break;
  }
  switch (in_->op) {
    case OpCode::constant: return to_double(attributes.get<ir::Rational>("value"));
    case OpCode::iota: return static_cast<double>(i[dim()]);
    case OpCode::coord: return static_cast<double>(expression("value", rank));
    case OpCode::cast: return read(0, rank, i);
    case OpCode::reshape: {
      std::int64_t position = 0;
      const ir::Shape& to = program_.value(in_->outputs[0]).type.shape;
      for (std::size_t d = 0; d < to.size(); ++d) position = position * to[d] + i[d];
      from.resize(shape(0).size());
      for (std::size_t d = from.size(); d-- > 0; position /= shape(0)[d]) from[d] = position % shape(0)[d];
      return read(0, rank, from);
    }
    case OpCode::transpose: {
      const auto& perm = attributes.get<Index>("perm");
      for (std::size_t d = 0; d < i.size(); ++d) from[static_cast<std::size_t>(perm[d])] = i[d];
      return read(0, rank, from);
    }
    case OpCode::broadcast: {
      from.clear();
      const auto& dims = attributes.get<Index>("dims");
      for (std::size_t d = 0; d < dims.size(); ++d) from.push_back(shape(0)[d] == 1 ? 0 : i[static_cast<std::size_t>(dims[d])]);
      return read(0, rank, from);
    }
    case OpCode::slice:
      from[dim()] = expression("start", rank) + attributes.get_or<std::int64_t>("stride", 1) * i[dim()];
      return read(0, rank, from);
    case OpCode::concat: {
      std::size_t which = 0;
      while (from[dim()] >= shape(which)[dim()]) from[dim()] -= shape(which++)[dim()];
      return read(which, rank, from);
    }
    case OpCode::pad:
      from[dim()] -= integer("low");
      return from[dim()] < 0 || from[dim()] >= shape(0)[dim()] ? to_double(attributes.get<ir::Rational>("value")) : read(0, rank, from);
    case OpCode::take: {
      const auto first = i.begin() + static_cast<std::ptrdiff_t>(dim());
      const auto last = first + static_cast<std::ptrdiff_t>(shape(1).size());
      from.assign(i.begin(), first);
      from.push_back(std::llround(read(1, rank, Index(first, last))));
      from.insert(from.end(), last, i.end());
      return read(0, rank, from);
    }
    case OpCode::take_along:
      from.push_back(std::llround(read(1, rank, i)));
      return read(0, rank, from);
    case OpCode::put_along:
      from.pop_back();
      return std::llround(read(1, rank, from)) == i.back() ? read(0, rank, from) : 0;
    default: throw std::logic_error("unknown op");
  }
}

double ClusterInterpreter::arithmetic(std::int64_t rank, const Index& i) const {
  std::vector<double> x;
  for (std::size_t k = 0; k < in_->inputs.size(); ++k) x.push_back(read(k, rank, i));
  if (in_->op == OpCode::select) return std::isnan(x[0]) ? kUndefined : x[0] != 0 ? x[1] : x[2];
  for (const double v : x)
    if (std::isnan(v)) return kUndefined;
  switch (in_->op) {
    case OpCode::add: return combine("sum", x);
    case OpCode::max: return combine("max", x);
    case OpCode::min: return combine("min", x);
    case OpCode::mul: {
      double product = 1;
      for (const double v : x) product *= v;
      return product;
    }
    case OpCode::sub: return x[0] - x[1];
    case OpCode::div: return x[0] * inverse(x[1]);
    case OpCode::neg: return -x[0];
    case OpCode::abs: return std::fabs(x[0]);
    case OpCode::exp: return std::exp(x[0]);
    case OpCode::log: return x[0] <= 0 ? kUndefined : std::log(x[0]);
    case OpCode::sqrt: return root(x[0]);
    case OpCode::rsqrt: return inverse(root(x[0]));
    case OpCode::reciprocal: return inverse(x[0]);
    case OpCode::tanh: return std::tanh(x[0]);
    case OpCode::sigmoid: return 1 / (1 + std::exp(-x[0]));
    case OpCode::pow: return power(x[0], in_->attributes.get<ir::Rational>("exponent"));
    case OpCode::power: return x[0] == 0 && x[1] < 0 ? kUndefined : std::pow(x[0], x[1]);
    case OpCode::compare: return compares(in_->attributes.get<std::string>("direction"), x[0], x[1]) ? 1 : 0;
    case OpCode::logical_and: return x[0] * x[1];
    case OpCode::logical_or: return std::max(x[0], x[1]);
    case OpCode::logical_not: return 1 - x[0];
    case OpCode::stop_gradient: return x[0];
    default: throw std::logic_error("unknown elementwise op");
  }
}

double ClusterInterpreter::contraction(std::int64_t rank, const Index& i) const {
  std::vector<double> parts;
  if (in_->op == OpCode::einsum) {
    const ir::EinsumSpec spec = ir::parse_einsum(in_->attributes.get<std::string>("spec")).value();
    std::map<char, std::int64_t> index, extents;
    for (std::size_t d = 0; d < spec.result.size(); ++d) index[spec.result[d]] = i[d];
    for (std::size_t k = 0; k < spec.operands.size(); ++k)
      for (std::size_t d = 0; d < spec.operands[k].size(); ++d)
        if (index.count(spec.operands[k][d]) == 0) extents[spec.operands[k][d]] = shape(k)[d];
    ir::Shape space;
    for (const auto& [label, extent] : extents) space.push_back(extent);
    for_each_index(space, [&](const Index& inner) {
      std::size_t next = 0;
      for (const auto& [label, extent] : extents) index[label] = inner[next++];
      double product = 1;
      for (std::size_t k = 0; k < spec.operands.size(); ++k) {
        Index own;
        for (const char label : spec.operands[k]) own.push_back(index.at(label));
        product *= read(k, rank, own);
      }
      parts.push_back(product);
    });
    return combine("sum", parts);
  }
  const auto& dims = in_->attributes.get<Index>("dims");
  ir::Shape space;
  for (const std::int64_t d : dims) space.push_back(shape(0)[static_cast<std::size_t>(d)]);
  for_each_index(space, [&](const Index& inner) {
    Index from;
    std::size_t kept = 0;
    for (std::size_t d = 0; d < shape(0).size(); ++d) {
      const auto at = std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d));
      from.push_back(at == dims.end() ? i[kept++] : inner[static_cast<std::size_t>(at - dims.begin())]);
    }
    parts.push_back(read(0, rank, from));
  });
  return combine(in_->op == OpCode::reduce_max ? "max" : in_->op == OpCode::reduce_min ? "min" : "sum", parts);
}

std::vector<std::int64_t> ClusterInterpreter::group_of(std::int64_t rank) const {
  std::vector<std::int64_t> members{rank};
  for (const std::string& axis : in_->attributes.get<std::vector<std::string>>("axes")) {
    const std::size_t position = mesh_.find_axis(axis).value();
    std::vector<std::int64_t> more;
    for (const std::int64_t member : members)
      for (std::int64_t c = 0; c < mesh_.axes[position].size; ++c) {
        ir::Coordinate place = ir::coordinate_of(mesh_, member);
        place[position] = c;
        more.push_back(ir::rank_of(mesh_, place));
      }
    members = std::move(more);
  }
  return members;
}

double ClusterInterpreter::collective(std::int64_t rank, const Index& i) const {
  if (in_->op == OpCode::wait) return read(0, rank, i);
  const std::vector<std::int64_t> group = group_of(rank);
  const auto size = static_cast<std::int64_t>(group.size());
  const auto position = static_cast<std::int64_t>(std::find(group.begin(), group.end(), rank) - group.begin());
  const auto member = [&](std::int64_t p) { return group.at(static_cast<std::size_t>(p)); };
  const auto reduced = [&](const Index& at) {
    std::vector<double> parts;
    for (const std::int64_t m : group) parts.push_back(read(0, m, at));
    return combine(in_->attributes.get<std::string>("reduce"), parts);
  };
  Index from = i;
  switch (in_->op) {
    case OpCode::all_reduce: return reduced(i);
    case OpCode::reduce_scatter:
      from[dim()] += position * (shape(0)[dim()] / size);
      return reduced(from);
    case OpCode::all_gather:
      from[dim()] %= shape(0)[dim()];
      return read(0, member(i[dim()] / shape(0)[dim()]), from);
    case OpCode::all_to_all: {
      // Block q along `concat` of the result is block `position` along `split` of the operand of position q.
      const std::size_t split = dim("split_dim"), concat = dim("concat_dim");
      const std::int64_t part = shape(0)[split] / size, block = split == concat ? part : shape(0)[concat];
      const std::int64_t sender = i[concat] / block;
      from[concat] %= block;
      from[split] += position * part;
      return read(0, member(sender), from);
    }
    case OpCode::broadcast_from: return read(0, member(integer("root")), i);
    case OpCode::permute: return read(0, member(((position - integer("shift")) % size + size) % size), i);
    default: throw std::logic_error("unknown collective");
  }
}

}  // namespace shardproof::verifier::testing

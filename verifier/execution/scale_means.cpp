#include "verifier/execution/scale_means.h"

#include <algorithm>
#include <cstdlib>

#include "ir/infer_type.h"

namespace shardproof::execution {

namespace {

using ir::Instruction;
using ir::OpCode;

using Sums = std::vector<std::vector<Node>>;  // the latest first

constexpr std::size_t most_sums = 4;  // a mean is taken soon after its sum

class Walk {
 public:
  Walk(const ir::Program& program, const ProgramSlots& slots)
      : program_(program), slots_(slots), sums_(program.values.size()), constant_(program.values.size()) {}

  std::vector<ScaledSum> run() {
    body(program_.body);
    return std::move(found_);
  }

 private:
  struct Constant {
    std::size_t instruction = 0;
    std::int64_t count = 0;
  };

  static std::size_t at(ir::ValueId id) { return static_cast<std::size_t>(id.index); }

  void body(const std::vector<Instruction>& body) {
    for (const Instruction& each : body) instruction(each);
  }

  void instruction(const Instruction& each) {
    const std::size_t place = next_++;
    if (each.op == OpCode::loop) return loop(each, place);
    if (each.outputs.empty()) return;
    if (each.op == OpCode::constant && each.attributes.has("value")) {
      constant_[at(each.outputs[0])] = {place, counted_by(each.attributes.get<ir::Rational>("value"))};
      return;
    }
    if (each.inputs.empty()) return;
    Sums sums = sums_[at(each.inputs[0])];
    for (const ir::ValueId input : each.inputs)
      if (sums_[at(input)].size() > sums.size()) sums = sums_[at(input)];
    switch (each.op) {
      case OpCode::broadcast:
      case OpCode::reshape:
      case OpCode::cast: constant_[at(each.outputs[0])] = constant_[at(each.inputs[0])]; break;
      case OpCode::mul:
      case OpCode::div:
        for (const ir::ValueId input : each.inputs) {
          const Constant& constant = constant_[at(input)];
          if (constant.count != 0) found_.push_back({constant.instruction, constant.count, sums, trips_});
        }
        break;
      case OpCode::einsum: sum_over(contracted(each), sums); break;
      case OpCode::reduce_sum: {
        std::vector<Node> extents;
        for (const std::int64_t d : each.attributes.get<std::vector<std::int64_t>>("dims"))
          extents.push_back(dims(each.inputs[0])[static_cast<std::size_t>(d)]);
        sum_over(std::move(extents), sums);
        break;
      }
      default: break;
    }
    for (const ir::ValueId output : each.outputs) sums_[at(output)] = sums;
  }

  void loop(const Instruction& each, std::size_t place) {
    for (const ir::Carry& carry : each.region->carries) sums_[at(carry.argument)] = sums_[at(carry.init)];
    const std::vector<Node>& trip = slots_.instructions[place].numbers;
    trips_.insert(trips_.end(), trip.begin(), trip.end());
    body(each.region->body);
    trips_.resize(trips_.size() - trip.size());
    for (const ir::Carry& carry : each.region->carries) {
      Sums sums = sums_[at(carry.next)];
      sum_over(trip, sums);
      sums_[at(carry.result)] = std::move(sums);
    }
  }

  std::vector<Node> contracted(const Instruction& einsum) const {
    const auto spec = ir::parse_einsum(einsum.attributes.get<std::string>("spec"));
    std::vector<Node> nodes;
    std::set<char> seen;
    for (std::size_t i = 0; spec && i < einsum.inputs.size(); ++i) {
      const std::string& labels = spec->operands[i];
      for (std::size_t d = 0; d < labels.size(); ++d)
        if (spec->result.find(labels[d]) == std::string::npos && seen.insert(labels[d]).second) nodes.push_back(dims(einsum.inputs[i])[d]);
    }
    return nodes;
  }

  static void sum_over(std::vector<Node> extents, Sums& sums) {
    if (extents.empty()) return;
    sums.insert(sums.begin(), std::move(extents));
    if (sums.size() > most_sums) sums.pop_back();
  }

  const std::vector<Node>& dims(ir::ValueId id) const { return slots_.dims[at(id)]; }

  const ir::Program& program_;
  const ProgramSlots& slots_;
  std::vector<Sums> sums_;         // behind each value
  std::vector<Node> trips_;        // of the loops around
  std::vector<Constant> constant_;  // that a value is nothing but copies of
  std::vector<ScaledSum> found_;
  std::size_t next_ = 0;
};

void collect(const std::vector<Instruction>& body, std::set<std::int64_t>& counts) {
  for (const Instruction& each : body) {
    if (each.op == OpCode::loop) collect(each.region->body, counts);
    if (each.op == OpCode::constant && each.attributes.has("value")) counts.insert(counted_by(each.attributes.get<ir::Rational>("value")));
  }
}

}  // namespace

std::int64_t counted_by(ir::Rational value) {
  const std::int64_t numerator = std::abs(value.num);
  if (numerator != 1 && value.den != 1) return 0;
  std::int64_t rest = std::max(numerator, value.den);
  constexpr std::int64_t smallest = 16, largest = std::int64_t{1} << 40;
  if (rest < smallest || rest > largest) return 0;
  const std::int64_t count = rest;
  while (rest % 10 == 0) rest /= 10;
  return rest == 1 ? 0 : count;
}

std::set<std::int64_t> counts_of(const ir::Program& program) {
  std::set<std::int64_t> counts;
  collect(program.body, counts);
  return counts;
}

std::vector<ScaledSum> scaled_sums(const ir::Program& program, const ProgramSlots& slots) { return Walk(program, slots).run(); }

std::optional<SizeCount> as_sizes(const ScaledSum& scaled, const std::vector<Node>& axes, const Sizes& sizes) {
  // The latest sum, the two latest, ...; then parts of the latest; then no sum at all.
  std::vector<std::vector<Node>> candidates;
  for (const std::vector<Node>& sum : scaled.sums) {
    std::vector<Node> joint = candidates.empty() ? std::vector<Node>{} : candidates.back();
    joint.insert(joint.end(), sum.begin(), sum.end());
    candidates.push_back(std::move(joint));
  }
  if (!scaled.sums.empty() && scaled.sums[0].size() > 1 && scaled.sums[0].size() < 6)
    for (std::size_t part = (std::size_t{1} << scaled.sums[0].size()) - 2; part > 0; --part) {
      std::vector<Node>& nodes = candidates.emplace_back();
      for (std::size_t i = 0; i < scaled.sums[0].size(); ++i)
        if (((part >> i) & 1U) != 0) nodes.push_back(scaled.sums[0][i]);
    }
  candidates.emplace_back();
  std::vector<Node> factors = scaled.repeats;  // once each
  factors.insert(factors.end(), axes.begin(), axes.end());
  factors.resize(std::min<std::size_t>(factors.size(), 6));

  const auto product = [&](const std::vector<Node>& nodes) {
    std::int64_t result = 1;
    for (const Node node : nodes) {
      if (sizes.full(node) > (std::int64_t{1} << 40) / result) return std::int64_t{0};
      result *= sizes.full(node);
    }
    return result;
  };
  const auto with = [&](const std::vector<Node>& nodes, std::size_t chosen) {
    std::vector<Node> all = nodes;
    for (std::size_t i = 0; i < factors.size(); ++i)
      if (((chosen >> i) & 1U) != 0) all.push_back(factors[i]);
    return all;
  };
  for (const std::vector<Node>& sum : candidates) {
    for (std::size_t chosen = 0; chosen < (std::size_t{1} << factors.size()); ++chosen)
      if (std::vector<Node> over = with(sum, chosen); product(over) == scaled.count) return SizeCount{std::move(over), {}, 1};
  }
  for (const std::vector<Node>& sum : candidates)
    for (const Node factor : factors)
      if (scaled.count * sizes.full(factor) == product(sum)) return SizeCount{sum, {factor}, 1};
  // A number of its own: a coefficient, or a mistake.
  constexpr std::int64_t largest = 1000;
  for (const std::vector<Node>& sum : candidates) {
    for (std::size_t chosen = std::size_t{1} << factors.size(); chosen-- > 0;) {
      const std::vector<Node> over = with(sum, chosen);
      const std::int64_t size = product(over);
      if (size > 1 && scaled.count % size == 0 && scaled.count / size <= largest) return SizeCount{over, {}, scaled.count / size};
    }
  }
  return std::nullopt;
}

}  // namespace shardproof::execution

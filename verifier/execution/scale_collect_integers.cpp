// Integers among the values: ids, positions, bounds. Those that are added, compared or looked up together count the
// same thing, and their numbers keep their order.
#include <algorithm>

#include "verifier/execution/scale_collect.h"

namespace shardproof::execution {

namespace {

using ir::OpCode;

int root_of(std::vector<int>& parent, int value) {
  while (parent[static_cast<std::size_t>(value)] != value) {
    value = parent[static_cast<std::size_t>(value)] = parent[static_cast<std::size_t>(parent[static_cast<std::size_t>(value)])];
  }
  return value;
}

}  // namespace

void Collector::integers(const ir::Instruction& each) {
  const auto is_counted = [&](ir::ValueId id) { return ir::is_integer(program_->value(id).type.dtype); };
  const auto together = [&](ir::ValueId a, ir::ValueId b) {
    if (is_counted(a) && is_counted(b)) unit_[static_cast<std::size_t>(root_of(unit_, a.index))] = root_of(unit_, b.index);
  };
  const auto& in = each.inputs;
  switch (each.op) {
    case OpCode::iota:
      if (is_counted(each.outputs[0])) {
        counted_.emplace_back(each.outputs[0].index,
                              dims(each.outputs[0])[static_cast<std::size_t>(each.attributes.get<std::int64_t>("dim"))]);
      }
      return;
    case OpCode::take:
    case OpCode::take_along: {
      const auto dim = each.op == OpCode::take_along ? dims(in[0]).size() - 1
                                                     : static_cast<std::size_t>(each.attributes.get_or<std::int64_t>("dim", 0));
      counted_.emplace_back(in[1].index, dims(in[0])[dim]);
      return together(in[0], each.outputs[0]);
    }
    case OpCode::scatter_add:
    case OpCode::put_along: {
      const auto dim = each.op == OpCode::put_along ? dims(each.outputs[0]).size() - 1
                                                    : static_cast<std::size_t>(each.attributes.get_or<std::int64_t>("dim", 0));
      counted_.emplace_back(in[1].index, dims(each.outputs[0])[dim]);
      return together(in[0], each.outputs[0]);
    }
    case OpCode::select:
      together(in[1], in[2]);
      return together(in[1], each.outputs[0]);
    case OpCode::compare: return together(in[0], in[1]);
    case OpCode::mul:
    case OpCode::power:
    case OpCode::einsum: return;
    case OpCode::loop:
      for (const ir::Carry& carry : each.region->carries) {
        for (const ir::ValueId id : {carry.argument, carry.next, carry.result}) together(carry.init, id);
      }
      return;
    default:
      for (const ir::ValueId input : in) {
        if (!each.outputs.empty()) together(input, each.outputs[0]);
      }
  }
}

// All coordinates along one axis count the same thing: a plan that asks for each owner in turn has a value for each.
void Collector::coordinate(const ir::Instruction& each) {
  const auto& value = each.attributes.get<ir::CoordExpr>("value");
  if (value.constant != 0 || value.terms.size() != 1) return;
  const ir::CoordTerm& term = value.terms[0];
  if (term.kind != ir::CoordTerm::Kind::variable || term.coefficient != 1) return;
  const Count count = variable(term.variable);
  if (count.node == no_node) return;
  const int here = each.outputs[0].index;
  counted_.emplace_back(here, count.node);
  const auto [first, is_new] = coordinates_.try_emplace(count.key, here);
  if (!is_new) unit_[static_cast<std::size_t>(root_of(unit_, here))] = root_of(unit_, first->second);
}

void Collector::order_integers() {
  std::map<int, std::map<std::int64_t, Node>> groups;
  for (const auto& [value, node] : counted_) {
    if (sizes_.full(node) > 1) groups[root_of(unit_, value)].emplace(sizes_.full(node), node);
  }
  for (const auto& [at, value] : tables_) {
    const auto group = groups.find(root_of(unit_, value));
    if (group != groups.end()) slots_->instructions[at].counted = group->second.rbegin()->second;
  }
  for (const auto& [unit, numbers] : groups) {
    for (auto less = numbers.begin(), greater = std::next(less); greater != numbers.end(); ++less, ++greater) {
      if (greater->first == less->first + 1 && greater->first > 4) {
        sizes_.sum(greater->second, {less->second, 0});  // the last position of a dimension
      } else {
        sizes_.order(less->second, greater->second);
      }
    }
  }
}

// Numbers that are no extent, of all programs: the bound of the reference and the bound of the plan are compared.
void Collector::order_numbers() {
  const auto& numbers = sizes_.numbers();
  if (numbers.empty()) return;
  for (auto less = numbers.begin(), greater = std::next(less); greater != numbers.end(); ++less, ++greater) {
    if (less->first <= 4 || (sizes_.has_extent(less->first) && sizes_.has_extent(greater->first))) continue;
    if (greater->first == less->first + 1) {
      sizes_.sum(greater->second, {less->second, 0});
    } else if (!sizes_.has_extent(less->first) && !sizes_.has_extent(greater->first)) {
      sizes_.order(less->second, greater->second);
    }
  }
}

}  // namespace shardproof::execution

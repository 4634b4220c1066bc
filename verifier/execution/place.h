// From reference tensors to the local tensors of the ranks and back, under bindings.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ir/plan.h"
#include "verifier/execution/local_map.h"
#include "verifier/execution/real_numbers.h"

namespace shardproof::execution {

// Reference tensors at one moment (entry or exit of the step).
template <typename T>
struct ReferenceTensorsOf {
  std::map<std::string, TensorOf<T>> by_name;
  std::map<std::pair<std::string, std::string>, std::string> by_role;  // (role, param) -> name

  ReferenceNames names() const {
    return {[this](const std::string& tensor) {
              const auto found = by_name.find(tensor);
              return found == by_name.end() ? nullptr : &found->second.type.shape;
            },
            by_role};
  }
};
using ReferenceTensors = ReferenceTensorsOf<double>;

inline LocalMap map_local(const ir::Plan& plan, const ReferenceTensors& reference, const ir::Binding& binding,
                          const ir::Shape& local_shape, std::int64_t rank) {
  return map_local(plan, reference.names(), binding, local_shape, rank);
}

// Random summands whose reduction is `value`.
template <typename Numbers>
std::vector<typename Numbers::Number> split(const Numbers& numbers, ir::ReduceKind kind,
                                            const typename Numbers::Number& value, std::size_t count,
                                            std::mt19937_64& random) {
  std::vector<typename Numbers::Number> summands(count, value);
  const auto special = static_cast<std::size_t>(uniform_integer(random, static_cast<std::int64_t>(count)));
  auto rest = kind == ir::ReduceKind::avg ? numbers.mul(value, numbers.from(static_cast<std::int64_t>(count))) : value;
  for (std::size_t i = 0; i < count; ++i) {
    if (i == special) continue;
    switch (kind) {
      case ir::ReduceKind::sum:
      case ir::ReduceKind::avg:
        summands[i] = numbers.any(random);
        rest = numbers.sub(rest, summands[i]);
        break;
      case ir::ReduceKind::max:
        summands[i] = numbers.not_greater(value, random);
        break;
      case ir::ReduceKind::min:
        summands[i] = numbers.not_less(value, random);
        break;
      case ir::ReduceKind::prod:
        summands[i] = numbers.positive(random);
        rest = numbers.div(rest, summands[i]);
        break;
    }
  }
  summands[special] = rest;
  return summands;
}

template <typename Numbers>
typename Numbers::Number reduce(const Numbers& numbers, ir::ReduceKind kind,
                                const std::vector<typename Numbers::Number>& summands) {
  if (kind == ir::ReduceKind::max) return numbers.greatest(summands);
  if (kind == ir::ReduceKind::min) return numbers.least(summands);
  auto result = summands.front();
  for (std::size_t i = 1; i < summands.size(); ++i)
    result = kind == ir::ReduceKind::prod ? numbers.mul(result, summands[i]) : numbers.add(result, summands[i]);
  return kind == ir::ReduceKind::avg
             ? numbers.div(result, numbers.from(static_cast<std::int64_t>(summands.size())))
             : result;
}

// Local tensors that represent the reference tensors. What the binding leaves open is filled so that nobody can depend
// on it unseen: padding `any` and ranks that own nothing hold garbage (integers 0, a valid index), partial summands are
// random.
template <typename Numbers>
RankTensorsOf<typename Numbers::Number> place(const Numbers& numbers, const ir::Plan& plan,
                                              const ReferenceTensorsOf<typename Numbers::Number>& reference,
                                              const ir::Binding& binding, const ir::TensorType& local_type,
                                              std::mt19937_64& random, LocalMaps& known) {
  using Number = typename Numbers::Number;
  const std::vector<LocalMap>& maps = known.of(plan, reference.names(), binding, local_type.shape);
  const Number zero = numbers.from(std::int64_t{0});
  RankTensorsOf<Number> local;
  for (const LocalMap& map : maps) {
    std::vector<const TensorOf<Number>*> sources;
    for (const std::string& name : map.tensors) sources.push_back(&reference.by_name.at(name));
    TensorOf<Number> tensor{local_type, std::vector<Number>(map.elements.size(), zero)};
    for (std::size_t i = 0; i < map.elements.size(); ++i) {
      const LocalElement& e = map.elements[i];
      if (e.kind == LocalElement::Kind::element)
        tensor.data[i] = sources[static_cast<std::size_t>(e.tensor)]->data[static_cast<std::size_t>(e.flat)];
    }
    local.push_back(std::move(tensor));
  }
  // Undo the reductions, the last one first: until then all ranks of a group hold the same.
  const std::vector<ir::PartialAxis>& partial = binding.placement.partial;
  for (auto axis = partial.rbegin(); axis != partial.rend(); ++axis) {
    for (const std::vector<std::int64_t>& group : groups_along(plan, binding.placement, axis->axis)) {
      for (std::size_t i = 0; i < local.front().data.size(); ++i) {
        const Number value = local[static_cast<std::size_t>(group.front())].data[i];
        const std::vector<Number> summands = split(numbers, axis->reduce, value, group.size(), random);
        for (std::size_t m = 0; m < group.size(); ++m) local[static_cast<std::size_t>(group[m])].data[i] = summands[m];
      }
    }
  }
  for (std::size_t rank = 0; rank < local.size(); ++rank) {
    for (std::size_t i = 0; i < local[rank].data.size(); ++i) {
      const LocalElement::Kind kind = maps[rank].elements[i].kind;
      if (!maps[rank].exists || kind == LocalElement::Kind::pad_any)
        local[rank].data[i] = ir::is_float(local_type.dtype) ? numbers.garbage(random) : zero;
      if (maps[rank].exists && kind == LocalElement::Kind::pad_zero) local[rank].data[i] = zero;
    }
  }
  return local;
}

// One element that a rank must hold: an element of a reference tensor, or (without a tensor) a zero of padding.
template <typename T>
struct Claim {
  std::int64_t rank = 0;
  std::int64_t local = 0;  // row-major position in the rank's tensor
  const std::string* tensor = nullptr;
  std::int64_t flat = 0;  // row-major position in the reference tensor
  T expected{};
  T found{};  // reduced over the axes of a partial binding
};

// Every element on every rank against the reference element it must represent: replicas must all agree with it.
template <typename Numbers, typename Visit>
void for_each_claim(const Numbers& numbers, const ir::Plan& plan,
                    const ReferenceTensorsOf<typename Numbers::Number>& reference, const ir::Binding& binding,
                    const RankTensorsOf<typename Numbers::Number>& local, LocalMaps& known, const Visit& visit) {
  using Number = typename Numbers::Number;
  const std::vector<LocalMap>& maps = known.of(plan, reference.names(), binding, local.front().type.shape);
  RankTensorsOf<Number> reduced = local;
  for (const ir::PartialAxis& axis : binding.placement.partial) {
    for (const std::vector<std::int64_t>& group : groups_along(plan, binding.placement, axis.axis)) {
      for (std::size_t i = 0; i < reduced.front().data.size(); ++i) {
        std::vector<Number> summands;
        for (const std::int64_t rank : group) summands.push_back(reduced[static_cast<std::size_t>(rank)].data[i]);
        const Number value = reduce(numbers, axis.reduce, summands);
        for (const std::int64_t rank : group) reduced[static_cast<std::size_t>(rank)].data[i] = value;
      }
    }
  }
  for (std::size_t rank = 0; rank < maps.size(); ++rank) {
    if (!maps[rank].exists) continue;
    for (std::size_t i = 0; i < maps[rank].elements.size(); ++i) {
      const LocalElement& e = maps[rank].elements[i];
      if (e.kind == LocalElement::Kind::pad_any) continue;
      Claim<Number> claim;
      claim.rank = static_cast<std::int64_t>(rank);
      claim.local = static_cast<std::int64_t>(i);
      claim.expected = numbers.from(std::int64_t{0});
      // Each summand of padding is zero: that is what `place` gives on entry.
      claim.found = local[rank].data[i];
      if (e.kind == LocalElement::Kind::element) {
        claim.tensor = &maps[rank].tensors[static_cast<std::size_t>(e.tensor)];
        claim.flat = e.flat;
        claim.expected = reference.by_name.at(*claim.tensor).data[static_cast<std::size_t>(e.flat)];
        claim.found = reduced[rank].data[i];
      }
      visit(claim);
    }
  }
}

// In floats, for callers without a domain of their own.
RankTensors place(const ir::Plan& plan, const ReferenceTensors& reference, const ir::Binding& binding,
                  const ir::TensorType& local_type, std::mt19937_64& random);

struct Tolerance {
  double relative = 1e-10;  // of the largest magnitude in the reference tensor
  double absolute = 1e-12;
};

struct Mismatch {
  std::int64_t rank = 0;
  std::string local_index;
  std::string tensor;  // reference tensor; empty: padding that must be zero
  std::string reference_index;
  double expected = 0;
  double found = 0;
};

std::string describe(const ir::Plan& plan, const Mismatch& mismatch);

struct Comparison {
  double max_abs_error = 0;
  double max_rel_error = 0;  // absolute error over the largest magnitude in the reference tensor
  std::int64_t mismatches = 0;
  std::optional<Mismatch> first;
  std::map<std::string, std::vector<bool>> covered;  // reference tensor -> elements that some rank represents
};

Comparison compare(const ir::Plan& plan, const ReferenceTensors& reference, const ir::Binding& binding,
                   const RankTensors& local, const Tolerance& tolerance = {});

}  // namespace shardproof::execution

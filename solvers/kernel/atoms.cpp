#include "solvers/kernel/atoms.h"

#include <algorithm>

#include "ir/check.h"

namespace shardproof::solvers {

AtomTable::AtomTable(TermPool& pool, RangeOracle oracle) : pool_(pool), oracle_(std::move(oracle)) {}

TermId AtomTable::definition(TensorId tensor) const {
  return tensor.at() < definitions_.size() ? definitions_[tensor.at()] : TermId{};
}

TensorId AtomTable::opaque(Tensor tensor) { return pool_.new_tensor(std::move(tensor)); }

TensorId AtomTable::define(std::string name, const std::vector<VarId>& dims, TermId body) {
  Substitution to_pattern(true);
  Tensor tensor;
  tensor.name = std::move(name);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int64_t extent = pool_.var(dims[d]).extent;
    tensor.shape.push_back(extent);
    to_pattern.set(dims[d], pool_.index_var(pool_.pattern(d, extent)));
  }
  const TermId pattern = pool_.substitute(body, to_pattern);
  const TensorId id = pool_.new_tensor(std::move(tensor));
  definitions_.resize(id.at() + 1);
  definitions_[id.at()] = pattern;
  ++generation_;
  return id;
}

void AtomTable::add_variant(Variant variant) {
  SHARDPROOF_CHECK(!variant.factor.is_zero());
  if (!variant.key.valid()) variant.key = variant.pattern;
  std::vector<std::size_t>& same = by_skeleton_[pool_.node(variant.key).skeleton];
  for (std::size_t i : same)
    if (variants_[i].pattern == variant.pattern && variants_[i].key == variant.key) return;
  same.push_back(variants_.size());
  variants_.push_back(std::move(variant));
  ++generation_;
}

const std::vector<std::size_t>& AtomTable::variants_with_skeleton(std::uint64_t skeleton) const {
  static const std::vector<std::size_t> none;
  const auto it = by_skeleton_.find(skeleton);
  return it == by_skeleton_.end() ? none : it->second;
}

bool AtomTable::in_range(IndexId e, std::int64_t extent, const std::vector<TermId>& guards) {
  const IndexNode& node = pool_.index(e);
  if (node.lo >= 0 && node.hi < extent) return true;
  const auto [lo, hi] = pool_.bounds_under(e, guards);
  if (lo >= 0 && hi < extent) return true;
  if (!guards.empty()) {
    try {
      const auto [parts_lo, parts_hi] = pool_.bounds_by_parts(e, guards);
      if (std::max(lo, parts_lo) >= 0 && std::min(hi, parts_hi) < extent) return true;
    } catch (const std::overflow_error&) {  // a combination out of reach bounds nothing
    }
  }
  return oracle_ && oracle_(e, 0, extent - 1, guards);
}

std::optional<TermId> AtomTable::accept(TermId term, std::size_t variant_index, const std::vector<IndexId>& indices,
                                        const std::vector<TermId>& guards) {
  const Variant variant = variants_[variant_index];
  const std::vector<std::int64_t>& shape = pool_.tensor(variant.tensor).shape;
  SHARDPROOF_CHECK(indices.size() == shape.size());
  Substitution instance;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] > 1) instance.set(pool_.pattern(d, shape[d]), indices[d]);
  const TermId instantiated = pool_.substitute(variant.pattern, instance);
  if (instantiated != term) {
    if (guards.empty()) return std::nullopt;
    TermId context = pool_.one();
    for (TermId g : guards) context = pool_.mul(context, g);
    const auto under_guards = [&](TermId t) { return pool_.assume(pool_.mul(context, t), guards, TermPool::Detail::values); };
    const TermId whole = under_guards(instantiated), part = under_guards(term);
    if (whole != part && !covers(whole, part, guards)) return std::nullopt;
  }
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (!in_range(indices[d], shape[d], guards)) return std::nullopt;
  for (const Obligation& o : variant.conditions) pool_.require(o.kind, o.term);
  ++accepted_;
  return pool_.scale(pool_.access(variant.tensor, indices), variant.factor);
}

bool AtomTable::has_reduction(TensorId tensor) const {
  const TermId d = definition(tensor);
  return d.valid() && pool_.node(d).height > 0;
}

TermId AtomTable::unfold(TermId term, const std::function<bool(TensorId)>& select) {
  std::unordered_map<std::int32_t, TermId> memo;
  return unfold_term(term, [&](TensorId t) { return has_definition(t) && select(t) ? definition(t) : TermId{}; }, memo);
}

std::optional<TermId> AtomTable::unfold_levels(TermId term, const std::function<bool(TensorId)>& select, int levels, std::int32_t size) {
  TermId current = term;
  for (int level = 0; level < levels; ++level) {
    const TermId next = unfold(current, select);
    if (next == current) break;
    if (pool_.node(next).size > size) return std::nullopt;
    current = next;
  }
  return current == term ? std::nullopt : std::optional(current);
}

std::optional<AtomTable::Unfolded> AtomTable::unfold_definition(TensorId tensor, const std::function<bool(TensorId)>& select, int levels,
                                                                std::int32_t size) {
  const std::vector<Obligation> others = pool_.take_obligations();
  const auto put_back = [&] {
    std::vector<Obligation> own = pool_.take_obligations();
    for (const Obligation& o : others) pool_.require(o.kind, o.term);
    return own;
  };
  std::optional<TermId> term;
  try {
    term = unfold_levels(definition(tensor), select, levels, size);
  } catch (...) {
    put_back();
    throw;
  }
  std::vector<Obligation> conditions = put_back();
  if (!term) return std::nullopt;
  return Unfolded{*term, std::move(conditions)};
}

TermId AtomTable::expand(TermId term) {
  std::unordered_map<std::int32_t, TermId> memo;
  return unfold_term(term, [this](TensorId t) { return expansion(t); }, memo);
}

TermId AtomTable::expansion(TensorId tensor) {
  if (const auto it = expansions_.find(tensor.value); it != expansions_.end()) return it->second;
  TermId result;
  if (has_definition(tensor) && !is_anchor(tensor)) {
    result = expand(definition(tensor));
    if (pool_.node(result).size > kExpansionSize) result = TermId{};
  }
  return expansions_[tensor.value] = result;
}

bool AtomTable::is_anchor(TensorId tensor) const {
  if (has_reduction(tensor) || pool_.tensor(tensor).shape.empty()) return true;
  int accesses = 0;
  for (const Monomial& m : pool_.monomials_of(definition(tensor))) {
    int own = 0;
    for (const Factor& f : m.factors) {
      const TermNode& n = pool_.node(f.term);
      if (n.kind == TermKind::range || (n.kind == TermKind::access && n.free.value == 0)) continue;
      if (n.kind != TermKind::access || f.power != 1) return false;
      ++own;
    }
    if (own > 1) return false;
    accesses += own;
  }
  return accesses > 1;
}

TermId AtomTable::unfold_term(TermId term, const Replacement& replacement, std::unordered_map<std::int32_t, TermId>& memo) {
  if (auto it = memo.find(term.value); it != memo.end()) return it->second;
  const TermNode& n = pool_.node(term);
  TermId result = term;
  switch (n.kind) {
    case TermKind::poly: {
      std::vector<TermId> parts;
      for (const Monomial& m : n.monomials) {
        std::vector<Factor> factors;
        for (const Factor& f : m.factors) factors.push_back({unfold_term(f.term, replacement, memo), f.power});
        parts.push_back(pool_.product(factors, m.coefficient));
      }
      result = pool_.sum(parts);
      break;
    }
    case TermKind::access:
      if (const TermId body = replacement(n.tensor); body.valid()) {
        const std::vector<std::int64_t>& shape = pool_.tensor(n.tensor).shape;
        Substitution instance;
        for (std::size_t d = 0; d < shape.size(); ++d)
          if (shape[d] > 1) instance.set(pool_.pattern(d, shape[d]), n.indices[d]);
        result = pool_.substitute(body, instance);
      }
      break;
    case TermKind::apply: {
      std::vector<TermId> arguments;
      for (TermId a : n.arguments) arguments.push_back(unfold_term(a, replacement, memo));
      result = pool_.apply(n.function, std::move(arguments));
      break;
    }
    case TermKind::reduce: {
      TermPool::FreshScope scope(pool_);
      std::vector<VarId> vars;
      const TermId body = pool_.open(term, scope, vars);
      std::unordered_map<std::int32_t, TermId> inner;  // fresh variables make the outer memo useless here
      const TermId replaced = unfold_term(body, replacement, inner);
      if (replaced != body) result = pool_.reduce(n.reduction, std::move(vars), replaced);
      break;
    }
    default: break;
  }
  memo.emplace(term.value, result);
  return result;
}

}  // namespace shardproof::solvers

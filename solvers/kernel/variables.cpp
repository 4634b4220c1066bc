// Variables, sets of variables and tensors of the pool.
#include <algorithm>

#include "ir/check.h"
#include "solvers/kernel/term_pool.h"

namespace shardproof::solvers {

TermPool::TermPool(PoolLimits limits) : limits_(limits) {
  var_set({});
  zero_ = poly_from_sorted({});
  one_ = poly_from_sorted({Monomial{Rational(1), {}}});
}

void TermPool::tick() {
  if ((++ticks_ & 0xFFF) == 0 && watchdog_) watchdog_();
}

namespace {
const char* prefix_of(VarKind kind) {
  switch (kind) {
    case VarKind::element: return "x";
    case VarKind::pattern: return "y";
    case VarKind::bound: return "b";
    case VarKind::fresh: return "f";
    default: return "v";
  }
}
}  // namespace

VarId TermPool::element(std::size_t dim, std::int64_t extent) {
  auto [it, added] = variable_ids_.try_emplace({VarKind::element, static_cast<std::int64_t>(dim), 0, extent});
  if (added) {
    it->second = VarId{static_cast<std::int32_t>(variables_.size())};
    variables_.push_back({VarKind::element, extent, prefix_of(VarKind::element) + std::to_string(dim)});
  }
  return it->second;
}

VarId TermPool::pattern(std::size_t dim, std::int64_t extent) {
  auto [it, added] = variable_ids_.try_emplace({VarKind::pattern, static_cast<std::int64_t>(dim), 0, extent});
  if (added) {
    it->second = VarId{static_cast<std::int32_t>(variables_.size())};
    variables_.push_back({VarKind::pattern, extent, prefix_of(VarKind::pattern) + std::to_string(dim)});
  }
  return it->second;
}

VarId TermPool::named(VarKind kind, const std::string& name, std::int64_t extent) {
  auto [it, added] = named_ids_.try_emplace({kind, name});
  if (added) {
    it->second = VarId{static_cast<std::int32_t>(variables_.size())};
    variables_.push_back({kind, extent, name});
  }
  SHARDPROOF_CHECK(var(it->second).extent == extent);  // one name, one extent: callers qualify names
  return it->second;
}

VarId TermPool::FreshScope::fresh(std::int64_t extent) {
  const std::int64_t depth = pool_->fresh_depth_[extent]++;
  extents_.push_back(extent);
  auto [it, added] = pool_->variable_ids_.try_emplace({VarKind::fresh, depth, 0, extent});
  if (added) {
    it->second = VarId{static_cast<std::int32_t>(pool_->variables_.size())};
    pool_->variables_.push_back({VarKind::fresh, extent, "f" + std::to_string(depth)});
  }
  return it->second;
}

TermPool::FreshScope::~FreshScope() {
  for (std::int64_t extent : extents_) --pool_->fresh_depth_[extent];
}

VarSetId TermPool::var_set(std::vector<VarId> vars) {
  std::sort(vars.begin(), vars.end());
  vars.erase(std::unique(vars.begin(), vars.end()), vars.end());
  std::uint64_t hash = vars.size();
  for (VarId v : vars) hash = combine(hash, static_cast<std::uint64_t>(v.value));
  const std::int32_t found = var_set_table_.find(hash, [&](std::int32_t id) { return var_sets_[static_cast<std::size_t>(id)] == vars; });
  if (found >= 0) return VarSetId{found};
  const VarSetId id{static_cast<std::int32_t>(var_sets_.size())};
  var_sets_.push_back(std::move(vars));
  var_set_table_.insert(hash, id.value);
  return id;
}

VarSetId TermPool::union_of(VarSetId a, VarSetId b) {
  if (a == b || b.value == 0) return a;  // set 0 is the empty set
  if (a.value == 0) return b;
  if (a > b) std::swap(a, b);
  const std::uint64_t key = (static_cast<std::uint64_t>(a.value) << 32) | static_cast<std::uint64_t>(b.value);
  if (auto it = union_memo_.find(key); it != union_memo_.end()) return it->second;
  std::vector<VarId> merged;
  std::set_union(members(a).begin(), members(a).end(), members(b).begin(), members(b).end(), std::back_inserter(merged));
  const VarSetId id = var_set(std::move(merged));
  union_memo_.emplace(key, id);
  return id;
}

bool TermPool::contains(VarSetId set, VarId var) const {
  return std::binary_search(members(set).begin(), members(set).end(), var);
}

bool TermPool::intersects(VarSetId a, VarSetId b) const {
  const auto& x = members(a);
  const auto& y = members(b);
  for (std::size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    if (x[i] == y[j]) return true;
    if (x[i] < y[j]) ++i;
    else ++j;
  }
  return false;
}

TensorId TermPool::new_tensor(Tensor tensor) {
  const TensorId id{static_cast<std::int32_t>(tensors_.size())};
  tensors_.push_back(std::move(tensor));
  return id;
}

std::vector<Obligation> TermPool::take_obligations() {
  obligation_seen_.clear();
  return std::exchange(obligations_, {});
}

void TermPool::require(Obligation::Kind kind, TermId term) {
  const Obligation obligation{kind, term};
  if (obligation_seen_.try_emplace(obligation, true).second) obligations_.push_back(obligation);
}

void Substitution::set(VarId var, IndexId value) {
  auto it = std::lower_bound(entries_.begin(), entries_.end(), var, [](const auto& e, VarId v) { return e.first < v; });
  if (it != entries_.end() && it->first == var) it->second = value;
  else entries_.insert(it, {var, value});
  index_memo_.clear();
  term_memo_.clear();
}

}  // namespace shardproof::solvers

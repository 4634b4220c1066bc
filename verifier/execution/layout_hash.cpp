#include "verifier/execution/layout_hash.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "ir/tensor_type.h"

namespace shardproof::execution {

namespace {

using residues::times_p;
std::uint64_t sum_p(std::uint64_t a, std::uint64_t b) { return residues::plus(a, b, residues::kP); }

constexpr std::size_t most_dims = 8;   // of tensors; those beyond are not found
constexpr std::size_t most_merged = 4;  // dimensions of tensors whose dimensions are merged as well

std::vector<std::uint64_t> residues_of(const FieldTensor& tensor) {
  constexpr std::uint64_t infinity = 0x1f3d5b79a8c6e4;  // any number that nothing computes
  std::vector<std::uint64_t> result;
  result.reserve(tensor.data.size());
  for (const FieldNumber& x : tensor.data) result.push_back(x.kind == FieldNumber::Kind::number ? x.p : infinity);
  return result;
}

bool is_undefined(const FieldTensor& tensor) {
  return std::any_of(tensor.data.begin(), tensor.data.end(), [](const FieldNumber& x) { return x.kind == FieldNumber::Kind::undefined; });
}

ir::Shape without_ones(ir::Shape shape) {
  std::erase(shape, 1);
  return shape;
}

}  // namespace

std::vector<ir::Shape> merged_shapes(const ir::Shape& shape) {
  std::vector<ir::Shape> result = {shape};
  if (shape.size() < 2 || shape.size() > most_merged) return result;
  for (std::size_t joined = 1; joined < (std::size_t{1} << (shape.size() - 1)); ++joined) {
    ir::Shape& merged = result.emplace_back(1, shape[0]);
    for (std::size_t d = 1; d < shape.size(); ++d) {
      if (((joined >> (d - 1)) & 1U) != 0) merged.back() *= shape[d];
      else merged.push_back(shape[d]);
    }
  }
  return result;
}

Multiplier multiplier(ir::Rational number) { return {number, {}, false, residue_of(ir::inverse(number))}; }
Multiplier multiplier(const std::string& scalar, std::uint64_t residue, bool divides) {
  return {1, scalar, divides, divides ? residue : inverse_residue(residue)};
}

TensorIndex::TensorIndex(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t d = 0; d < most_dims; ++d) points_.push_back(random() >> 4U);
}

std::uint64_t TensorIndex::power(std::size_t dim, std::int64_t exponent) const {
  std::uint64_t result = 1;
  std::uint64_t base = points_[dim];
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = times_p(result, base);
    base = times_p(base, base);
  }
  return result;
}

std::uint64_t TensorIndex::hash(const ir::Shape& shape, const std::vector<std::uint64_t>& residues, const std::vector<bool>& counts) const {
  // Horner's rule in the last dimension, then in the one before it, and so on.
  std::vector<std::uint64_t> level = residues;
  auto point = static_cast<std::size_t>(std::count(counts.begin(), counts.end(), true));
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (!counts[d]) continue;
    --point;
    const auto extent = static_cast<std::size_t>(shape[d]);
    std::vector<std::uint64_t> next(level.size() / extent);
    for (std::size_t row = 0; row < next.size(); ++row) {
      std::uint64_t sum = 0;
      for (std::size_t i = extent; i-- > 0;) sum = sum_p(times_p(sum, points_[point]), level[row * extent + i]);
      next[row] = sum;
    }
    level = std::move(next);
  }
  return level.front();
}

void TensorIndex::insert(const ir::Shape& shape, const std::vector<std::uint64_t>& residues, const Entry& entry) {
  const ir::Shape squeezed = without_ones(shape);
  if (squeezed.size() > most_dims) return;
  for (const ir::Shape& merged : merged_shapes(squeezed)) {
    const std::uint64_t value = hash(merged, residues, std::vector<bool>(merged.size(), true));
    if (value != 0) entries_.try_emplace({merged, value}, entry);
  }
}

void TensorIndex::add(const std::string& name, const FieldTensor& tensor, const std::vector<std::int64_t>& parts) {
  if (tensor.data.empty() || is_undefined(tensor)) return;
  const std::vector<std::uint64_t> residues = residues_of(tensor);
  const ir::Shape& shape = tensor.type.shape;
  insert(shape, residues, {name, {}});
  for (const std::int64_t count : parts) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (count < 2 || shape[d] % count != 0) continue;
      ir::Shape part = shape;
      part[d] /= count;
      const std::int64_t inner = std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(d) + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
      const std::int64_t run = part[d] * inner;  // elements that lie together
      for (std::int64_t k = 0; k < count; ++k) {
        std::vector<std::uint64_t> elements;
        for (auto at = k * run; at < static_cast<std::int64_t>(residues.size()); at += count * run)
          elements.insert(elements.end(), residues.begin() + at, residues.begin() + at + run);
        insert(part, elements, {name, "part " + std::to_string(k + 1) + " of " + std::to_string(count) + " along dimension " + std::to_string(d)});
      }
    }
  }
}

// Tries what each axis may do to a tensor of one shape, one axis after the other.
class TensorIndex::LayoutSearch {
 public:
  LayoutSearch(const TensorIndex& index, const ir::Mesh& mesh, const std::vector<Multiplier>& factors) : index_(index), mesh_(mesh), factors_(factors) {
    std::int64_t stride = mesh.size();
    for (const ir::MeshAxis& axis : mesh.axes) strides_.push_back(stride /= axis.size);
  }

  // `positions`: the residues of each position of the mesh.
  std::optional<Held> run(const ir::Shape& shape, const std::vector<std::vector<std::uint64_t>>& positions) {
    std::vector<std::size_t> ones;
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (shape[d] == 1) ones.push_back(d);
    const std::size_t sets = ones.size() > 3 ? 1 : std::size_t{1} << ones.size();
    for (std::size_t set = sets; set-- > 0;) {
      counts_.assign(shape.size(), true);
      for (std::size_t i = 0; i < ones.size(); ++i) counts_[ones[i]] = ((set >> i) & 1U) != 0;
      if (std::count(counts_.begin(), counts_.end(), true) > static_cast<std::ptrdiff_t>(most_dims)) continue;
      std::vector<std::uint64_t> hashes;
      for (const auto& residues : positions) hashes.push_back(index_.hash(shape, residues, counts_));
      if (std::all_of(hashes.begin(), hashes.end(), [](std::uint64_t h) { return h == 0; })) return std::nullopt;
      std::vector<std::size_t> order(mesh_.axes.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::reverse(order.begin(), order.end());  // the last axis is the fastest in most plans
      constexpr int most_orders = 6;
      for (int tries = 0; tries < most_orders; ++tries) {
        order_ = order;
        held_ = {};
        varying_.clear();
        if (axis(0, shape, hashes)) return held_;
        if (varying_.size() < 2 || !std::prev_permutation(order.begin(), order.end())) break;
      }
    }
    return std::nullopt;
  }

 private:
  // From the fastest axis on: `extents` are those of what the axes so far make of the local tensor.
  bool axis(std::size_t at, const ir::Shape& extents, const std::vector<std::uint64_t>& hashes) {
    if (at == order_.size()) return look_up(extents, hashes.front());
    const std::size_t a = order_[at];
    const std::int64_t size = mesh_.axes[a].size;
    const auto along = [&](std::size_t position, std::int64_t coordinate) { return hashes[position + static_cast<std::size_t>(coordinate * strides_[a])]; };
    // Positions at coordinate 0 of all axes so far stand for their groups.
    bool replicated = true;
    for (std::size_t p = 0; p < hashes.size(); ++p) {
      if (!stands(p, at)) continue;
      for (std::int64_t c = 1; c < size; ++c) replicated = replicated && along(p, c) == along(p, 0);
    }
    if (replicated) return axis(at + 1, extents, hashes);
    varying_.insert(a);
    std::size_t point = 0;
    for (std::size_t d = 0; d <= extents.size(); ++d) {
      const bool shard = d < extents.size();
      if (shard && !counts_[d]) continue;
      std::vector<std::uint64_t> joined = hashes;
      const std::uint64_t step = shard ? index_.power(point++, extents[d]) : 1;
      for (std::size_t p = 0; p < hashes.size(); ++p) {
        if (!stands(p, at)) continue;
        std::uint64_t sum = 0;
        for (std::int64_t c = size; c-- > 0;) sum = sum_p(times_p(sum, step), along(p, c));
        joined[p] = sum;
      }
      ir::Shape whole = extents;
      if (shard) whole[d] *= size;
      held_.axes.push_back({mesh_.axes[a].name, shard ? Held::Axis::Kind::shard : Held::Axis::Kind::partial, static_cast<std::int64_t>(shard ? d : 0)});
      if (axis(at + 1, whole, joined)) return true;
      held_.axes.pop_back();
    }
    return false;
  }

  bool stands(std::size_t position, std::size_t at) const {
    for (std::size_t i = 0; i <= at; ++i) {
      const std::size_t a = order_[i];
      if ((static_cast<std::int64_t>(position) / strides_[a]) % mesh_.axes[a].size != 0) return false;
    }
    return true;
  }

  bool look_up(const ir::Shape& extents, std::uint64_t hash) {
    for (std::size_t d = 0; d < extents.size(); ++d)
      if (counts_[d] && extents[d] == 1) return false;  // nothing cuts it: another set of dimensions
    if (hash == 0) return false;
    const ir::Shape squeezed = without_ones(extents);
    const auto find = [&](std::uint64_t of) {
      const auto entry = index_.entries_.find({squeezed, of});
      if (entry == index_.entries_.end()) return false;
      held_.reference = entry->second.name;
      held_.part = entry->second.part;
      return true;
    };
    if (find(hash)) return true;
    for (const Multiplier& factor : factors_) {
      if (!find(times_p(hash, factor.inverse))) continue;
      held_.factor = factor.number;
      (factor.divides ? held_.divided_by : held_.times) = factor.scalar;
      return true;
    }
    return false;
  }

  const TensorIndex& index_;
  const ir::Mesh& mesh_;
  const std::vector<Multiplier>& factors_;
  std::vector<std::int64_t> strides_;  // of the axes in positions
  std::vector<bool> counts_;           // dimensions that have a point
  std::vector<std::size_t> order_;     // of the axes
  std::set<std::size_t> varying_;      // axes along which ranks differ
  Held held_;
};

std::optional<Held> TensorIndex::find(const ir::Mesh& mesh, const std::vector<FieldTensor>& tensors, const std::vector<Multiplier>& factors) const {
  std::vector<std::vector<std::uint64_t>> positions;
  for (const FieldTensor& tensor : tensors) {
    if (tensor.data.empty() || is_undefined(tensor)) return std::nullopt;
    positions.push_back(residues_of(tensor));
  }
  LayoutSearch search(*this, mesh, factors);
  for (const ir::Shape& shape : merged_shapes(tensors.front().type.shape))
    if (auto held = search.run(shape, positions)) return held;
  return std::nullopt;
}

}  // namespace shardproof::execution

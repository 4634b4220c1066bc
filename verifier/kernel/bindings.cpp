#include "verifier/kernel/bindings.h"

#include "ir/check.h"

namespace shardproof::verifier {

using ir::Digit;
using ir::DimLayout;
using ir::Placement;
using ir::Shape;
using solvers::IndexId;
using solvers::TermId;

namespace {

std::vector<std::int64_t> local_digit_sizes(const Placement& placement) {
  std::vector<std::int64_t> sizes;
  for (const DimLayout& dim : placement.dims)
    for (const Digit& digit : dim.digits)
      if (digit.is_local()) sizes.push_back(digit.size);
  return sizes;
}

std::int64_t local_size(const Placement& placement) {
  std::int64_t count = 1;
  for (std::int64_t s : local_digit_sizes(placement)) count = ir::checked_mul(count, s);
  return count;
}

// Elements of a buffer member's local tensor.
std::int64_t member_size(const ir::BufferMember& m) {
  if (m.fused.empty()) return local_size(m.placement);
  std::int64_t count = 0;
  for (const ir::FusedPart& part : m.fused) count = ir::checked_add(count, local_size(part.placement));
  return count;
}

// Mixed-radix digits of `flat`, most significant first; the first digit is not reduced.
std::vector<IndexId> unflatten(solvers::TermPool& pool, IndexId flat, const std::vector<std::int64_t>& sizes) {
  std::vector<IndexId> digits(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    const IndexId quotient = pool.index_div(flat, stride);
    digits[d] = d == 0 ? quotient : pool.index_mod(quotient, sizes[d]);
    stride = ir::checked_mul(stride, sizes[d]);
  }
  return digits;
}

}  // namespace

IndexId Bindings::digit_value(const Digit& digit) {
  const solvers::VarId c = semantics_.coordinate(digit.axis);
  const std::int64_t size = pool_.var(c).extent;
  SHARDPROOF_CHECK(size % (digit.pre * digit.size) == 0);
  const IndexId quotient = pool_.index_div(pool_.index_var(c), size / (digit.pre * digit.size));
  return digit.pre == 1 ? quotient : pool_.index_mod(quotient, digit.size);
}

TermId Bindings::owner_guard(const Placement& placement) {
  TermId guard = pool_.one();
  for (const ir::OwnedAxis& owned : placement.owned) {
    const IndexId c = pool_.index_var(semantics_.coordinate(owned.axis));
    TermId any = pool_.zero();
    for (std::int64_t value : owned.coordinates) any = pool_.add(any, pool_.range(c, value, value));
    guard = pool_.mul(guard, any);
  }
  return guard;
}

std::vector<Bindings::Position> Bindings::logical_positions(const DimLayout& dim, const std::vector<IndexId>& values) {
  if (!dim.offsets.empty()) throw SemanticsError("SP0905", "unsupported", "the prover has no rule for ragged shards yet");
  // The leading digits of zigzag stand for chunk r if h == 0, 2W-1-r if h == 1.
  std::vector<Position> positions{{pool_.one(), pool_.index_constant(0)}};
  std::size_t first = 0;
  if (dim.permutation == ir::Permutation::zigzag) {
    SHARDPROOF_CHECK(values.size() >= 2 && dim.digits[1].size == 2);
    const std::int64_t last = 2 * dim.digits[0].size - 1;
    positions = {{pool_.range(values[1], 0, 0), values[0]}, {pool_.range(values[1], 1, 1), pool_.index_scale(values[0], -1, last)}};
    first = 2;
  }
  for (Position& position : positions)
    for (std::size_t k = first; k < values.size(); ++k)
      position.index = pool_.index_linear(position.index, dim.digits[k].size, values[k], 1);
  return positions;
}

Bound Bindings::place(const Denotation& reference, const Placement& placement, const std::vector<IndexId>& local_digits) {
  const Shape& shape = reference.type.shape;
  SHARDPROOF_CHECK(placement.dims.size() == shape.size());
  struct Case {
    TermId guard;
    std::vector<IndexId> indices;
  };
  std::vector<Case> cases{{pool_.one(), {}}};
  TermId care = owner_guard(placement);
  TermId pad = pool_.one();  // 1 where the element is not padding
  std::size_t next_local = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const DimLayout& dim = placement.dims[d];
    std::vector<IndexId> values;
    for (const Digit& digit : dim.digits) values.push_back(digit.is_local() ? local_digits[next_local++] : digit_value(digit));
    const std::vector<Position> positions = logical_positions(dim, values);
    std::vector<Case> extended;
    for (const Case& c : cases) {
      for (const Position& position : positions) {
        Case e = c;
        e.guard = pool_.mul(e.guard, position.guard);
        if (dim.padded_extent > shape[d]) e.guard = pool_.mul(e.guard, pool_.range(position.index, 0, shape[d] - 1));
        e.indices.push_back(position.index);
        if (e.guard != pool_.zero()) extended.push_back(std::move(e));
      }
    }
    cases = std::move(extended);
    if (dim.padded_extent > shape[d]) {
      TermId inside = pool_.zero();
      for (const Position& position : positions)
        inside = pool_.add(inside, pool_.mul(position.guard, pool_.range(position.index, 0, shape[d] - 1)));
      pad = pool_.mul(pad, inside);
    }
  }
  std::vector<TermId> pieces;
  for (const Case& c : cases) pieces.push_back(pool_.mul(c.guard, semantics_.at(reference.term, shape, c.indices)));
  if (placement.pad == ir::PadValue::any) care = pool_.mul(care, pad);
  return {pool_.sum(pieces), care};
}

Bound Bindings::fused(const std::vector<ir::FusedPart>& parts, std::int64_t axis, const std::string& role, IndexId flat,
                      const ReferenceValue& reference) {
  // Shape of the concatenation over local digits.
  std::vector<std::int64_t> sizes = local_digit_sizes(parts.at(0).placement);
  const auto a = static_cast<std::size_t>(axis);
  SHARDPROOF_CHECK(a < sizes.size());
  sizes[a] = 0;
  for (const ir::FusedPart& part : parts) sizes[a] += local_digit_sizes(part.placement).at(a);
  std::vector<IndexId> digits = unflatten(pool_, flat, sizes);
  const IndexId position = digits[a];
  Bound total{pool_.zero(), pool_.zero()};
  std::int64_t offset = 0;
  for (const ir::FusedPart& part : parts) {
    const std::int64_t extent = local_digit_sizes(part.placement)[a];
    const TermId guard = pool_.range(position, offset, offset + extent - 1);
    digits[a] = pool_.index_scale(position, 1, -offset);
    const std::string name = role.empty() ? part.of : state_of_(part.of, role);
    const Bound piece = place(reference(name), part.placement, digits);
    total.term = pool_.add(total.term, pool_.mul(guard, piece.term));
    total.care = pool_.add(total.care, pool_.mul(guard, piece.care));
    offset += extent;
  }
  return total;
}

Bound Bindings::member(const ir::BufferMember& m, const std::string& role, IndexId flat, const ReferenceValue& reference) {
  if (!m.placement.partial.empty())
    throw SemanticsError("SP0905", "unsupported", "a member of a buffer that is partial over a mesh axis has no term yet");
  if (!m.fused.empty()) {
    Bound result = fused(m.fused, m.fuse_axis, role.empty() ? "param" : role, flat, reference);
    result.care = pool_.mul(result.care, owner_guard(m.placement));
    return result;
  }
  const std::string name = state_of_(m.param, role.empty() ? "param" : role);
  return place(reference(name), m.placement, unflatten(pool_, flat, local_digit_sizes(m.placement)));
}

Bound Bindings::bind(const ir::Binding& binding, const ir::TensorType& local, const ReferenceValue& reference) {
  const Bound raw = bind_raw(binding, local, reference);
  return {pool_.assume(raw.term, {}), pool_.assume(raw.care, {})};
}

Bound Bindings::bind_raw(const ir::Binding& binding, const ir::TensorType& local, const ReferenceValue& reference) {
  const std::vector<IndexId> elements = semantics_.element_indices(local.shape);
  IndexId flat = pool_.index_constant(0);
  for (std::size_t d = 0; d < local.shape.size(); ++d) flat = pool_.index_linear(flat, local.shape[d], elements[d], 1);

  if (!binding.fused.empty()) {
    Bound result = fused(binding.fused, binding.fuse_axis, binding.role, flat, reference);
    result.care = pool_.mul(result.care, owner_guard(binding.placement));
    return result;
  }
  if (binding.buffer.empty()) {
    const std::string name = binding.role.empty() || binding.role == "param" ? binding.of : state_of_(binding.of, binding.role);
    // Local element index of each dimension to its local digits.
    std::vector<IndexId> digits;
    for (std::size_t d = 0; d < binding.placement.dims.size(); ++d) {
      std::vector<std::int64_t> sizes;
      for (const Digit& digit : binding.placement.dims[d].digits)
        if (digit.is_local()) sizes.push_back(digit.size);
      for (IndexId v : unflatten(pool_, elements[d], sizes)) digits.push_back(v);
    }
    return place(reference(name), binding.placement, digits);
  }
  const ir::FlatBuffer* buffer = plan_.find_buffer(binding.buffer);
  SHARDPROOF_CHECK(buffer != nullptr && binding.placement.dims.size() == 1 && local.shape.size() == 1);
  // Position in the buffer: the digits of its one dimension.
  const DimLayout& cut = binding.placement.dims[0];
  std::vector<std::int64_t> sizes;
  for (const Digit& digit : cut.digits)
    if (digit.is_local()) sizes.push_back(digit.size);
  const std::vector<IndexId> locals = unflatten(pool_, elements[0], sizes);
  std::vector<IndexId> values;
  std::size_t next_local = 0;
  for (const Digit& digit : cut.digits) values.push_back(digit.is_local() ? locals[next_local++] : digit_value(digit));
  std::vector<TermId> terms, cares;
  TermId in_member = pool_.zero();
  for (const Position& position : logical_positions(cut, values)) {
    for (const ir::BufferMember& m : buffer->members) {
      const TermId guard = pool_.mul(position.guard, pool_.range(position.index, m.offset, m.offset + member_size(m) - 1));
      const Bound piece = member(m, binding.role, pool_.index_scale(position.index, 1, -m.offset), reference);
      terms.push_back(pool_.mul(guard, piece.term));
      cares.push_back(pool_.mul(guard, piece.care));
      in_member = pool_.add(in_member, guard);
    }
  }
  // Gaps and tail hold zero or anything, as the buffer's placement says; within a member its own placement decides.
  if (binding.placement.pad == ir::PadValue::zero) cares.push_back(pool_.complement(in_member));
  Bound result{pool_.sum(terms), pool_.sum(cares)};
  result.care = pool_.mul(result.care, owner_guard(binding.placement));
  return result;
}

}  // namespace shardproof::verifier

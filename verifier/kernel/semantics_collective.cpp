// Collectives by substitution of mesh coordinates. A group is an ordered list of axes; the position of a rank in
// its group is the mixed-radix value of its coordinates, first axis most significant.
#include "ir/check.h"
#include "verifier/kernel/semantics.h"

namespace shardproof::verifier {

using ir::OpCode;
using ir::Rational;
using ir::ReduceKind;
using ir::Shape;
using solvers::IndexId;
using solvers::Reduction;
using solvers::Substitution;
using solvers::TermId;
using solvers::TermPool;
using solvers::VarId;

TermId Semantics::reduce_over(const std::vector<std::string>& axes, ReduceKind kind, TermId term) {
  TermPool::FreshScope scope(pool_);
  Substitution to_fresh;
  std::vector<VarId> vars;
  std::int64_t size = 1;
  for (const std::string& axis : axes) {
    const VarId c = coordinate(axis);
    size = ir::checked_mul(size, pool_.var(c).extent);
    vars.push_back(scope.fresh(pool_.var(c).extent));
    to_fresh.set(c, pool_.index_var(vars.back()));
  }
  TermId body = pool_.substitute(term, to_fresh);
  switch (kind) {
    case ReduceKind::sum: return pool_.reduce(Reduction::sum, std::move(vars), body);
    case ReduceKind::avg: return pool_.scale(pool_.reduce(Reduction::sum, std::move(vars), body), Rational(1, size));
    case ReduceKind::max: return pool_.reduce(Reduction::max, std::move(vars), body);
    case ReduceKind::min:
      return pool_.scale(pool_.reduce(Reduction::max, std::move(vars), pool_.scale(body, Rational(-1))), Rational(-1));
    case ReduceKind::prod: break;
  }
  throw SemanticsError("SP0905", "unsupported", "the prover has no rule for a product over ranks yet");
}

TermId Semantics::collective(const ir::Instruction& i, const Operands& operands, const ir::TensorType& result) {
  if (i.op == OpCode::wait) return operands[0].term;
  if (i.op == OpCode::send || i.op == OpCode::recv)
    throw SemanticsError("SP0905", "unsupported", "the prover has no rule for send and recv between stages yet");
  const std::vector<std::string> axes = group_axes(i);
  const TermId x = operands[0].term;
  const Shape& from = operands[0].type.shape;
  std::int64_t group_size = 1;
  for (const std::string& axis : axes) group_size = ir::checked_mul(group_size, pool_.var(coordinate(axis)).extent);
  // Position of the executing rank in its group.
  IndexId position = pool_.index_constant(0);
  for (const std::string& axis : axes) {
    const VarId c = coordinate(axis);
    position = pool_.index_linear(position, pool_.var(c).extent, pool_.index_var(c), 1);
  }
  // Substitution that moves to the rank at position `p` of the group.
  const auto move_to = [&](Substitution& s, IndexId p) {
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      const VarId c = coordinate(*axis);
      const bool most_significant = std::next(axis) == axes.rend();
      s.set(c, most_significant ? p : pool_.index_mod(p, pool_.var(c).extent));
      p = pool_.index_div(p, pool_.var(c).extent);
    }
  };
  switch (i.op) {
    case OpCode::all_reduce: {
      const auto kind = ir::parse_reduce(i.attributes.get<std::string>("reduce"));
      SHARDPROOF_CHECK(kind.has_value());
      return reduce_over(axes, *kind, x);
    }
    case OpCode::all_gather: {
      const auto dim = static_cast<std::size_t>(i.attributes.get<std::int64_t>("dim"));
      const std::int64_t shard = from[dim];
      const IndexId j = pool_.index_var(pool_.element(dim, result.shape[dim]));
      Substitution s;
      move_to(s, pool_.index_div(j, shard));
      if (shard > 1) s.set(pool_.element(dim, shard), pool_.index_mod(j, shard));
      return pool_.substitute(x, s);
    }
    case OpCode::reduce_scatter: {
      const auto dim = static_cast<std::size_t>(i.attributes.get<std::int64_t>("dim"));
      const auto kind = ir::parse_reduce(i.attributes.get<std::string>("reduce"));
      SHARDPROOF_CHECK(kind.has_value() && from[dim] % group_size == 0);
      const std::int64_t shard = result.shape[dim];
      // The reduction runs over the coordinates of the senders; the shard is chosen by the receiver's position,
      // so the element is selected afterwards.
      const TermId total = reduce_over(axes, *kind, x);
      std::vector<IndexId> indices = element_indices(result.shape);
      indices[dim] = pool_.index_linear(position, shard, indices[dim], 1);
      return at(total, from, indices);
    }
    case OpCode::all_to_all: {
      const auto split = static_cast<std::size_t>(i.attributes.get<std::int64_t>("split_dim"));
      const auto concat = static_cast<std::size_t>(i.attributes.get<std::int64_t>("concat_dim"));
      SHARDPROOF_CHECK(from[split] % group_size == 0);
      const std::int64_t part = from[split] / group_size;
      std::vector<IndexId> indices = element_indices(result.shape);
      Substitution s;
      if (split == concat) {
        // Chunk p of the result came from rank p and was its chunk `position`.
        const IndexId j = indices[split];
        move_to(s, pool_.index_div(j, part));
        indices[split] = pool_.index_linear(position, part, pool_.index_mod(j, part), 1);
      } else {
        const IndexId j = indices[concat];
        move_to(s, pool_.index_div(j, from[concat]));
        indices[concat] = pool_.index_mod(j, from[concat]);
        indices[split] = pool_.index_linear(position, part, indices[split], 1);
      }
      for (std::size_t d = 0; d < from.size(); ++d)
        if (from[d] > 1) s.set(pool_.element(d, from[d]), indices[d]);
      return pool_.substitute(x, s);
    }
    case OpCode::broadcast_from: {
      const std::int64_t root = i.attributes.get<std::int64_t>("root");
      Substitution s;
      move_to(s, pool_.index_constant(root));
      return pool_.substitute(x, s);
    }
    case OpCode::permute: {
      const std::int64_t shift = i.attributes.get<std::int64_t>("shift");
      Substitution s;
      move_to(s, pool_.index_mod(pool_.index_scale(position, 1, -shift), group_size));
      return pool_.substitute(x, s);
    }
    default: break;
  }
  SHARDPROOF_CHECK(false);
}

}  // namespace shardproof::verifier

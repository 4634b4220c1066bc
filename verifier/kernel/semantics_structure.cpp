// Ops that move elements: index maps only, and ops that index by data.
#include "ir/check.h"
#include "verifier/kernel/semantics.h"

namespace shardproof::verifier {

using ir::OpCode;
using ir::Shape;
using solvers::IndexId;
using solvers::kUnbounded;
using solvers::TermId;
using solvers::TermPool;
using solvers::VarId;

TermId Semantics::structure(const ir::Instruction& i, const Operands& operands, const ir::TensorType& result) {
  const TermId x = operands[0].term;
  const Shape& from = operands[0].type.shape;
  const Shape& to = result.shape;
  std::vector<IndexId> indices = element_indices(to);
  switch (i.op) {
    case OpCode::cast: return x;  // exact casts only (ir/infer_structure): the identity over the reals
    case OpCode::reshape: {
      IndexId flat = pool_.index_constant(0);
      for (std::size_t d = 0; d < to.size(); ++d) flat = pool_.index_linear(flat, to[d], indices[d], 1);
      std::vector<IndexId> source(from.size());
      std::int64_t stride = 1;
      for (std::size_t d = from.size(); d-- > 0;) {
        const IndexId quotient = pool_.index_div(flat, stride);
        source[d] = d == 0 ? quotient : pool_.index_mod(quotient, from[d]);
        stride = ir::checked_mul(stride, from[d]);
      }
      return at(x, from, source);
    }
    case OpCode::transpose: {
      const auto& perm = i.attributes.get<std::vector<std::int64_t>>("perm");
      std::vector<IndexId> source(from.size());
      for (std::size_t d = 0; d < perm.size(); ++d) source[static_cast<std::size_t>(perm[d])] = indices[d];
      return at(x, from, source);
    }
    case OpCode::broadcast: {
      const auto& dims = i.attributes.get<std::vector<std::int64_t>>("dims");
      std::vector<IndexId> source;
      for (std::size_t d = 0; d < from.size(); ++d)
        source.push_back(from[d] == 1 ? pool_.index_constant(0) : indices[static_cast<std::size_t>(dims[d])]);
      return at(x, from, source);
    }
    case OpCode::slice: {
      const auto dim = static_cast<std::size_t>(i.attributes.get<std::int64_t>("dim"));
      const IndexId start = coordinate_index(i.attributes.get<ir::CoordExpr>("start"));
      const std::int64_t stride = i.attributes.get_or<std::int64_t>("stride", 1);
      indices[dim] = pool_.index_linear(indices[dim], stride, start, 1);
      require_in_range(indices[dim], from[dim], {}, "slice of dimension " + std::to_string(dim));
      return at(x, from, indices);
    }
    case OpCode::concat: {
      const auto dim = static_cast<std::size_t>(i.attributes.get<std::int64_t>("dim"));
      std::vector<TermId> pieces;
      std::int64_t offset = 0;
      const IndexId position = indices[dim];
      for (const Denotation& operand : operands) {
        const std::int64_t extent = operand.type.shape[dim];
        indices[dim] = pool_.index_scale(position, 1, -offset);
        const TermId guard = pool_.range(position, offset, offset + extent - 1);
        pieces.push_back(pool_.mul(guard, at(operand.term, operand.type.shape, indices)));
        offset += extent;
      }
      return pool_.sum(pieces);
    }
    case OpCode::pad: {
      const auto dim = static_cast<std::size_t>(i.attributes.get<std::int64_t>("dim"));
      const std::int64_t low = i.attributes.get<std::int64_t>("low");
      const TermId value = pool_.constant(i.attributes.get<ir::Rational>("value"));
      const IndexId position = indices[dim];
      indices[dim] = pool_.index_scale(position, 1, -low);
      return pool_.sum({pool_.mul(pool_.range(position, low, low + from[dim] - 1), at(x, from, indices)),
                        pool_.mul(pool_.range(position, -kUnbounded, low - 1), value),
                        pool_.mul(pool_.range(position, low + from[dim], kUnbounded), value)});
    }
    default: break;
  }
  SHARDPROOF_CHECK(false);
}

namespace {

[[noreturn]] void not_an_index(const ir::Instruction& i) {
  throw SemanticsError("SP0905", "unsupported",
                       "the ids of `" + std::string(ir::schema_of(i.op).name) + "` are not an integer function of indices, coordinates and integer tensors");
}

}  // namespace

TermId Semantics::indexed(const ir::Instruction& i, const Operands& operands, const ir::TensorType& result) {
  const Denotation& x = operands[0];
  const Denotation& ids = operands[1];
  const std::vector<IndexId> indices = element_indices(result.shape);
  const std::string what = "element read by `" + std::string(ir::schema_of(i.op).name) + "`";
  // f(index, guards) on every piece of the ids on which they are one index term.
  const auto by_index = [&](TermId term, const std::function<TermId(IndexId, const std::vector<TermId>&)>& f) {
    return pool_.by_cases_under({term}, {}, [&](const std::vector<TermId>& piece, const std::vector<TermId>& guards) {
      const auto e = pool_.as_index(piece[0]);
      if (!e) not_an_index(i);
      return f(*e, guards);
    });
  };
  switch (i.op) {
    case OpCode::take: {
      const auto dim = static_cast<std::size_t>(i.attributes.get_or<std::int64_t>("dim", 0));
      const std::size_t id_rank = ids.type.shape.size();
      const std::vector<IndexId> id_indices(indices.begin() + static_cast<std::ptrdiff_t>(dim),
                                            indices.begin() + static_cast<std::ptrdiff_t>(dim + id_rank));
      return by_index(at(ids.term, ids.type.shape, id_indices), [&](IndexId e, const std::vector<TermId>& guards) {
        require_in_range(e, x.type.shape[dim], guards, what);
        std::vector<IndexId> source(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(dim));
        source.push_back(e);
        source.insert(source.end(), indices.begin() + static_cast<std::ptrdiff_t>(dim + id_rank), indices.end());
        return at(x.term, x.type.shape, source);
      });
    }
    case OpCode::take_along:
      return by_index(ids.term, [&](IndexId e, const std::vector<TermId>& guards) {
        require_in_range(e, x.type.shape.back(), guards, what);
        std::vector<IndexId> source = indices;
        source.push_back(e);
        return at(x.term, x.type.shape, source);
      });
    case OpCode::scatter_add: {
      const auto dim = static_cast<std::size_t>(i.attributes.get_or<std::int64_t>("dim", 0));
      const std::int64_t size = i.attributes.get<std::int64_t>("size");
      const std::size_t id_rank = ids.type.shape.size();
      TermPool::FreshScope scope(pool_);
      std::vector<VarId> vars;
      std::vector<IndexId> id_indices;
      for (std::int64_t extent : ids.type.shape) {
        vars.push_back(scope.fresh(extent));
        id_indices.push_back(pool_.index_var(vars.back()));
      }
      std::vector<IndexId> source(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(dim));
      source.insert(source.end(), id_indices.begin(), id_indices.end());
      source.insert(source.end(), indices.begin() + static_cast<std::ptrdiff_t>(dim) + 1, indices.end());
      SHARDPROOF_CHECK(source.size() == x.type.shape.size() && id_rank == id_indices.size());
      const TermId update = at(x.term, x.type.shape, source);
      const TermId hits = by_index(at(ids.term, ids.type.shape, id_indices), [&](IndexId e, const std::vector<TermId>& guards) {
        require_in_range(e, size, guards, "element written by `scatter_add`");
        return pool_.range(pool_.index_sub(e, indices[dim]), 0, 0);
      });
      return pool_.reduce(solvers::Reduction::sum, std::move(vars), pool_.mul(hits, update));
    }
    case OpCode::put_along: {
      const std::int64_t size = i.attributes.get<std::int64_t>("size");
      const std::vector<IndexId> outer(indices.begin(), indices.end() - 1);
      const TermId hit = by_index(at(ids.term, ids.type.shape, outer), [&](IndexId e, const std::vector<TermId>& guards) {
        require_in_range(e, size, guards, "element written by `put_along`");
        return pool_.range(pool_.index_sub(e, indices.back()), 0, 0);
      });
      return pool_.mul(hit, at(x.term, x.type.shape, outer));
    }
    default: break;
  }
  SHARDPROOF_CHECK(false);
}

}  // namespace shardproof::verifier

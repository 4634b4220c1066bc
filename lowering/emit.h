// Short forms over ir::Builder for the instructions that definitions, VJP rules, the reference and planners write most.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/builder.h"

namespace shardproof::lowering {

using Dims = std::vector<std::int64_t>;

ir::ValueId emit_constant(ir::Builder& builder, ir::TensorType type, ir::Rational value, std::string name = {});
ir::ValueId emit_constant_like(ir::Builder& builder, ir::ValueId like, ir::Rational value);
ir::ValueId emit_negative_infinity_like(ir::Builder& builder, ir::ValueId like);

// x * factor and x + offset, elementwise.
ir::ValueId emit_scaled(ir::Builder& builder, ir::ValueId x, ir::Rational factor, std::string name = {});
ir::ValueId emit_shifted(ir::Builder& builder, ir::ValueId x, ir::Rational offset, std::string name = {});

ir::ValueId emit_add(ir::Builder& builder, std::vector<ir::ValueId> terms, std::string name = {});
ir::ValueId emit_mul(ir::Builder& builder, std::vector<ir::ValueId> factors, std::string name = {});
ir::ValueId emit_unary(ir::Builder& builder, ir::OpCode op, ir::ValueId x, std::string name = {});

// Reducing over no dimension is x itself.
ir::ValueId emit_reduce(ir::Builder& builder, ir::OpCode op, ir::ValueId x, Dims dims, std::string name = {});
// Operand dimension i becomes dimension dims[i] of the result.
ir::ValueId emit_broadcast(ir::Builder& builder, ir::ValueId x, ir::Shape shape, Dims dims, std::string name = {});
// Repeats x along `removed` dimensions of `shape`: the transpose of a sum over them.
ir::ValueId emit_restore(ir::Builder& builder, ir::ValueId x, const ir::Shape& shape, const Dims& removed,
                         std::string name = {});

ir::ValueId emit_einsum(ir::Builder& builder, std::string spec, std::vector<ir::ValueId> inputs, std::string name = {});
ir::ValueId emit_slice(ir::Builder& builder, ir::ValueId x, std::int64_t dim, ir::CoordExpr start, std::int64_t size,
                       std::string name = {});
ir::ValueId emit_reshape(ir::Builder& builder, ir::ValueId x, ir::Shape shape, std::string name = {});

// Mean over the last dimension, which is removed.
ir::ValueId emit_mean_last(ir::Builder& builder, ir::ValueId x, std::string name = {});
// Repeats a value without the last dimension, or with only it, to the shape of `like`.
ir::ValueId emit_restore_last(ir::Builder& builder, ir::ValueId reduced, ir::ValueId like, std::string name = {});
ir::ValueId emit_restore_leading(ir::Builder& builder, ir::ValueId vector, ir::ValueId like, std::string name = {});

Dims all_dims(std::size_t rank);
Dims leading_dims(std::size_t rank);  // all but the last
std::int64_t last_dim(const ir::Builder& builder, ir::ValueId x);
std::int64_t last_extent(const ir::Builder& builder, ir::ValueId x);

}  // namespace shardproof::lowering

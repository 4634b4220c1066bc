// One definition per macro op, written with core ops. Internal to unfold and the VJP rules.
#pragma once

#include <optional>
#include <vector>

#include "ir/builder.h"

namespace shardproof::lowering {

// Appends the definition of `instruction` applied to `inputs`; returns its results. InternalError if it is no macro.
std::vector<ir::ValueId> append_definition(ir::Builder& builder, const ir::Instruction& instruction,
                                           const std::vector<ir::ValueId>& inputs);

// sqrt(2/pi) to the 16 digits every implementation of GELU writes down, and the coefficient of its cubic term.
ir::Rational gelu_tanh_factor();
ir::Rational gelu_tanh_cubic();
// 2/sqrt(pi), the factor of the derivative of erf, to 17 digits (M_2_SQRTPI).
ir::Rational two_over_sqrt_pi();

// Scores of grouped-query attention as [b, g, r, s, t] (query head h = g * r_extent + r reads key/value head g),
// scaled, minus infinity where masked. `grouped_query` is the query as [b, s, g, r, d].
struct AttentionScores {
  ir::ValueId grouped_query;
  ir::ValueId scale;  // scalar
  ir::ValueId scores;
};
AttentionScores append_attention_scores(ir::Builder& builder, ir::ValueId query, ir::ValueId key, bool causal,
                                        const std::optional<ir::Rational>& scale);

}  // namespace shardproof::lowering

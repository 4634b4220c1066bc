// Numbers of `rng_uniform` as a counter-based generator in the sense of the IR: a number depends on (stream, key, index)
// only, so that a shard that passes its own offset draws the numbers of the whole tensor. One for all domains.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/program.h"
#include "verifier/execution/domain.h"

namespace shardproof::execution {

// 53 bits for each element of `shape`, row-major.
std::vector<std::uint64_t> random_bits(const ir::Attributes& attributes, const ir::Shape& shape,
                                       const VariableValue& variables);

}  // namespace shardproof::execution

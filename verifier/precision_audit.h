// What the proof cannot see: it is over the reals, and a plan that is equal to its reference there may lose digits that the
// training needs. Warnings with codes SP06xx, never a reason for a verdict.
//
// Rules of thumb that the field agrees on: gradients are summed in 32 bits (Megatron's accumulate-allreduce-grads-in-fp32),
// weights and moments are kept in 32 bits beside 16-bit copies (Micikevicius et al., Mixed Precision Training, 2018), and an
// exponential sees what a maximum was taken off (FlashAttention, Milakov and Gimelshein 2018).
#pragma once

#include <vector>

#include "ir/diagnostic.h"
#include "ir/plan.h"

namespace shardproof::verifier {

// One warning per code and stage, with the number of places.
std::vector<ir::Diagnostic> audit_precision(const ir::Plan& plan);

}  // namespace shardproof::verifier

// Names of functions of terms in a certificate.
#pragma once

#include <array>
#include <string_view>

#include "solvers/kernel/term_pool.h"

namespace shardproof::verifier {

inline constexpr std::array<std::string_view, static_cast<std::size_t>(solvers::Function::count_)> kFunctionNames = {
    "exp", "log", "sqrt", "inverse", "tanh", "erf", "sigmoid", "sin", "cos", "abs", "power", "max", "-inf", "less", "less_equal", "equal"};

}  // namespace shardproof::verifier

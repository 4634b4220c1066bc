// Pieces of Algebra that its files share.
#pragma once

#include "solvers/witness/expression.h"

namespace shardproof::solvers::witness {

void name(Factor& f);  // fills in its key and head
Factor function_of(Function function, std::vector<Form> arguments, std::int32_t power = 1);
bool is_function(const Factor& f, Function function);
Form one_factor(Factor f);
bool is_minus_infinity(const Summand& s);
bool holds(const Guard& g, std::int64_t value);
// Brings guards on one form together, and those on a chosen number to what it was chosen by. False if they contradict each other.
bool tidy(const Algebra& algebra, std::vector<Guard>& guards);

}  // namespace shardproof::solvers::witness

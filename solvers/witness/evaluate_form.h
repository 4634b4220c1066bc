// The value of an expression at a point, by enumeration: what its laws are tested against, and how a witness tells a
// difference from a proof that it did not find.
#pragma once

#include <optional>

#include "solvers/evaluate.h"
#include "solvers/witness/expression.h"

namespace shardproof::solvers::witness {

// Values of variables by their number; bound ones are enumerated.
using Point = std::vector<std::int64_t>;

// Nothing if more than `limit` products would have to be computed. `largest`: magnitude of the largest summand anywhere.
std::optional<double> evaluate(const Algebra& algebra, const Form& form, const Point& point, const TensorContents& contents,
                               std::int64_t limit, double* largest = nullptr);
std::int64_t evaluate(const Algebra& algebra, const Index& e, const Point& point, const TensorContents& contents);

}  // namespace shardproof::solvers::witness

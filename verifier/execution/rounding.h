// Numbers as an element type stores them.
#pragma once

#include "ir/tensor_type.h"

namespace shardproof::execution {

// The nearest number of the type, ties to even; beyond its largest, infinity (types without one: NaN). Integers and
// booleans as they are.
double rounded(double x, ir::DType dtype);

// Distance from 1 to the next number of the type: what relative errors are measured by.
double epsilon(ir::DType dtype);

}  // namespace shardproof::execution

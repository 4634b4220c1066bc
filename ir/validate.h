// Well-formedness of a Document beyond what reading enforces: one function per constraint, in the order of
// ir/README.md, codes SP01xx. A document that passes can be given a meaning; nothing else may assume more.
#pragma once

#include <string>

#include "ir/diagnostic.h"
#include "ir/plan.h"

namespace shardproof::ir {

void validate(const Document& document, DiagnosticSink& sink);

// The parts, for callers that have only one side (a reference file without a plan).
void validate_reference(const Reference& reference, DiagnosticSink& sink);
void validate_plan(const Reference& reference, const Plan& plan, DiagnosticSink& sink);

// What is wrong with a shape by the limits of tensor_type.h (extents 1..2^40, at most 2^62 elements); empty
// if nothing is.
std::string shape_problem(const Shape& shape);

}  // namespace shardproof::ir

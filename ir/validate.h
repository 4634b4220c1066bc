// Well-formedness of a Document beyond what reading enforces: one function per constraint, in the order of
// ir/README.md, codes SP01xx. A document that passes can be given a meaning; nothing else may assume more.
#pragma once

#include "ir/diagnostic.h"
#include "ir/plan.h"

namespace shardproof::ir {

void validate(const Document& document, DiagnosticSink& sink);

}  // namespace shardproof::ir

// Parity with LibTorch: verifier/execution/parity.h in its domain.
#pragma once

#include "runtime/torch_executor.h"
#include "verifier/execution/parity.h"
#include "verifier/execution/step.h"

namespace shardproof::runtime {

ParityReport run_parity(const ir::Document& document, const ParityOptions& options = {});
ReferenceRun run_reference(const ir::Reference& reference, const std::map<std::string, Tensor>& values);

}  // namespace shardproof::runtime

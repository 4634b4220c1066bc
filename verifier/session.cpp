#include "verifier/session.h"

namespace shardproof::verifier {

Session::Session(const ir::Document& document, const VerifyOptions& options)
    : Proof(document, {options.timeout_seconds, options.memory_bytes, options.progress, options.cancel},
            [&](solvers::AtomTable& atoms) -> std::unique_ptr<ProofSource> {
              if (options.certificate != nullptr) return std::make_unique<CertifyingSearch>(atoms);
              return std::make_unique<FoldSearch>(atoms);
            }),
      search_(&static_cast<FoldSearch&>(source())) {}

}  // namespace shardproof::verifier

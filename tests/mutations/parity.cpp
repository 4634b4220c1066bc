#include "mutations/campaign.h"

#ifdef SHARDPROOF_HAS_RUNTIME
#include <exception>

#include "runtime/parity.h"
#endif

namespace shardproof::mutations {

#ifdef SHARDPROOF_HAS_RUNTIME
bool has_parity() {
  return true;
}
Outcome::Parity parity(const ir::Document& document) {
  try {
    return runtime::run_parity(document).equal() ? Outcome::Parity::equal : Outcome::Parity::differs;
  } catch (const std::exception&) {
    return Outcome::Parity::failed;  // an index out of bounds stops the execution
  }
}
#else
bool has_parity() {
  return false;
}
Outcome::Parity parity(const ir::Document&) {
  return Outcome::Parity::not_run;
}
#endif

}  // namespace shardproof::mutations

#include "verifier/report.h"

#include "ir/check.h"

namespace shardproof::verifier {

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::equivalent:
      return "equivalent";
    case Verdict::not_equivalent:
      return "not-equivalent";
    case Verdict::unknown:
      return "unknown";
    case Verdict::invalid:
      return "invalid";
  }
  check_failed("a Verdict", __FILE__, __LINE__);
}

int exit_code(Verdict verdict) {
  switch (verdict) {
    case Verdict::equivalent:
      return 0;
    case Verdict::not_equivalent:
      return 1;
    case Verdict::invalid:
      return 2;
    case Verdict::unknown:
      return 3;
  }
  check_failed("a Verdict", __FILE__, __LINE__);
}

}  // namespace shardproof::verifier

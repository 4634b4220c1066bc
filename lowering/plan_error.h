// A model and degrees that the planner cannot lower: the caller's mistake, or a combination not supported yet.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace shardproof::lowering {

// Codes (SP00xx, input): SP0030 degrees do not fit the world, SP0031 degrees do not fit the model, SP0032 batch or
// sequence does not fit the degrees, SP0033 not supported yet, SP0034 the reference is of another model or batch.
class PlanError : public std::runtime_error {
 public:
  PlanError(std::string error_code, const std::string& message, std::string expected_text, std::string found_text,
            std::string fix_text, std::string setting_name = {})
      : std::runtime_error(message),
        code(std::move(error_code)),
        expected(std::move(expected_text)),
        found(std::move(found_text)),
        fix(std::move(fix_text)),
        setting(std::move(setting_name)) {}

  std::string code;
  std::string expected;
  std::string found;
  std::string fix;      // as an order; may be empty
  std::string setting;  // the field of the set-up to look at; may be empty
};

}  // namespace shardproof::lowering

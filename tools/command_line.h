// What all verbs share: parsing with helpful errors, and the exit codes that are not a verdict.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace shardproof::tools {

inline constexpr int kExitUsage = 2;      // bad input or usage
inline constexpr int kExitUnknown = 3;     // not decided
inline constexpr int kExitInternal = 70;  // a bug in shardproof (sysexits' EX_SOFTWARE)

// Bad usage or input that is no finding in a file: main prints it and exits with kExitUsage.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Arguments of one verb, without the verb itself.
using Arguments = std::span<const std::string>;

// Parses `arguments` into `app`. Returns false after printing help (nothing else to do); throws UsageError with the
// nearest option where one is unknown.
bool parse_arguments(CLI::App& app, Arguments arguments);

// "; the nearest is 'verify'", or empty if none of the candidates is near.
std::string nearest_hint(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace shardproof::tools

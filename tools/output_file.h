// Writing results so that a crash, a full disk or an interrupt never leaves half a file under the final name.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

namespace shardproof::tools {

// Calls `write` with a stream. The bytes go to a temporary file in the folder of `path`, which is renamed to
// `path` once everything is on disk. Path "-" is standard output. Throws UsageError if it cannot be written.
void write_file(const std::string& path, const std::function<void(std::ostream&)>& write);

// Throws UsageError if the folder that `path` would be written to does not exist: said before long work, not after it.
void require_folder(const std::string& path);

}  // namespace shardproof::tools

// Source files and places in them. Every value and instruction of a plan keeps the bytes it came from,
// so that a finding can point at a line of the user's file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::ir {

// Half-open byte range [begin, end) in a source file. An empty span at 0 means "no place known"
// (values built in memory by a planner).
struct Span {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  bool known() const { return end > begin; }
  friend bool operator==(const Span&, const Span&) = default;
};

// One-based line and column; the column counts bytes.
struct LineColumn {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

// The text of one input file with its line starts, computed once.
class SourceFile {
 public:
  SourceFile(std::string path, std::string text);

  const std::string& path() const { return path_; }
  std::string_view text() const { return text_; }
  std::string_view line_text(std::uint32_t line) const;  // without the newline; one-based
  LineColumn line_column(std::uint32_t offset) const;

 private:
  std::string path_;
  std::string text_;
  std::vector<std::uint32_t> line_starts_;
};

}  // namespace shardproof::ir

#include "ir/source.h"

#include <algorithm>
#include <limits>

#include "ir/check.h"

namespace shardproof::ir {

SourceFile::SourceFile(std::string path, std::string text) : path_(std::move(path)), text_(std::move(text)) {
  // Spans count bytes in 32 bits; ReadLimits keeps files below that.
  SHARDPROOF_CHECK(text_.size() <= std::numeric_limits<std::uint32_t>::max());
  line_starts_.push_back(0);
  for (std::size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') line_starts_.push_back(static_cast<std::uint32_t>(i + 1));
  }
}

std::string_view SourceFile::line_text(std::uint32_t line) const {
  SHARDPROOF_CHECK(line >= 1 && line <= line_starts_.size());
  const std::size_t begin = line_starts_[line - 1];
  const std::size_t end = line < line_starts_.size() ? line_starts_[line] - 1 : text_.size();
  std::string_view result = std::string_view(text_).substr(begin, end - begin);
  if (!result.empty() && result.back() == '\r') result.remove_suffix(1);
  return result;
}

LineColumn SourceFile::line_column(std::uint32_t offset) const {
  // One past the end is a place: the end of an unterminated file.
  const auto bounded = std::min<std::uint32_t>(offset, static_cast<std::uint32_t>(text_.size()));
  const auto after = std::upper_bound(line_starts_.begin(), line_starts_.end(), bounded);
  const auto line = static_cast<std::uint32_t>(after - line_starts_.begin());
  return {line, bounded - line_starts_[line - 1] + 1};
}

}  // namespace shardproof::ir

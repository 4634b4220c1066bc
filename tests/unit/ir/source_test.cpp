#include "ir/source.h"

#include <gtest/gtest.h>

#include "ir/check.h"
#include "ir/diagnostic.h"

namespace shardproof::ir {
namespace {

TEST(SourceFile, FindsLinesAndColumns) {
  const SourceFile file("a.json", "{\n  \"x\": 1\r\n}");
  EXPECT_EQ(file.line_text(1), "{");
  EXPECT_EQ(file.line_text(2), "  \"x\": 1");
  EXPECT_EQ(file.line_text(3), "}");
  const auto at = [&](std::uint32_t offset) {
    const LineColumn place = file.line_column(offset);
    return std::pair(place.line, place.column);
  };
  EXPECT_EQ(at(0), std::pair(1U, 1U));
  EXPECT_EQ(at(1), std::pair(1U, 2U));  // the newline ends line 1
  EXPECT_EQ(at(2), std::pair(2U, 1U));
  EXPECT_EQ(at(4), std::pair(2U, 3U));
  EXPECT_EQ(at(13), std::pair(3U, 2U));      // end of file
  EXPECT_EQ(at(1000000), std::pair(3U, 2U));  // clamped
  EXPECT_THROW(file.line_text(0), InternalError);
  EXPECT_THROW(file.line_text(4), InternalError);
}

TEST(SourceFile, MayBeEmpty) {
  const SourceFile file("empty", "");
  EXPECT_EQ(file.line_text(1), "");
  EXPECT_EQ(file.line_column(0).line, 1U);
  EXPECT_EQ(SourceFile("n", "\n").line_text(2), "");
}

TEST(DiagnosticSink, CountsErrorsOnly) {
  DiagnosticSink sink;
  EXPECT_TRUE(sink.ok());
  Diagnostic warning;
  warning.severity = Severity::warning;
  sink.add(warning);
  EXPECT_TRUE(sink.ok());
  sink.error("SP0101", "unknown-axis", "no mesh axis `q`", {3, 4}, "tp", "q", "name an axis");
  EXPECT_EQ(sink.error_count(), 1U);
  EXPECT_FALSE(sink.ok());
  const std::vector<Diagnostic> found = sink.take();
  ASSERT_EQ(found.size(), 2U);
  ASSERT_EQ(found[1].labels.size(), 1U);
  EXPECT_TRUE(found[1].labels[0].primary);
  EXPECT_EQ(found[1].labels[0].span, (Span{3, 4}));
  ASSERT_TRUE(found[1].fix);
  EXPECT_EQ(found[1].fix->applicability, Applicability::display_only);
}

}  // namespace
}  // namespace shardproof::ir

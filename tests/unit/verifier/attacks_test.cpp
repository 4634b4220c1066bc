// Documents that were once proved and must not be (tests/attacks/README.md).
#include <gtest/gtest.h>

#include <filesystem>

#include "ir/read_json.h"
#include "verifier/verify.h"

namespace shardproof::verifier {
namespace {

TEST(Attacks, AreNotProved) {
  int documents = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SHARDPROOF_SOURCE_DIR "/tests/attacks")) {
    if (entry.path().extension() != ".json") continue;
    ++documents;
    ir::DiagnosticSink sink;
    const auto file = ir::read_source_file(entry.path().string(), sink);
    ASSERT_NE(file, nullptr) << entry.path();
    const auto document = ir::read_document(file, sink);
    if (!document) continue;
    const Report report = verify(*document);
    EXPECT_NE(report.verdict, Verdict::equivalent) << entry.path();
    EXPECT_FALSE(report.diagnostics.empty()) << entry.path();
  }
  EXPECT_GT(documents, 40);
}

}  // namespace
}  // namespace shardproof::verifier

// Documents that were once proved, or would be without one of the prover's side conditions, and must not be
// (tests/attacks/README.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "ir/read_json.h"
#include "verifier/verify.h"

namespace shardproof::verifier {
namespace {

const std::filesystem::path kFolder = SHARDPROOF_SOURCE_DIR "/tests/attacks";

std::vector<std::string> documents() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Attacks : public testing::TestWithParam<std::string> {};

TEST_P(Attacks, IsNotProved) {
  ir::DiagnosticSink sink;
  const auto file = ir::read_source_file((kFolder / (GetParam() + ".json")).string(), sink);
  ASSERT_NE(file, nullptr);
  const auto document = ir::read_document(file, sink);
  if (!document) return;
  const Report report = verify(*document);
  EXPECT_NE(report.verdict, Verdict::equivalent);
  EXPECT_FALSE(report.diagnostics.empty());
}

INSTANTIATE_TEST_SUITE_P(All, Attacks, testing::ValuesIn(documents()), [](const testing::TestParamInfo<std::string>& test) { return test.param; });

TEST(Attacks, AreMany) { EXPECT_GT(documents().size(), 40U); }

}  // namespace
}  // namespace shardproof::verifier

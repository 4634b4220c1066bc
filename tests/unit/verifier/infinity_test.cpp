// Minus infinity stands for masked scores. What is not defined with it (0 times it, its difference with itself), and a
// division by zero, must never make a plan prove.
#include <gtest/gtest.h>

#include "ir/read_json.h"
#include "verifier/verify.h"

namespace shardproof::verifier {
namespace {

// A step that replaces w by the value `out` of the given instructions; x, mask and w are f32[8].
Report judge(const std::string& reference_body, const std::string& plan_body) {
  const std::string text = R"({"shardproof": 1, "mesh": [["dp", 2]],
    "reference": {"inputs": [{"name": "x", "type": "f32[8]"}, {"name": "y", "type": "f32[8]"}],
      "state": [{"name": "w", "type": "f32[8]", "role": "param", "next": "out"}],
      "body": [)" + reference_body + R"(]},
    "inputs": [{"name": "x"}, {"name": "y"}],
    "state": [{"name": "w", "next": "out"}],
    "body": [)" + plan_body + "]}";
  ir::DiagnosticSink sink;
  const auto document = ir::read_document(std::make_shared<ir::SourceFile>("infinity.json", text), sink);
  EXPECT_TRUE(document.has_value()) << (sink.diagnostics().empty() ? "" : sink.diagnostics().front().message);
  return document ? verify(*document) : Report{};
}

const std::string kMasked = R"({"out": "i", "op": "iota", "dim": 0, "type": "i64[8]"},
  {"out": "three", "op": "constant", "value": 3, "type": "i64[8]"},
  {"out": "low", "op": "compare", "in": ["i", "three"], "direction": "lt"},
  {"out": "hidden", "op": "constant", "negative_infinity": true, "type": "f32[8]"},
  {"out": "masked", "op": "select", "in": ["low", "x", "hidden"]},)";
const std::string kPlain = R"({"out": "out", "op": "add", "in": ["x", "w"]})";

TEST(Infinity, MaskedScoresThroughExpAreProved) {
  const std::string body = kMasked + R"({"out": "e", "op": "exp", "in": "masked"}, {"out": "out", "op": "add", "in": ["e", "w"]})";
  EXPECT_EQ(judge(body, body).verdict, Verdict::equivalent);
}

TEST(Infinity, DifferenceWithItselfIsNotZero) {
  const std::string plan = R"({"out": "hidden", "op": "constant", "negative_infinity": true, "type": "f32[8]"},
    {"out": "none", "op": "sub", "in": ["hidden", "hidden"]},
    {"out": "xs", "op": "add", "in": ["x", "none"]}, {"out": "out", "op": "add", "in": ["xs", "w"]})";
  EXPECT_NE(judge(kPlain, plan).verdict, Verdict::equivalent);
}

TEST(Infinity, DifferenceOfAKnownValueWithItselfIsNotZero) {
  // `masked` is a value of the reference, so the plan's term for it is one symbol.
  const std::string exps = kMasked + R"({"out": "e", "op": "exp", "in": "masked"},)";
  const std::string reference = exps + R"({"out": "out", "op": "add", "in": ["e", "w"]})";
  for (const char* none : {R"({"out": "none", "op": "sub", "in": ["masked", "masked"]},)",
                           R"({"out": "minus", "op": "neg", "in": "masked"}, {"out": "none", "op": "add", "in": ["masked", "minus"]},)"}) {
    const std::string plan = exps + none + R"({"out": "ew", "op": "add", "in": ["e", "w"]}, {"out": "out", "op": "add", "in": ["ew", "none"]})";
    EXPECT_NE(judge(reference, plan).verdict, Verdict::equivalent);
  }
}

TEST(Infinity, MasksThatCompareRealNumbersHaveNoRule) {
  // Whether a row is masked as a whole depends on the data; laws of numbers do not hold for c x + (1 - c) (-inf).
  const std::string masked = R"({"out": "zero", "op": "constant", "value": 0, "type": "f32[8]"},
    {"out": "kept", "op": "compare", "in": ["y", "zero"], "direction": "gt"},
    {"out": "hidden", "op": "constant", "negative_infinity": true, "type": "f32[8]"},
    {"out": "masked", "op": "select", "in": ["kept", "x", "hidden"]},
    {"out": "top", "op": "reduce_max", "in": "masked", "dims": [0]}, {"out": "e0", "op": "exp", "in": "top"},
    {"out": "e", "op": "broadcast", "in": "e0", "shape": [8], "dims": []}, {"out": "out", "op": "add", "in": ["e", "w"]})";
  const Report report = judge(masked, masked);
  EXPECT_EQ(report.verdict, Verdict::unknown);
  ASSERT_FALSE(report.diagnostics.empty());
  EXPECT_EQ(report.diagnostics[0].code, "SP0905");
}

TEST(Infinity, ARowThatIsMaskedForAllInputsIsNoPremise) {
  // Scores of query 0 are all masked by [key < query]; with [key <= query] no row is.
  const auto softmax = [](const char* direction) {
    return R"({"out": "xs", "op": "broadcast", "in": "x", "shape": [8, 8], "dims": [1]},
      {"out": "query", "op": "iota", "dim": 0, "type": "i64[8,8]"}, {"out": "key", "op": "iota", "dim": 1, "type": "i64[8,8]"},
      {"out": "kept", "op": "compare", "in": ["key", "query"], "direction": ")" + std::string(direction) + R"("},
      {"out": "hidden", "op": "constant", "negative_infinity": true, "type": "f32[8,8]"},
      {"out": "masked", "op": "select", "in": ["kept", "xs", "hidden"]},
      {"out": "top", "op": "reduce_max", "in": "masked", "dims": [1]}, {"out": "tops", "op": "broadcast", "in": "top", "shape": [8, 8], "dims": [0]},
      {"out": "shifted", "op": "sub", "in": ["masked", "tops"]}, {"out": "e", "op": "exp", "in": "shifted"},
      {"out": "s", "op": "reduce_sum", "in": "e", "dims": [1]}, {"out": "out", "op": "add", "in": ["s", "w"]})";
  };
  EXPECT_EQ(judge(softmax("le"), softmax("le")).verdict, Verdict::equivalent);
  EXPECT_EQ(judge(softmax("lt"), softmax("lt")).verdict, Verdict::unknown);
}

TEST(Infinity, ZeroTimesItIsNotZero) {
  // (i >= 3) * -inf + x, which is NaN where i < 3, is not the masked score.
  const std::string reference = kMasked + R"({"out": "e", "op": "exp", "in": "masked"}, {"out": "out", "op": "add", "in": ["e", "w"]})";
  const std::string plan = R"({"out": "i", "op": "iota", "dim": 0, "type": "i64[8]"},
    {"out": "three", "op": "constant", "value": 3, "type": "i64[8]"},
    {"out": "high", "op": "compare", "in": ["i", "three"], "direction": "ge"},
    {"out": "one_if_high", "op": "cast", "in": "high", "dtype": "f32"},
    {"out": "hidden", "op": "constant", "negative_infinity": true, "type": "f32[8]"},
    {"out": "bias", "op": "mul", "in": ["one_if_high", "hidden"]},
    {"out": "masked", "op": "add", "in": ["x", "bias"]},
    {"out": "e", "op": "exp", "in": "masked"}, {"out": "out", "op": "add", "in": ["e", "w"]})";
  EXPECT_NE(judge(reference, plan).verdict, Verdict::equivalent);
}

TEST(Infinity, MinusItIsNotIt) {
  const std::string plan = kMasked + R"({"out": "negated", "op": "neg", "in": "masked"}, {"out": "e", "op": "exp", "in": "negated"},
    {"out": "f", "op": "reciprocal", "in": "e"}, {"out": "out", "op": "add", "in": ["f", "w"]})";
  const std::string reference = kMasked + R"({"out": "e", "op": "exp", "in": "masked"}, {"out": "out", "op": "add", "in": ["e", "w"]})";
  EXPECT_NE(judge(reference, plan).verdict, Verdict::equivalent);
}

TEST(Infinity, PremisesThatMayContradictEachOtherAreMarked) {
  const std::string roots = R"({"out": "r", "op": "sqrt", "in": "x"}, {"out": "minus", "op": "neg", "in": "x"}, {"out": "s", "op": "log", "in": "minus"},
    {"out": "rs", "op": "add", "in": ["r", "s"]}, {"out": "out", "op": "add", "in": ["rs", "w"]})";
  const Report report = judge(roots, roots);
  EXPECT_EQ(report.verdict, Verdict::unknown);
  int marked = 0, unmarked = 0;
  for (const std::string& text : report.assumptions) ++(text.find("no inputs were found") != std::string::npos ? marked : unmarked);
  EXPECT_EQ(marked, 1);  // -x is not negative
  EXPECT_EQ(unmarked, 3);  // among them: -x is not zero
}

TEST(Infinity, DivisionByZeroIsNoValue) {
  const std::string plan = R"({"out": "zero", "op": "sub", "in": ["y", "y"]}, {"out": "q", "op": "div", "in": ["zero", "zero"]},
    {"out": "s", "op": "mul", "in": ["q", "zero"]}, {"out": "xs", "op": "add", "in": ["x", "s"]}, {"out": "out", "op": "add", "in": ["xs", "w"]})";
  EXPECT_NE(judge(kPlain, plan).verdict, Verdict::equivalent);
}

}  // namespace
}  // namespace shardproof::verifier

// From "not proved" to "disproved": what counts as a counterexample, and what does not.
#include "verifier/disproof.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "ir/read_json.h"
#include "verifier/hints.h"
#include "verifier/render_text.h"
#include "verifier/session.h"

namespace shardproof::verifier {
namespace {

// Reference and plan over x : f32[4], cut over two ranks, and w : f32[2], which both hold.
Report judge(const std::string& reference, const std::string& plan, bool assume_defined = false) {
  const std::string text = R"({"shardproof": 1, "mesh": [["dp", 2]], "reference": {
    "inputs": [{"name": "x", "type": "f32[4]"}],
    "state": [{"name": "w", "type": "f32[2]", "role": "param", "next": "w2"}], "body": [)" + reference + R"(]},
    "inputs": [{"name": "x", "dims": [["dp"]]}],
    "state": [{"name": "w", "next": "w2"}], "body": [)" + plan + "]}";
  ir::DiagnosticSink sink;
  const std::optional<ir::Document> document = ir::read_document(std::make_shared<ir::SourceFile>("plan.json", text), sink);
  EXPECT_TRUE(document) << text;
  VerifyOptions options;
  options.assume_defined = assume_defined;
  return verify(*document, options);
}

// w2 = w * f(sum of x)
std::string reference_with(const std::string& f) {
  return R"({"out": "s", "op": "reduce_sum", "in": "x", "dims": [0]},)" + f +
         R"({"out": "b", "op": "broadcast", "in": "f", "shape": [2], "dims": []}, {"out": "w2", "op": "mul", "in": ["w", "b"]})";
}
std::string plan_with(const std::string& f) {
  return R"({"out": "s1", "op": "reduce_sum", "in": "x", "dims": [0]},
            {"out": "s", "op": "all_reduce", "in": "s1", "axes": "dp", "reduce": "sum"},)" + f +
         R"({"out": "b", "op": "broadcast", "in": "f", "shape": [2], "dims": []}, {"out": "w2", "op": "mul", "in": ["w", "b"]})";
}
std::string unary(const std::string& op) { return R"({"out": "f", "op": ")" + op + R"(", "in": "s"},)"; }

TEST(Disproof, ShowsInputsThatAreSimpleAndTrue) {
  const Report report = judge(reference_with(unary("neg")), plan_with(unary("abs")));
  ASSERT_EQ(report.verdict, Verdict::not_equivalent);
  EXPECT_EQ(exit_code(report.verdict), 1);
  ASSERT_TRUE(report.counterexample);
  const Counterexample& c = *report.counterexample;
  std::map<std::string, std::vector<double>> inputs;
  for (const Counterexample::Input& input : c.inputs) inputs[input.name] = input.values;
  ASSERT_TRUE(inputs.contains("x") && inputs.contains("w")) << "both are needed for a difference";
  double sum = 0;
  for (const double x : inputs["x"]) {
    EXPECT_EQ(x, 1);  // as simple as it can be
    sum += x;
  }
  EXPECT_EQ(c.expected, -sum * inputs["w"][0]);
  EXPECT_EQ(c.found, std::abs(sum) * inputs["w"][0]);
  EXPECT_EQ(c.subject, "state `w` after the step");
  EXPECT_EQ(c.reference_element, "w[0]");
  EXPECT_EQ(report.obligations.refuted, 1);
  EXPECT_EQ(report.obligations.unknown, 0);
  EXPECT_TRUE(report.unknown_reason.empty());
}

TEST(Disproof, LeavesRightPlansAlone) {
  // sigmoid(x) = 1 - sigmoid(-x): beyond the prover, right, and the field knows it.
  const Report report = judge(reference_with(unary("sigmoid")), plan_with(R"(
      {"out": "n", "op": "neg", "in": "s"}, {"out": "t", "op": "sigmoid", "in": "n"},
      {"out": "one", "op": "constant", "value": 1, "type": "f32[]"}, {"out": "f", "op": "sub", "in": ["one", "t"]},)"));
  EXPECT_NE(report.verdict, Verdict::not_equivalent);
  EXPECT_FALSE(report.counterexample);
  if (report.verdict == Verdict::unknown) {
    EXPECT_NE(report.no_counterexample.find("found no difference"), std::string::npos) << report.no_counterexample;
  }
}

TEST(Disproof, RoundingIsNoDifference) {
  // sin(x)^2 + cos(x)^2 = 1 holds in no field of ours and up to rounding in floats.
  const Report report = judge(reference_with(R"({"out": "f", "op": "constant", "value": 1, "type": "f32[]"},)"), plan_with(R"(
      {"out": "a", "op": "sin", "in": "s"}, {"out": "b1", "op": "cos", "in": "s"}, {"out": "a2", "op": "mul", "in": ["a", "a"]},
      {"out": "b2", "op": "mul", "in": ["b1", "b1"]}, {"out": "f", "op": "add", "in": ["a2", "b2"]},)"));
  EXPECT_EQ(report.verdict, Verdict::unknown);
  EXPECT_NE(report.no_counterexample.find("law of the reals"), std::string::npos) << report.no_counterexample;
}

TEST(Disproof, TinyDifferencesCount) {
  const auto plus = [](const char* eps) {
    return std::string(R"({"out": "e", "op": "constant", "type": "f32[]", "value": )") + eps +
           R"(}, {"out": "f", "op": "add", "in": ["s", "e"]},)";
  };
  EXPECT_EQ(judge(reference_with(plus("1e-8")), plan_with(plus("1e-8"))).verdict, Verdict::equivalent);
  EXPECT_EQ(judge(reference_with(plus("1e-8")), plan_with(plus("2e-8"))).verdict, Verdict::not_equivalent);
}

TEST(Disproof, UndefinedWhereTheReferenceIsNot) {
  const Report report = judge(reference_with(R"({"out": "f", "op": "neg", "in": "s"}, )"), plan_with(
      R"({"out": "q", "op": "div", "in": ["s", "s1"]}, {"out": "p", "op": "mul", "in": ["q", "s1"]}, {"out": "f", "op": "neg", "in": "p"},)"));
  ASSERT_EQ(report.verdict, Verdict::not_equivalent) << report.no_counterexample;
  EXPECT_TRUE(std::isnan(report.counterexample->found));
  EXPECT_TRUE(std::isfinite(report.counterexample->expected));
}

TEST(Disproof, InputsOnWhichTheReferenceIsUndefinedDoNotCount) {
  // Both divide by the sum; where it is 0 the plan gives 0 and the reference nothing.
  const std::string zero = R"({"out": "z", "op": "constant", "value": 0, "type": "f32[]"}, {"out": "is", "op": "compare", "in": ["s", "z"], "direction": "eq"},)";
  const Report report = judge(reference_with(unary("reciprocal")), plan_with(
      zero + R"({"out": "r", "op": "reciprocal", "in": "s"}, {"out": "f", "op": "select", "in": ["is", "z", "r"]},)"));
  EXPECT_NE(report.verdict, Verdict::not_equivalent);
}

TEST(Disproof, AConditionOfSeveralInstructionsIsAssumedOnce) {
  const Report report = judge(reference_with(unary("stop_gradient")), plan_with(R"({"out": "q", "op": "div", "in": ["s", "s"]}, {"out": "r", "op": "mul", "in": ["q", "s"]},
      {"out": "q2", "op": "reciprocal", "in": "s"}, {"out": "f", "op": "mul", "in": ["r", "s", "q2"]},)"), true);
  EXPECT_EQ(report.verdict, Verdict::equivalent);
  const auto is_condition = [](const std::string& text) { return text.find("is not zero") != std::string::npos; };
  EXPECT_EQ(std::count_if(report.assumptions.begin(), report.assumptions.end(), is_condition), 1);
}

TEST(Disproof, LargeExponentsDoNotCount) {
  // exp(1000 s) / exp(999 s) = exp(s) overflows in floats for most s that differ from 0.
  const auto scaled = [](const char* name, const char* value, const char* out) {
    return std::string(R"({"out": ")") + name + R"(", "op": "constant", "type": "f32[]", "value": )" + value +
           R"(}, {"out": ")" + out + R"(", "op": "mul", "in": ["s", ")" + name + R"("]},)";
  };
  const Report report = judge(reference_with(unary("exp")), plan_with(
      scaled("k", "100000", "s1000") + scaled("k2", "99999", "s999") +
      R"({"out": "a", "op": "exp", "in": "s1000"}, {"out": "c", "op": "exp", "in": "s999"}, {"out": "f", "op": "div", "in": ["a", "c"]},)"));
  EXPECT_NE(report.verdict, Verdict::not_equivalent);
}

TEST(Disproof, ReadingOutsideOfATensor) {
  const std::string whole = R"({"out": "s", "op": "slice", "in": "w", "dim": 0, "start": 0, "size": 1}, {"out": "f1", "op": "reshape", "in": "s", "shape": []}, {"out": "b", "op": "broadcast", "in": "f1", "shape": [2], "dims": []}, {"out": "w2", "op": "mul", "in": ["w", "b"]})";
  std::string shifted = whole;
  shifted.replace(shifted.find("\"start\": 0"), 10, "\"start\": \"2*dp\"");
  EXPECT_EQ(judge(whole, whole).verdict, Verdict::equivalent);
  const Report report = judge(whole, shifted);
  ASSERT_EQ(report.verdict, Verdict::not_equivalent);
  EXPECT_EQ(report.counterexample->rank, "rank 1 (dp=1)");
  EXPECT_NE(report.counterexample->out_of_bounds.find("slice [2, 2] leaves extent 2"), std::string::npos);
}

TEST(Disproof, RowsThatAreMaskedWhole) {
  // exp(x - max) of a row of minus infinity is undefined, and so is what the plan makes of it.
  const auto masked = [](const char* direction) {
    return std::string(R"({"out": "i", "op": "iota", "dim": 0, "type": "i32[2]"}, {"out": "zero", "op": "constant", "value": 0, "type": "i32[2]"},
      {"out": "c", "op": "compare", "in": ["i", "zero"], "direction": ")") + direction + R"("},
      {"out": "low", "op": "constant", "negative_infinity": true, "type": "f32[2]"}, {"out": "m", "op": "select", "in": ["c", "w", "low"]},
      {"out": "top", "op": "reduce_max", "in": "m", "dims": [0]}, {"out": "t", "op": "broadcast", "in": "top", "shape": [2], "dims": []},
      {"out": "d", "op": "sub", "in": ["m", "t"]}, {"out": "w2", "op": "exp", "in": "d"})";
  };
  EXPECT_EQ(judge(masked("ge"), masked("ge")).verdict, Verdict::equivalent);
  EXPECT_EQ(judge(masked("ge"), masked("lt")).verdict, Verdict::not_equivalent);
}

TEST(Disproof, NumbersThatSwallowOthersDoNotCount) {
  // (s + 1e30) - 1e30 = s, and 0 in floats.
  const Report report = judge(reference_with(unary("neg")), plan_with(R"({"out": "k", "op": "constant", "type": "f32[]", "value": "1000000000000000000"},
      {"out": "k2", "op": "mul", "in": ["k", "k"]}, {"out": "a", "op": "add", "in": ["s", "k2"]}, {"out": "d", "op": "sub", "in": ["k2", "a"]},
      {"out": "f", "op": "max", "in": ["d", "d"]},)"));
  EXPECT_NE(report.verdict, Verdict::not_equivalent);
}

// Beside 1e36 both precisions lose x, and the field does not know that the square of a root is the number: neither is a
// difference.
TEST(Disproof, LostDigitsBesideALawThatTheFieldLacksDoNotCount) {
  const std::string shared = R"({"out": "a2", "op": "mul", "in": ["x", "x"]}, {"out": "pa", "op": "add", "in": ["a2", "one"]},)";
  const std::string ends = R"({"out": "b", "op": "broadcast", "in": "s", "shape": [2], "dims": []}, {"out": "w2", "op": "mul", "in": ["w", "b"]})";
  const Report report = judge(R"({"out": "one", "op": "constant", "value": 1, "type": "f32[4]"},)" + shared + R"({"out": "r", "op": "sqrt", "in": "pa"},
            {"out": "p", "op": "mul", "in": ["r", "r"]}, {"out": "s", "op": "reduce_sum", "in": "p", "dims": [0]},)" + ends,
                              R"({"out": "one", "op": "constant", "value": 1, "type": "f32[2]"},)" + shared + R"(
            {"out": "big", "op": "constant", "value": 1000000000000000000, "type": "f32[2]"}, {"out": "huge", "op": "mul", "in": ["big", "big"]},
            {"out": "q", "op": "add", "in": ["pa", "huge"]}, {"out": "p", "op": "sub", "in": ["q", "huge"]},
            {"out": "s1", "op": "reduce_sum", "in": "p", "dims": [0]}, {"out": "s", "op": "all_reduce", "in": "s1", "axes": "dp", "reduce": "sum"},)" + ends);
  EXPECT_NE(report.verdict, Verdict::not_equivalent);
  EXPECT_FALSE(report.counterexample);
}

// A loss over tokens in a mask, each rank with its own count: `loss` and `dw`, as reductions of what a rank has.
Report masked_mean(const std::string& plan) {
  const std::string text = R"({"shardproof": 1, "mesh": [["dp", 2]], "reference": {
    "inputs": [{"name": "e", "type": "f32[8]"}, {"name": "mask", "type": "f32[8]"}],
    "outputs": [{"name": "loss"}, {"name": "dw"}], "body": [
      {"out": "cnt", "op": "reduce_sum", "in": ["mask"], "dims": [0]},
      {"out": "sum", "op": "einsum", "in": ["e", "mask"], "spec": "b,b->"},
      {"out": "loss", "op": "div", "in": ["sum", "cnt"]},
      {"out": "cntb", "op": "broadcast", "in": ["cnt"], "dims": [], "shape": [4]},
      {"out": "g", "op": "broadcast", "in": ["sum"], "dims": [], "shape": [4]},
      {"out": "dw", "op": "div", "in": ["g", "cntb"]}]},
    "inputs": [{"name": "e", "dims": [["dp"]]}, {"name": "mask", "dims": [["dp"]]}],
    "outputs": [{"name": "loss"}, {"name": "dw"}], "body": [
      {"out": "cnt", "op": "reduce_sum", "in": ["mask"], "dims": [0]},
      {"out": "mine", "op": "einsum", "in": ["e", "mask"], "spec": "b,b->"},)" + plan + "]}";
  ir::DiagnosticSink sink;
  const std::optional<ir::Document> document = ir::read_document(std::make_shared<ir::SourceFile>("plan.json", text), sink);
  EXPECT_TRUE(document) << text;
  return verify(*document, {});
}

TEST(Disproof, AMeanOfMeansOfFewTokens) {
  const Report report = masked_mean(R"(
      {"out": "l", "op": "div", "in": ["mine", "cnt"]},
      {"out": "loss", "op": "all_reduce", "in": ["l"], "axes": "dp", "reduce": "avg"},
      {"out": "dw", "op": "broadcast", "in": ["loss"], "dims": [], "shape": [4]})");
  EXPECT_EQ(report.verdict, Verdict::not_equivalent);
  EXPECT_TRUE(report.counterexample);
}

// The count is used in two places; the first is mended where it is read, the second at the cause of both.
TEST(Disproof, OneCauseIsOneFindingAndSaysWhatTheRanksHold) {
  const Report report = masked_mean(R"(
      {"out": "sum", "op": "all_reduce", "in": ["mine"], "axes": "dp", "reduce": "sum"},
      {"out": "loss", "op": "div", "in": ["sum", "cnt"]},
      {"out": "cntb", "op": "broadcast", "in": ["cnt"], "dims": [], "shape": [4]},
      {"out": "g", "op": "broadcast", "in": ["sum"], "dims": [], "shape": [4]},
      {"out": "dw", "op": "div", "in": ["g", "cntb"]})");
  ASSERT_EQ(report.verdict, Verdict::not_equivalent);
  ASSERT_EQ(report.diagnostics.size(), 1U);
  EXPECT_EQ(report.diagnostics[0].code, "SP0201");
  EXPECT_EQ(report.diagnostics[0].subject.value, "cnt");
  ASSERT_TRUE(report.diagnostics[0].fix);
  EXPECT_EQ(report.diagnostics[0].fix->applicability, ir::Applicability::verified);
  ASSERT_TRUE(report.counterexample);
  ASSERT_EQ(report.counterexample->held.size(), 2U);
  EXPECT_EQ(report.counterexample->held[0].value, "loss");
  EXPECT_NE(report.counterexample->held[0].text.find("reads `cnt`: summands over dp of `cnt`"), std::string::npos)
      << report.counterexample->held[0].text;
}

// The squares of two cut gradients are added up before those of one that all ranks hold; and a buffer packs summands with what
// is whole. Execution says what each is made of.
TEST(Disproof, ExecutionSuggestsChanges) {
  const std::string text = R"({"shardproof": 1, "mesh": [["tp", 2]], "reference": {
    "inputs": [{"name": "a", "type": "f32[4]"}, {"name": "b", "type": "f32[6]"}, {"name": "c", "type": "f32[3]"}],
    "outputs": [{"name": "norm"}, {"name": "flat"}], "body": [
      {"out": "sa", "op": "einsum", "in": ["a", "a"], "spec": "i,i->"},
      {"out": "sb", "op": "einsum", "in": ["b", "b"], "spec": "i,i->"},
      {"out": "sc", "op": "einsum", "in": ["c", "c"], "spec": "i,i->"},
      {"out": "sab", "op": "add", "in": ["sa", "sb"]},
      {"out": "s", "op": "add", "in": ["sab", "sc"]},
      {"out": "one", "op": "reshape", "in": ["sa"], "shape": [1]},
      {"out": "flat", "op": "concat", "in": ["c", "one"], "dim": 0},
      {"out": "norm", "op": "sqrt", "in": ["s"]}]},
    "inputs": [{"name": "a", "dims": [["tp"]]}, {"name": "b", "dims": [["tp"]]}, {"name": "c"}],
    "outputs": [{"name": "norm"}, {"name": "flat"}], "body": [
      {"out": "sa", "op": "einsum", "in": ["a", "a"], "spec": "i,i->"},
      {"out": "sb", "op": "einsum", "in": ["b", "b"], "spec": "i,i->"},
      {"out": "sc", "op": "einsum", "in": ["c", "c"], "spec": "i,i->"},
      {"out": "sab", "op": "add", "in": ["sa", "sb"]},
      {"out": "s", "op": "add", "in": ["sab", "sc"]},
      {"out": "one", "op": "reshape", "in": ["sa"], "shape": [1]},
      {"out": "flat", "op": "concat", "in": ["c", "one"], "dim": 0},
      {"out": "norm", "op": "sqrt", "in": ["s"]}]})";
  ir::DiagnosticSink sink;
  const std::optional<ir::Document> document = ir::read_document(std::make_shared<ir::SourceFile>("plan.json", text), sink);
  ASSERT_TRUE(document);
  Session session(*document, {});
  session.run_reference();
  session.run_plan();
  session.check_claims();
  std::set<std::string> suggested;
  for (const Repair& repair : hinted_changes(session)) suggested.insert(repair.code + " " + session.plan_program().value(repair.value).name + " " + repair.axis);
  EXPECT_EQ(suggested, (std::set<std::string>{"SP0201 one tp", "SP0201 sab tp"}));
}

TEST(Disproof, IsPrinted) {
  const Report report = judge(reference_with(unary("neg")), plan_with(unary("abs")));
  std::ostringstream out;
  render_full(report, nullptr, "plan.json", {}, out);
  EXPECT_NE(out.str().find("counterexample, replayed in float64:\n  w : f32[2] = all 1\n  x : f32[4] = all 1\n"
                           "  state `w` after the step: the reference has -4 at w[0], rank 0 (dp=0) has 4 at its [0]\n"),
            std::string::npos)
      << out.str();
}

}  // namespace
}  // namespace shardproof::verifier

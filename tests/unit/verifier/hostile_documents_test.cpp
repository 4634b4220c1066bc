// Documents that are well-formed and make little sense: the verifier ends in time with a verdict, whatever they say,
// and proves none that is wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "ir/read_json.h"
#include "ir/validate.h"
#include "verifier/verify.h"

namespace shardproof::verifier {
namespace {

// The first plan in a page of documentation.
std::string plan_in(const std::string& page) {
  std::ifstream file(SHARDPROOF_SOURCE_DIR "/" + page);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t begin = text.find("```json\n") + 8;
  return text.substr(begin, text.find("```", begin) - begin);
}

// Sanitizers make each check some forty times slower, and are after crashes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kEvery = 12;
#else
constexpr int kEvery = 1;
#endif

// Loops, macro ops, slices by coordinates, integer tensors, padding.
constexpr const char* kMixed = R"({
  "shardproof": 1,
  "mesh": [["dp", 2], ["tp", 4]],
  "reference": {
    "inputs": [{"name": "ids", "type": "i32[16,8]", "below": 30}],
    "state": [{"name": "e", "type": "f32[30,12]", "role": "param", "next": "e2"}, {"name": "g", "type": "f32[12]", "role": "param", "next": "g"}],
    "outputs": [{"name": "loss", "value": "total"}],
    "body": [
      {"out": "x", "op": "take", "in": ["e", "ids"], "dim": 0},
      {"out": "n", "op": "rms_norm", "in": ["x", "g"], "eps": 0.001},
      {"out": "p", "op": "softmax", "in": "n", "dim": 2},
      {"out": "total", "op": "reduce_sum", "in": "p", "dims": [0, 1, 2]},
      {"out": "ed", "op": "scatter_add", "in": ["n", "ids"], "dim": 0, "size": 30},
      {"out": "e2", "op": "sub", "in": ["e", "ed"]}]},
  "inputs": [{"name": "ids", "dims": [[2, "dp", 4], []]}],
  "state": [{"name": "e", "dims": [{"digits": ["tp"], "pad": 32}, []], "next": "e2"}, {"name": "g", "next": "g"}],
  "outputs": [{"name": "loss", "value": "l"}],
  "body": [
    {"out": "zero", "op": "constant", "value": 0, "type": "f32[]"},
    {"out": "zeros", "op": "constant", "value": 0, "type": "f32[32,12]"},
    {"out": "whole", "op": "all_gather", "in": "e", "axes": "tp", "dim": 0},
    {"op": "loop", "index": "m", "trip": 2, "carry": [{"init": "zero", "arg": "s", "next": "s1", "out": "mine"},
      {"init": "zeros", "arg": "d", "next": "d1", "out": "grad"}], "body": [
      {"out": "part", "op": "slice", "in": "ids", "dim": 0, "start": "4*m", "size": 4},
      {"out": "x", "op": "take", "in": ["whole", "part"], "dim": 0},
      {"out": "n", "op": "rms_norm", "in": ["x", "g"], "eps": 0.001},
      {"out": "p", "op": "softmax", "in": "n", "dim": 2},
      {"out": "t", "op": "reduce_sum", "in": "p", "dims": [0, 1, 2]},
      {"out": "s1", "op": "add", "in": ["s", "t"]},
      {"out": "ed", "op": "scatter_add", "in": ["n", "part"], "dim": 0, "size": 32},
      {"out": "d1", "op": "add", "in": ["d", "ed"]}]},
    {"out": "l", "op": "all_reduce", "in": "mine", "axes": "dp", "reduce": "sum"},
    {"out": "g1", "op": "all_reduce", "in": "grad", "axes": ["dp"], "reduce": "sum"},
    {"out": "own", "op": "slice", "in": "g1", "dim": 0, "start": "8*tp", "size": 8},
    {"out": "e2", "op": "sub", "in": ["e", "own"]}]
})";

struct Token {
  std::size_t begin;
  std::string text;
};
// Values: strings that are no keys, numbers, lists of these. Not the plan's name and roles, which mean nothing here.
std::vector<Token> tokens_of(const std::string& text) {
  std::vector<Token> tokens;
  std::string key;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    if (text[i] == '"') {
      end = text.find('"', i + 1) + 1;
      if (text[end] == ':') {
        key = text.substr(i, end - i);
        i = end;
        continue;
      }
      if (key == "\"role\"" || (key == "\"name\"" && i < 50)) {
        i = end;
        continue;
      }
    } else if (text[i] == '-' || (text[i] >= '0' && text[i] <= '9')) {
      end = text.find_first_not_of("0123456789.eE+-", i);
    } else if (text[i] == '[' && text.find_first_of("[]{", i + 1) == text.find(']', i)) {
      tokens.push_back({i, text.substr(i, text.find(']', i) + 1 - i)});  // and what is in it
      ++i;
      continue;
    } else {
      ++i;
      continue;
    }
    tokens.push_back({i, text.substr(i, end - i)});
    i = end;
  }
  return tokens;
}

// True if it is proved. A document that is refused before is passed over.
bool check(const std::string& text, int& well_formed) {
  ir::DiagnosticSink sink;
  const auto document = ir::read_document(std::make_shared<ir::SourceFile>("hostile.json", text), sink);
  if (!document) return false;
  ir::validate(*document, sink);
  if (!sink.ok()) return false;
  ++well_formed;
  VerifyOptions options;
  options.timeout_seconds = 2;
  options.max_defects = 1;
  Report report;
  EXPECT_NO_THROW(report = verify(*document, options)) << text;
  EXPECT_NE(report.verdict, Verdict::invalid) << text;
  const bool errors = std::any_of(report.diagnostics.begin(), report.diagnostics.end(),
                                  [](const ir::Diagnostic& d) { return d.severity == ir::Severity::error; });
  EXPECT_EQ(report.verdict == Verdict::equivalent, !errors) << text;
  EXPECT_LT(report.statistics.seconds, 60) << text;
  return report.verdict == Verdict::equivalent;
}

// Every value of the document for every other of its kind, and some numbers. What is still proved, as "old -> new".
std::vector<std::string> proved_changes(const std::string& seed, int& well_formed) {
  const std::vector<std::string> numbers = {"0",
                                            "1",
                                            "2",
                                            "3",
                                            "7",
                                            "1e-18",
                                            "-1",
                                            "4294967296",
                                            "1099511627776",
                                            "9223372036854775807",
                                            "\"1/3\"",
                                            "\"1099511627776*tp\"",
                                            "\"m\"",
                                            "\"tp/2 + dp\""};
  std::set<std::string> words, lists = {"[]", "[0]", "[1]", "[\"dp\", \"tp\"]", "[\"tp\", \"dp\"]"};
  const std::vector<Token> tokens = tokens_of(seed);
  for (const Token& token : tokens) {
    if (token.text[0] == '"') words.insert(token.text);
    if (token.text[0] == '[') lists.insert(token.text);
  }
  std::vector<std::string> proved;
  int number = 0;
  for (const Token& token : tokens) {
    const auto replace = [&](const std::string& with) {
      if (with == token.text || ++number % kEvery != 0) return;
      const std::string text = std::string(seed).replace(token.begin, token.text.size(), with);
      if (check(text, well_formed)) proved.push_back(token.text + " -> " + with);
    };
    const char kind = token.text[0];
    if (kind == '"')
      std::for_each(words.begin(), words.end(), replace);
    else if (kind == '[')
      std::for_each(lists.begin(), lists.end(), replace);
    else
      std::for_each(numbers.begin(), numbers.end(), replace);
  }
  return proved;
}

// Each list was looked through: every change in it leaves the plan right. The last one: microbatches of columns.
struct Seed {
  const char* name;
  std::string text;
  int well_formed;  // at least so many changes reach the verifier
  std::vector<std::string> proved;
};
void PrintTo(const Seed& seed, std::ostream* out) {
  *out << seed.name;
}
const std::vector<Seed>& seeds() {
  static const std::vector<Seed> all = {
      {"PageOfTheFormat",
       plan_in("ir/README.md"),
       60,
       {"2 -> 1", R"("f32[8,16]" -> "f32[16,16]")", R"("f32[8,16]" -> "f32[32,16]")",
        R"(["dp", "tp"] -> ["tp", "dp"])"}},
      {"FirstPage",
       plan_in("README.md"),
       20,
       {"2 -> 1", "2 -> 1", R"("f32[8,16]" -> "f32[32,16]")", R"("f32[32,16]" -> "f32[8,16]")", R"(["tp"] -> [])"}},
      {"Mixed", kMixed, 100, {"30 -> 1", "30 -> 2", "30 -> 3", "30 -> 7", R"([2, "dp", 4] -> ["dp"])", "0 -> 1"}},
  };
  return all;
}

class HostileDocuments : public testing::TestWithParam<Seed> {};

TEST_P(HostileDocuments, ChangedInOneValueEndWithAVerdict) {
  int well_formed = 0;
  EXPECT_TRUE(check(GetParam().text, well_formed)) << GetParam().text;
  const std::vector<std::string> proved = proved_changes(GetParam().text, well_formed);
  if (kEvery == 1) {
    EXPECT_EQ(proved, GetParam().proved);
  } else {
    for (const std::string& change : proved)
      EXPECT_NE(std::find(GetParam().proved.begin(), GetParam().proved.end(), change), GetParam().proved.end())
          << change;
  }
  EXPECT_GE(well_formed, GetParam().well_formed / kEvery / 2);
}

INSTANTIATE_TEST_SUITE_P(Plans, HostileDocuments, testing::ValuesIn(seeds()),
                         [](const testing::TestParamInfo<Seed>& test) { return test.param.name; });

}  // namespace
}  // namespace shardproof::verifier

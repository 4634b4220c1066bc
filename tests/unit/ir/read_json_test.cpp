#include "ir/read_json.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "ir/op_schema.h"
#include "ir/read_json_tree.h"
#include "ir/validate.h"

namespace shardproof::ir {
namespace {

std::string file_text(const std::string& path) {
  std::ifstream file(std::string(SHARDPROOF_SOURCE_DIR) + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The first block marked as JSON in the format's documentation.
std::string readme_example() {
  const std::string text = file_text("ir/README.md");
  const std::size_t begin = text.find("```json\n");
  const std::size_t end = text.find("```", begin + 8);
  return begin == std::string::npos ? std::string{} : text.substr(begin + 8, end - begin - 8);
}

struct Outcome {
  std::optional<Document> document;
  std::shared_ptr<const SourceFile> source;
  std::vector<Diagnostic> diagnostics;

  std::string codes() const {
    std::string result;
    for (const Diagnostic& diagnostic : diagnostics) result += (result.empty() ? "" : " ") + diagnostic.code;
    return result;
  }
  // The text under the primary label.
  std::string marked(std::size_t i = 0) const {
    for (const Label& label : diagnostics.at(i).labels) {
      if (label.primary) return std::string(source->text().substr(label.span.begin, label.span.end - label.span.begin));
    }
    return {};
  }
};

Outcome read(std::string text, const ReadLimits& limits = {}) {
  Outcome outcome;
  outcome.source = std::make_shared<SourceFile>("test.json", std::move(text));
  DiagnosticSink sink;
  outcome.document = read_document(outcome.source, sink, limits);
  outcome.diagnostics = sink.take();
  return outcome;
}

// A plan file around a reference body and a plan body.
std::string plan_text(const std::string& body, const std::string& extra = "") {
  return R"({"shardproof": 1, "mesh": [["dp", 2], ["tp", 4]], "reference": {
    "inputs": [{"name": "x", "type": "f32[8,16]"}], "state": [{"name": "w", "type": "f32[32,16]", "next": "w"}],
    "outputs": [{"name": "y"}], "body": [{"out": "y", "op": "einsum", "in": ["x", "w"], "spec": "bh,fh->bf"}]},
    "inputs": [{"name": "x", "dims": [["dp"], []]}], "state": [{"name": "w", "dims": [["tp"], []], "next": "w"}],
    "outputs": [{"name": "y", "value": "y", "dims": [["dp"], ["tp"]]}])" +
         extra + R"(, "body": [)" + body + "]}";
}
const std::string good_body = R"({"out": "y", "op": "einsum", "in": ["x", "w"], "spec": "bh,fh->bf"})";

TEST(ReadJson, ReadsTheExampleOfTheDocumentation) {
  const Outcome outcome = read(readme_example());
  ASSERT_EQ(outcome.codes(), "");
  ASSERT_TRUE(outcome.document);
  DiagnosticSink sink;
  validate(*outcome.document, sink);
  EXPECT_TRUE(sink.ok()) << sink.diagnostics().front().message;
  const Plan& plan = outcome.document->plan;
  ASSERT_EQ(plan.stages.size(), 1U);
  const StageProgram& stage = plan.stages[0];
  EXPECT_EQ(to_string(stage.program.value(stage.inputs[0].value).type), "f32[4,16]");
  EXPECT_EQ(to_string(stage.program.value(stage.state[0].value).type), "f32[16,16]");
  EXPECT_EQ(stage.program.body[6].attributes.get<Rational>("value"), Rational(-1, 500));
}

TEST(ReadJson, SpansPointAtNames) {
  const Outcome outcome = read(plan_text(good_body));
  ASSERT_TRUE(outcome.document) << outcome.codes();
  const Program& program = outcome.document->plan.stages[0].program;
  const Span span = program.value(program.body[0].outputs[0]).span;
  EXPECT_EQ(outcome.source->text().substr(span.begin, span.end - span.begin), "\"y\"");
  const Span whole = program.body[0].span;
  EXPECT_EQ(outcome.source->text().substr(whole.begin, whole.end - whole.begin), good_body);
}

TEST(ReadJson, SpansSurviveEscapesAndUnicode) {
  const Outcome outcome = read(
      "{\"shardproof\": 1, \"name\": \"a\\u00e9\\\"\\\\ \\ud83d\\ude00 \xC3\xA9\", \"nmae\": 1.5e3, \"reference\": "
      "{}}");
  ASSERT_EQ(outcome.codes(), "SP0002");
  EXPECT_EQ(outcome.marked(), "\"nmae\"");
  ASSERT_TRUE(outcome.diagnostics[0].fix);
  EXPECT_EQ(outcome.diagnostics[0].fix->edits.at(0).content, "\"name\"");
}

TEST(ReadJson, EscapedKeysAndNamesAreDecoded) {
  const Outcome outcome =
      read(R"({"shard\u0070roof": 1, "name": "tab\tline\n\u00e9", "reference": {"outputs": [], "body": []}})");
  ASSERT_TRUE(outcome.document) << outcome.codes();
  EXPECT_EQ(outcome.document->plan.name, "tab\tline\n\xC3\xA9");
}

TEST(ReadJson, SyntaxErrorsHaveAPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"", ""},
                                                                  {"{", "{"},
                                                                  {"[1,]", "]"},
                                                                  {"{\"shardproof\": 1,}", "}"},
                                                                  {"{\"a\" 1}", "1"},
                                                                  {"nul", "l"},
                                                                  {"1 2", "2"},
                                                                  {"{\"a\": 01}", "1"},
                                                                  {"{\"a\": 1e999}", "9"},
                                                                  {"\"abc", "c"},
                                                                  {"{\"a\": \"\xFF\"}", "\xFF"},
                                                                  {"// c\n{}", "/"}};
  for (const auto& [text, marked] : cases) {
    const Outcome outcome = read(text);
    ASSERT_EQ(outcome.codes(), "SP0001") << text;
    EXPECT_EQ(outcome.marked(), marked) << text << ": " << outcome.diagnostics[0].message;
    for (const char c : outcome.diagnostics[0].message + outcome.diagnostics[0].found) {
      EXPECT_TRUE(static_cast<unsigned char>(c) < 0x80) << text;
    }
  }
}

TEST(ReadJson, NulBytesDoNotEndTheFile) {
  std::string text = plan_text(good_body);
  text.push_back('\0');
  text += "garbage";
  EXPECT_EQ(read(text).codes(), "SP0001");
}

TEST(ReadJson, LimitsAreFindings) {
  EXPECT_EQ(read(std::string(100000, '[')).codes(), "SP0009");
  EXPECT_EQ(read(plan_text(good_body), {.max_bytes = 10}).codes(), "SP0009");
  EXPECT_EQ(read(plan_text(good_body), {.max_nodes = 10}).codes(), "SP0009");
  EXPECT_EQ(read(plan_text(good_body), {.max_depth = 2}).codes(), "SP0009");
  std::string many;
  for (int i = 0; i < 50; ++i) many += R"({"op": "nothing"},)";
  const Outcome outcome = read(plan_text(many + good_body), {.max_errors = 5});
  EXPECT_EQ(outcome.codes(), "SP0010 SP0010 SP0010 SP0010 SP0010 SP0009");
}

TEST(ReadJson, DuplicateKeysAreErrors) {
  const Outcome outcome = read(R"({"shardproof": 1, "name": "a", "name": "b", "reference": {}})");
  EXPECT_EQ(outcome.codes(), "SP0006");
  std::string wide = R"({"shardproof": 1)";
  for (int i = 0; i < 40; ++i) wide += ", \"k" + std::to_string(i % 39) + "\": 0";
  EXPECT_EQ(read(wide + "}").codes(), "SP0006");
  // The same key in another spelling.
  EXPECT_EQ(read(R"({"shardproof": 1, "n\u0061me": "a", "name": "b"})").codes(), "SP0006");
}

TEST(ReadJson, VersionIsCheckedFirst) {
  const Outcome outcome = read(R"({"shardproof": 2, "whatever": [], "reference": {}})");
  EXPECT_EQ(outcome.codes(), "SP0011");
  EXPECT_EQ(outcome.marked(), "2");
  EXPECT_EQ(read(R"({"reference": {}})").codes(), "SP0003");
}

TEST(ReadJson, EveryInstructionMistakeHasItsCode) {
  struct Case {
    std::string body, codes, marked;
  };
  const std::vector<Case> cases = {
      {R"({"out": "y", "op": "einsumm", "in": ["x", "w"], "spec": "bh,fh->bf"})", "SP0010", "\"einsumm\""},
      {R"({"out": "y", "op": "einsum", "in": ["x", "w"], "spce": "bh,fh->bf"})", "SP0003 SP0002", "{"},
      {R"({"out": "y", "op": "einsum", "in": ["x", "v"], "spec": "bh,fh->bf"})", "SP0007", "\"v\""},
      {R"({"out": "y", "op": "einsum", "in": ["x", "w"], "spec": "bh,bh->bh"})", "SP0008", "\"einsum\""},
      {R"({"out": "y", "op": "einsum", "in": ["x", "w"], "spec": "bh,fh->bf", "type": "f32[4,9]"})", "SP0008",
       "\"f32[4,9]\""},
      {R"({"out": "y", "op": "einsum", "in": ["x", "w"], "spec": "bh,fh->bf", "type": "f32{4,9}"})", "SP0005",
       "\"f32{4,9}\""},
      {R"({"out": "y", "op": "einsum", "in": ["x", "w"], "spec": 3})", "SP0004", "3"},
      {R"({"out": "x", "op": "einsum", "in": ["x", "w"], "spec": "bh,fh->bf"})", "SP0007 SP0006", "\"y\""},
      {R"({"out": ["y", "z"], "op": "einsum", "in": ["x", "w"], "spec": "bh,fh->bf"})", "SP0012", "[\"y\", \"z\"]"},
      {R"({"out": "y", "op": "sub", "in": ["x"]})", "SP0012", "[\"x\"]"},
      {R"({"op": "neg", "in": "x"}, )" + good_body, "SP0003", "{"},
      {R"({"out": "c", "op": "constant", "value": 1}, )" + good_body, "SP0003", "{"},
      {R"({"out": "c", "op": "constant", "value": "1/0", "type": "f32[]"}, )" + good_body, "SP0005", "\"1/0\""},
      {R"({"out": "c", "op": "constant", "value": 1, "type": "f32[0]"}, )" + good_body, "SP0118", "\"f32[0]\""},
      {R"({"out": "c", "op": "all_reduce", "in": "x", "axes": ["dq"], "reduce": "sum"}, )" + good_body, "SP0101",
       "[\"dq\"]"},
      {R"({"out": "c", "op": "all_reduce", "in": "x", "axes": ["dp"], "reduce": "total"}, )" + good_body, "SP0008",
       "\"all_reduce\""},
      {R"({"out": "c", "op": "slice", "in": "x", "dim": 0, "start": "2*q", "size": 1}, )" + good_body, "SP0007",
       "\"2*q\""},
      {R"({"out": "c", "op": "slice", "in": "x", "dim": 0, "start": "2*", "size": 1}, )" + good_body, "SP0005",
       "\"2*\""},
      {R"({"out": "c", "op": "slice", "in": "x", "dim": 0, "start": 0, "size": 1.5}, )" + good_body, "SP0005", "1.5"},
      {R"({"out": "z", "op": "neg", "in": "later"}, {"out": "later", "op": "neg", "in": "x"}, )" + good_body, "SP0007",
       "\"later\""},
      {R"(3)", "SP0004 SP0007", "3"},
      {R"({"out": "y\u0007", "op": "neg", "in": "x"}, )" + good_body, "SP0005", "\"y\\u0007\""},
      {R"({"out": "c", "op": "reshape", "in": "x", "shape": [4611686018427387904, 4611686018427387904]}, )" + good_body,
       "SP0118", "\"reshape\""},
  };
  for (const Case& each : cases) {
    const Outcome outcome = read(plan_text(each.body));
    std::string sorted = outcome.codes();
    EXPECT_EQ(sorted.size(), each.codes.size()) << each.body << " gave " << sorted;
    if (outcome.diagnostics.empty()) continue;
    bool found = false;
    for (std::size_t i = 0; i < outcome.diagnostics.size(); ++i) {
      found = found || (outcome.diagnostics[i].code == each.codes.substr(0, 6) && outcome.marked(i) == each.marked);
    }
    EXPECT_TRUE(found) << each.body << " gave " << sorted << " at " << outcome.marked();
    EXPECT_FALSE(outcome.document);
  }
}

TEST(ReadJson, OneMistakeIsOneFinding) {
  // `a` has no type after the error; what uses it is not reported.
  const Outcome outcome =
      read(plan_text(R"({"out": "a", "op": "sub", "in": ["x", "w"]}, {"out": "b", "op": "neg", "in": "a"},
    {"out": "c", "op": "einsum", "in": ["b", "w"], "spec": "bh,fh->bf"}, )" +
                     good_body));
  EXPECT_EQ(outcome.codes(), "SP0008");
}

TEST(ReadJson, LoopsHaveScopes) {
  const std::string zero = R"({"out": "z", "op": "constant", "value": 0, "type": "f32[4,8]"}, )";
  const std::string step =
      R"({"out": "p", "op": "einsum", "in": ["x", "w"], "spec": "bh,fh->bf"}, {"out": "s", "op": "add", "in": ["acc", "p"]})";
  const auto loop = [&](const std::string& carry, const std::string& body) {
    return zero + R"({"op": "loop", "index": "m", "trip": 3, "carry": [)" + carry + R"(], "body": [)" + body + "]}";
  };
  const std::string carry = R"({"init": "z", "arg": "acc", "next": "s", "out": "y"})";
  const Outcome good = read(plan_text(loop(carry, step)));
  ASSERT_TRUE(good.document) << good.codes();
  const Instruction& instruction = good.document->plan.stages[0].program.body[1];
  ASSERT_TRUE(instruction.region);
  EXPECT_EQ(instruction.region->trip, 3);
  EXPECT_EQ(instruction.region->body.size(), 2U);
  EXPECT_EQ(instruction.inputs.at(0), instruction.region->carries.at(0).init);

  const Outcome leak = read(plan_text(loop(carry, step) + R"(, {"out": "q", "op": "neg", "in": "p"})"));
  EXPECT_EQ(leak.codes(), "SP0007");
  EXPECT_NE(leak.diagnostics[0].message.find("inside a loop"), std::string::npos);
  // The second init must not see the first argument.
  EXPECT_EQ(read(plan_text(loop(carry + R"(, {"init": "acc", "arg": "b", "next": "b", "out": "t"})", step))).codes(),
            "SP0007");
  EXPECT_EQ(read(plan_text(loop(R"({"init": "z", "arg": "acc", "next": "z", "out": "y"})", step))).codes(), "");
  EXPECT_EQ(read(plan_text(loop(R"({"init": "z", "arg": "acc", "next": "w", "out": "y"})", step))).codes(), "SP0008");
  // The index is a variable inside, not outside, and not an axis.
  const std::string slice = R"({"out": "k", "op": "slice", "in": "x", "dim": 0, "start": "m", "size": 1})";
  EXPECT_EQ(read(plan_text(loop(carry, slice + ", " + step))).codes(), "");
  EXPECT_EQ(read(plan_text(loop(carry, step) + ", " + slice)).codes(), "SP0007");
  EXPECT_EQ(read(plan_text(zero + R"({"op": "loop", "index": "tp", "trip": 1, "carry": [], "body": []}, )" + good_body))
                .codes(),
            "SP0006");
}

TEST(ReadJson, PlacementsAreCompletedFromTheReference) {
  const auto local = [](const std::string& state) {
    const Outcome outcome = read(
        R"({"shardproof": 1, "mesh": [["dp", 2], ["tp", 4]], "reference": {"state": [{"name": "w", "type": "bf16[96,10]", "next": "w"}]},
        "state": [{"name": "w", "next": "w", )" +
        state + "}]}");
    if (!outcome.document) return outcome.codes() + ": " + outcome.diagnostics[0].message;
    const StageProgram& stage = outcome.document->plan.stages[0];
    return to_string(stage.program.value(stage.state[0].value).type);
  };
  EXPECT_EQ(local(R"("dims": [[], []])"), "bf16[96,10]");
  EXPECT_EQ(local(R"("pad_value": "any")"), "bf16[96,10]");
  EXPECT_EQ(local(R"("dims": [["tp"], []])"), "bf16[24,10]");
  EXPECT_EQ(local(R"("dims": [["tp", "dp"], [2, "dp"]])").substr(0, 6), "SP0102");
  EXPECT_EQ(local(R"("dims": [["tp", "dp"], []])"), "bf16[12,10]");
  EXPECT_EQ(local(R"("dims": [[2, "tp"], []])"), "bf16[24,10]");
  EXPECT_EQ(local(R"("dims": [["tp:(2)2", 2, 24], []])"), "bf16[48,10]");
  EXPECT_EQ(local(R"("dims": [{"digits": ["tp", 2, 12], "permute": "zigzag"}, []])"), "bf16[24,10]");
  EXPECT_EQ(local(R"("dims": [[], {"digits": ["tp"], "pad": 12}])"), "bf16[96,3]");
  EXPECT_EQ(local(R"("dims": [[], {"digits": ["tp"], "offsets": [0, 4, 6, 8, 10]}])"), "bf16[96,4]");
  EXPECT_EQ(local(R"("dims": [[], ["tp"]])").substr(0, 6), "SP0102");
  EXPECT_EQ(local(R"("dims": [[]])").substr(0, 6), "SP0102");
  EXPECT_EQ(local(R"("dims": [["tq"], []])").substr(0, 6), "SP0101");
  EXPECT_EQ(local(R"("dims": [["tp:2"], []])").substr(0, 6), "SP0101");
  EXPECT_EQ(local(R"("dims": [["tp:(x)2"], []])").substr(0, 6), "SP0005");
  EXPECT_EQ(local(R"("of": "v")").substr(0, 6), "SP0111");
  EXPECT_EQ(local(R"("of": "w", "buffer": "b", "role": "param")").substr(0, 6), "SP0005");
  EXPECT_EQ(local(R"("partial": {"tp": "add"})").substr(0, 6), "SP0005");
}

TEST(ReadJson, NumbersAreExact) {
  const std::vector<std::pair<std::string, Rational>> cases = {
      {"0.1", {1, 10}}, {"1e-5", {1, 100000}},  {"\"1/8\"", {1, 8}}, {"-3", {-3, 1}},
      {"2.50", {5, 2}}, {"\"0.95\"", {19, 20}}, {"1E2", {100, 1}},   {"9007199254740993", {9007199254740993, 1}}};
  for (const auto& [text, value] : cases) {
    const Outcome outcome =
        read(plan_text(R"({"out": "c", "op": "constant", "type": "f32[]", "value": )" + text + "}, " + good_body));
    ASSERT_TRUE(outcome.document) << text << " " << outcome.codes();
    EXPECT_EQ(outcome.document->plan.stages[0].program.body[0].attributes.get<Rational>("value"), value) << text;
  }
}

TEST(ReadJson, FindingsComeInFileOrder) {
  const Outcome outcome =
      read(plan_text(R"({"out": "a", "op": "neg", "in": "zz"}, {"out": "b", "op": "nope"}, )" + good_body));
  EXPECT_EQ(outcome.codes(), "SP0007 SP0010");
}

std::optional<JsonRef> at(JsonRef object, std::initializer_list<std::string_view> path) {
  for (const std::string_view key : path) {
    std::optional<JsonRef> next;
    for (JsonRef field : object) {
      if (field->key == key) next = field;
    }
    if (!next) return std::nullopt;
    object = *next;
  }
  return object;
}

std::vector<std::string> texts(std::optional<JsonRef> array) {
  std::vector<std::string> result;
  if (!array) return result;
  for (JsonRef item : *array) result.emplace_back(item->text);
  return result;
}

// The published schema and the table of operators must not drift apart.
TEST(PlanSchema, ListsEveryOperatorWithItsFields) {
  const SourceFile source("plan.schema.json", file_text("ir/plan.schema.json"));
  DiagnosticSink sink;
  const auto tree = parse_json(source, {}, sink);
  ASSERT_TRUE(tree);
  const auto instruction = at(tree->root(), {"$defs", "instruction"});
  ASSERT_TRUE(instruction);
  std::vector<std::string> names;
  for (const OpSchema& schema : op_table()) names.emplace_back(schema.name);
  EXPECT_EQ(texts(at(*instruction, {"properties", "op", "enum"})), names);
  const auto rules = at(*instruction, {"allOf"});
  ASSERT_TRUE(rules);
  ASSERT_EQ(rules->node().count, op_table().size());
  std::size_t i = 0;
  for (JsonRef rule : *rules) {
    const OpSchema& schema = op_table()[i++];
    const auto name = at(rule, {"if", "properties", "op", "const"});
    ASSERT_TRUE(name);
    EXPECT_EQ(name->node().text, schema.name);
    if (schema.code == OpCode::loop) continue;
    std::vector<std::string> allowed = {"op", "out", "in", "type", "recompute", "action", "source"};
    std::vector<std::string> required;
    if (schema.results > 0) required.emplace_back("out");
    if (schema.min_inputs > 0) required.emplace_back("in");
    for (const AttrSchema& attribute : schema.attributes) {
      allowed.emplace_back(attribute.name);
      if (attribute.required) required.emplace_back(attribute.name);
      EXPECT_TRUE(at(*instruction, {"properties", attribute.name})) << attribute.name;
    }
    EXPECT_EQ(texts(at(rule, {"then", "propertyNames", "enum"})), allowed) << schema.name;
    std::vector<std::string> listed = texts(at(rule, {"then", "required"}));
    if (!listed.empty() && listed.back() == "type") listed.pop_back();  // of ops whose type is declared
    EXPECT_EQ(listed, required) << schema.name;
  }
}

TEST(ReadJson, MissingFileIsAFinding) {
  DiagnosticSink sink;
  EXPECT_FALSE(read_document_file("/nonexistent/plan.json", sink));
  ASSERT_EQ(sink.diagnostics().size(), 1U);
  EXPECT_EQ(sink.diagnostics()[0].code, "SP0001");
  DiagnosticSink directory;
  EXPECT_FALSE(read_document_file("/", directory));
  EXPECT_EQ(directory.diagnostics().at(0).code, "SP0001");
}

}  // namespace
}  // namespace shardproof::ir

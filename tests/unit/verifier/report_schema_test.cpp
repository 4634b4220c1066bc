// Reports obey the published schema. The check below knows the part of JSON Schema that the schema uses and refuses any
// other keyword; unlike the schema it also refuses fields that are not described.
#include <gtest/gtest.h>

#include <cmath>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "verifier/render_json.h"

namespace shardproof::verifier {
namespace {

using Json = nlohmann::json;

const Json& schema() {
  static const Json json = Json::parse(std::ifstream(SHARDPROOF_SOURCE_DIR "/verifier/report.schema.json"));
  return json;
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return type == value.type_name();
}

// Adds one line per violation.
void check(const Json& value, const Json& rule, const std::string& at, std::vector<std::string>& problems) {
  const auto require = [&](bool good, const std::string& what) {
    if (!good) problems.push_back(at + ": " + what + ", found " + value.dump());
  };
  for (const auto& [keyword, argument] : rule.items()) {
    if (keyword == "type") {
      const std::vector<std::string> types =
          argument.is_array() ? argument.get<std::vector<std::string>>() : std::vector<std::string>{argument};
      require(std::any_of(types.begin(), types.end(), [&](const std::string& type) { return has_type(value, type); }),
              "wanted " + argument.dump());
    } else if (keyword == "const") {
      require(value == argument, "wanted " + argument.dump());
    } else if (keyword == "enum") {
      require(std::find(argument.begin(), argument.end(), value) != argument.end(), "wanted one of " + argument.dump());
    } else if (keyword == "minimum") {
      require(value.is_number() && value >= argument, "wanted at least " + argument.dump());
    } else if (keyword == "pattern") {
      require(value.is_string() && std::regex_match(value.get<std::string>(), std::regex(argument.get<std::string>())),
              "wanted the pattern " + argument.dump());
    } else if (keyword == "required") {
      for (const std::string field : argument) require(value.contains(field), "lacks " + field);
    } else if (keyword == "properties") {
      for (const auto& [name, member] : value.items()) {
        if (argument.contains(name)) {
          check(member, argument[name], at + "/" + name, problems);
        } else {
          problems.push_back(at + ": the schema does not describe " + name);
        }
      }
    } else if (keyword == "items") {
      for (std::size_t i = 0; value.is_array() && i < value.size(); ++i)
        check(value[i], argument, at + "/" + std::to_string(i), problems);
    } else if (keyword == "$ref") {
      const std::string pointer = argument.get<std::string>().substr(1);
      check(value, schema().at(Json::json_pointer(pointer)), at, problems);
    } else if (keyword != "description" && keyword != "title" && keyword != "$schema" && keyword != "$defs") {
      problems.push_back("the test does not know the schema keyword " + keyword);
    }
  }
}

std::vector<std::string> problems_of(const Json& report) {
  std::vector<std::string> problems;
  check(report, schema(), "", problems);
  return problems;
}

Json full_report() {
  const ir::SourceFile source("a.json", "first line\nsecond line\n");
  ir::Diagnostic diagnostic;
  diagnostic.code = "SP0201";
  diagnostic.name = "missing-reduction";
  diagnostic.message = "message";
  diagnostic.subject = {"value", "reference", "instruction", "tp", "rank 3 (dp=0, tp=3)"};
  diagnostic.labels = {{{2, 5}, "here", true}, {{12, 14}, "there", false}, {{}, "nowhere", false}};
  diagnostic.expected = "expected";
  diagnostic.found = "found";
  diagnostic.notes = {"note"};
  diagnostic.places = 7;
  diagnostic.fix = ir::Fix{"fix", {{{3, 3}, "inserted"}}, ir::Applicability::verified};
  Report report;
  report.verdict = Verdict::unknown;
  report.diagnostics = {diagnostic, diagnostic};
  report.diagnostics[1] = ir::Diagnostic();
  report.diagnostics[1].code = "SP0901";
  report.diagnostics[1].severity = ir::Severity::note;
  report.obligations = {1, 2, 3, 4};
  report.assumptions = {"real arithmetic"};
  report.unknown_reason = "reason";
  report.counterexample = Counterexample{{{"x", "f32[2]", {1, 2.5}}}, 3, "output `y`", "rank 1", "[0]", "y[2]", 1.5, std::nan(""), 0.75, 2, "", {"4096 -> 8"}, {}, {}, {{"g", "%g = neg(%x)", "is no value"}, {"y", "", "holds 2 times `y`"}}};
  report.no_counterexample = "reason";
  report.schedule = structure::ScheduleSummary{"1f1b", 8, {2, 1}, structure::ScheduleSummary::Slots{36, 4}};
  report.statistics = {1.5, 10, 20, 30, 40, 50};
  std::ostringstream out;
  render_json(report, &source, "", {"0.1.0", true}, out);
  return Json::parse(out.str());
}

TEST(ReportSchema, DescribesEveryFieldOfAReport) {
  EXPECT_EQ(problems_of(full_report()), std::vector<std::string>());
}

TEST(ReportSchema, DescribesTheSmallestReport) {
  for (const Verdict verdict : {Verdict::equivalent, Verdict::not_equivalent, Verdict::unknown, Verdict::invalid}) {
    Report report;
    report.verdict = verdict;
    std::ostringstream out;
    render_json(report, nullptr, "plan", {"0.1.0", false}, out);
    EXPECT_EQ(problems_of(Json::parse(out.str())), std::vector<std::string>());
  }
}

TEST(ReportSchema, RefusesWhatIsWrong) {
  const auto refused = [](const char* pointer, const Json& value) {
    Json report = full_report();
    report[Json::json_pointer(pointer)] = value;
    return !problems_of(report).empty();
  };
  EXPECT_TRUE(refused("/schema", "shardproof-report/2"));
  EXPECT_TRUE(refused("/verdict", "passed"));
  EXPECT_TRUE(refused("/exit_code", 70));
  EXPECT_TRUE(refused("/obligations/proved", -1));
  EXPECT_TRUE(refused("/diagnostics/0/code", "SP1"));
  EXPECT_TRUE(refused("/diagnostics/0/labels/0/start/line", 0));
  EXPECT_TRUE(refused("/diagnostics/0/fix/applicability", "sure"));
  EXPECT_TRUE(refused("/diagnostics/0/surprise", 1));
  EXPECT_TRUE(refused("/counterexample/inputs/0/values", "1, 2"));
  EXPECT_TRUE(refused("/counterexample/differing", 0));
  EXPECT_TRUE(refused("/assumptions", "none"));
  Json report = full_report();
  report.erase("verdict");
  EXPECT_FALSE(problems_of(report).empty());
}

}  // namespace
}  // namespace shardproof::verifier

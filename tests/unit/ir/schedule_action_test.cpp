// Actions and tables in the notation of torch.distributed.pipelining.
#include "ir/schedule_action.h"

#include <gtest/gtest.h>

namespace shardproof::ir {
namespace {

ScheduleCell cell_of(const std::string& text) {
  std::string problem;
  const auto cell = parse_cell(text, problem);
  EXPECT_TRUE(cell.has_value()) << text << ": " << problem;
  return cell.value_or(ScheduleCell{});
}

std::string problem_of(const std::string& text) {
  std::string problem;
  EXPECT_FALSE(parse_cell(text, problem).has_value()) << text;
  return problem;
}

TEST(ScheduleAction, EachKindIsReadAndWritten) {
  for (const char* text : {"0F0", "12B345", "3I1", "3W1", "0SEND_F3", "0RECV_F3", "0SEND_B3", "0RECV_B3", "0UNSHARD", "0RESHARD", "0REDUCE_GRAD", "7UNSHARD2", "4OPT", "(0F3;4B1)OVERLAP_F_B",
                           "(0F3;4I1;2W0)OVERLAP_F_B", "1000000000F1000000000", ""})
    EXPECT_EQ(to_string(cell_of(text)), text);
  EXPECT_EQ(cell_of("12B345"), (ScheduleCell{{12, ActionType::backward, 345}}));
  EXPECT_EQ(cell_of("0UNSHARD"), (ScheduleCell{{0, ActionType::unshard, std::nullopt}}));
  EXPECT_EQ(cell_of("(0F3;4B1)OVERLAP_F_B"), (ScheduleCell{{0, ActionType::forward, 3}, {4, ActionType::backward, 1}}));
}

TEST(ScheduleAction, BlanksAroundAreNoMatter) {
  EXPECT_EQ(cell_of("  0F1\t"), cell_of("0F1"));
  EXPECT_EQ(cell_of(" ( 0F3 ; 4B1 ) OVERLAP_F_B"), cell_of("(0F3;4B1)OVERLAP_F_B"));
  EXPECT_TRUE(cell_of("  ").empty());
}

TEST(ScheduleAction, WhatIsWrongIsSaid) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"F0", "begin with the number"},       {"xx", "begin with the number"},
                                                                  {"0", "not followed by"},              {"0X1", "not followed by"},
                                                                  {"0f1", "not followed by"},            {"0F", "lacks the number of its microbatch"},
                                                                  {"0F1x", "something follows"},         {"-1F0", "begin with the number"},
                                                                  {"0OPT1", "no microbatch"},            {"(0F1;1B0)", "OVERLAP_F_B"},
                                                                  {"(0F1;1B0", "OVERLAP_F_B"},           {"(0F1;)OVERLAP_F_B", "begin with the number"},
                                                                  {"()OVERLAP_F_B", "begin with the"},   {"(0F1;1B0)OVERLAP", "OVERLAP_F_B"},
                                                                  {"0F1 0F2", "something follows"},      {"1000000001F0", "its stage is above"},
                                                                  {"0F99999999999999999999", "its microbatch is above"}};
  for (const auto& [text, what] : cases) EXPECT_NE(problem_of(text).find(what), std::string::npos) << text << ": " << problem_of(text);
  // Hostile text: nothing of it reaches a terminal, and messages stay short.
  EXPECT_EQ(problem_of("0\x1b[31mF").find('\x1b'), std::string::npos);
  EXPECT_LT(problem_of("0" + std::string(4000, 'F')).size(), 300U);
  EXPECT_LT(problem_of(std::string(1 << 20, '9')).size(), 300U);
  EXPECT_NE(problem_of("(" + std::string(1 << 20, '(')).find("4096 bytes"), std::string::npos);
}

TEST(ScheduleAction, LabelsHaveAStageAndATypeOfEachMicrobatch) {
  std::string problem;
  EXPECT_EQ(parse_label("3I", problem), (ActionLabel{3, ActionType::backward_input}));
  EXPECT_EQ(parse_label("0SEND_F", problem), (ActionLabel{0, ActionType::send_forward}));
  for (const char* text : {"3I0", "3", "I", "0UNSHARD", "0OPT", "", "(0F;1B)OVERLAP_F_B", " 0F"}) EXPECT_FALSE(parse_label(text, problem).has_value()) << text;
}

TEST(ScheduleCsv, TablesOfPyTorch) {
  // What csv.writer makes of a table: lines end with a carriage return and a line feed; rows may have different lengths.
  const std::string text = "0F0,0F1,,0B0,0B1\r\n,1F0,1B0,1F1,1B1\r\n\r\n\"\"\r\n,(2F0;3B1)OVERLAP_F_B,\r\n";
  CsvProblem problem;
  const auto table = read_schedule_csv(text, problem);
  ASSERT_TRUE(table.has_value()) << problem.message;
  ASSERT_EQ(table->size(), 5U);
  EXPECT_EQ((*table)[0][3], (ScheduleCell{{0, ActionType::backward, 0}}));
  EXPECT_TRUE((*table)[0][2].empty());
  EXPECT_TRUE((*table)[2].empty());
  EXPECT_EQ((*table)[3].size(), 1U);
  EXPECT_EQ((*table)[4].size(), 3U);
  std::string plain = text;
  std::erase(plain, '\r');
  EXPECT_EQ(write_schedule_csv(*table), plain);
  EXPECT_EQ(read_schedule_csv(plain, problem), table);
  EXPECT_EQ(read_schedule_csv("\"0F0\",0B0", problem), read_schedule_csv("0F0,0B0\n", problem));
  EXPECT_EQ(read_schedule_csv("", problem)->size(), 0U);
}

TEST(ScheduleCsv, ProblemsHaveTheirRowAndColumn) {
  CsvProblem problem;
  EXPECT_FALSE(read_schedule_csv("0F0,0F1\n0F0,,1Z1\n", problem).has_value());
  EXPECT_EQ(problem.row, 2U);
  EXPECT_EQ(problem.column, 3U);
  EXPECT_NE(problem.message.find("1Z1"), std::string::npos);
  EXPECT_FALSE(read_schedule_csv("0F0\n\"0F1\n", problem).has_value());
  EXPECT_EQ(problem.row, 2U);
  EXPECT_FALSE(read_schedule_csv("\"0F1\"x\n", problem).has_value());
}

TEST(ScheduleCsv, ManyActionsAreReadAndTooManyRefused) {
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += (i == 0 ? "0F" : ",0F") + std::to_string(i);
  CsvProblem problem;
  const auto table = read_schedule_csv(text, problem);
  ASSERT_TRUE(table.has_value()) << problem.message;
  EXPECT_EQ(table->front().size(), 1'000'000U);
  EXPECT_FALSE(read_schedule_csv(std::string(2'000'000, ','), problem).has_value());
  EXPECT_NE(problem.message.find("more than"), std::string::npos);
  std::string overlapping = "(0F0";
  for (int i = 0; i < 900; ++i) overlapping += ";0F0";
  overlapping += ")OVERLAP_F_B,";
  std::string many;
  for (int i = 0; i < 1300; ++i) many += overlapping;
  EXPECT_FALSE(read_schedule_csv(many, problem).has_value());
}

}  // namespace
}  // namespace shardproof::ir

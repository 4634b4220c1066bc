// The file of answers: what was asked before is known, and nothing in the file can do harm.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "verifier/smt_answers.h"

namespace shardproof::verifier {
namespace {

class Answers : public testing::Test {
 protected:
  Answers() : path_((std::filesystem::path(testing::TempDir()) / ("answers_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()))).string()) {
    std::filesystem::remove(path_);
  }
  ~Answers() override { std::filesystem::remove(path_); }

  std::string text() const {
    std::ifstream in(path_, std::ios::binary);
    std::stringstream all;
    all << in.rdbuf();
    return all.str();
  }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary | std::ios::trunc) << text; }
  void keep_two() const {
    SmtAnswers answers(path_, "v1");
    answers.add("is it?", "");
    answers.add("is that?", "too large");
    EXPECT_TRUE(answers.save());
  }

  std::string path_;
};

TEST_F(Answers, AreKnownTheNextTime) {
  keep_two();
  SmtAnswers again(path_, "v1");
  EXPECT_EQ(again.find("is it?"), "");
  EXPECT_EQ(again.find("is that?"), "too large");
  EXPECT_EQ(again.find("is this?"), std::nullopt);
  again.add("is this?", "");
  EXPECT_TRUE(again.save());
  EXPECT_EQ(SmtAnswers(path_, "v1").find("is it?"), "");
  EXPECT_EQ(SmtAnswers(path_, "v1").find("is this?"), "");
}

TEST_F(Answers, OfAnotherVersionAreNone) {
  keep_two();
  SmtAnswers other(path_, "v2");
  EXPECT_EQ(other.find("is it?"), std::nullopt);
  other.add("is it?", "no");
  EXPECT_TRUE(other.save());
  EXPECT_EQ(SmtAnswers(path_, "v2").find("is it?"), "no");
  EXPECT_EQ(SmtAnswers(path_, "v1").find("is it?"), std::nullopt);
}

TEST_F(Answers, WithoutAFileNothingIsKept) {
  SmtAnswers none("", "v1");
  none.add("is it?", "");
  EXPECT_TRUE(none.save());
  EXPECT_EQ(none.find("is it?"), std::nullopt);
  SmtAnswers nowhere(testing::TempDir() + "/no/such/folder/file", "v1");
  nowhere.add("is it?", "");
  EXPECT_FALSE(nowhere.save());
}

// Any one byte changed, and any cut: what is still read was written.
TEST_F(Answers, ChangedLinesAreIgnored) {
  keep_two();
  const std::string good = text();
  std::mt19937_64 random(3);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(random());
    for (const std::string& file : {bad, good.substr(0, i), good.substr(i)}) {
      write(file);
      SmtAnswers answers(path_, "v1");
      const auto first = answers.find("is it?"), second = answers.find("is that?");
      EXPECT_TRUE(!first || first->empty());
      EXPECT_TRUE(!second || *second == "too large");
    }
  }
  for (int k = 0; k < 300; ++k) {
    std::string noise(random() % 400, ' ');
    for (char& c : noise) c = static_cast<char>(random());
    write(k % 2 == 0 ? noise : good + noise);
    SmtAnswers answers(path_, "v1");
    EXPECT_EQ(answers.find("is it?"), k % 2 == 0 ? std::nullopt : std::optional<std::string>(""));
    answers.add("is this?", "");
    EXPECT_TRUE(answers.save());
  }
}

}  // namespace
}  // namespace shardproof::verifier

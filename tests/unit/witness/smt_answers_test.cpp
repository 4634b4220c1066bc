// The file of answers: what was asked before is known, and nothing in the file can do harm.
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "verifier/smt_answers.h"

namespace shardproof::verifier {
namespace {

class Answers : public testing::Test {
 protected:
  Answers() : folder_(std::filesystem::path(testing::TempDir()) / ("answers_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()))), path_((folder_ / "answers").string()) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~Answers() override { std::filesystem::remove_all(folder_); }

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

  // Whether one more answer is kept in what lies there.
  bool takes_answers() const {
    SmtAnswers answers(path_, "v1");
    EXPECT_EQ(answers.find("is it?"), std::nullopt);
    answers.add("is it?", "");
    return answers.save();
  }
  std::size_t entries() const { return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator())); }

  std::filesystem::path folder_;
  std::string path_;
};

std::uint64_t scale() {
  const char* text = std::getenv("SHARDPROOF_FUZZ_SCALE");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}

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
    EXPECT_EQ(answers.save(), k % 2 != 0);
    EXPECT_TRUE(k % 2 != 0 || text() == noise);
  }
}

// Lines taken apart and put together differently: no question gets the answer of another one, nor one that nobody gave.
TEST_F(Answers, OfOtherQuestionsAreNotTaken) {
  std::mt19937_64 random(5);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const auto question = [](std::size_t n) { return "question " + std::to_string(n); };
  const auto answer = [](std::size_t n) { return n % 3 == 0 ? std::string() : "no, for reason " + std::to_string(n); };
  constexpr std::size_t kQuestions = 12;
  SmtAnswers answers(path_, "v1");
  for (std::size_t n = 0; n < kQuestions; ++n) answers.add(question(n), answer(n));
  ASSERT_TRUE(answers.save());
  std::vector<std::string> lines;
  std::istringstream good(text());
  for (std::string line; std::getline(good, line);) lines.push_back(line);
  constexpr std::size_t kAnswer = 64 + 8 + 2;  // where it starts
  std::size_t known = 0;
  for (std::uint64_t round = 0; round < 300 * scale(); ++round) {
    std::vector<std::string> edited = lines;
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
      std::string& line = edited[1 + below(edited.size() - 1)];
      const std::string& other = lines[1 + below(kQuestions)];
      switch (below(10)) {
        case 0: line = line.substr(0, std::min(kAnswer, line.size())) + other.substr(kAnswer); break;
        case 1: line = other.substr(0, 64) + line.substr(std::min<std::size_t>(64, line.size())); break;
        case 2: line = other.substr(0, 73) + line.substr(std::min<std::size_t>(73, line.size())); break;
        case 3: line += "\r"; break;
        case 4: line += std::string(below(100000), 'x'); break;
        case 5: line.insert(below(line.size() + 1), 1, '\0'); break;
        case 6: line.insert(below(line.size() + 1), "\n"); break;
        case 7: line = line.substr(0, below(line.size() + 1)) + other; break;
        case 8: line = other; break;
        default: line.clear();
      }
    }
    std::string file;
    for (const std::string& line : edited) file += line + "\n";
    if (below(4) == 0) file.resize(below(file.size()) + 1);
    write(file);
    SmtAnswers again(path_, "v1");
    for (std::size_t n = 0; n < kQuestions; ++n) {
      const auto found = again.find(question(n));
      EXPECT_TRUE(!found || *found == answer(n)) << file;
      known += found ? 1 : 0;
    }
    again.add("another", "");
    EXPECT_TRUE(!again.save() || text().starts_with(file));
  }
  EXPECT_GT(known, 300U);  // most lines stay as they were
}

TEST_F(Answers, AreNotWrittenOverWhatIsNotTheirs) {
  for (const std::string& foreign : {std::string("# my notes\n"), std::string("shardproof\n"), std::string(1, '\0'), std::string(70 << 20, 'x')}) {
    write(foreign);
    EXPECT_FALSE(takes_answers());
    EXPECT_TRUE(text() == foreign);
  }
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(takes_answers());
  EXPECT_TRUE(std::filesystem::is_directory(path_));
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(takes_answers());
  EXPECT_TRUE(std::filesystem::is_fifo(path_));
  std::filesystem::remove(path_);
  std::filesystem::create_symlink("answers", path_);  // of itself
  EXPECT_FALSE(takes_answers());
  std::filesystem::remove(path_);
  std::filesystem::create_symlink("/dev/null", path_);
  EXPECT_FALSE(takes_answers());
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(entries(), 1U);
}

TEST_F(Answers, ThatCannotBeReadStayAsTheyAre) {
  keep_two();
  std::filesystem::permissions(path_, std::filesystem::perms::none);
  std::filesystem::permissions(std::filesystem::path(path_).parent_path(), std::filesystem::perms::all);
  // Root reads everything, so that somebody else has to try.
  const bool is_root = ::geteuid() == 0;
  constexpr uid_t nobody = 65534;
  if (is_root) {
    ASSERT_EQ(::seteuid(nobody), 0);
  }
  EXPECT_FALSE(takes_answers());
  if (is_root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
  EXPECT_EQ(SmtAnswers(path_, "v1").find("is it?"), "");
}

// An empty file, and one that grew beyond all use, are begun anew.
TEST_F(Answers, BeginAnew) {
  write("");
  EXPECT_TRUE(takes_answers());
  EXPECT_EQ(SmtAnswers(path_, "v1").find("is it?"), "");
  write(text() + std::string(65 << 20, 'x'));
  EXPECT_TRUE(takes_answers());
  EXPECT_LT(text().size(), 1000U);
  EXPECT_EQ(entries(), 1U);
}

// Another version took the file since it was read: its file gets no answers of this one.
TEST_F(Answers, AreNotAddedToThoseOfAnotherVersion) {
  keep_two();
  SmtAnswers reader(path_, "v1");
  SmtAnswers other(path_, "v2");
  other.add("is this?", "no");
  EXPECT_TRUE(other.save());
  reader.add("is this?", "");
  EXPECT_FALSE(reader.save());
  EXPECT_EQ(SmtAnswers(path_, "v2").find("is this?"), "no");
}

// Many at a time, of two versions: what is in the file afterwards is right, and nothing else is left in the folder.
TEST_F(Answers, OfManyWritersAreRight) {
  constexpr int kWriters = 8;
  const auto question = [](int writer, std::uint64_t round) { return std::to_string(writer) + "/" + std::to_string(round); };
  const auto answer = [](const std::string& version, const std::string& asked) { return asked.back() % 2 == 0 ? "" : "no in " + version + ": " + asked; };
  const std::uint64_t rounds = 20 * scale();
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer)
    writers.emplace_back([&, writer] {
      for (std::uint64_t round = 0; round < rounds; ++round) {
        const std::string version = round % 10 == 9 ? "v2" : "v1";
        SmtAnswers answers(path_, version);
        for (int other = 0; other < kWriters; ++other) {
          const auto found = answers.find(question(other, round));
          EXPECT_TRUE(!found || *found == answer(version, question(other, round)));
        }
        answers.add(question(writer, round), answer(version, question(writer, round)));
        answers.save();
      }
    });
  for (std::thread& writer : writers) writer.join();
  std::size_t known = 0;
  for (const std::string version : {"v1", "v2"}) {
    const SmtAnswers answers(path_, version);
    for (int writer = 0; writer < kWriters; ++writer)
      for (std::uint64_t round = 0; round < rounds; ++round)
        if (const auto found = answers.find(question(writer, round))) {
          EXPECT_EQ(*found, answer(version, question(writer, round)));
          ++known;
        }
  }
  EXPECT_GT(known, 0U);
  EXPECT_EQ(entries(), 1U);
}

}  // namespace
}  // namespace shardproof::verifier

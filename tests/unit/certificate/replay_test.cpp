// Certificates written by hand: what a line may say, and definitions that must not be.
#include "verifier/certificate/replay.h"

#include <gtest/gtest.h>

#include "verifier/certificate/term_writer.h"

namespace shardproof::verifier {
namespace {

using solvers::TensorId;
using solvers::TermId;
using solvers::VarId;

class ReplayTest : public ::testing::Test {
 protected:
  ReplayTest() { x_ = atoms_.opaque({"x", {8}, false, 0}), carried_ = atoms_.opaque({"carried", {8}, false, 0}), scale_ = atoms_.opaque({"scale", {}, false, 0}); }
  // The reason why the lines are no results for `value`; empty: they are.
  std::string reads(std::vector<std::string_view> lines, TermId value, bool may_define = true) {
    Replay replay(atoms_, std::move(lines), 1);
    try {
      result_ = replay.reference_value("a", value, may_define);
      replay.finish();
    } catch (const Rejection& e) {
      return e.what();
    }
    return {};
  }
  TermId x() { return pool_.access(x_, {pool_.index_var(row_)}); }

  solvers::TermPool pool_;
  solvers::AtomTable atoms_{pool_, nullptr};
  VarId row_ = pool_.element(0, 8);
  TensorId x_, carried_, scale_;
  TermId result_;
};

TEST_F(ReplayTest, ADefinitionIsReadAndUsed) {
  const TermId square = pool_.mul(x(), x());
  EXPECT_EQ(reads({"ve 0 8", "a 0", "i 0 1 0", "x 0 0", "p 1 1 0 2", "p 1 0", "def a 1 2 0"}, square), "");
  const solvers::TermNode& n = pool_.node(result_);
  ASSERT_EQ(n.kind, solvers::TermKind::access);
  EXPECT_EQ(pool_.tensor(n.tensor).name, "a");
  EXPECT_EQ(pool_.tensor(n.tensor).shape, std::vector<std::int64_t>{8});
}

TEST_F(ReplayTest, ADefinitionMustBeThatOfTheValue) {
  const TermId square = pool_.mul(x(), x());
  EXPECT_NE(reads({"ve 0 8", "a 0", "i 0 1 0", "x 0 0", "p 1 1 0 3", "p 1 0", "def a 1 2 0"}, square).find("not shown to be equal"), std::string::npos);
  EXPECT_NE(reads({"ve 0 8", "a 0", "i 0 1 0", "x 0 0", "p 1 1 0 2", "p 2 0", "def a 1 2 0"}, square).find("not shown to be equal"), std::string::npos);
}

TEST_F(ReplayTest, ADefinitionHidesNothing) {
  // x = (x + carried) - carried: the definition would read a carried value that the value does not show.
  const std::vector<std::string_view> hidden{"ve 0 8", "a 0", "i 0 1 0", "x 0 0", "x 1 0", "p 1 1 0 1 1 1 1 1", "p 1 0", "def a 2 3 0"};
  EXPECT_NE(reads(hidden, x()).find("reads what its value does not read"), std::string::npos);
  // It depends on an index that it does not have.
  EXPECT_NE(reads({"ve 0 8", "a 0", "i 0 1 0", "x 0 0", "p 1 0", "def a 0 1"}, x()).find("does not index it"), std::string::npos);
  // The multiplier is no number, scalar or guard.
  EXPECT_NE(reads({"ve 0 8", "a 0", "i 0 1 0", "x 0 0", "def a 0 0 0"}, pool_.mul(x(), x())).find("numbers, scalars and guards"), std::string::npos);
  // No definition is allowed for this value.
  EXPECT_NE(reads({"ve 0 8", "a 0", "i 0 1 0", "x 0 0", "p 1 1 0 2", "p 1 0", "def a 1 2 0"}, pool_.mul(x(), x()), false).find("belongs to no value"), std::string::npos);
}

TEST_F(ReplayTest, ATermMustBeEqualAndHaveNoForeignVariable) {
  EXPECT_EQ(reads({"ve 0 8", "a 0", "i 0 1 0", "x 0 0", "ref a 0"}, x()), "");
  EXPECT_NE(reads({"ve 0 8", "a 0", "i 7 -1 0", "x 0 0", "ref a 0"}, x()).find("not shown to be equal"), std::string::npos);
  EXPECT_NE(reads({"ve 0 9", "a 0", "i 0 1 0", "x 0 0", "ref a 0"}, x()).find("it depends on"), std::string::npos);
  EXPECT_NE(reads({"vb 8", "a 0", "i 0 1 0", "x 0 0", "ref a 0"}, x()).find("it depends on"), std::string::npos);
}

TEST_F(ReplayTest, WhatATermNeedsIsAskedAfterTheReference) {
  // x = x * scale / scale, if scale is not 0: that may not become an assumption of the reference.
  const std::vector<std::string_view> lines{"ve 0 8", "a 0", "i 0 1 0", "x 0 0", "x 2", "f inverse 1", "p 1 3 0 1 1 1 2 1", "ref a 3"};
  Replay replay(atoms_, lines, 1);
  EXPECT_EQ(replay.reference_value("a", x(), false), x());
  EXPECT_TRUE(pool_.obligations().empty());
  replay.finish();
  ASSERT_EQ(pool_.obligations().size(), 1U);
  EXPECT_EQ(pool_.obligations()[0].kind, solvers::Obligation::Kind::nonzero);
}

TEST_F(ReplayTest, LinesThatSayNothingAreRefused) {
  for (const std::string_view line : {"", "x", "x 9 0", "x 0", "x 0 0 0", "x -1 0", "q 0 0", "q 0 -3", "i 9223372036854775807", "i 0 1", "p 1/0 0", "p 1 1 0 0", "p 1 1 0 65", "p 1 4097", "f exp",
                                      "f exp 0 0", "f nothing 0", "s 0", "s 0 0", "u 0 0", "g 0 -", "g 0 1 0 0", "l 0 0", "ve 64 8", "ve 0 0", "vb 0", "vm tp", "vl m", "z 1", "i 0  1 0", "n 5", "i 0x1"}) {
    const std::string why = reads({"ve 0 8", "a 0", "i 0 1 0", "x 0 0", line, "ref a 0"}, x());
    EXPECT_NE(why, "") << line;
  }
}

TEST_F(ReplayTest, TermsThatLieTooDeepAreRefused) {
  std::vector<std::string> text{"ve 0 8", "a 0", "i 0 1 0"};
  for (int i = 0; i < 100; ++i) text.push_back((i % 2 == 0 ? "q " : "m ") + std::to_string(i) + " " + std::to_string(7 + i)), text.push_back("i 1 3 " + std::to_string(i + 1) + " 1 0");
  EXPECT_NE(reads({text.begin(), text.end()}, x()), "");
  std::vector<std::string> functions{"ve 0 8", "a 0", "i 0 1 0", "x 0 0"};
  for (int i = 0; i < 500; ++i) functions.push_back("f tanh " + std::to_string(i));
  functions.emplace_back("ref a 500");
  EXPECT_NE(reads({functions.begin(), functions.end()}, x()), "");
}

TEST(Words, NamesAreWords) {
  for (const std::string& name : {std::string("a b"), std::string("100%"), std::string("\n\t\x7f"), std::string(), std::string("l0.attn/x#1")}) {
    const std::string word = as_word(name);
    EXPECT_EQ(word.find_first_of(" \n\t"), std::string::npos);
    EXPECT_EQ(Words(word).name(), name);
  }
}

}  // namespace
}  // namespace shardproof::verifier

// Mutated plan files: whatever the bytes, the reader ends in time with a document or with findings that have a
// place, and a document it accepts can be validated, shown and printed, and reads back as the same bytes.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <random>
#include <sstream>

#include "ir/print.h"
#include "ir/read_json.h"
#include "ir/validate.h"
#include "tests/unit/ir/sample_documents.h"

namespace shardproof::ir {
namespace {

using Random = std::mt19937;  // its sequence is fixed by the standard, unlike the distributions

std::size_t below(Random& random, std::size_t bound) {
  return bound == 0 ? 0 : random() % bound;
}

bool is_utf8(const std::string& text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80   ? 1
                               : lead < 0xC2 ? 0
                               : lead < 0xE0 ? 2
                               : lead < 0xF0 ? 3
                               : lead < 0xF5 ? 4
                                             : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t j = 1; j < length; ++j) {
      if ((static_cast<unsigned char>(text[i + j]) & 0xC0U) != 0x80U) return false;
    }
    i += length;
  }
  return true;
}

std::string printed(const Document& document) {
  std::ostringstream out;
  print_json(document, out);
  return out.str();
}

struct Tally {
  int unreadable = 0;
  int malformed = 0;
  int good = 0;
};

// All properties of one input.
void check(const std::string& text, Tally& tally) {
  DiagnosticSink sink;
  const auto source = std::make_shared<SourceFile>("fuzz.json", text);
  const auto document = read_document(source, sink);
  ASSERT_EQ(document.has_value(), sink.ok());
  for (const Diagnostic& diagnostic : sink.diagnostics()) {
    EXPECT_EQ(diagnostic.code.size(), 6U);
    EXPECT_FALSE(diagnostic.name.empty());
    EXPECT_FALSE(diagnostic.message.empty());
    EXPECT_TRUE(is_utf8(diagnostic.message + diagnostic.found + diagnostic.expected)) << diagnostic.message;
    for (const char c : diagnostic.message + diagnostic.found)
      EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20) << diagnostic.message;
    for (const Label& label : diagnostic.labels) {
      EXPECT_LE(label.span.begin, label.span.end);
      EXPECT_LE(label.span.end, std::max<std::size_t>(text.size(), 1));
    }
  }
  if (!document) {
    ++tally.unreadable;
    return;
  }
  DiagnosticSink findings;
  validate(*document, findings);
  ++(findings.ok() ? tally.good : tally.malformed);
  std::ostringstream shown;
  print_text(*document, shown);
  const std::string once = printed(*document);
  DiagnosticSink again;
  const auto second = read_document(std::make_shared<SourceFile>("again.json", once), again);
  ASSERT_TRUE(second) << again.diagnostics().front().code << " " << again.diagnostics().front().message << "\n" << once;
  EXPECT_EQ(printed(*second), once);
  DiagnosticSink second_findings;
  validate(*second, second_findings);
  EXPECT_EQ(second_findings.error_count(), findings.error_count()) << once;
}

// Token boundaries, found without the code under test: quotes, digits, brackets.
struct Token {
  std::size_t begin;
  std::size_t end;
};
std::vector<Token> tokens_of(const std::string& text) {
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    const char c = text[i];
    if (c == '"') {
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      end = std::min(text.find_first_not_of("0123456789.eE+-", i), text.size());
    } else if (c == ' ' || c == '\n' || c == ',' || c == ':') {
      i = end;
      continue;
    }
    tokens.push_back({i, end});
    i = end;
  }
  return tokens;
}

const std::vector<std::string>& hostile_values() {
  static const std::vector<std::string> values = {
      "0",
      "-1",
      "1",
      "2",
      "3",
      "1099511627776",
      "9223372036854775807",
      "-9223372036854775808",
      "9223372036854775808",
      "18446744073709551616",
      "1e308",
      "1e-320",
      "0.1",
      "1.5",
      "-0",
      "null",
      "true",
      "false",
      "[]",
      "{}",
      "\"\"",
      "\"tp\"",
      "\"dp\"",
      "\"w\"",
      "\"x\"",
      "\"m\"",
      "\"1/0\"",
      "\"1/9223372036854775807\"",
      "\"9223372036854775807*tp\"",
      "\"tp:(1)2\"",
      "\"tp:(0)4\"",
      "\"tp:(9223372036854775807)2\"",
      "\"f32[]\"",
      "\"f32[9223372036854775807,9223372036854775807]\"",
      "\"bool[1]\"",
      "\"i64[1099511627776,1099511627776]\"",
      "\"\\u0000\"",
      "\"\\ud800\"",
      "\"\xC3\xA9\"",
      "\"loop\"",
      "\"reshape\"",
      "\"all_to_all\"",
      "\"((((((((((((((((((((((((((((((((((((((((((((tp\"",
      "\"a,a->\"",
      "\"->\"",
      "[[[]]]",
      "[9223372036854775807, 9223372036854775807]",
      "{\"digits\": [\"tp\"], \"pad\": 9223372036854775807}",
      "{\"digits\": [], \"offsets\": [0, -9223372036854775808, 9223372036854775807]}"};
  return values;
}

std::string mutated(std::string text, Random& random) {
  const std::size_t rounds = 1 + below(random, 3);
  for (std::size_t round = 0; round < rounds && !text.empty(); ++round) {
    const std::size_t at = below(random, text.size());
    const std::size_t length = below(random, std::min<std::size_t>(40, text.size() - at) + 1);
    const auto tokens = tokens_of(text);
    const auto random_token = [&] { return tokens.empty() ? Token{0, 0} : tokens[below(random, tokens.size())]; };
    switch (below(random, 12)) {
      case 0:
        text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ (1U << below(random, 8)));
        break;
      case 1:
        text[at] = static_cast<char>(random() & 0xFFU);
        break;
      case 2:
        text.resize(at);
        break;
      case 3:
        text.erase(at, length);
        break;
      case 4:
        text.insert(at, text.substr(below(random, text.size()), length));
        break;
      case 5:
        text.insert(at, std::string(1, '\0'));
        break;
      case 6:
        text.insert(at, std::string(below(random, 200), below(random, 2) == 0 ? '[' : '{'));
        break;
      default: {
        const Token token = random_token();
        std::string with;
        if (below(random, 2) == 0) {
          const Token other = random_token();
          with = text.substr(other.begin, other.end - other.begin);
        } else {
          with = hostile_values()[below(random, hostile_values().size())];
        }
        text.replace(token.begin, token.end - token.begin, with);
      }
    }
  }
  return text;
}

// A change that is likely to be readable: one value for another of its kind, one line dropped or doubled.
std::string gently_mutated(std::string text, Random& random) {
  const auto tokens = tokens_of(text);
  const Token token = tokens[below(random, tokens.size())];
  const std::string old = text.substr(token.begin, token.end - token.begin);
  const char kind = old.front();
  if (kind == '"') {
    for (int tries = 0; tries < 20; ++tries) {
      const Token other = tokens[below(random, tokens.size())];
      if (text[other.begin] == '"')
        return text.replace(token.begin, old.size(), text.substr(other.begin, other.end - other.begin));
    }
  } else if (kind == '[') {
    const std::size_t close = text.find(']', token.begin);
    if (close != std::string::npos)
      text.replace(token.begin, close + 1 - token.begin, below(random, 2) == 0 ? "[]" : "[2]");
  } else if (kind != '{' && kind != '}' && kind != ']') {
    static const char* const numbers[] = {
        "0", "1", "2", "3", "4", "8", "-1", "16", "1099511627776", "9223372036854775807", "5", "6"};
    text.replace(token.begin, old.size(), numbers[below(random, 12)]);
  } else {
    const std::size_t begin = text.rfind('\n', token.begin);
    const std::size_t end = text.find('\n', token.begin);
    if (begin != std::string::npos && end != std::string::npos) text.erase(begin, end - begin);
  }
  return text;
}

std::string readme_example() {
  std::ifstream file(std::string(SHARDPROOF_SOURCE_DIR) + "/ir/README.md");
  std::ostringstream out;
  out << file.rdbuf();
  const std::string text = out.str();
  const std::size_t begin = text.find("```json\n") + 8;
  return text.substr(begin, text.find("```", begin) - begin);
}

TEST(FormatFuzz, MutatedDocumentsNeverCrashOrHang) {
  const std::vector<std::string> seeds = {readme_example(), rich_document, pipeline_document};
  Tally tally;
  Random random(20240611);
  double slowest = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string& seed = seeds[static_cast<std::size_t>(i) % seeds.size()];
    const std::string text = i % 2 == 0 ? mutated(seed, random) : gently_mutated(seed, random);
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_NO_THROW(check(text, tally)) << "iteration " << i << "\n" << text;
    slowest = std::max(slowest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    if (HasFailure()) FAIL() << "iteration " << i << "\n" << text;
  }
  EXPECT_LT(slowest, 5.0);
  // The mutations must reach every layer.
  EXPECT_GT(tally.unreadable, 3000);
  EXPECT_GT(tally.malformed, 200);
  EXPECT_GT(tally.good, 300);
}

TEST(FormatFuzz, EveryTruncationIsAFinding) {
  const std::string text = readme_example();
  const std::size_t last = text.find_last_of('}');
  Tally tally;
  for (std::size_t length = 0; length <= last; ++length) check(text.substr(0, length), tally);
  EXPECT_EQ(tally.good + tally.malformed, 0);
}

TEST(FormatFuzz, BombsAreRefusedQuickly) {
  const auto begin = std::chrono::steady_clock::now();
  Tally tally;
  check(std::string(5000000, '['), tally);
  std::string objects;
  for (int i = 0; i < 500000; ++i) objects += "{\"a\":";
  check(objects, tally);
  check("{\"shardproof\": 1, \"reference\": {\"body\": [" + std::string(1000000, '0') + "]}}", tally);
  check("{\"shardproof\": 1, \"name\": \"" + std::string(5000000, 'a') + "\\u12\"}", tally);
  // One object with very many unknown keys, one list with very many wrong entries, one very long name.
  std::string keys = "{\"shardproof\": 1";
  for (int i = 0; i < 300000; ++i) keys += ", \"key" + std::to_string(i) + "\": 0";
  check(keys + "}", tally);
  std::string wrong = "{\"shardproof\": 1, \"reference\": {\"body\": [0";
  for (int i = 0; i < 300000; ++i) wrong += ", 0";
  check(wrong + "]}}", tally);
  std::string operands =
      R"({"shardproof": 1, "reference": {"inputs": [{"name": "x", "type": "f32[2]"}], "body": [{"out": "y", "op": "add", "in": ["x")";
  for (int i = 0; i < 300000; ++i) operands += ", \"unknown" + std::to_string(i) + "\"";
  check(operands + "]}]}}", tally);
  EXPECT_EQ(tally.unreadable, 7);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 60.0);
}

}  // namespace
}  // namespace shardproof::ir

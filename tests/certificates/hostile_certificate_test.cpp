// Certificates are hostile input: whatever one says, a wrong plan is never certified, and nothing crashes. Certificates of right plans are
// addressed to the wrong plan of the same bug report, with its digests and a good seal, and then edited at random.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <random>

#include "bugs/case.h"
#include "certificates/certified.h"
#include "proving.h"
#include "verifier/certificate/digest.h"

namespace shardproof {
namespace {

using verifier::CertificateReport;
using verifier::Verdict;
using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t n) { return static_cast<std::size_t>(random() % n); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// The lines with the digests of `document` and a seal that fits.
std::string sealed(std::vector<std::string> lines, const ir::Document& document) {
  const verifier::DocumentDigests digests = verifier::digests_of(document);
  lines[2] = "plan sha256 " + digests.plan;
  lines[3] = "reference sha256 " + digests.reference;
  lines.pop_back();
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text + "end " + std::to_string(lines.size()) + " sha256 " + verifier::sha256(text) + "\n";
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words{""};
  for (const char c : line) {
    if (c == ' ') words.emplace_back();
    else words.back() += c;
  }
  return words;
}

// One edit of the body: of a word, a line, or the order.
void edit(std::vector<std::string>& lines, Random& random) {
  constexpr std::size_t kHeader = 4;
  if (lines.size() < kHeader + 2) return;
  const std::size_t at = kHeader + below(random, lines.size() - kHeader - 1), other = kHeader + below(random, lines.size() - kHeader - 1);
  const auto place = lines.begin() + static_cast<std::ptrdiff_t>(at);
  switch (below(random, 10)) {
    case 0: lines.erase(place); return;
    case 1: lines.insert(place, lines[other]); return;
    case 2: std::swap(lines[at], lines[other]); return;
    case 3: lines[at] = lines[other]; return;
    default: break;
  }
  std::vector<std::string> words = words_of(lines[at]);
  const std::size_t w = below(random, words.size());
  static const std::vector<std::string> kinds{"i", "p", "x", "f", "s", "u", "g", "n", "q", "m", "a", "l", "ve", "vb", "vm", "vl", "def", "ref", "val", "lost", "sum", "cmp", "-", "exp", "-inf", "log", "max"};
  static const std::vector<std::string> numbers{"0", "1", "-1", "2", "7", "-9223372036854775808", "9223372036854775807", "1152921504606846976", "1/0", "1/3", "-64", "99999999999999999999", "%", "%0", "%zz", ""};
  switch (below(random, 6)) {
    case 0: words[w] = numbers[below(random, numbers.size())]; break;
    case 1: words[w] = kinds[below(random, kinds.size())]; break;
    case 2: words[w] = std::to_string(std::strtoll(words[w].c_str(), nullptr, 10) % 1000000007 + (random() % 2 == 0 ? 1 : -1)); break;
    case 3: {
      const std::vector<std::string> others = words_of(lines[other]);
      words[w] = others[below(random, others.size())];
      break;
    }
    case 4: words.erase(words.begin() + static_cast<std::ptrdiff_t>(w)); break;
    default: words.insert(words.begin() + static_cast<std::ptrdiff_t>(w), words[below(random, words.size())]); break;
  }
  lines[at].clear();
  for (std::size_t i = 0; i < words.size(); ++i) lines[at] += (i > 0 ? " " : "") + words[i];
}

std::uint64_t scale() {
  const char* text = std::getenv("SHARDPROOF_FUZZ_SCALE");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}

class HostileCertificates : public testing::TestWithParam<bugs::Bug> {};

TEST_P(HostileCertificates, NoneMakesTheWrongPlanPass) {
  const ir::Document right = GetParam().make(false, bugs::small_sizes()), wrong = GetParam().make(true, bugs::small_sizes());
  const Certified certified = certify(right);
  if (certified.certificate.empty()) {  // not proved, or more than a certificate can say: nothing could make another plan pass
    const auto says_so = [](const ir::Diagnostic& d) { return d.code == "SP0210" || d.code == "SP0804"; };
    EXPECT_TRUE(std::any_of(certified.report.diagnostics.begin(), certified.report.diagnostics.end(), says_so)) << testing_support::told(certified.report);
    return;
  }
  const std::vector<std::string> lines = lines_of(certified.certificate);
  EXPECT_EQ(verifier::check_certificate(right, sealed(lines, right)).verdict, CertificateReport::Verdict::valid);
  EXPECT_EQ(verifier::check_certificate(wrong, certified.certificate).diagnostics.at(0).code, "SP0802");
  EXPECT_NE(verifier::check_certificate(wrong, sealed(lines, wrong)).verdict, CertificateReport::Verdict::valid);
  Random random(std::hash<std::string>()(GetParam().name));
  std::size_t still_valid = 0;
  for (std::uint64_t i = 0; i < 40 * scale(); ++i) {
    std::vector<std::string> edited = lines;
    for (std::size_t edits = 1 + below(random, 3); edits > 0; --edits) edit(edited, random);
    const CertificateReport report = verifier::check_certificate(wrong, sealed(edited, wrong));
    ASSERT_NE(report.verdict, CertificateReport::Verdict::valid) << sealed(edited, wrong);
    ASSERT_FALSE(report.diagnostics.empty());
    // The right plan is right whatever its certificate says.
    if (verifier::check_certificate(right, sealed(edited, right)).verdict == CertificateReport::Verdict::valid) ++still_valid;
  }
  RecordProperty("still_valid", static_cast<int>(still_valid));
}

INSTANTIATE_TEST_SUITE_P(All, HostileCertificates, testing::ValuesIn(bugs::all_bugs()), [](const auto& param) { return param.param.name; });

TEST(Certificates, CutOffOnesAreRejectedWhereverTheyEnd) {
  const ir::Document right = bugs::all_bugs().front().make(false, bugs::small_sizes());
  const std::string whole = certify(right).certificate;
  ASSERT_FALSE(whole.empty());
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 50) {
    const CertificateReport report = verifier::check_certificate(right, whole.substr(0, size));
    ASSERT_EQ(report.verdict, CertificateReport::Verdict::rejected) << size;
    ASSERT_EQ(report.diagnostics.at(0).code, "SP0801") << size;
  }
  // Cut off and sealed again: rejected or valid, the plan is right.
  const std::vector<std::string> lines = lines_of(whole);
  for (std::size_t keep = 5; keep < lines.size(); keep += 1 + keep / 10)
    verifier::check_certificate(right, sealed({lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(keep)}, right));
}

TEST(Certificates, ChangedBytesBreakTheSeal) {
  const ir::Document right = bugs::all_bugs().front().make(false, bugs::small_sizes());
  const std::string whole = certify(right).certificate;
  Random random(7);
  for (int i = 0; i < 500; ++i) {
    std::string changed = whole;
    changed[below(random, changed.size())] ^= static_cast<char>(1 + below(random, 127));
    ASSERT_EQ(verifier::check_certificate(right, changed).verdict, CertificateReport::Verdict::rejected);
  }
}

TEST(Certificates, RandomBytesAreRejected) {
  const ir::Document right = bugs::all_bugs().front().make(false, bugs::small_sizes());
  Random random(11);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = i % 2 == 0 ? "shardproof-certificate 1\n" : "";
    for (std::size_t n = below(random, 400); n > 0; --n) bytes += i % 3 == 0 ? "\n 019%end-x"[below(random, 11)] : static_cast<char>(below(random, 256));
    const CertificateReport report = verifier::check_certificate(right, bytes);
    ASSERT_EQ(report.verdict, CertificateReport::Verdict::rejected);
    ASSERT_EQ(report.diagnostics.at(0).code, "SP0801");
  }
}

TEST(Certificates, OneChangedInstructionOrAnotherReferenceIsForeign) {
  const ir::Document right = bugs::all_bugs().front().make(false, bugs::small_sizes());
  ir::Document plan = right, reference = right;
  plan.plan.stages[0].program.body.pop_back();
  reference.reference.program.body.pop_back();
  EXPECT_EQ(verifier::digests_of(plan).reference, verifier::digests_of(right).reference);
  EXPECT_NE(verifier::digests_of(plan).plan, verifier::digests_of(right).plan);
  EXPECT_NE(verifier::digests_of(reference).reference, verifier::digests_of(right).reference);
}

}  // namespace
}  // namespace shardproof

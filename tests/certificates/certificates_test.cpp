// Every right plan of tests/bugs and of tests/mutations has a certificate, and it checks; that of another plan does not.
#include <gtest/gtest.h>

#include <algorithm>

#include <ostream>

#include "bugs/case.h"
#include "certificates/certified.h"
#include "mutations/mutate.h"
#include "proving.h"

namespace shardproof {
namespace {

using verifier::CertificateReport;
using verifier::Verdict;

std::string told(const CertificateReport& report) {
  std::string text;
  for (const ir::Diagnostic& d : report.diagnostics) text += d.code + " " + d.message + "\n";
  return text;
}

class BugCertificates : public testing::TestWithParam<bugs::Bug> {};

TEST_P(BugCertificates, RightPlanIsCertified) {
  const ir::Document right = GetParam().make(false, bugs::full_sizes());
  const Certified certified = certify(right);
  // Those that divide by their own token count are proved with --assume-defined only.
  if (certified.report.verdict != Verdict::equivalent) {
    EXPECT_TRUE(certified.certificate.empty());
    const auto is_undefined = [](const ir::Diagnostic& d) { return d.code == "SP0210"; };
    EXPECT_TRUE(std::any_of(certified.report.diagnostics.begin(), certified.report.diagnostics.end(), is_undefined)) << testing_support::told(certified.report);
    return;
  }
  ASSERT_FALSE(certified.certificate.empty()) << testing_support::told(certified.report);
  EXPECT_EQ(verifier::check_certificate(right, certified.certificate).verdict, CertificateReport::Verdict::valid);
}

INSTANTIATE_TEST_SUITE_P(All, BugCertificates, testing::ValuesIn(bugs::all_bugs()), [](const auto& param) { return param.param.name; });

TEST(PlannedCertificates, EveryBasePlanIsCertified) {
  std::vector<mutations::Subject> plans = mutations::base_plans();
  for (mutations::Subject& plan : mutations::context_plans()) plans.push_back(std::move(plan));
  for (const mutations::Subject& subject : plans) {
    const Certified certified = certify(subject.document);
    ASSERT_EQ(certified.report.verdict, Verdict::equivalent) << testing_support::told(certified.report);
    EXPECT_FALSE(certified.certificate.empty()) << subject.name << " " << certified.report.obligations.by_z3 << " by Z3 " << testing_support::told(certified.report);
    const CertificateReport checked = verifier::check_certificate(subject.document, certified.certificate);
    EXPECT_EQ(checked.verdict, CertificateReport::Verdict::valid) << subject.name << told(checked);
    EXPECT_EQ(checked.assumptions, certified.report.assumptions);
  }
}

}  // namespace
}  // namespace shardproof

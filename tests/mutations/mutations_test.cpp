// None of the faults may be proved. Options after the usual ones of GoogleTest:
//   --sites=N  --seconds=N  --kind=GLOB  --plan=GLOB  --all-parity  --fixes  --disprove  --every=N  --keep=FOLDER  --keep-all  --list
#include <gtest/gtest.h>

#include <algorithm>

#include <iostream>
#include <set>

#include "mutations/campaign.h"
#include "verifier/verify.h"

namespace shardproof::mutations {
namespace {

CampaignOptions options;
std::size_t every = 1;  // take each n-th kind only

const char* parity_name(Outcome::Parity parity) {
  switch (parity) {
    case Outcome::Parity::not_run:
      return "-";
    case Outcome::Parity::equal:
      return "numerically-equal";
    case Outcome::Parity::differs:
      return "numerically-different";
    case Outcome::Parity::failed:
      return "cannot-run";
  }
  return "";
}

void tell(const Outcome& o) {
  std::cout << o.kind << '\t' << o.plan << '\t' << o.site << '\t' << verifier::verdict_name(o.verdict) << '\t' << o.code
            << '\t' << o.defects << '\t'
            << (o.blamed_at     ? "at"
                : o.blamed_near ? "next"
                                : "elsewhere")
            << '\t' << (o.fix_verified ? "fixed" : "-") << '\t' << parity_name(o.parity) << '\t' << o.seconds << '\t' << o.blamed << '\t' << o.changed << std::endl;
}

std::vector<Subject> proved(std::vector<Subject> candidates) {
  std::vector<Subject> plans;
  for (Subject& plan : candidates) {
    if (!matches(options.plan, plan.name)) continue;
    verifier::VerifyOptions base_options;
    base_options.timeout_seconds = 20;
    base_options.suggest_fixes = false;
    const verifier::Report report = verifier::verify(plan.document, base_options);
    std::cout << plan.name << ": " << verifier::verdict_name(report.verdict) << ", " << report.statistics.seconds
              << " s" << std::endl;
    EXPECT_EQ(report.verdict, verifier::Verdict::equivalent) << plan.name << ": " << report.unknown_reason;
    if (report.verdict == verifier::Verdict::equivalent) plans.push_back(std::move(plan));
  }
  return plans;
}

std::vector<Outcome> attempt(const std::vector<Subject>& plans, const Kinds& kinds) {
  const std::vector<Outcome> outcomes = run_campaign(plans, kinds, options);
  std::cout << table(outcomes) << "blamed at the fault or one instruction on: " << blamed_share(outcomes) << '\n';
  if (options.disprove) {
    const auto unknown = std::count_if(outcomes.begin(), outcomes.end(), [](const Outcome& o) {
      return o.verdict == verifier::Verdict::unknown && o.kind != "clip_always";  // shows below a norm of one only
    });
    std::cout << "without a counterexample: " << unknown << " of " << outcomes.size() << '\n';
    EXPECT_LE(static_cast<double>(unknown), 0.01 * static_cast<double>(outcomes.size()));
  }
  for (const Outcome& o : outcomes) {
    const bool proved = o.verdict == verifier::Verdict::equivalent;
    EXPECT_FALSE(proved) << o.kind << " in " << o.plan << " at " << o.site
                         << " was proved; parity: " << parity_name(o.parity);
    // A fault that changes nothing is a mistake in the kind, not in the verifier. Always clipping shows only below a
    // norm of one, which random gradients exceed.
    EXPECT_TRUE(o.parity != Outcome::Parity::equal || (o.kind == "clip_always" && !proved))
        << o.kind << " in " << o.plan << " at " << o.site << " is no fault";
  }
  return outcomes;
}

Kinds each(const Kinds& all, std::size_t step) {
  Kinds kinds;
  for (std::size_t i = 0; i < all.size(); i += step) kinds.push_back(all[i]);
  return kinds;
}

TEST(Mutations, NoneIsProved) {
  const std::vector<Subject> plans = proved(base_plans());
  if (plans.empty()) GTEST_SKIP() << "no plan of that name";
  const Kinds kinds = each(all_kinds(), every);
  const std::vector<Outcome> outcomes = attempt(plans, kinds);
  std::set<std::string> names, tried;
  for (const Outcome& o : outcomes)
    if (o.verdict != verifier::Verdict::invalid) tried.insert(o.kind);
  for (const Kind& kind : kinds) EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
  if (options.kind == "*" && options.plan == "*" && every == 1) {
    EXPECT_GE(tried.size(), 60U);
    // What the diagnosis reaches (README.md); a change that lowers it should say why.
    EXPECT_GE(blamed_share(outcomes), 0.9);
    if (options.fixes) {
      EXPECT_GE(fixed_share(outcomes), 0.75);
    }
  }
}

// The kinds that are about it, and some of the others.
TEST(Mutations, NoneIsProvedWithContextParallelism) {
  const std::vector<Subject> plans = proved(context_plans());
  if (plans.empty()) GTEST_SKIP() << "no plan of that name";
  Kinds kinds = each(context_kinds(), every);
  const std::size_t own = kinds.size();
  for (Kind& kind : each(all_kinds(), 5 * every))
    if (!matches("context_*", kind.name)) kinds.push_back(std::move(kind));
  const std::vector<Outcome> outcomes = attempt(plans, kinds);
  if (options.kind == "*" && options.plan == "*") {
    EXPECT_GE(outcomes.size(), own);
  }
}

}  // namespace
}  // namespace shardproof::mutations

int main(int argc, char** argv) {
  using shardproof::mutations::options;
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string value = argument.substr(argument.find('=') + 1);
    if (argument.starts_with("--sites=")) {
      options.sites = std::stoul(value);
    } else if (argument.starts_with("--seconds=")) {
      options.timeout_seconds = std::stod(value);
    } else if (argument.starts_with("--kind=")) {
      options.kind = value;
    } else if (argument.starts_with("--plan=")) {
      options.plan = value;
    } else if (argument.starts_with("--keep=")) {
      options.keep = value;
    } else if (argument == "--keep-all") {
      options.keep_all = true;
    } else if (argument == "--disprove") {
      options.disprove = true;
    } else if (argument.starts_with("--every=")) {
      shardproof::mutations::every = std::max(1UL, std::stoul(value));
    } else if (argument == "--fixes") {
      options.fixes = true;
    } else if (argument == "--all-parity") {
      options.check_all = true;
    } else if (argument == "--list") {
      options.done = shardproof::mutations::tell;
    } else {
      std::cerr << "unknown option " << argument << '\n';
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}

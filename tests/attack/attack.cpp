// The attack campaign: random plans and random edits of right ones, each verified, and every verdict checked by execution. A
// plan that is proved and differs from its reference is a bug in the prover; its file is kept. Prints the seed of everything.
#include <chrono>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "attack/campaign.h"

namespace shardproof::attack {
namespace {

constexpr const char* kUsage = "usage: attack [--seed=N] [--first=INDEX] [--count=N] [--seconds=S] [--jobs=N] [--random=PERCENT] [--keep=DIR] "
                               "[--keep-alike=N]\n";

bool read(int argc, char** argv, Options& options) {
  const std::map<std::string, std::function<void(const std::string&)>> known = {
      {"--seed", [&](const std::string& v) { options.seed = std::stoull(v); }},
      {"--first", [&](const std::string& v) { options.first = std::stoll(v); }},
      {"--count", [&](const std::string& v) { options.count = std::stoll(v); }},
      {"--seconds", [&](const std::string& v) { options.seconds = std::stod(v); }},
      {"--jobs", [&](const std::string& v) { options.jobs = std::stoll(v); }},
      {"--random", [&](const std::string& v) { options.random_percent = std::stoll(v); }},
      {"--keep", [&](const std::string& v) { options.keep = v; }},
      {"--keep-alike", [&](const std::string& v) { options.keep_alike = std::stoll(v); }},
  };
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = argument.find('=');
    const auto found = known.find(argument.substr(0, equals));
    if (found == known.end() || equals == std::string::npos) return false;
    try {
      found->second(argument.substr(equals + 1));
    } catch (const std::exception&) {
      return false;
    }
  }
  return true;
}

int attack(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  std::int64_t done = 0;
  const Table table = run(options, std::cout, done);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::cout << "seed " << options.seed << ", " << done << " attacks, " << seconds << " s\n";
  print(table, std::cout);
  Count total;
  for (const auto& [row, count] : table) total += count;
  return total.wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace shardproof::attack

int main(int argc, char** argv) {
  shardproof::attack::Options options;
  if (!shardproof::attack::read(argc, argv, options)) {
    std::cerr << shardproof::attack::kUsage;
    return 2;
  }
  return shardproof::attack::attack(options);
}

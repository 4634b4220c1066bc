// The attack campaign: random edits of right plans, each verified, and every verdict checked by execution. A plan that is
// proved and differs from its reference is a bug in the prover; its file is kept. Prints the seed of everything.
//   attack [--seed=N] [--count=N] [--seconds=S] [--keep=DIR]
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "attack/edits.h"
#include "bugs/case.h"
#include "ir/print.h"
#include "ir/validate.h"
#include "lowering/build_reference.h"
#include "lowering/plan_training.h"
#include "unit/lowering/plan_models.h"
#include "verifier/execution/counterexample.h"
#include "verifier/verify.h"

namespace shardproof::attack {
namespace {

struct Base {
  std::string name;
  std::function<ir::Document()> make;
};

ir::Document planned(const lowering::ModelConfig& model, const lowering::ParallelConfig& parallel) {
  ir::Document document;
  const lowering::TrainingConfig training;
  document.reference =
      lowering::build_reference(model, training, parallel.global_batch_size, parallel.seq_length);
  document.plan = lowering::plan_training(model, training, parallel, document.reference);
  return document;
}

std::vector<Base> bases() {
  std::vector<Base> all;
  for (const bugs::Bug& bug : bugs::all_bugs()) {
    all.push_back({bug.name, [bug] { return bug.make(false, bugs::small_sizes()); }});
    all.push_back({bug.name + "_wrong", [bug] { return bug.make(true, bugs::small_sizes()); }});
  }
  using namespace lowering::testing;
  for (const bool llama : {true, false})
    for (const auto& [tp, dp] : {std::pair{1, 2}, {2, 1}, {2, 2}})
      for (const bool sharded : {false, true})
        all.push_back({std::string(llama ? "llama" : "gpt2") + "_tp" + std::to_string(tp) + "_dp" + std::to_string(dp) +
                           (sharded ? "_zero1" : ""),
                       [=, tp = tp, dp = dp] {
                         lowering::ModelConfig model = llama ? small_llama(1) : small_gpt2(1);
                         model.hidden_size = 8;
                         model.num_heads = 4;
                         model.num_kv_heads = llama ? 2 : 4;
                         model.head_dim = 2;
                         model.intermediate_size = 8;
                         model.vocab_size = 16;
                         model.max_positions = 4;
                         lowering::ParallelConfig parallel = degrees(tp, dp, tp > 1, sharded);
                         parallel.seq_length = 4;
                         return planned(model, parallel);
                       }});
  return all;
}

struct Count {
  std::int64_t proved = 0, refuted = 0, alike = 0, undecided = 0, wrong = 0;

  void operator+=(const Count& c) {
    proved += c.proved;
    refuted += c.refuted;
    alike += c.alike;
    undecided += c.undecided;
    wrong += c.wrong;
  }
  std::int64_t all() const { return proved + refuted + alike + undecided; }
};

void print_row(const std::string& name, const Count& c) {
  std::cout << std::left << std::setw(28) << name << std::right << std::setw(9) << c.all() << std::setw(9) << c.proved
            << std::setw(9) << c.refuted << std::setw(9) << c.alike << std::setw(10) << c.undecided << std::setw(7)
            << c.wrong << "\n";
}

bool valid(const ir::Document& document) {
  ir::DiagnosticSink sink;
  ir::validate(document, sink);
  return sink.ok();
}

class Campaign {
 public:
  explicit Campaign(std::string keep) : keep_(std::move(keep)) {}

  void attack(const Base& base, const ir::Document& document, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::string kind;
    ir::Document mutant;
    for (int tries = 0; tries < 50 && kind.empty(); ++tries) {
      mutant = deep_copy(document);
      kind = edit(mutant, random);
      if (!kind.empty() && random() % 4 == 0) {  // two faults may hide each other
        const std::string second = edit(mutant, random);
        if (!second.empty()) kind = "two edits";
      }
      if (!valid(mutant)) kind.clear();
    }
    if (kind.empty()) return;
    verifier::VerifyOptions options;
    options.suggest_fixes = options.find_counterexample = options.cross_check = false;
    options.timeout_seconds = 20;
    const verifier::Report report = verifier::verify(mutant, options);
    execution::SearchLimits limits;
    limits.nonnegative = {report.nonnegative_states.begin(), report.nonnegative_states.end()};
    limits.despite_the_field = report.verdict == verifier::Verdict::equivalent;
    limits.total_work = 20'000'000;
    const execution::SearchResult executed = execution::find_counterexample(mutant, limits);
    Count& count = counts_[kind];
    if (report.verdict == verifier::Verdict::equivalent) {
      ++count.proved;
      if (executed.counterexample) {
        ++count.wrong;
        keep(base, mutant, seed, *executed.counterexample);
      }
    } else if (executed.counterexample) {
      ++count.refuted;
    } else if (executed.differs_in_field || executed.field_runs == 0) {
      ++count.undecided;
    } else {
      ++count.alike;
    }
  }

  Count print() const {
    std::cout << std::left << std::setw(28) << "edit" << std::right << std::setw(9) << "mutants" << std::setw(9) << "proved"
              << std::setw(9) << "refuted" << std::setw(9) << "alike" << std::setw(10) << "undecided" << std::setw(7)
              << "WRONG" << "\n";
    Count total;
    for (const auto& [kind, count] : counts_) {
      print_row(kind, count);
      total += count;
    }
    print_row("all", total);
    return total;
  }

 private:
  void keep(const Base& base, const ir::Document& mutant, std::uint64_t seed, const execution::Counterexample& c) const {
    std::cout << "WRONG: " << base.name << " seed " << seed << ": " << c.name << " is " << c.found << " on rank " << c.rank
              << " instead of " << c.expected << std::endl;
    if (keep_.empty()) return;
    std::ofstream out(keep_ + "/wrong_" + base.name + "_" + std::to_string(seed) + ".json");
    ir::print_json(mutant, out);
  }

  std::string keep_;
  std::map<std::string, Count> counts_;
};

int run(std::uint64_t seed, std::int64_t count, double seconds, const std::string& keep) {
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const std::vector<Base> all = bases();
  std::map<std::string, ir::Document> made;
  Campaign campaign(keep);
  std::mt19937_64 random(seed);
  std::int64_t done = 0;
  for (; done < count && (seconds <= 0 || elapsed() < seconds); ++done) {
    const Base& base = all[random() % all.size()];
    const auto [at, added] = made.try_emplace(base.name);
    if (added) at->second = base.make();
    campaign.attack(base, at->second, random());
  }
  std::cout << "seed " << seed << ", " << done << " attacks, " << elapsed() << " s\n";
  const Count total = campaign.print();
  return total.wrong == 0 && total.proved > 0 && total.refuted > 0 ? 0 : 1;
}

}  // namespace
}  // namespace shardproof::attack

int main(int argc, char** argv) {
  std::uint64_t seed = 1;
  std::int64_t count = 1000;
  double seconds = 0;
  std::string keep;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals), value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (name == "--seed") seed = std::stoull(value);
    else if (name == "--count") count = std::stoll(value);
    else if (name == "--seconds") seconds = std::stod(value);
    else if (name == "--keep") keep = value;
    else {
      std::cerr << "usage: attack [--seed=N] [--count=N] [--seconds=S] [--keep=DIR]\n";
      return 2;
    }
  }
  return shardproof::attack::run(seed, count, seconds, keep);
}

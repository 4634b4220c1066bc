#include "attack/campaign.h"

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iomanip>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "attack/bases.h"
#include "attack/dice.h"
#include "attack/edits.h"
#include "attack/programs.h"
#include "attack/shrink.h"
#include "ir/print.h"
#include "ir/validate.h"
#include "verifier/execution/counterexample.h"
#include "verifier/verify.h"

namespace shardproof::attack {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kShrinkAttempts = 1000;  // some seconds

bool valid(const ir::Document& document) {
  ir::DiagnosticSink sink;
  ir::validate(document, sink);
  return sink.ok();
}

std::string text_of(const ir::Document& document) {
  std::ostringstream out;
  ir::print_json(document, out);
  return std::move(out).str();
}

// Limits of the prover that are documented.
bool has_partial_or_uneven_inputs(const ir::Document& document) {
  const auto has = [](const auto& entry) {
    const ir::Placement& placement = entry.binding.placement;
    return !placement.partial.empty() || std::ranges::any_of(placement.dims, [](const ir::DimLayout& dim) { return !dim.offsets.empty(); });
  };
  const ir::StageProgram& stage = document.plan.stages.front();
  return std::ranges::any_of(stage.inputs, has) || std::ranges::any_of(stage.state, has);
}

struct Judged {
  bool proved = false;
  bool structure = false;  // refused whatever the values are
  std::string reason;      // otherwise
  execution::SearchResult executed;

  bool wrong() const { return proved && executed.counterexample; }
  // Right, as far as execution tells, and beyond the prover.
  bool alike() const { return !proved && !structure && !executed.counterexample && !executed.differs_in_field && executed.field_runs > 0; }
};

Judged judge(const ir::Document& document) {
  verifier::VerifyOptions options;
  options.suggest_fixes = options.find_counterexample = options.cross_check = false;
  options.timeout_seconds = 20;
  const verifier::Report report = verifier::verify(document, options);
  Judged judged;
  judged.proved = report.verdict == verifier::Verdict::equivalent;
  judged.structure = report.verdict == verifier::Verdict::not_equivalent;
  if (!judged.proved && !report.diagnostics.empty()) judged.reason = report.diagnostics.front().code + " " + report.diagnostics.front().message;
  execution::SearchLimits limits;
  limits.nonnegative = {report.nonnegative_states.begin(), report.nonnegative_states.end()};
  limits.despite_the_field = judged.proved;
  limits.total_work = 20'000'000;
  limits.simplify = false;
  judged.executed = execution::find_counterexample(document, limits);
  return judged;
}

std::string code_of(const std::string& reason) {
  return reason.substr(0, reason.find(' '));
}

// splitmix64: neighbouring numbers give unlike seeds.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

class Job {
 public:
  Job(const Options& options, std::ostream& out) : options_(options), out_(out), bases_(known_bases()), made_(bases_.size()) {}

  void attack(std::int64_t index) {
    try {
      attempt(index);
    } catch (const std::exception& error) {
      ++table_[{Bases::known, "failed"}].wrong;
      say("FAILED: --first=" + std::to_string(index) + ": " + error.what());
    }
  }

  const Table& table() const { return table_; }

 private:
  void attempt(std::int64_t index) {
    std::mt19937_64 random(mixed(mixed(options_.seed) + static_cast<std::uint64_t>(index)));
    Dice dice(random);
    const bool on_random = dice.chance(static_cast<int>(options_.random_percent));
    std::string base = "random";
    ir::Document document;
    std::string kind;
    if (on_random) {
      document = random_program(random);
      if (dice.chance(30)) kind = has_partial_or_uneven_inputs(document) ? kUneditedLimits : kUnedited;
    } else {
      const auto chosen = static_cast<std::size_t>(dice.below(static_cast<std::int64_t>(bases_.size())));
      base = bases_[chosen].name;
      if (!made_[chosen]) made_[chosen] = bases_[chosen].make();
      document = *made_[chosen];
    }
    if (kind.empty()) kind = edit_randomly(document, random);
    if (kind.empty()) return;
    const std::string name = base + "_" + std::to_string(options_.seed) + "_" + std::to_string(index);
    add(table_[{on_random ? Bases::random : Bases::known, kind}], document, name, kind, index);
  }

  static std::string edit_randomly(ir::Document& document, std::mt19937_64& random) {
    ir::Document mutant;
    const std::string before = text_of(document);
    for (int tries = 0; tries < 50; ++tries) {
      mutant = deep_copy(document);
      std::string kind = edit(mutant, random);
      if (!kind.empty() && random() % 4 == 0) {  // two faults may hide each other
        const std::string second = edit(mutant, random);
        if (!second.empty()) kind = "two edits";
      }
      if (kind.empty() || !valid(mutant) || text_of(mutant) == before) continue;
      document = std::move(mutant);
      return kind;
    }
    return "";
  }

  void add(Count& count, const ir::Document& document, const std::string& name, const std::string& kind, std::int64_t index) {
    const Judged judged = judge(document);
    const std::optional<execution::Counterexample>& difference = judged.executed.counterexample;
    ++(judged.proved ? count.proved : judged.structure ? count.structure : difference ? count.refuted : judged.alike() ? count.alike : count.undecided);
    if (judged.wrong()) {
      ++count.wrong;
      std::ostringstream text;
      text << "WRONG: " << name << ": --seed=" << options_.seed << " --first=" << index << " --count=1: " << difference->name << " is "
           << difference->found << " on rank " << difference->rank << " instead of " << difference->expected << " " << difference->out_of_bounds;
      say(text.str());
      store("wrong_" + name, document, [](const Judged& j) { return j.wrong(); });
    } else if ((kind == kUnedited || kind == kUneditedLimits) && (difference || judged.structure)) {
      ++count.wrong;
      say("WRONG PROGRAM: " + name + ": a fault of the generator, unless the plan is right: " + judged.reason);
      store("program_" + name, document, [&](const Judged& j) { return judged.structure ? j.structure : j.executed.counterexample.has_value(); });
    } else if (judged.alike() && ++alike_[kind] <= options_.keep_alike) {
      say("ALIKE: " + kind + " " + name + ": " + judged.reason);
      store("alike_" + name, document, [&](const Judged& j) { return j.alike() && code_of(j.reason) == code_of(judged.reason); });
    }
  }

  // In one piece: other jobs write, too.
  void say(const std::string& text) const { out_ << text + "\n" << std::flush; }

  // As it was found, and shrunk while that is true of it.
  template <typename Verdict>
  void store(const std::string& name, const ir::Document& document, const Verdict& verdict) const {
    if (options_.keep.empty()) return;
    std::ofstream(options_.keep + "/" + name + ".json") << text_of(document);
    const ir::Document small = shrink(document, [&](const ir::Document& d) { return verdict(judge(d)); }, kShrinkAttempts);
    std::ofstream(options_.keep + "/" + name + "_small.json") << text_of(small);
  }

  const Options& options_;
  std::ostream& out_;
  std::vector<Base> bases_;
  std::vector<std::optional<ir::Document>> made_;
  Table table_;
  std::map<std::string, std::int64_t> alike_;
};

// Every `jobs`-th attack. `begin` is told the index of each.
template <typename Begin>
Table run_job(const Options& options, std::int64_t job, std::ostream& out, const Begin& begin) {
  const auto start = Clock::now();
  Job own(options, out);
  for (std::int64_t i = job; i < options.count; i += options.jobs) {
    if (options.seconds > 0 && std::chrono::duration<double>(Clock::now() - start).count() > options.seconds) break;
    begin(options.first + i);
    own.attack(options.first + i);
  }
  return own.table();
}

// What a job tells its parent, line by line: the index of each attack, and its table at the end.
void write_rows(const Table& table, std::FILE* to) {
  for (const auto& [row, c] : table)
    std::fprintf(to, "row %d %lld %lld %lld %lld %lld %lld %s\n", row.first == Bases::random ? 1 : 0, static_cast<long long>(c.proved),
                 static_cast<long long>(c.structure), static_cast<long long>(c.refuted), static_cast<long long>(c.alike), static_cast<long long>(c.undecided),
                 static_cast<long long>(c.wrong), row.second.c_str());
  std::fprintf(to, "end\n");
}

struct Child {
  pid_t pid = -1;
  std::FILE* from = nullptr;
};

Child start(const Options& options, std::int64_t job, std::ostream& out) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  out.flush();
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("no process");
  if (pid > 0) {
    ::close(ends[1]);
    return {pid, ::fdopen(ends[0], "r")};
  }
  std::FILE* to = ::fdopen(ends[1], "w");
  std::setvbuf(to, nullptr, _IOLBF, 0);
  write_rows(run_job(options, job, out, [&](std::int64_t index) { std::fprintf(to, "attack %lld\n", static_cast<long long>(index)); }), to);
  std::fclose(to);
  out.flush();
  ::_exit(0);
}

struct Told {
  Table table;
  std::int64_t done = 0;
  std::int64_t last = -1;  // attack begun
  bool ended = false;
};

// Reads what a job says until it ends.
Told listen(const Child& child) {
  Told told;
  char* line = nullptr;
  std::size_t size = 0;
  while (::getline(&line, &size, child.from) > 0) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "attack") {
      words >> told.last;
      ++told.done;
    } else if (word == "row") {
      int bases = 0;
      Count c;
      words >> bases >> c.proved >> c.structure >> c.refuted >> c.alike >> c.undecided >> c.wrong >> std::ws;
      std::string kind;
      std::getline(words, kind);
      told.table[{bases == 1 ? Bases::random : Bases::known, kind}] += c;
    } else if (word == "end") {
      told.ended = true;
    }
  }
  std::free(line);
  std::fclose(child.from);
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  return told;
}

}  // namespace

void Count::operator+=(const Count& other) {
  proved += other.proved;
  structure += other.structure;
  refuted += other.refuted;
  alike += other.alike;
  undecided += other.undecided;
  wrong += other.wrong;
}

Table run(const Options& options, std::ostream& out, std::int64_t& done) {
  done = 0;
  Table table;
  if (options.jobs <= 1) {
    return run_job(options, 0, out, [&](std::int64_t) { ++done; });
  }
  std::vector<Child> children;
  for (std::int64_t job = 0; job < options.jobs; ++job) children.push_back(start(options, job, out));
  // Pipes hold little: each is read while its job runs.
  std::vector<Told> told(children.size());
  std::vector<std::thread> readers;
  for (std::size_t i = 0; i < children.size(); ++i) readers.emplace_back([&, i] { told[i] = listen(children[i]); });
  for (std::thread& reader : readers) reader.join();
  for (const Told& job : told) {
    for (const auto& [row, count] : job.table) table[row] += count;
    done += job.done;
    if (job.ended) continue;
    out << "DIED: a job, in attack --first=" << job.last << " --count=1" << std::endl;
    ++table[{Bases::known, "died"}].wrong;
  }
  return table;
}

void print(const Table& table, std::ostream& out) {
  const auto row = [&](const std::string& name, const Count& c) {
    out << std::left << std::setw(28) << name << std::right << std::setw(9) << c.all() << std::setw(9) << c.proved << std::setw(10) << c.structure << std::setw(9)
        << c.refuted << std::setw(9) << c.alike << std::setw(10) << c.undecided << std::setw(7) << c.wrong << "\n";
  };
  for (const Bases bases : {Bases::known, Bases::random}) {
    out << std::left << std::setw(28) << (bases == Bases::known ? "bug reports, small models" : "random programs") << std::right
        << std::setw(9) << "plans" << std::setw(9) << "proved" << std::setw(10) << "structure" << std::setw(9) << "refuted" << std::setw(9) << "alike"
        << std::setw(10) << "undecided" << std::setw(7) << "WRONG" << "\n";
    Count total;
    for (const auto& [key, count] : table) {
      if (key.first != bases) continue;
      row(key.second, count);
      total += count;
    }
    row("all", total);
  }
}

}  // namespace shardproof::attack

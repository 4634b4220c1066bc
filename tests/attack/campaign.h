// Attacks on the prover, numbered: what attack `index` of a seed is depends on these two numbers alone, however many processes
// share the work.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <utility>

#include "ir/plan.h"

namespace shardproof::attack {

struct Count {
  std::int64_t proved = 0;
  std::int64_t structure = 0;  // refused for what holds whatever the values are
  std::int64_t refuted = 0;    // not proved, with a counterexample
  std::int64_t alike = 0;      // not proved, equal in all runs: right plans that the prover misses, nearly all of them
  std::int64_t undecided = 0;  // not proved; the field shows a difference and no run with floats does, or nothing runs
  std::int64_t wrong = 0;      // proved, with a counterexample; or the prover failed
  void operator+=(const Count& other);
  friend bool operator==(const Count&, const Count&) = default;
  std::int64_t all() const { return proved + structure + refuted + alike + undecided; }
};

enum class Bases : std::uint8_t { known, random };  // bug reports and small models, or programs.h

// By what was edited and how.
using Table = std::map<std::pair<Bases, std::string>, Count>;
inline const std::string kUnedited = "not edited";
inline const std::string kUneditedLimits = "not edited, beyond limits";  // inputs that are partial sums or uneven

struct Options {
  std::uint64_t seed = 1;
  std::int64_t first = 0;    // index of the first attack
  std::int64_t count = 1000;
  double seconds = 0;        // 0: no limit
  std::int64_t jobs = 1;     // processes
  std::string keep;          // folder for what was proved and is wrong, as found and shrunk; empty: none
  std::int64_t keep_alike = 0;  // and for the first so many of each kind that are alike and not proved
  std::int64_t random_percent = 50;  // of the attacks: on random programs
};

// Ends early after `seconds`; `done` counts the attacks. A job that dies is reported on `out`, and counts as wrong.
Table run(const Options& options, std::ostream& out, std::int64_t& done);

void print(const Table& table, std::ostream& out);

}  // namespace shardproof::attack

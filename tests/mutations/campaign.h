// Runs the verifier on mutants and counts. Deterministic but for the times.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mutations/mutate.h"
#include "verifier/report.h"

namespace shardproof::mutations {

struct CampaignOptions {
  std::size_t sites = 1;      // of each kind, over all plans in turn
  std::string kind = "*";     // glob
  std::string plan = "*";     // glob
  bool check_all = false;     // numeric parity of every mutant, not only of proved ones (needs the runtime)
  bool fixes = false;         // look for repairs as well: slow
  bool disprove = false;      // look for counterexamples as well: slow
  int max_defects = 2;
  double timeout_seconds = 10;   // of one verification
  std::function<void(const struct Outcome&)> done;  // called after each, one at a time
  std::string keep;           // folder for the plan files of mutants that were proved; empty: none
  bool keep_all = false;      // keep the others as well
};

struct Outcome {
  std::string kind, plan, site;
  verifier::Verdict verdict = verifier::Verdict::unknown;
  std::string code;              // of the first diagnostic
  std::string blamed;            // what it names
  std::string changed;           // names of what was changed
  std::size_t defects = 0;       // diagnostics
  bool blamed_at = false;        // a diagnostic names a changed instruction or state
  bool blamed_near = false;      // ... or one that reads a changed value, through ops without arithmetic
  bool names_instruction = false;
  bool fix_verified = false;
  double seconds = 0;
  // Numeric parity, where it was run.
  enum class Parity { not_run, equal, differs, failed };
  Parity parity = Parity::not_run;
};

std::vector<Outcome> run_campaign(const std::vector<Subject>& plans, const Kinds& kinds, const CampaignOptions& options);

// One line per kind and a total.
std::string table(const std::vector<Outcome>& outcomes);
// Of the mutants that validation takes and that are not shown to be harmless, the share blamed where they were changed
// or one instruction on.
double blamed_share(const std::vector<Outcome>& outcomes);

// The share of the same mutants for which a verified fix was found (with `fixes`).
double fixed_share(const std::vector<Outcome>& outcomes);

// Numeric parity; not_run without the runtime.
Outcome::Parity parity(const ir::Document& document);
bool has_parity();

}  // namespace shardproof::mutations

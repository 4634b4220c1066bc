// What a verification found, as data. Renderers (render_text, render_json) turn it into output; nothing
// here prints. A Report never depends on time or the number of jobs, except for `statistics`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/plan.h"
#include "verifier/structure/findings.h"

namespace shardproof::verifier {

// equivalent:     every obligation is proved and no error is reported.
// not_equivalent: at least one error that is a disproof: a structural violation, or a value difference
//                 with a witness.
// unknown:        something was neither proved nor disproved; never a pass. `unknown_reason` says why.
// invalid:        the document has no meaning to verify (malformed, contradictory premises).
enum class Verdict { equivalent, not_equivalent, unknown, invalid };

// "equivalent", "not-equivalent", "unknown", "invalid": spelled so in JSON and text.
std::string_view verdict_name(Verdict verdict);

// The convention of diff, extended: 0 equivalent, 1 not equivalent, 2 invalid input, 3 unknown. An internal
// error has no verdict; front ends exit with 70.
int exit_code(Verdict verdict);

// One obligation is one thing to prove: an output or state under its placement, a collective that matches,
// an index in its bounds. by_z3 counts those of `proved` that needed the solver.
struct Obligations {
  std::int64_t proved = 0;
  std::int64_t refuted = 0;
  std::int64_t unknown = 0;
  std::int64_t by_z3 = 0;

  std::int64_t total() const { return proved + refuted + unknown; }
};

struct Statistics {
  double seconds = 0;
  std::size_t peak_bytes = 0;  // resident memory of the process, its most until the end; 0: not measured
  std::int64_t reference_instructions = 0;
  std::int64_t plan_instructions = 0;
  std::int64_t z3_queries = 0;
  std::int64_t folds = 0;  // plan values recognised as a reference value
};

// What the second witness (smt_witness.h) made of a proof.
struct SmtConfirmation {
  std::int64_t obligations = 0;  // instructions, loops and claims
  std::int64_t distinct = 0;     // up to renaming
  std::int64_t confirmed = 0;    // of the distinct ones
  std::int64_t queries = 0;      // put to the solver
  std::int64_t remembered = 0;   // answered by an earlier run
  std::string solver;            // "z3-4.8.12"
  struct Open {
    std::string reason;
    std::string place;  // of the first
    std::int64_t count = 0;
  };
  std::vector<Open> open;  // not confirmed: how many for which reason
  double seconds = 0;
};

struct SmtQuery {
  std::string place;
  std::string script;  // SMT-LIB 2; unsatisfiable if the step is right
};

// Inputs on which the plan computes something else than its reference, found by executing both and replayed in float64.
struct Counterexample {
  struct Input {
    std::string name;  // reference input or state
    std::string type;  // "f32[8,16]"
    std::vector<double> values;
  };
  std::vector<Input> inputs;    // those with an element that is not 0
  std::int64_t zero_inputs = 0;  // how many others there are
  std::string subject;           // "state `w` after the step", "output `loss`"
  std::string rank;              // "rank 3 (dp=1, tp=1)"
  std::string local_element;     // "[0, 3]" of that rank's tensor
  std::string reference_element; // "w[2, 3]"; empty: padding that must be 0
  double expected = 0;
  double found = 0;            // NaN or infinite: undefined
  std::optional<double> open;  // what elements hold on entry that placements leave open, if there are any
  std::int64_t differing = 0;  // outputs and states that differ on these inputs
  std::string out_of_bounds;   // instead of a difference: what leaves its operand on `rank`, and how
  std::vector<std::string> sizes;  // in which the executed plan differs from the document: empty, as it is
  std::shared_ptr<const ir::Document> executed;  // at those sizes; null: the document itself
  std::map<std::string, std::vector<double>> values;  // all inputs and states of the reference, row-major
  // Where the executed plan leaves its reference, whatever the prover thinks (held_values.h). Empty: not looked for.
  struct HeldValue {
    std::string value;        // of the plan, or the output or state that differs
    std::string instruction;  // that computes it; empty for an output or state
    std::string text;         // "is no value of the reference; it reads `g`: summands over tp of `d_w`"
  };
  std::vector<HeldValue> held;
};

struct Report {
  Verdict verdict = Verdict::unknown;
  std::vector<ir::Diagnostic> diagnostics;  // most important first; at most one per cause
  Obligations obligations;
  std::vector<std::string> assumptions;  // what the verdict rests on; listed with the good one too
  std::vector<std::string> nonnegative_states;  // one of the assumptions, as names
  std::set<std::string> proved_results;  // plan states and outputs all of whose claims are proved
  std::string executed;  // verdict == equivalent: what a run of both programs added to the proof; empty: not run
  std::optional<SmtConfirmation> smt;    // verdict == equivalent, if the second witness was asked
  std::string unknown_reason;            // verdict == unknown: one sentence, with the place
  std::optional<Counterexample> counterexample;  // verdict == not_equivalent by execution
  std::string no_counterexample;         // why none was found; empty: found, or not looked for
  std::optional<structure::ScheduleSummary> schedule;  // of a plan that has a schedule
  Statistics statistics;
};

}  // namespace shardproof::verifier

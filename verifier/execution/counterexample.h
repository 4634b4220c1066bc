// Looks for inputs on which a plan and its reference differ, by running both at the sizes the document has.
//
// A prime field decides first whether they differ at all; then small numbers are tried until a difference shows in
// floats. A difference counts if it is far above rounding (double and long double agree on it) and the reference is
// defined on these inputs. What is found is a disproof that anybody can replay; that nothing is found says nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "verifier/execution/tensor.h"

namespace shardproof::execution {

struct Counterexample {
  std::map<std::string, Tensor> values;  // all inputs and states of the reference, by name
  std::string name;                      // of the plan's output or state that differs; the reference's if nothing holds it
  bool is_state = false;
  std::int64_t rank = 0;
  std::vector<std::int64_t> local_index;
  std::string tensor;  // of the reference; empty: padding that must be zero
  std::vector<std::int64_t> reference_index;
  double expected = 0;
  double found = 0;  // NaN: undefined
  std::optional<double> open;  // what elements hold that placements leave open, if there are any
  std::int64_t differing = 0;  // outputs and states with a difference
  // Instead of all that from `name` on: the instruction that leaves its operand on `rank`, and how.
  std::string out_of_bounds;
};

struct SearchLimits {
  std::int64_t step_work = 30'000'000;       // scalar operations of one run of the plan; beyond that it is not run
  std::int64_t total_work = 600'000'000;   // of all runs together
  bool despite_the_field = false;  // run floats even where the field shows no difference: it knows no negative numbers
  bool simplify = true;            // set inputs to 0 and 1 while the difference survives
  std::set<std::string> nonnegative;  // states for which no negative numbers are tried
  std::function<bool()> stop;  // asked between instructions
};

struct SearchResult {
  std::optional<Counterexample> counterexample;
  // Without one: why. "too large", "differs in the field and in no float run: a missing law", "no difference found", or
  // what cannot be executed.
  std::string reason;
  bool too_large = false;
  bool differs_in_field = false;
  int field_runs = 0;  // on inputs for which the reference is defined
};

// Scalar operations that one step of the plan takes on all ranks together, about.
std::int64_t estimated_work(const ir::Document& document);

SearchResult find_counterexample(const ir::Document& document, const SearchLimits& limits = {});

}  // namespace shardproof::execution

// Parity: runs a plan and its reference on the same random values, at the sizes the document has, and compares every
// output and every state.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "verifier/execution/domain.h"
#include "verifier/execution/place.h"

namespace shardproof::execution {

struct ParityOptions {
  std::uint64_t seed = 1;
  Tolerance tolerance;
  std::map<std::string, Tensor> values;  // reference inputs and states by name, instead of random ones
};

// One compared tensor, or a reference tensor that nothing represents.
struct ParityRow {
  enum class Kind : std::uint8_t { output, state };
  Kind kind = Kind::output;
  std::string name;  // of the plan output or plan state; of the reference tensor if `problem` is set
  double max_abs_error = 0;
  double max_rel_error = 0;
  std::int64_t mismatches = 0;
  std::optional<Mismatch> first;
  std::string problem;
  std::vector<std::string> tensors;  // of the reference that it represents

  bool equal() const { return mismatches == 0 && problem.empty(); }
};

struct ParityReport {
  std::vector<ParityRow> rows;

  bool equal() const;
};

// Inputs and states with the properties a training step relies on: ids below their bound, a 0/1 mask with different
// counts in different rows, positive second moments, steps and learning rates.
std::map<std::string, Tensor> random_values(const ir::Reference& reference, std::uint64_t seed);

// The same with every real number a power of two between 1/4 and 2, or its negative: sums and products of such numbers are exact in
// float64, so that ranks that add in another order get the same bits, until a root, an exponential or a quotient rounds.
std::map<std::string, Tensor> exact_values(const ir::Reference& reference, std::uint64_t seed);

// Throws ExecutionError if a program cannot be run or a binding does not fit.
ParityReport run_parity(const DomainOf<double>& domain, const ir::Document& document,
                        const ParityOptions& options = {});

// The same against results of the reference that the caller has (from another domain).
ParityReport run_parity_against(const DomainOf<double>& domain, const ir::Document& document,
                                const ReferenceTensors& wanted, const ParityOptions& options = {});

// One line per row, and the first mismatch below.
std::string describe(const ir::Plan& plan, const ParityReport& report);

}  // namespace shardproof::execution

#include "verifier/execution/counterexample.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <exception>
#include <set>
#include <span>

#include "ir/infer_type.h"
#include "verifier/execution/dense_domain.h"
#include "verifier/execution/field_inputs.h"
#include "verifier/execution/parity.h"
#include "verifier/execution/step.h"

namespace shardproof::execution {

namespace {

// Inputs that do not tell: the reference is undefined on them, or floats overflow or vanish where reals do not.
class UselessInputs : public std::exception {};
class Stopped : public std::exception {};

using Values = std::map<std::string, Tensor>;

// Every other trial has many zeros, where a plan may divide by what its reference does not.
constexpr int kFieldTrials = 6;
constexpr int kFloatTrials = 16;
constexpr std::uint64_t kSeed = 7;  // of summands and padding: the same in each domain of floats
bool is_sparse(int trial) { return trial % 2 == 1; }
constexpr long double kLargest = 1e4000L;  // of an exponential: beyond it, or below its inverse, long double gives up

// ---- work

double work_of(const ir::Program& program, const std::vector<ir::Instruction>& body) {
  double total = 0;
  for (const ir::Instruction& i : body) {
    if (i.op == ir::OpCode::loop) {
      // An empty body takes its time, too.
      total += static_cast<double>(i.region->trip) * (1 + work_of(program, i.region->body));
      continue;
    }
    double most = 1;
    if (i.op == ir::OpCode::einsum) {
      std::map<char, std::int64_t> extents;
      const auto spec = ir::parse_einsum(i.attributes.get<std::string>("spec"));
      for (std::size_t k = 0; spec && k < i.inputs.size(); ++k)
        for (std::size_t d = 0; d < spec->operands[k].size(); ++d)
          extents[spec->operands[k][d]] = program.value(i.inputs[k]).type.shape[d];
      for (const auto& [label, extent] : extents) most *= static_cast<double>(extent);
    }
    for (const auto* ids : {&i.inputs, &i.outputs})
      for (const ir::ValueId id : *ids)
        most = std::max(most, static_cast<double>(ir::element_count(program.value(id).type.shape)));
    total += most;
  }
  return total;
}

// ---- one run in a domain

template <typename T>
std::map<std::string, TensorOf<T>> converted(const Values& values) {
  std::map<std::string, TensorOf<T>> result;
  for (const auto& [name, tensor] : values) result[name] = {tensor.type, {tensor.data.begin(), tensor.data.end()}};
  return result;
}

template <typename Number>
struct Run {
  ReferenceRunOf<Number> reference;
  std::vector<RankTensorsOf<Number>> results;  // outputs, then next states
};

template <typename Numbers>
Run<typename Numbers::Number> run_both(const DenseDomain<Numbers>& domain, const ir::Document& document,
                                       const std::map<std::string, TensorOf<typename Numbers::Number>>& values,
                                       std::uint64_t seed, LocalMaps& maps, const Observer& on_reference,
                                       const Observer& on_plan) {
  Run<typename Numbers::Number> run;
  try {
    run.reference = run_reference(domain, document.reference, values, on_reference);
  } catch (const OutOfBounds&) {
    throw UselessInputs();
  }
  std::mt19937_64 random(seed);  // summands and padding: the same in each domain of floats
  run.results = run_plan(domain, domain.numbers(), document.plan, run.reference.entry, random, maps, on_plan);
  return run;
}

// visit(index of the result, name, is state, claim)
template <typename Numbers, typename Visit>
void for_each_result(const Numbers& numbers, const ir::Document& document,
                     const Run<typename Numbers::Number>& run, LocalMaps& maps, const Visit& visit) {
  const ir::StageProgram& stage = only_stage(document.plan);
  std::size_t next = 0;
  const auto each = [&](const std::string& name, bool is_state, const ir::Binding& binding) {
    const std::size_t index = next++;
    for_each_claim(numbers, document.plan, run.reference.exit, binding, run.results[index], maps,
                   [&](const auto& claim) { visit(index, name, is_state, claim); });
  };
  for (const ir::PlanOutput& output : stage.outputs) each(output.name, false, output.binding);
  for (const ir::PlanState& state : stage.state) each(state.name, true, state.binding);
}

// ---- inputs

bool is_mask(const Tensor& tensor) {
  return std::all_of(tensor.data.begin(), tensor.data.end(), [](double x) { return x == 0 || x == 1; });
}

Values drawn(const ir::Reference& reference, const std::set<std::string>& nonnegative, int trial) {
  Values values = random_values(reference, static_cast<std::uint64_t>(trial) + 1);
  for (const std::string& name : nonnegative)
    if (values.contains(name))
      for (double& x : values.at(name).data) x = std::abs(x);
  // Masks as weights: with few tokens the counts of zeros and ones are often the same on all ranks.
  if (trial % 6 == 2 || trial % 6 == 4) {
    std::mt19937_64 random(static_cast<std::uint64_t>(trial) + 150);
    for (auto& [name, tensor] : values)
      if (ir::is_float(tensor.type.dtype) && is_mask(tensor))
        for (double& x : tensor.data) x = static_cast<double>(1 + uniform_integer(random, 4));
  }
  if (!is_sparse(trial)) return values;
  std::mt19937_64 random(static_cast<std::uint64_t>(trial) + 50);
  for (auto& [name, tensor] : values) {
    if (!ir::is_float(tensor.type.dtype)) continue;
    const std::int64_t kept = 1 + uniform_integer(random, 3);  // of 4
    for (double& x : tensor.data) x = uniform_integer(random, 4) < kept ? x : 0;
  }
  return values;
}

// Small integers are the easiest to read; fractions give room to functions that are constant far from zero.
Values readable(const ir::Reference& reference, const std::set<std::string>& nonnegative, int trial) {
  Values values = drawn(reference, nonnegative, trial);
  if (trial % 6 >= 4) return values;  // as drawn
  std::mt19937_64 random(static_cast<std::uint64_t>(trial) + 100);
  const double unit = trial % 6 < 2 ? 1 : 0.25;
  for (auto& [name, tensor] : values) {
    if (!ir::is_float(tensor.type.dtype)) continue;
    if (is_mask(tensor)) continue;
    const bool positive = std::all_of(tensor.data.begin(), tensor.data.end(), [](double x) { return x >= 0; });
    for (double& x : tensor.data) {
      const std::int64_t size = 1 + uniform_integer(random, 2);
      if (x != 0) x = unit * static_cast<double>(positive || uniform_integer(random, 2) == 0 ? size : -size);
    }
  }
  return values;
}

Observer stopping(const std::function<bool()>& stop) {
  return [&stop](const ir::Instruction&, ir::ValueId, const RankArrays&) {
    if (stop && stop()) throw Stopped();
  };
}
// One after the other.
Observer both(Observer a, Observer b) {
  return [a = std::move(a), b = std::move(b)](const ir::Instruction& instruction, ir::ValueId id, const RankArrays& arrays) {
    a(instruction, id, arrays);
    b(instruction, id, arrays);
  };
}

// ---- the field

enum class FieldRun { useless, equal, differs };

// With indices outside of a tensor of the plan, which are exact in each domain, no floats are needed.
struct PlanOutOfBounds {
  Values values;
  OutOfBounds error;
};

FieldRun run_field(const ir::Document& document, LocalMaps& maps, const Values& values, bool sparse,
                   std::mt19937_64* random, const Observer& stop) {
  const DenseDomain<FieldNumbers> domain(FieldNumbers{sparse});
  const FieldNumbers& numbers = domain.numbers();
  const Observer needs_definition = [&](const ir::Instruction&, ir::ValueId, const RankArrays& arrays) {
    for (const FieldNumber& x : domain.download(arrays.front(), ir::DType::f64).data)
      if (numbers.undefined(x)) throw UselessInputs();
  };
  try {
    const auto run = run_both(domain, document, field_values(numbers, values, random), kSeed, maps, both(stop, needs_definition), stop);
    bool differs = false;
    for_each_result(numbers, document, run, maps, [&](std::size_t, const std::string&, bool, const Claim<FieldNumber>& claim) {
      differs = differs || !(claim.expected == claim.found);
    });
    return differs ? FieldRun::differs : FieldRun::equal;
  } catch (const UselessInputs&) {
    return FieldRun::useless;
  } catch (const OutOfBounds& error) {
    throw PlanOutOfBounds{values, error};
  }
}

FieldRun run_field(const ir::Document& document, LocalMaps& maps, const std::set<std::string>& nonnegative, int trial,
                   const Observer& stop) {
  std::mt19937_64 random(static_cast<std::uint64_t>(trial) + 1);
  // Any numbers, then small ones, among which sums vanish by chance.
  const Values values = trial % 4 < 2 ? drawn(document.reference, nonnegative, trial)
                                      : readable(document.reference, nonnegative, trial % 2);
  return run_field(document, maps, values, is_sparse(trial), &random, stop);
}

// ---- floats

// Ends the run on inputs for which the reference is undefined, or exponents leave the range where floats tell about
// reals.
Observer watch(const DenseDomain<RealNumbers<long double>>& domain, bool reference) {
  return [&domain, reference](const ir::Instruction& instruction, ir::ValueId, const RankArrays& arrays) {
    const bool may_divide = instruction.op == ir::OpCode::log || instruction.op == ir::OpCode::div ||
                            instruction.op == ir::OpCode::reciprocal || instruction.op == ir::OpCode::rsqrt;
    for (const Array& array : arrays) {
      for (const long double x : domain.download(array, ir::DType::f64).data) {
        // An infinity that is none of a masked score is a division by zero.
        const bool undefined = std::isnan(x) || (std::isinf(x) && (x > 0 || may_divide));
        if (reference && undefined) throw UselessInputs();
        if (instruction.op == ir::OpCode::exp && x != 0 && (x > kLargest || x < 1 / kLargest)) throw UselessInputs();
      }
    }
  };
}

class Rounding {
 public:
  explicit Rounding(int direction) { std::fesetround(direction); }
  ~Rounding() { std::fesetround(FE_TONEAREST); }
  Rounding(const Rounding&) = delete;
  Rounding& operator=(const Rounding&) = delete;
};

class FloatSearch {
 public:
  FloatSearch(const ir::Document& document, LocalMaps& maps, Observer stop)
      : document_(document), maps_(maps), stop_(std::move(stop)) {}

  std::int64_t runs() const { return runs_; }

  // How a difference is told from rounding: by its size, or by a second run in long double, which also tells whether
  // the reference is defined.
  enum class Care { by_size, by_precision };

  // The difference on these inputs that is largest against its tensor, if there is one that is none of rounding.
  std::optional<Counterexample> try_values(const Values& values, bool sparse, Care care = Care::by_precision) {
    runs_ += care == Care::by_size ? 1 : kSureRuns;
    try {
      return care == Care::by_size ? coarse_difference(values, sparse) : difference(values, sparse);
    } catch (const UselessInputs&) {
      return std::nullopt;
    }
  }

  // Whether the difference stays what it is when every operation rounds up, or down: beside numbers like 1e30 all precisions lose the same
  // digits, and what is left of them is nothing that the reals have.
  bool is_steady(const Counterexample& found, bool sparse) const {
    return is_steady(found, sparse, FE_UPWARD) && is_steady(found, sparse, FE_DOWNWARD);
  }

  bool is_steady(const Counterexample& found, bool sparse, int direction) const {
    const DenseDomain<RealNumbers<double>> domain{RealNumbers<double>(sparse)};
    const Rounding rounding(direction);
    bool steady = false;
    try {
      const Run<double> run = run_both(domain, document_, found.values, kSeed, maps_, stop_, stop_);
      for_each_result(domain.numbers(), document_, run, maps_, [&](std::size_t index, const std::string& name, bool is_state, const Claim<double>& claim) {
        if (name != found.name || is_state != found.is_state || claim.rank != found.rank) return;
        if (unflatten(run.results[index].front().type.shape, claim.local) != found.local_index) return;
        const double gap = found.found - found.expected;
        steady = std::isfinite(found.found) ? std::abs(claim.found - claim.expected - gap) < 0.1 * std::abs(gap) : !std::isfinite(claim.found);
      });
    } catch (const UselessInputs&) {
    }
    return steady;
  }

  // Sets as many of the inputs to zero, then to one, as the difference survives: optimizer states of one role together,
  // then halves of what is left.
  Counterexample minimise(Counterexample best, const ir::Reference& reference, bool sparse, std::int64_t affordable) {
    std::map<std::string, std::vector<std::string>> by_role;
    for (const ir::ReferenceState& state : reference.state)
      if (!state.role.empty() && state.role != "param") by_role[state.role].push_back(state.name);
    // In one run each and a last one for sure; where that fails, sure of each step, which takes more of them.
    for (const Care care : {Care::by_size, Care::by_precision}) {
      Counterexample smaller = best;
      last_run_ = runs_ + affordable;
      for (const auto& [role, names] : by_role)
        if (std::optional<Counterexample> found = with(smaller, names, 0.0, sparse, care)) smaller = std::move(*found);
      for (const double value : {0.0, 1.0}) {
        std::vector<std::string> rest;
        for (const auto& [name, tensor] : smaller.values)
          if (!constant(tensor, 0.0)) rest.push_back(name);
        simplify(smaller, rest, value, sparse, care);
      }
      if (care == Care::by_precision) return smaller;
      if (std::optional<Counterexample> sure = try_values(smaller.values, sparse)) return std::move(*sure);
    }
    return best;
  }

 private:
  static constexpr std::int64_t kSureRuns = 3;  // what a run in both precisions counts for

  static bool constant(const Tensor& tensor, double value) {
    return std::all_of(tensor.data.begin(), tensor.data.end(), [&](double x) { return x == value; });
  }

  // The difference that is left when these inputs hold one value; none too if they do already.
  std::optional<Counterexample> with(const Counterexample& best, std::span<const std::string> names, double value,
                                     bool sparse, Care care) {
    Values simpler = best.values;
    bool changes = false;
    for (const std::string& name : names) {
      Tensor& tensor = simpler.at(name);
      if (constant(tensor, value) || constant(tensor, 0.0)) continue;
      std::fill(tensor.data.begin(), tensor.data.end(), value);
      changes = true;
    }
    return changes && runs_ < last_run_ ? try_values(simpler, sparse, care) : std::nullopt;
  }

  // All names at once if that works, else each half by itself.
  void simplify(Counterexample& best, std::span<const std::string> names, double value, bool sparse,
                Care care) {
    if (names.empty() || runs_ >= last_run_) return;
    // The quick run first: most attempts fail.
    std::optional<Counterexample> found = with(best, names, value, sparse, Care::by_size);
    if (found && care == Care::by_precision) found = with(best, names, value, sparse, Care::by_precision);
    if (found) {
      best = std::move(*found);
      return;
    }
    if (names.size() == 1) return;
    simplify(best, names.first(names.size() / 2), value, sparse, care);
    simplify(best, names.subspan(names.size() / 2), value, sparse, care);
  }

  std::optional<double> open(const RealNumbers<double>& numbers) const {
    std::mt19937_64 any;
    return maps_.leave_open() ? std::optional(numbers.garbage(any)) : std::nullopt;
  }

  std::optional<Counterexample> difference(const Values& values, bool sparse);
  std::optional<Counterexample> coarse_difference(const Values& values, bool sparse);

  const ir::Document& document_;
  LocalMaps& maps_;
  std::int64_t runs_ = 0, last_run_ = 0;  // both counted in runs of one precision
  Observer stop_;
};

// The worst of several differences, and how many results have one.
template <typename F>
class Worst {
 public:
  explicit Worst(const Run<F>& run) : run_(run) {}

  // Against the largest element of the tensor.
  F scale(const Claim<F>& claim) {
    if (claim.tensor == nullptr) return 1;
    const auto [at, added] = scales_.try_emplace(*claim.tensor, F{0});
    if (added)
      for (const F x : run_.reference.exit.by_name.at(*claim.tensor).data) at->second = std::max(at->second, std::abs(x));
    return at->second;
  }
  void add(std::size_t index, const std::string& name, bool is_state, const Claim<F>& claim, double expected, double found,
           F ratio) {
    differing_.insert(index);
    if (worst_ && ratio <= ratio_) return;
    ratio_ = ratio;
    worst_.emplace();
    worst_->name = name;
    worst_->is_state = is_state;
    worst_->rank = claim.rank;
    worst_->local_index = unflatten(run_.results[index].front().type.shape, claim.local);
    if (claim.tensor != nullptr) {
      worst_->tensor = *claim.tensor;
      worst_->reference_index = unflatten(run_.reference.exit.by_name.at(*claim.tensor).type.shape, claim.flat);
    }
    worst_->expected = expected;
    worst_->found = found;
  }
  std::optional<Counterexample> take(const Values& values, std::optional<double> open) {
    if (!worst_) return std::nullopt;
    worst_->values = values;
    worst_->open = open;
    worst_->differing = static_cast<std::int64_t>(differing_.size());
    return std::move(worst_);
  }

 private:
  const Run<F>& run_;
  std::map<std::string, F> scales_;
  std::optional<Counterexample> worst_;
  F ratio_ = 0;
  std::set<std::size_t> differing_;
};

std::optional<Counterexample> FloatSearch::coarse_difference(const Values& values, bool sparse) {
  const DenseDomain<RealNumbers<double>> domain{RealNumbers<double>(sparse)};
  const Run<double> run = run_both(domain, document_, values, kSeed, maps_, stop_, stop_);
  Worst<double> worst(run);
  for_each_result(domain.numbers(), document_, run, maps_,
                  [&](std::size_t index, const std::string& name, bool is_state, const Claim<double>& claim) {
    if (!std::isfinite(claim.expected)) throw UselessInputs();
    const double scale = worst.scale(claim);
    const double gap = std::abs(claim.found - claim.expected);
    if (gap <= 1e-6 * scale) return;
    const bool undefined = !std::isfinite(claim.found);
    worst.add(index, name, is_state, claim, claim.expected, claim.found, undefined || scale == 0 ? 1 : gap / scale);
  });
  return worst.take(values, open(domain.numbers()));
}

std::optional<Counterexample> FloatSearch::difference(const Values& values, bool sparse) {
  const DenseDomain<RealNumbers<double>> narrow{RealNumbers<double>(sparse)};
  const DenseDomain<RealNumbers<long double>> wide{RealNumbers<long double>(sparse)};
  const auto exact = run_both(wide, document_, converted<long double>(values), kSeed, maps_, both(stop_, watch(wide, true)),
                              both(stop_, watch(wide, false)));
  const auto replay = run_both(narrow, document_, values, kSeed, maps_, stop_, stop_);
  std::vector<Claim<double>> claims;
  for_each_result(narrow.numbers(), document_, replay, maps_,
                  [&](std::size_t, const std::string&, bool, const Claim<double>& claim) { claims.push_back(claim); });
  Worst<long double> worst(exact);
  std::size_t next = 0;
  for_each_result(wide.numbers(), document_, exact, maps_,
                  [&](std::size_t index, const std::string& name, bool is_state, const Claim<long double>& claim) {
    const Claim<double>& rounded = claims[next++];
    const long double scale = worst.scale(claim);
    const long double gap = claim.found - claim.expected;
    const double rounded_gap = rounded.found - rounded.expected;
    long double ratio = 1;
    if (!std::isfinite(claim.found)) {
      if (std::isfinite(rounded.found) || !std::isfinite(claim.expected)) return;
    } else {
      // Rounding is another one in each precision, so that a gap that both agree on is none of it.
      if (std::abs(gap) <= 1e-12L * scale || !(std::abs(gap - rounded_gap) < 0.01L * std::abs(gap))) return;
      if (scale > 0) ratio = std::abs(gap) / scale;
    }
    worst.add(index, name, is_state, claim, rounded.expected, rounded.found, ratio);
  });
  // Beside numbers like 1e30 both precisions lose the same digits; a field loses none.
  std::optional<Counterexample> found = worst.take(values, open(narrow.numbers()));
  const bool defined = found && std::isfinite(found->found);
  if (defined && run_field(document_, maps_, values, sparse, nullptr, stop_) == FieldRun::equal) return std::nullopt;
  return found;
}

}  // namespace

std::int64_t estimated_work(const ir::Document& document) {
  double work = work_of(document.reference.program, document.reference.program.body);
  for (const ir::StageProgram& stage : document.plan.stages)
    work += work_of(stage.program, stage.program.body) * static_cast<double>(world_size(document.plan.meshes));
  return work > 9e18 ? std::int64_t{9'000'000'000'000'000'000} : static_cast<std::int64_t>(work);
}

SearchResult find_counterexample(const ir::Document& document, const SearchLimits& limits) {
  SearchResult result;
  try {
    only_stage(document.plan);
    const auto too_large = [&](std::int64_t work) {
      result.too_large = work > limits.step_work;
      if (result.too_large) result.reason = "the plan is too large to be executed";
      return result.too_large;
    };
    // A macro takes less by this estimate than what it unfolds to, so that large plans need no unfolding to be told.
    if (too_large(estimated_work(document))) return result;
    const ir::Document core = in_core_ops(document);
    const std::int64_t work = estimated_work(core);
    if (too_large(work)) return result;
    LocalMaps maps;
    const Observer stop = stopping(limits.stop);
    for (int trial = 0; trial < kFieldTrials && !result.differs_in_field; ++trial) {
      if (trial > 0 && trial * work > limits.total_work) break;
      const FieldRun run = run_field(core, maps, limits.nonnegative, trial, stop);
      result.differs_in_field = run == FieldRun::differs;
      if (run != FieldRun::useless) ++result.field_runs;
    }
    // Kept unless floats find more.
    result.reason = result.differs_in_field
                        ? "plan and reference differ in a prime field and in no run with floats: a law of the reals that the "
                          "field lacks, or a difference too small to see"
                        : "executed on " + std::to_string(result.field_runs) + " sets of random inputs, which found no difference";
    if (!result.differs_in_field && !limits.despite_the_field) return result;
    FloatSearch search(core, maps, stop);
    for (int trial = 0; trial < kFloatTrials && !result.counterexample; ++trial) {
      if (trial >= 6 && search.runs() * work > 4 * limits.total_work) break;
      std::optional<Counterexample> found = search.try_values(readable(core.reference, limits.nonnegative, trial), is_sparse(trial));
      if (!found || !search.is_steady(*found, is_sparse(trial))) continue;
      const std::int64_t affordable = std::clamp<std::int64_t>(limits.total_work / std::max<std::int64_t>(work, 1), 4, 600);
      result.counterexample = *found;
      if (!limits.simplify) break;
      Counterexample smaller = search.minimise(std::move(*found), core.reference, is_sparse(trial), affordable);
      if (search.is_steady(smaller, is_sparse(trial))) result.counterexample = std::move(smaller);
    }
  } catch (PlanOutOfBounds& found) {
    result.counterexample.emplace();
    result.counterexample->values = std::move(found.values);
    result.counterexample->rank = found.error.rank();
    result.counterexample->out_of_bounds = found.error.what();
    result.counterexample->differing = 1;
  } catch (const Stopped&) {  // one that was found stays, as it was found
    result.reason = "the search was stopped";
  } catch (const ExecutionError& error) {
    result.reason = std::string("the document cannot be executed: ") + error.what();
  }
  return result;
}

}  // namespace shardproof::execution

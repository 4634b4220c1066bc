// Elements that may be undefined because a placement leaves an operand open (Semantics::undefined_region), against execution
// of random programs on all ranks with many paddings. What the prover takes as defined is defined whatever the padding holds,
// if the conditions that it recorded hold, and is the value of its term.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <set>

#include "ir/print.h"
#include "solvers/kernel/accesses.h"
#include "tests/unit/verifier/cluster_interpreter.h"
#include "tests/unit/verifier/cluster_programs.h"
#include "verifier/run_program.h"

namespace shardproof::verifier {
namespace {

using ir::Shape;
using ir::ValueId;
using solvers::IndexId;
using solvers::TensorId;
using solvers::TermId;
using solvers::TermPool;
using solvers::VarId;
using solvers::testing::Random;
using testing::RankValues;
using Integers = std::vector<std::int64_t>;

constexpr std::uint64_t kPaddings = 8;

ir::Mesh small_mesh() {
  ir::Mesh mesh;
  mesh.axes = {{"a", 2, {}}, {"b", 3, {}}};
  return mesh;
}

std::string text_of(const ir::Program& program, const std::vector<ir::Instruction>& body) {
  std::string text;
  for (const ir::Instruction& i : body) {
    if (i.region) text += "loop " + i.region->index + " {\n" + text_of(program, i.region->body) + "}\n";
    text += ir::describe(program, i) + "\n";
  }
  return text;
}

struct Tally {
  std::uint64_t elements = 0, taken_as_defined = 0, in_region = 0, undefined = 0, refused = 0, conditions_failed = 0, terms = 0, conditions_held = 0;
};

class Trial {
 public:
  Trial(std::uint64_t seed, Random& random, const ir::Mesh& mesh, const testing::ClusterPrograms& programs)
      : seed_(seed), mesh_(mesh), program_(programs.program), atoms_(pool_, {}), semantics_(atoms_, literals_, &mesh), folder_(atoms_),
        run_(Side::plan, folder_, semantics_, program_) {
    for (const ValueId input : programs.inputs) enter(input, random);
    semantics_.set_arbitrary(paddings_);
    run_.run();
    find_faulty(program_.body);
  }

  void check(const std::vector<ValueId>& inputs, Tally& tally) {
    if (conditions_hold()) ++tally.conditions_held;
    tally.refused += run_.faults().size();
    // The results for each padding, in the order of execution.
    std::vector<std::vector<Result>> results;
    for (padding_ = 0; padding_ < kPaddings; ++padding_) {
      testing::ClusterInterpreter interpreter(program_, mesh_);
      for (const ValueId input : inputs) interpreter.set(input, at_all_elements(run_.term(input), program_.value(input).type.shape, {}));
      results.emplace_back();
      interpreter.run([&](ValueId value, const testing::ClusterInterpreter::LoopIndices& loops, const RankValues& contents) {
        results.back().push_back({value, loops, contents});
      });
    }
    for (std::size_t n = 0; n < results[0].size(); ++n) {
      const ValueId value = results[0][n].value;
      if (faulty_.count(value) != 0) continue;
      std::vector<const RankValues*> contents;
      for (const auto& of_padding : results) contents.push_back(&of_padding[n].contents);
      ASSERT_NO_FATAL_FAILURE(check_value(value, results[0][n].loops, contents, tally));
    }
  }

 private:
  struct Result {
    ValueId value;
    testing::ClusterInterpreter::LoopIndices loops;
    RankValues contents;
  };

  // A tensor of which a rank has a part, and beyond its end padding.
  void enter(ValueId input, Random& random) {
    const Shape& shape = program_.value(input).type.shape;
    const TensorId tensor = atoms_.opaque({program_.value(input).name, {64, 64}, false, 0});
    std::vector<IndexId> indices = semantics_.element_indices(shape);
    const IndexId last = indices.back();
    indices.resize(2, pool_.index_constant(0));
    const std::string axis = random.pick(mesh_.axes).name;
    const VarId coordinate = semantics_.coordinate(axis);
    const IndexId position = pool_.index_linear(pool_.index_var(coordinate), shape.back(), last, 1);
    indices[0] = position;
    TermId term = pool_.access(tensor, indices);
    if (random.chance(80)) {
      const std::int64_t size = shape.back() * (pool_.var(coordinate).extent - 1);
      TermId care = pool_.range(random.chance(20) ? last : position, random.chance(20) ? 1 : -solvers::kUnbounded, random.between(2, size + shape.back() - 2));
      if (random.chance(15)) care = pool_.range(pool_.index_var(coordinate), 0, 0);  // held by one rank only
      const TermId padding = run_.opaque("padding of " + program_.value(input).name, program_.value(input).type);
      paddings_.insert(pool_.node(padding).tensor);
      term = pool_.add(pool_.mul(care, term), pool_.mul(pool_.complement(care), padding));
    }
    run_.set(input, term);
  }

  // Values without a term, and those computed from them.
  void find_faulty(const std::vector<ir::Instruction>& body) {
    for (const Fault& f : run_.faults()) faulty_.insert(f.value);
    const auto is_faulty = [this](ValueId v) { return faulty_.count(v) != 0; };
    for (const ir::Instruction& i : body) {
      bool bad = std::any_of(i.inputs.begin(), i.inputs.end(), is_faulty);
      if (i.region) {
        for (const ir::Carry& c : i.region->carries)
          if (is_faulty(c.init)) faulty_.insert(c.argument);
        find_faulty(i.region->body);
        for (const ir::Carry& c : i.region->carries) bad = bad || is_faulty(c.next);
      }
      if (bad) faulty_.insert(i.outputs.begin(), i.outputs.end());
      // What a loop carries is a symbol inside of it.
      if (i.region)
        for (const ir::Carry& c : i.region->carries) carried_.insert(pool_.node(run_.term(c.argument)).tensor);
    }
  }

  double real(TensorId tensor, const Integers& indices) const {
    std::uint64_t hash = solvers::mix(seed_ + 77);
    for (const std::int64_t i : indices) hash = solvers::combine(hash, solvers::hash_int(i));
    hash = solvers::combine(hash, solvers::hash_int(tensor.value));
    if (paddings_.count(tensor) == 0) return static_cast<double>(1 + hash % 16) / 8;
    hash = solvers::combine(hash, padding_);
    return static_cast<double>(static_cast<std::int64_t>(hash % 33) - 16) / 8;
  }
  solvers::TensorContents contents() const {
    solvers::TensorContents result;
    result.real = [this](TensorId t, const Integers& indices) { return real(t, indices); };
    return result;
  }

  solvers::Assignment assignment(std::int64_t rank, const Shape& shape, std::size_t element, const testing::ClusterInterpreter::LoopIndices& loops, ValueId value) {
    solvers::Assignment result;
    const ir::Coordinate c = ir::coordinate_of(mesh_, rank);
    for (std::size_t a = 0; a < c.size(); ++a) result.set(semantics_.coordinates()[a], c[a]);
    auto rest = static_cast<std::int64_t>(element);
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) result.set(pool_.element(d, shape[d]), rest % shape[d]);
    if (loops.empty()) return result;
    for (const Step& step : run_.steps())
      if (std::find(step.instruction->outputs.begin(), step.instruction->outputs.end(), value) != step.instruction->outputs.end())
        for (const auto& [name, variable] : step.loops) result.set(variable, loops.at(name));
    return result;
  }

  RankValues at_all_elements(TermId term, const Shape& shape, const testing::ClusterInterpreter::LoopIndices& loops) {
    RankValues result;
    for (std::int64_t rank = 0; rank < mesh_.size(); ++rank) {
      result.emplace_back();
      for (std::size_t k = 0; k < static_cast<std::size_t>(ir::element_count(shape)); ++k)
        result.back().push_back(solvers::evaluate(pool_, term, assignment(rank, shape, k, loops, {}), contents()));
    }
    return result;
  }

  // Whether all conditions that the run recorded hold for these inputs, whatever the padding.
  bool conditions_hold() {
    if (holds_) return *holds_;
    std::vector<solvers::Obligation> conditions = pool_.obligations();
    for (const DomainCondition& c : semantics_.domain_conditions()) conditions.push_back(c.obligation);
    holds_ = std::all_of(conditions.begin(), conditions.end(), [this](const solvers::Obligation& o) { return holds(o); });
    return *holds_;
  }

  bool holds(const solvers::Obligation& o) {
    const std::uint64_t before = padding_;
    const bool reads_padding = solvers::accesses(pool_, o.term, [this](TensorId t) { return paddings_.count(t) != 0; });
    Random all(1);
    bool result = true;
    for (const solvers::Assignment& values : solvers::testing::assignments(pool_, pool_.members(pool_.node(o.term).free), 5000, all))
      for (padding_ = 0; padding_ < (reads_padding ? kPaddings : 1); ++padding_) {
        const double x = solvers::evaluate(pool_, o.term, values, contents());
        result = result && !std::isnan(x) && (o.kind == solvers::Obligation::Kind::nonzero ? x != 0 : x >= 0);
      }
    padding_ = before;
    return result;
  }

  void check_value(ValueId value, const testing::ClusterInterpreter::LoopIndices& loops, const std::vector<const RankValues*>& results, Tally& tally) {
    const Shape& shape = program_.value(value).type.shape;
    const TermId term = run_.term(value), region = run_.undefined_region(value);
    const std::string name = "seed " + std::to_string(seed_) + ": " + program_.value(value).name;
    for (std::int64_t rank = 0; rank < mesh_.size(); ++rank)
      for (std::size_t k = 0; k < (*results[0])[static_cast<std::size_t>(rank)].size(); ++k) {
        const solvers::Assignment values = assignment(rank, shape, k, loops, value);
        const double in_region = region == pool_.zero() ? 0 : solvers::evaluate(pool_, region, values, contents());
        ++tally.elements;
        ASSERT_TRUE(in_region == 0 || in_region == 1) << name << " rank " << rank << " element " << k << " region " << pool_.to_string(region);
        std::size_t undefined = 0;
        for (const RankValues* of_padding : results) undefined += std::isnan((*of_padding)[static_cast<std::size_t>(rank)][k]) ? 1U : 0U;
        if (in_region == 1) {
          ++tally.in_region;
          if (undefined != 0) ++tally.undefined;
          continue;
        }
        ++tally.taken_as_defined;
        if (undefined != 0) {
          ASSERT_FALSE(conditions_hold()) << name << " rank " << rank << " element " << k << " is undefined for " << undefined
                                          << " paddings, outside of region " << pool_.to_string(region);
          ++tally.conditions_failed;
          continue;
        }
        if (solvers::accesses(pool_, term, [this](TensorId t) { return carried_.count(t) != 0 || pool_.tensor(t).unknown; })) continue;
        padding_ = k % kPaddings;
        const double expected = (*results[padding_])[static_cast<std::size_t>(rank)][k];
        if (!std::isfinite(expected) || std::fabs(expected) > 1e6) continue;
        const double found = solvers::evaluate(pool_, term, values, contents());
        if (std::isnan(found) && !conditions_hold()) continue;
        ++tally.terms;
        ASSERT_TRUE(std::fabs(expected - found) <= 1e-6 * (1 + std::fabs(expected)))
            << name << " rank " << rank << " element " << k << " is " << expected << ", its term " << found << " = " << pool_.to_string(term).substr(0, 800);
      }
  }

  std::uint64_t seed_, padding_ = 0;
  const ir::Mesh& mesh_;
  const ir::Program& program_;
  TermPool pool_;
  solvers::AtomTable atoms_;
  LiteralTable literals_;
  Semantics semantics_;
  solvers::Folder folder_;
  ProgramRun run_;
  std::set<TensorId> paddings_, carried_;
  std::set<ValueId> faulty_;
  std::optional<bool> holds_;
};

TEST(UndefinedRegionFuzz, DefinedElementsDoNotDependOnUndefinedOnes) {
  const ir::Mesh mesh = small_mesh();
  Tally tally;
  for (std::uint64_t seed = solvers::testing::first_seed(); seed <= solvers::testing::last_seed(400); ++seed) {
    Random random(seed);
    testing::ClusterPrograms programs(mesh, random);
    programs.grow(static_cast<int>(random.between(4, 12)), true);
    Trial trial(seed, random, mesh, programs);
    trial.check(programs.inputs, tally);
    ASSERT_FALSE(HasFatalFailure()) << text_of(programs.program, programs.program.body);
  }
  std::cout << tally.elements << " elements: " << tally.in_region << " may be undefined, and " << tally.undefined << " are; " << tally.taken_as_defined
            << " taken as defined, of which " << tally.conditions_failed << " fail a condition and " << tally.terms << " were compared; " << tally.refused << " refused; in " << tally.conditions_held << " programs all conditions hold\n";
  EXPECT_GT(tally.undefined, 5'000U);
  EXPECT_GT(tally.in_region, tally.undefined);
  EXPECT_GT(tally.taken_as_defined, 50'000U);
  EXPECT_GT(tally.conditions_held, 150U);
}

}  // namespace
}  // namespace shardproof::verifier

// Elements that may be undefined because a placement leaves an operand open (Semantics::undefined_region), against execution
// of random programs on all ranks with many paddings. What the prover takes as defined is defined whatever the padding holds,
// if the conditions that it recorded hold, and is the value of its term.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <set>

#include "ir/builder.h"
#include "ir/print.h"
#include "solvers/accesses.h"
#include "tests/unit/solvers/raw_term.h"
#include "tests/unit/verifier/cluster_interpreter.h"
#include "verifier/run_program.h"

namespace shardproof::verifier {
namespace {

using ir::DType;
using ir::OpCode;
using ir::Rational;
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

std::int64_t axis_size(const ir::Mesh& mesh, const std::string& axis) {
  const auto position = mesh.find_axis(axis);
  return position ? mesh.axes[*position].size : 0;
}

// Random programs of everything that moves, computes, reduces or communicates elements.
class Programs {
 public:
  Programs(const ir::Mesh& mesh, Random& random)
      : mesh_(mesh), random_(random), builder_(program, [&mesh](const std::string& axis) { return axis_size(mesh, axis); }) {
    for (int n = 0; n < 4; ++n) {
      inputs.push_back(builder_.input("x" + std::to_string(n), {DType::f32, n < 2 ? Shape{6} : Shape{2, 6}}));
      reals_.push_back(inputs.back());
    }
    for (int n = 0; n < 3; ++n) reals_.push_back(partial_function());
  }

  void grow(int length, bool may_loop) {
    for (int n = 0; n < length; ++n) {
      try {
        if (may_loop && random_.chance(12)) loop();
        else append();
      } catch (const ir::BuildError&) {  // shapes that do not fit
      }
    }
  }

  ir::Program program;
  std::vector<ValueId> inputs;

 private:
  const Shape& shape(ValueId v) const { return program.value(v).type.shape; }
  ValueId any() { return random_.chance(50) && reals_.size() > 4 ? reals_[reals_.size() - static_cast<std::size_t>(random_.between(1, 3))] : random_.pick(reals_); }
  ValueId like(ValueId x) {
    std::vector<ValueId> same;
    for (ValueId v : reals_)
      if (shape(v) == shape(x)) same.push_back(v);
    return random_.pick(same);
  }
  ValueId number(Rational value, const Shape& of) { return builder_.typed(OpCode::constant, {DType::f32, of}, {{"value", value}}); }
  std::int64_t dim_of(ValueId x) { return random_.between(0, static_cast<std::int64_t>(shape(x).size()) - 1); }
  std::vector<std::string> axes() { return random_.pick(std::vector<std::vector<std::string>>{{"a"}, {"b"}, {"a", "b"}, {"b", "a"}}); }
  void keep(ValueId v) {
    if (!shape(v).empty() && ir::element_count(shape(v)) <= 48) reals_.push_back(v);
  }

  // Something that is undefined for some numbers, of what is likely to be defined where no padding is.
  ValueId partial_function() {
    ValueId x = random_.chance(50) ? random_.pick(inputs) : any();
    if (random_.chance(25)) x = builder_.op(OpCode::add, {builder_.op(OpCode::mul, {x, x}), number(Rational(1, 2), shape(x))});
    switch (random_.between(0, 5)) {
      case 0: return builder_.op(OpCode::reciprocal, {x});
      case 1: return builder_.op(OpCode::sqrt, {x});
      case 2: return builder_.op(OpCode::rsqrt, {x});
      case 3: return builder_.op(OpCode::log, {x});
      case 4: return builder_.op(OpCode::pow, {x}, {{"exponent", random_.pick(std::vector<Rational>{Rational(-1), Rational(1, 2), Rational(-3, 2)})}});
      default: return builder_.op(OpCode::div, {like(x), x});
    }
  }

  // An index function, or a comparison of data: of inputs, so that rounding does not decide it.
  ValueId condition(ValueId x) {
    const std::string direction = random_.pick(std::vector<std::string>{"lt", "le", "gt", "ge", "eq", "ne"});
    const ValueId left = random_.pick(inputs), right = random_.pick(inputs);
    if (shape(left) == shape(x) && shape(right) == shape(x)) return builder_.op(OpCode::compare, {left, right}, {{"direction", direction}});
    const ValueId index = builder_.typed(OpCode::iota, {DType::i64, shape(x)}, {{"dim", dim_of(x)}});
    ir::CoordExpr bound = ir::constant_expr(random_.between(0, 5));
    if (random_.chance(60)) bound = ir::variable_expr(variable(), random_.between(1, 3), random_.between(-1, 2));
    const ValueId scalar = builder_.typed(OpCode::coord, {DType::i64, {}}, {{"value", bound}});
    const ValueId wide = builder_.op(OpCode::broadcast, {scalar}, {{"shape", shape(x)}, {"dims", Integers{}}});
    return builder_.op(OpCode::compare, {index, wide}, {{"direction", direction}});
  }
  std::string variable() {
    std::vector<std::string> names{"a", "b"};
    names.insert(names.end(), loops_.begin(), loops_.end());
    return random_.pick(names);
  }
  ir::CoordExpr start(std::int64_t most) {
    const ir::CoordExpr e = ir::variable_expr(variable(), random_.between(1, 2), random_.between(0, 2));
    return random_.chance(30) ? ir::constant_expr(random_.between(0, most)) : ir::modulo(e, most + 1);
  }
  ValueId ids(const Shape& of, std::int64_t limit) {
    const ValueId index = builder_.typed(OpCode::iota, {DType::i64, of}, {{"dim", std::int64_t{0}}});
    const ValueId coordinate = builder_.typed(OpCode::coord, {DType::i64, {}}, {{"value", ir::modulo(ir::variable_expr(variable()), std::max<std::int64_t>(1, limit - of[0] + 1))}});
    return builder_.op(OpCode::add, {index, builder_.op(OpCode::broadcast, {coordinate}, {{"shape", of}, {"dims", Integers{}}})});
  }

  void append() {
    const ValueId x = any();
    const Shape s = shape(x);
    const std::int64_t d = dim_of(x), extent = s[static_cast<std::size_t>(d)];
    switch (random_.between(0, 21)) {
      case 0:
      case 1:
      case 2: return keep(partial_function());
      case 3: return keep(builder_.op(random_.pick(std::vector<OpCode>{OpCode::add, OpCode::mul, OpCode::sub, OpCode::max, OpCode::min}), {x, like(x)}));
      case 4: return keep(builder_.op(OpCode::mul, {x, number(Rational(random_.between(-1, 1)), s)}));
      case 5: return keep(builder_.op(random_.pick(std::vector<OpCode>{OpCode::exp, OpCode::neg, OpCode::abs, OpCode::tanh, OpCode::stop_gradient}), {x}));
      case 6:
      case 7: {
        const ValueId c = condition(x);
        return keep(builder_.op(OpCode::select, {c, x, random_.chance(40) ? number(Rational(1), s) : like(x)}));
      }
      case 8: {
        const std::int64_t size = random_.between(1, extent);
        return keep(builder_.op(OpCode::slice, {x}, {{"dim", d}, {"start", start(extent - size)}, {"size", size}}));
      }
      case 9: return keep(builder_.op(OpCode::concat, {x, random_.pick(reals_)}, {{"dim", d}}));
      case 10: return keep(builder_.op(OpCode::pad, {x}, {{"dim", d}, {"low", random_.between(0, 2)}, {"high", random_.between(0, 2)}, {"value", Rational(random_.between(0, 2), 2)}}));
      case 11: return keep(builder_.op(OpCode::reshape, {x}, {{"shape", s.size() == 1 && extent % 2 == 0 ? Shape{extent / 2, 2} : Shape{ir::element_count(s)}}}));
      case 12: return keep(s.size() == 2 ? builder_.op(OpCode::transpose, {x}, {{"perm", Integers{1, 0}}})
                                         : builder_.op(OpCode::broadcast, {x}, {{"shape", random_.chance(50) ? Shape{2, extent} : Shape{extent, 3}}, {"dims", Integers{random_.between(0, 1)}}}));
      case 13: {  // rows or columns by number
        const Shape of{random_.between(1, extent)};
        return keep(builder_.op(OpCode::take, {x, ids(of, extent)}, {{"dim", d}}));
      }
      case 14: return keep(s.size() == 2 ? builder_.op(OpCode::take_along, {x, ids({s[0]}, s[1])}, {})
                                         : builder_.op(OpCode::put_along, {x, ids(s, extent + 1)}, {{"size", extent + 1}}));
      case 15: {
        const OpCode op = random_.pick(std::vector<OpCode>{OpCode::reduce_sum, OpCode::reduce_max, OpCode::reduce_min});
        return keep(builder_.op(op, {x}, {{"dims", Integers{d}}}));
      }
      case 16: {
        if (s.size() == 1) return keep(builder_.op(OpCode::einsum, {x, like(x)}, {{"spec", std::string("i,j->ij")}}));
        return keep(builder_.op(OpCode::einsum, {x, like(x)}, {{"spec", random_.pick(std::vector<std::string>{"ij,ij->i", "ij,ij->ji", "ij,ij->j"})}}));
      }
      case 17: return keep(builder_.op(OpCode::all_gather, {x}, {{"axes", axes()}, {"dim", d}}));
      case 18: return keep(builder_.op(OpCode::all_reduce, {x}, {{"axes", axes()}, {"reduce", random_.pick(std::vector<std::string>{"sum", "max", "min", "avg"})}}));
      case 19: return keep(random_.chance(50) ? builder_.op(OpCode::reduce_scatter, {x}, {{"axes", axes()}, {"dim", d}, {"reduce", std::string("sum")}})
                                              : builder_.op(OpCode::broadcast_from, {x}, {{"axes", axes()}, {"root", random_.between(0, 1)}}));
      case 20: return keep(builder_.op(OpCode::all_to_all, {x}, {{"axes", axes()}, {"split_dim", d}, {"concat_dim", dim_of(x)}}));
      default: return keep(builder_.op(OpCode::permute, {x}, {{"axes", axes()}, {"shift", random_.between(-2, 3)}}));
    }
  }

  void loop() {
    const std::string index = "m" + std::to_string(program.values.size());
    const ValueId init = any();
    const std::vector<ValueId> arguments = builder_.begin_loop(index, random_.between(1, 3), {init}, {"carried"});
    const std::vector<ValueId> outside = reals_;
    loops_.push_back(index);
    grow(static_cast<int>(random_.between(1, 4)), false);
    const ValueId step = like(init);
    const std::vector<ValueId> results = builder_.end_loop({random_.chance(70) ? builder_.op(OpCode::add, {arguments[0], step}) : step});
    loops_.pop_back();
    reals_ = outside;
    keep(results[0]);
  }

  const ir::Mesh& mesh_;
  Random& random_;
  ir::Builder builder_;
  std::vector<ValueId> reals_;
  std::vector<std::string> loops_;
};

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
  Trial(std::uint64_t seed, Random& random, const ir::Mesh& mesh, const Programs& programs)
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
    Programs programs(mesh, random);
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

// States that are said to stay non-negative (nonnegative_states.h), against execution: from states that are >= 0 where that is
// said and anything elsewhere, with anything as inputs, no element of them is negative after the step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "ir/builder.h"
#include "lowering/unfold.h"
#include "tests/unit/solvers/raw_term.h"
#include "tests/unit/verifier/cluster_interpreter.h"
#include "verifier/kernel/nonnegative_states.h"
#include "verifier/run_program.h"

namespace shardproof::verifier {
namespace {

using ir::DType;
using ir::OpCode;
using ir::Rational;
using ir::Shape;
using ir::ValueId;
using solvers::Obligation;
using solvers::TensorId;
using solvers::testing::Random;
using testing::RankValues;

const Shape kShape{3};

// Updates of the kinds optimizers make, right and subtly wrong.
class Updates {
 public:
  explicit Updates(Random& random) : random_(random), builder_(program) {
    for (int n = 0; n < 3; ++n) states.push_back(builder_.input("s" + std::to_string(n), {DType::f32, kShape}));
    for (int n = 0; n < 2; ++n) inputs.push_back(builder_.input("x" + std::to_string(n), {DType::f32, kShape}));
    for (const ValueId s : states) next.push_back(update(s));
  }

  ir::Program program;
  std::vector<ValueId> states, inputs, next;

 private:
  ValueId op(OpCode code, std::vector<ValueId> operands) { return builder_.op(code, std::move(operands)); }
  ValueId number(Rational value) { return builder_.typed(OpCode::constant, {DType::f32, kShape}, {{"value", value}}); }

  // Mostly >= 0 if the states are.
  ValueId positive(int depth) {
    if (depth <= 0) {
      switch (random_.between(0, 5)) {
        case 0: return number(random_.pick(std::vector<Rational>{Rational(0), Rational(1, 1000), Rational(7978845608028654, 10'000'000'000'000'000)}));
        case 1: return square(any(0));
        default: return random_.pick(states);
      }
    }
    const ValueId x = positive(depth - 1);
    switch (random_.between(0, 15)) {
      case 0: return op(OpCode::add, {x, positive(depth - 1)});
      case 1: return op(OpCode::mul, {x, positive(depth - 1)});
      case 2: return square(any(depth - 1));
      case 3: return op(OpCode::max, {x, any(depth - 1)});
      case 4: return op(OpCode::min, {x, positive(depth - 1)});
      case 5: return op(OpCode::sqrt, {x});
      case 6: return op(OpCode::div, {x, positive(depth - 1)});
      case 7: return op(random_.chance(50) ? OpCode::abs : OpCode::exp, {any(0)});
      case 8: return builder_.op(OpCode::select, {condition(), x, positive(depth - 1)});
      case 9: return accumulated(depth);
      case 10: {  // an average
        const Rational beta(random_.between(1, 3), random_.between(3, 4));
        return op(OpCode::add, {op(OpCode::mul, {number(beta), x}), op(OpCode::mul, {number(Rational(1) - beta), square(any(0))})});
      }
      case 11: return op(OpCode::sub, {number(Rational(1)), op(OpCode::exp, {random_.chance(50) ? op(OpCode::neg, {x}) : x})});
      case 12: {
        const ValueId total = builder_.op(OpCode::reduce_sum, {x}, {{"dims", std::vector<std::int64_t>{0}}});
        return builder_.op(OpCode::broadcast, {total}, {{"shape", kShape}, {"dims", std::vector<std::int64_t>{}}});
      }
      case 13: return builder_.op(OpCode::einsum, {x, random_.chance(80) ? x : any(0)}, {{"spec", std::string("i,i->i")}});
      case 14: return builder_.op(OpCode::pow, {x}, {{"exponent", random_.pick(std::vector<Rational>{Rational(2), Rational(3), Rational(-1), Rational(1, 2)})}});
      default: return any(depth - 1);  // a fault, perhaps
    }
  }
  ValueId any(int depth) {
    if (depth <= 0 || random_.chance(40)) return random_.chance(60) ? random_.pick(inputs) : random_.chance(50) ? random_.pick(states) : number(Rational(random_.between(-2, 2), 3));
    switch (random_.between(0, 3)) {
      case 0: return op(OpCode::sub, {positive(depth - 1), positive(depth - 1)});
      case 1: return op(OpCode::neg, {positive(depth - 1)});
      case 2: return op(OpCode::mul, {any(depth - 1), any(depth - 1)});
      default: return op(OpCode::add, {any(depth - 1), positive(depth - 1)});
    }
  }
  ValueId square(ValueId x) {
    if (random_.chance(8)) return op(OpCode::mul, {x, any(0)});
    return random_.chance(30) ? builder_.op(OpCode::pow, {x}, {{"exponent", Rational(2)}}) : op(OpCode::mul, {x, x});
  }
  ValueId condition() {
    if (random_.chance(50)) return builder_.op(OpCode::compare, {any(0), any(0)}, {{"direction", std::string("lt")}});
    const ValueId index = builder_.typed(OpCode::iota, {DType::i64, kShape}, {{"dim", std::int64_t{0}}});
    const ValueId cut = builder_.typed(OpCode::constant, {DType::i64, kShape}, {{"value", Rational(random_.between(0, 2))}});
    return builder_.op(OpCode::compare, {index, cut}, {{"direction", std::string("le")}});
  }
  ValueId accumulated(int depth) {
    const ValueId init = positive(depth - 1);
    const std::string index = "m" + std::to_string(program.values.size());
    const ValueId argument = builder_.begin_loop(index, random_.between(1, 3), {init}, {"sum"})[0];
    const ValueId count = builder_.typed(OpCode::coord, {DType::i64, {}}, {{"value", ir::variable_expr(index, 1, random_.chance(20) ? -1 : 0)}});
    const ValueId real = builder_.op(OpCode::cast, {count}, {{"dtype", std::string("f32")}});
    const ValueId weight = builder_.op(OpCode::broadcast, {real}, {{"shape", kShape}, {"dims", std::vector<std::int64_t>{}}});
    const ValueId step = op(OpCode::mul, {weight, random_.chance(80) ? square(any(0)) : any(0)});
    return builder_.end_loop({op(random_.chance(90) ? OpCode::add : OpCode::sub, {argument, step})})[0];
  }
  ValueId update(ValueId state) {
    switch (random_.between(0, 5)) {
      case 0: return random_.pick(states);  // unchanged, or another's
      case 1: return op(OpCode::add, {state, positive(2)});
      case 2: return op(OpCode::max, {state, positive(1)});
      default: return positive(static_cast<int>(random_.between(1, 3)));
    }
  }

  Random& random_;
  ir::Builder builder_;
};

// A program's states and inputs as terms, and what is said of the states.
class Step {
 public:
  Step(const ir::Program& program, const std::vector<ValueId>& entries)
      : semantics_(atoms_, literals_, nullptr), folder_(atoms_), run_(Side::reference, folder_, semantics_, program) {
    for (const ValueId v : entries) {
      const Shape& shape = program.value(v).type.shape;
      tensors_[v] = atoms_.opaque({program.value(v).name, shape, false, 0});
      run_.set(v, pool_.access(tensors_[v], semantics_.element_indices(shape)));
    }
    run_.run();
  }

  bool has_faults() const { return !run_.faults().empty(); }
  TensorId tensor(ValueId state) const { return tensors_.at(state); }
  Obligation nonnegative(ValueId value) const { return {Obligation::Kind::nonnegative, run_.term(value)}; }
  std::vector<Obligation> conditions() const {
    std::vector<Obligation> result;
    for (const DomainCondition& c : semantics_.domain_conditions()) result.push_back(c.obligation);
    return result;
  }
  std::set<TensorId> kept(const std::vector<ValueId>& states, const std::vector<ValueId>& next, const std::vector<Obligation>& needed) {
    std::map<TensorId, solvers::TermId> after;
    for (std::size_t k = 0; k < states.size(); ++k) after[tensors_.at(states[k])] = run_.term(next[k]);
    return kept_nonnegative(after, needed, [this](const std::set<TensorId>& nonnegative) {
      SideConditions conditions(atoms_);
      for (const auto& [key, literal] : literals_) conditions.know_literal(literal, key.first.empty());
      for (const TensorId t : nonnegative) conditions.suppose_nonnegative(t);
      return conditions;
    });
  }

 private:
  solvers::TermPool pool_;
  solvers::AtomTable atoms_{pool_, {}};
  LiteralTable literals_;
  Semantics semantics_;
  solvers::Folder folder_;
  ProgramRun run_;
  std::map<ValueId, TensorId> tensors_;
};

// Zeros are as likely as all other numbers together.
RankValues anything(Random& random, bool nonnegative) {
  RankValues result(1);
  for (int k = 0; k < 3; ++k) {
    const double x = random.chance(50) ? 0 : static_cast<double>(random.between(-12, 12)) / 4;
    result[0].push_back(nonnegative ? std::fabs(x) : x);
  }
  return result;
}

TEST(NonnegativeStatesFuzz, KeptStatesNeverGetNegative) {
  ir::Mesh mesh;
  mesh.axes = {{"one", 1, {}}};
  std::uint64_t kept = 0, given_up = 0, given_up_rightly = 0, compared = 0;
  for (std::uint64_t seed = solvers::testing::first_seed(); seed <= solvers::testing::last_seed(3'000); ++seed) {
    Random random(seed);
    const Updates updates(random);
    std::vector<ValueId> entries = updates.states;
    entries.insert(entries.end(), updates.inputs.begin(), updates.inputs.end());
    Step step(updates.program, entries);
    if (step.has_faults()) continue;
    std::vector<Obligation> needed = step.conditions();
    if (random.chance(80)) needed.clear();
    for (const ValueId s : updates.states)
      if (needed.empty() || random.chance(70)) needed.push_back(step.nonnegative(s));
    const std::set<TensorId> said = step.kept(updates.states, updates.next, needed);
    std::set<ValueId> negative;
    for (int trial = 0; trial < 12; ++trial) {
      testing::ClusterInterpreter interpreter(updates.program, mesh);
      for (const ValueId s : updates.states) interpreter.set(s, anything(random, said.count(step.tensor(s)) != 0));
      for (const ValueId x : updates.inputs) interpreter.set(x, anything(random, false));
      interpreter.run();
      for (std::size_t k = 0; k < updates.states.size(); ++k)
        for (const double x : interpreter.at(updates.next[k])[0]) {
          if (x < -1e-9) negative.insert(updates.states[k]);
          if (said.count(step.tensor(updates.states[k])) == 0 || std::isnan(x)) continue;
          ++compared;
          ASSERT_GE(x, -1e-9) << "seed " << seed << ": " << updates.program.value(updates.states[k]).name << " is said to stay non-negative";
        }
    }
    for (const ValueId s : updates.states) {
      if (said.count(step.tensor(s)) != 0) ++kept;
      else ++given_up, given_up_rightly += negative.count(s);
    }
  }
  std::cout << kept << " states kept, " << given_up << " not, of which " << given_up_rightly << " do get negative; compared " << compared << "\n";
  EXPECT_GT(kept, 1'500U);
  EXPECT_GT(given_up_rightly, 500U);
  EXPECT_GT(compared, 50'000U);
}

// And the number of steps, on which the corrections of their bias rest; not the first moments.
TEST(NonnegativeStates, SecondMomentsOfAdamAreKept) {
  ir::Program program;
  ir::Builder builder(program);
  const ir::TensorType type{DType::f32, kShape};
  const ValueId w = builder.input("w", type), m = builder.input("m", type), v = builder.input("v", type), x = builder.input("x", type);
  const ValueId count = builder.input("count", {DType::i64, {}}), rate = builder.input("rate", {DType::f32, {}});
  const ValueId step_number = builder.op(OpCode::add, {count, builder.typed(OpCode::constant, {DType::i64, {}}, {{"value", Rational(1)}})});
  const ValueId gradient = builder.op(OpCode::mul, {w, x});
  const std::vector<ValueId> next = builder.multi(OpCode::adamw, {w, gradient, m, v, step_number, rate},
                                                  {{"beta1", Rational(9, 10)}, {"beta2", Rational(95, 100)}, {"eps", Rational(1, 100'000'000)}, {"weight_decay", Rational(1, 10)}},
                                                  {"w_next", "m_next", "v_next"});
  std::vector<ValueId> to;
  const ir::Program core = lowering::unfold(program, &to);
  const auto mapped = [&](ValueId value) { return to.at(static_cast<std::size_t>(value.index)); };
  Step step(core, {mapped(w), mapped(m), mapped(v), mapped(x), mapped(rate), mapped(count)});
  ASSERT_FALSE(step.has_faults());
  const std::set<TensorId> kept = step.kept({mapped(w), mapped(m), mapped(v), mapped(count)},
                                            {mapped(next[0]), mapped(next[1]), mapped(next[2]), mapped(step_number)}, step.conditions());
  EXPECT_EQ(kept, (std::set<TensorId>{step.tensor(mapped(v)), step.tensor(mapped(count))}));
}

}  // namespace
}  // namespace shardproof::verifier

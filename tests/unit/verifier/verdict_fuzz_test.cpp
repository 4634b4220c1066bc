// Verdicts against execution: small reference steps, and plans that do them on padded shards, rightly or with a mistake. A plan
// that is called equivalent must leave the reference's state on every rank, whatever the padding holds, for all inputs for
// which the reference is defined.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <sstream>

#include "ir/builder.h"
#include "ir/print.h"
#include "tests/unit/solvers/raw_term.h"
#include "tests/unit/verifier/cluster_interpreter.h"
#include "verifier/verify.h"

namespace shardproof::verifier {
namespace {

using ir::DType;
using ir::OpCode;
using ir::Rational;
using ir::Shape;
using ir::ValueId;
using solvers::testing::Random;
using testing::RankValues;
using Integers = std::vector<std::int64_t>;

// Everything is a vector of `length` elements, cut over axis `a` into `shard` each, with padding at the end; axis `b` holds copies.
class Steps {
 public:
  explicit Steps(Random& random) : random_(random), reference_(document.reference.program) {
    ir::Mesh mesh;
    mesh.name = "ranks";
    mesh.axes = {{"a", random.between(2, 3), {}}, {"b", 2, {}}};
    document.plan.meshes.push_back(mesh);
    document.plan.name = "padded";
    document.plan.stages.emplace_back().name = "all";
    ranks_ = mesh.axes[0].size;
    shard = random.between(2, 3);
    length = ranks_ * shard - (random.chance(75) ? random.between(1, shard - 1) : 0);
    plan_.emplace(stage().program, [this](const std::string& axis) { return axis == "a" ? ranks_ : axis == "b" ? std::int64_t{2} : std::int64_t{0}; });
    for (int n = 0; n < 2; ++n) enter("s" + std::to_string(n), true);
    enter("x", false);
    mistakes_ = random.chance(60) ? 1 : 0;
    for (std::int64_t n = random.between(2, 5); n > 0; --n) step();
    for (std::size_t n = 0; n < 2; ++n) {
      const Pair& last = random.chance(60) ? values_.back() : random.pick(values_);
      document.reference.state[n].next = last.reference;
      stage().state[n].next = last.plan;
    }
  }

  ir::Document document;
  std::int64_t length = 0, shard = 0;
  const ir::Mesh& mesh() const { return document.plan.meshes[0]; }
  bool may_be_wrong() const { return wrong_; }

 private:
  struct Pair {
    ValueId reference, plan;  // the whole vector, and a rank's shard of it
  };
  ir::StageProgram& stage() { return document.plan.stages[0]; }

  void enter(const std::string& name, bool is_state) {
    const Pair pair{reference_.input(name, {DType::f32, {length}}), plan_->input(name, {DType::f32, {shard}})};
    ir::Binding binding;
    binding.of = name;
    ir::DimLayout layout;
    layout.digits = {{"a", 1, ranks_}, {"", 1, shard}};
    if (ranks_ * shard > length) layout.padded_extent = ranks_ * shard;
    binding.placement.dims = {layout};
    binding.placement.pad = random_.chance(75) ? ir::PadValue::any : ir::PadValue::zero;
    if (is_state) {
      document.reference.state.push_back({name, pair.reference, pair.reference, "", "", {}});
      stage().state.push_back({name, pair.plan, pair.plan, binding, "accelerator", {}});
      stage().state.back().binding.placement.pad = ir::PadValue::any;
    } else {
      document.reference.inputs.push_back({pair.reference, 0, {}});
      stage().inputs.push_back({pair.plan, binding, {}});
    }
    values_.push_back(pair);
  }

  bool mistake() {
    if (mistakes_ == 0 || !random_.chance(30)) return false;
    --mistakes_;
    return wrong_ = true;
  }
  const Pair& any() { return random_.chance(50) ? values_.back() : random_.pick(values_); }
  ValueId number(ir::Builder& builder, Rational value, std::int64_t count) { return builder.typed(OpCode::constant, {DType::f32, {count}}, {{"value", value}}); }

  // 1 where the element of the shard is no padding.
  ValueId inside(std::int64_t wanted) {
    const Shape shape{shard};
    const ValueId index = plan_->typed(OpCode::iota, {DType::i64, shape}, {{"dim", std::int64_t{0}}});
    const ValueId first = plan_->typed(OpCode::coord, {DType::i64, {}}, {{"value", ir::variable_expr("a", shard)}});
    const ValueId position = plan_->op(OpCode::add, {index, plan_->op(OpCode::broadcast, {first}, {{"shape", shape}, {"dims", Integers{}}})});
    const ValueId end = plan_->typed(OpCode::constant, {DType::i64, shape}, {{"value", Rational(wanted)}});
    return plan_->op(OpCode::compare, {position, end}, {{"direction", std::string("lt")}});
  }
  ValueId masked(ValueId shard_of, Rational otherwise) {
    if (random_.chance(8)) wrong_ = true;
    else shard_of = plan_->op(OpCode::select, {inside(length + (mistake() ? 1 : 0)), shard_of, number(*plan_, otherwise, shard)});
    return shard_of;
  }

  // 0, or undefined: with the elements of the shard in another place, or all of them added up.
  ValueId nothing(ValueId own) {
    wrong_ = true;
    const auto part = [&](std::int64_t start, std::int64_t size) {
      return plan_->op(OpCode::slice, {own}, {{"dim", std::int64_t{0}}, {"start", ir::constant_expr(start)}, {"size", size}});
    };
    ValueId moved = own;
    if (random_.chance(50)) moved = plan_->op(OpCode::concat, {part(1, shard - 1), part(0, 1)}, {{"dim", std::int64_t{0}}});
    else if (random_.chance(50)) moved = plan_->op(OpCode::broadcast, {plan_->op(OpCode::reduce_sum, {own}, {{"dims", Integers{0}}})}, {{"shape", Shape{shard}}, {"dims", Integers{}}});
    const ValueId q = plan_->op(random_.pick(std::vector<OpCode>{OpCode::reciprocal, OpCode::sqrt, OpCode::log}), {moved});
    return random_.chance(50) ? plan_->op(OpCode::sub, {q, q}) : plan_->op(OpCode::mul, {number(*plan_, Rational(0), shard), q});
  }

  void step() {
    const Pair x = any(), y = any();
    Pair result;
    switch (random_.between(0, 10)) {
      case 10: result = {x.reference, plan_->op(OpCode::add, {x.plan, nothing(y.plan)})}; break;
      case 0: {
        const OpCode op = random_.pick(std::vector<OpCode>{OpCode::add, OpCode::mul, OpCode::sub, OpCode::max});
        result = {reference_.op(op, {x.reference, y.reference}), plan_->op(op, {x.plan, mistake() ? any().plan : y.plan})};
        break;
      }
      case 1: {
        const OpCode op = random_.pick(std::vector<OpCode>{OpCode::sqrt, OpCode::reciprocal, OpCode::log, OpCode::exp, OpCode::neg, OpCode::rsqrt});
        result = {reference_.op(op, {x.reference}), plan_->op(op, {mistake() ? y.plan : x.plan})};
        break;
      }
      case 2: {
        const Rational value(random_.between(-3, 3), 2);
        const OpCode op = random_.chance(50) ? OpCode::mul : OpCode::add;
        result = {reference_.op(op, {x.reference, number(reference_, value, length)}), plan_->op(op, {x.plan, number(*plan_, mistake() ? value + Rational(1) : value, shard)})};
        break;
      }
      case 3: result = {reference_.op(OpCode::div, {x.reference, y.reference}), mistake() ? plan_->op(OpCode::div, {y.plan, x.plan}) : plan_->op(OpCode::div, {x.plan, y.plan})}; break;
      case 4: {  // a square is defined for everything, and its root may be taken
        const ValueId a = reference_.op(OpCode::mul, {x.reference, x.reference}), b = plan_->op(OpCode::mul, {x.plan, x.plan});
        result = {reference_.op(OpCode::add, {a, number(reference_, Rational(1, 2), length)}), plan_->op(OpCode::add, {b, number(*plan_, Rational(1, 2), shard)})};
        break;
      }
      case 5:
      case 6: {  // a sum or maximum over all elements
        const bool sum = random_.chance(70);
        const ValueId whole = reference_.op(sum ? OpCode::reduce_sum : OpCode::reduce_max, {sum ? x.reference : reference_.op(OpCode::mul, {x.reference, x.reference})}, {{"dims", Integers{0}}});
        ValueId own = sum ? x.plan : plan_->op(OpCode::mul, {x.plan, x.plan});
        own = masked(own, Rational(0));  // squares are not below 0
        own = plan_->op(sum ? OpCode::reduce_sum : OpCode::reduce_max, {own}, {{"dims", Integers{0}}});
        const std::vector<std::string> axes = mistake() ? (random_.chance(50) ? std::vector<std::string>{"b"} : std::vector<std::string>{"a", "b"}) : std::vector<std::string>{"a"};
        own = plan_->op(OpCode::all_reduce, {own}, {{"axes", axes}, {"reduce", std::string(mistake() ? "avg" : sum ? "sum" : "max")}});
        result = {reference_.op(OpCode::broadcast, {whole}, {{"shape", Shape{length}}, {"dims", Integers{}}}), plan_->op(OpCode::broadcast, {own}, {{"shape", Shape{shard}}, {"dims", Integers{}}})};
        break;
      }
      case 7: {  // gathered, without padding; reversed halves; cut again
        const ValueId all = plan_->op(OpCode::all_gather, {x.plan}, {{"axes", std::vector<std::string>{"a"}}, {"dim", std::int64_t{0}}});
        const std::int64_t cut = random_.between(1, length - 1);
        const auto turned = [&](ir::Builder& builder, ValueId v, std::int64_t at) {
          const ValueId left = builder.op(OpCode::slice, {v}, {{"dim", std::int64_t{0}}, {"start", ir::constant_expr(0)}, {"size", at}});
          const ValueId right = builder.op(OpCode::slice, {v}, {{"dim", std::int64_t{0}}, {"start", ir::constant_expr(at)}, {"size", length - at}});
          return builder.op(OpCode::concat, {right, left}, {{"dim", std::int64_t{0}}});
        };
        ValueId own = turned(*plan_, all, mistake() ? std::max<std::int64_t>(1, length - cut) : cut);
        own = plan_->op(OpCode::pad, {own}, {{"dim", std::int64_t{0}}, {"low", std::int64_t{0}}, {"high", ranks_ * shard - length}, {"value", Rational(random_.between(0, 1))}});
        own = plan_->op(OpCode::slice, {own}, {{"dim", std::int64_t{0}}, {"start", ir::variable_expr("a", shard)}, {"size", shard}});
        result = {turned(reference_, x.reference, cut), own};
        break;
      }
      case 8:  // what the padding holds is of no account after this
        result = {x.reference, masked(x.plan, Rational(random_.between(0, 2)))};
        break;
      default: {  // sums over ranks, apart from elements
        const ValueId part = plan_->op(OpCode::mul, {x.plan, number(*plan_, Rational(1, mistake() ? 3 : 2), shard)});
        const ValueId total = plan_->op(OpCode::all_reduce, {part}, {{"axes", std::vector<std::string>{mistake() ? "a" : "b"}}, {"reduce", std::string("sum")}});
        result = {x.reference, total};
      }
    }
    values_.push_back(result);
  }

  Random& random_;
  ir::Builder reference_;
  std::optional<ir::Builder> plan_;
  std::int64_t ranks_ = 2;
  std::vector<Pair> values_;
  int mistakes_ = 0;
  bool wrong_ = false;
};

std::vector<double> numbers(Random& random, std::int64_t count, bool nonnegative) {
  std::vector<double> result;
  for (; count > 0; --count) {
    const double x = static_cast<double>(random.between(random.chance(75) ? 1 : -12, 12)) / 4;
    result.push_back(nonnegative ? std::fabs(x) : x);
  }
  return result;
}

bool has_undefined(const RankValues& contents) {
  for (const std::vector<double>& of_rank : contents)
    for (const double x : of_rank)
      if (!std::isfinite(x)) return true;
  return false;
}

TEST(VerdictFuzz, EquivalentPlansLeaveTheReferencesState) {
  ir::Mesh single;
  single.axes = {{"one", 1, {}}};
  std::uint64_t documents = 0, equivalent = 0, spoiled = 0, spoiled_proved = 0, compared = 0, undefined = 0, refuted = 0;
  for (std::uint64_t seed = solvers::testing::first_seed(); seed <= solvers::testing::last_seed(1'200); ++seed) {
    Random random(seed);
    const Steps steps(random);
    const ir::Document& document = steps.document;
    VerifyOptions options;
    options.suggest_fixes = false;
    const Report report = verify(document, options);
    ++documents;
    spoiled += steps.may_be_wrong() ? 1U : 0U;
    refuted += report.verdict == Verdict::not_equivalent ? 1U : 0U;
    if (!steps.may_be_wrong()) {
      ASSERT_NE(report.verdict, Verdict::not_equivalent) << seed;
    }
    if (report.verdict != Verdict::equivalent) continue;
    ++equivalent;
    spoiled_proved += steps.may_be_wrong() ? 1U : 0U;
    const bool nonnegative = std::any_of(report.assumptions.begin(), report.assumptions.end(), [](const std::string& text) { return text.find("not negative at the start") != std::string::npos; });
    const ir::StageProgram& stage = document.plan.stages[0];
    for (int trial = 0; trial < 12; ++trial) {
      testing::ClusterInterpreter reference(document.reference.program, single), plan(stage.program, steps.mesh());
      const auto enter = [&](ValueId whole, ValueId shards, const ir::Binding& binding, bool is_state) {
        std::vector<double> contents = numbers(random, steps.length, nonnegative && is_state);
        reference.set(whole, {contents});
        RankValues parts;
        for (std::int64_t rank = 0; rank < steps.mesh().size(); ++rank) {
          parts.emplace_back();
          const std::int64_t first = ir::coordinate_of(steps.mesh(), rank)[0] * steps.shard;
          for (std::int64_t k = first; k < first + steps.shard; ++k)
            parts.back().push_back(k < steps.length ? contents[static_cast<std::size_t>(k)] : binding.placement.pad == ir::PadValue::zero ? 0 : static_cast<double>(random.between(-4, 4)) / 2);
        }
        plan.set(shards, parts);
      };
      for (std::size_t n = 0; n < stage.state.size(); ++n) enter(document.reference.state[n].value, stage.state[n].value, stage.state[n].binding, true);
      for (std::size_t n = 0; n < stage.inputs.size(); ++n) enter(document.reference.inputs[n].value, stage.inputs[n].value, stage.inputs[n].binding, false);
      bool defined = true;
      reference.run([&](ValueId, const testing::ClusterInterpreter::LoopIndices&, const RankValues& contents) { defined = defined && !has_undefined(contents); });
      if (!defined) {
        ++undefined;
        continue;
      }
      plan.run();
      for (std::size_t n = 0; n < stage.state.size(); ++n) {
        const std::vector<double>& wanted = reference.at(document.reference.state[n].next)[0];
        for (std::int64_t rank = 0; rank < steps.mesh().size(); ++rank)
          for (std::int64_t k = 0; k < steps.shard; ++k) {
            const std::int64_t at = ir::coordinate_of(steps.mesh(), rank)[0] * steps.shard + k;
            if (at >= steps.length) continue;
            const double expected = wanted[static_cast<std::size_t>(at)], found = plan.at(stage.state[n].next)[static_cast<std::size_t>(rank)][static_cast<std::size_t>(k)];
            if (std::fabs(expected) > 1e6) continue;
            ++compared;
            std::ostringstream text;
            if (!(std::fabs(expected - found) <= 1e-6 * (1 + std::fabs(expected)))) ir::print_json(document, text);
            ASSERT_TRUE(std::fabs(expected - found) <= 1e-6 * (1 + std::fabs(expected)))
                << "seed " << seed << ", " << ir::describe_rank(steps.mesh(), rank) << ": element " << at << " of s" << n << " is " << found << " instead of " << expected << "\n" << text.str();
          }
      }
    }
  }
  std::cout << documents << " plans, " << equivalent << " proved, " << spoiled << " with a mistake, of which " << spoiled_proved << " proved and " << refuted << " of all refuted; compared " << compared << ", " << undefined
            << " times the reference is undefined\n";
  EXPECT_GT(equivalent, documents / 4);
  EXPECT_GT(spoiled, documents / 5);
  EXPECT_GT(refuted, spoiled / 3);  // many mistakes change nothing, or only where something is zero
  EXPECT_GT(compared, 20'000U);
}

}  // namespace
}  // namespace shardproof::verifier

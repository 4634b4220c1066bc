// Whole programs as a verification runs them: every value's term after folding must mean what the execution computes.
// Atoms hold what their definitions say, so a fold that changes a value is seen whatever was matched.
#include <gtest/gtest.h>

#include <iostream>

#include "tests/semantics/case_run.h"
#include "tests/semantics/sharded_replay.h"
#include "verifier/fold_search.h"
#include "verifier/kernel/run_program.h"

namespace shardproof::semantics_test {
namespace {

using ir::OpCode;
using verifier::ProgramRun;
using verifier::Side;

struct Tally {
  std::int64_t values = 0, elements = 0, undefined = 0, refused = 0;
};

OpCode any_op(std::mt19937_64& random, bool collectives) {
  const std::vector<OpCode> ops = ProgramGenerator::supported(collectives);
  return ops[static_cast<std::size_t>(execution::uniform_integer(random, static_cast<std::int64_t>(ops.size())))];
}

// Values outside loops that no fault has replaced by an unknown.
std::vector<ir::ValueId> sound_values(const ProgramRun& run) {
  std::vector<bool> faulty(run.program().values.size());
  for (const verifier::Fault& f : run.faults())
    for (ir::ValueId out : f.instruction->outputs) faulty[static_cast<std::size_t>(out.index)] = true;
  std::vector<ir::ValueId> result;
  for (const ir::Instruction& i : run.program().body) {
    bool bad = false;
    const auto reads = [&](const ir::Instruction& reader) {
      for (ir::ValueId in : reader.inputs) bad = bad || faulty[static_cast<std::size_t>(in.index)];
      for (ir::ValueId out : reader.outputs) bad = bad || faulty[static_cast<std::size_t>(out.index)];
    };
    reads(i);
    if (i.region)
      for (const ir::Instruction& inner : i.region->body) reads(inner);
    for (ir::ValueId out : i.outputs) {
      faulty[static_cast<std::size_t>(out.index)] = bad;
      if (!bad) result.push_back(out);
    }
  }
  return result;
}

void check_values(Terms& terms, const ProgramRun& run, const verifier::Containment& containment, const std::map<ir::ValueId, execution::RankTensors>& executed, bool on_mesh, Tally& tally) {
  terms.values.set_literals(terms.literals);
  terms.values.set_stand_ins(containment.stand_ins());
  const double scale = magnitude(executed);
  for (const verifier::Fault& f : run.faults()) {
    // Known limits: general recurrences, sizes, products of many pieces. An index out of range would be a wrong refusal.
    ASSERT_TRUE(f.code == "SP0905" || f.code == "SP0903") << f.code << " " << f.message << "\n" << describe_program(run.program());
    ++tally.refused;
  }
  for (ir::ValueId id : sound_values(run)) {
    Difference d;
    try {
      d = compare_term(terms.values, terms.pool, run.term(id), on_mesh ? terms.mesh : nullptr, terms.semantics.coordinates(), executed.at(id), scale);
    } catch (const InternalError& e) {
      FAIL() << e.what() << ": " << run.program().value(id).name << " = " << terms.pool.to_string(run.term(id)).substr(0, 300) << "\n" << describe_program(run.program());
    }
    ++tally.values;
    tally.elements += d.elements;
    tally.undefined += d.undefined;
    ASSERT_EQ(d.first, "") << run.program().value(id).name << " of\n" << describe_program(run.program());
  }
}

ProgramGenerator random_program(std::mt19937_64& random, const ir::Mesh* mesh, std::int64_t length, int loop_percent) {
  ProgramGenerator generator(random, mesh);
  if (loop_percent == 0) generator.set_extents({1, 2, 2, 3, 4, 6, 6});
  for (; length > 0; --length) {
    if (execution::uniform_integer(random, 100) < loop_percent) generator.append_loop(1 + static_cast<int>(execution::uniform_integer(random, 4)));
    else generator.append(any_op(random, mesh != nullptr));
  }
  return generator;
}

void check_alone(Side side, const ir::Mesh* mesh, std::uint64_t seed, int loop_percent, Tally& tally) {
  std::mt19937_64 random(seed);
  const ProgramGenerator generator = random_program(random, mesh, 3 + execution::uniform_integer(random, 8), loop_percent);
  const InputTensors contents = random_inputs(random, generator.program(), generator.inputs(), mesh);
  const auto executed = execute_all(generator.program(), contents, mesh);
  Terms terms(mesh);
  verifier::FoldSearch search(terms.atoms);
  ProgramRun run(side, terms.atoms, search, terms.semantics, generator.program());
  for (const ProgramInput& input : generator.inputs()) run.set(input.id, terms.enter_input(generator.program(), input, contents));
  run.run();
  check_values(terms, run, search.containment(), executed, mesh != nullptr, tally);
  if (::testing::Test::HasFatalFailure()) ADD_FAILURE() << "seed " << seed;
}

TEST(Programs, ReferenceTermsAreTheExecutedValues) {
  Tally tally;
  for (std::uint64_t seed = 0; seed < 600 && !HasFailure(); ++seed) check_alone(Side::reference, nullptr, seed, 0, tally);
  EXPECT_GT(tally.values, 2500);
  EXPECT_LT(tally.refused * 20, tally.values);
}

TEST(Programs, ReferenceLoopsAreTheExecutedValues) {
  Tally tally;
  for (std::uint64_t seed = 0; seed < 500 && !HasFailure(); ++seed) check_alone(Side::reference, nullptr, seed, 30, tally);
  EXPECT_GT(tally.values, 1500);
  EXPECT_LT(tally.refused * 4, tally.values);
}

TEST(Programs, PlanTermsAreTheExecutedValues) {
  Tally tally;
  for (const ir::Mesh& mesh : test_meshes())
    for (std::uint64_t seed = 0; seed < 200 && !HasFailure(); ++seed) check_alone(Side::plan, &mesh, seed, 30, tally);
  EXPECT_GT(tally.values, 2500);
  EXPECT_LT(tally.refused * 4, tally.values);
}

// A reference and a plan that does its operations on shards, rightly and wrongly: folding finds the reference's atoms in
// the plan's values, and no value changes.
TEST(Programs, FoldingShardedPlansKeepsValues) {
  Tally tally;
  std::int64_t folds = 0, whole = 0, parts = 0;
  const ir::Mesh mesh = test_meshes()[0];
  for (std::uint64_t seed = 0; seed < 400 && !HasFailure(); ++seed) {
    std::mt19937_64 random(seed);
    const ProgramGenerator generator = random_program(random, nullptr, 3 + execution::uniform_integer(random, 7), 0);
    const ir::Program& reference = generator.program();
    InputTensors contents = random_inputs(random, reference, generator.inputs(), nullptr);
    const Replay plan = replay_sharded(random, reference, generator.inputs(), mesh, 60);
    InputTensors replicated;
    for (const auto& [from, to] : plan.inputs) replicated[to].assign(static_cast<std::size_t>(mesh.size()), contents.at(from)[0]);
    const auto executed = execute_all(plan.program, replicated, &mesh);

    Terms terms(&mesh);
    verifier::Semantics reference_semantics(terms.atoms, terms.literals, nullptr);
    verifier::FoldSearch search(terms.atoms);
    ProgramRun reference_run(Side::reference, terms.atoms, search, reference_semantics, reference);
    ProgramRun plan_run(Side::plan, terms.atoms, search, terms.semantics, plan.program);
    for (const ProgramInput& input : generator.inputs()) {
      const ir::Value& v = reference.value(input.id);
      const solvers::TermId term = enter(terms.atoms, terms.values, v.name, v.type, input.below, nullptr, {}, contents.at(input.id));
      reference_run.set(input.id, term);
      plan_run.set(plan.inputs.at(input.id), term);
    }
    reference_run.run();
    const std::uint64_t before = terms.atoms.accepted();
    plan_run.run();
    folds += static_cast<std::int64_t>(terms.atoms.accepted() - before);
    check_values(terms, plan_run, search.containment(), executed, true, tally);
    if (HasFatalFailure()) {
      ADD_FAILURE() << "seed " << seed << ", reference\n" << describe_program(reference);
      break;
    }
    for (const auto& [value, copies] : plan.copies) {
      for (std::size_t k = 0; k < copies.size(); ++k) {
        if (plan_run.term(copies[k]) == reference_run.term(value)) ++whole;
        else if (search.folder().is_folded(plan_run.term(copies[k]))) ++parts;
      }
    }
  }
  std::cout << tally.values << " values, " << folds << " folds, " << whole << " equal to the reference, " << parts
            << " folded otherwise, " << tally.refused << " refused, " << tally.undefined << " of " << tally.elements << " elements undefined\n";
  EXPECT_GT(tally.values, 3000);
  EXPECT_GT(folds, 1000);
  EXPECT_LT(tally.refused * 20, tally.values);
}

// exp(cast(iota)) of `extent` elements: without inputs, a longer one looks the same at every index.
ir::Program exponentials(std::int64_t extent) {
  ir::Program program;
  ir::Builder builder(program);
  const ir::ValueId index = builder.typed(OpCode::iota, {ir::DType::i64, {extent}}, {{"dim", std::int64_t{0}}});
  const ir::ValueId real = builder.op(OpCode::cast, {index}, {{"dtype", std::string("f32")}});
  builder.op(OpCode::sin, {builder.op(OpCode::exp, {real})});
  return program;
}

TEST(Programs, AFoldStaysInsideTheShapeOfItsAtom) {
  for (const std::int64_t extent : {3, 6, 8}) {
    const ir::Program reference = exponentials(6), plan = exponentials(extent);
    Terms terms(nullptr);
    verifier::FoldSearch search(terms.atoms);
    ProgramRun reference_run(Side::reference, terms.atoms, search, terms.semantics, reference);
    ProgramRun plan_run(Side::plan, terms.atoms, search, terms.semantics, plan);
    reference_run.run();
    plan_run.run();
    Tally tally;
    check_values(terms, plan_run, search.containment(), execute_all(plan, {}, nullptr), false, tally);
    EXPECT_EQ(search.folder().is_folded(plan_run.term(plan.body.back().outputs[0])), extent <= 6);
  }
}

}  // namespace
}  // namespace shardproof::semantics_test

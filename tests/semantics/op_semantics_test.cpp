// Each op's term semantics, element by element, against an execution of the op with LibTorch. No folding: the terms are
// what Semantics::evaluate and the pool's normal forms make of random shapes and attributes.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "lowering/unfold.h"
#include "tests/semantics/case_run.h"
#include "tests/unit/runtime/op_cases.h"

namespace shardproof::semantics_test {
namespace {

using ir::OpCode;
using execution::RankTensors;
using runtime::testing::OpCase;

struct Tally {
  int programs = 0;
  std::int64_t elements = 0, undefined = 0;
};

// Terms of all instructions without folding, compared with the execution.
void check_terms(const ir::Program& program, const std::vector<ProgramInput>& inputs, const InputTensors& contents,
                 const ir::Mesh* mesh, Tally& tally) {
  const auto executed = execute_all(program, contents, mesh);
  const double scale = magnitude(executed);
  Terms terms(mesh);
  std::map<ir::ValueId, solvers::TermId> term_of;
  for (const ProgramInput& input : inputs) term_of[input.id] = terms.enter_input(program, input, contents);
  for (const ir::Instruction& i : program.body) {
    std::vector<verifier::Denotation> operands;
    for (ir::ValueId in : i.inputs) operands.push_back({term_of.at(in), program.value(in).type});
    const ir::ValueId out = i.outputs.at(0);
    try {
      term_of[out] = terms.semantics.evaluate(i, operands, program.value(out).type);
    } catch (const verifier::SemanticsError& e) {
      FAIL() << e.what() << ": " << e.expected << ", " << e.found << "\n" << describe_program(program);
    }
    const Difference d = terms.compare(term_of[out], executed.at(out), scale);
    tally.elements += d.elements;
    tally.undefined += d.undefined;
    ASSERT_EQ(d.first, "") << program.value(out).name << " of\n" << describe_program(program);
  }
  ++tally.programs;
}

void check_op(OpCode op, const ir::Mesh* mesh, int programs) {
  Tally tally;
  for (int seed = 0; seed < programs; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) * 1000 + static_cast<std::uint64_t>(op));
    ProgramGenerator generator(random, mesh);
    // Operands of an op are sometimes results of others, so that guards and digits meet.
    const std::vector<OpCode> ops = ProgramGenerator::supported(false);
    for (std::int64_t before = execution::uniform_integer(random, 4); before > 0; --before)
      generator.append(ops[static_cast<std::size_t>(execution::uniform_integer(random, static_cast<std::int64_t>(ops.size())))]);
    generator.append(op);
    check_terms(generator.program(), generator.inputs(), random_inputs(random, generator.program(), generator.inputs(), mesh), mesh, tally);
    if (::testing::Test::HasFatalFailure()) {
      ADD_FAILURE() << "seed " << seed;
      return;
    }
  }
  EXPECT_GT(tally.elements, 10 * programs);
  EXPECT_LT(tally.undefined * 20, tally.elements) << "too few elements are defined";
}

class EveryOp : public ::testing::TestWithParam<OpCode> {};

TEST_P(EveryOp, TermIsWhatLibTorchComputes) {
  const ir::OpFamily family = ir::schema_of(GetParam()).family;
  if (family != ir::OpFamily::communication) check_op(GetParam(), nullptr, 60);
  if (::testing::Test::HasFailure()) return;
  const std::vector<ir::Mesh> meshes = test_meshes();
  for (const ir::Mesh& mesh : meshes) {
    check_op(GetParam(), &mesh, family == ir::OpFamily::communication ? 40 : 15);
    if (::testing::Test::HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Core, EveryOp, ::testing::ValuesIn(ProgramGenerator::supported(true)),
                         [](const auto& test) { return std::string(ir::schema_of(test.param).name); });

// The fixed cases of the executor's own test, with the values that plain loops give. Macros are unfolded first, as in a
// verification, so that their definitions are compared with LibTorch's own functions.
std::vector<OpCase> fixed_cases() {
  std::vector<OpCase> cases = runtime::testing::source_and_structure_cases();
  for (const auto& more : {runtime::testing::arithmetic_cases(), runtime::testing::macro_cases()}) cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

class FixedCase : public ::testing::TestWithParam<OpCase> {};

TEST_P(FixedCase, TermIsWhatLoopsGive) {
  const OpCase& c = GetParam();
  std::vector<ir::TensorType> types, declared;
  for (const execution::Tensor& t : c.inputs) types.push_back(t.type);
  if (c.declared) declared.push_back(c.expected.front().type);
  const runtime::testing::OneOp one = runtime::testing::one_op(c.op, types, c.attrs, declared);
  std::vector<ir::ValueId> mapping;
  const ir::Program program = lowering::unfold(one.program, &mapping);
  const auto mapped = [&](ir::ValueId id) { return mapping.empty() ? id : mapping[static_cast<std::size_t>(id.index)]; };
  Terms terms(nullptr);
  std::map<ir::ValueId, solvers::TermId> term_of;
  for (std::size_t k = 0; k < c.inputs.size(); ++k) {
    // Integers that are all natural numbers are ids.
    std::int64_t below = 0;
    if (ir::is_integer(types[k].dtype)) {
      const auto [least, most] = std::minmax_element(c.inputs[k].data.begin(), c.inputs[k].data.end());
      if (*least >= 0) below = static_cast<std::int64_t>(*most) + 1;
    }
    const ir::ValueId id = mapped(one.inputs[k]);
    term_of[id] = enter(terms.atoms, terms.values, "x" + std::to_string(k), types[k], below, nullptr, {}, {c.inputs[k]});
  }
  for (const ir::Instruction& i : program.body) {
    std::vector<verifier::Denotation> operands;
    for (ir::ValueId in : i.inputs) operands.push_back({term_of.at(in), program.value(in).type});
    try {
      term_of[i.outputs.at(0)] = terms.semantics.evaluate(i, operands, program.value(i.outputs[0]).type);
    } catch (const verifier::SemanticsError& e) {
      // An id outside of the result is dropped by the op; the prover asks for ids in range.
      ASSERT_EQ(c.label, runtime::testing::kDroppedIds) << e.what();
      EXPECT_EQ(e.code, "SP0208");
      return;
    }
  }
  EXPECT_NE(c.label, runtime::testing::kDroppedIds);
  for (std::size_t k = 0; k < c.expected.size(); ++k) {
    const Difference d = terms.compare(term_of.at(mapped(one.results[k])), {c.expected[k]}, 1);
    EXPECT_EQ(d.first, "");
    EXPECT_EQ(d.undefined, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, FixedCase, ::testing::ValuesIn(fixed_cases()), [](const auto& test) {
  return std::string(ir::schema_of(test.param.op).name) + "_" + test.param.label + "_" + std::to_string(test.index);
});

// The table is the list: an op that no test above gives a term fails here.
TEST(OpTable, EveryOpHasATermTest) {
  std::set<OpCode> tested;
  for (OpCode op : ProgramGenerator::supported(true)) tested.insert(op);
  for (const OpCase& c : fixed_cases()) tested.insert(c.op);
  for (const ir::OpSchema& schema : ir::op_table()) {
    // The prover refuses these (rng_uniform, send, recv), or they have no value of their own (loop: see the loop tests).
    const bool elsewhere = schema.code == OpCode::rng_uniform || schema.code == OpCode::send || schema.code == OpCode::recv ||
                           schema.code == OpCode::loop || schema.code == OpCode::release;
    EXPECT_NE(tested.contains(schema.code), elsewhere) << schema.name;
  }
}

}  // namespace
}  // namespace shardproof::semantics_test

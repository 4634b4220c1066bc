// VJP rules against LibTorch autograd over the same instruction, and against the definition of the transpose for
// collectives.
#include <cmath>
#include <numeric>
#include <set>

#include "lowering/differentiate.h"
#include "lowering/unfold.h"
#include "runtime/virtual_cluster.h"
#include "tests/unit/runtime/op_cases.h"

namespace shardproof::runtime::testing {
namespace {

using ir::DType;
using ir::OpCode;

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases = source_and_structure_cases();
  for (const auto& more : {arithmetic_cases(), macro_cases()}) cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

// The instruction, a cotangent input per floating-point result, and the cotangents of its floating-point operands.
struct Differentiated {
  OneOp op;
  std::vector<ir::ValueId> seeds;      // one per result; invalid for integer results
  std::vector<std::size_t> floats;     // operands with a cotangent
  std::vector<ir::ValueId> gradients;  // one per entry of `floats`; invalid: zero
};

Differentiated differentiate(const OpCase& c, bool unfold) {
  Differentiated d;
  std::vector<ir::TensorType> types;
  for (const Tensor& input : c.inputs) types.push_back(input.type);
  std::vector<ir::TensorType> declared;
  if (c.declared) declared.push_back(c.expected.front().type);
  d.op = one_op(c.op, types, c.attrs, declared);
  if (unfold) d.op.program = lowering::unfold(d.op.program);
  ir::Builder builder(d.op.program);
  std::map<ir::ValueId, ir::ValueId> seeds;
  const std::size_t forward = d.op.program.body.size();
  for (const ir::ValueId result : d.op.results) {
    const ir::TensorType type = builder.type(result);
    if (!ir::is_float(type.dtype)) {
      d.seeds.push_back({});
      continue;
    }
    d.seeds.push_back(builder.input("seed" + std::to_string(d.seeds.size()), type));
    seeds[result] = d.seeds.back();
  }
  std::vector<ir::ValueId> wrt;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (!ir::is_float(c.inputs[i].type.dtype)) continue;
    d.floats.push_back(i);
    wrt.push_back(d.op.inputs[i]);
  }
  d.gradients = lowering::append_backward(builder, lowering::InstructionRange{0, forward}, seeds, wrt);
  return d;
}

// The oracle: autograd of sum over results of <seed, result>.
std::vector<Tensor> autograd(const OpCase& c, const Differentiated& d, const std::vector<Tensor>& seeds) {
  ir::Program forward = d.op.program;
  forward.body.resize(1);
  std::map<ir::ValueId, Array> inputs;
  std::vector<Array> leaves;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const bool differentiable = ir::is_float(c.inputs[i].type.dtype);
    inputs[d.op.inputs[i]] = differentiable ? upload_differentiable(c.inputs[i]) : upload(c.inputs[i]);
    if (differentiable) leaves.push_back(inputs[d.op.inputs[i]]);
  }
  ir::Builder builder(forward);
  std::vector<ir::ValueId> terms;
  for (std::size_t r = 0; r < d.op.results.size(); ++r) {
    if (!d.seeds[r].valid()) continue;
    inputs[d.seeds[r]] = upload(seeds[r]);
    std::vector<std::int64_t> dims(builder.shape(d.op.results[r]).size());
    std::iota(dims.begin(), dims.end(), 0);
    terms.push_back(
        builder.op(OpCode::reduce_sum, {builder.op(OpCode::mul, {d.op.results[r], d.seeds[r]})}, {{"dims", dims}}));
  }
  const std::vector<ir::ValueId> wanted = {builder.op(OpCode::add, terms)};
  return gradients(execute(forward, inputs, wanted).front(), leaves);
}

void check(const OpCase& c, bool unfold) {
  const Differentiated d = differentiate(c, unfold);
  if (d.floats.empty()) return;
  std::mt19937_64 random(17);
  std::vector<Tensor> seeds;
  std::map<ir::ValueId, Tensor> inputs;
  bool any = false;
  for (std::size_t r = 0; r < d.seeds.size(); ++r) {
    const ir::TensorType type = d.op.program.value(d.op.results[r]).type;
    seeds.push_back(random_normal(random, type));
    if (d.seeds[r].valid()) inputs[d.seeds[r]] = seeds.back();
    any = any || d.seeds[r].valid();
  }
  for (std::size_t i = 0; i < c.inputs.size(); ++i) inputs[d.op.inputs[i]] = c.inputs[i];
  const std::vector<Tensor> expected =
      any ? autograd(c, unfold ? differentiate(c, false) : d, seeds) : std::vector<Tensor>();
  for (std::size_t k = 0; k < d.floats.size(); ++k) {
    SCOPED_TRACE("operand " + std::to_string(d.floats[k]));
    const Tensor zero = zeros({DType::f64, c.inputs[d.floats[k]].type.shape});
    Tensor found = zero;
    if (d.gradients[k].valid()) {
      const std::vector<ir::ValueId> wanted = {d.gradients[k]};
      found = execute(d.op.program, inputs, wanted).front();
      EXPECT_EQ(ir::to_string(found.type), ir::to_string(c.inputs[d.floats[k]].type));
      found.type.dtype = DType::f64;
    }
    expect_near(found, any ? expected[k] : zero, 1e-11);
  }
}

class EveryRule : public ::testing::TestWithParam<OpCase> {};

TEST_P(EveryRule, AgreesWithAutograd) {
  const OpCase& c = GetParam();
  if (c.op == OpCode::adamw) GTEST_SKIP() << lowering::why_no_derivative(c.op);
  if (c.label == kDroppedIds) GTEST_SKIP() << "ids outside of the extent";
  // Only a rule can be tested; that nothing else is without one is the next test.
  if (!lowering::why_no_derivative(c.op).empty()) {
    bool depends = false;
    for (const Tensor& input : c.inputs) depends = depends || ir::is_float(input.type.dtype);
    if (!depends) GTEST_SKIP() << lowering::why_no_derivative(c.op);
  }
  check(c, false);
}

// The rule of a macro against the rules of what it unfolds to.
TEST_P(EveryRule, AgreesWithAutogradAfterUnfolding) {
  const OpCase& c = GetParam();
  if (ir::schema_of(c.op).family != ir::OpFamily::macro) GTEST_SKIP() << "not a macro";
  if (c.op == OpCode::adamw) GTEST_SKIP() << lowering::why_no_derivative(c.op);
  check(c, true);
}

INSTANTIATE_TEST_SUITE_P(Cases, EveryRule, ::testing::ValuesIn(all_cases()), [](const auto& test) {
  return std::string(ir::schema_of(test.param.op).name) + "_" + test.param.label + "_" + std::to_string(test.index);
});

TEST(Vjp, OpsWithoutARuleAreTheseAndNoOthers) {
  const std::set<OpCode> without = {
      OpCode::constant,    OpCode::table,          OpCode::iota,        OpCode::coord,         OpCode::compare,
      OpCode::logical_and, OpCode::logical_or,     OpCode::logical_not, OpCode::stop_gradient, OpCode::rng_uniform,
      OpCode::all_reduce,  OpCode::broadcast_from, OpCode::send,        OpCode::recv,          OpCode::release,
      OpCode::loop,        OpCode::adamw};
  for (const ir::OpSchema& schema : ir::op_table()) {
    EXPECT_EQ(!lowering::why_no_derivative(schema.code).empty(), without.contains(schema.code))
        << schema.name << ": " << lowering::why_no_derivative(schema.code);
  }
}

double dot(const RankTensors& a, const RankTensors& b) {
  double sum = 0;
  for (std::size_t rank = 0; rank < a.size(); ++rank) {
    sum = std::inner_product(a[rank].data.begin(), a[rank].data.end(), b[rank].data.begin(), sum);
  }
  return sum;
}

// A collective is linear: its VJP is right exactly if <c, A x> = <A^T c, x>, summed over all ranks, for all x and c.
TEST(Vjp, CollectivesAreTransposed) {
  const ir::Mesh mesh{"main", {{"dp", 2, {}}, {"tp", 3, {}}}, {}, {}};
  const ir::AxisSize axis_size = [](const std::string& axis) -> std::int64_t {
    return axis == "dp" ? 2 : axis == "tp" ? 3 : 0;
  };
  struct Case {
    OpCode op;
    Attrs attrs;
  };
  const std::vector<Case> cases = {
      {OpCode::all_gather, {{"dim", std::int64_t{1}}}},
      {OpCode::reduce_scatter, {{"dim", std::int64_t{0}}, {"reduce", std::string("sum")}}},
      {OpCode::all_to_all, {{"split_dim", std::int64_t{0}}, {"concat_dim", std::int64_t{1}}}},
      {OpCode::permute, {{"shift", std::int64_t{1}}}},
  };
  for (const Case& c : cases) {
    for (const std::vector<std::string>& axes : {std::vector<std::string>{"tp"}, {"dp"}, {"tp", "dp"}}) {
      SCOPED_TRACE(std::string(ir::schema_of(c.op).name) + " over " + axes.front() +
                   (axes.size() > 1 ? " and dp" : ""));
      Attrs attrs = c.attrs;
      attrs.emplace_back("axes", axes);
      OneOp built = one_op(c.op, {{DType::f32, {6, 2}}}, attrs, {}, axis_size);
      ir::Builder builder(built.program, axis_size);
      const ir::TensorType result = builder.type(built.results.front());
      const ir::ValueId seed = builder.input("seed", result);
      const ir::ValueId gradient = lowering::append_backward(builder, lowering::InstructionRange{0, 1},
                                                             {{built.results.front(), seed}}, built.inputs)
                                       .front();
      std::mt19937_64 random(3);
      RankTensors x;
      RankTensors cotangent;
      for (int rank = 0; rank < 6; ++rank) {
        x.push_back(random_normal(random, {DType::f32, {6, 2}}));
        cotangent.push_back(random_normal(random, result));
      }
      const std::vector<ir::ValueId> wanted = {built.results.front(), gradient};
      const auto found = run_cluster({&mesh, 1}, built.program, {{built.inputs.front(), x}, {seed, cotangent}}, wanted);
      const double left = dot(cotangent, found[0]);
      EXPECT_NEAR(left, dot(found[1], x), 1e-12 * (1.0 + std::abs(left)));
    }
  }
}

}  // namespace
}  // namespace shardproof::runtime::testing

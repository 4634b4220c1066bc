// Our own dense kernels against LibTorch's, op by op, on all of their cases.
#include <gtest/gtest.h>

#include <cmath>

#include "lowering/unfold.h"
#include "runtime/torch_executor.h"
#include "tests/unit/runtime/op_cases.h"
#include "verifier/execution/cluster.h"
#include "verifier/execution/dense_domain.h"

namespace shardproof::runtime::testing {
namespace {

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases = source_and_structure_cases();
  for (const auto& more : {arithmetic_cases(), macro_cases()}) cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

class DenseOps : public ::testing::TestWithParam<OpCase> {};

template <typename Float>
std::vector<std::vector<double>> run_dense(const OneOp& one, const std::vector<Tensor>& inputs) {
  const DenseDomain<RealNumbers<Float>> domain;
  const ir::Program program = lowering::unfold(one.program);
  Interpreter interpreter(domain, program, single_device());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TensorOf<Float> given{inputs[i].type, {inputs[i].data.begin(), inputs[i].data.end()}};
    interpreter.set(one.inputs[i], {domain.upload(given)});
  }
  interpreter.run();
  std::vector<std::vector<double>> results;
  for (const ir::ValueId id : one.results) {
    results.emplace_back();
    for (const Float x : domain.download(interpreter.get(id).front(), ir::DType::f64).data)
      results.back().push_back(static_cast<double>(x));
  }
  return results;
}

void expect_close(const std::vector<std::vector<double>>& found, const std::vector<Tensor>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t r = 0; r < found.size(); ++r) {
    ASSERT_EQ(found[r].size(), wanted[r].data.size());
    for (std::size_t i = 0; i < found[r].size(); ++i) {
      const double expected = wanted[r].data[i];
      if (std::isnan(expected) || std::isinf(expected)) {
        EXPECT_TRUE(std::isnan(expected) ? std::isnan(found[r][i]) : found[r][i] == expected) << r << " " << i;
      } else {
        EXPECT_NEAR(found[r][i], expected, 1e-10 * std::max(1.0, std::abs(expected))) << r << " " << i;
      }
    }
  }
}

TEST_P(DenseOps, AgreesWithLibTorchAndTheDefinition) {
  const OpCase& c = GetParam();
  std::vector<ir::TensorType> types;
  std::map<ir::ValueId, Tensor> given;
  for (const Tensor& t : c.inputs) types.push_back(t.type);
  std::vector<ir::TensorType> declared;
  if (c.declared)
    for (const Tensor& t : c.expected) declared.push_back(t.type);
  const OneOp one = one_op(c.op, types, c.attrs, declared);
  for (std::size_t i = 0; i < c.inputs.size(); ++i) given[one.inputs[i]] = c.inputs[i];
  const std::vector<Tensor> torch = execute(one.program, given, one.results);
  const auto found = run_dense<double>(one, c.inputs);
  expect_close(found, torch);
  expect_close(found, c.expected);
  expect_close(run_dense<long double>(one, c.inputs), c.expected);
}

std::string case_name(const ::testing::TestParamInfo<OpCase>& info) {
  std::string name = std::string(ir::schema_of(info.param.op).name) + "_" + std::to_string(info.index);
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, DenseOps, ::testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace shardproof::runtime::testing

// Every set-up of tools/configs at small sizes, executed with LibTorch on all ranks: the plan is its reference in float64, up to
// rounding, and in the declared types it drifts from it no further than the reference does from itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/parity.h"
#include "tests/scaled/setup.h"
#include "verifier/execution/dense_domain.h"
#include "verifier/execution/rounding.h"

namespace shardproof {
namespace {

std::vector<std::string> all_setups() {
  std::vector<std::string> names;
  std::ifstream in(SHARDPROOF_SOURCE_DIR "/tools/configs/parallel.json");
  const nlohmann::json setups = nlohmann::json::parse(in);
  for (const auto& [name, setup] : setups.items()) names.push_back(name);
  return names;
}

double relative_error(const execution::Tensor& wanted, const execution::Tensor& found) {
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < wanted.data.size(); ++i) {
    largest = std::max(largest, std::abs(wanted.data[i]));
    error = std::max(error, std::abs(wanted.data[i] - found.data[i]));
  }
  return largest > 0 ? error / largest : error;
}

// The reference with everything that it computes rounded to bf16, the narrowest type of these plans: as far as that from the same
// in float64 is what no plan is to blame for.
ir::Reference in_bf16(ir::Reference reference) {
  std::set<ir::ValueId> given;
  for (const ir::ReferenceInput& input : reference.inputs) given.insert(input.value);
  for (const ir::ReferenceState& state : reference.state) given.insert(state.value);
  for (std::size_t i = 0; i < reference.program.values.size(); ++i)
    if (ir::DType& dtype = reference.program.values[i].type.dtype; ir::is_float(dtype) && !given.contains(ir::ValueId{static_cast<std::int32_t>(i)})) dtype = ir::DType::bf16;
  return reference;
}

class TorchParity : public testing::TestWithParam<std::string> {};

TEST_P(TorchParity, OfThePlanAtSmallSizes) {
  const execution::Scaled scaled = setups::scaled(setups::plan(GetParam()));
  ASSERT_TRUE(scaled.changed);
  const ir::Document& document = scaled.small;
  execution::ParityOptions options;
  options.values = execution::random_values(document.reference, 1);
  const execution::ReferenceRun reference = runtime::run_reference(document.reference, options.values);
  const runtime::TorchDomain torch;
  const execution::ParityReport exact = execution::run_parity_against(torch, document, reference.exit, options);
  EXPECT_TRUE(exact.equal()) << execution::describe(document.plan, exact);
  for (const execution::ParityRow& row : exact.rows) EXPECT_LT(row.max_rel_error, 100 * execution::epsilon(ir::DType::f64)) << row.name;

  const execution::DenseDomain<execution::RealNumbers<double>> declared(execution::RealNumbers<double>(), true);
  const execution::ReferenceRun rounded = execution::run_reference<double>(declared, in_bf16(document.reference), options.values);
  const execution::ParityReport drift = execution::run_parity_against(declared, document, reference.exit, options);
  double of_plan = 0, of_reference = 0;  // the largest of all tensors: that of one of them may be small by chance
  for (const execution::ParityRow& row : drift.rows) {
    of_plan = std::max(of_plan, row.max_rel_error);
    for (const std::string& tensor : row.tensors)
      of_reference = std::max(of_reference, relative_error(reference.exit.by_name.at(tensor), rounded.exit.by_name.at(tensor)));
  }
  EXPECT_LT(of_plan, 3 * of_reference);
  EXPECT_GT(of_plan, execution::epsilon(ir::DType::bf16) / 4);  // something was rounded
}

INSTANTIATE_TEST_SUITE_P(Setups, TorchParity, testing::ValuesIn(all_setups()), [](const auto& test) { return setups::test_name(test.param); });

// That a plan is compared at all: one whose first reduction is left out is another step.
TEST(TorchParityOfAFault, Differs) {
  ir::Document document = setups::scaled(setups::plan("llama-3.1-8b@64")).small;
  std::vector<ir::Instruction>& body = document.plan.stages.front().program.body;
  const auto reduction = std::find_if(body.begin(), body.end(), [](const ir::Instruction& i) { return i.op == ir::OpCode::all_reduce; });
  ASSERT_NE(reduction, body.end());
  const ir::ValueId whole = reduction->outputs[0], part = reduction->inputs[0];
  for (ir::Instruction& i : body) std::replace(i.inputs.begin(), i.inputs.end(), whole, part);
  EXPECT_FALSE(runtime::run_parity(document).equal());
}

}  // namespace
}  // namespace shardproof

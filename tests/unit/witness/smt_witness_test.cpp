// The second witness on whole plans: it confirms what the prover found, and not what the prover never said.
#include <gtest/gtest.h>

#include "ir/check.h"
#include "lowering/build_reference.h"
#include "lowering/plan_training.h"
#include "../lowering/plan_models.h"
#include "verifier/smt_witness.h"
#include "verifier/verify.h"

namespace shardproof::verifier {
namespace {

ir::Document planned(bool llama, std::int64_t tp, std::int64_t dp, bool sharded) {
  using namespace lowering::testing;
  const lowering::ModelConfig model = llama ? small_llama(1) : small_gpt2(1);
  lowering::ParallelConfig parallel = degrees(tp, dp, tp > 1, sharded);
  parallel.seq_length = 8;
  ir::Document document;
  const lowering::TrainingConfig training;
  document.reference = lowering::build_reference(model, training, parallel.global_batch_size, parallel.seq_length);
  document.plan = lowering::plan_training(model, training, parallel, document.reference);
  return document;
}

SmtConfirmation confirmed(Session& session) {
  SmtOptions options;
  return confirm_by_smt(session, 120, options);
}

TEST(SmtWitness, ConfirmsAlmostAllOfAProof) {
  for (const bool llama : {true, false})
    for (const auto& [tp, dp, sharded] : {std::tuple{1, 1, false}, {2, 2, false}, {2, 2, true}}) {
      const ir::Document document = planned(llama, tp, dp, sharded);
      VerifyOptions options;
      options.smt_witness = SmtOptions{};
      const Report report = verify(document, options);
      ASSERT_EQ(report.verdict, Verdict::equivalent);
      ASSERT_TRUE(report.smt.has_value());
      EXPECT_GE(static_cast<double>(report.smt->confirmed), 0.95 * static_cast<double>(report.smt->distinct));
      std::int64_t open = 0;
      for (const SmtConfirmation::Open& o : report.smt->open) open += o.count;
      EXPECT_EQ(report.smt->confirmed + open, report.smt->distinct);
    }
}

// An error in the prover: the term of one value is another one. The step, or one that reads the value, is not confirmed then.
TEST(SmtWitness, DoesNotConfirmAWrongStep) {
  const ir::Document document = planned(true, 2, 2, true);
  VerifyOptions options;
  Session session(document, options);
  session.run_reference();
  session.run_plan();
  session.check_claims();
  const SmtConfirmation right = confirmed(session);
  solvers::TermPool& pool = session.pool();
  const std::vector<Step> steps = session.plan_run().steps();
  int tried = 0;
  for (std::size_t k = 0; k < steps.size(); k += 7) {
    const ir::Instruction& i = *steps[k].instruction;
    if (i.outputs.size() != 1 || i.op == ir::OpCode::loop) continue;
    const ir::ValueId value = i.outputs[0];
    const solvers::TermId term = session.plan_run().term(value);
    const ir::Shape& shape = session.plan_program().value(value).type.shape;
    if (!term.valid() || pool.as_constant(term) || i.op == ir::OpCode::table || i.op == ir::OpCode::constant) continue;
    std::vector<solvers::TermId> wrong{pool.scale(term, ir::Rational(2)), pool.add(term, pool.one())};
    for (std::size_t d = 0; d < shape.size(); ++d) {  // shifted by one place, mirrored
      if (shape[d] < 2) continue;
      const solvers::IndexId x = pool.index_var(pool.element(d, shape[d]));
      for (const solvers::IndexId moved : {pool.index_mod(pool.index_scale(x, 1, 1), shape[d]), pool.index_scale(x, -1, shape[d] - 1)}) {
        solvers::Substitution s;
        s.set(pool.element(d, shape[d]), moved);
        wrong.push_back(pool.substitute(term, s));
      }
    }
    const solvers::TermId other = wrong[static_cast<std::size_t>(tried) % wrong.size()];
    if (other == term) continue;
    ++tried;
    session.plan_run().set(value, other);
    try {
      const SmtConfirmation found = confirmed(session);
      EXPECT_LT(found.confirmed - found.distinct, right.confirmed - right.distinct) << session.plan_program().value(value).name;
    } catch (const InternalError&) {  // a dissent: the best answer
    }
    session.plan_run().set(value, term);
  }
  EXPECT_GT(tried, 20);
}

TEST(SmtWitness, DissentsWhereTheSidesDiffer) {
  const ir::Document document = planned(false, 1, 2, false);
  VerifyOptions options;
  Session session(document, options);
  session.run_reference();
  session.run_plan();
  session.check_claims();
  for (const Step& step : session.plan_run().steps()) {
    if (step.instruction->op != ir::OpCode::take) continue;  // reads inputs alone
    const ir::ValueId value = step.instruction->outputs[0];
    session.plan_run().set(value, session.pool().scale(session.plan_run().term(value), ir::Rational(3)));
    EXPECT_THROW((void)confirmed(session), InternalError);
    return;
  }
  FAIL() << "no such instruction";
}

}  // namespace
}  // namespace shardproof::verifier

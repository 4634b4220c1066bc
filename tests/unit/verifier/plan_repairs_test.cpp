// Faults that are more than one wrong instruction: loops, layouts, states, and what one layer does unlike the others.
#include "tests/unit/verifier/planned_step.h"

namespace shardproof::verifier {
namespace {

using ir::OpCode;
using namespace testing;

// The loop over microbatches.
ir::Instruction& loop_of(ir::Document& document) {
  for (ir::Instruction& i : document.plan.stages.front().program.body)
    if (i.region != nullptr) return i;
  throw InternalError("no loop");
}

const std::string& name_of(const ir::Document& document, ir::ValueId value) { return document.plan.stages.front().program.value(value).name; }

ir::Instruction& inside(ir::Document& document, const std::string& name) {
  for (ir::Instruction& i : loop_of(document).region->body)
    if (!i.outputs.empty() && name_of(document, i.outputs[0]) == name) return i;
  throw InternalError("no " + name);
}

void become_copy(ir::Document& document, ir::Instruction& i, ir::ValueId of) {
  i.op = OpCode::reshape;
  i.inputs = {of};
  i.attributes = {};
  i.attributes.set("shape", document.plan.stages.front().program.value(of).type.shape);
}

// A carry that adds up a gradient by one `add`, and that instruction.
std::pair<ir::Carry*, ir::Instruction*> accumulated(ir::Document& document) {
  for (ir::Carry& c : loop_of(document).region->carries)
    for (ir::Instruction& i : loop_of(document).region->body)
      if (i.op == OpCode::add && i.outputs[0] == c.next && i.inputs[0] == c.argument && name_of(document, c.result).find("norm.weight") != std::string::npos) return {&c, &i};
  throw InternalError("no accumulation");
}

TEST(PlanRepairs, ALoopRunsAsOftenAsThereAreParts) {
  const std::string text = planned();
  ir::Document document = read(text);
  const std::string result = name_of(document, loop_of(document).outputs[0]);
  for (const int by : {-1, 1}) expect_mended(edited(text, [&](ir::Document& d) { loop_of(d).region->trip += by; }), result);
}

TEST(PlanRepairs, AnIterationTakesItsOwnPart) {
  const auto starting = [](const ir::CoordExpr& start, const std::vector<std::string>& slices) {
    return edited(planned(), [&](ir::Document& d) {
      for (const std::string& s : slices) inside(d, s).attributes.set("start", start);
    });
  };
  expect_mended(starting(ir::constant_expr(0), {"batch.tokens", "batch.labels", "batch.loss_mask"}), "batch.tokens");
  expect_mended(starting(ir::variable_expr("m", -1, 1), {"batch.loss_mask"}), "batch.loss_mask");
}

TEST(PlanRepairs, TheFirstPartIsNotSkipped) {
  expect_mended(edited(planned(),
                       [](ir::Document& d) {
                         loop_of(d).region->trip -= 1;
                         for (const std::string s : {"batch.tokens", "batch.labels", "batch.loss_mask"}) inside(d, s).attributes.set("start", ir::variable_expr("m", 1, 1));
                       }),
                "batch.tokens");
}

TEST(PlanRepairs, CarriedValuesThatCrossAreExchanged) {
  std::string result;
  const std::string text = edited(planned(), [&](ir::Document& d) {
    std::vector<ir::Carry>& carries = loop_of(d).region->carries;
    for (std::size_t i = 0; i < carries.size() && result.empty(); ++i)
      for (std::size_t j = i + 1; j < carries.size() && result.empty(); ++j) {
        if (d.plan.stages.front().program.value(carries[i].next).type != d.plan.stages.front().program.value(carries[j].next).type) continue;
        std::swap(carries[i].next, carries[j].next);
        result = name_of(d, carries[i].result);
      }
  });
  expect_mended(text, result);
}

TEST(PlanRepairs, WhatIterationsAddUpIsKept) {
  ir::Document document = read(planned());
  const std::string name = name_of(document, accumulated(document).second->outputs[0]);
  for (const std::size_t kept : {0U, 1U})
    expect_mended(edited(planned(), [&](ir::Document& d) { become_copy(d, *accumulated(d).second, accumulated(d).second->inputs[kept]); }), name);
}

TEST(PlanRepairs, AnAdditionThatIsMissingIsWritten) {
  ir::Document document = read(planned());
  const std::string result = name_of(document, accumulated(document).first->result);
  expect_mended(edited(planned(),
                       [](ir::Document& d) {
                         const auto [carry, sum] = accumulated(d);
                         carry->next = sum->inputs[1];
                         auto& body = loop_of(d).region->body;
                         body.erase(body.begin() + (sum - body.data()));
                       }),
                result);
}

TEST(PlanRepairs, AnOperandAddedTwiceIsAddedOnce) {
  ir::Document document = read(planned());
  const std::string name = name_of(document, accumulated(document).second->outputs[0]);
  expect_mended(edited(planned(), [](ir::Document& d) { accumulated(d).second->inputs.push_back(accumulated(d).second->inputs[1]); }), name);
}

TEST(PlanRepairs, FusedPartsAreInTheOrderOfTheOtherLayers) {
  const std::string name = "model.layers.1.mlp.gate_up_proj.weight";
  expect_mended(edited(planned(),
                       [&](ir::Document& d) {
                         for (ir::PlanState& state : d.plan.stages.front().state)
                           if (state.name == name) std::swap(state.binding.fused.at(0), state.binding.fused.at(1));
                       }),
                name);
}

TEST(PlanRepairs, MembersOfABufferAreWhereTheyAreUsed) {
  std::string state;
  const std::string text = edited(planned(), [&](ir::Document& d) {
    std::vector<ir::BufferMember>& members = d.plan.buffers.at(0).members;
    state = d.plan.buffers[0].name;
    std::vector<ir::BufferMember*> norms;
    for (ir::BufferMember& m : members)
      if (m.param.find("norm") != std::string::npos) norms.push_back(&m);
    std::swap(norms.at(0)->param, norms.at(1)->param);
  });
  expect_mended(text, state + ".param");
}

TEST(PlanRepairs, AnInputIsCutOverTheAxisThatItIsUsedWith) {
  const std::string text = R"({
  "shardproof": 1,
  "mesh": [["dp", 2], ["tp", 2]],
  "reference": {
    "inputs": [{"name": "x", "type": "f32[8,16]"}],
    "state": [{"name": "w", "type": "f32[32,16]", "role": "param", "next": "w_new"}],
    "body": [
      {"out": "y", "op": "einsum", "in": ["x", "w"], "spec": "bh,fh->bf"},
      {"out": "dw", "op": "einsum", "in": ["y", "x"], "spec": "bf,bh->fh"},
      {"out": "w_new", "op": "sub", "in": ["w", "dw"]}
    ]
  },
  "inputs": [{"name": "x", "dims": [["tp"], []]}],
  "state": [{"name": "w", "dims": [["tp"], []], "next": "w_new"}],
  "body": [
    {"out": "y", "op": "einsum", "in": ["x", "w"], "spec": "bh,fh->bf"},
    {"out": "my_dw", "op": "einsum", "in": ["y", "x"], "spec": "bf,bh->fh"},
    {"out": "dw", "op": "all_reduce", "in": "my_dw", "axes": "dp", "reduce": "sum"},
    {"out": "w_new", "op": "sub", "in": ["w", "dw"]}
  ]
})";
  expect_mended(text, "x");
}

TEST(PlanRepairs, AnAccumulatorStartsFromZero) {
  ir::Document document = read(planned());
  const std::string result = name_of(document, accumulated(document).first->result);
  const std::string text = edited(planned(), [](ir::Document& d) {
    ir::Program& program = d.plan.stages.front().program;
    const ir::ValueId zero = accumulated(d).first->init;
    ir::Value ones = program.value(zero);
    ones.name = "ones";
    const ir::ValueId id{static_cast<std::int32_t>(program.values.size())};
    program.values.push_back(ones);
    const auto at = std::find_if(program.body.begin(), program.body.end(), [&](const ir::Instruction& i) { return !i.outputs.empty() && i.outputs[0] == zero; });
    ir::Instruction constant = *at;
    constant.outputs = {id};
    constant.attributes.set("value", ir::Rational(1));
    program.body.insert(at, std::move(constant));
    const auto here = static_cast<std::size_t>(accumulated(d).first - loop_of(d).region->carries.data());
    loop_of(d).inputs[here] = loop_of(d).region->carries[here].init = id;
  });
  expect_mended(text, result, "SP0509");
}

// No zero of its shape is there: one is written before the loop.
TEST(PlanRepairs, AnAccumulatorGetsAZero) {
  const std::string text = R"({
  "shardproof": 1,
  "mesh": [["dp", 2]],
  "reference": {
    "inputs": [{"name": "g", "type": "f32[8,6]"}],
    "state": [{"name": "w", "type": "f32[6]", "role": "param", "next": "w_new"}],
    "body": [{"out": "dw", "op": "reduce_sum", "in": "g", "dims": [0]}, {"out": "w_new", "op": "sub", "in": ["w", "dw"]}]
  },
  "inputs": [{"name": "g", "dims": [["dp"], []]}],
  "state": [{"name": "w", "next": "w_new"}],
  "body": [
    {"out": "start", "op": "add", "in": ["w", "w"]},
    {"op": "loop", "index": "m", "trip": 2, "carry": [{"init": "start", "arg": "sum", "next": "sum_next", "out": "my_dw"}], "body": [
      {"out": "rows", "op": "slice", "in": "g", "dim": 0, "start": "2*m", "size": 2},
      {"out": "part", "op": "reduce_sum", "in": "rows", "dims": [0]},
      {"out": "sum_next", "op": "add", "in": ["sum", "part"]}
    ]},
    {"out": "dw", "op": "all_reduce", "in": "my_dw", "axes": ["dp"], "reduce": "sum"},
    {"out": "w_new", "op": "sub", "in": ["w", "dw"]}
  ]
})";
  expect_mended(text, "my_dw", "SP0509");
}

TEST(PlanRepairs, AStateThatIsNotWrittenIsAnEdit) {
  std::string name;
  const std::string text = edited(planned(), [&](ir::Document& d) {
    ir::PlanState& state = d.plan.stages.front().state.front();
    state.next = state.value;
    name = state.name;
  });
  expect_mended(text, name);
}

TEST(PlanRepairs, MomentsThatAreWrittenToEachOtherAreExchanged) {
  const std::string text = edited(planned(), [](ir::Document& d) {
    ir::PlanState *first = nullptr, *second = nullptr;
    for (ir::PlanState& state : d.plan.stages.front().state) {
      if (state.binding.role == "exp_avg" && first == nullptr) first = &state;
      if (state.binding.role == "exp_avg_sq" && second == nullptr) second = &state;
    }
    std::swap(first->next, second->next);
  });
  const Report report = verify(read(text));
  ASSERT_FALSE(report.diagnostics.empty());
  std::vector<ir::Edit> edits;
  for (const ir::Diagnostic& d : report.diagnostics) {
    ASSERT_TRUE(d.fix.has_value()) << d.message;
    EXPECT_EQ(d.fix->applicability, ir::Applicability::verified) << d.message;
    edits.insert(edits.end(), d.fix->edits.begin(), d.fix->edits.end());
  }
  EXPECT_EQ(verify(read(apply(text, edits))).verdict, Verdict::equivalent);
}

TEST(PlanRepairs, OneLayerDoesWhatTheOthersDo) {
  const std::string text = edited(planned(), [](ir::Document& d) { become_copy(d, inside(d, "l1.attn.k_rope"), inside(d, "l1.attn.k_rope").inputs[0]); });
  expect_mended(text, "l1.attn.k_rope");
}

TEST(PlanRepairs, TwoValuesOfALayerThatWereExchangedAreOneDefect) {
  expect_mended(edited(planned(), [](ir::Document& d) { std::swap(inside(d, "l1.attn.k").attributes, inside(d, "l1.attn.v").attributes); }), "l1.attn.k");
}

TEST(PlanRepairs, APieceOfABufferIsWhereNothingElseIsTaken) {
  std::string name;
  const std::string text = edited(planned(true, false), [&](ir::Document& d) {
    ir::Program& program = d.plan.stages.front().program;
    std::vector<ir::Instruction*> slices;
    for (ir::Instruction& i : program.body)
      if (i.op == OpCode::slice && program.value(i.outputs[0]).name.find("layernorm.weight") != std::string::npos) slices.push_back(&i);
    slices.at(0)->attributes.set("start", *slices.at(1)->attributes.find("start"));
    name = program.value(slices[0]->outputs[0]).name;
  });
  expect_mended(text, name);
}

}  // namespace
}  // namespace shardproof::verifier

// Microbatches: which samples are read, how gradients add up, what is carried.
#include "mutations/mutate.h"

namespace shardproof::mutations {
namespace {

using ir::OpCode;
using ir::ValueId;

bool is_accumulation(const Subject& s, const Subject::Entry& e) {
  if (!e.in_loop || e.instruction->op != OpCode::add) return false;
  return e.name.find(".grad_sum") != std::string::npos || e.name.starts_with("loss.sum_") ||
         e.name == "loss.tokens_sum" || (s.value_name(e.instruction->inputs[0]).ends_with(".grad"));
}

Edit operand(std::size_t k) {
  return [k](Editor& e, const std::string& at) { e.become_operand(at, k); };
}

void add_twice(Editor& e, const std::string& at) {
  const std::vector<ValueId> in = e.at(at).inputs;
  e.redefine(at, OpCode::add, {in.at(0), in.at(1), in.at(1)});
}

void doubled_carry(Editor& e, const std::string& at) {
  const std::vector<ValueId> in = e.at(at).inputs;
  e.redefine(at, OpCode::add, {in.at(0), in.at(0), in.at(1)});
}

bool is_loop(const Subject&, const Subject::Entry& e) {
  return e.instruction->op == OpCode::loop;
}

ir::Region& region_of(Editor& e, const std::string& loop) {
  return *e.at(loop).region;
}

std::vector<std::string> microbatch_slices(Editor& e, const std::string& loop) {
  std::vector<std::string> names;
  for (const ir::Instruction& i : region_of(e, loop).body)
    if (i.op == OpCode::slice && e.name(i.outputs[0]).starts_with("batch.")) names.push_back(e.name(i.outputs[0]));
  if (names.empty()) throw NotApplicable();
  return names;
}

void last_skipped(Editor& e, const std::string& at) {
  region_of(e, at).trip -= 1;
  e.touch(at);
}
void one_too_many(Editor& e, const std::string& at) {
  region_of(e, at).trip += 1;
  e.touch(at);
}
void first_skipped(Editor& e, const std::string& at) {
  for (const std::string& name : microbatch_slices(e, at)) {
    const auto size = e.at(name).attributes.get<std::int64_t>("size");
    e.set(name, "start", e.at(name).attributes.get<ir::CoordExpr>("start") + ir::constant_expr(size));
  }
  last_skipped(e, at);
}
// All inputs advance by one sample instead of one microbatch.
void stride_of_one(Editor& e, const std::string& at) {
  for (const std::string& name : microbatch_slices(e, at)) {
    if (e.at(name).attributes.get<std::int64_t>("size") == 1) throw NotApplicable();
    e.set(name, "start", ir::variable_expr(region_of(e, at).index));
  }
}
void first_every_time(Editor& e, const std::string& at) {
  for (const std::string& name : microbatch_slices(e, at)) e.set(name, "start", ir::constant_expr(0));
}

void other_order(Editor& e, const std::string& at) {
  const auto size = e.at(at).attributes.get<std::int64_t>("size");
  const auto start = e.at(at).attributes.get<ir::CoordExpr>("start");
  const std::int64_t total = e.type(e.at(at).inputs.at(0)).shape[0];
  e.set(at, "start", ir::constant_expr(total - size) + -1 * start);
}
void next_sample(Editor& e, const std::string& at) {
  e.set(at, "start", e.at(at).attributes.get<ir::CoordExpr>("start") + ir::constant_expr(1));
}

// Two accumulators of one type exchange what they carry.
void crossed_carries(Editor& e, const std::string& at) {
  ir::Region& region = region_of(e, at);
  for (std::size_t i = 0; i < region.carries.size(); ++i) {
    for (std::size_t j = i + 1; j < region.carries.size(); ++j) {
      if (e.type(region.carries[i].next) != e.type(region.carries[j].next)) continue;
      std::swap(region.carries[i].next, region.carries[j].next);
      e.touch(e.name(region.carries[i].result));
      e.touch(e.name(region.carries[j].result));
      return;
    }
  }
  throw NotApplicable();
}

void carry_not_zero(Editor& e, const std::string& at) {
  e.before(at);
  const ir::TensorType type = e.type(e.at(at).inputs.at(0));
  const ValueId one = e.constant(1, type);
  ir::Instruction& loop = e.at(at);
  loop.inputs[0] = one;
  loop.region->carries[0].init = one;
  e.touch(at);
}

}  // namespace

Kinds accumulation_kinds() {
  return {
      at_instructions("accumulation_overwrites", is_accumulation, operand(1)),
      at_instructions("accumulation_forgets", is_accumulation, operand(0)),
      at_instructions("accumulation_twice", is_accumulation, add_twice),
      at_instructions("accumulation_doubles_carry", is_accumulation, doubled_carry),
      at_names("tied_gradient_of_head_only", "*.wte.weight.grad_sum_1", operand(0)),
      at_names("tied_gradient_of_embedding_only", "*.wte.weight.grad_sum", operand(0)),
      at_instructions("microbatch_last_skipped", is_loop, last_skipped),
      at_instructions("microbatch_first_skipped", is_loop, first_skipped),
      at_instructions("microbatch_one_too_many", is_loop, one_too_many),
      at_instructions("microbatch_stride_of_one", is_loop, stride_of_one),
      at_instructions("microbatch_first_every_time", is_loop, first_every_time),
      at_instructions("carries_crossed", is_loop, crossed_carries),
      at_instructions("carry_not_zero", is_loop, carry_not_zero),
      // Of one input alone: all of them in another order is the same sum.
      at_names("microbatch_order_of_one_input", "batch.*", [](Editor& e, const std::string& at) {
                 if (e.at(at).op != OpCode::slice) throw NotApplicable();
                 other_order(e, at);
               }),
      at_names("microbatch_next_sample", "batch.*", [](Editor& e, const std::string& at) {
                 if (e.at(at).op != OpCode::slice) throw NotApplicable();
                 next_sample(e, at);
               }),
      at_names("microbatch_token_count_of_first", "loss.tokens_sum", [](Editor& e, const std::string& at) {
                 e.become(at, e.at(at).inputs.at(0));
               }),
  };
}

}  // namespace shardproof::mutations

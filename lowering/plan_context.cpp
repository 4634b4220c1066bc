// Context parallelism by gathered keys and values (Megatron-LM's cp_comm_type all_gather). Each rank keeps its own
// queries and sees all keys, rank after rank as the gather gives them: an order that nothing undoes, since the causal
// mask compares the positions that go with them. Backward gathers again rather than keeping the whole sequence, and
// adds up what all ranks found for each key.
#include "lowering/plan_blocks.h"

namespace shardproof::lowering {

using ir::DType;

// Chunk r holds positions chunk*r ..; the rank's second one is counted from the end.
PositionsShared positions_shared(PlanWriter& writer) {
  PositionsShared shared;
  const PlanDegrees& degrees = writer.degrees();
  if (degrees.cp == 1) return shared;
  writer.at("positions", "shared values", "positions");
  const std::int64_t chunk = degrees.chunk();
  const ValueId within = writer.builder().typed(OpCode::iota, {DType::i64, {chunk}}, {{"dim", std::int64_t{0}}},
                                                "positions.in_chunk");
  const auto part = [&](const ir::CoordExpr& start, const std::string& name) {
    return writer.add({within, writer.spread(writer.coordinate(start), {chunk})}, name);
  };
  const ValueId head = part(ir::variable_expr("cp", chunk), "head");
  const ValueId tail = part(ir::variable_expr("cp", -chunk, chunk * (2 * degrees.cp - 1)), "tail");
  shared.own = writer.concat({head, tail}, 0, "own");
  shared.gathered = writer.all_gather(shared.own, {"cp"}, 0, "gathered");
  return shared;
}

ValueId gather_context(PlanWriter& writer, ValueId x, const std::string& name) {
  return writer.all_gather(x, {"cp"}, 1, name);
}

ValueId reduce_to_context(PlanWriter& writer, ValueId x, const std::string& name) {
  return writer.reduce_scatter(x, {"cp"}, 1, name);
}

}  // namespace shardproof::lowering

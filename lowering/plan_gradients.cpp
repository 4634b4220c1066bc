#include "lowering/plan_gradients.h"

#include <utility>

namespace shardproof::lowering {

namespace {

// Each replica of a kv head saw its own query heads only.
ValueId sum_replicated_tail(PlanWriter& writer, const PlanParameter& parameter, ValueId gradient) {
  const std::int64_t own = parameter.shape.front() - parameter.tail_rows;
  const ValueId head = writer.slice(gradient, 0, ir::constant_expr(0), own, "grad_q");
  const ValueId tail = writer.slice(gradient, 0, ir::constant_expr(own), parameter.tail_rows, "grad_kv_own");
  return writer.concat({head, writer.all_reduce(tail, {"tpr"}, "sum", "grad_kv")}, 0, "grad_whole");
}

// Sums over tensor parallel ranks that backward left open.
ValueId completed(PlanWriter& writer, const PlanParameter& parameter, ValueId gradient) {
  writer.at(parameter.name, "gradient reduction", parameter.name);
  if (writer.degrees().sequence_parallel && parameter.on_sequence_shard) return writer.tp_all_reduce(gradient, "sum", "grad_whole");
  if (parameter.copies == ParameterCopies::kv_tail) return sum_replicated_tail(writer, parameter, gradient);
  return gradient;
}

}  // namespace

std::int64_t reduced_size(const PlanBucket& bucket, const PlanDegrees& degrees) {
  return degrees.distributed_optimizer ? bucket.size / degrees.data_size() : bucket.size;
}

ValueId reduce_bucket(PlanWriter& writer, const PlanBucket& bucket, const Values& gradients) {
  Values complete;
  for (const PlanBucketMember& member : bucket.members)
    complete.push_back(completed(writer, writer.table().all[member.parameter], gradients[member.parameter]));
  writer.at(bucket.name, "gradient reduction", bucket.name);
  Values pieces;
  std::int64_t end = 0;
  const auto fill_to = [&](std::int64_t offset) {
    if (offset > end) pieces.push_back(writer.constant(0, ir::DType::f32, {offset - end}));
    end = offset;
  };
  for (std::size_t i = 0; i < bucket.members.size(); ++i) {
    const PlanBucketMember& member = bucket.members[i];
    fill_to(member.offset);
    const std::string& name = writer.table().all[member.parameter].name;
    pieces.push_back(writer.reshape(complete[i], {member.size}, name + ".grad_flat"));
    end = member.offset + member.size;
  }
  fill_to(bucket.size);
  const ValueId packed = writer.concat(std::move(pieces), 0, "grad_packed");
  const std::vector<std::string> axes = writer.degrees().data_axes();
  return writer.degrees().distributed_optimizer ? writer.reduce_scatter(packed, axes, 0, "grad_sum") : writer.all_reduce(packed, axes, "sum", "grad_sum");
}

}  // namespace shardproof::lowering

#include "lowering/plan_buckets.h"

#include <numeric>
#include <utility>

#include "ir/rational.h"

namespace shardproof::lowering {

namespace {

constexpr std::int64_t parameter_alignment = 64;  // elements
constexpr std::int64_t bucket_alignment = 128;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return ir::checked_mul(ir::floor_div(ir::checked_add(value, multiple - 1), multiple), multiple);
}

void append_run(std::vector<PlanRun>& runs, const PlanRun& run) {
  if (!runs.empty() && runs.back().decay == run.decay && runs.back().copies == run.copies) {
    runs.back().size += run.size;
  } else if (run.size > 0) {
    runs.push_back(run);
  }
}

}  // namespace

std::vector<PlanBucket> plan_buckets(const ParameterTable& table, const PlanDegrees& degrees, const std::string& prefix) {
  const bool sharded = degrees.distributed_optimizer;
  const std::int64_t start_at = sharded ? parameter_alignment : 1;
  const std::int64_t end_at = sharded ? std::lcm(degrees.data_size(), bucket_alignment) : 1;
  std::vector<PlanBucket> buckets;
  PlanBucket open;
  std::int64_t end = 0;
  const auto close = [&] {
    open.name = prefix + "bucket" + std::to_string(buckets.size());
    open.size = round_up(end, end_at);
    buckets.push_back(std::move(open));
    open = PlanBucket{};
    end = 0;
  };
  for (std::size_t i = table.all.size(); i-- > 0;) {
    const PlanParameter& parameter = table.all[i];
    if (!open.members.empty() && (open.chunk != parameter.chunk || open.replicas != parameter.replicas)) close();
    open.chunk = parameter.chunk;
    open.replicas = parameter.replicas;
    open.is_first_replica = parameter.is_first_replica;
    const std::int64_t size = ir::element_count(parameter.shape);
    const std::int64_t start = round_up(end, start_at);
    open.members.push_back({i, start, size});
    end = ir::checked_add(start, size);
    if (end >= degrees.bucket_size) close();
  }
  if (!open.members.empty()) close();
  return buckets;
}

ir::FlatBuffer flat_buffer(const PlanBucket& bucket, const ParameterTable& table) {
  ir::FlatBuffer buffer;
  buffer.name = bucket.name;
  buffer.size = bucket.size;
  for (const PlanBucketMember& member : bucket.members) {
    const ir::Binding& binding = table.all[member.parameter].binding;
    ir::BufferMember entry;
    entry.param = binding.of;
    entry.placement = binding.placement;
    entry.fused = binding.fused;
    entry.fuse_axis = binding.fuse_axis;
    entry.offset = member.offset;
    buffer.members.push_back(std::move(entry));
  }
  return buffer;
}

std::vector<PlanRun> bucket_runs(const PlanBucket& bucket, const ParameterTable& table) {
  std::vector<PlanRun> runs;
  std::int64_t covered = 0;
  for (const PlanBucketMember& member : bucket.members) {
    if (member.offset > covered) runs.back().size += member.offset - covered;
    const PlanParameter& parameter = table.all[member.parameter];
    if (parameter.copies == ParameterCopies::kv_tail) {
      const std::int64_t tail = parameter.tail_rows * (member.size / parameter.shape.front());
      append_run(runs, {member.size - tail, parameter.decay, ParameterCopies::none});
      append_run(runs, {tail, parameter.decay, ParameterCopies::kv_tail});
    } else {
      append_run(runs, {member.size, parameter.decay, parameter.copies});
    }
    covered = member.offset + member.size;
  }
  runs.back().size += bucket.size - covered;
  return runs;
}

}  // namespace shardproof::lowering

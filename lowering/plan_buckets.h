// Gradient buckets as Megatron-LM's distributed optimizer lays them out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "lowering/plan_degrees.h"
#include "lowering/plan_parameters.h"

namespace shardproof::lowering {

struct PlanBucketMember {
  std::size_t parameter = 0;
  std::int64_t offset = 0;
  std::int64_t size = 0;  // elements of the local parameter
};

struct PlanBucket {
  std::string name;
  std::vector<PlanBucketMember> members;  // by offset
  std::int64_t size = 0;                  // with padding
  std::string replicas;                   // of its parameters
  bool is_first_replica = true;
  std::size_t chunk = 0;                  // of the rank's chunks
};

// Parameters in reverse order; a bucket is closed once it holds `bucket_size` elements, or before a parameter that is of another
// chunk of the model or has copies elsewhere. With the distributed optimizer
// each parameter starts at a multiple of 64 elements and the end is padded to a multiple of lcm(ranks, 128), so that it
// can be cut evenly over data parallel ranks.
std::vector<PlanBucket> plan_buckets(const ParameterTable& table, const PlanDegrees& degrees, const std::string& prefix);

ir::FlatBuffer flat_buffer(const PlanBucket& bucket, const ParameterTable& table);

// Consecutive elements of a bucket that the optimizer treats alike. Gaps and padding belong to the run before them:
// their gradient is zero and no one reads them.
struct PlanRun {
  std::int64_t size = 0;
  bool decay = false;
  ParameterCopies copies = ParameterCopies::none;
};
std::vector<PlanRun> bucket_runs(const PlanBucket& bucket, const ParameterTable& table);

}  // namespace shardproof::lowering

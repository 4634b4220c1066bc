// From the gradients that backward leaves on a rank to the sums that the optimizer reads: completed over tensor parallel ranks,
// packed in buckets, summed over the ranks that see other tokens.
#pragma once

#include "lowering/plan_buckets.h"
#include "lowering/plan_writer.h"

namespace shardproof::lowering {

// Elements of a bucket that a rank holds after its reduction.
std::int64_t reduced_size(const PlanBucket& bucket, const PlanDegrees& degrees);

// `gradients`: f32, per parameter of the rank; only those of the bucket are read.
ValueId reduce_bucket(PlanWriter& writer, const PlanBucket& bucket, const Values& gradients);

}  // namespace shardproof::lowering

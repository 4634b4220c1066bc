#include "lowering/plan_buckets.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "plan_models.h"

namespace shardproof::lowering {
namespace {

using testing::degrees;
using testing::small_gpt2;
using testing::small_llama;

struct Layout {
  PlanDegrees degrees;
  ParameterTable table;
  std::vector<PlanBucket> buckets;
};

Layout layout(const ModelConfig& model, const ParallelConfig& parallel) {
  Layout result;
  result.degrees = plan_degrees(model, parallel);
  result.table = plan_parameters(model, result.degrees, pipeline_layout(model, parallel), 0);
  result.buckets = plan_buckets(result.table, result.degrees, "");
  return result;
}

ParallelConfig with_buckets(std::int64_t tp, std::int64_t dp, bool sharded, std::int64_t size) {
  ParallelConfig parallel = degrees(tp, dp, true, sharded);
  parallel.bucket_size = size;
  return parallel;
}

TEST(PlanBuckets, EveryParameterOnceInReverseOrder) {
  for (const bool sharded : {false, true}) {
    const Layout l = layout(small_gpt2(), with_buckets(2, 3, sharded, 1000));
    EXPECT_GT(l.buckets.size(), 3U);
    std::vector<std::size_t> order;
    for (const PlanBucket& bucket : l.buckets) {
      for (const PlanBucketMember& member : bucket.members) order.push_back(member.parameter);
    }
    std::vector<std::size_t> expected(l.table.all.size());
    std::iota(expected.rbegin(), expected.rend(), std::size_t{0});
    EXPECT_EQ(order, expected);
  }
}

TEST(PlanBuckets, ShardedOnesAreAlignedAndDivideOverRanks) {
  const Layout l = layout(small_gpt2(), with_buckets(2, 3, true, 1000));
  for (const PlanBucket& bucket : l.buckets) {
    EXPECT_EQ(bucket.size % std::lcm(3, 128), 0);
    std::int64_t end = 0;
    for (const PlanBucketMember& member : bucket.members) {
      EXPECT_EQ(member.offset % 64, 0);
      EXPECT_GE(member.offset, end);
      EXPECT_LT(member.offset - end, 64);
      EXPECT_EQ(member.size, ir::element_count(l.table.all[member.parameter].shape));
      end = member.offset + member.size;
    }
    EXPECT_GE(bucket.size, end);
    EXPECT_LT(bucket.size - end, std::lcm(3, 128));
  }
}

TEST(PlanBuckets, UnshardedOnesHaveNoGaps) {
  const Layout l = layout(small_llama(), with_buckets(2, 3, false, 1000));
  for (const PlanBucket& bucket : l.buckets) {
    std::int64_t end = 0;
    for (const PlanBucketMember& member : bucket.members) {
      EXPECT_EQ(member.offset, end);
      end += member.size;
    }
    EXPECT_EQ(bucket.size, end);
  }
}

TEST(PlanBuckets, ABucketIsClosedByTheParameterThatFillsIt) {
  const Layout l = layout(small_llama(), with_buckets(2, 2, true, 1000));
  for (std::size_t i = 0; i + 1 < l.buckets.size(); ++i) {
    const PlanBucketMember& last = l.buckets[i].members.back();
    EXPECT_GE(last.offset + last.size, 1000);
    EXPECT_LT(last.offset, 1000 + 64);
  }
  EXPECT_EQ(layout(small_llama(), with_buckets(2, 2, true, 1)).buckets.size(), l.table.all.size());
  EXPECT_EQ(layout(small_llama(), degrees(2, 2)).buckets.size(), 1U);
}

TEST(PlanBuckets, RunsCoverTheBucketAndFollowTheMembers) {
  // Replicated kv heads: the tail of qkv is held twice.
  const Layout l = layout(small_llama(1), degrees(8, 2));
  ASSERT_EQ(l.buckets.size(), 1U);
  const std::vector<PlanRun> runs = bucket_runs(l.buckets[0], l.table);
  std::int64_t covered = 0;
  std::size_t tails = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_GT(runs[i].size, 0);
    if (i > 0) {
      EXPECT_TRUE(runs[i].decay != runs[i - 1].decay || runs[i].copies != runs[i - 1].copies);
    }
    covered += runs[i].size;
    if (runs[i].copies == ParameterCopies::kv_tail) {
      ++tails;
      EXPECT_EQ(runs[i].size, 2 * 4 * 32);  // key and value head, rows of `hidden`
      EXPECT_TRUE(runs[i].decay);
    }
    if (runs[i].copies == ParameterCopies::all) {
      EXPECT_FALSE(runs[i].decay);  // norms
    }
  }
  EXPECT_EQ(covered, l.buckets[0].size);
  EXPECT_EQ(tails, 1U);
}

TEST(PlanBuckets, TheBufferNamesEveryReferenceParameterOnce) {
  const Layout l = layout(small_llama(), with_buckets(2, 2, true, 1000));
  std::multiset<std::string> names;
  for (const PlanBucket& bucket : l.buckets) {
    const ir::FlatBuffer buffer = flat_buffer(bucket, l.table);
    EXPECT_EQ(buffer.size, bucket.size);
    for (const ir::BufferMember& member : buffer.members) {
      EXPECT_NE(member.param.empty(), member.fused.empty());
      if (!member.param.empty()) names.insert(member.param);
      for (const ir::FusedPart& part : member.fused) names.insert(part.of);
    }
  }
  EXPECT_EQ(names.size(), 3U + 2U * 9U);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

}  // namespace
}  // namespace shardproof::lowering

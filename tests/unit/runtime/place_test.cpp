#include "runtime/parity.h"

#include "tests/unit/runtime/reference_loops.h"

namespace shardproof::runtime::testing {
namespace {

using ir::Digit;
using ir::DimLayout;
using ir::DType;

Digit axis(std::string name, std::int64_t size, std::int64_t pre = 1) {
  return {std::move(name), pre, size};
}
Digit local(std::int64_t size) {
  return {"", 1, size};
}
DimLayout dim(std::vector<Digit> digits) {
  return {std::move(digits), ir::Permutation::none, 0, {}};
}

ir::Plan plan_on(std::vector<ir::MeshAxis> axes) {
  ir::Plan plan;
  plan.meshes.push_back({"main", std::move(axes), {}, {}});
  return plan;
}

// Element i is 100 + i: a value tells which element it is.
Tensor numbered(const ir::Shape& shape) {
  Tensor tensor = zeros({DType::f32, shape});
  for (std::size_t i = 0; i < tensor.data.size(); ++i) tensor.data[i] = 100.0 + static_cast<double>(i);
  return tensor;
}

ReferenceTensors reference_of(const std::map<std::string, Tensor>& tensors) {
  ReferenceTensors reference;
  reference.by_name = tensors;
  for (const auto& [name, tensor] : tensors) reference.by_role[{"param", name}] = name;
  return reference;
}

ir::Binding bound(std::string of, std::vector<DimLayout> dims) {
  ir::Binding binding;
  binding.of = std::move(of);
  binding.placement.dims = std::move(dims);
  return binding;
}

std::vector<double> plus_100(std::vector<double> positions) {
  for (double& p : positions) p += 100.0;
  return positions;
}

// Places, checks that the result compares equal, that every element is covered, and that changing any one element
// that holds a reference element is noticed.
RankTensors place_and_check(const ir::Plan& plan, const ReferenceTensors& reference, const ir::Binding& binding,
                            const ir::Shape& shape) {
  std::mt19937_64 random(5);
  const RankTensors ranks = place(plan, reference, binding, {DType::f32, shape}, random);
  const Comparison same = compare(plan, reference, binding, ranks);
  EXPECT_FALSE(same.first) << describe(plan, *same.first);
  for (const auto& [name, covered] : same.covered) {
    for (const bool element : covered) EXPECT_TRUE(element) << name;
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const LocalMap map = map_local(plan, reference, binding, shape, static_cast<std::int64_t>(rank));
    for (std::size_t i = 0; i < map.elements.size(); ++i) {
      RankTensors wrong = ranks;
      wrong[rank].data[i] += 0.25;
      const bool matters = map.exists && map.elements[i].kind != LocalElement::Kind::pad_any;
      EXPECT_EQ(compare(plan, reference, binding, wrong).first.has_value(), matters)
          << "rank " << rank << " element " << i;
    }
  }
  return ranks;
}

TEST(Place, ShardAndReplicate) {
  const ir::Plan plan = plan_on({{"dp", 2, {}}, {"tp", 3, {}}});
  const ReferenceTensors reference = reference_of({{"w", numbered({6, 2})}});
  const RankTensors ranks =
      place_and_check(plan, reference, bound("w", {dim({axis("tp", 3), local(2)}), dim({local(2)})}), {2, 2});
  for (const std::size_t dp : {0U, 1U}) {
    EXPECT_EQ(ranks[3 * dp + 0].data, plus_100({0, 1, 2, 3}));
    EXPECT_EQ(ranks[3 * dp + 2].data, plus_100({8, 9, 10, 11}));
  }
}

TEST(Place, LocalDigitAboveTheAxisIsAStridedShard) {
  // Fused gate-up of 2 x 6 rows on tp 3: rank 1 holds rows 2, 3 of each half.
  const ir::Plan plan = plan_on({{"tp", 3, {}}});
  const ReferenceTensors reference = reference_of({{"w", numbered({12})}});
  const RankTensors ranks =
      place_and_check(plan, reference, bound("w", {dim({local(2), axis("tp", 3), local(2)})}), {4});
  EXPECT_EQ(ranks[1].data, plus_100({2, 3, 8, 9}));
}

TEST(Place, TwoAxesOnOneDimension) {
  const ir::Plan plan = plan_on({{"dp", 2, {}}, {"tp", 2, {}}});
  const ReferenceTensors reference = reference_of({{"w", numbered({8})}});
  const RankTensors ranks =
      place_and_check(plan, reference, bound("w", {dim({axis("tp", 2), axis("dp", 2), local(2)})}), {2});
  EXPECT_EQ(ranks[1].data, plus_100({4, 5}));  // dp 0, tp 1
  EXPECT_EQ(ranks[2].data, plus_100({2, 3}));  // dp 1, tp 0
}

TEST(Place, SubAxes) {
  // 2 key heads of 3 on tp 4: the major half of tp selects the head, the minor half replicates.
  const ir::Plan plan = plan_on({{"tp", 4, {}}});
  const ReferenceTensors reference = reference_of({{"k", numbered({6})}});
  const RankTensors major = place_and_check(plan, reference, bound("k", {dim({axis("tp", 2), local(3)})}), {3});
  EXPECT_EQ(major[0].data, plus_100({0, 1, 2}));
  EXPECT_EQ(major[1].data, plus_100({0, 1, 2}));
  EXPECT_EQ(major[2].data, plus_100({3, 4, 5}));
  const RankTensors minor = place_and_check(plan, reference, bound("k", {dim({axis("tp", 2, 2), local(3)})}), {3});
  EXPECT_EQ(minor[0].data, plus_100({0, 1, 2}));
  EXPECT_EQ(minor[1].data, plus_100({3, 4, 5}));
  EXPECT_EQ(minor[2].data, plus_100({0, 1, 2}));
}

TEST(Place, Zigzag) {
  // 4 chunks of 3 on cp 2: rank 0 has chunks 0 and 3, rank 1 has 1 and 2.
  const ir::Plan plan = plan_on({{"cp", 2, {}}});
  const ReferenceTensors reference = reference_of({{"x", numbered({12})}});
  DimLayout layout = dim({axis("cp", 2), local(2), local(3)});
  layout.permutation = ir::Permutation::zigzag;
  const RankTensors ranks = place_and_check(plan, reference, bound("x", {layout}), {6});
  EXPECT_EQ(ranks[0].data, plus_100({0, 1, 2, 9, 10, 11}));
  EXPECT_EQ(ranks[1].data, plus_100({3, 4, 5, 6, 7, 8}));
}

TEST(Place, PaddingIsGarbageOrZero) {
  const ir::Plan plan = plan_on({{"tp", 2, {}}});
  const ReferenceTensors reference = reference_of({{"e", numbered({5})}});
  DimLayout layout = dim({axis("tp", 2), local(4)});
  layout.padded_extent = 8;
  ir::Binding binding = bound("e", {layout});
  const RankTensors any = place_and_check(plan, reference, binding, {4});
  EXPECT_EQ(any[1].data[0], 104.0);
  EXPECT_NE(any[1].data[1], 0.0);
  binding.placement.pad = ir::PadValue::zero;
  const RankTensors zero = place_and_check(plan, reference, binding, {4});
  EXPECT_EQ(zero[1].data, (std::vector<double>{104, 0, 0, 0}));
}

TEST(Place, RaggedShards) {
  const ir::Plan plan = plan_on({{"ep", 3, {}}});
  const ReferenceTensors reference = reference_of({{"x", numbered({6})}});
  DimLayout layout = dim({axis("ep", 3), local(3)});
  layout.offsets = {0, 1, 4, 6};
  ir::Binding binding = bound("x", {layout});
  binding.placement.pad = ir::PadValue::zero;
  const RankTensors ranks = place_and_check(plan, reference, binding, {3});
  EXPECT_EQ(ranks[0].data, (std::vector<double>{100, 0, 0}));
  EXPECT_EQ(ranks[1].data, (std::vector<double>{101, 102, 103}));
  EXPECT_EQ(ranks[2].data, (std::vector<double>{104, 105, 0}));
}

TEST(Place, PartialSummandsReduceToTheValue) {
  const ir::Plan plan = plan_on({{"dp", 2, {}}, {"tp", 3, {}}});
  const ReferenceTensors reference = reference_of({{"g", numbered({4})}});
  for (const ir::ReduceKind kind :
       {ir::ReduceKind::sum, ir::ReduceKind::avg, ir::ReduceKind::max, ir::ReduceKind::min, ir::ReduceKind::prod}) {
    ir::Binding binding = bound("g", {dim({axis("dp", 2), local(2)})});
    binding.placement.partial = {{"tp", kind}};
    std::mt19937_64 random(6);
    const RankTensors ranks = place(plan, reference, binding, {DType::f32, {2}}, random);
    EXPECT_FALSE(compare(plan, reference, binding, ranks).first) << ir::reduce_name(kind);
    EXPECT_NE(ranks[0].data, ranks[1].data) << "summands of all ranks are alike: " << ir::reduce_name(kind);
    RankTensors wrong = ranks;
    wrong[4].data[1] *= 2.0;
    wrong[4].data[1] += kind == ir::ReduceKind::min ? -1000.0 : 1000.0;
    EXPECT_TRUE(compare(plan, reference, binding, wrong).first) << ir::reduce_name(kind);
  }
}

TEST(Place, OwnedTensorsDoNotExistElsewhere) {
  const ir::Plan plan = plan_on({{"pp", 2, {}}, {"tp", 2, {}}});
  const ReferenceTensors reference = reference_of({{"w", numbered({4})}});
  ir::Binding binding = bound("w", {dim({axis("tp", 2), local(2)})});
  binding.placement.owned = {{"pp", {1}}};
  const RankTensors ranks = place_and_check(plan, reference, binding, {2});
  EXPECT_NE(ranks[0].data, plus_100({0, 1}));
  EXPECT_EQ(ranks[2].data, plus_100({0, 1}));
}

// Megatron QKV with 4 query heads, 2 key heads of 3 features, hidden 2, on tp 2: each rank has one group of 2 query
// heads, one key head and one value head, rows in that order.
TEST(Place, FusedQkvInterleavesGroups) {
  const ir::Plan plan = plan_on({{"tp", 2, {}}});
  Tensor q = numbered({12, 2});
  Tensor k = numbered({6, 2});
  Tensor v = numbered({6, 2});
  for (double& e : k.data) e += 1000;
  for (double& e : v.data) e += 2000;
  const ReferenceTensors reference = reference_of({{"q", q}, {"k", k}, {"v", v}});
  const auto part = [&](std::string of, std::int64_t heads) {
    ir::FusedPart p;
    p.of = std::move(of);
    p.placement.dims = {dim({axis("tp", 2), local(1), local(heads), local(3)}), dim({local(2)})};
    return p;
  };
  ir::Binding binding;
  binding.fused = {part("q", 2), part("k", 1), part("v", 1)};
  binding.fuse_axis = 1;
  const RankTensors ranks = place_and_check(plan, reference, binding, {12, 2});
  EXPECT_EQ(ranks[1].data[0], at(q, {6, 0}));
  EXPECT_EQ(at(ranks[1], {5, 1}), at(q, {11, 1}));
  EXPECT_EQ(at(ranks[1], {6, 0}), at(k, {3, 0}));
  EXPECT_EQ(at(ranks[1], {11, 1}), at(v, {5, 1}));
}

TEST(Place, FusedGroupsAreConcatenatedWithinEachGroup) {
  // Two local groups: q0 q1 k0 v0 | q2 q3 k1 v1 rather than all q, all k, all v.
  const ir::Plan plan = plan_on({{"tp", 1, {}}});
  Tensor k = numbered({2});
  for (double& e : k.data) e += 1000;
  const ReferenceTensors reference = reference_of({{"q", numbered({4})}, {"k", k}});
  const auto part = [&](std::string of, std::int64_t heads) {
    ir::FusedPart p;
    p.of = std::move(of);
    p.placement.dims = {dim({axis("tp", 1), local(2), local(heads)})};
    return p;
  };
  ir::Binding binding;
  binding.fused = {part("q", 2), part("k", 1)};
  binding.fuse_axis = 1;
  const RankTensors ranks = place_and_check(plan, reference, binding, {6});
  EXPECT_EQ(ranks[0].data, plus_100({0, 1, 1000, 2, 3, 1001}));
  binding.fuse_axis = 0;
  EXPECT_THROW(place_and_check(plan, reference, binding, {6}), ExecutionError);  // extents differ beside the axis
}

// A bucket of two tp-sharded members with a gap and a tail, cut in two by dp; the cut goes through a member.
TEST(Place, FlatBufferWithGapsCutByDataParallelism) {
  ir::Plan plan = plan_on({{"dp", 2, {}}, {"tp", 2, {}}});
  ir::FlatBuffer buffer;
  buffer.name = "bucket";
  buffer.size = 12;
  ir::BufferMember first;
  first.param = "a";
  first.placement.dims = {dim({axis("tp", 2), local(2)}), dim({local(2)})};
  first.offset = 0;
  ir::BufferMember second;
  second.param = "b";
  second.placement.dims = {dim({local(3)})};
  second.offset = 5;
  buffer.members = {first, second};
  plan.buffers.push_back(buffer);
  Tensor moment_a = numbered({4, 2});
  Tensor moment_b = numbered({3});
  for (double& e : moment_b.data) e += 1000;
  ReferenceTensors reference = reference_of({{"a.exp_avg", moment_a}, {"b.exp_avg", moment_b}});
  reference.by_role = {{{"exp_avg", "a"}, "a.exp_avg"}, {{"exp_avg", "b"}, "b.exp_avg"}};
  ir::Binding binding;
  binding.buffer = "bucket";
  binding.role = "exp_avg";
  binding.placement.dims = {dim({axis("dp", 2), local(6)})};
  binding.placement.pad = ir::PadValue::zero;
  const RankTensors ranks = place_and_check(plan, reference, binding, {6});
  EXPECT_EQ(ranks[0].data, (std::vector<double>{100, 101, 102, 103, 0, 1100}));  // dp 0, tp 0
  EXPECT_EQ(ranks[1].data, (std::vector<double>{104, 105, 106, 107, 0, 1100}));  // dp 0, tp 1
  EXPECT_EQ(ranks[2].data, (std::vector<double>{1101, 1102, 0, 0, 0, 0}));       // dp 1, tp 0
  binding.role = "exp_avg_sq";
  std::mt19937_64 random(1);
  EXPECT_THROW(place(plan, reference, binding, {DType::f32, {6}}, random), ExecutionError);
}

TEST(Place, OverlappingMembersAreRefused) {
  ir::Plan plan = plan_on({{"dp", 1, {}}});
  ir::BufferMember member;
  member.param = "a";
  member.placement.dims = {dim({local(3)})};
  ir::BufferMember late = member;
  late.offset = 2;
  plan.buffers.push_back({"bucket", 8, {member, late}, {}});
  const ReferenceTensors reference = reference_of({{"a", numbered({3})}});
  ir::Binding binding;
  binding.buffer = "bucket";
  binding.placement.dims = {dim({local(8)})};
  std::mt19937_64 random(1);
  EXPECT_THROW(place(plan, reference, binding, {DType::f32, {8}}, random), ExecutionError);
}

TEST(Place, ShapesThatDoNotFitAreRefused) {
  const ir::Plan plan = plan_on({{"tp", 2, {}}});
  const ReferenceTensors reference = reference_of({{"w", numbered({4, 2})}});
  std::mt19937_64 random(1);
  const auto attempt = [&](std::vector<DimLayout> dims, ir::Shape shape) {
    static_cast<void>(place(plan, reference, bound("w", std::move(dims)), {DType::f32, std::move(shape)}, random));
  };
  EXPECT_NO_THROW(attempt({dim({axis("tp", 2), local(2)}), dim({local(2)})}, {2, 2}));
  EXPECT_THROW(attempt({dim({axis("tp", 2), local(2)}), dim({local(2)})}, {4}), ExecutionError);
  EXPECT_THROW(attempt({dim({axis("tp", 2), local(3)}), dim({local(2)})}, {3, 2}), ExecutionError);
  EXPECT_THROW(attempt({dim({local(4)})}, {4}), ExecutionError);
  EXPECT_THROW(attempt({dim({axis("cp", 2), local(2)}), dim({local(2)})}, {2, 2}), ExecutionError);
}

TEST(Compare, NotANumberIsAMismatch) {
  const ir::Plan plan = plan_on({{"tp", 2, {}}});
  const ReferenceTensors reference = reference_of({{"w", numbered({4})}});
  const ir::Binding binding = bound("w", {dim({axis("tp", 2), local(2)})});
  std::mt19937_64 random(1);
  RankTensors ranks = place(plan, reference, binding, {DType::f32, {2}}, random);
  ranks[1].data[0] = std::nan("");
  const Comparison comparison = compare(plan, reference, binding, ranks);
  ASSERT_TRUE(comparison.first);
  EXPECT_EQ(comparison.first->rank, 1);
  EXPECT_EQ(comparison.first->local_index, "[0]");
  EXPECT_EQ(comparison.first->tensor, "w");
  EXPECT_EQ(comparison.first->reference_index, "[2]");
  EXPECT_EQ(comparison.first->expected, 102.0);
  EXPECT_TRUE(std::isinf(comparison.max_abs_error));
}

}  // namespace
}  // namespace shardproof::runtime::testing

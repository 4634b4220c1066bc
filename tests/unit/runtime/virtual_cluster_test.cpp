#include "runtime/virtual_cluster.h"

#include <algorithm>
#include <set>

#include "tests/unit/runtime/reference_loops.h"

namespace shardproof::runtime::testing {
namespace {

using ir::DType;
using ir::OpCode;
using Axes = std::vector<std::string>;

// dp is major: rank = 3 dp + tp.
ir::Mesh two_by_three() {
  return {"main", {{"dp", 2, {}}, {"tp", 3, {}}}, {}, {}};
}

// The same world with ranks numbered against the positions.
ir::Mesh renumbered() {
  return {"main", {{"dp", 2, {}}, {"tp", 3, {}}}, {5, 3, 1, 4, 2, 0}, {}};
}

std::int64_t size_of(const ir::Mesh& mesh, const std::string& axis) {
  const auto position = mesh.find_axis(axis);
  return position ? mesh.axes[*position].size : 0;
}

RankTensors random_ranks(const ir::Mesh& mesh, const ir::Shape& shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  RankTensors tensors;
  for (std::int64_t rank = 0; rank < mesh.size(); ++rank) tensors.push_back(random_normal(random, {DType::f32, shape}));
  return tensors;
}

RankTensors run(const ir::Mesh& mesh, OpCode op, const Attrs& attrs, const RankTensors& operand) {
  const OneOp built =
      one_op(op, {operand.front().type}, attrs, {}, [&](const std::string& axis) { return size_of(mesh, axis); });
  return run_cluster({&mesh, 1}, built.program, {{built.inputs.front(), operand}}, built.results).front();
}

// Members of a rank's group in group order, by counting through the named axes: no code shared with groups_of.
std::vector<std::int64_t> group(const ir::Mesh& mesh, std::int64_t rank, const Axes& axes) {
  std::vector<std::int64_t> members;
  std::int64_t count = 1;
  for (const std::string& axis : axes) count *= size_of(mesh, axis);
  for (std::int64_t position = 0; position < count; ++position) {
    ir::Coordinate coordinate = ir::coordinate_of(mesh, rank);
    std::int64_t rest = position;
    for (std::size_t i = axes.size(); i-- > 0;) {
      coordinate[*mesh.find_axis(axes[i])] = rest % size_of(mesh, axes[i]);
      rest /= size_of(mesh, axes[i]);
    }
    members.push_back(ir::rank_of(mesh, coordinate));
  }
  return members;
}

std::int64_t position_in(const std::vector<std::int64_t>& members, std::int64_t rank) {
  return std::find(members.begin(), members.end(), rank) - members.begin();
}

struct Setting {
  std::string label;
  ir::Mesh mesh;
  Axes axes;
};

class Collective : public ::testing::TestWithParam<Setting> {
 protected:
  using Expected =
      std::function<double(const std::vector<std::int64_t>& members, std::int64_t position, const Index& index)>;

  void check(OpCode op, Attrs attrs, const ir::Shape& shape, const RankTensors& operand, const Expected& expected) {
    const Setting& s = GetParam();
    attrs.emplace_back("axes", s.axes);
    const RankTensors found = run(s.mesh, op, attrs, operand);
    for (std::int64_t rank = 0; rank < s.mesh.size(); ++rank) {
      const auto members = group(s.mesh, rank, s.axes);
      const std::int64_t position = position_in(members, rank);
      SCOPED_TRACE("rank " + std::to_string(rank));
      expect_near(found[static_cast<std::size_t>(rank)],
                  make(DType::f32, shape, [&](const Index& i) { return expected(members, position, i); }));
    }
  }

  std::int64_t n() const {
    std::int64_t count = 1;
    for (const std::string& axis : GetParam().axes) count *= size_of(GetParam().mesh, axis);
    return count;
  }
};

TEST_P(Collective, AllReduceOfEveryKind) {
  const RankTensors x = random_ranks(GetParam().mesh, {2, 5}, 1);
  const auto over = [&](const std::vector<std::int64_t>& members, const Index& i, double start,
                        double (*f)(double, double)) {
    for (const std::int64_t m : members) start = f(start, at(x[static_cast<std::size_t>(m)], i));
    return start;
  };
  const auto all_reduce = [&](const char* name, double start, double (*f)(double, double), double factor) {
    check(OpCode::all_reduce, {{"reduce", std::string(name)}}, {2, 5}, x,
          [&](const auto& members, std::int64_t, const Index& i) { return factor * over(members, i, start, f); });
  };
  all_reduce(
      "sum", 0, [](double a, double b) { return a + b; }, 1);
  all_reduce(
      "avg", 0, [](double a, double b) { return a + b; }, 1.0 / static_cast<double>(n()));
  all_reduce(
      "prod", 1, [](double a, double b) { return a * b; }, 1);
  all_reduce(
      "max", -1e9, [](double a, double b) { return std::max(a, b); }, 1);
  all_reduce(
      "min", 1e9, [](double a, double b) { return std::min(a, b); }, 1);
}

TEST_P(Collective, AllGather) {
  const RankTensors x = random_ranks(GetParam().mesh, {2, 5}, 2);
  check(OpCode::all_gather, {{"dim", std::int64_t{1}}}, {2, 5 * n()}, x,
        [&](const auto& members, std::int64_t, const Index& i) {
          return at(x[static_cast<std::size_t>(members[static_cast<std::size_t>(i[1] / 5)])], {i[0], i[1] % 5});
        });
}

TEST_P(Collective, ReduceScatter) {
  const RankTensors x = random_ranks(GetParam().mesh, {2 * n(), 3}, 3);
  check(OpCode::reduce_scatter, {{"dim", std::int64_t{0}}, {"reduce", std::string("sum")}}, {2, 3}, x,
        [&](const auto& members, std::int64_t position, const Index& i) {
          double sum = 0;
          for (const std::int64_t m : members) sum += at(x[static_cast<std::size_t>(m)], {2 * position + i[0], i[1]});
          return sum;
        });
}

TEST_P(Collective, AllToAll) {
  const RankTensors x = random_ranks(GetParam().mesh, {2 * n(), 3}, 4);
  check(OpCode::all_to_all, {{"split_dim", std::int64_t{0}}, {"concat_dim", std::int64_t{1}}}, {2, 3 * n()}, x,
        [&](const auto& members, std::int64_t position, const Index& i) {
          const auto sender = static_cast<std::size_t>(members[static_cast<std::size_t>(i[1] / 3)]);
          return at(x[sender], {2 * position + i[0], i[1] % 3});
        });
}

TEST_P(Collective, BroadcastFromARoot) {
  const RankTensors x = random_ranks(GetParam().mesh, {4}, 5);
  check(OpCode::broadcast_from, {{"root", std::int64_t{1}}}, {4}, x,
        [&](const auto& members, std::int64_t, const Index& i) {
          return at(x[static_cast<std::size_t>(members[1])], i);
        });
}

TEST_P(Collective, PermuteShiftsPositions) {
  const RankTensors x = random_ranks(GetParam().mesh, {4}, 6);
  for (const std::int64_t shift : {1, -1, 2}) {
    check(OpCode::permute, {{"shift", shift}}, {4}, x, [&](const auto& members, std::int64_t position, const Index& i) {
      const std::int64_t from = ((position - shift) % n() + n()) % n();
      return at(x[static_cast<std::size_t>(members[static_cast<std::size_t>(from)])], i);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, Collective,
                         ::testing::Values(Setting{"minor", two_by_three(), {"tp"}},
                                           Setting{"major", two_by_three(), {"dp"}},
                                           Setting{"both", two_by_three(), {"dp", "tp"}},
                                           Setting{"both_swapped", two_by_three(), {"tp", "dp"}},
                                           Setting{"renumbered", renumbered(), {"tp"}},
                                           Setting{"renumbered_both", renumbered(), {"tp", "dp"}}),
                         [](const auto& test) { return test.param.label; });

TEST(Groups, OrderOfTheNamedAxesIsTheOrderWithinTheGroup) {
  const ir::Mesh mesh = two_by_three();
  EXPECT_EQ(groups_of({&mesh, 1}, Axes{"tp"}), (Groups{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(groups_of({&mesh, 1}, Axes{"dp"}), (Groups{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(groups_of({&mesh, 1}, Axes{"dp", "tp"}), (Groups{{0, 1, 2, 3, 4, 5}}));
  EXPECT_EQ(groups_of({&mesh, 1}, Axes{"tp", "dp"}), (Groups{{0, 3, 1, 4, 2, 5}}));
  EXPECT_THROW(groups_of({&mesh, 1}, Axes{"cp"}), ExecutionError);
  EXPECT_THROW(groups_of({&mesh, 1}, Axes{"tp", "tp"}), ExecutionError);
}

TEST(Groups, MeshesThatDisagreeAreRefused) {
  const std::vector<ir::Mesh> meshes = {{"a", {{"dp", 2, {}}, {"tp", 2, {}}}, {}, {}},
                                        {"b", {{"tp", 2, {}}, {"ep", 2, {}}}, {}, {}}};
  EXPECT_THROW(groups_of(meshes, Axes{"tp"}), ExecutionError);
  EXPECT_EQ(groups_of(meshes, Axes{"ep"}), (Groups{{0, 1}, {2, 3}}));
}

TEST(Cluster, ExplicitGroupsKeepTheirOwnOrder) {
  const ir::Mesh mesh = two_by_three();
  const RankTensors x = random_ranks(mesh, {2}, 7);
  const RankTensors found =
      run(mesh, OpCode::all_gather, {{"dim", std::int64_t{0}}, {"groups", Groups{{4, 0, 2}, {1, 5, 3}}}}, x);
  for (const std::size_t rank : {0U, 2U, 4U}) {
    EXPECT_EQ(found[rank].data, (std::vector<double>{x[4].data[0], x[4].data[1], x[0].data[0], x[0].data[1],
                                                     x[2].data[0], x[2].data[1]}));
  }
  EXPECT_THROW(run(mesh, OpCode::all_gather, {{"dim", std::int64_t{0}}, {"groups", Groups{{0, 1}, {2, 3}}}}, x),
               ExecutionError);
}

TEST(Cluster, CoordinatesAndLoopIndicesAreEvaluatedPerRank) {
  const ir::Mesh mesh = two_by_three();
  ir::Program program;
  ir::Builder builder(program, [&](const std::string& axis) { return size_of(mesh, axis); });
  const ir::ValueId x = builder.input("x", {DType::f32, {6}});
  const ir::ValueId zero = builder.typed(OpCode::constant, {DType::f32, {1}}, {{"value", ir::Rational(0)}});
  const auto carried = builder.begin_loop("m", 2, {zero}, {"sum"});
  // Element 2 tp + m of x, summed over the loop and then over tp: the sum of all of x, on every rank.
  const ir::CoordExpr start = ir::variable_expr("tp", 2) + ir::variable_expr("m");
  const ir::ValueId part =
      builder.op(OpCode::slice, {x}, {{"dim", std::int64_t{0}}, {"start", start}, {"size", std::int64_t{1}}});
  const ir::ValueId sum = builder.op(OpCode::add, {carried[0], part});
  const auto results = builder.end_loop({sum});
  const ir::ValueId total =
      builder.op(OpCode::all_reduce, results, {{"axes", Axes{"tp"}}, {"reduce", std::string("sum")}});
  const ir::ValueId where = builder.typed(OpCode::coord, {DType::i64, {}},
                                          {{"value", ir::variable_expr("dp", 10) + ir::variable_expr("tp")}});
  const RankTensors ranks = random_ranks(mesh, {6}, 8);
  const std::vector<ir::ValueId> wanted = {results[0], total, where};
  const auto found = run_cluster({&mesh, 1}, program, {{x, ranks}}, wanted);
  for (std::size_t rank = 0; rank < 6; ++rank) {
    const std::size_t tp = rank % 3;
    const std::size_t dp = rank / 3;
    EXPECT_NEAR(found[0][rank].data[0], ranks[rank].data[2 * tp] + ranks[rank].data[2 * tp + 1], 1e-14);
    double expected = 0;
    for (std::size_t t = 0; t < 3; ++t) expected += ranks[3 * dp + t].data[2 * t] + ranks[3 * dp + t].data[2 * t + 1];
    EXPECT_NEAR(found[1][rank].data[0], expected, 1e-14);
    EXPECT_EQ(found[2][rank].data[0], static_cast<double>(10 * dp + tp));
  }
}

TEST(Cluster, EveryCommunicationOpIsExecutedOrRefusedByName) {
  const std::set<OpCode> executed = {OpCode::all_reduce, OpCode::all_gather,     OpCode::reduce_scatter,
                                     OpCode::all_to_all, OpCode::broadcast_from, OpCode::permute,
                                     OpCode::wait};
  const std::set<OpCode> refused = {OpCode::send, OpCode::recv};
  for (const ir::OpSchema& schema : ir::op_table()) {
    if (schema.family != ir::OpFamily::communication) continue;
    EXPECT_TRUE(executed.contains(schema.code) || refused.contains(schema.code)) << schema.name;
  }
}

TEST(Cluster, AsynchronousResultsPassThroughWait) {
  const ir::Mesh mesh = two_by_three();
  ir::Program program;
  ir::Builder builder(program, [&](const std::string& axis) { return size_of(mesh, axis); });
  const ir::ValueId x = builder.input("x", {DType::f32, {2}});
  const ir::ValueId started =
      builder.op(OpCode::all_reduce, {x}, {{"axes", Axes{"dp"}}, {"reduce", std::string("sum")}, {"async", true}});
  const std::vector<ir::ValueId> wanted = {builder.op(OpCode::wait, {started})};
  const RankTensors ranks = random_ranks(mesh, {2}, 9);
  const auto found = run_cluster({&mesh, 1}, program, {{x, ranks}}, wanted);
  EXPECT_NEAR(found[0][1].data[0], ranks[1].data[0] + ranks[4].data[0], 1e-14);
}

}  // namespace
}  // namespace shardproof::runtime::testing

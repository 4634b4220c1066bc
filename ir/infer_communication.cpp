// Type rules of communication. The local shape changes by the size of the group only; which ranks form it and
// in which order is for the verifier.
#include <algorithm>
#include <string>
#include <unordered_set>

#include "ir/check.h"
#include "ir/group_axis.h"
#include "ir/infer_rules.h"
#include "ir/placement.h"

namespace shardproof::ir {
namespace {

using Groups = std::vector<std::vector<std::int64_t>>;

std::int64_t size_of_axes(const RuleInput& rule, const std::vector<std::string>& axes) {
  if (axes.empty()) fail("`axes` with at least one mesh axis", "none");
  std::int64_t size = 1;
  std::unordered_set<std::string> seen;
  for (const std::string& text : axes) {
    const std::optional<GroupAxis> entry = parse_group_axis(text);
    if (!entry) fail("an axis, or some of its coordinates as in `pp{0,15}`, in `axes`", "`" + text + "`");
    if (!seen.insert(entry->axis).second) fail("distinct `axes`", "`" + entry->axis + "` twice");
    const std::int64_t extent = rule.axis_size ? rule.axis_size(entry->axis) : 0;
    if (extent < 1) fail("a mesh axis in `axes`", "`" + entry->axis + "`");
    if (!entry->coordinates.empty() && entry->coordinates.back() >= extent) {
      fail("coordinates of `" + entry->axis + "` from 0 to " + std::to_string(extent - 1), "`" + text + "`");
    }
    size = checked_mul(size, entry->coordinates.empty() ? extent : static_cast<std::int64_t>(entry->coordinates.size()));
  }
  return size;
}

std::int64_t size_of_groups(const Groups& groups) {
  if (groups.empty() || groups.front().empty()) fail("`groups` with at least one rank each", "none");
  std::unordered_set<std::int64_t> ranks;
  for (const std::vector<std::int64_t>& group : groups) {
    if (group.size() != groups.front().size()) {
      fail("`groups` of one size", std::to_string(groups.front().size()) + " and " + std::to_string(group.size()));
    }
    for (const std::int64_t rank : group) {
      if (rank < 0) fail("ranks of at least 0 in `groups`", std::to_string(rank));
      if (!ranks.insert(rank).second) fail("every rank in one of `groups` at most", std::to_string(rank) + " twice");
    }
  }
  return static_cast<std::int64_t>(groups.front().size());
}

std::int64_t group_size(const RuleInput& rule) {
  const Attributes& attributes = rule.instruction.attributes;
  if (attributes.has("axes") == attributes.has("groups")) {
    fail("exactly one of `axes` and `groups`", attributes.has("axes") ? "both" : "none");
  }
  return attributes.has("axes") ? size_of_axes(rule, attributes.get<std::vector<std::string>>("axes"))
                                : size_of_groups(attributes.get<Groups>("groups"));
}

void check_reduce(const RuleInput& rule) {
  const TensorType& x = rule.operand(0);
  require_numeric(x, "operand");
  const std::optional<ReduceKind> reduce = parse_reduce(rule.text("reduce"));
  if (!reduce) fail("`reduce` sum max min avg or prod", rule.text("reduce"));
  if (*reduce == ReduceKind::avg) require_float(x, "operand for avg");
}

void divide(Shape& shape, std::size_t dim, std::int64_t parts) {
  if (shape[dim] % parts != 0) {
    fail("an extent of dimension " + std::to_string(dim) + " that the group size " + std::to_string(parts) + " divides",
         std::to_string(shape[dim]));
  }
  shape[dim] /= parts;
}

}  // namespace

Types infer_communication(const RuleInput& rule) {
  switch (rule.instruction.op) {
    case OpCode::send: return {};
    case OpCode::recv: return {declared_type(rule)};
    case OpCode::wait: return {rule.operand(0)};
    default: break;
  }
  TensorType result = rule.operand(0);
  const std::int64_t size = group_size(rule);
  switch (rule.instruction.op) {
    case OpCode::all_reduce: check_reduce(rule); return {result};
    case OpCode::all_gather: {
      const std::size_t dim = dimension(rule, "dim", result.shape);
      result.shape[dim] = checked_mul(result.shape[dim], size);
      return {result};
    }
    case OpCode::reduce_scatter: {
      check_reduce(rule);
      divide(result.shape, dimension(rule, "dim", result.shape), size);
      return {result};
    }
    case OpCode::all_to_all: {
      const std::size_t concat_dim = dimension(rule, "concat_dim", result.shape);
      divide(result.shape, dimension(rule, "split_dim", result.shape), size);
      result.shape[concat_dim] = checked_mul(result.shape[concat_dim], size);
      return {result};
    }
    case OpCode::broadcast_from: {
      const std::int64_t root = rule.integer("root");
      if (root < 0 || root >= size) fail("`root` below the group size " + std::to_string(size), std::to_string(root));
      return {result};
    }
    case OpCode::permute: return {result};
    default: break;
  }
  SHARDPROOF_CHECK(false);
  return {};
}

}  // namespace shardproof::ir

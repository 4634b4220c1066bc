// Type rules of einsum and reductions.
#include <algorithm>
#include <array>

#include "ir/check.h"
#include "ir/infer_rules.h"

namespace shardproof::ir {
namespace {

bool is_label(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool are_distinct_labels(std::string_view labels) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (!is_label(labels[i]) || labels.find(labels[i], i + 1) != std::string_view::npos) return false;
  }
  return true;
}

Types infer_einsum(const RuleInput& rule) {
  const std::string& text = rule.text("spec");
  const std::optional<EinsumSpec> spec = parse_einsum(text);
  if (!spec) fail("`spec` like \"bsh,fh->bsf\", no label twice in one operand or result", text);
  if (spec->operands.size() != rule.operands.size()) {
    fail(std::to_string(spec->operands.size()) + " operands for \"" + text + "\"", std::to_string(rule.operands.size()));
  }
  std::array<std::int64_t, 128> extents{};  // by label; 0: not seen
  for (std::size_t i = 0; i < rule.operands.size(); ++i) {
    const TensorType& operand = rule.operand(i);
    const std::string& labels = spec->operands[i];
    require_numeric(operand, "operand");
    require_dtype(operand, rule.operand(0).dtype, "operands");
    require_rank(operand, labels.size(), "operand \"" + labels + "\"");
    for (std::size_t d = 0; d < labels.size(); ++d) {
      std::int64_t& extent = extents.at(static_cast<std::size_t>(labels[d]));
      if (extent != 0 && extent != operand.shape[d]) {
        fail("one extent for label " + std::string(1, labels[d]) + " in \"" + text + "\"",
             std::to_string(extent) + " and " + std::to_string(operand.shape[d]));
      }
      extent = operand.shape[d];
    }
  }
  TensorType result{rule.operand(0).dtype, {}};
  for (const char label : spec->result) result.shape.push_back(extents.at(static_cast<std::size_t>(label)));
  return {result};
}

Types infer_reduction(const RuleInput& rule) {
  const TensorType& x = rule.operand(0);
  require_numeric(x, "operand");
  std::vector<bool> removed(x.shape.size(), false);
  for (const std::size_t dim : distinct_dimensions(rule, "dims", x.shape.size())) removed[dim] = true;
  TensorType result{x.dtype, {}};
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    if (!removed[d]) result.shape.push_back(x.shape[d]);
  }
  return {result};
}

}  // namespace

std::optional<EinsumSpec> parse_einsum(const std::string& spec) {
  const std::size_t arrow = spec.find("->");
  if (arrow == std::string::npos) return std::nullopt;
  EinsumSpec result;
  result.result = spec.substr(arrow + 2);
  std::size_t begin = 0;
  while (begin <= arrow) {
    const std::size_t end = std::min(spec.find(',', begin), arrow);
    result.operands.push_back(spec.substr(begin, end - begin));
    begin = end + 1;
  }
  if (!are_distinct_labels(result.result)) return std::nullopt;
  std::string seen;
  for (const std::string& labels : result.operands) {
    if (!are_distinct_labels(labels)) return std::nullopt;
    seen += labels;
  }
  for (const char label : result.result) {
    if (seen.find(label) == std::string::npos) return std::nullopt;
  }
  return result;
}

Types infer_contraction(const RuleInput& rule) {
  switch (rule.instruction.op) {
    case OpCode::einsum: return infer_einsum(rule);
    case OpCode::reduce_sum:
    case OpCode::reduce_max:
    case OpCode::reduce_min: return infer_reduction(rule);
    default: break;
  }
  SHARDPROOF_CHECK(false);
  return {};
}

}  // namespace shardproof::ir

#include "verifier/structure/holdings.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/axis_table.h"
#include "verifier/structure/rank_classes.h"

namespace shardproof::verifier::structure {

namespace {

constexpr std::int64_t kMaxCells = std::int64_t{1} << 16;

std::string layout_key(const Holding& holding) {
  std::string key;
  for (const ir::Placement* placement : holding.placements) {
    key += "|" + placement->mesh;
    for (const ir::DimLayout& dim : placement->dims) {
      key += ";" + std::to_string(static_cast<int>(dim.permutation)) + "," + std::to_string(dim.padded_extent);
      for (const ir::Digit& d : dim.digits) key += "," + d.axis + ":" + std::to_string(d.pre) + ":" + std::to_string(d.size);
      for (const std::int64_t offset : dim.offsets) key += "@" + std::to_string(offset);
    }
  }
  return key + "|" + holding.state->binding.buffer;
}

// Along one axis: what the digits of a tensor that depend on it make of each coordinate, and at which coordinates the
// tensor is held.
struct AxisCut {
  std::vector<std::size_t> part_of;  // coordinate to part
  std::size_t parts = 0;
  std::set<std::size_t> held;
};

std::map<std::string, AxisCut> cuts_of(const Holding& holding, const ir::AxisTable& axes) {
  std::map<std::string, std::vector<ir::Digit>> digits;
  for (const ir::Placement* placement : holding.placements)
    for (const ir::DimLayout& dim : placement->dims)
      for (const ir::Digit& d : dim.digits)
        if (!d.is_local() && d.size > 1 && !coordinates_of(*holding.stage, d.axis).empty()) digits[d.axis].push_back(d);
  std::map<std::string, AxisCut> cuts;
  for (const auto& [name, own] : digits) {
    const std::int64_t size = axes.size(name);
    AxisCut cut;
    std::map<std::vector<std::int64_t>, std::size_t> parts;
    for (std::int64_t c = 0; c < size; ++c) {
      std::vector<std::int64_t> values;
      for (const ir::Digit& d : own) values.push_back(c / (size / (d.pre * d.size)) % d.size);
      cut.part_of.push_back(parts.emplace(std::move(values), parts.size()).first->second);
    }
    cut.parts = parts.size();
    for (const std::int64_t c : coordinates_of(*holding.stage, name)) cut.held.insert(cut.part_of[static_cast<std::size_t>(c)]);
    if (cut.held.size() < cut.parts) cuts.emplace(name, std::move(cut));
  }
  return cuts;
}

// Parts with a layout of their own: the cells of the axes that some holding lacks parts of.
Cover cover_together(const std::vector<std::map<std::string, AxisCut>>& holdings) {
  std::map<std::string, const AxisCut*> axes;
  for (const auto& cuts : holdings)
    for (const auto& [name, cut] : cuts) axes.emplace(name, &cut);
  std::int64_t cells = 1;
  for (const auto& [name, cut] : axes) {
    cells *= static_cast<std::int64_t>(cut->parts);
    if (cells > kMaxCells) return {Cover::Kind::unknown, {}};
  }
  for (std::int64_t cell = 0; cell < cells; ++cell) {
    const bool held = std::any_of(holdings.begin(), holdings.end(), [&](const auto& cuts) {
      std::int64_t rest = cell;
      for (const auto& [name, cut] : axes) {
        const auto part = static_cast<std::size_t>(rest) % cut->parts;
        rest /= static_cast<std::int64_t>(cut->parts);
        const auto own = cuts.find(name);
        if (own != cuts.end() && !own->second.held.contains(part)) return false;
      }
      return true;
    });
    if (held) continue;
    Cover cover{Cover::Kind::partly, {}};
    std::int64_t rest = cell;
    for (const auto& [name, cut] : axes) {
      const auto part = static_cast<std::size_t>(rest) % cut->parts;
      rest /= static_cast<std::int64_t>(cut->parts);
      const auto at = std::find(cut->part_of.begin(), cut->part_of.end(), part) - cut->part_of.begin();
      cover.missing += (cover.missing.empty() ? "" : ", ") + name + "=" + std::to_string(at);
    }
    return cover;
  }
  return {};
}

}  // namespace

std::vector<Holding> holdings_of(const ir::Document& document, const ir::ReferenceIndex& index) {
  std::vector<Holding> holdings;
  for (const ir::StageProgram& stage : document.plan.stages) {
    for (const ir::PlanState& state : stage.state) {
      if (holdings.size() > kMaxHoldings) return {};
      const ir::Binding& binding = state.binding;
      const auto hold = [&](const std::string& name, bool by_role, std::vector<const ir::Placement*> placements) {
        const ir::ValueId reference = !by_role || binding.role.empty() ? index.state(name) : index.state_with_role(binding.role, name);
        if (reference.valid()) holdings.push_back({&stage, &state, reference, std::move(placements), stage.program.value(state.value).type.dtype});
      };
      if (!binding.of.empty()) hold(binding.of, false, {&binding.placement});
      for (const ir::FusedPart& part : binding.fused) hold(part.of, true, {&part.placement, &binding.placement});
      if (const ir::FlatBuffer* buffer = binding.buffer.empty() ? nullptr : document.plan.find_buffer(binding.buffer)) {
        for (const ir::BufferMember& member : buffer->members) {
          if (member.fused.empty()) hold(member.param, true, {&member.placement, &binding.placement});
          for (const ir::FusedPart& part : member.fused) hold(part.of, true, {&part.placement, &member.placement, &binding.placement});
        }
      }
    }
  }
  return holdings;
}

bool is_partial(const Holding& holding) {
  return std::any_of(holding.placements.begin(), holding.placements.end(), [](const ir::Placement* p) { return !p->partial.empty(); });
}

Cover cover_of(const ir::Plan& plan, const std::vector<const Holding*>& holdings) {
  const ir::AxisTable axes(plan.meshes);
  std::map<std::string, std::vector<std::map<std::string, AxisCut>>> by_layout;
  // Padding, and the cut of a buffer of which the tensor is a part, need not be held everywhere.
  bool exact = true;
  for (const Holding* holding : holdings) {
    auto cuts = cuts_of(*holding, axes);
    if (cuts.empty()) return {};
    for (const ir::Placement* placement : holding->placements)
      for (const ir::DimLayout& dim : placement->dims) exact = exact && dim.padded_extent == 0 && dim.offsets.empty();
    exact = exact && holding->state->binding.buffer.empty();
    by_layout[layout_key(*holding)].push_back(std::move(cuts));
  }
  Cover last;
  for (const auto& [key, cuts] : by_layout) {
    last = cover_together(cuts);
    if (last.kind == Cover::Kind::whole) return last;
  }
  if (by_layout.size() > 1 || !exact) return {Cover::Kind::unknown, {}};
  return last;
}

}  // namespace shardproof::verifier::structure

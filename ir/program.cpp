#include "ir/program.h"

#include <algorithm>

#include "ir/check.h"

namespace shardproof::ir {
namespace {

template <typename Entries>
auto lower_bound_by_name(Entries& entries, std::string_view name) {
  return std::lower_bound(entries.begin(), entries.end(), name,
                          [](const auto& entry, std::string_view wanted) { return entry.first < wanted; });
}

}  // namespace

void Attributes::set(std::string name, AttrValue value) {
  const auto place = lower_bound_by_name(entries_, name);
  if (place != entries_.end() && place->first == name) {
    place->second = std::move(value);
  } else {
    entries_.emplace(place, std::move(name), std::move(value));
  }
}

const AttrValue* Attributes::find(std::string_view name) const {
  const auto place = lower_bound_by_name(entries_, name);
  return place != entries_.end() && place->first == name ? &place->second : nullptr;
}

bool Attributes::has(std::string_view name) const { return find(name) != nullptr; }

const Value& Program::value(ValueId id) const {
  SHARDPROOF_CHECK(id.valid() && static_cast<std::size_t>(id.index) < values.size());
  return values[static_cast<std::size_t>(id.index)];
}

ValueId Program::find(std::string_view name) const {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].name == name) return ValueId{static_cast<std::int32_t>(i)};
  }
  return {};
}

namespace {

std::vector<Instruction> used_part(const std::vector<Instruction>& body, std::vector<bool>& needed) {
  const auto mark = [&](ValueId v) { needed[static_cast<std::size_t>(v.index)] = true; };
  std::vector<Instruction> kept;
  for (auto i = body.rbegin(); i != body.rend(); ++i) {
    const bool used = std::any_of(i->outputs.begin(), i->outputs.end(), [&](ValueId v) { return needed[static_cast<std::size_t>(v.index)]; });
    if (!used) continue;
    Instruction instruction = *i;
    if (i->region == nullptr) {
      std::for_each(i->inputs.begin(), i->inputs.end(), mark);
    } else {
      instruction.region = std::make_shared<Region>(*i->region);
      Region& region = *instruction.region;
      // A carry is used if its result is, or if the body reads it for one that is.
      const auto is_used = [&](const Carry& c) { return needed[static_cast<std::size_t>(c.result.index)] || needed[static_cast<std::size_t>(c.argument.index)]; };
      std::ptrdiff_t used_before = -1, used_now = 0;
      while (used_before != used_now) {
        used_before = used_now;
        for (const Carry& carry : i->region->carries) {
          if (!is_used(carry)) continue;
          mark(carry.init);
          mark(carry.next);
        }
        region.body = used_part(i->region->body, needed);
        used_now = std::count_if(i->region->carries.begin(), i->region->carries.end(), is_used);
      }
      std::erase_if(region.carries, [&](const Carry& c) { return !is_used(c); });
      instruction.inputs.clear();
      instruction.outputs.clear();
      for (const Carry& carry : region.carries) {
        instruction.inputs.push_back(carry.init);
        instruction.outputs.push_back(carry.result);
      }
    }
    kept.push_back(std::move(instruction));
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

}  // namespace

const Instruction* labelled_loop(const Program& program) {
  for (const Instruction& i : program.body) {
    if (i.op != OpCode::loop || i.region == nullptr) continue;
    const auto& body = i.region->body;
    if (std::any_of(body.begin(), body.end(), [](const Instruction& inner) { return !inner.action.empty(); })) return &i;
  }
  return nullptr;
}

Program without_unused(const Program& program, const std::vector<ValueId>& needed) {
  Program result;
  result.values = program.values;
  std::vector<bool> marks(program.values.size());
  for (const ValueId v : needed) marks[static_cast<std::size_t>(v.index)] = true;
  result.body = used_part(program.body, marks);
  return result;
}

}  // namespace shardproof::ir

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
    std::for_each(i->inputs.begin(), i->inputs.end(), mark);
    if (i->region != nullptr) {
      instruction.region = std::make_shared<Region>(*i->region);
      for (const Carry& carry : i->region->carries) {
        mark(carry.init);
        mark(carry.next);
      }
      instruction.region->body = used_part(i->region->body, needed);
    }
    kept.push_back(std::move(instruction));
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

}  // namespace

Program without_unused(const Program& program, const std::vector<ValueId>& needed) {
  Program result;
  result.values = program.values;
  std::vector<bool> marks(program.values.size());
  for (const ValueId v : needed) marks[static_cast<std::size_t>(v.index)] = true;
  result.body = used_part(program.body, marks);
  return result;
}

}  // namespace shardproof::ir

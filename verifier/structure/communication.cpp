#include "verifier/structure/communication.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "ir/group_axis.h"
#include "ir/print.h"

namespace shardproof::verifier::structure {

using ir::Instruction;
using ir::OpCode;

namespace {

using Groups = std::vector<std::vector<std::int64_t>>;

template <typename Visit>
void for_each_instruction(const std::vector<Instruction>& body, const Visit& visit) {
  for (const Instruction& i : body) {
    visit(i);
    if (i.region != nullptr) for_each_instruction(i.region->body, visit);
  }
}

std::string quoted(const std::string& name) { return "`" + name + "`"; }

std::string text_of(const std::vector<std::string>& axes) {
  std::string text;
  for (const std::string& axis : axes) text += (text.empty() ? "`" : " x `") + axis + "`";
  return text;
}

std::string text_of(const Groups& groups) {
  std::string text = "the groups [";
  for (std::size_t g = 0; g < groups.size() && g < 3; ++g) {
    text += g == 0 ? "[" : ", [";
    for (std::size_t i = 0; i < groups[g].size() && i < 8; ++i) text += (i == 0 ? "" : ",") + std::to_string(groups[g][i]);
    text += groups[g].size() > 8 ? ",...]" : "]";
  }
  return text + (groups.size() > 3 ? ", ...]" : "]");
}

// The axes of a collective's group that have more than one rank, in order.
std::vector<std::string> varying_axes(const ir::Plan& plan, const Instruction& i) {
  std::vector<std::string> axes = i.attributes.get<std::vector<std::string>>("axes");
  std::erase_if(axes, [&](const std::string& text) {
    const auto [a, coordinates] = *ir::parse_group_axis(text);  // validated
    if (coordinates.size() == 1) return true;
    return std::all_of(plan.meshes.begin(), plan.meshes.end(), [&](const ir::Mesh& mesh) {
      const auto at = mesh.find_axis(a);
      return !at || mesh.axes[*at].size == 1;
    });
  });
  return axes;
}

// The same groups, however they are written.
Groups sorted(Groups groups) {
  for (auto& group : groups) std::sort(group.begin(), group.end());
  std::sort(groups.begin(), groups.end());
  return groups;
}

// Groups along axes as lists. Only for plans that list groups themselves: then the file is as long as the world.
Groups lists_along(const ir::Plan& plan, const std::vector<std::string>& axes) {
  for (const ir::Mesh& mesh : plan.meshes) {
    std::vector<std::pair<std::size_t, std::vector<std::int64_t>>> along;
    for (const std::string& text : axes) {
      const ir::GroupAxis group = *ir::parse_group_axis(text);
      if (const auto at = mesh.find_axis(group.axis)) along.emplace_back(*at, group.coordinates);
    }
    if (along.size() != axes.size()) continue;
    std::map<ir::Coordinate, std::vector<std::int64_t>> groups;
    for (std::int64_t rank = 0; rank < mesh.size(); ++rank) {
      ir::Coordinate c = ir::coordinate_of(mesh, rank);
      const bool member = std::all_of(along.begin(), along.end(), [&](const auto& axis) {
        return axis.second.empty() || std::binary_search(axis.second.begin(), axis.second.end(), c[axis.first]);
      });
      if (!member) continue;
      for (const auto& axis : along) c[axis.first] = 0;
      groups[std::move(c)].push_back(rank);
    }
    Groups lists;
    for (auto& [coordinate, ranks] : groups) lists.push_back(std::move(ranks));
    return lists;
  }
  return {};
}

class Collector {
 public:
  Collector(const ir::Plan& plan, const RankClasses& classes, const ScheduledPlan* scheduled, Findings& findings) : plan_(plan), classes_(classes), scheduled_(scheduled), findings_(findings) {
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      stage_by_name_.emplace(plan.stages[s].name, s);
      for_each_instruction(plan.stages[s].program.body, [&](const Instruction& i) {
        lists_ = lists_ || i.attributes.has("groups");
        messages_ = messages_ || i.op == OpCode::send || i.op == OpCode::recv;
      });
    }
  }

  Communication run() {
    if (classes_.count() == 1 && !messages_) {  // one program on all ranks, as in most plans
      result_.scripts.resize(plan_.stages.size());
      return std::move(result_);
    }
    for (stage_ = 0; stage_ < plan_.stages.size(); ++stage_) {
      site_of_value_.clear();
      const std::size_t first = result_.sites.size();
      std::vector<Item> items = script(plan_.stages[stage_].program.body);
      drop_own(items, queues_behind_others(first));
      result_.scripts.push_back(std::move(items));
    }
    return std::move(result_);
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  static constexpr std::size_t kMaxItems = std::size_t{1} << 20;

  std::vector<Item> script(const std::vector<Instruction>& body) {
    std::vector<Item> items;
    for (const Instruction& i : body) {
      const ScheduledProgram* program = scheduled_ == nullptr ? nullptr : &scheduled_->programs[stage_];
      if (program != nullptr && program->loop == &i) actions(*program, items);
      else if (auto item = item_of(i)) items.push_back(*std::move(item));
    }
    return items;
  }

  // What an instruction says to other programs; nullopt: nothing.
  std::optional<Item> item_of(const Instruction& i) {
    if (i.op == OpCode::loop) {
      Item loop{Item::Kind::loop, 0, &i, script(i.region->body)};
      return loop.body.empty() ? std::nullopt : std::optional(std::move(loop));
    }
    if (i.op == OpCode::wait) {
      const auto started = site_of_value_.find(i.inputs.front().index);
      return started == site_of_value_.end() ? std::nullopt : std::optional(Item{Item::Kind::wait, started->second, &i, {}});
    }
    if (ir::schema_of(i.op).family != ir::OpFamily::communication) return std::nullopt;
    const bool message = i.op == OpCode::send || i.op == OpCode::recv;
    const std::size_t link = message ? channel(i) : communicator(i);
    if (link == kNone) return std::nullopt;
    if (!i.outputs.empty()) site_of_value_[i.outputs.front().index] = result_.sites.size();
    result_.sites.push_back({&i, stage_, message, link});
    return Item{Item::Kind::start, result_.sites.size() - 1, nullptr, {}};
  }

  // The loop over microbatches, taken apart: each action with what it runs of its iteration, in the order of the text.
  void actions(const ScheduledProgram& program, std::vector<Item>& items) {
    std::vector<std::pair<std::size_t, Item>> says;  // label of the instruction
    const auto& body = program.loop->region->body;
    for (std::size_t k = 0; k < body.size(); ++k)
      if (auto item = item_of(body[k])) says.emplace_back(program.label_of[k], *std::move(item));
    std::map<std::array<std::size_t, 2>, std::vector<Item>> bodies;
    for (const ScheduledStep& step : program.steps) {
      if (!step.action.microbatch) continue;
      const auto [entry, fresh] = bodies.try_emplace(step.labels);
      if (fresh)
        for (const auto& [label, item] : says)
          if (step.runs(label)) entry->second.push_back(item);
      count_ += entry->second.size();
      if (count_ > kMaxItems) return too_often(*program.loop);
      if (!entry->second.empty()) items.push_back({Item::Kind::action, 0, program.loop, entry->second, *step.action.microbatch, step.cell});
    }
  }

  void too_often(const Instruction& loop) {
    if (std::exchange(told_too_often_, true)) return;
    findings_.undecided.push_back(ir::make_error("SP0905", "unsupported", "the schedule makes stages communicate too often to follow it", loop.span,
                                                 "at most " + std::to_string(kMaxItems) + " transfers in the actions of a step", "more"));
  }

  bool own(const Site& site) const { return !site.message && !result_.communicators[site.link].crosses; }
  // The queues in which a collective stands: its stream and its communicator.
  static std::vector<std::string> queues(const Site& site) {
    const std::string stream = site.instruction->attributes.get_or<std::string>("stream", {});
    std::vector<std::string> all;
    if (!stream.empty()) all.push_back("stream " + stream);
    all.push_back((site.message ? "channel " : "communicator ") + std::to_string(site.link));
    return all;
  }

  // Collectives within a class wait for other programs only if they stand behind something that does, on a stream, or behind
  // one of their kind that does, on a stream or on their communicator.
  std::set<std::string> queues_behind_others(std::size_t first) const {
    std::set<std::string> behind;
    for (std::size_t s = first; s < result_.sites.size(); ++s)
      if (!own(result_.sites[s]))
        for (std::string& queue : queues(result_.sites[s])) behind.insert(std::move(queue));
    for (bool grown = true; grown;) {
      grown = false;
      for (std::size_t s = first; s < result_.sites.size(); ++s) {
        const auto all = queues(result_.sites[s]);
        if (std::any_of(all.begin(), all.end(), [&](const std::string& q) { return behind.contains(q); }))
          for (const std::string& queue : all) grown = behind.insert(queue).second || grown;
      }
    }
    return behind;
  }

  void drop_own(std::vector<Item>& items, const std::set<std::string>& behind) const {
    for (Item& item : items)
      if (item.has_body()) drop_own(item.body, behind);
    std::erase_if(items, [&](const Item& item) {
      if (item.has_body()) return item.body.empty();
      const Site& site = result_.sites[item.site];
      return own(site) && !behind.contains(queues(site).back());
    });
  }

  std::size_t communicator(const Instruction& i) {
    std::string key;
    if (i.attributes.has("axes")) {
      std::vector<std::string> axes = varying_axes(plan_, i);
      const std::string text = text_of(axes);
      std::sort(axes.begin(), axes.end());
      key = "axes ";
      for (const std::string& axis : axes) key += axis + ",";
      if (const auto known = by_key_.find(key); known != by_key_.end()) return known->second;
      // The same groups may be written as lists elsewhere.
      if (lists_) {
        const auto known = by_key_.find(key_of(lists_along(plan_, axes)));
        if (known != by_key_.end()) return by_key_[key] = known->second;
      }
      const std::size_t link = add(i, text, classes_.along(axes));
      if (lists_) by_key_[key_of(lists_along(plan_, axes))] = link;
      return by_key_[key] = link;
    }
    const auto& lists = i.attributes.get<Groups>("groups");
    key = key_of(lists);
    if (const auto known = by_key_.find(key); known != by_key_.end()) return known->second;
    return by_key_[key] = add(i, text_of(lists), classes_.of_lists(lists));
  }

  std::size_t add(const Instruction& i, std::string text, std::optional<GroupClasses> groups) {
    if (!groups) {
      ir::Diagnostic d = ir::make_error("SP0905", "unsupported", "collectives over " + text + " are not matched: their groups cross stages in a way that no rule describes",
                                        i.span, "groups along axes of the mesh that places the stages", text);
      d.subject.instruction = ir::describe(plan_.stages[stage_].program, i);
      findings_.undecided.push_back(std::move(d));
      return kNone;
    }
    const bool crosses = std::any_of(groups->members.begin(), groups->members.end(), [](const auto& m) { return m.size() > 1; });
    result_.communicators.push_back({std::move(text), std::move(*groups), crosses});
    return result_.communicators.size() - 1;
  }

  static std::string key_of(const Groups& lists) {
    std::string key = "ranks ";
    for (const auto& group : sorted(lists)) {
      if (group.size() < 2) continue;
      for (const std::int64_t rank : group) key += std::to_string(rank) + ",";
      key += ";";
    }
    return key;
  }

  std::size_t channel(const Instruction& i) {
    const std::string& peer = i.attributes.get<std::string>("peer");
    const ir::StageProgram& own = plan_.stages[stage_];
    const auto found = stage_by_name_.find(peer);
    const auto problem = [&](std::string message, std::string expected, std::string found_text) {
      ir::Diagnostic d = ir::make_error("SP0303", "unmatched-message", std::move(message), i.span, std::move(expected), std::move(found_text));
      d.subject.instruction = ir::describe(own.program, i);
      d.subject.rank = "ranks of stage " + quoted(own.name);
      d.labels.front().text = "here";
      d.fix = ir::Fix{"name the stage on the other side, which has as many ranks", {}, ir::Applicability::display_only};
      findings_.violations.push_back(std::move(d));
      return kNone;
    };
    if (found == stage_by_name_.end()) return problem("stage " + quoted(own.name) + " exchanges messages with " + quoted(peer) + ", which is no stage", "the name of a stage", quoted(peer));
    const bool sends = i.op == OpCode::send;
    const std::size_t from = sends ? stage_ : found->second;
    const std::size_t to = sends ? found->second : stage_;
    const std::string key = std::to_string(from) + ">" + std::to_string(to) + ":" + i.attributes.get<std::string>("channel");
    const auto [entry, fresh] = by_channel_.emplace(key, result_.channels.size());
    if (!fresh) return entry->second;
    for (std::size_t cls = 0; cls < classes_.count(); ++cls) {
      if (classes_.stage_of(cls) != from) continue;
      if (classes_.counterpart(cls, plan_.stages[from], plan_.stages[to])) continue;
      entry->second = kNone;
      return problem("stages " + quoted(plan_.stages[from].name) + " and " + quoted(plan_.stages[to].name) + " exchange messages, and run on different numbers of ranks",
                     "as many coordinates along each axis in both `where`", "other numbers");
    }
    result_.channels.push_back({from, to, i.attributes.get<std::string>("channel")});
    return entry->second;
  }

  const ir::Plan& plan_;
  const RankClasses& classes_;
  const ScheduledPlan* scheduled_;
  Findings& findings_;
  Communication result_;
  bool lists_ = false;     // some collective lists its groups
  bool messages_ = false;  // some stage sends or receives
  std::size_t stage_ = 0;
  std::unordered_map<std::string, std::size_t> stage_by_name_;
  std::map<std::string, std::size_t> by_key_;      // communicators
  std::map<std::string, std::size_t> by_channel_;
  std::unordered_map<std::int32_t, std::size_t> site_of_value_;
  std::size_t count_ = 0;  // items of actions
  bool told_too_often_ = false;
};

}  // namespace

std::map<Communication::Link, std::vector<Item>> Communication::split(const std::vector<Item>& items) const {
  std::map<Link, std::vector<Item>> result;
  for (const Item& item : items) {
    if (item.kind == Item::Kind::start) result[{sites[item.site].message, sites[item.site].link}].push_back(item);
    if (!item.has_body()) continue;
    for (auto& [link, body] : split(item.body)) result[link].push_back({item.kind, 0, item.instruction, std::move(body), item.iteration, item.cell});
  }
  return result;
}

void Communication::index_links() {
  by_link_.clear();
  for (const std::vector<Item>& script : scripts) by_link_.push_back(split(script));
}

const std::vector<Item>& Communication::on_link(std::size_t stage, bool message, std::size_t link) const {
  static const std::vector<Item> none;
  const auto found = by_link_[stage].find({message, link});
  return found == by_link_[stage].end() ? none : found->second;
}

Communication communication_of(const ir::Plan& plan, const RankClasses& classes, const ScheduledPlan* scheduled, Findings& findings) {
  Communication communication = Collector(plan, classes, scheduled, findings).run();
  communication.index_links();
  return communication;
}

std::set<std::string> axes_crossed_by_messages(const ir::Plan& plan) {
  std::map<std::string, std::set<std::string>> peers;  // of stages
  for (const ir::StageProgram& stage : plan.stages)
    for_each_instruction(stage.program.body, [&](const Instruction& i) {
      if (i.op == OpCode::send || i.op == OpCode::recv) peers[stage.name].insert(i.attributes.get<std::string>("peer"));
    });
  std::set<std::string> axes;
  for (const ir::StageProgram& a : plan.stages)
    for (const ir::StageProgram& b : plan.stages) {
      if (!peers.contains(a.name) || !peers[a.name].contains(b.name)) continue;
      for (const auto* where : {&a.where, &b.where})
        for (const ir::OwnedAxis& owned : *where) {
          const auto ca = coordinates_of(a, owned.axis), cb = coordinates_of(b, owned.axis);
          if (ca != cb && (ca.size() != 1 || cb.size() != 1)) axes.insert(owned.axis);
        }
    }
  return axes;
}

Signature signature_of(const ir::Plan& plan, const Site& site) {
  const Instruction& i = *site.instruction;
  const ir::Program& program = plan.stages[site.stage].program;
  Signature s;
  s.op = i.op;
  s.reduce = i.attributes.get_or<std::string>("reduce", {});
  if (i.op == OpCode::broadcast_from) s.argument = i.attributes.get<std::int64_t>("root");
  if (i.op == OpCode::permute) s.argument = i.attributes.get<std::int64_t>("shift");
  // The result of an all_reduce is the same in any order of its group.
  if (i.op != OpCode::all_reduce && i.attributes.has("axes")) s.order = varying_axes(plan, i);
  s.type = program.value(i.op == OpCode::recv ? i.outputs.front() : i.inputs.front()).type;
  return s;
}

std::optional<Difference> difference(const Signature& a, const Signature& b) {
  const bool messages = a.op == OpCode::send || a.op == OpCode::recv;
  const auto name = [](OpCode op) { return std::string(ir::schema_of(op).name); };
  if (!messages) {
    if (a.op != b.op) return Difference{"the operation", name(a.op), name(b.op)};
    if (a.reduce != b.reduce) return Difference{"the reduction", a.reduce, b.reduce};
    if (a.argument != b.argument) return Difference{a.op == OpCode::permute ? "`shift`" : "`root`", std::to_string(a.argument), std::to_string(b.argument)};
    if (!a.order.empty() && !b.order.empty() && a.order != b.order)
      return Difference{"the order of the group", text_of(a.order), text_of(b.order)};
  }
  if (a.type.dtype != b.type.dtype) return Difference{"the element type", ir::to_string(a.type), ir::to_string(b.type)};
  const bool sizes = messages ? a.type.shape == b.type.shape : ir::element_count(a.type.shape) == ir::element_count(b.type.shape);
  if (!sizes) return Difference{messages ? "the shape" : "the number of elements", ir::to_string(a.type), ir::to_string(b.type)};
  return std::nullopt;
}

std::string ranks_text(const ir::Plan& plan, const RankClasses& classes, std::size_t cls, std::size_t stage) {
  return "ranks " + classes.describe(cls) + " (stage " + quoted(plan.stages[stage].name) + ")";
}

std::string describe(const ir::Plan& plan, const Site& site) { return ir::describe(plan.stages[site.stage].program, *site.instruction); }

}  // namespace shardproof::verifier::structure

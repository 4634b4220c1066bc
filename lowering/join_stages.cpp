#include "lowering/join_stages.h"

#include <algorithm>
#include <memory>
#include <set>
#include <unordered_map>

#include "ir/check.h"
#include "lowering/join_parts.h"

namespace shardproof::lowering {

using ir::CoordExpr;
using ir::Instruction;
using ir::OpCode;
using ir::ValueId;
using join::Instance;
using join::Layout;
using join::Refusal;

namespace {

std::string quoted(const std::string& name) { return "`" + name + "`"; }

// A collective is matched by its instances and its ranks within a stage, a message by its ends and its channel.
struct Link {
  std::string key;
  std::vector<std::size_t> members;  // instances that take part; of a message: sender, receiver
  bool message = false;
};

class Joiner {
 public:
  explicit Joiner(const ir::Document& document) : document_(document), layout_(document.plan) {}

  ir::Document run() {
    ir::Document joined;
    joined.source = document_.source;
    joined.reference = document_.reference;
    const ir::Plan& plan = document_.plan;
    joined.plan.name = plan.name;
    joined.plan.meshes = {layout_.remaining()};
    joined.plan.buffers = plan.buffers;
    for (ir::FlatBuffer& buffer : joined.plan.buffers)
      for (ir::BufferMember& member : buffer.members) {
        whole_over_stages(member.placement, member.span);
        for (ir::FusedPart& part : member.fused) whole_over_stages(part.placement, member.span);
      }
    joined.plan.rng = plan.rng;
    joined.plan.notes = plan.notes;
    stage_.name = "joined stages";
    stage_.span = plan.stages.front().span;
    add_values();
    for (std::size_t i = 0; i < instances_.size(); ++i) declare(i);
    std::vector<Cursor> cursors;
    for (std::size_t i = 0; i < instances_.size(); ++i) {
      cursors.push_back({i, &instances_[i].stage->program.body});
      for (std::size_t axis = 0; axis < layout_.removed().size(); ++axis)
        cursors.back().variables[layout_.removed()[axis]] = ir::constant_expr(instances_[i].at[axis]);
    }
    join_level(cursors, stage_.program.body);
    joined.plan.stages.push_back(std::move(stage_));
    return joined;
  }

 private:
  using Variables = std::map<std::string, CoordExpr>;

  // Where an instance stands in one body.
  struct Cursor {
    std::size_t instance = 0;
    const std::vector<Instruction>* body = nullptr;
    std::size_t at = 0;
    Variables variables = {};      // coordinates and loop indices as expressions of the joined program
    bool arrived = false;          // at the collective where it stands
    std::map<std::string, std::size_t> turns = {};  // of each link's events that it started in this body

    bool at_end() const { return at == body->size(); }
    const Instruction& instruction() const { return (*body)[at]; }
  };
  struct Message {
    ValueId value;
    std::optional<CoordExpr> number;
  };
  struct Meeting {
    std::vector<std::pair<std::size_t, const Instruction*>> arrived;  // instances
    bool written = false;
  };
  // What is under way between the cursors of one body.
  struct Traffic {
    std::map<std::string, std::vector<Message>> sent;
    std::map<std::pair<std::string, std::size_t>, Meeting> meetings;  // by link and turn
    // Asynchronous receives that wait for their message.
    struct Receipt {
      std::string key;
      std::size_t turn;
      std::size_t instance;
      const Instruction* instruction;
      std::optional<CoordExpr> number;
    };
    std::vector<Receipt> receipts;
  };

  ValueId value(std::size_t instance, ValueId id) const { return {first_value_[instance] + id.index}; }

  // ---- declarations

  void add_values() {
    std::unordered_map<std::string, int> count;
    for (const Instance& instance : instances_)
      for (const ir::Value& v : instance.stage->program.values) ++count[v.name];
    std::set<std::string> taken;
    for (const Instance& instance : instances_) {
      first_value_.push_back(static_cast<std::int32_t>(stage_.program.values.size()));
      for (ir::Value v : instance.stage->program.values) {
        if (count.at(v.name) > 1) {
          v.written = std::move(v.name);
          v.name = instance.name + "/" + v.written;
          while (count.contains(v.name) || !taken.insert(v.name).second) v.name += "_";
        }
        stage_.program.values.push_back(std::move(v));
      }
    }
  }

  // Takes removed axes of extent 1 off; no others may cut or sum the tensor.
  void whole_over_stages(ir::Placement& placement, ir::Span span) const {
    for (const ir::DimLayout& dim : placement.dims)
      for (const ir::Digit& digit : dim.digits)
        if (!digit.is_local() && layout_.removed_axis(digit.axis) && digit.size > 1)
          throw Refusal("a tensor is cut over " + quoted(digit.axis) + ", which places stages", span, "its parts bound in each stage", "one placement");
    for (ir::DimLayout& dim : placement.dims)
      std::erase_if(dim.digits, [&](const ir::Digit& digit) { return !digit.is_local() && layout_.removed_axis(digit.axis).has_value(); });
    for (const ir::PartialAxis& partial : placement.partial)
      if (layout_.removed_axis(partial.axis))
        throw Refusal("a tensor is partial over " + quoted(partial.axis) + ", which places stages", span, "the sum of the stages' values, as a collective", "summands");
  }

  // The placement without the removed axes; false if the tensor is not on this instance.
  bool localise(ir::Placement& placement, std::size_t instance, ir::Span span) const {
    whole_over_stages(placement, span);
    bool here = true;
    std::erase_if(placement.owned, [&](const ir::OwnedAxis& owned) {
      const auto axis = layout_.removed_axis(owned.axis);
      if (!axis) return false;
      const std::int64_t own = instances_[instance].at[*axis];
      here = here && std::find(owned.coordinates.begin(), owned.coordinates.end(), own) != owned.coordinates.end();
      return true;
    });
    return here;
  }

  ir::Binding localised(ir::Binding binding, std::size_t instance, ir::Span span) const {
    bool here = localise(binding.placement, instance, span);
    for (ir::FusedPart& part : binding.fused) here = localise(part.placement, instance, span) && here;
    if (!here) throw Refusal("a stage holds a tensor that is bound at other coordinates", span, "a binding for each stage that has it", "`owned` elsewhere");
    return binding;
  }

  void declare(std::size_t i) {
    const ir::StageProgram& own = *instances_[i].stage;
    for (ir::PlanInput input : own.inputs) {
      input.value = value(i, input.value);
      input.binding = localised(std::move(input.binding), i, input.span);
      stage_.inputs.push_back(std::move(input));
    }
    for (ir::PlanState state : own.state) {
      state.value = value(i, state.value);
      state.next = value(i, state.next);
      state.name = stage_.program.value(state.value).name;
      state.binding = localised(std::move(state.binding), i, state.span);
      stage_.state.push_back(std::move(state));
    }
    for (ir::PlanOutput output : own.outputs) {
      output.value = value(i, output.value);
      output.binding = localised(std::move(output.binding), i, output.span);
      stage_.outputs.push_back(std::move(output));
    }
  }

  // ---- links

  Link link_of(std::size_t instance, const Instruction& i) const {
    if (i.op == OpCode::send || i.op == OpCode::recv) {
      const std::size_t peer = layout_.peer(instance, i.attributes.get<std::string>("peer"), i.span);
      const bool sends = i.op == OpCode::send;
      const std::size_t from = sends ? instance : peer, to = sends ? peer : instance;
      return {"message " + std::to_string(from) + ">" + std::to_string(to) + ":" + i.attributes.get<std::string>("channel"), {from, to}, true};
    }
    const Layout::Group group = layout_.group_of(instance, i);
    Link link;
    link.members = group.members;
    std::sort(link.members.begin(), link.members.end());
    std::vector<std::string> inner = group.inner_axes;
    std::sort(inner.begin(), inner.end());
    link.key = "group";
    for (const std::size_t member : link.members) link.key += " " + std::to_string(member);
    for (const std::string& axis : inner) link.key += " " + axis;
    return link;
  }

  bool crosses(std::size_t instance, const Instruction& i) const {
    if (i.op == OpCode::send || i.op == OpCode::recv) return true;
    return ir::schema_of(i.op).family == ir::OpFamily::communication && i.op != OpCode::wait && layout_.group_of(instance, i).members.size() > 1;
  }

  void links_in(std::size_t instance, const std::vector<Instruction>& body, std::map<std::string, Link>& links) const {
    for (const Instruction& i : body) {
      if (i.region != nullptr) links_in(instance, i.region->body, links);
      else if (crosses(instance, i)) {
        Link link = link_of(instance, i);
        links.emplace(link.key, std::move(link));
      }
    }
  }

  // ---- instructions

  CoordExpr renamed(const CoordExpr& e, const Variables& variables) const {
    return ir::substitute(e, [&](const std::string& name) {
      const auto found = variables.find(name);
      return found == variables.end() ? ir::variable_expr(name) : found->second;
    });
  }

  Instruction copied(const Cursor& cursor, const Instruction& from) {
    Instruction i = from;
    i.action.clear();
    for (ValueId& id : i.inputs) id = value(cursor.instance, id);
    for (ValueId& id : i.outputs) id = value(cursor.instance, id);
    for (const auto& [name, attribute] : from.attributes.entries()) {
      if (const auto* e = std::get_if<CoordExpr>(&attribute)) i.attributes.set(name, renamed(*e, cursor.variables));
      if (const auto* list = std::get_if<std::vector<CoordExpr>>(&attribute)) {
        std::vector<CoordExpr> changed;
        for (const CoordExpr& e : *list) changed.push_back(renamed(e, cursor.variables));
        i.attributes.set(name, std::move(changed));
      }
    }
    if (ir::schema_of(i.op).family == ir::OpFamily::communication && i.op != OpCode::wait) within_stage(cursor.instance, from, i);
    if (from.region == nullptr) return i;
    // A loop of one stage.
    Cursor inner{cursor.instance, &from.region->body, 0, cursor.variables};
    i.region = std::make_shared<ir::Region>(*from.region);
    i.region->index = open_index(from.region->index);
    inner.variables[from.region->index] = ir::variable_expr(i.region->index);
    i.region->carries.clear();
    for (const ir::Carry& carry : from.region->carries) i.region->carries.push_back(mapped(cursor.instance, carry));
    i.region->body.clear();
    for (const Instruction& each : from.region->body)
      if (each.op != OpCode::release) i.region->body.push_back(copied(inner, each));
    indices_.erase(i.region->index);
    return i;
  }

  // A collective within a stage keeps the part of its group that is there.
  void within_stage(std::size_t instance, const Instruction& from, Instruction& i) const {
    const Layout::Group group = layout_.group_of(instance, from);
    if (from.attributes.has("groups") && !layout_.removed().empty()) i.attributes.set("groups", group.inner_lists);
    if (!from.attributes.has("axes") || layout_.removed().empty()) return;
    if (!group.inner_axes.empty()) {
      i.attributes.set("axes", group.inner_axes);
    } else {  // alone in its group
      i = join::identity(stage_.program, i.outputs.front(), i.inputs.front(), from);
    }
  }

  ir::Carry mapped(std::size_t instance, ir::Carry carry) const {
    for (ValueId* id : {&carry.init, &carry.argument, &carry.next, &carry.result}) *id = value(instance, *id);
    return carry;
  }

  // A name for a loop's index that no open loop and no axis has.
  std::string open_index(std::string name) {
    const ir::Mesh& mesh = document_.plan.meshes.front();
    while (mesh.find_axis(name) || !indices_.insert(name).second) name += "_";
    return name;
  }

  // ---- one body of all cursors

  void join_level(std::vector<Cursor>& cursors, std::vector<Instruction>& out) {
    Traffic traffic;
    while (true) {
      bool progress = false, done = true;
      for (Cursor& cursor : cursors) {
        while (!cursor.at_end() && advance(cursor, traffic, out)) progress = true;
        done = done && cursor.at_end();
      }
      if (done) break;
      if (!progress && !open_loops(cursors, traffic, out)) stuck(cursors);
    }
    settle(traffic, cursors);
  }

  [[noreturn]] void stuck(const std::vector<Cursor>& cursors) const {
    for (const Cursor& cursor : cursors)
      if (!cursor.at_end())
        throw Refusal("stages cannot be joined: " + quoted(instances_[cursor.instance].name) + " waits for something that another stage does not do before", cursor.instruction().span,
                      "a message or a collective whose other side comes, in a loop of equal trip", "`" + std::string(ir::schema_of(cursor.instruction().op).name) + "`");
    throw InternalError("no cursor waits");
  }

  // Nothing may be left for a later iteration or another body.
  void settle(const Traffic& traffic, const std::vector<Cursor>& cursors) const {
    const ir::Span span = cursors.front().body->empty() ? ir::Span{} : cursors.front().body->front().span;
    for (const auto& [key, messages] : traffic.sent) {
      std::size_t received = 0;
      for (const Cursor& cursor : cursors)
        if (const auto turn = cursor.turns.find(key + " received"); turn != cursor.turns.end()) received = turn->second;
      if (received != messages.size()) throw Refusal("a message is sent in one iteration or loop and received in another", span, "as many receives as sends in each", std::to_string(messages.size()) + " and " + std::to_string(received));
    }
    for (const auto& [key, meeting] : traffic.meetings)
      if (!meeting.written) throw Refusal("a collective across stages is started by some of them only", meeting.arrived.front().second->span);
    if (!traffic.receipts.empty()) throw Refusal("a message is received that is not sent in the same iteration", traffic.receipts.front().instruction->span);
  }

  // Takes the instruction where the cursor stands; false if it has to wait.
  bool advance(Cursor& cursor, Traffic& traffic, std::vector<Instruction>& out) {
    const Instruction& i = cursor.instruction();
    if (i.region != nullptr) {
      std::map<std::string, Link> links;
      links_in(cursor.instance, i.region->body, links);
      if (!links.empty()) return false;
      out.push_back(copied(cursor, i));
    } else if (i.op == OpCode::release) {
      // Lifetimes are checked on the plan itself; other stages may still read what was sent.
    } else if (i.op == OpCode::wait) {
      if (pending_.contains(value(cursor.instance, i.inputs.front()))) return false;
      out.push_back(copied(cursor, i));
    } else if (!crosses(cursor.instance, i)) {
      out.push_back(copied(cursor, i));
    } else if (i.op == OpCode::send) {
      send(cursor, i, traffic, out);
    } else if (i.op == OpCode::recv) {
      if (!receive(cursor, i, traffic, out)) return false;
    } else if (!meet(cursor, i, traffic, out)) {
      return false;
    }
    ++cursor.at;
    cursor.arrived = false;
    return true;
  }

  std::optional<CoordExpr> number_of(const Cursor& cursor, const Instruction& i) const {
    if (!i.attributes.has("number")) return std::nullopt;
    return renamed(i.attributes.get<CoordExpr>("number"), cursor.variables);
  }

  void send(Cursor& cursor, const Instruction& i, Traffic& traffic, std::vector<Instruction>& out) {
    const Link link = link_of(cursor.instance, i);
    ++cursor.turns[link.key];
    traffic.sent[link.key].push_back({value(cursor.instance, i.inputs.front()), number_of(cursor, i)});
    std::erase_if(traffic.receipts, [&](const Traffic::Receipt& receipt) {
      if (receipt.key != link.key || receipt.turn >= traffic.sent[link.key].size()) return false;
      deliver(receipt.instance, *receipt.instruction, receipt.number, traffic.sent[link.key][receipt.turn], out);
      return true;
    });
  }

  void deliver(std::size_t instance, const Instruction& i, const std::optional<CoordExpr>& number, const Message& message, std::vector<Instruction>& out) {
    const ValueId result = value(instance, i.outputs.front());
    const ir::TensorType &sent = stage_.program.value(message.value).type, &received = stage_.program.value(result).type;
    if (sent != received) throw Refusal("a message is received in another type than it was sent in", i.span, ir::to_string(sent), ir::to_string(received));
    if (number && message.number && !ir::equal(*number, *message.number))
      throw Refusal("a message is received under another number than it was sent under", i.span, ir::to_string(*message.number), ir::to_string(*number));
    out.push_back(join::identity(stage_.program, result, message.value, i));
    pending_.erase(result);
  }

  bool receive(Cursor& cursor, const Instruction& i, Traffic& traffic, std::vector<Instruction>& out) {
    const Link link = link_of(cursor.instance, i);
    std::size_t& turn = cursor.turns[link.key + " received"];
    const std::vector<Message>& sent = traffic.sent[link.key];
    if (turn < sent.size()) {
      deliver(cursor.instance, i, number_of(cursor, i), sent[turn], out);
    } else if (i.attributes.get_or<bool>("async", false)) {
      pending_.insert(value(cursor.instance, i.outputs.front()));
      traffic.receipts.push_back({link.key, turn, cursor.instance, &i, number_of(cursor, i)});
    } else {
      return false;
    }
    ++turn;
    return true;
  }

  bool meet(Cursor& cursor, const Instruction& i, Traffic& traffic, std::vector<Instruction>& out) {
    const Link link = link_of(cursor.instance, i);
    const bool async = i.attributes.get_or<bool>("async", false);
    std::size_t& turn = cursor.turns[link.key];
    Meeting& meeting = traffic.meetings[{link.key, cursor.arrived ? turn - 1 : turn}];
    if (!cursor.arrived) {
      ++turn;
      cursor.arrived = true;
      meeting.arrived.emplace_back(cursor.instance, &i);
      pending_.insert(value(cursor.instance, i.outputs.front()));
      if (meeting.arrived.size() == link.members.size()) write(meeting, out);
    }
    return async || meeting.written;
  }

  void write(Meeting& meeting, std::vector<Instruction>& out) {
    const auto& [first, instruction] = meeting.arrived.front();
    const Layout::Group group = layout_.group_of(first, *instruction);
    const bool ordered = instruction->op != OpCode::all_reduce;
    std::vector<join::Side> sides;
    for (const std::size_t member : group.members)
      for (const auto& [instance, side] : meeting.arrived) {
        if (instance != member) continue;
        const Layout::Group other = layout_.group_of(instance, *side);
        if (ordered && (other.members != group.members || other.inner_axes != group.inner_axes || other.stages_are_major != group.stages_are_major))
          throw Refusal("members of a group give it different orders", side->span, "the same `axes`", "others");
        sides.push_back({instance, side, value(instance, side->inputs.front()), value(instance, side->outputs.front())});
      }
    SHARDPROOF_CHECK(sides.size() == group.members.size());
    join::CollectiveWriter(stage_.program, out).write(group, layout_.inner_size(group), sides);
    for (const join::Side& side : sides) pending_.erase(side.result);
    meeting.written = true;
  }

  // ---- loops of several stages

  // Opens one set of loops that communicate with each other; false if there is none that is complete.
  bool open_loops(std::vector<Cursor>& cursors, const Traffic& traffic, std::vector<Instruction>& out) {
    std::map<std::size_t, Cursor*> waiting;  // at a loop, by instance
    std::map<std::size_t, std::map<std::string, Link>> links;
    for (Cursor& cursor : cursors) {
      if (cursor.at_end() || cursor.instruction().region == nullptr) continue;
      waiting[cursor.instance] = &cursor;
      links_in(cursor.instance, cursor.instruction().region->body, links[cursor.instance]);
    }
    std::set<std::size_t> seen;
    for (const auto& [start, unused] : waiting) {
      if (seen.contains(start)) continue;
      std::vector<std::size_t> set{start};
      bool complete = true;
      seen.insert(start);
      for (std::size_t k = 0; k < set.size() && complete; ++k)
        for (const auto& [key, link] : links[set[k]])
          for (const std::size_t member : link.members) {
            complete = complete && waiting.contains(member) && links[member].contains(key);
            if (complete && seen.insert(member).second) set.push_back(member);
          }
      if (!complete) continue;
      std::sort(set.begin(), set.end());
      std::vector<Cursor*> members;
      for (const std::size_t instance : set) members.push_back(waiting[instance]);
      open(members, links, traffic, out);
      return true;
    }
    return false;
  }

  void open(const std::vector<Cursor*>& members, std::map<std::size_t, std::map<std::string, Link>>& links, const Traffic& traffic, std::vector<Instruction>& out) {
    const ir::Region& first = *members.front()->instruction().region;
    Instruction loop = members.front()->instruction();
    loop.action.clear();
    loop.inputs.clear();
    loop.outputs.clear();
    auto region = std::make_shared<ir::Region>();
    region->trip = first.trip;
    region->trip_span = first.trip_span;
    region->index = open_index(first.index);
    std::vector<Cursor> inner;
    for (Cursor* member : members) {
      const ir::Region& own = *member->instruction().region;
      if (own.trip != first.trip)
        throw Refusal("loops of stages that communicate have different trips", own.trip_span.known() ? own.trip_span : member->instruction().span, std::to_string(first.trip), std::to_string(own.trip));
      for (const auto& [key, link] : links[member->instance]) in_step(key, link, members, traffic, member->instruction().span);
      Cursor cursor{member->instance, &own.body, 0, member->variables};
      cursor.variables[own.index] = ir::variable_expr(region->index);
      inner.push_back(std::move(cursor));
      for (const ir::Carry& carry : own.carries) {
        region->carries.push_back(mapped(member->instance, carry));
        loop.inputs.push_back(region->carries.back().init);
        loop.outputs.push_back(region->carries.back().result);
      }
    }
    join_level(inner, region->body);
    indices_.erase(region->index);
    loop.region = std::move(region);
    out.push_back(std::move(loop));
    for (Cursor* member : members) ++member->at;
  }

  // Before a loop that uses a link, its ends have started equally much on it outside.
  void in_step(const std::string& key, const Link& link, const std::vector<Cursor*>& members, const Traffic& traffic, ir::Span span) const {
    std::set<std::size_t> counts;
    for (const Cursor* member : members) {
      const auto count = [&](const std::string& of) {
        const auto found = member->turns.find(of);
        return found == member->turns.end() ? std::size_t{0} : found->second;
      };
      if (link.message && member->instance == link.members[0]) counts.insert(count(key));
      if (link.message && member->instance == link.members[1]) counts.insert(count(key + " received"));
      if (!link.message && std::find(link.members.begin(), link.members.end(), member->instance) != link.members.end()) counts.insert(count(key));
    }
    const bool open = std::any_of(traffic.meetings.begin(), traffic.meetings.end(), [&](const auto& entry) { return entry.first.first == key && !entry.second.written; });
    if (counts.size() > 1 || open) throw Refusal("stages communicate in a loop before what they started outside of it has its other side", span);
  }

  const ir::Document& document_;
  const Layout layout_;
  const std::vector<Instance>& instances_ = layout_.instances();
  std::vector<std::int32_t> first_value_;  // of each instance: ids of its values start here
  ir::StageProgram stage_;
  std::set<std::string> indices_;  // of open loops
  std::set<ValueId> pending_;      // results of transfers that have not taken place
};

}  // namespace

bool has_stages(const ir::Plan& plan) {
  return plan.stages.size() > 1 || plan.schedule.has_value() || (plan.stages.size() == 1 && !plan.stages.front().where.empty());
}

std::variant<ir::Document, ir::Diagnostic> join_stages(const ir::Document& document) {
  try {
    return Joiner(document).run();
  } catch (const Refusal& refusal) {
    return ir::make_error("SP0905", "unsupported", refusal.what(), refusal.span, refusal.expected, refusal.found);
  } catch (const std::overflow_error&) {
    return ir::make_error("SP0905", "unsupported", "stages cannot be joined: an index expression leaves 64 bits", document.plan.stages.front().span);
  }
}

}  // namespace shardproof::lowering

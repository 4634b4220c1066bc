#include "verifier/structure/matching.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>

#include "ir/axis_table.h"
#include "verifier/structure/cursor.h"

namespace shardproof::verifier::structure {

namespace {

constexpr std::int64_t kMaxSteps = std::int64_t{1} << 20;  // of two sequences that are compared event by event

// What a message is numbered with on one side, as far as it is known.
enum class Numbers { equal, different, unknown };

class Matching {
 public:
  Matching(const ir::Plan& plan, const RankClasses& classes, const Communication& communication, Findings& findings)
      : plan_(plan), classes_(classes), communication_(communication), findings_(findings), axes_(plan.meshes), violations_(findings.violations) {
    std::map<std::tuple<std::size_t, bool, std::size_t, ir::OpCode>, std::size_t> count;
    for (const Site& site : communication.sites)
      turns_.push_back(count[{site.stage, site.message, site.link, site.message ? site.instruction->op : ir::OpCode::all_reduce}]++);
  }

  bool run() {
    for (std::size_t link = 0; link < communication_.communicators.size(); ++link) collectives(link);
    for (std::size_t link = 0; link < communication_.channels.size(); ++link) messages(link);
    return matched_;
  }

 private:
  struct Side {
    std::size_t stage = 0;
    std::vector<Item> items;
    std::string ranks;
  };

  // ---- collectives

  void collectives(std::size_t link) {
    const Communicator& communicator = communication_.communicators[link];
    if (!communicator.crosses) return;
    std::map<std::pair<std::size_t, std::size_t>, bool> compared;  // stages
    for (const std::vector<std::size_t>& members : communicator.groups.members) {
      if (members.size() < 2) continue;
      std::optional<Side> first;
      std::vector<Side> others;
      for (const std::size_t cls : members) {
        const std::size_t stage = classes_.stage_of(cls);
        Side side{stage, communication_.on_link(stage, false, link), ranks_text(plan_, classes_, cls, stage)};
        if (!first && !side.items.empty()) first = std::move(side);
        else others.push_back(std::move(side));
      }
      if (!first) continue;  // nobody uses this group
      for (const Side& other : others)
        if (compared.emplace(std::pair(first->stage, other.stage), true).second && first->stage != other.stage) compare(*first, other, communicator.text);
    }
  }

  void compare(const Side& a, const Side& b, const std::string& group) {
    Cursor x(a.items), y(b.items);
    std::int64_t place = 0;
    for (std::int64_t steps = 0;; ++steps) {
      if (steps > kMaxSteps) return too_long("collectives over " + group, b.stage);
      if (!x.at_end() && !y.at_end() && x.item().kind == Item::Kind::loop && y.item().kind == Item::Kind::loop &&
          x.item().instruction->region->trip == y.item().instruction->region->trip && alike(x.item().body, y.item().body, steps)) {
        x.advance();
        y.advance();
        continue;
      }
      if (enter(x) || enter(y)) continue;
      if (x.at_end() && y.at_end()) return;
      ++place;
      if (x.at_end() || y.at_end()) return one_more(x.at_end() ? b : a, x.at_end() ? a : b, x.at_end() ? y : x, place, group);
      const auto differs = difference(signature(x.item().site), signature(y.item().site));
      if (differs) return mismatch(a, b, x, y, place, group, *differs);
      if (!same_iteration(x, y)) return undecided_iteration("collectives over " + group, x, y);
      x.advance();
      y.advance();
    }
  }

  static bool enter(Cursor& cursor) {
    if (cursor.at_end() || !cursor.item().has_body()) return false;
    cursor.enter();
    return true;
  }

  bool alike(const std::vector<Item>& a, const std::vector<Item>& b, std::int64_t& steps) const {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      ++steps;
      if (a[i].kind != b[i].kind) return false;
      if (a[i].kind == Item::Kind::loop) {
        if (a[i].instruction->region->trip != b[i].instruction->region->trip || !alike(a[i].body, b[i].body, steps)) return false;
      } else if (difference(signature(a[i].site), signature(b[i].site)) || numbered(a[i].site) || numbered(b[i].site)) {
        return false;
      }
    }
    return true;
  }

  Signature signature(std::size_t site) const { return signature_of(plan_, communication_.sites[site]); }
  bool numbered(std::size_t site) const { return communication_.sites[site].instruction->attributes.has("number"); }
  ir::Span span(std::size_t site) const { return communication_.sites[site].instruction->span; }

  // Whether both sides start the same collectives, only not in the same order. Loops that are left at different places count as
  // different.
  static bool same_set(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    auto x = a, y = b;
    std::sort(x.begin(), x.end());
    std::sort(y.begin(), y.end());
    return x == y;
  }
  std::vector<std::string> all_of(const Side& side) const {
    std::vector<std::string> texts;
    Cursor cursor(side.items);
    while (!cursor.at_end() && texts.size() < 4096) {
      if (enter(cursor)) continue;
      const Signature s = signature(cursor.item().site);
      std::string text = std::string(ir::schema_of(s.op).name) + s.reduce + std::to_string(s.argument) + std::string(ir::dtype_name(s.type.dtype)) +
                         std::to_string(ir::element_count(s.type.shape));
      for (const std::string& axis : s.order) text += "," + axis;
      texts.push_back(std::move(text));
      cursor.advance();
    }
    return texts;
  }

  void mismatch(const Side& a, const Side& b, const Cursor& x, const Cursor& y, std::int64_t place, const std::string& group, const Difference& differs) {
    const bool order = same_set(all_of(a), all_of(b));
    const std::string first = describe(plan_, communication_.sites[x.item().site]), second = describe(plan_, communication_.sites[y.item().site]);
    ir::Diagnostic d;
    d.message = order ? a.ranks + " and " + b.ranks + " start their collectives over " + group + " in different orders"
                      : "collective " + std::to_string(place) + " over " + group + " is not the same for " + a.ranks + " and " + b.ranks + ": " + differs.in + " differs";
    d.labels.push_back({span(y.item().site), "here" + y.iteration_text() + ": " + differs.b, true});
    d.labels.push_back({span(x.item().site), "and here" + x.iteration_text() + ": " + differs.a, false});
    d.expected = order ? "on all ranks of a group the same order: " + first + " is number " + std::to_string(place) : "what the others of the group start: " + first;
    d.found = second;
    d.fix = ir::Fix{order ? "start the collectives over " + group + " in one order in both stages" : "let both stages start the same collective", {}, ir::Applicability::display_only};
    add("SP0301", "mismatched-collective", std::move(d), y.item().site, b.ranks, group + differs.in);
  }

  void one_more(const Side& more, const Side& fewer, const Cursor& at, std::int64_t place, const std::string& group) {
    ir::Diagnostic d;
    d.message = more.ranks + " start collective " + std::to_string(place) + " over " + group + ", and " + fewer.ranks +
                (place == 1 ? " take part in none" : " take part in " + std::to_string(place - 1) + " only");
    d.labels.push_back({span(at.item().site), "started here" + at.iteration_text() + ", and waited for by nobody else", true});
    d.expected = "the same collective in stage `" + plan_.stages[fewer.stage].name + "`";
    d.found = "none";
    d.fix = ir::Fix{"let all ranks of the group take part, or none", {}, ir::Applicability::display_only};
    add("SP0301", "mismatched-collective", std::move(d), at.item().site, fewer.ranks, group + "count");
  }

  // A schedule may let the two sides take iterations in different orders. What is proved of the values takes both sides of a transfer
  // from one iteration and from the same place of its text (lowering/join_stages.h).
  bool same_iteration(const Cursor& x, const Cursor& y) const {
    if (x.microbatch() != y.microbatch()) return false;
    return x.microbatch() < 0 || turns_[x.item().site] == turns_[y.item().site];
  }

  void undecided_iteration(const std::string& what, const Cursor& x, const Cursor& y) {
    matched_ = false;
    ir::Diagnostic d = ir::make_error("SP0905", "unsupported", "the two sides of " + what + " do not take the iterations in the same order", span(y.item().site),
                                      "both sides in one iteration and at the same place of it, as" + x.iteration_text(), "with" + y.iteration_text(),
                                      "let the schedule run the microbatches in one order on both sides, or use a channel for each place");
    d.subject.instruction = describe(plan_, communication_.sites[y.item().site]);
    findings_.undecided.push_back(std::move(d));
  }

  // ---- messages

  void messages(std::size_t link) {
    const Channel& channel = communication_.channels[link];
    Side sender{channel.from, {}, "stage `" + plan_.stages[channel.from].name + "`"};
    Side receiver{channel.to, {}, "stage `" + plan_.stages[channel.to].name + "`"};
    sender.items = only(communication_.on_link(channel.from, true, link), ir::OpCode::send);
    receiver.items = only(communication_.on_link(channel.to, true, link), ir::OpCode::recv);
    Cursor x(sender.items), y(receiver.items);
    std::int64_t place = 0;
    const std::string what = "messages of channel `" + channel.name + "` from " + sender.ranks + " to " + receiver.ranks;
    for (std::int64_t steps = 0;; ++steps) {
      if (steps > kMaxSteps) return too_long(what, channel.to);
      if (!x.at_end() && !y.at_end() && x.item().kind == Item::Kind::loop && y.item().kind == Item::Kind::loop &&
          x.item().instruction->region->trip == y.item().instruction->region->trip && alike(x.item().body, y.item().body, steps)) {
        x.advance();
        y.advance();
        continue;
      }
      if (enter(x) || enter(y)) continue;
      if (x.at_end() && y.at_end()) return;
      ++place;
      if (x.at_end() || y.at_end()) return unmatched(channel, x.at_end(), x.at_end() ? y : x, place);
      if (const auto differs = difference(signature(x.item().site), signature(y.item().site))) return other_message(channel, x, y, place, *differs);
      switch (numbers(x, y)) {
        case Numbers::equal: break;
        case Numbers::different: return other_number(channel, x, y, place);
        case Numbers::unknown: return undecided_number(what, y.item().site);
      }
      if (!same_iteration(x, y)) return undecided_iteration(what, x, y);
      x.advance();
      y.advance();
    }
  }

  std::vector<Item> only(const std::vector<Item>& items, ir::OpCode op) const {
    std::vector<Item> kept;
    for (const Item& item : items) {
      if (item.kind == Item::Kind::start && communication_.sites[item.site].instruction->op == op) kept.push_back(item);
      if (!item.has_body()) continue;
      Item part{item.kind, 0, item.instruction, only(item.body, op), item.iteration, item.cell};
      if (!part.body.empty()) kept.push_back(std::move(part));
    }
    return kept;
  }

  // The number at one corner of the mesh: loop indices as they are, coordinates of the stage, and 0 or the last coordinate along
  // all other axes. nullopt: along some axis the stages lie at several coordinates, and not at the same ones.
  std::optional<std::int64_t> number(const Cursor& cursor, const ir::StageProgram& own, const ir::StageProgram& other, bool last) const {
    const ir::CoordExpr& e = communication_.sites[cursor.item().site].instruction->attributes.get<ir::CoordExpr>("number");
    bool known = true;
    const std::int64_t value = ir::evaluate(e, [&](const std::string& name) -> std::int64_t {
      if (const std::int64_t* index = cursor.index(name)) return *index;
      const auto here = coordinates_of(own, name), there = coordinates_of(other, name);
      if (here.size() == 1) return here.front();
      known = known && here == there;
      if (!here.empty()) return last ? here.back() : here.front();
      return last ? axes_.size(name) - 1 : 0;
    });
    return known ? std::optional(value) : std::nullopt;
  }

  // A message that only one side numbers is matched by its turn alone.
  Numbers numbers(const Cursor& x, const Cursor& y) const {
    if (!numbered(x.item().site) || !numbered(y.item().site)) return Numbers::equal;
    const Site& sent = communication_.sites[x.item().site];
    const Site& received = communication_.sites[y.item().site];
    const ir::StageProgram& from = plan_.stages[sent.stage];
    const ir::StageProgram& to = plan_.stages[received.stage];
    try {
      for (const bool last : {false, true}) {
        const auto a = number(x, from, to, last), b = number(y, to, from, last);
        if (!a || !b) return Numbers::unknown;
        if (*a != *b) return Numbers::different;
      }
      return same_between(x, y, from, to);
    } catch (const std::overflow_error&) {
      return Numbers::unknown;
    }
  }

  // Between the corners: equal if both depend on the other coordinates in the same way.
  Numbers same_between(const Cursor& x, const Cursor& y, const ir::StageProgram& from, const ir::StageProgram& to) const {
    const auto& a = communication_.sites[x.item().site].instruction->attributes.get<ir::CoordExpr>("number");
    const auto& b = communication_.sites[y.item().site].instruction->attributes.get<ir::CoordExpr>("number");
    return ir::equal(known_part(a, x, from), known_part(b, y, to)) ? Numbers::equal : Numbers::unknown;
  }

  // The expression with the values of loop indices and of the coordinates that the stage or the mesh leaves no choice of.
  ir::CoordExpr known_part(const ir::CoordExpr& e, const Cursor& cursor, const ir::StageProgram& stage) const {
    return ir::substitute(e, [&](const std::string& name) {
      const auto at = coordinates_of(stage, name);
      if (const std::int64_t* index = cursor.index(name)) return ir::constant_expr(*index);
      if (at.size() == 1) return ir::constant_expr(at.front());
      return axes_.size(name) == 1 ? ir::constant_expr(0) : ir::variable_expr(name);
    });
  }

  void unmatched(const Channel& channel, bool received_only, const Cursor& at, std::int64_t place) {
    const std::string from = plan_.stages[channel.from].name, to = plan_.stages[channel.to].name;
    ir::Diagnostic d;
    d.message = received_only ? "stage `" + to + "` waits for message " + std::to_string(place) + " of channel `" + channel.name + "`, and stage `" + from + "` sends " + std::to_string(place - 1)
                              : "stage `" + from + "` sends message " + std::to_string(place) + " of channel `" + channel.name + "`, and stage `" + to + "` receives " + std::to_string(place - 1);
    d.labels.push_back({span(at.item().site), (received_only ? "received here" : "sent here") + at.iteration_text(), true});
    d.expected = received_only ? "a `send` to it in stage `" + from + "`" : "a `recv` of it in stage `" + to + "`";
    d.found = "none";
    d.fix = ir::Fix{"give each message one `send` and one `recv`", {}, ir::Applicability::display_only};
    add("SP0303", "unmatched-message", std::move(d), at.item().site, received_only ? "ranks of stage `" + to + "`" : "ranks of stage `" + from + "`", channel.name);
  }

  void other_message(const Channel& channel, const Cursor& x, const Cursor& y, std::int64_t place, const Difference& differs) {
    ir::Diagnostic d;
    d.message = "message " + std::to_string(place) + " of channel `" + channel.name + "` from stage `" + plan_.stages[channel.from].name + "` to stage `" + plan_.stages[channel.to].name +
                "` is received as another tensor than it was sent: " + differs.in + " differs";
    pair(d, x, y, differs.a, differs.b);
    d.fix = ir::Fix{"receive the messages with their types and in the order in which they are sent", {}, ir::Applicability::display_only};
    add("SP0303", "unmatched-message", std::move(d), y.item().site, "ranks of stage `" + plan_.stages[channel.to].name + "`", channel.name + differs.in);
  }

  void other_number(const Channel& channel, const Cursor& x, const Cursor& y, std::int64_t place) {
    const auto text = [&](const Cursor& c, std::size_t own, std::size_t other) {
      const auto first = number(c, plan_.stages[own], plan_.stages[other], false), last = number(c, plan_.stages[own], plan_.stages[other], true);
      return "number " + std::to_string(*first) + (*last != *first ? " to " + std::to_string(*last) : "");
    };
    ir::Diagnostic d;
    d.message = "messages of channel `" + channel.name + "` from stage `" + plan_.stages[channel.from].name + "` to stage `" + plan_.stages[channel.to].name +
                "` are received in another order than they are sent: message " + std::to_string(place) + " has another number";
    pair(d, x, y, text(x, channel.from, channel.to), text(y, channel.to, channel.from));
    d.fix = ir::Fix{"receive the messages in the order in which they are sent", {}, ir::Applicability::display_only};
    add("SP0303", "unmatched-message", std::move(d), y.item().site, "ranks of stage `" + plan_.stages[channel.to].name + "`", channel.name + "number");
  }

  void pair(ir::Diagnostic& d, const Cursor& x, const Cursor& y, const std::string& sent, const std::string& received) {
    d.labels.push_back({span(y.item().site), "received here" + y.iteration_text() + ": " + received, true});
    d.labels.push_back({span(x.item().site), "sent here" + x.iteration_text() + ": " + sent, false});
    d.expected = sent;
    d.found = received;
  }

  // ---- reports

  void add(const std::string& code, const std::string& name, ir::Diagnostic d, std::size_t site, const std::string& ranks, const std::string& kind) {
    matched_ = false;
    d.code = code;
    d.name = name;
    d.subject.instruction = describe(plan_, communication_.sites[site]);
    const ir::Instruction& i = *communication_.sites[site].instruction;
    const ir::Program& program = plan_.stages[communication_.sites[site].stage].program;
    d.subject.value = program.value(i.outputs.empty() ? i.inputs.front() : i.outputs.front()).name;
    d.subject.rank = ranks;
    violations_.add(std::move(d), kind);
  }

  void undecided(std::string message, ir::Span place, std::string expected, std::string found) {
    matched_ = false;
    findings_.undecided.push_back(ir::make_error("SP0905", "unsupported", std::move(message), place, std::move(expected), std::move(found)));
  }
  void too_long(const std::string& what, std::size_t stage) {
    undecided(what + " are not matched: there are too many of them in loops that differ", plan_.stages[stage].span, "loops with equal trip counts on both sides", "other loops");
  }
  void undecided_number(const std::string& what, std::size_t site) {
    undecided(what + " are not matched: their numbers depend on coordinates in different ways", span(site), "equal expressions", describe(plan_, communication_.sites[site]));
  }

  const ir::Plan& plan_;
  const RankClasses& classes_;
  const Communication& communication_;
  Findings& findings_;
  ir::AxisTable axes_;
  Grouped violations_;
  std::vector<std::size_t> turns_;  // of each site: how many of its kind on its link stand before it in its program
  bool matched_ = true;
};

}  // namespace

bool check_matching(const ir::Plan& plan, const RankClasses& classes, const Communication& communication, Findings& findings) {
  return Matching(plan, classes, communication, findings).run();
}

}  // namespace shardproof::verifier::structure

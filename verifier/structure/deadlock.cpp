#include "verifier/structure/deadlock.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/strong_components.hpp>
#include <map>
#include <set>

#include "verifier/structure/cursor.h"

namespace shardproof::verifier::structure {

namespace {

constexpr std::int64_t kMaxSteps = std::int64_t{1} << 20;

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// The ranks of one class.
struct Process {
  std::size_t stage;
  Cursor cursor;
  std::size_t waits_for = kNone;  // event
  bool ended = false;
  std::map<std::pair<std::size_t, std::int64_t>, std::size_t> last_of_site = {};  // event that the site started last, for each microbatch
  std::map<std::string, std::size_t> last_of_stream = {};
  std::map<std::pair<std::size_t, bool>, std::int64_t> started = {};     // on each link (messages: true) as its n-th
};

// One collective or message: the n-th of a group, or from one class to another.
struct Event {
  // An event that has to end before, because a process started it before on the same stream, or, if that is empty, on the
  // same communicator or channel.
  struct Earlier {
    std::size_t event, process;
    std::string stream;
  };
  std::vector<std::size_t> participants;  // processes
  std::vector<std::size_t> arrived;       // those that have started it
  std::size_t site = kNone;               // where the first of them did
  std::vector<Earlier> after;
  std::vector<std::size_t> before;        // events that wait for this one to end
  std::vector<std::size_t> waiting;       // processes
  bool ended = false;
};

class Run {
 public:
  Run(const ir::Plan& plan, const RankClasses& classes, const Communication& communication, Findings& findings)
      : plan_(plan), classes_(classes), communication_(communication), findings_(findings) {
    for (std::size_t cls = 0; cls < classes.count(); ++cls) processes_.push_back({classes.stage_of(cls), Cursor(communication.scripts[classes.stage_of(cls)])});
    uses_.resize(communication.communicators.size());
    for (const Site& site : communication.sites)
      if (!site.message && communication.communicators[site.link].crosses) uses_[site.link].insert(site.stage);
  }

  void run() {
    for (std::size_t p = 0; p < processes_.size(); ++p) ready_.push_back(p);
    while (!ready_.empty()) {
      const std::size_t p = ready_.back();
      ready_.pop_back();
      proceed(p);
      if (steps_ > kMaxSteps) return too_long();
    }
    // Sends that nobody waits for may be stuck alone.
    const bool hangs = std::any_of(processes_.begin(), processes_.end(), [](const Process& p) { return !p.ended; }) ||
                       std::any_of(events_.begin(), events_.end(), [](const Event& e) { return !e.ended; });
    if (hangs) report();
  }

 private:
  // Message or collective; its link; which of its senders or groups; the how manieth there.
  using Key = std::tuple<bool, std::size_t, std::size_t, std::int64_t>;

  void proceed(std::size_t p) {
    Process& process = processes_[p];
    while (!process.cursor.at_end()) {
      if (++steps_ > kMaxSteps) return;
      const Item& item = process.cursor.item();
      if (item.has_body()) {
        process.cursor.enter();
        continue;
      }
      if (process.waits_for == kNone) {
        const bool starts = item.kind == Item::Kind::start;
        const std::size_t event = starts ? start(p, item.site) : started(process, item.site);
        if (!(starts && communication_.sites[item.site].async()) && !events_[event].ended) {
          process.waits_for = event;
          events_[event].waiting.push_back(p);
          return;
        }
      }
      process.waits_for = kNone;
      process.cursor.advance();
    }
    process.ended = true;
  }

  std::size_t start(std::size_t p, std::size_t site_index) {
    Process& process = processes_[p];
    const Site& site = communication_.sites[site_index];
    const bool receives = site.message && site.instruction->op == ir::OpCode::recv;
    const std::size_t side = site.link * 2 + (receives ? 1 : 0);
    const std::int64_t turn = process.started[{side, site.message}]++;
    const std::size_t event = event_of(p, site, turn);
    const std::size_t before = turn == 0 ? kNone : event_of(p, site, turn - 1);
    const auto depend = [&](std::size_t on, const std::string& stream) {
      if (on == kNone || on == event || events_[on].ended) return;
      events_[event].after.push_back({on, p, stream});
      events_[on].before.push_back(event);
    };
    depend(before, {});
    process.last_of_site[{site_index, process.cursor.microbatch()}] = event;
    if (const std::string stream = site.instruction->attributes.get_or<std::string>("stream", {}); !stream.empty()) {
      const auto [entry, fresh] = process.last_of_stream.emplace(stream, event);
      if (!fresh) depend(entry->second, stream);
      entry->second = event;
    }
    events_[event].arrived.push_back(p);
    if (events_[event].site == kNone) events_[event].site = site_index;
    end_if_possible(event);
    return event;
  }

  // What a wait waits for: the transfer of its own microbatch, or one that was started outside the loop.
  static std::size_t started(const Process& process, std::size_t site) {
    const auto own = process.last_of_site.find({site, process.cursor.microbatch()});
    return own != process.last_of_site.end() ? own->second : process.last_of_site.at({site, -1});
  }

  std::size_t event_of(std::size_t p, const Site& site, std::int64_t turn) {
    if (site.message) {
      const Channel& channel = communication_.channels[site.link];
      const bool sends = site.instruction->op == ir::OpCode::send;
      const auto& own = plan_.stages[sends ? channel.from : channel.to];
      const auto& other = plan_.stages[sends ? channel.to : channel.from];
      const std::size_t peer = *classes_.counterpart(p, own, other);
      const auto [event, fresh] = new_event({true, site.link, sends ? p : peer, turn});
      if (fresh) events_[event].participants = sends ? std::vector<std::size_t>{p, peer} : std::vector<std::size_t>{peer, p};
      return event;
    }
    const GroupClasses& groups = communication_.communicators[site.link].groups;
    const std::size_t group = groups.of_class[p];
    const bool own = groups.members[group].size() == 1;  // ranks of one class, all of them here
    const auto [event, fresh] = new_event({false, site.link, own ? kNone - p : group, turn});
    if (!fresh) return event;
    if (own) events_[event].participants.push_back(p);
    else
      for (const std::size_t cls : groups.members[group])
        if (uses_[site.link].contains(classes_.stage_of(cls))) events_[event].participants.push_back(cls);
    steps_ += static_cast<std::int64_t>(events_[event].participants.size());
    return event;
  }

  std::pair<std::size_t, bool> new_event(const Key& key) {
    const auto [entry, fresh] = event_by_key_.emplace(key, events_.size());
    if (fresh) events_.emplace_back();
    return {entry->second, fresh};
  }

  void end_if_possible(std::size_t first) {
    std::vector<std::size_t> open{first};
    while (!open.empty()) {
      const std::size_t e = open.back();
      open.pop_back();
      Event& event = events_[e];
      if (event.ended || event.arrived.size() < event.participants.size()) continue;
      if (std::any_of(event.after.begin(), event.after.end(), [&](const Event::Earlier& a) { return !events_[a.event].ended; })) continue;
      event.ended = true;
      ready_.insert(ready_.end(), event.waiting.begin(), event.waiting.end());
      open.insert(open.end(), event.before.begin(), event.before.end());
    }
  }

  // ---- who waits for whom

  // Vertices are the processes, then the events. A process waits for an event; an event for processes that have not started it,
  // and for events before it.
  std::size_t vertex(std::size_t event) const { return processes_.size() + event; }

  void report() {
    using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;
    Graph graph(processes_.size() + events_.size());
    for (std::size_t p = 0; p < processes_.size(); ++p)
      if (!processes_[p].ended) boost::add_edge(p, vertex(processes_[p].waits_for), graph);
    for (std::size_t e = 0; e < events_.size(); ++e) {
      const Event& event = events_[e];
      if (event.ended) continue;
      for (const std::size_t p : event.participants)
        if (std::count(event.arrived.begin(), event.arrived.end(), p) < std::count(event.participants.begin(), event.participants.end(), p)) boost::add_edge(vertex(e), p, graph);
      for (const Event::Earlier& earlier : event.after)
        if (!events_[earlier.event].ended) boost::add_edge(vertex(e), vertex(earlier.event), graph);
    }
    std::vector<std::size_t> component(boost::num_vertices(graph));
    const auto count = boost::strong_components(graph, boost::make_iterator_property_map(component.begin(), boost::get(boost::vertex_index, graph)));
    std::vector<std::size_t> size(static_cast<std::size_t>(count));
    for (const std::size_t c : component) ++size[c];
    // One circle of each knot: the ranks in it wait whatever the others do.
    std::vector<bool> told(size.size());
    for (std::size_t v = 0; v < component.size(); ++v) {
      if (size[component[v]] < 2 || told[component[v]]) continue;  // no edge leads from a vertex to itself
      told[component[v]] = true;
      describe_circle(circle_through(graph, v));
    }
  }

  // A shortest circle from p to p, which lies on one.
  template <typename Graph>
  static std::vector<std::size_t> circle_through(const Graph& graph, std::size_t p) {
    std::vector<std::size_t> predecessor(boost::num_vertices(graph), kNone);
    std::vector<std::size_t> distance(boost::num_vertices(graph), 0);
    const auto index = boost::get(boost::vertex_index, graph);
    const auto predecessors = boost::make_iterator_property_map(predecessor.begin(), index);
    const auto distances = boost::make_iterator_property_map(distance.begin(), index);
    boost::breadth_first_search(
        graph, p,
        boost::visitor(boost::make_bfs_visitor(std::pair(boost::record_predecessors(predecessors, boost::on_tree_edge()),
                                                         boost::record_distances(distances, boost::on_tree_edge())))));
    std::size_t last = kNone;
    for (std::size_t v = 0; v < predecessor.size(); ++v)
      if ((v == p || predecessor[v] != kNone) && boost::edge(v, p, graph).second && (last == kNone || distance[v] < distance[last])) last = v;
    std::vector<std::size_t> circle;
    for (std::size_t v = last; v != kNone; v = predecessor[v]) circle.push_back(v);
    std::reverse(circle.begin(), circle.end());
    return circle;
  }

  std::string ranks(std::size_t p) const { return ranks_text(plan_, classes_, p, processes_[p].stage); }

  std::string event_text(std::size_t e) const { return describe(plan_, communication_.sites[events_[e].site]); }
  ir::Span event_span(std::size_t e) const { return communication_.sites[events_[e].site].instruction->span; }

  void describe_circle(const std::vector<std::size_t>& circle) {
    ir::Diagnostic d;
    d.code = "SP0302";
    d.name = "deadlock";
    const std::size_t first_event = processes_.size();
    std::vector<std::size_t> who;  // processes in the order of the circle
    for (std::size_t k = 0; k < circle.size(); ++k) {
      const std::size_t here = circle[k], next = circle[(k + 1) % circle.size()], last = circle[(k + circle.size() - 1) % circle.size()];
      if (here < first_event) {
        stuck(here, circle[(k + 2) % circle.size()], d);
        who.push_back(here);
      } else if (next >= first_event) {
        const auto& after = events_[here - first_event].after;
        const auto earlier = std::find_if(after.begin(), after.end(), [&](const Event::Earlier& a) { return vertex(a.event) == next; });
        d.notes.push_back(event_text(here - first_event) + " comes after " + event_text(next - first_event) + (earlier->stream.empty() ? "" : " on stream `" + earlier->stream + "`") +
                          " of " + ranks(earlier->process));
        d.labels.push_back({event_span(next - first_event), "what comes before it", d.labels.empty()});
        who.push_back(earlier->process);
      } else if (last >= first_event) {
        d.notes.push_back(event_text(here - first_event) + " waits for " + ranks(next));
      }
    }
    const std::set<std::size_t> kinds(who.begin(), who.end());
    d.message = kinds.size() == 1   ? ranks(who[0]) + " wait for themselves"
                : kinds.size() == 2 ? ranks(*kinds.begin()) + " and " + ranks(*kinds.rbegin()) + " wait for each other"
                                    : "ranks of " + std::to_string(kinds.size()) + " kinds wait for each other, so that the step never ends";
    for (const std::size_t p : who) d.found += classes_.describe(p) + " -> ";
    d.found += classes_.describe(who[0]);
    for (const std::size_t p : kinds) d.subject.rank += (d.subject.rank.empty() ? "ranks " : "; ") + classes_.describe(p);
    const std::size_t event = *std::find_if(circle.begin(), circle.end(), [&](std::size_t v) { return v >= first_event; }) - first_event;
    d.subject.instruction = event_text(event);
    d.expected = "an order in which every wait ends";
    d.fix = ir::Fix{"start what they share in the same order on all of them, or start one of the transfers with `async` and wait for it later", {},
                    ir::Applicability::display_only};
    findings_.violations.push_back(std::move(d));
  }

  // A process at its wait; `then`: the vertex behind the event that it waits for.
  void stuck(std::size_t p, std::size_t then, ir::Diagnostic& d) const {
    const Process& process = processes_[p];
    const Item& item = process.cursor.item();
    const Site& site = communication_.sites[item.site];
    const bool waits = item.kind == Item::Kind::wait;
    const std::string iteration = process.cursor.iteration_text();
    d.labels.push_back({(waits ? *item.instruction : *site.instruction).span, "ranks " + classes_.describe(p) + " wait here" + iteration, d.labels.empty()});
    d.notes.push_back(ranks(p) + " wait in " + (waits ? "the wait for " : "") + describe(plan_, site) + iteration +
                      (then >= processes_.size() ? "" : then == p ? " for themselves" : " for " + ranks(then)));
  }

  void too_long() {
    findings_.undecided.push_back(ir::make_error("SP0905", "unsupported", "the step communicates between stages too often to follow it, so deadlocks are not excluded",
                                                 plan_.stages.front().span, "at most " + std::to_string(kMaxSteps) + " transfers", "more"));
  }

  const ir::Plan& plan_;
  const RankClasses& classes_;
  const Communication& communication_;
  Findings& findings_;
  std::vector<Process> processes_;  // as the classes
  std::vector<std::set<std::size_t>> uses_;  // of each communicator: stages
  std::vector<Event> events_;
  std::map<Key, std::size_t> event_by_key_;
  std::vector<std::size_t> ready_;
  std::int64_t steps_ = 0;
};

}  // namespace

void check_deadlock(const ir::Plan& plan, const RankClasses& classes, const Communication& communication, Findings& findings) {
  Run(plan, classes, communication, findings).run();
}

}  // namespace shardproof::verifier::structure

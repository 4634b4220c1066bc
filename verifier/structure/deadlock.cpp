#include "verifier/structure/deadlock.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/strong_components.hpp>
#include <map>
#include <set>
#include <unordered_map>

#include "verifier/structure/cursor.h"

namespace shardproof::verifier::structure {

namespace {

constexpr std::int64_t kMaxSteps = std::int64_t{1} << 20;

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// The ranks of one class in one of their programs.
struct Process {
  std::size_t cls, stage;
  Cursor cursor;
  std::size_t waits_for = kNone;  // event
  bool ended = false;
  std::unordered_map<std::size_t, std::size_t> last_of_site = {};        // event that the site started last
  std::map<std::string, std::size_t> last_of_stream = {};
  std::map<std::pair<std::size_t, bool>, std::int64_t> started = {};     // on each link (messages: true) as its n-th
};

// One collective or message: the n-th of a group, or from one class to another.
struct Event {
  std::vector<std::size_t> participants;  // processes
  std::vector<std::size_t> arrived;       // those that have started it
  std::vector<std::size_t> after;         // events that have to end before
  std::vector<std::size_t> before;        // events that wait for this one to end
  std::vector<std::size_t> waiting;       // processes
  bool ended = false;
};

class Run {
 public:
  Run(const ir::Plan& plan, const RankClasses& classes, const Communication& communication, Findings& findings)
      : plan_(plan), classes_(classes), communication_(communication), findings_(findings) {
    for (std::size_t cls = 0; cls < classes.count(); ++cls)
      for (const std::size_t stage : classes.stages_of(cls)) {
        process_of_[{cls, stage}] = processes_.size();
        processes_.push_back({cls, stage, Cursor(communication.scripts[stage])});
      }
    uses_.resize(communication.communicators.size());
    for (std::size_t link = 0; link < uses_.size(); ++link)
      for (std::size_t s = 0; s < plan.stages.size(); ++s) uses_[link].push_back(!communication.on_link(s, false, link).empty());
  }

  void run() {
    for (std::size_t p = 0; p < processes_.size(); ++p) ready_.push_back(p);
    while (!ready_.empty()) {
      const std::size_t p = ready_.back();
      ready_.pop_back();
      proceed(p);
      if (steps_ > kMaxSteps) return too_long();
    }
    if (std::any_of(processes_.begin(), processes_.end(), [](const Process& p) { return !p.ended; })) report();
  }

 private:
  void proceed(std::size_t p) {
    Process& process = processes_[p];
    while (!process.cursor.at_end()) {
      if (++steps_ > kMaxSteps) return;
      const Item& item = process.cursor.item();
      if (item.kind == Item::Kind::loop) {
        process.cursor.enter();
        continue;
      }
      if (process.waits_for == kNone) {
        const bool starts = item.kind == Item::Kind::start;
        const std::size_t event = starts ? start(p, item.site) : process.last_of_site.at(item.site);
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
    const auto depend = [&](std::size_t on) {
      if (on == kNone || on == event || events_[on].ended) return;
      events_[event].after.push_back(on);
      events_[on].before.push_back(event);
    };
    depend(before);
    process.last_of_site[site_index] = event;
    if (const std::string stream = site.instruction->attributes.get_or<std::string>("stream", {}); !stream.empty()) {
      const auto [entry, fresh] = process.last_of_stream.emplace(stream, event);
      if (!fresh) depend(entry->second);
      entry->second = event;
    }
    events_[event].arrived.push_back(p);
    end_if_possible(event);
    return event;
  }

  std::size_t event_of(std::size_t p, const Site& site, std::int64_t turn) {
    const Process& process = processes_[p];
    std::vector<std::size_t> participants;
    if (site.message) {
      const Channel& channel = communication_.channels[site.link];
      const bool sends = site.instruction->op == ir::OpCode::send;
      const auto& own = plan_.stages[sends ? channel.from : channel.to];
      const auto& other = plan_.stages[sends ? channel.to : channel.from];
      const std::size_t peer = process_of_.at({*classes_.counterpart(process.cls, own, other), sends ? channel.to : channel.from});
      participants = sends ? std::vector<std::size_t>{p, peer} : std::vector<std::size_t>{peer, p};
    } else {
      const GroupClasses& groups = communication_.communicators[site.link].groups;
      for (const std::size_t cls : groups.members[groups.of_class[process.cls]])
        for (const std::size_t stage : classes_.stages_of(cls))
          if (uses_[site.link][stage]) participants.push_back(process_of_.at({cls, stage}));
    }
    const auto [entry, fresh] = event_by_key_.emplace(std::tuple(site.message, site.link, participants.front(), turn), events_.size());
    if (fresh) events_.push_back({std::move(participants), {}, {}, {}, {}});
    return entry->second;
  }

  void end_if_possible(std::size_t first) {
    std::vector<std::size_t> open{first};
    while (!open.empty()) {
      const std::size_t e = open.back();
      open.pop_back();
      Event& event = events_[e];
      if (event.ended || event.arrived.size() < event.participants.size()) continue;
      if (std::any_of(event.after.begin(), event.after.end(), [&](std::size_t a) { return !events_[a].ended; })) continue;
      event.ended = true;
      ready_.insert(ready_.end(), event.waiting.begin(), event.waiting.end());
      open.insert(open.end(), event.before.begin(), event.before.end());
    }
  }

  // ---- who waits for whom

  // Processes that have not started what `event` needs: itself, or something before it.
  void missing(std::size_t event, std::set<std::size_t>& seen, std::set<std::size_t>& processes) const {
    if (events_[event].ended || !seen.insert(event).second) return;
    const Event& e = events_[event];
    for (const std::size_t p : e.participants)
      if (std::count(e.arrived.begin(), e.arrived.end(), p) < std::count(e.participants.begin(), e.participants.end(), p)) processes.insert(p);
    for (const std::size_t a : e.after) missing(a, seen, processes);
  }

  void report() {
    using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;
    Graph graph(processes_.size());
    for (std::size_t p = 0; p < processes_.size(); ++p) {
      if (processes_[p].ended) continue;
      std::set<std::size_t> seen, others;
      missing(processes_[p].waits_for, seen, others);
      for (const std::size_t q : others) boost::add_edge(p, q, graph);
    }
    std::vector<std::size_t> component(processes_.size());
    const auto count = boost::strong_components(graph, boost::make_iterator_property_map(component.begin(), boost::get(boost::vertex_index, graph)));
    // One circle of each knot: the ranks in it wait whatever the others do.
    std::vector<bool> told(static_cast<std::size_t>(count));
    for (std::size_t p = 0; p < processes_.size(); ++p) {
      if (processes_[p].ended || told[component[p]]) continue;
      const std::vector<std::size_t> circle = circle_through(graph, p);
      if (circle.empty()) continue;
      told[component[p]] = true;
      describe_circle(circle);
    }
  }

  // A shortest circle from p to p; empty: there is none.
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

  std::string ranks(std::size_t p) const { return ranks_text(plan_, classes_, processes_[p].cls, processes_[p].stage); }

  void describe_circle(const std::vector<std::size_t>& circle) {
    ir::Diagnostic d;
    d.code = "SP0302";
    d.name = "deadlock";
    d.message = circle.size() == 1 ? ranks(circle[0]) + " wait for themselves"
                                   : "ranks of " + std::to_string(circle.size()) + " kinds wait for each other, so that the step never ends";
    if (circle.size() == 2) d.message = ranks(circle[0]) + " and " + ranks(circle[1]) + " wait for each other";
    for (std::size_t k = 0; k < circle.size(); ++k) {
      const Process& process = processes_[circle[k]];
      const std::size_t next = circle[(k + 1) % circle.size()];
      const Item& item = process.cursor.item();
      const Site& site = communication_.sites[item.site];
      const ir::Instruction& at = item.kind == Item::Kind::wait ? *item.instruction : *site.instruction;
      const std::string iteration = process.cursor.iteration_text();
      d.labels.push_back({at.span, "ranks " + classes_.describe(process.cls) + " wait here" + iteration, k == 0});
      d.notes.push_back(ranks(circle[k]) + " wait in " + (item.kind == Item::Kind::wait ? "the wait for " : "") + describe(plan_, site) + iteration + " for " +
                        (next == circle[k] ? "themselves" : ranks(next)));
      d.found += (k == 0 ? "" : " -> ") + classes_.describe(process.cls);
      if (k == 0) d.subject.instruction = describe(plan_, site);
      d.subject.rank += (k == 0 ? "ranks " : "; ") + classes_.describe(process.cls);
    }
    d.found += " -> " + classes_.describe(processes_[circle[0]].cls);
    d.expected = "an order in which every wait ends";
    d.fix = ir::Fix{"start what they share in the same order on all of them, or start one of the transfers with `async` and wait for it later", {},
                    ir::Applicability::display_only};
    findings_.violations.push_back(std::move(d));
  }

  void too_long() {
    findings_.undecided.push_back(ir::make_error("SP0905", "unsupported", "the step communicates between stages too often to follow it, so deadlocks are not excluded",
                                                 plan_.stages.front().span, "at most " + std::to_string(kMaxSteps) + " transfers", "more"));
  }

  const ir::Plan& plan_;
  const RankClasses& classes_;
  const Communication& communication_;
  Findings& findings_;
  std::vector<Process> processes_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> process_of_;
  std::vector<std::vector<bool>> uses_;  // of each communicator and stage
  std::vector<Event> events_;
  std::map<std::tuple<bool, std::size_t, std::size_t, std::int64_t>, std::size_t> event_by_key_;
  std::vector<std::size_t> ready_;
  std::int64_t steps_ = 0;
};

}  // namespace

void check_deadlock(const ir::Plan& plan, const RankClasses& classes, const Communication& communication, Findings& findings) {
  Run(plan, classes, communication, findings).run();
}

}  // namespace shardproof::verifier::structure

#include "verifier/structure/lifetimes.h"

#include <algorithm>
#include <unordered_map>

#include "ir/print.h"

namespace shardproof::verifier::structure {

using ir::Instruction;
using ir::OpCode;
using ir::ValueId;

namespace {

class Lifetimes {
 public:
  Lifetimes(const ir::StageProgram& stage, Findings& findings)
      : program_(stage.program), stage_(stage), found_(findings.violations), memory_(program_.values.size()), depth_(program_.values.size(), 0),
        released_(program_.values.size(), nullptr), pending_(program_.values.size(), nullptr), told_(program_.values.size(), false) {
    for (std::size_t v = 0; v < memory_.size(); ++v) memory_[v] = v;
  }

  void run() {
    body(program_.body, 0);
    for (const ir::PlanState& state : stage_.state) result("state `" + state.name + "`", state.next, state.span);
    for (const ir::PlanOutput& output : stage_.outputs) result("output `" + output.name + "`", output.value, output.span);
    left_in_flight(0, "the step");
  }

 private:
  // A transfer that no `wait` has ended.
  struct Flight {
    const Instruction* instruction;
    int depth;  // of the loops around it
  };

  static std::size_t at(ValueId v) { return static_cast<std::size_t>(v.index); }
  const std::string& name(ValueId v) const { return program_.value(v).name; }

  void body(const std::vector<Instruction>& instructions, int depth) {
    for (const Instruction& i : instructions) {
      for (const ValueId v : i.outputs) depth_[at(v)] = depth;
      switch (i.op) {
        case OpCode::release: release(i, depth); break;
        case OpCode::wait: wait(i); break;
        case OpCode::loop: loop(i, depth); break;
        default:
          for (const ValueId v : i.inputs) use(v, i, "is read");
          if (i.attributes.get_or<bool>("async", false)) start(i, depth);
      }
    }
  }

  void start(const Instruction& i, int depth) {
    flights_.push_back({&i, depth});
    for (const ValueId v : i.outputs) pending_[at(v)] = &i;
  }

  void wait(const Instruction& i) {
    const ValueId x = i.inputs.front();
    alive(x, i, "is waited for");
    memory_[at(i.outputs.front())] = memory_[at(x)];
    if (const Instruction* started = pending_[at(x)]) std::erase_if(flights_, [&](const Flight& f) { return f.instruction == started; });
  }

  void loop(const Instruction& i, int depth) {
    const ir::Region& region = *i.region;
    for (const ValueId v : i.inputs) use(v, i, "enters a loop");
    for (const ir::Carry& carry : region.carries) depth_[at(carry.argument)] = depth + 1;
    body(region.body, depth + 1);
    for (const ir::Carry& carry : region.carries) use(carry.next, i, "is carried to the next iteration", carry.span);
    left_in_flight(depth + 1, "an iteration of loop `" + region.index + "`");
  }

  void result(const std::string& what, ValueId v, ir::Span span) {
    Instruction none;
    none.span = span;
    use(v, none, "is what " + what + " becomes,", span, true);
  }

  // A use of the value itself: it is there, and complete.
  void use(ValueId v, const Instruction& i, const std::string& how, ir::Span span = {}, bool at_end = false) {
    if (!alive(v, i, how, span, at_end)) return;
    const Instruction* started = pending_[at(v)];
    if (started == nullptr || told_[at(v)]) return;
    told_[at(v)] = true;
    ir::Diagnostic d;
    d.code = "SP0402";
    d.name = "use-before-ready";
    d.message = "`" + name(v) + "` " + how + " before the wait of the transfer that produces it";
    d.expected = "the result of a `wait` for `" + name(v) + "`";
    d.found = "`" + name(v) + "` itself";
    d.fix = ir::Fix{"wait for `" + name(v) + "` first, and use the result of the `wait`", {}, ir::Applicability::display_only};
    add(std::move(d), v, i, at_end, span, "used here", started->span, "started here");
  }

  bool alive(ValueId v, const Instruction& i, const std::string& how, ir::Span span = {}, bool at_end = false) {
    const Instruction* release = released_[memory_[at(v)]];
    if (release == nullptr) return true;
    dead(v, i, "`" + name(v) + "` " + how + " after its release", span, "used here", release->span, "released here", at_end);
    return false;
  }

  void release(const Instruction& i, int depth) {
    for (const ValueId v : i.inputs) {
      const std::size_t memory = memory_[at(v)];
      if (released_[memory] != nullptr) {
        dead(v, i, "`" + name(v) + "` is released twice", {}, "released again here", released_[memory]->span, "released here", false);
        continue;
      }
      if (depth_[at(v)] < depth || depth_[memory] < depth)
        dead(v, i, "`" + name(v) + "` is released in each iteration of a loop, and defined outside it", {}, "released here", program_.value(v).span, "defined here", false);
      for (const Flight& flight : flights_) {
        const Instruction& f = *flight.instruction;
        const bool writes = std::any_of(f.outputs.begin(), f.outputs.end(), [&](ValueId o) { return memory_[at(o)] == memory; });
        const bool reads = std::any_of(f.inputs.begin(), f.inputs.end(), [&](ValueId o) { return memory_[at(o)] == memory; });
        if (!writes && !reads) continue;
        std::string message = "`" + name(v) + "` is released before its own `wait`";
        if (!writes) message = f.outputs.empty() ? "`" + name(v) + "` is released while an `async` send may still read it" : "`" + name(v) + "` is released before the `wait` for `" + name(f.outputs.front()) + "`";
        if (writes) told_[at(f.outputs.front())] = true;  // that nothing waits for it may be why it was released
        dead(v, i, std::move(message), {}, "released here", f.span, writes ? "being written since here" : "being read since here", false);
        break;
      }
      released_[memory] = &i;
    }
  }

  void dead(ValueId v, const Instruction& i, std::string message, ir::Span span, const std::string& here, ir::Span other, const std::string& there, bool at_end) {
    ir::Diagnostic d;
    d.code = "SP0403";
    d.name = "use-after-release";
    d.message = std::move(message);
    d.expected = "a `release` after the last use";
    d.found = "an earlier one";
    d.fix = ir::Fix{"release `" + name(v) + "` after its last use", {}, ir::Applicability::display_only};
    add(std::move(d), v, i, at_end, span, here, other, there);
  }

  void left_in_flight(int depth, const std::string& scope) {
    std::erase_if(flights_, [&](const Flight& f) {
      if (f.depth < depth) return false;
      const Instruction& i = *f.instruction;
      if (i.outputs.empty()) return false;  // a send, which nothing can wait for
      const ValueId v = i.outputs.front();
      if (told_[at(v)]) return true;  // read without a wait: that is the same mistake
      ir::Diagnostic d;
      d.code = "SP0404";
      d.name = "never-waited";
      d.message = "nothing waits for `" + name(v) + "` before " + scope + " ends";
      d.expected = "a `wait` for it";
      d.found = "a transfer in flight, which writes to memory that is used again";
      d.fix = ir::Fix{"wait for `" + name(v) + "`, or take the transfer out if nobody needs it", {}, ir::Applicability::display_only};
      add(std::move(d), v, i, false, {}, "started here", {}, {});
      return true;
    });
  }

  void add(ir::Diagnostic d, ValueId v, const Instruction& i, bool at_end, ir::Span span, const std::string& here, ir::Span other, const std::string& there) {
    d.subject.value = name(v);
    if (!at_end) d.subject.instruction = ir::describe(program_, i);
    d.labels.push_back({span.known() ? span : i.span, here, true});
    if (!there.empty()) d.labels.push_back({other, there, false});
    if (!i.source.empty()) d.notes.push_back("the plan says this is " + i.source);
    // One cause for each sort of instruction: a producer makes the same mistake in every layer.
    found_.add(std::move(d), std::string(at_end ? "result" : ir::schema_of(i.op).name) + here + there);
  }

  const ir::Program& program_;
  const ir::StageProgram& stage_;
  Grouped found_;
  std::vector<std::size_t> memory_;               // value whose memory it is
  std::vector<int> depth_;                        // of the loops around the definition
  std::vector<const Instruction*> released_;      // by memory
  std::vector<const Instruction*> pending_;       // what started the transfer that makes the value; not cleared by its wait
  std::vector<bool> told_;
  std::vector<Flight> flights_;
};

}  // namespace

void check_lifetimes(const ir::StageProgram& stage, Findings& findings) { Lifetimes(stage, findings).run(); }

}  // namespace shardproof::verifier::structure

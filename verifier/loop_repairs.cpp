// Loops: trip counts, parts taken by an iteration, carried values.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "verifier/patch.h"
#include "verifier/plan_repairs.h"

namespace shardproof::verifier {
namespace {

using ir::CoordExpr;
using ir::Instruction;
using ir::ValueId;

constexpr std::size_t kMaxTrips = 4;   // other trip counts tried for one loop
constexpr std::size_t kMaxSlices = 6;  // tried one by one
constexpr std::size_t kMaxLeft = 4;    // values that nothing reads, tried in one sum

// A slice in a loop of something from outside of it, that no other variable than the loop's index decides on.
struct Part {
  ValueId value;
  std::string of;
  CoordExpr start, even;  // as it is, and as it is if the iterations take the parts in order
  std::int64_t parts = 1;
  bool in_order() const { return ir::equal(start, even); }
};

class LoopChanges {
 public:
  explicit LoopChanges(Session& session) : program_(session.document().plan.stages.front().program) {}

  std::vector<Repair> all() {
    for (std::size_t at = 0; at < program_.body.size(); ++at)
      if (program_.body[at].region != nullptr) starts(at);
    visit(program_.body);
    return std::move(repairs_);
  }

 private:
  void visit(const std::vector<Instruction>& body) {
    for (const Instruction& i : body) {
      added_twice(i);
      if (i.region == nullptr) continue;
      iterations(i);
      exchanged_carries(i);
      accumulations(i);
      visit(i.region->body);
    }
  }

  const std::string& name(ValueId v) const { return program_.value(v).name; }

  Repair repair(ValueId value, ir::Span span, std::string finding, std::string fix, std::string expected, std::string found) const {
    Repair r;
    r.code = "SP0207";
    r.name = "wrong-value";
    r.finding = std::move(finding);
    r.fix = std::move(fix);
    r.expected = std::move(expected);
    r.found = std::move(found);
    r.value = value;
    r.subject = name(value);
    r.span = span;
    return r;
  }

  std::vector<Part> parts_of(const ir::Region& region) const {
    std::set<ValueId> inside;
    for (const ir::Carry& c : region.carries) inside.insert(c.argument);
    std::vector<Part> parts;
    for (const Instruction& i : region.body) {
      inside.insert(i.outputs.begin(), i.outputs.end());
      if (i.op != ir::OpCode::slice || inside.count(i.inputs[0]) != 0 || i.attributes.get_or<std::int64_t>("stride", 1) != 1) continue;
      const CoordExpr start = i.attributes.get<CoordExpr>("start");
      bool of_index = true;
      ir::for_each_variable(start, [&](const std::string& v) { of_index = of_index && v == region.index; });
      const std::int64_t size = i.attributes.get<std::int64_t>("size");
      const std::int64_t extent = program_.value(i.inputs[0]).type.shape[static_cast<std::size_t>(i.attributes.get<std::int64_t>("dim"))];
      if (!of_index || size == extent || extent % size != 0) continue;
      parts.push_back({i.outputs[0], name(i.inputs[0]), start, ir::variable_expr(region.index, size), extent / size});
    }
    return parts;
  }

  // The iterations take each part once, in order: where they do not, that is what they should do.
  void iterations(const Instruction& loop) {
    const ir::Region& region = *loop.region;
    const std::vector<Part> parts = parts_of(region);
    std::map<std::int64_t, int> votes;
    for (const Part& p : parts)
      if (p.parts == region.trip || !p.start.is_constant()) ++votes[p.parts];
    std::vector<std::pair<int, std::int64_t>> trips;
    for (const auto& [trip, count] : votes) trips.emplace_back(-count, trip);
    std::sort(trips.begin(), trips.end());
    if (trips.size() > kMaxTrips) trips.resize(kMaxTrips);
    for (const auto& [unused, trip] : trips) {
      std::vector<Part> moved;
      for (const Part& p : parts)
        if (p.parts == trip && !p.in_order() && (trip == region.trip || !p.start.is_constant())) moved.push_back(p);
      if (trip != region.trip) propose(loop, trip, {});
      if (!moved.empty()) propose(loop, trip, moved);
      // The batch's tensors are taken alike; a part of something else may be the same in all iterations.
      std::map<std::string, std::vector<Part>> alike;
      for (const Part& p : moved) alike[ir::to_string(p.start) + " " + ir::to_string(p.even)].push_back(p);
      for (const auto& [starts, group] : alike)
        if (group.size() > 1 && group.size() < moved.size()) propose(loop, trip, group);
      for (std::size_t k = 0; moved.size() > 1 && k < moved.size() && k < kMaxSlices; ++k) propose(loop, trip, {moved[k]});
    }
  }

  void propose(const Instruction& loop, std::int64_t trip, const std::vector<Part>& moved) {
    const ir::Region& region = *loop.region;
    const std::string now = std::to_string(region.trip), then = std::to_string(trip);
    std::string slices;
    for (const Part& p : moved) slices += (slices.empty() ? "`" : ", `") + name(p.value) + "`";
    Repair r;
    if (moved.empty()) {
      r = repair(loop.outputs.front(), region.trip_span, "comes from a loop that runs " + now + " times, though there are " + then + " parts",
                 "run loop `" + region.index + "` " + then + " times", then + " iterations", now + " iterations");
    } else {
      const std::string start = ir::to_string(moved[0].even);
      r = repair(moved[0].value, definition(region, moved[0].value).span, "is not the part of `" + moved[0].of + "` that the iteration should take",
                 "start " + slices + " at " + start + (moved.size() > 1 ? " (each at its size times the index)" : "") + (trip == region.trip ? "" : " and run the loop " + then + " times"),
                 "start " + start, "start " + ir::to_string(moved[0].start));
      r.code = "SP0206";
      r.name = "wrong-shard";
    }
    r.change = [loop = loop.outputs.front(), trip, moved](ir::Document& document) {
      std::vector<Instruction>& body = document.plan.stages.front().program.body;
      own_definition(body, loop)->region->trip = trip;
      for (const Part& p : moved) own_definition(body, p.value)->attributes.set("start", p.even);
    };
    repairs_.push_back(std::move(r));
  }

  static const Instruction& definition(const ir::Region& region, ValueId value) {
    return *std::find_if(region.body.begin(), region.body.end(), [&](const Instruction& i) { return !i.outputs.empty() && i.outputs[0] == value; });
  }

  // Which carried values each value of an iteration is computed from.
  class Origins {
   public:
    explicit Origins(const ir::Region& region) {
      for (const ir::Carry& c : region.carries) made_of_[c.argument] = {c.argument};
      for (const Instruction& i : region.body) {
        std::set<ValueId> all;
        for (const ValueId v : i.inputs)
          if (const auto from = made_of_.find(v); from != made_of_.end()) all.insert(from->second.begin(), from->second.end());
        if (!all.empty())
          for (const ValueId out : i.outputs) made_of_[out] = all;
      }
    }
    bool goes_on(ValueId next, ValueId argument) const {
      const auto from = made_of_.find(next);
      return from != made_of_.end() && from->second.count(argument) != 0;
    }

   private:
    std::map<ValueId, std::set<ValueId>> made_of_;
  };

  // Values that go on from what another carry had before, the other way round.
  void exchanged_carries(const Instruction& loop) {
    const ir::Region& region = *loop.region;
    const Origins origins(region);
    for (std::size_t i = 0; i < region.carries.size(); ++i)
      for (std::size_t j = i + 1; j < region.carries.size(); ++j) {
        const ir::Carry &a = region.carries[i], &b = region.carries[j];
        if (origins.goes_on(a.next, a.argument) || origins.goes_on(b.next, b.argument) || !origins.goes_on(a.next, b.argument) || !origins.goes_on(b.next, a.argument)) continue;
        if (program_.value(a.next).type != program_.value(b.next).type) continue;
        Repair r = repair(a.result, a.span, "goes on from what `" + name(b.result) + "` was in the iteration before",
                          "exchange the `next` of `" + name(a.result) + "` and `" + name(b.result) + "`", "next `" + name(b.next) + "`", "next `" + name(a.next) + "`");
        r.change = [value = a.result, i, j](ir::Document& document) {
          ir::Region& changed = *own_definition(document.plan.stages.front().program.body, value)->region;
          std::swap(changed.carries[i].next, changed.carries[j].next);
        };
        repairs_.push_back(std::move(r));
      }
  }

  bool is_copy(const Instruction& i) const { return i.op == ir::OpCode::reshape && program_.value(i.inputs[0]).type == program_.value(i.outputs[0]).type; }

  static std::set<ValueId> read_in(const std::vector<Instruction>& body) {
    std::set<ValueId> read;
    for (const Instruction& i : body) {
      read.insert(i.inputs.begin(), i.inputs.end());
      if (i.region == nullptr) continue;
      for (const ir::Carry& c : i.region->carries) read.insert(c.next);
      read.merge(read_in(i.region->body));
    }
    return read;
  }

  // Sums over the iterations that do not add what is there before, or leave something out that nothing else reads.
  void accumulations(const Instruction& loop) {
    const ir::Region& region = *loop.region;
    const Origins origins(region);
    std::set<ValueId> read = read_in(region.body);
    for (const ir::Carry& c : region.carries) read.insert(c.next);
    std::vector<ValueId> unused;
    for (const Instruction& i : region.body)
      for (const ValueId out : i.outputs)
        if (read.count(out) == 0 && ir::is_float(program_.value(out).type.dtype)) unused.push_back(out);
    for (const ir::Carry& c : region.carries) {
      const bool accumulates = origins.goes_on(c.next, c.argument);
      std::vector<ValueId> left;  // out of the sum
      for (const ValueId v : unused)
        if (program_.value(v).type == program_.value(c.argument).type && left.size() < kMaxLeft) left.push_back(v);
      if (!accumulates || c.next == c.argument)
        for (const ValueId v : left)
          if (origins.goes_on(v, c.argument)) other_next(c, v);
      std::set<ValueId> before{c.next};  // what the next value is copied and added up from
      for (auto i = region.body.rbegin(); i != region.body.rend(); ++i) {
        if (i->outputs.size() != 1 || before.count(i->outputs[0]) == 0) continue;
        if (is_copy(*i) && !accumulates) sum_instead(*i, c.argument, "what was there before");
        for (const ValueId v : left)
          if (is_copy(*i) && accumulates && !origins.goes_on(v, c.argument)) sum_instead(*i, v, "`" + name(v) + "`");
        if (passes_parts(i->op)) before.insert(i->inputs.begin(), i->inputs.end());
      }
      if (!accumulates) added(c, c.next);
      for (const ValueId v : left)
        if (c.next == c.argument && !origins.goes_on(v, c.argument)) added(c, v);
    }
  }

  void other_next(const ir::Carry& carry, ValueId next) {
    Repair r = repair(carry.result, carry.span, "does not go on from one iteration to the next", "let the `next` of `" + name(carry.result) + "` be `" + name(next) + "`",
                      "next `" + name(next) + "`", "next `" + name(carry.next) + "`");
    r.change = [result = carry.result, next](ir::Document& document) {
      for (ir::Carry& c : own_definition(document.plan.stages.front().program.body, result)->region->carries)
        if (c.result == result) c.next = next;
    };
    repairs_.push_back(std::move(r));
  }

  void sum_instead(const Instruction& copy, ValueId other, const std::string& what) {
    const ValueId value = copy.outputs[0];
    Repair r = repair(value, copy.span, "leaves " + what + " out of the sum over the iterations", "add `" + name(copy.inputs[0]) + "` and `" + name(other) + "`",
                      "`" + name(copy.inputs[0]) + "` plus `" + name(other) + "`", "`" + name(copy.inputs[0]) + "` alone");
    r.change = [value, other](ir::Document& document) {
      Instruction& sum = *own_definition(document.plan.stages.front().program.body, value);
      sum.op = ir::OpCode::add;
      sum.attributes = {};
      sum.inputs.push_back(other);
    };
    repairs_.push_back(std::move(r));
  }

  // One more instruction at the end of the body.
  void added(const ir::Carry& carry, ValueId summand) {
    Repair r = repair(carry.result, carry.span, "is not summed over the iterations", "add `" + name(summand) + "` to `" + name(carry.argument) + "` in each iteration",
                      "next `" + name(carry.argument) + "` plus `" + name(summand) + "`", "next `" + name(carry.next) + "`");
    r.change = [result = carry.result, argument = carry.argument, summand](ir::Document& document) {
      ir::Program& program = document.plan.stages.front().program;
      ir::Region& region = *own_definition(program.body, result)->region;
      ir::Value sum = program.value(argument);
      sum.name += ".sum";
      while (program.find(sum.name).valid()) sum.name += "_";
      program.values.push_back(std::move(sum));
      Instruction add;
      add.op = ir::OpCode::add;
      add.inputs = {argument, summand};
      add.outputs = {ValueId{static_cast<std::int32_t>(program.values.size() - 1)}};
      for (ir::Carry& c : region.carries)
        if (c.result == result) c.next = add.outputs[0];
      region.body.push_back(std::move(add));
    };
    repairs_.push_back(std::move(r));
  }

  bool is_zero(const Instruction& i) const { return i.op == ir::OpCode::constant && i.attributes.has("value") && i.attributes.get<ir::Rational>("value") == ir::Rational(0); }

  // Sums over the iterations that start from something: an accumulator that nobody has reset.
  void starts(std::size_t at) {
    const ir::Region& region = *program_.body[at].region;
    const Origins origins(region);
    for (const ir::Carry& c : region.carries) {
      const ir::TensorType& type = program_.value(c.init).type;
      if (!origins.goes_on(c.next, c.argument) || !ir::is_float(type.dtype)) continue;
      ValueId zero;
      bool starts_from_zero = false;
      for (std::size_t k = 0; k < at; ++k) {
        const Instruction& i = program_.body[k];
        if (!is_zero(i) || program_.value(i.outputs[0]).type != type) continue;
        zero = i.outputs[0];
        starts_from_zero = starts_from_zero || zero == c.init;
      }
      if (starts_from_zero || (!zero.valid() && at == 0)) continue;
      Repair r = repair(c.result, c.span, "is summed up from `" + name(c.init) + "` on, not from zero", "start the sum `" + name(c.result) + "` from zero", "`init` zero", "`init` `" + name(c.init) + "`");
      r.code = "SP0509";
      r.name = "accumulator-not-reset";
      r.change = [result = c.result, init = c.init, zero, at](ir::Document& document) { start_from_zero(document, result, init, zero, at); };
      repairs_.push_back(std::move(r));
    }
  }

  static void start_from_zero(ir::Document& document, ValueId result, ValueId init, ValueId zero, std::size_t at) {
    ir::Program& program = document.plan.stages.front().program;
    Instruction& loop = *own_definition(program.body, result);
    if (!zero.valid()) {
      ir::Value value = program.value(init);
      value.name = program.value(result).name + ".zero";
      while (program.find(value.name).valid()) value.name += "_";
      value.span = {};
      zero = ValueId{static_cast<std::int32_t>(program.values.size())};
      program.values.push_back(std::move(value));
    }
    for (std::size_t k = 0; k < loop.region->carries.size(); ++k) {
      if (loop.region->carries[k].result != result) continue;
      loop.region->carries[k].init = zero;
      loop.inputs[k] = zero;
    }
    const auto defines = [&](const Instruction& i) { return !i.outputs.empty() && i.outputs[0] == zero; };
    if (std::any_of(program.body.begin(), program.body.end(), defines)) return;
    Instruction constant;
    constant.op = ir::OpCode::constant;
    constant.outputs = {zero};
    constant.attributes.set("value", ir::Rational(0));
    program.body.insert(program.body.begin() + static_cast<std::ptrdiff_t>(at), std::move(constant));
  }

  void added_twice(const Instruction& i) {
    if (i.op != ir::OpCode::add) return;
    std::vector<ValueId> once;
    for (const ValueId v : i.inputs)
      if (std::find(once.begin(), once.end(), v) == once.end()) once.push_back(v);
    if (once.size() == i.inputs.size()) return;
    Repair r = repair(i.outputs[0], i.span, "adds an operand more than once", "add each operand once", std::to_string(once.size()) + " operands",
                      std::to_string(i.inputs.size()) + " operands, some of them equal");
    r.change = [value = i.outputs[0], once](ir::Document& document) { own_definition(document.plan.stages.front().program.body, value)->inputs = once; };
    repairs_.push_back(std::move(r));
  }

  const ir::Program& program_;
  std::vector<Repair> repairs_;
};

}  // namespace

std::vector<Repair> loop_changes(Session& session) { return LoopChanges(session).all(); }

}  // namespace shardproof::verifier

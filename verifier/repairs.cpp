#include "verifier/repairs.h"

#include <algorithm>
#include <set>

#include "verifier/repairs_parts.h"

namespace shardproof::verifier {

using ir::Instruction;
using ir::OpCode;
using ir::Rational;
using solvers::TermId;
using solvers::TermPool;
using solvers::VarId;

namespace {

constexpr std::int32_t kLargest = 20000;  // the squares of all buckets are one sum

Instruction all_reduce(ir::ValueId value, const Texts& axes, const std::string& kind) {
  Instruction i;
  i.op = OpCode::all_reduce;
  i.inputs = {value};
  i.outputs = {value};
  i.attributes.set("axes", axes);
  i.attributes.set("reduce", kind);
  return i;
}

}  // namespace

Repair missing_reduction(std::size_t step, ir::ValueId value, const Texts& axes, const std::string& kind) {
  Repair r;
  r.code = "SP0201";
  r.name = "missing-reduction";
  for (const std::string& axis : axes) r.axis += (r.axis.empty() ? "" : ",") + axis;
  r.finding = "lacks a " + (kind == "sum" ? std::string("sum") : std::string("maximum")) + " over mesh ax" + (axes.size() > 1 ? "es " : "is ") + join(axes);
  r.fix = "all-reduce it (" + kind + ") over " + join(axes) + " before it is used";
  r.expected = "replicate on " + join(axes);
  r.found = "partial(" + kind + ") on " + join(axes) + ": each rank holds its own summand";
  r.step = step;
  r.value = value;
  r.inserted = all_reduce(value, axes, kind);
  return r;
}

std::vector<Repair> missing_reductions(Session& session, std::size_t step_index, const std::function<bool(ir::ValueId)>& wanted) {
  std::vector<Repair> repairs;
  TermPool& pool = session.pool();
  const Step& step = session.plan_run().steps()[step_index];
  for (ir::ValueId value : step.instruction->outputs) {
    const TermId term = session.plan_run().term(value);
    if (!wanted(value) || pool.node(term).size > kLargest || session.containment().strayed(term)) continue;
    // Whether a further reduction over one of the axes left would complete it.
    const auto completes_later = [&](TermId reduced, const Texts& done) {
      for (const ir::MeshAxis& axis : session.mesh().axes) {
        if (axis.size == 1 || std::find(done.begin(), done.end(), axis.name) != done.end()) continue;
        const VarId c = session.plan_semantics().coordinate(axis.name);
        if (!pool.contains(pool.node(reduced).free, c)) continue;
        const auto all = attempt([&] {
          TermPool::FreshScope scope(pool);
          const VarId v = scope.fresh(axis.size);
          solvers::Substitution s;
          s.set(c, pool.index_var(v));
          return session.folder().refold(pool.reduce(solvers::Reduction::sum, {v}, pool.substitute(reduced, s)));
        });
        if (all && session.folder().is_folded(*all)) return true;
      }
      return false;
    };
    for (const Texts& axes : axis_choices(session.mesh())) {
      if (axes.size() > 1 && axes[0] > axes[1]) continue;  // order does not matter for a sum
      const bool varies = std::all_of(axes.begin(), axes.end(), [&](const std::string& axis) {
        return pool.contains(pool.node(term).free, session.plan_semantics().coordinate(axis));
      });
      if (!varies) continue;
      for (const std::string& kind : Texts{"sum", "max"}) {
        const Instruction reduction = all_reduce(value, axes, kind);
        const auto reduced = attempt([&] { return session.plan_run().evaluate(step, reduction); });
        if (!reduced || *reduced == term) continue;
        if (!session.folder().is_folded(*reduced) && !(kind == "sum" && completes_later(*reduced, axes))) continue;
        Repair r = missing_reduction(step_index, value, axes, kind);
        r.term = *reduced;
        repairs.push_back(std::move(r));
      }
    }
  }
  return repairs;
}

std::vector<Repair> rescalings(Session& session, std::size_t step_index) {
  std::vector<Repair> repairs;
  const Step& step = session.plan_run().steps()[step_index];
  if (step.instruction->outputs.size() != 1) return repairs;
  const ir::ValueId value = step.instruction->outputs[0];
  const TermId term = session.plan_run().term(value);
  if (!ir::is_float(session.plan_program().value(value).type.dtype)) return repairs;
  struct Number {
    std::int64_t size;
    std::string origin;
    std::string axis = {};  // that the value does not depend on
  };
  std::vector<Number> numbers;
  for (const ir::MeshAxis& a : session.mesh().axes)
    if (a.size > 1) {
      const bool varies = session.pool().contains(session.pool().node(term).free, session.plan_semantics().coordinate(a.name));
      numbers.push_back({a.size, "the size of mesh axis `" + a.name + "`", varies ? "" : a.name});
    }
  if (session.mesh().axes.size() > 1) numbers.push_back({session.mesh().size(), "the number of ranks"});
  std::set<std::int64_t> trips;
  for (const Step& s : session.plan_run().steps())
    if (s.instruction->op == OpCode::loop && s.instruction->region->trip > 1 && trips.insert(s.instruction->region->trip).second)
      numbers.push_back({s.instruction->region->trip, "the trip count of loop `" + s.instruction->region->index + "`"});
  numbers.push_back({2, "2"});
  numbers.push_back({-1, "-1"});
  for (const Number& n : numbers) {
    for (const bool up : {true, false}) {
      if (n.size == -1 && !up) continue;
      const Rational factor = up ? Rational(n.size) : Rational(1, n.size);
      Repair r;
      r.code = "SP0205";
      r.name = "wrong-scale";
      r.finding = n.size == -1 ? "has the wrong sign" : "is " + std::string(up ? "too small" : "too large") + " by the factor " + std::to_string(n.size) + (n.size == 2 ? "" : ", " + n.origin);
      r.fix = "multiply it by " + ir::to_string(factor);
      r.expected = "1 times the reference value";
      r.found = ir::to_string(ir::inverse(factor)) + " times the reference value";
      if (!n.axis.empty() && !up) {
        r.code = "SP0202";
        r.name = "double-reduction";
        r.axis = n.axis;
        r.finding = "is the same on all ranks along `" + n.axis + "` and counted once for each of them";
        r.fix = "leave it out of the reduction over `" + n.axis + "`, or multiply it by " + ir::to_string(factor);
      }
      r.step = step_index;
      r.value = value;
      r.term = session.pool().scale(term, factor);
      r.factor = factor;
      r.guess = n.origin == "2" || n.size == -1;
      repairs.push_back(std::move(r));
    }
  }
  return repairs;
}

}  // namespace shardproof::verifier

#include "verifier/repairs.h"

#include <algorithm>
#include <set>

#include "ir/check.h"

namespace shardproof::verifier {

using ir::Instruction;
using ir::OpCode;
using ir::Rational;
using solvers::TermId;
using solvers::TermPool;
using solvers::VarId;
using Texts = std::vector<std::string>;

namespace {

constexpr std::int32_t kLargest = 600;  // larger terms are the debris of an earlier fault

std::string join(const Texts& axes) {
  std::string text;
  for (const std::string& a : axes) text += (text.empty() ? "`" : ", `") + a + "`";
  return text;
}

// Calls f; what the prover cannot express is no hypothesis.
template <typename F>
std::optional<TermId> attempt(F&& f) {
  try {
    return f();
  } catch (const SemanticsError&) {
  } catch (const std::overflow_error&) {
  } catch (const solvers::BudgetExceeded& e) {
    if (e.what_kind != solvers::BudgetExceeded::What::size) throw;
  }
  return std::nullopt;
}

bool is_collective(OpCode op) {
  switch (op) {
    case OpCode::all_reduce:
    case OpCode::all_gather:
    case OpCode::reduce_scatter:
    case OpCode::all_to_all:
    case OpCode::broadcast_from:
    case OpCode::permute: return true;
    default: return false;
  }
}

std::vector<Texts> axis_choices(const ir::Mesh& mesh) {
  std::vector<Texts> choices;
  for (const ir::MeshAxis& a : mesh.axes)
    if (a.size > 1) choices.push_back({a.name});
  for (const ir::MeshAxis& a : mesh.axes)
    for (const ir::MeshAxis& b : mesh.axes)
      if (a.size > 1 && b.size > 1 && a.name != b.name) choices.push_back({a.name, b.name});
  return choices;
}

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

std::vector<Repair> missing_reductions(Session& session, std::size_t step_index, const std::function<bool(ir::ValueId)>& wanted) {
  std::vector<Repair> repairs;
  TermPool& pool = session.pool();
  const Step& step = session.plan_run().steps()[step_index];
  for (ir::ValueId value : step.instruction->outputs) {
    const TermId term = session.plan_run().term(value);
    if (!wanted(value) || pool.node(term).size > kLargest) continue;
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
        Repair r;
        r.code = "SP0201";
        r.name = "missing-reduction";
        r.axis = axes.size() == 1 ? axes[0] : axes[0] + "," + axes[1];
        r.finding = "lacks a " + (kind == "sum" ? std::string("sum") : std::string("maximum")) + " over mesh ax" + (axes.size() > 1 ? "es " : "is ") + join(axes);
        r.fix = "all-reduce it (" + kind + ") over " + join(axes) + " before it is used";
        r.expected = "replicate on " + join(axes);
        r.found = "partial(" + kind + ") on " + join(axes) + ": each rank holds its own summand";
        r.step = step_index;
        r.value = value;
        r.term = *reduced;
        r.inserted = reduction;
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
      repairs.push_back(std::move(r));
    }
  }
  return repairs;
}

std::vector<Repair> variations(Session& session, std::size_t step_index) {
  std::vector<Repair> repairs;
  const Step& step = session.plan_run().steps()[step_index];
  const Instruction& instruction = *step.instruction;
  if (instruction.op == OpCode::loop || instruction.outputs.size() != 1) return repairs;
  const ir::ValueId value = instruction.outputs[0];
  const TermId current = session.plan_run().term(value);
  const auto propose = [&](Repair r, Instruction changed, std::optional<TermId> term = std::nullopt) {
    if (!term) term = attempt([&] { return session.plan_run().evaluate(step, changed); });
    if (!term || *term == current) return;
    r.step = step_index;
    r.value = value;
    r.term = *term;
    r.replacement = std::move(changed);
    repairs.push_back(std::move(r));
  };
  const std::string op(ir::schema_of(instruction.op).name);
  if (is_collective(instruction.op) && instruction.attributes.has("axes")) {
    const Texts axes = instruction.attributes.get<Texts>("axes");
    const ir::TensorType& in = session.plan_program().value(instruction.inputs[0]).type;
    const auto group_size = [&](const Texts& names) {
      std::int64_t size = 1;
      for (const std::string& n : names) size *= session.mesh().axes[*session.mesh().find_axis(n)].size;
      return size;
    };
    if (in == session.plan_program().value(value).type) {  // could be left out
      Repair r;
      r.code = "SP0202";
      r.name = "double-reduction";
      r.axis = join(axes);
      r.finding = "is combined over " + join(axes) + " although it was complete already";
      r.fix = "remove the `" + op + "` over " + join(axes);
      r.expected = "one reduction over " + join(axes);
      r.found = "another one";
      Instruction identity;
      identity.op = OpCode::reshape;
      identity.inputs = instruction.inputs;
      identity.outputs = instruction.outputs;
      identity.attributes.set("shape", in.shape);
      propose(std::move(r), std::move(identity));
    }
    for (const Texts& other : axis_choices(session.mesh())) {
      if (other == axes || (instruction.op != OpCode::all_reduce && group_size(other) != group_size(axes))) continue;
      const bool same_set = std::set(other.begin(), other.end()) == std::set(axes.begin(), axes.end());
      if (instruction.op == OpCode::all_reduce && (same_set || (other.size() > 1 && other[0] > other[1]))) continue;
      Repair r;
      r.code = "SP0203";
      r.name = "wrong-axis";
      r.axis = other[0];
      r.finding = same_set ? "is exchanged over " + join(axes) + " in the wrong axis order" : "is exchanged over " + join(axes) + " instead of " + join(other);
      r.fix = "use `axes` " + join(other) + " in the `" + op + "`";
      r.expected = "`" + op + "` over " + join(other);
      r.found = "`" + op + "` over " + join(axes);
      Instruction changed = instruction;
      changed.attributes.set("axes", other);
      propose(std::move(r), std::move(changed));
    }
    if (instruction.attributes.has("reduce")) {
      const std::string kind = instruction.attributes.get<std::string>("reduce");
      for (const std::string other : {"sum", "avg", "max"}) {
        if (other == kind) continue;
        Repair r;
        r.code = "SP0204";
        r.name = "wrong-reduce-op";
        r.axis = axes[0];
        r.finding = "is reduced by `" + kind + "` instead of `" + other + "`";
        r.fix = "use `reduce`: \"" + other + "\" in the `" + op + "`";
        r.expected = other;
        r.found = kind;
        Instruction changed = instruction;
        changed.attributes.set("reduce", other);
        propose(std::move(r), std::move(changed));
      }
    }
  }
  if (instruction.op == OpCode::slice) {
    const ir::CoordExpr start = instruction.attributes.get<ir::CoordExpr>("start");
    const auto shifted = [&](const ir::CoordExpr& other, const std::string& what) {
      Repair r;
      r.code = "SP0206";
      r.name = "wrong-shard";
      r.finding = "takes the wrong part of `" + session.plan_program().value(instruction.inputs[0]).name + "`";
      r.fix = "start the slice at " + ir::to_string(other) + " (" + what + ")";
      r.expected = "start " + ir::to_string(other);
      r.found = "start " + ir::to_string(start);
      Instruction changed = instruction;
      changed.attributes.set("start", other);
      propose(std::move(r), std::move(changed));
    };
    for (const std::int64_t by : {1, -1}) shifted(start + ir::constant_expr(by), "off by one");
    if (start.terms.size() == 1 && start.terms[0].kind == ir::CoordTerm::Kind::variable) {
      for (const ir::MeshAxis& a : session.mesh().axes)
        if (a.name != start.terms[0].variable)
          shifted(ir::variable_expr(a.name, start.terms[0].coefficient, start.constant), "the coordinate of `" + a.name + "`");
      const std::int64_t size = instruction.attributes.get<std::int64_t>("size");
      for (const std::int64_t first : {start.constant, std::int64_t{0}})
        shifted(ir::variable_expr(start.terms[0].variable, size, first), "one slice length per rank");
    } else if (start.is_constant()) {
      const std::int64_t size = instruction.attributes.get<std::int64_t>("size");
      for (const ir::MeshAxis& a : session.mesh().axes) shifted(ir::variable_expr(a.name, size, start.constant), "the shard of `" + a.name + "`");
    }
  }
  if (instruction.inputs.size() == 2 && (instruction.op == OpCode::sub || instruction.op == OpCode::div || instruction.op == OpCode::einsum)) {
    Instruction changed = instruction;
    std::swap(changed.inputs[0], changed.inputs[1]);
    const auto type = [&](std::size_t i) { return session.plan_program().value(instruction.inputs[i]).type; };
    if (type(0).shape == type(1).shape) {
      Repair r;
      r.code = "SP0207";
      r.name = "wrong-value";
      r.finding = "has its operands in the wrong order";
      r.fix = "swap the operands of the `" + op + "`";
      r.expected = "`" + op + "` of `" + session.plan_program().value(instruction.inputs[1]).name + "` and `" + session.plan_program().value(instruction.inputs[0]).name + "`";
      r.found = "the other order";
      propose(std::move(r), std::move(changed));
    }
  }
  return repairs;
}

}  // namespace shardproof::verifier

// Variations of one instruction, without regard to what the reference does there.
#include <algorithm>
#include <set>

#include "ir/op_schema.h"
#include "verifier/repairs.h"
#include "verifier/repairs_parts.h"

namespace shardproof::verifier {
namespace {

using ir::CoordExpr;
using ir::Instruction;
using ir::OpCode;
using ir::Rational;
using solvers::TermId;

constexpr std::size_t kMaxOperands = 8;    // that are tried in place of one
constexpr std::size_t kMaxConstants = 24;  // of the reference, tried in place of one

class Variations {
 public:
  Variations(Session& session, std::size_t step)
      : session_(session), step_(step), instruction_(*session.plan_run().steps()[step].instruction) {}

  std::vector<Repair> of_the_way() {
    if (!starts()) return {};
    if (is_collective(instruction_.op) && instruction_.attributes.has("axes")) collective();
    if (instruction_.op == OpCode::slice) slice();
    instead_of_exchange();
    swapped_operands();
    return std::move(repairs_);
  }

  std::vector<Repair> of_what_is_read() {
    if (!starts()) return {};
    if (instruction_.op == OpCode::coord) coordinate();
    if (instruction_.op == OpCode::compare) direction();
    if (instruction_.op == OpCode::constant) constant();
    left_out();
    other_operands();
    for (Repair& r : repairs_) r.guess = true;
    return std::move(repairs_);
  }

 private:
  const ir::Program& program() const { return session_.plan_program(); }
  const ir::TensorType& type(ir::ValueId v) const { return program().value(v).type; }
  const std::string& name(ir::ValueId v) const { return program().value(v).name; }
  std::string op() const { return std::string(ir::schema_of(instruction_.op).name); }

  bool starts() {
    if (instruction_.op == OpCode::loop || instruction_.outputs.size() != 1) return false;
    value_ = instruction_.outputs[0];
    current_ = session_.plan_run().term(value_);
    return true;
  }

  static Repair repair(std::string code, std::string name, std::string finding, std::string fix, std::string expected,
                       std::string found) {
    Repair r;
    r.code = std::move(code);
    r.name = std::move(name);
    r.finding = std::move(finding);
    r.fix = std::move(fix);
    r.expected = std::move(expected);
    r.found = std::move(found);
    return r;
  }

  void propose(Repair r, Instruction changed) {
    const auto term =
        attempt([&] { return session_.plan_run().evaluate(session_.plan_run().steps()[step_], changed); });
    if (!term || *term == current_) return;
    r.step = step_;
    r.value = value_;
    r.term = *term;
    r.replacement = std::move(changed);
    repairs_.push_back(std::move(r));
  }

  // Another value for one attribute.
  template <typename T>
  void propose_with(Repair r, const std::string& attribute, T value) {
    Instruction changed = instruction_;
    changed.attributes.set(attribute, std::move(value));
    propose(std::move(r), std::move(changed));
  }

  // The operand itself, under the name of the result.
  Instruction copy_of(ir::ValueId operand) const {
    Instruction copy;
    copy.op = OpCode::reshape;
    copy.inputs = {operand};
    copy.outputs = instruction_.outputs;
    copy.attributes.set("shape", type(operand).shape);
    return copy;
  }

  void collective() {
    const Texts axes = instruction_.attributes.get<Texts>("axes");
    const auto group_size = [&](const Texts& names) {
      std::int64_t size = 1;
      for (const std::string& n : names) size *= session_.mesh().axes[*session_.mesh().find_axis(n)].size;
      return size;
    };
    if (type(instruction_.inputs[0]) == type(value_)) {  // could be left out
      Repair r = repair("SP0202", "double-reduction", "is combined over " + join(axes) + " although it was complete already",
                        "remove the `" + op() + "` over " + join(axes), "one reduction over " + join(axes), "another one");
      r.axis = join(axes);
      propose(std::move(r), copy_of(instruction_.inputs[0]));
    }
    for (const Texts& other : axis_choices(session_.mesh())) {
      if (other == axes || (instruction_.op != OpCode::all_reduce && group_size(other) != group_size(axes))) continue;
      const bool same_set = std::set(other.begin(), other.end()) == std::set(axes.begin(), axes.end());
      if (instruction_.op == OpCode::all_reduce && (same_set || (other.size() > 1 && other[0] > other[1]))) continue;
      Repair r = repair("SP0203", "wrong-axis",
                        same_set ? "is exchanged over " + join(axes) + " in the wrong axis order"
                                 : "is exchanged over " + join(axes) + " instead of " + join(other),
                        "use `axes` " + join(other) + " in the `" + op() + "`", "`" + op() + "` over " + join(other),
                        "`" + op() + "` over " + join(axes));
      r.axis = other[0];
      propose_with(std::move(r), "axes", other);
    }
    if (!instruction_.attributes.has("reduce")) return;
    const std::string kind = instruction_.attributes.get<std::string>("reduce");
    for (const std::string other : {"sum", "avg", "max"}) {
      if (other == kind) continue;
      Repair r = repair("SP0204", "wrong-reduce-op", "is reduced by `" + kind + "` instead of `" + other + "`",
                        "use `reduce`: \"" + other + "\" in the `" + op() + "`", other, kind);
      r.axis = axes[0];
      propose_with(std::move(r), "reduce", other);
    }
  }

  void slice() {
    const CoordExpr start = instruction_.attributes.get<CoordExpr>("start");
    const std::int64_t size = instruction_.attributes.get<std::int64_t>("size");
    const auto shifted = [&](const CoordExpr& other, const std::string& what) {
      propose_with(repair("SP0206", "wrong-shard", "takes the wrong part of `" + name(instruction_.inputs[0]) + "`",
                          "start the slice at " + ir::to_string(other) + " (" + what + ")",
                          "start " + ir::to_string(other), "start " + ir::to_string(start)),
                   "start", other);
    };
    for (const std::int64_t by : {1, -1}) shifted(start + ir::constant_expr(by), "off by one");
    if (start.terms.size() == 1 && start.terms[0].kind == ir::CoordTerm::Kind::variable) {
      for (const ir::MeshAxis& a : session_.mesh().axes)
        if (a.name != start.terms[0].variable)
          shifted(ir::variable_expr(a.name, start.terms[0].coefficient, start.constant),
                  "the coordinate of `" + a.name + "`");
      for (const std::int64_t first : {start.constant, std::int64_t{0}})
        shifted(ir::variable_expr(start.terms[0].variable, size, first), "one slice length per rank");
    } else if (start.is_constant()) {
      for (const ir::MeshAxis& a : session_.mesh().axes)
        shifted(ir::variable_expr(a.name, size, start.constant), "the shard of `" + a.name + "`");
      for (const std::int64_t free : not_taken(size)) shifted(ir::constant_expr(free), "which nothing else takes");
    } else {
      for (const ir::MeshAxis& a : session_.mesh().axes) shifted(ir::variable_expr(a.name, size), "in the order of the ranks");
    }
  }

  // Where a slice of this size fits between the others of the same operand, as when a buffer is unpacked.
  std::set<std::int64_t> not_taken(std::int64_t size) const {
    const std::int64_t dim = instruction_.attributes.get<std::int64_t>("dim");
    const std::int64_t extent = type(instruction_.inputs[0]).shape[static_cast<std::size_t>(dim)];
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (const Step& other : session_.plan_run().steps()) {
      const Instruction& i = *other.instruction;
      if (&i == &instruction_ || i.op != OpCode::slice || i.inputs != instruction_.inputs || i.attributes.get<std::int64_t>("dim") != dim) continue;
      const CoordExpr start = i.attributes.get<CoordExpr>("start");
      if (start.is_constant()) taken.emplace_back(start.constant, start.constant + i.attributes.get<std::int64_t>("size"));
    }
    std::set<std::int64_t> free;
    const auto consider = [&](std::int64_t first) {
      const bool overlaps = std::any_of(taken.begin(), taken.end(), [&](const auto& t) { return first < t.second && t.first < first + size; });
      if (first >= 0 && first + size <= extent && !overlaps && free.size() < kMaxOperands) free.insert(first);
    };
    for (const auto& [first, end] : taken) {
      consider(end);
      consider(first - size);
    }
    return free;
  }

  // Copies of the rank's own data, or of one rank's, where those of all ranks belong.
  void instead_of_exchange() {
    if (instruction_.op == OpCode::broadcast_from) {
      const Texts axes = instruction_.attributes.get_or<Texts>("axes", {});
      for (const std::string kind : {"sum", "max"})
        if (!axes.empty()) exchange(OpCode::all_reduce, axes, {{"reduce", kind}}, "the " + kind + " over " + join(axes));
      return;
    }
    if (instruction_.op != OpCode::concat && instruction_.op != OpCode::broadcast && instruction_.op != OpCode::reshape) return;
    const ir::Shape &own = type(instruction_.inputs[0]).shape, &all = type(value_).shape;
    if (own.size() != all.size() || own == all) return;
    for (std::size_t d = 0; d < own.size(); ++d)
      for (const ir::MeshAxis& axis : session_.mesh().axes) {
        ir::Shape gathered = own;
        gathered[d] *= axis.size;
        if (axis.size > 1 && gathered == all)
          exchange(OpCode::all_gather, {axis.name}, {{"dim", static_cast<std::int64_t>(d)}}, "the parts of all ranks along `" + axis.name + "`");
      }
  }

  void exchange(OpCode op, const Texts& axes, const std::vector<std::pair<std::string, ir::AttrValue>>& attributes, const std::string& meant) {
    Instruction changed;
    changed.op = op;
    changed.inputs = {instruction_.inputs[0]};
    changed.outputs = instruction_.outputs;
    changed.attributes.set("axes", axes);
    for (const auto& [name, value] : attributes) changed.attributes.set(name, value);
    const std::string name = std::string(ir::schema_of(op).name);
    Repair r = repair("SP0207", "wrong-value", "is made of one rank's data instead of " + meant, "use `" + name + "` over " + join(axes), "`" + name + "` over " + join(axes),
                      "`" + this->op() + "`");
    r.axis = axes[0];
    propose(std::move(r), std::move(changed));
  }

  // The number by which a rank knows its part: the first row of a vocabulary shard.
  void coordinate() {
    const CoordExpr value = instruction_.attributes.get<CoordExpr>("value");
    const auto other = [&](const CoordExpr& changed, const std::string& what) {
      propose_with(repair("SP0206", "wrong-shard", "is not where the part that this rank holds begins",
                          "use " + ir::to_string(changed) + " (" + what + ")", ir::to_string(changed), ir::to_string(value)),
                   "value", changed);
    };
    for (const std::int64_t by : {1, -1}) other(value + ir::constant_expr(by), "off by one");
    if (value.terms.size() != 1 || value.terms[0].kind != ir::CoordTerm::Kind::variable) return;
    const ir::CoordTerm& term = value.terms[0];
    for (const ir::MeshAxis& a : session_.mesh().axes) {
      if (a.name != term.variable)
        other(ir::variable_expr(a.name, term.coefficient, value.constant), "the coordinate of `" + a.name + "`");
      else if (term.coefficient < 0)
        other(ir::variable_expr(a.name, -term.coefficient), "in the order of the ranks");
    }
  }

  void direction() {
    const std::string now = instruction_.attributes.get<std::string>("direction");
    for (const std::string other : {"lt", "le", "gt", "ge", "eq", "ne"})
      if (other != now)
        propose_with(repair("SP0207", "wrong-value", "compares by `" + now + "` instead of `" + other + "`",
                            "use `direction`: \"" + other + "\"", other, now),
                     "direction", other);
  }

  void constants_of(const std::vector<Instruction>& body, std::vector<Rational>& found) const {
    for (const Instruction& i : body) {
      if (i.region != nullptr) constants_of(i.region->body, found);
      if (i.op != OpCode::constant || !i.attributes.has("value") || found.size() == kMaxConstants) continue;
      const Rational value = i.attributes.get<Rational>("value");
      if (std::find(found.begin(), found.end(), value) == found.end()) found.push_back(value);
    }
  }

  void constant() {
    if (!instruction_.attributes.has("value") || !ir::is_float(type(value_).dtype)) return;
    const Rational now = instruction_.attributes.get<Rational>("value");
    std::vector<Rational> others;
    constants_of(session_.reference_program().body, others);
    for (const Rational& other : others)
      if (other != now)
        propose_with(repair("SP0207", "wrong-value", "is another number than the reference has",
                            "use `value` " + ir::to_string(other), ir::to_string(other), ir::to_string(now)),
                     "value", other);
  }

  void swapped_operands() {
    if (instruction_.inputs.size() != 2) return;
    switch (instruction_.op) {
      case OpCode::sub:
      case OpCode::div:
      case OpCode::compare:
      case OpCode::concat:
      case OpCode::einsum: break;
      default: return;
    }
    const ir::ValueId a = instruction_.inputs[0], b = instruction_.inputs[1];
    if (type(a) != type(b)) return;
    Instruction changed = instruction_;
    std::swap(changed.inputs[0], changed.inputs[1]);
    propose(repair("SP0207", "wrong-value", "has its operands in the wrong order", "swap the operands of the `" + op() + "`",
                   "`" + op() + "` of `" + name(b) + "` and `" + name(a) + "`", "the other order"),
            std::move(changed));
  }

  // A step of arithmetic too many.
  void left_out() {
    if (ir::schema_of(instruction_.op).family != ir::OpFamily::elementwise || !ir::is_float(type(value_).dtype)) return;
    for (const ir::ValueId operand : instruction_.inputs)
      if (type(operand) == type(value_))
        propose(repair("SP0207", "wrong-value", "is computed by one `" + op() + "` too many",
                       "use `" + name(operand) + "` as it is", "`" + name(operand) + "`", "`" + op() + "` of it"),
                copy_of(operand));
  }

  // Indices and conditions have no counterpart in the reference that could be recognised by itself, and a copy of a stale
  // value is a value of the reference: near values of the same type are tried in place of each.
  void other_operands() {
    const bool moves = ir::schema_of(instruction_.op).family == ir::OpFamily::structure;
    const std::vector<Step>& steps = session_.plan_run().steps();
    for (std::size_t k = 0; k < instruction_.inputs.size(); ++k) {
      const ir::ValueId old = instruction_.inputs[k];
      if (ir::is_float(type(old).dtype) && !moves) continue;
      std::size_t tried = 0;
      const auto with = [&](ir::ValueId other) {
        if (other == old || type(other) != type(old) || !session_.plan_run().term(other).valid()) return;
        ++tried;
        Instruction changed = instruction_;
        changed.inputs[k] = other;
        propose(repair("SP0207", "wrong-value", "reads `" + name(old) + "` instead of `" + name(other) + "`",
                       "use `" + name(other) + "` in place of `" + name(old) + "`", "`" + name(other) + "`",
                       "`" + name(old) + "`"),
                std::move(changed));
      };
      for (std::size_t i = step_; i-- > 0 && tried < kMaxOperands;)
        if (visible_from(steps[i], steps[step_]))
          for (const ir::ValueId out : steps[i].instruction->outputs) with(out);
      for (const ir::PlanInput& input : session_.document().plan.stages.front().inputs)
        if (tried < 2 * kMaxOperands) with(input.value);
    }
  }

  Session& session_;
  std::size_t step_;
  const Instruction& instruction_;
  ir::ValueId value_;
  TermId current_;
  std::vector<Repair> repairs_;
};

}  // namespace

std::vector<Repair> variations(Session& session, std::size_t step) {
  return Variations(session, step).of_the_way();
}

std::vector<Repair> misreadings(Session& session, std::size_t step) {
  return Variations(session, step).of_what_is_read();
}

}  // namespace shardproof::verifier

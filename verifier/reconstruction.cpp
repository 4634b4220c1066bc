#include "verifier/reconstruction.h"

#include <algorithm>
#include <set>

#include "ir/infer_type.h"
#include "solvers/kernel/accesses.h"
#include "verifier/repairs_parts.h"

namespace shardproof::verifier {

using ir::Instruction;
using ir::OpCode;
using ir::ValueId;
using solvers::TermId;

namespace {

constexpr std::size_t kMaxPlaces = 400;       // looked at
constexpr std::size_t kMaxChoices = 6;        // values tried for one operand
constexpr std::size_t kMaxCombinations = 36;  // of operands at one place
constexpr std::size_t kMaxPartners = 40;      // tried for one more operation
constexpr int kMaxLevels = 6;                 // of definitions between a value and what it is combined with
constexpr std::int32_t kMaxSize = 200;        // of the terms of values that are looked at

// Attributes that say what is computed rather than how large it is.
bool carries_over(OpCode op) {
  switch (ir::schema_of(op).family) {
    case ir::OpFamily::elementwise:
    case ir::OpFamily::contraction: return true;
    default: return false;
  }
}

}  // namespace

Reconstruction::Reconstruction(Session& session, Blame& blame, const std::vector<std::size_t>& suspects)
    : session_(session), blame_(blame), suspects_(suspects.begin(), suspects.end()) {
  find_values();
  for (const std::size_t i : blame_.cone())
    for (const ValueId v : session_.plan_run().steps()[i].instruction->inputs) readers_[v].push_back(i);
  find_places(session_.reference_program().body);
}

void Reconstruction::find_values() {
  const ir::Program& program = session_.plan_program();
  std::set<ValueId> carried;
  for (const Step& step : session_.plan_run().steps())
    if (step.instruction->region != nullptr)
      for (const ir::Carry& carry : step.instruction->region->carries) carried.insert(carry.argument);
  // Parts of macros have no name in the file.
  const std::size_t named = session_.document().plan.stages.front().program.values.size();
  for (std::size_t v = 0; v < named; ++v) {
    const ValueId value{static_cast<std::int32_t>(v)};
    const TermId term = session_.plan_run().term(value);
    if (!term.valid() || carried.count(value) != 0) continue;
    if (program.value(value).type.dtype == ir::DType::boolean) conditions_.push_back(value);
    if (!ir::is_float(program.value(value).type.dtype) || session_.pool().node(term).size > kMaxSize) continue;
    const Key key = solvers::tensors_in(session_.pool(), term);
    if (blame_.folded_term(term)) values_[key].push_back(value);
    if (!session_.plan_run().containment().strayed(term)) keys_.emplace_back(value, key);
  }
}

void Reconstruction::find_places(const std::vector<Instruction>& body) {
  const ir::Program& program = session_.reference_program();
  const auto key = [&](ValueId v) { return solvers::tensors_in(session_.pool(), session_.reference_run().term(v)); };
  for (const Instruction& i : body) {
    if (i.region != nullptr) find_places(i.region->body);
    if (!carries_over(i.op) || i.outputs.size() != 1 || !ir::is_float(program.value(i.outputs[0]).type.dtype)) continue;
    if (!session_.reference_run().term(i.outputs[0]).valid() || values_.count(key(i.outputs[0])) != 0) continue;
    for (const solvers::TensorId result : key(i.outputs[0]))
      if (const TermId definition = session_.atoms().definition(result); definition.valid()) missing_.emplace(result, solvers::tensors_in(session_.pool(), definition));
    std::set<std::size_t> at;
    bool all_there = true;
    for (const ValueId operand : i.inputs) {
      if (!ir::is_float(program.value(operand).type.dtype)) continue;
      const Key own = key(operand);
      const auto found = values_.find(own);
      all_there = all_there && found != values_.end();
      if (!all_there) break;
      if (own.empty()) continue;  // numbers: read everywhere
      for (const ValueId v : found->second) {
        const auto readers = readers_.find(v);
        if (readers != readers_.end()) at.insert(readers->second.begin(), readers->second.end());
      }
    }
    if (!all_there) continue;
    for (const std::size_t step : at) {
      std::vector<Place>& list = suspects_.count(step) != 0 ? likely_ : places_;
      if (list.size() < kMaxPlaces) list.push_back({&i, step});
    }
  }
}

bool Reconstruction::usable(ValueId value, std::size_t step) const {
  const std::size_t defined = blame_.definition(value);
  if (defined == Blame::npos) return true;
  return defined < step && visible_from(session_.plan_run().steps()[defined], session_.plan_run().steps()[step]);
}

// What could stand for the operand, nearest first. Of indices and conditions only the type is known.
std::vector<ValueId> Reconstruction::candidates(ValueId operand, const Instruction& reference, std::size_t step) const {
  const ir::Program& plan = session_.plan_program();
  const ir::TensorType& wanted = session_.reference_program().value(operand).type;
  const ir::TensorType& result = plan.value(session_.plan_run().steps()[step].instruction->outputs[0]).type;
  const bool elementwise = ir::schema_of(reference.op).family == ir::OpFamily::elementwise;
  std::vector<ValueId> found;
  const auto consider = [&](ValueId v) {
    const ir::TensorType& type = plan.value(v).type;
    const bool fits = elementwise ? type.shape == result.shape : type.shape.size() == wanted.shape.size();
    if (fits && usable(v, step)) found.push_back(v);
  };
  if (ir::is_float(wanted.dtype)) {
    const auto same = values_.find(solvers::tensors_in(session_.pool(), session_.reference_run().term(operand)));
    if (same != values_.end()) std::for_each(same->second.begin(), same->second.end(), consider);
  } else {
    const std::size_t named = session_.document().plan.stages.front().program.values.size();
    for (std::size_t v = 0; v < named; ++v) {
      const ValueId value{static_cast<std::int32_t>(v)};
      if (plan.value(value).type.dtype == wanted.dtype && session_.plan_run().term(value).valid()) consider(value);
    }
  }
  return nearest(std::move(found), step, kMaxChoices);
}

std::vector<ValueId> Reconstruction::nearest(std::vector<ValueId> values, std::size_t step, std::size_t limit) const {
  const auto distance = [&](ValueId v) {
    const std::size_t defined = blame_.definition(v);
    return defined == Blame::npos ? step : step - defined;
  };
  std::stable_sort(values.begin(), values.end(), [&](ValueId a, ValueId b) { return distance(a) < distance(b); });
  if (values.size() > limit) values.resize(limit);
  return values;
}

std::vector<Repair> Reconstruction::at(const Place& place) {
  std::vector<Repair> repairs;
  const Step& step = session_.plan_run().steps()[place.step];
  const Instruction& old = *step.instruction;
  const ir::Program& plan = session_.plan_program();
  if (old.outputs.size() != 1 || old.region != nullptr) return repairs;
  const ValueId value = old.outputs[0];
  if (static_cast<std::size_t>(value.index) >= session_.document().plan.stages.front().program.values.size()) return repairs;
  std::vector<std::vector<ValueId>> choices;
  std::size_t combinations = 1;
  for (const ValueId operand : place.reference->inputs) {
    choices.push_back(candidates(operand, *place.reference, place.step));
    combinations *= std::min(choices.back().size(), kMaxCombinations);
    if (combinations == 0) return repairs;
    combinations = std::min(combinations, kMaxCombinations);
  }
  const TermId current = session_.plan_run().term(value);
  for (std::size_t c = 0; c < combinations; ++c) {
    Instruction changed = *place.reference;
    changed.outputs = old.outputs;
    changed.span = old.span;
    changed.source = old.source;
    changed.recompute = old.recompute;
    std::vector<ir::TensorType> types;
    for (std::size_t k = 0, rest = c; k < choices.size(); rest /= choices[k].size(), ++k) {
      changed.inputs[k] = choices[k][rest % choices[k].size()];
      types.push_back(plan.value(changed.inputs[k]).type);
    }
    const auto inferred = ir::infer_types(changed, types, {plan.value(value).type}, {});
    const auto* results = std::get_if<std::vector<ir::TensorType>>(&inferred);
    if (results == nullptr || results->size() != 1 || results->front() != plan.value(value).type) continue;
    const auto term = attempt([&] { return session_.plan_run().evaluate(step, changed); });
    if (!term || *term == current) continue;
    if (!blame_.folded_term(*term) && !blame_.better(value, current, *term)) continue;
    Repair r;
    r.code = "SP0207";
    r.name = "wrong-value";
    const std::string op(ir::schema_of(changed.op).name);
    const std::string& meant = session_.reference_program().value(place.reference->outputs[0]).name;
    std::string operands;
    for (const ValueId v : changed.inputs) operands += (operands.empty() ? "`" : ", `") + plan.value(v).name + "`";
    r.finding = "is not `" + meant + "` of the reference";
    r.fix = "compute it as `" + op + "` of " + operands;
    r.expected = "`" + op + "` of " + operands + ", as the reference computes `" + meant + "`";
    operands.clear();
    for (const ValueId v : old.inputs) operands += (operands.empty() ? "`" : ", `") + plan.value(v).name + "`";
    r.found = "`" + std::string(ir::schema_of(old.op).name) + "` of " + operands;
    r.step = place.step;
    r.value = value;
    r.term = *term;
    r.replacement = std::move(changed);
    repairs.push_back(std::move(r));
  }
  return repairs;
}

// What the reference combines with values of `own` on the way to values that the plan does not have.
Reconstruction::Key Reconstruction::companions(const Key& own) const {
  Key together;
  std::vector<solvers::TensorId> open;
  for (const auto& entry : missing_)
    if (std::any_of(own.begin(), own.end(), [&](solvers::TensorId t) { return entry.second.count(t) != 0; })) open.push_back(entry.first);
  for (int level = 0; level < kMaxLevels && !open.empty(); ++level) {
    std::vector<solvers::TensorId> deeper;
    for (const solvers::TensorId result : open)
      for (const solvers::TensorId part : missing_.at(result))
        if (together.insert(part).second && missing_.count(part) != 0) deeper.push_back(part);
    open = std::move(deeper);
  }
  return together;
}

// Plan values made of those; what nothing reads comes first, then what is nearest.
std::vector<ValueId> Reconstruction::partners(std::size_t step) const {
  const ValueId value = session_.plan_run().steps()[step].instruction->outputs[0];
  const Key own = solvers::tensors_in(session_.pool(), session_.plan_run().term(value));
  const Key together = companions(own);
  std::vector<ValueId> unused, others;
  for (const auto& [v, key] : keys_) {
    if (v == value || key.empty() || key == own || !usable(v, step) || !std::includes(together.begin(), together.end(), key.begin(), key.end())) continue;
    (readers_.count(v) == 0 ? unused : others).push_back(v);
  }
  std::vector<ValueId> found = nearest(std::move(unused), step, kMaxPartners);
  others = nearest(std::move(others), step, kMaxPartners - found.size());
  found.insert(found.end(), others.begin(), others.end());
  return found;
}

std::vector<Repair> Reconstruction::insertions(std::size_t step) {
  std::vector<Repair> repairs;
  const Instruction& producer = *session_.plan_run().steps()[step].instruction;
  const ir::Program& plan = session_.plan_program();
  if (producer.outputs.size() != 1 || producer.region != nullptr) return repairs;
  const ValueId value = producer.outputs[0];
  const ir::TensorType& type = plan.value(value).type;
  if (static_cast<std::size_t>(value.index) >= session_.document().plan.stages.front().program.values.size() || !ir::is_float(type.dtype)) return repairs;
  const auto consider = [&](OpCode op, std::vector<ValueId> inputs, const std::string& spec = {}) {
    Instruction added;
    added.op = op;
    added.inputs = std::move(inputs);
    added.outputs = {value};
    if (!spec.empty()) added.attributes.set("spec", spec);
    if (auto repair = insertion(step, added)) repairs.push_back(*std::move(repair));
  };
  for (const ValueId partner : partners(step)) {
    const ir::TensorType& other = plan.value(partner).type;
    if (other.dtype != type.dtype) continue;
    if (other.shape == type.shape) {
      consider(OpCode::mul, {value, partner});
      consider(OpCode::add, {value, partner});
      consider(OpCode::sub, {value, partner});
    } else if (!other.shape.empty() && other.shape.size() < type.shape.size()) {
      const std::string all = std::string("abcdefgh").substr(0, type.shape.size());
      if (all.size() != type.shape.size()) continue;
      if (std::equal(other.shape.rbegin(), other.shape.rend(), type.shape.rbegin()))
        consider(OpCode::einsum, {value, partner}, all + "," + all.substr(all.size() - other.shape.size()) + "->" + all);
      if (std::equal(other.shape.begin(), other.shape.end(), type.shape.begin()))
        consider(OpCode::einsum, {value, partner}, all + "," + all.substr(0, other.shape.size()) + "->" + all);
    }
  }
  // What is masked, and by what.
  std::vector<ValueId> conditions, fillings;
  for (const ValueId v : conditions_)
    if (plan.value(v).type.shape == type.shape && usable(v, step)) conditions.push_back(v);
  if (const auto numbers = values_.find({}); numbers != values_.end())
    for (const ValueId v : numbers->second)
      if (v != value && plan.value(v).type == type && usable(v, step)) fillings.push_back(v);
  for (const ValueId condition : nearest(std::move(conditions), step, kMaxChoices))
    for (const ValueId filling : nearest(fillings, step, kMaxChoices)) consider(OpCode::select, {condition, value, filling});
  return repairs;
}

std::optional<Repair> Reconstruction::insertion(std::size_t step_index, const Instruction& added) {
  const Step& step = session_.plan_run().steps()[step_index];
  const Instruction& producer = *step.instruction;
  const ir::Program& plan = session_.plan_program();
  const ValueId value = producer.outputs[0];
  const TermId current = session_.plan_run().term(value);
  const auto term = attempt([&] { return session_.plan_run().evaluate(step, added); });
  if (!term || *term == current || !blame_.folded_term(*term)) return std::nullopt;
  Repair r;
  r.code = "SP0207";
  r.name = "wrong-value";
  const std::string op(ir::schema_of(added.op).name);
  std::string with;
  for (const ValueId v : added.inputs)
    if (v != value) with += (with.empty() ? "`" : " and `") + plan.value(v).name + "`";
  r.finding = "lacks a `" + op + "` with " + with;
  r.fix = "apply `" + op + "` with " + with + " before it is used";
  r.expected = "`" + op + "` with " + with;
  r.found = "the value without it";
  r.step = step_index;
  r.value = value;
  r.term = *term;
  // A copy that should have been the operation becomes it.
  if (producer.op == OpCode::reshape && plan.value(producer.inputs[0]).type == plan.value(value).type) {
    r.replacement = added;
    std::replace(r.replacement->inputs.begin(), r.replacement->inputs.end(), value, producer.inputs[0]);
  } else {
    r.inserted = added;
  }
  return r;
}

}  // namespace shardproof::verifier

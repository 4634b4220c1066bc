#include "verifier/blame.h"

#include <algorithm>
#include <functional>
#include <set>

namespace shardproof::verifier {

using ir::ValueId;
using solvers::TermId;
using solvers::VarId;

namespace {
constexpr std::size_t kMaxVariables = 4;   // that a partial sum may still depend on
constexpr std::int32_t kMaxPartial = 300;  // nodes of a term that is looked at as a partial sum

bool passes_parts(ir::OpCode op) {
  const ir::OpFamily family = ir::schema_of(op).family;
  return family == ir::OpFamily::structure || family == ir::OpFamily::communication || op == ir::OpCode::cast || op == ir::OpCode::add;
}
}  // namespace

Blame::Blame(Session& session) : session_(session), definition_(session.plan_program().values.size(), npos) {
  const std::vector<Step>& steps = session.plan_run().steps();
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (ValueId out : steps[i].instruction->outputs) definition_[static_cast<std::size_t>(out.index)] = i;
}

bool Blame::recognised(ValueId value) {
  return ir::is_float(session_.plan_program().value(value).type.dtype) ? recognised_term(session_.plan_run().term(value)) : folded(value);
}

bool Blame::folded(ValueId value) {
  return folded_term(session_.plan_run().term(value));
}

bool Blame::folded_term(solvers::TermId term) {
  return !term.valid() || session_.plan_run().containment().matches(term);
}

// What a step reads for those of its results that `wanted` marks: a result of a loop comes from its own carry.
std::vector<ValueId> Blame::operands_of(std::size_t step, const std::vector<bool>& wanted) const {
  const ir::Instruction& instruction = *session_.plan_run().steps()[step].instruction;
  if (instruction.region == nullptr) return instruction.inputs;
  std::vector<ValueId> operands;
  for (const ir::Carry& carry : instruction.region->carries) {
    if (!wanted[static_cast<std::size_t>(carry.result.index)]) continue;
    operands.push_back(carry.init);
    operands.push_back(carry.next);
  }
  return operands;
}

std::vector<std::size_t> Blame::cone() {
  const std::vector<Step>& steps = session_.plan_run().steps();
  std::vector<bool> wanted(session_.plan_program().values.size());
  for (const Claim& claim : session_.claims())
    if (!claim.proved) wanted[static_cast<std::size_t>(claim.value.index)] = true;
  std::vector<std::size_t> result;
  for (std::size_t i = steps.size(); i-- > 0;) {
    const std::vector<ValueId>& outputs = steps[i].instruction->outputs;
    if (std::none_of(outputs.begin(), outputs.end(), [&](ValueId out) { return wanted[static_cast<std::size_t>(out.index)]; })) continue;
    result.push_back(i);
    for (ValueId v : operands_of(i, wanted)) wanted[static_cast<std::size_t>(v.index)] = true;
  }
  std::reverse(result.begin(), result.end());
  return result;
}

// A value is right as far as one can tell if it matches, or if something computed from it does: partial sums that a
// collective completes, steps of a computation that is grouped in another way.
std::vector<bool> Blame::fine_values() {
  const std::vector<Step>& steps = session_.plan_run().steps();
  std::vector<bool> fine(session_.plan_program().values.size());
  for (std::size_t v = 0; v < fine.size(); ++v) fine[v] = definition_[v] == npos || recognised(ValueId{static_cast<std::int32_t>(v)});
  for (std::size_t i = steps.size(); i-- > 0;) {
    std::vector<bool> vouching(fine.size());
    bool result_fine = false;
    for (ValueId out : steps[i].instruction->outputs) {
      vouching[static_cast<std::size_t>(out.index)] = fine[static_cast<std::size_t>(out.index)];
      result_fine = result_fine || fine[static_cast<std::size_t>(out.index)];
    }
    if (!result_fine) continue;
    for (ValueId v : operands_of(i, vouching)) fine[static_cast<std::size_t>(v.index)] = true;
  }
  return fine;
}

// Whether it is made of what padded inputs hold beyond the reference's elements: of no concern, wherever it is dropped.
bool Blame::is_padding(TermId term) {
  const solvers::TermPool& pool = session_.pool();
  const solvers::TermNode& n = pool.node(term);
  if (n.kind == solvers::TermKind::access) return pool.tensor(n.tensor).name.starts_with("padding of ");
  for (const solvers::Monomial& m : n.monomials)
    for (const solvers::Factor& f : m.factors)
      if (is_padding(f.term)) return true;
  if (std::any_of(n.arguments.begin(), n.arguments.end(), [&](TermId a) { return is_padding(a); })) return true;
  return n.kind == solvers::TermKind::reduce && is_padding(n.body);
}

// The term where all its accesses are within their tensors: a padded dimension has more elements than the reference's.
TermId Blame::within_shapes(TermId term) {
  solvers::TermPool& pool = session_.pool();
  TermId result = term;
  std::set<TermId> seen;
  const std::function<void(TermId)> visit = [&](TermId t) {
    if (!seen.insert(t).second) return;
    const solvers::TermNode& n = pool.node(t);
    for (std::size_t d = 0; n.kind == solvers::TermKind::access && d < n.indices.size(); ++d) {
      const solvers::IndexNode& index = pool.index(n.indices[d]);
      const std::int64_t last = pool.tensor(n.tensor).shape[d] - 1;
      const std::vector<VarId>& own = pool.members(index.free);
      const bool free = std::all_of(own.begin(), own.end(), [&](VarId v) { return pool.contains(pool.node(term).free, v); });
      if (free && (index.lo < 0 || index.hi > last)) result = pool.mul(pool.range(n.indices[d], 0, last), result);
    }
    for (const solvers::Monomial& m : n.monomials)
      for (const solvers::Factor& f : m.factors) visit(f.term);
    for (TermId a : n.arguments) visit(a);
    if (n.kind == solvers::TermKind::reduce) visit(n.body);
  };
  visit(term);
  return result;
}

// What is looked up where: rank of the tensor, dimension, table of indices, and the offset added to what the table says.
void Blame::lookups(TermId term, Lookups& found) {
  solvers::TermPool& pool = session_.pool();
  for (const solvers::Monomial& m : pool.monomials_of(term)) {
    for (const solvers::Factor& f : m.factors) {
      const solvers::TermNode& n = pool.node(f.term);
      for (std::size_t d = 0; n.kind == solvers::TermKind::access && d < n.indices.size(); ++d) {
        const solvers::IndexNode& index = pool.index(n.indices[d]);
        for (const auto& [atom, unused] : index.terms)
          if (pool.atom(atom).kind == solvers::AtomKind::load) found.insert({n.indices.size(), d, pool.atom(atom).tensor, index.constant});
      }
    }
  }
}

bool Blame::known_lookups(TermId term) {
  if (!lookups_read_) {
    lookups_read_ = true;
    for (TermId t : session_.reference_run().terms())
      if (t.valid()) lookups(t, reference_lookups_);
  }
  Lookups own;
  lookups(term, own);
  return std::includes(reference_lookups_.begin(), reference_lookups_.end(), own.begin(), own.end());
}

// Whether the term matches; of scalars, whose products match whatever they are, also each summand as a whole.
bool Blame::recognised_term(TermId term) {
  if (!folded_term(term)) return false;
  if (term.valid() && !known_lookups(term)) return false;
  return !term.valid() || session_.pool().node(term).free.value != 0 || session_.pool().as_constant(term) || sums_match(term);
}

// A sum of values that the reference adds up or has as a scalar.
bool Blame::sums_match(TermId term) {
  solvers::TermPool& pool = session_.pool();
  if (pool.node(term).free.value != 0) return folded_term(term);
  if (reference_scalars_.empty())
    for (TermId t : session_.reference_run().terms())
      if (t.valid() && pool.node(t).free.value == 0)
        for (const solvers::Monomial& m : pool.monomials_of(t)) reference_scalars_.insert(pool.poly({m}));
  for (const solvers::Monomial& m : pool.monomials_of(term))
    if (reference_scalars_.count(pool.poly({m})) == 0) return false;
  return true;
}

bool Blame::known_scale(TermId term) {
  solvers::TermPool& pool = session_.pool();
  const auto each = [&](TermId t, const std::function<bool(solvers::TensorId, std::pair<std::int64_t, std::int64_t>)>& f) {
    for (const solvers::Monomial& m : pool.monomials_of(t))
      for (const solvers::Factor& factor : m.factors) {
        const solvers::TermNode& n = pool.node(factor.term);
        if (n.kind == solvers::TermKind::access && n.free.value != 0 && !f(n.tensor, {m.coefficient.num, m.coefficient.den})) return false;
      }
    return true;
  };
  if (reference_scales_.empty())
    for (TermId t : session_.reference_run().terms())
      if (t.valid())
        each(t, [&](solvers::TensorId tensor, std::pair<std::int64_t, std::int64_t> c) {
          reference_scales_.insert({tensor, c});
          return true;
        });
  return each(term, [&](solvers::TensorId tensor, std::pair<std::int64_t, std::int64_t> c) {
    return !session_.atoms().has_definition(tensor) || reference_scales_.count({tensor, c}) != 0;
  });
}

// Whether summing over mesh coordinates and loops, or taking the maximum, makes every piece of the term match: a right
// part of a sum, for all one can tell from it alone.
bool Blame::completes(const Step& step, solvers::TermId term) {
  const auto [it, added] = completes_.try_emplace(term, false);
  if (!added) return it->second;
  solvers::TermPool& pool = session_.pool();
  Containment& containment = session_.plan_run().containment();
  term = session_.plan_run().without_carried(term);
  if (containment.strayed(term)) return false;
  std::vector<VarId> variables;
  for (VarId v : pool.members(pool.node(term).free)) {
    const bool loop = std::any_of(step.loops.begin(), step.loops.end(), [&](const auto& l) { return l.second == v; });
    if (loop || pool.var(v).kind == solvers::VarKind::mesh) variables.push_back(v);
  }
  if (variables.size() > kMaxVariables) return false;
  const auto on_elements = [&](TermId t) {
    const std::vector<VarId>& free = pool.members(pool.node(t).free);
    return std::any_of(free.begin(), free.end(), [&](VarId v) { return pool.var(v).kind == solvers::VarKind::element; });
  };
  const auto piece_completes = [&](TermId piece) {
    if (recognised_term(piece)) return true;
    if (pool.node(piece).size > kMaxPartial) return false;
    piece = within_shapes(piece);
    for (std::size_t subset = 1; subset < std::size_t{1} << variables.size(); ++subset) {
      solvers::TermPool::FreshScope scope(pool);
      solvers::Substitution s;
      std::vector<VarId> bound;
      for (std::size_t k = 0; k < variables.size(); ++k) {
        if ((subset >> k & 1) == 0) continue;
        bound.push_back(scope.fresh(pool.var(variables[k]).extent));
        s.set(variables[k], pool.index_var(bound.back()));
      }
      const TermId body = pool.substitute(piece, s);
      for (const solvers::Reduction kind : {solvers::Reduction::sum, solvers::Reduction::max})
        if (sums_match(session_.folder().refold(pool.reduce(kind, bound, body)))) return true;
    }
    return false;
  };
  bool all = true;
  try {
    std::vector<TermId> places;
    // Guards on ranks and iterations say which parts there are, so they stay; guards on elements tell pieces apart.
    std::map<std::vector<solvers::Factor>, TermId> by_place;
    for (const auto& [guards, inner] : containment.pieces(term)) {
      if (is_padding(inner)) continue;
      TermId piece = inner;
      std::vector<solvers::Factor> place;
      for (const solvers::Factor& guard : guards) {
        if (on_elements(guard.term)) place.push_back(guard);
        else piece = pool.mul(guard.term, piece);
      }
      const auto [it_place, is_new] = by_place.try_emplace(place, piece);
      if (!is_new) it_place->second = pool.add(it_place->second, piece);
    }
    for (const auto& [guards, piece] : by_place) {
      all = all && piece_completes(piece);
      if (markers_.size() == places.size()) markers_.push_back(pool.access(session_.atoms().opaque({"piece", {}, false, 0}), {}));
      places.push_back(pool.mul(pool.product(guards, ir::Rational(1)), markers_[places.size()]));
    }
    // Elements of overlapping pieces are sums, and not those that the reference has.
    all = all && (!on_elements(term) || session_.folder().is_folded(pool.sum(places)));
  } catch (const std::overflow_error&) {
    all = false;
  } catch (const solvers::BudgetExceeded& e) {
    if (e.what_kind != solvers::BudgetExceeded::What::size) throw;
    all = false;
  }
  return completes_[it->first] = all;
}

// The value's name without numbers, and the size of its term: the same for what corresponds to it in another layer.
std::pair<std::string, std::int32_t> Blame::likeness(ValueId value) const {
  std::string name = session_.plan_program().value(value).name;
  std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
  const TermId term = session_.plan_run().term(value);
  return {std::move(name), term.valid() ? session_.pool().node(term).size : 0};
}

bool Blame::better(ValueId value, TermId old, TermId changed) {
  const auto wrong = [&](TermId term) {
    if (known_scale(term) && recognised_term(term)) return std::size_t{0};
    std::size_t count = 0;
    for (const auto& [guards, piece] : session_.plan_run().containment().pieces(term)) count += !is_padding(piece) && !(known_scale(piece) && recognised_term(piece));
    return std::max<std::size_t>(count, 1);
  };
  if (wrong(changed) < wrong(old)) return true;
  const std::size_t step = definition(value);
  return step != npos && completes(session_.plan_run().steps()[step], changed) && !completes(session_.plan_run().steps()[step], old);
}

// Values that are not fine, and whose loss reaches a failed claim.
std::vector<bool> Blame::bad_values() {
  const std::vector<Step>& steps = session_.plan_run().steps();
  const std::vector<bool> fine = fine_values();
  std::vector<bool> bad(session_.plan_program().values.size());
  for (const Claim& claim : session_.claims())
    if (!claim.proved && !folded(claim.value)) bad[static_cast<std::size_t>(claim.value.index)] = true;
  for (std::size_t i = steps.size(); i-- > 0;) {
    bool result_bad = false;
    for (ValueId out : steps[i].instruction->outputs) result_bad = result_bad || bad[static_cast<std::size_t>(out.index)];
    if (!result_bad) continue;
    for (ValueId v : operands_of(i, bad))
      if (!fine[static_cast<std::size_t>(v.index)]) bad[static_cast<std::size_t>(v.index)] = true;
  }
  // Values like one of another layer or buffer that is fine, though it matches nothing either.
  std::set<std::pair<std::string, std::int32_t>> usual;
  for (std::size_t v = 0; v < fine.size(); ++v) {
    const TermId term = session_.plan_run().term({static_cast<std::int32_t>(v)});
    if (fine[v] && definition_[v] != npos && !folded_term(term)) usual.insert(likeness({static_cast<std::int32_t>(v)}));
  }
  // Right parts of sums, as long as all they are computed from is right.
  part_.assign(bad.size(), false);
  std::set<ValueId> declared;  // whole by their placement
  for (const Claim& claim : session_.claims())
    if (!claim.proved && claim.binding->placement.partial.empty()) declared.insert(claim.value);
  for (const Step& step : steps) {
    if (step.instruction->outputs.size() != 1) {
      // A loop: each result from its own carry.
      if (step.instruction->region == nullptr) continue;
      for (const ir::Carry& carry : step.instruction->region->carries)
        if (bad[static_cast<std::size_t>(carry.result.index)] && declared.count(carry.result) == 0 && !bad[static_cast<std::size_t>(carry.init.index)] &&
            !bad[static_cast<std::size_t>(carry.next.index)] && completes(step, session_.plan_run().term(carry.result))) {
          bad[static_cast<std::size_t>(carry.result.index)] = false;
          part_[static_cast<std::size_t>(carry.result.index)] = true;
        }
      continue;
    }
    const ValueId out = step.instruction->outputs[0];
    if (!bad[static_cast<std::size_t>(out.index)] || declared.count(out) != 0) continue;
    const std::vector<ValueId> operands = operands_of(definition(out), bad);
    if (std::any_of(operands.begin(), operands.end(), [&](ValueId v) { return bad[static_cast<std::size_t>(v.index)]; })) continue;
    // Parts of a sum can be moved and added up; anything else takes them for the sum.
    const bool usable = passes_parts(step.instruction->op) ||
                        std::none_of(operands.begin(), operands.end(), [&](ValueId v) { return part_[static_cast<std::size_t>(v.index)]; });
    const bool adds_parts = step.instruction->op == ir::OpCode::add &&
                            std::all_of(operands.begin(), operands.end(), [&](ValueId v) { return part_[static_cast<std::size_t>(v.index)]; });
    if (adds_parts) part_[static_cast<std::size_t>(out.index)] = true;
    if (adds_parts || usual.count(likeness(out)) != 0) {
      bad[static_cast<std::size_t>(out.index)] = false;
    } else if (usable && completes(step, session_.plan_run().term(out))) {
      bad[static_cast<std::size_t>(out.index)] = false;
      part_[static_cast<std::size_t>(out.index)] = true;
    }
  }
  return bad;
}

std::vector<std::size_t> Blame::bad_steps() {
  const std::vector<Step>& steps = session_.plan_run().steps();
  const std::vector<bool> bad = bad_values();
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (ValueId out : steps[i].instruction->outputs)
      if (bad[static_cast<std::size_t>(out.index)]) {
        result.push_back(i);
        break;
      }
  return result;
}

std::vector<std::pair<std::size_t, ValueId>> Blame::parts_before(const std::vector<std::size_t>& from) {
  const std::vector<Step>& steps = session_.plan_run().steps();
  bad_values();
  std::vector<bool> wanted(part_.size());
  std::vector<bool> start(steps.size());
  for (std::size_t i : from) {
    start[i] = true;
    for (ValueId out : steps[i].instruction->outputs) wanted[static_cast<std::size_t>(out.index)] = true;
  }
  std::vector<std::pair<std::size_t, ValueId>> result;
  for (std::size_t i = steps.size(); i-- > 0;) {
    std::vector<bool> parts(wanted.size());
    bool some = false;
    for (ValueId out : steps[i].instruction->outputs) {
      const auto at = static_cast<std::size_t>(out.index);
      if (!wanted[at] || (!start[i] && (folded(out) || !completes(steps[i], session_.plan_run().term(out))))) continue;
      parts[at] = some = true;
      if (!folded(out)) result.emplace_back(i, out);
    }
    if (!some) continue;
    for (ValueId v : operands_of(i, parts)) wanted[static_cast<std::size_t>(v.index)] = true;
  }
  return result;
}

std::vector<std::size_t> Blame::roots() {
  const std::vector<bool> bad = bad_values();
  std::vector<std::size_t> result;
  for (std::size_t i : bad_steps()) {
    const std::vector<ValueId> operands = operands_of(i, bad);
    if (std::none_of(operands.begin(), operands.end(), [&](ValueId v) { return bad[static_cast<std::size_t>(v.index)]; })) result.push_back(i);
  }
  return result;
}

std::size_t Blame::bad_count() {
  std::size_t count = 0;
  for (std::size_t i : bad_steps()) {
    const ir::OpFamily family = ir::schema_of(session_.plan_run().steps()[i].instruction->op).family;
    if (family == ir::OpFamily::structure || family == ir::OpFamily::source) continue;
    std::size_t pieces = 0;
    for (ValueId out : session_.plan_run().steps()[i].instruction->outputs)
      for (const auto& [guards, piece] : session_.plan_run().containment().pieces(session_.plan_run().term(out))) pieces += !folded_term(piece);
    count += std::max<std::size_t>(pieces, 1);
  }
  return count;
}

// The earliest value that the step depends on and that has a factor unknown to the reference.
std::optional<Suspect> Blame::rescaled_before(std::size_t step) {
  const std::vector<Step>& steps = session_.plan_run().steps();
  std::vector<bool> wanted(session_.plan_program().values.size(), false);
  for (ValueId out : steps[step].instruction->outputs) wanted[static_cast<std::size_t>(out.index)] = true;
  std::map<std::string, int> odd_of_name;
  for (const Step& other : steps)
    for (ValueId out : other.instruction->outputs)
      if (folded(out) && !known_scale(session_.plan_run().term(out))) ++odd_of_name[likeness(out).first];
  std::optional<Suspect> first;
  for (std::size_t i = step + 1; i-- > 0;) {
    for (ValueId out : steps[i].instruction->outputs) {
      if (!wanted[static_cast<std::size_t>(out.index)]) continue;
      const TermId term = session_.plan_run().term(out);
      const bool odd = folded_term(term) && !known_scale(term);
      if (odd && odd_of_name[likeness(out).first] == 1) first = Suspect{i, out, Suspect::Why::scale};
      // Only through values with the odd factor, or that match nothing.
      if (i == step || odd || !folded_term(term))
        for (ValueId v : operands_of(i, wanted)) wanted[static_cast<std::size_t>(v.index)] = true;
    }
  }
  return first;
}

// Claims on values that match: the one computed first, and the copies on the way to it.
std::optional<Suspect> Blame::misplaced() {
  std::optional<Suspect> first;
  for (const Claim& claim : session_.claims()) {
    if (claim.proved || !folded(claim.value)) continue;
    const std::size_t step = definition(claim.value);
    if (step == npos || (first && first->step <= step)) continue;
    first = Suspect{step, claim.value, Suspect::Why::misplaced};
  }
  while (first) {
    const ir::Instruction& instruction = *session_.plan_run().steps()[first->step].instruction;
    if (instruction.inputs.size() != 1 || instruction.region != nullptr) break;
    const std::size_t before = definition(instruction.inputs[0]);
    const ir::OpFamily family = before == npos ? ir::OpFamily::source : ir::schema_of(session_.plan_run().steps()[before].instruction->op).family;
    if (family != ir::OpFamily::structure && family != ir::OpFamily::communication) break;
    first = Suspect{before, instruction.inputs[0], Suspect::Why::misplaced};
  }
  return first;
}

// A right value that nothing reads: where it should have been read is near.
std::optional<Suspect> Blame::unused(bool only_read_by_reference) {
  const std::vector<Step>& steps = session_.plan_run().steps();
  std::vector<int> uses(session_.plan_program().values.size());
  for (const Step& step : steps) {
    for (ValueId v : step.instruction->inputs) ++uses[static_cast<std::size_t>(v.index)];
    if (step.instruction->region == nullptr) continue;
    for (const ir::Carry& carry : step.instruction->region->carries) ++uses[static_cast<std::size_t>(carry.next.index)];
  }
  for (const Claim& claim : session_.claims()) ++uses[static_cast<std::size_t>(claim.value.index)];
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const ir::Instruction& instruction = *steps[i].instruction;
    const ir::OpFamily family = ir::schema_of(instruction.op).family;
    if (instruction.outputs.size() != 1 || family == ir::OpFamily::source) continue;
    const ValueId out = instruction.outputs[0];
    if (uses[static_cast<std::size_t>(out.index)] != 0 || !ir::is_float(session_.plan_program().value(out).type.dtype)) continue;
    // A copy of something that is used is no loss.
    const bool copy = family == ir::OpFamily::structure || instruction.op == ir::OpCode::cast;
    if (copy && (instruction.inputs.size() != 1 || definition(instruction.inputs[0]) == npos || uses[static_cast<std::size_t>(instruction.inputs[0].index)] > 1))
      continue;
    if (only_read_by_reference && !reference_reads(session_.plan_run().term(out))) continue;
    return Suspect{i, out, Suspect::Why::unused};
  }
  return std::nullopt;
}

// Whether the reference computes something from the reference value that the term is.
bool Blame::reference_reads(TermId term) {
  const std::vector<solvers::TensorId> own = session_.folder().atoms_in(term);
  if (own.size() != 1 || !folded_term(term)) return false;
  const std::function<bool(const std::vector<ir::Instruction>&)> reads = [&](const std::vector<ir::Instruction>& body) {
    for (const ir::Instruction& i : body) {
      if (i.region != nullptr && reads(i.region->body)) return true;
      for (ValueId v : i.inputs) {
        const TermId t = session_.reference_run().term(v);
        if (t.valid() && session_.folder().atoms_in(t) == own) return true;
      }
    }
    return false;
  };
  return reads(session_.reference_program().body);
}

// In a sum most of whose summands are reference values: where the tensors in the others come from.
std::optional<Suspect> Blame::odd_summand(const Suspect& root) {
  solvers::TermPool& pool = session_.pool();
  std::set<solvers::TensorId> odd, right;
  for (const solvers::Monomial& m : pool.monomials_of(session_.plan_run().term(root.value))) {
    const TermId summand = pool.poly({m});
    const std::vector<solvers::TensorId> atoms = session_.folder().atoms_in(summand);
    const bool matches = completes(session_.plan_run().steps()[root.step], summand);
    (matches ? right : odd).insert(atoms.begin(), atoms.end());
  }
  if (right.empty()) return std::nullopt;
  for (solvers::TensorId t : right) odd.erase(t);
  std::erase_if(odd, [&](solvers::TensorId t) { return pool.tensor(t).shape.empty(); });
  if (odd.empty()) return std::nullopt;
  const auto mentions = [&](ValueId v) {
    const TermId term = session_.plan_run().term(v);
    if (!term.valid()) return false;
    const std::vector<solvers::TensorId> atoms = session_.folder().atoms_in(term);
    return std::any_of(atoms.begin(), atoms.end(), [&](solvers::TensorId t) { return odd.count(t) != 0; });
  };
  Suspect origin = root;
  for (int hops = 0; hops < 40; ++hops) {
    std::vector<bool> wanted(session_.plan_program().values.size());
    wanted[static_cast<std::size_t>(origin.value.index)] = true;
    std::optional<Suspect> before;
    for (ValueId v : operands_of(origin.step, wanted))
      if (!before && definition(v) != npos && mentions(v)) before = Suspect{definition(v), v, Suspect::Why::summand};
    if (!before) break;
    origin = *before;
  }
  return origin.why == Suspect::Why::summand ? std::optional(origin) : std::nullopt;
}

std::optional<Suspect> Blame::first_suspect() {
  std::optional<Suspect> first;
  const std::vector<bool> bad = bad_values();
  const std::vector<std::size_t> all = roots();
  if (!all.empty()) {
    const ir::Instruction& instruction = *session_.plan_run().steps()[all.front()].instruction;
    for (ValueId out : instruction.outputs)
      if (!first && bad[static_cast<std::size_t>(out.index)]) first = Suspect{all.front(), out, Suspect::Why::unmatched};
  }
  // Only moved here: the arithmetic before it made it what it is.
  while (first && passes_parts(session_.plan_run().steps()[first->step].instruction->op)) {
    const ir::Instruction& instruction = *session_.plan_run().steps()[first->step].instruction;
    if (instruction.op == ir::OpCode::add) break;
    const auto from = std::find_if(instruction.inputs.begin(), instruction.inputs.end(), [&](ValueId v) {
      return definition(v) != npos && !folded(v) && !completes(session_.plan_run().steps()[definition(v)], session_.plan_run().term(v));
    });
    if (from == instruction.inputs.end()) break;
    first = Suspect{definition(*from), *from, Suspect::Why::unmatched};
  }
  const std::optional<Suspect> copy = misplaced();
  if (copy && (!first || copy->step < first->step)) first = copy;
  const bool any = !first || first->why == Suspect::Why::misplaced || session_.plan_program().value(first->value).type.shape.empty();
  if (const auto dead = unused(!any)) return dead;
  if (first)
    if (const auto odd = rescaled_before(first->step)) return odd;
  if (first && first->why == Suspect::Why::unmatched && session_.plan_program().value(first->value).type.shape.empty())
    if (const auto odd = odd_summand(*first)) return odd;
  if (!first || session_.plan_run().steps()[first->step].instruction->region == nullptr) return first;
  // A result of a loop: what its body makes of the carried value.
  for (const ir::Carry& carry : session_.plan_run().steps()[first->step].instruction->region->carries)
    if (carry.result == first->value && definition(carry.next) != npos) return Suspect{definition(carry.next), carry.next, first->why};
  return first;
}

}  // namespace shardproof::verifier

#include "verifier/search.h"

#include <algorithm>
#include <map>

#include "solvers/kernel/accesses.h"
#include "verifier/reconstruction.h"

namespace shardproof::verifier {

using ir::Instruction;
using ir::ValueId;
using solvers::TermId;

namespace {

constexpr std::size_t kMaxPlaces = 160;           // of missing reductions, per fault
constexpr std::size_t kMaxRoots = 6;              // per fault
constexpr std::size_t kMaxCollectives = 8;        // asked whether they are at fault
constexpr std::size_t kMaxInsertionPlaces = 24;
constexpr int kMaxLost = 3;                       // values a hypothesis may make unrecognisable
constexpr std::size_t kMaxNodes = 2'000'000;      // new terms, in all
constexpr std::size_t kMaxNodesOfFault = 500'000;
constexpr std::size_t kMaxChanges = 200'000;      // terms of values that hypotheses changed, in all
constexpr std::size_t kMaxChangesOfFault = 30'000;
constexpr int kMaxLevels = 10;                    // before a root
constexpr int kMaxLevelsToConditions = 4;         // the same, to what it depends on
constexpr double kReserve = 0.4;                  // of the caller's time, for what comes after

}  // namespace

Search::Search(Session& session) : session_(session), blame_(session), nodes_at_start_(session.pool().node_count()) {}

// Ends before the caller's time-out, so that what was found is reported.
bool Search::exhausted() const {
  const std::size_t nodes = session_.pool().node_count();
  return nodes - nodes_at_start_ > kMaxNodes || nodes - nodes_of_fault_ > kMaxNodesOfFault || changes_ > kMaxChanges || changes_ - changes_of_fault_ > kMaxChangesOfFault ||
         session_.seconds_left() < kReserve * session_.seconds_allowed();
}

std::optional<Repair> Search::next_likely() {
  begin();
  return kept(find_likely());
}

std::optional<Repair> Search::next_hidden() { return kept(find_hidden()); }

std::optional<Repair> Search::kept(std::optional<Repair> repair) {
  if (repair) keep(*repair);
  return repair;
}

void Search::begin() {
  nodes_of_fault_ = session_.pool().node_count();
  changes_of_fault_ = changes_;
  before_ = score();
  root_steps_ = blame_.roots();
  if (root_steps_.size() > kMaxRoots) root_steps_.resize(kMaxRoots);
  roots_.clear();
  first_.clear();
  const std::vector<bool> bad = blame_.bad_values();
  for (const std::size_t root : root_steps_)
    for (const ValueId out : session_.plan_run().steps()[root].instruction->outputs) {
      if (root == root_steps_.front() && bad[static_cast<std::size_t>(out.index)]) first_.push_back(out);
      roots_.insert(out);
    }
  suspect_ = blame_.first_suspect();
  suspects_ = suspected(suspect_, root_steps_);
  // Where parts of a sum are taken for the sum, the last place is the cheapest to reduce at.
  places_ = blame_.parts_before(root_steps_);
  for (const std::size_t i : blame_.bad_steps())
    for (const ValueId out : session_.plan_run().steps()[i].instruction->outputs)
      if (places_.size() < kMaxPlaces && !blame_.folded(out)) places_.emplace_back(i, out);
  best_ = {};
}

std::optional<Repair> Search::find_likely() {
  if (auto other = other_claims()) return other;
  // A collective that is itself at fault (max for sum, another axis): a reduction in front of it could hide that, so it
  // is asked first, and has to explain everything.
  std::size_t collectives = 0;
  for (const std::size_t i : suspects_) {
    const Instruction& instruction = *session_.plan_run().steps()[i].instruction;
    if (ir::schema_of(instruction.op).family != ir::OpFamily::communication || ++collectives > kMaxCollectives || exhausted()) continue;
    Best complete;
    if (try_all(other_collective(i), complete)) return complete.repair;
  }
  // Reductions that are missing: the commonest fault, and the cheapest to recognise.
  for (const auto& [i, place] : places_) {
    if (exhausted()) break;
    std::vector<Repair> reductions = missing_reductions(session_, i, [&, at = place](ValueId v) { return v == at; });
    std::erase_if(reductions, [&](const Repair& r) { return !blame_.known_scale(r.term); });
    if (try_all(reductions, best_) || best_.repair) return best_.repair;
  }
  for (const std::size_t i : suspects_)
    if (!exhausted() && try_all(variations(session_, i), best_)) return best_.repair;
  if (suspect_ && suspect_->why == Suspect::Why::scale && try_all(rescalings(session_, suspect_->step), best_)) return best_.repair;
  return std::nullopt;  // what is only better waits for what may be right
}

std::vector<Repair> Search::of_conditions() {
  std::vector<Repair> found;
  for (const std::size_t step : steps_before(root_steps_, kMaxLevelsToConditions)) {
    const std::vector<ValueId>& made = session_.plan_run().steps()[step].instruction->outputs;
    if (made.size() != 1 || ir::is_float(session_.plan_program().value(made[0]).type.dtype)) continue;
    for (const std::vector<Repair>& repairs : {variations(session_, step), misreadings(session_, step)})
      for (const Repair& repair : repairs)
        if (!exhausted() && rights_a_root(repair)) found.push_back(repair);
  }
  return found;
}

// Whether the first root that the repair reaches is better with it.
bool Search::rights_a_root(const Repair& repair) {
  ProgramRun& run = session_.plan_run();
  const std::vector<TermId> saved = run.snapshot();
  bool better = false;
  run.override_value(repair.value, repair.term);
  try {
    run.rerun_dependents({repair.value}, [&](ValueId value, TermId old, TermId changed) {
      ++changes_;
      if (roots_.count(value) == 0) return !exhausted();
      better = blame_.better(value, old, changed);
      return false;
    });
  } catch (const ProgramRun::RerunStopped&) {
  }
  run.clear_override(repair.value);
  run.restore(saved);
  return better;
}

std::optional<Repair> Search::find_hidden() {
  // What the reference computes from the same operands.
  Reconstruction reconstruction(session_, blame_, suspects_);
  for (const Reconstruction::Place& place : reconstruction.places_of_suspects())
    if (!exhausted() && try_all(reconstruction.at(place), best_)) return best_.repair;
  for (std::size_t k = 0; k < suspects_.size() && k < kMaxInsertionPlaces && !exhausted(); ++k)
    if (try_all(reconstruction.insertions(suspects_[k]), best_)) return best_.repair;
  for (const std::size_t i : suspects_)
    if (!exhausted() && try_all(misreadings(session_, i), best_)) return best_.repair;
  std::set<std::size_t> before_root;
  if (!root_steps_.empty()) before_root = steps_before({root_steps_.front()}, kMaxLevels);
  for (const Reconstruction::Place& place : reconstruction.other_places())
    if (!exhausted() && !best_.repair && before_root.count(place.step) != 0 && try_all(reconstruction.at(place), best_)) return best_.repair;
  // With another factor to be found later: a mean over a part taken for the mean.
  for (std::size_t k = 0; k < places_.size() && k < kMaxRoots && !best_.repair && !exhausted(); ++k)
    if (try_all(missing_reductions(session_, places_[k].first, [&](ValueId v) { return v == places_[k].second; }), best_, false)) return best_.repair;
  if (best_.repair) return best_.repair;
  for (const std::size_t i : suspects_)
    if (!exhausted() && try_all(rescalings(session_, i), best_)) return best_.repair;
  if (best_.repair) return best_.repair;
  // A wrong number near the end of a plan all of whose values match.
  const std::vector<std::size_t> cone = root_steps_.empty() ? blame_.cone() : std::vector<std::size_t>();
  for (auto i = cone.rbegin(); i != cone.rend() && !exhausted(); ++i) {
    if (try_all(variations(session_, *i), best_, false)) return best_.repair;
    const ir::OpCode op = session_.plan_run().steps()[*i].instruction->op;
    if ((op == ir::OpCode::mul || op == ir::OpCode::div) && try_all(rescalings(session_, *i), best_, false)) return best_.repair;
  }
  return best_.repair;
}

// A state or an output that takes another value than the one it is declared to be, which the plan has.
std::optional<Repair> Search::other_claims() {
  const ir::Program& plan = session_.plan_program();
  const std::size_t named = session_.document().plan.stages.front().program.values.size();
  std::map<std::set<solvers::TensorId>, std::vector<ValueId>> made_of;  // values after all loops; without padding
  const auto tensors_of = [&](TermId term) {
    std::set<solvers::TensorId> tensors = solvers::tensors_in(session_.pool(), term);
    std::erase_if(tensors, [&](solvers::TensorId t) { return session_.pool().tensor(t).name.starts_with("padding of "); });
    return tensors;
  };
  for (std::size_t v = 0; v < named; ++v) {
    const ValueId value{static_cast<std::int32_t>(v)};
    const std::size_t defined = blame_.definition(value);
    if (defined == Blame::npos || !session_.plan_run().steps()[defined].loops.empty()) continue;
    if (const TermId term = session_.plan_run().term(value); term.valid()) made_of[tensors_of(term)].push_back(value);
  }
  for (std::size_t k = 0; k < session_.claims().size() && !exhausted(); ++k) {
    const Claim& claim = session_.claims()[k];
    if (claim.proved) continue;
    const ValueId declared = claim.value;
    const auto alike = made_of.find(tensors_of(claim.expected));
    if (alike == made_of.end()) continue;
    for (const ValueId other : alike->second) {
      if (other == declared || plan.value(other).type != plan.value(declared).type) continue;
      Claim moved = claim;
      moved.value = other;
      if (!session_.check_claim(moved)) continue;
      Repair r;
      r.code = "SP0207";
      r.name = "wrong-value";
      r.finding = std::string("is not what ") + (claim.kind == Claim::Kind::state ? "state `" : "output `") + claim.name + "` is declared to hold";
      r.fix = "let `" + claim.name + "` be `" + plan.value(other).name + "`";
      r.expected = "`" + plan.value(other).name + "`";
      r.found = "`" + plan.value(declared).name + "`";
      r.step = blame_.definition(declared);
      r.value = declared;
      r.claim = k;
      r.claimed = other;
      return r;
    }
  }
  return std::nullopt;
}

// Variations of a collective that do not only hide what is missing before it.
std::vector<Repair> Search::other_collective(std::size_t step) {
  const Instruction& instruction = *session_.plan_run().steps()[step].instruction;
  std::vector<Repair> repairs = variations(session_, step);
  std::erase_if(repairs, [&](const Repair& r) {
    if (r.code == "SP0202") return !blame_.folded(instruction.inputs[0]);
    if (r.code == "SP0204" && r.expected == "avg") return true;  // leaving it out explains that better
    if (r.code == "SP0204") return r.term == session_.plan_run().term(instruction.inputs[0]);  // the same as no reduction
    if (r.code != "SP0203" || !r.replacement) return true;
    using Texts = std::vector<std::string>;
    return r.replacement->attributes.get<Texts>("axes").size() != instruction.attributes.get<Texts>("axes").size();
  });
  return repairs;
}

// The likeliest steps first: the suspect, the roots, and what they read.
std::vector<std::size_t> Search::suspected(const std::optional<Suspect>& suspect, const std::vector<std::size_t>& roots) {
  std::vector<std::size_t> list;
  if (suspect) list.push_back(suspect->step);
  for (const std::size_t root : roots) list.push_back(root);
  for (std::size_t next = 0, level_end = list.size(), level = 0; level < 3 && list.size() < 60; ++level, level_end = list.size())
    for (; next < level_end; ++next)
      for (const ValueId v : session_.plan_run().steps()[list[next]].instruction->inputs)
        if (blame_.definition(v) != Blame::npos) list.push_back(blame_.definition(v));
  // A collective behind a suspect may be one too many, and what reads a root may lack something that others do not.
  const std::set<std::size_t> read(list.begin(), list.end()), first(roots.begin(), roots.end());
  for (const std::size_t i : blame_.cone()) {
    const Instruction& instruction = *session_.plan_run().steps()[i].instruction;
    const bool collective = ir::schema_of(instruction.op).family == ir::OpFamily::communication;
    const std::set<std::size_t>& before = collective ? read : first;
    if (std::any_of(instruction.inputs.begin(), instruction.inputs.end(), [&](ValueId v) { return before.count(blame_.definition(v)) != 0; })) list.push_back(i);
  }
  std::set<std::size_t> listed;
  std::erase_if(list, [&](std::size_t i) { return !listed.insert(i).second || session_.plan_run().steps()[i].instruction->region != nullptr; });
  return list;
}

// What the steps are computed from, some levels back.
std::set<std::size_t> Search::steps_before(std::vector<std::size_t> open, int levels) const {
  std::set<std::size_t> found;
  for (int level = 0; level < levels && !open.empty(); ++level) {
    std::vector<std::size_t> next;
    for (const std::size_t i : open)
      for (const ValueId v : session_.plan_run().steps()[i].instruction->inputs)
        if (blame_.definition(v) != Blame::npos && found.insert(blame_.definition(v)).second) next.push_back(blame_.definition(v));
    open = std::move(next);
  }
  return found;
}

Search::Score Search::score() {
  std::size_t failed = 0;
  for (const Claim& claim : session_.claims()) failed += !claim.proved;
  return {failed, blame_.bad_count()};
}

// With claims left that fail: it must make the first place right that was not, and the count of what is wrong must fall by
// more than the replaced value, which matches by construction. That a sum over ranks matches is evidence by itself, unless
// it is summed again.
bool Search::improves(const Repair& repair, const Score& after) const {
  if (after.failed_claims == 0) return true;
  if (after.failed_claims > before_.failed_claims) return false;
  if (repair.guess) return after.failed_claims < before_.failed_claims;
  if (repair.code == "SP0201" && summed_later(repair.value, repair.axis)) return false;
  if (repair.code == "SP0201") return !spoils_ && (after.failed_claims < before_.failed_claims || after.bad < before_.bad);
  const bool first_right = std::none_of(first_.begin(), first_.end(), [&](ValueId v) { return bad_[static_cast<std::size_t>(v.index)]; });
  if (!first_.empty() && !first_right) return false;
  const bool replaced_root = std::find(first_.begin(), first_.end(), repair.value) != first_.end() && !repair.inserted;
  return after.failed_claims < before_.failed_claims || after.bad + (replaced_root ? 2 : 1) <= before_.bad;
}

// Whether the plan sums the value over one of the axes further on, as it is or as part of a larger sum.
bool Search::summed_later(ValueId value, const std::string& axes) const {
  std::set<ValueId> parts{value};
  for (const Step& step : session_.plan_run().steps()) {
    const Instruction& i = *step.instruction;
    if (i.region != nullptr) {
      for (const ir::Carry& carry : i.region->carries)
        if (parts.count(carry.init) != 0 || parts.count(carry.next) != 0) parts.insert(carry.result);
      continue;
    }
    if (std::none_of(i.inputs.begin(), i.inputs.end(), [&](ValueId v) { return parts.count(v) != 0; })) continue;
    if (i.attributes.has("reduce") && i.attributes.has("axes")) {
      const auto over = i.attributes.get<std::vector<std::string>>("axes");
      if (std::any_of(over.begin(), over.end(), [&](const std::string& a) { return ("," + axes + ",").find("," + a + ",") != std::string::npos; })) return true;
    }
    if (passes_parts(i.op) || i.op == ir::OpCode::sub || i.op == ir::OpCode::neg) parts.insert(i.outputs.begin(), i.outputs.end());
  }
  return false;
}

bool Search::defined_by_collective(ValueId value) const {
  const std::size_t step = blame_.definition(value);
  return step != Blame::npos && ir::schema_of(session_.plan_run().steps()[step].instruction->op).family == ir::OpFamily::communication;
}

// Runs what depends on the value, then the failed claims.
// `local`: give up at the first root that is no better, or collective that has strayed.
Search::Score Search::apply(const Repair& repair, bool local) {
  ProgramRun& run = session_.plan_run();
  run.override_value(repair.value, repair.term);
  // A right repair does not make values unrecognisable that were recognised; a wrong one soon does.
  int lost = 0;
  bool root_reached = false;
  spoils_ = false;
  try {
    run.rerun_dependents({repair.value}, [&](ValueId value, TermId old, TermId changed) {
      ++changes_;
      if (value == repair.value) return true;
      if (blame_.folded_term(old) && !blame_.folded_term(changed)) ++lost;
      spoils_ = spoils_ || (blame_.right(old) && !blame_.right(changed));
      if (local && !root_reached && defined_by_collective(value) && session_.containment().strayed(changed)) return false;
      // A reduction that matches is evidence by itself; what reads it may match only some steps on (a masked difference).
      if (local && !repair.inserted && roots_.count(value) != 0 && !blame_.better(value, old, changed)) return false;
      root_reached = root_reached || roots_.count(value) != 0;
      return lost <= kMaxLost && !exhausted();
    });
  } catch (const ProgramRun::RerunStopped&) {
    return {session_.claims().size() + 1, 0};
  }
  std::size_t failed = 0, proved = 0;
  for (Claim& claim : session_.claims()) {
    if (claim.proved) continue;
    // Many failures in a row tell enough.
    const bool fails = (proved == 0 && failed >= 6) || !session_.check_claim(claim);
    ++(fails ? failed : proved);
  }
  if (failed == 0) return {0, 0};
  const std::size_t bad = blame_.bad_count();
  bad_ = blame_.bad_values();
  return {failed, bad};
}

// Tries the hypotheses; true if one leaves no failed claim (it is then in `best`).
bool Search::try_all(const std::vector<Repair>& repairs, Best& best, bool local) {
  ProgramRun& run = session_.plan_run();
  for (const Repair& repair : repairs) {
    if (exhausted()) break;
    const std::vector<TermId> saved = run.snapshot();
    const Score after = apply(repair, local);
    run.clear_override(repair.value);
    run.restore(saved);
    if (!improves(repair, after) || (best.repair && !(after < best.score))) continue;
    best = {repair, after};
    if (after.failed_claims == 0) return true;
  }
  return false;
}

void Search::keep(const Repair& repair) {
  ProgramRun& run = session_.plan_run();
  if (repair.claim) {
    session_.claims()[*repair.claim].value = repair.claimed;
  } else {
    run.override_value(repair.value, repair.term);
    run.rerun_dependents({repair.value});
  }
  for (Claim& claim : session_.claims())
    if (!claim.proved) claim.proved = session_.check_claim(claim);
}

}  // namespace shardproof::verifier

// Findings in words. The causes are looked for by search.h; a fix is called verified if the plan with all fixes made was
// verified from the start.
#include "verifier/diagnose.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/print.h"
#include "verifier/hints.h"
#include "verifier/macro_repairs.h"
#include "verifier/patch.h"
#include "verifier/plan_repairs.h"
#include "verifier/search.h"

namespace shardproof::verifier {

using ir::Diagnostic;
using solvers::TermId;

namespace {

constexpr std::size_t kPlanWork = 60'000;  // instructions in plans verified again, for one sort of change
// Of the caller's time: for what may still be tried, and for the counterexample, which decides the verdict.
constexpr double kReserve = 0.45, kReserveAtEnd = 0.35, kReserveForVerdict = 0.3;

std::string cut(std::string text, std::size_t limit = 240) {
  if (text.size() > limit) text = text.substr(0, limit - 3) + "...";
  return text;
}

const std::string& name_of(Session& session, ir::ValueId value) { return session.plan_program().value(value).name; }

// Instructions of the plan file that read the value, in order.
std::vector<const ir::Instruction*> readers_of(const std::vector<ir::Instruction>& body, ir::ValueId value) {
  std::vector<const ir::Instruction*> readers;
  for (const ir::Instruction& i : body) {
    if (i.op != ir::OpCode::release && std::find(i.inputs.begin(), i.inputs.end(), value) != i.inputs.end()) readers.push_back(&i);
    if (i.region == nullptr) continue;
    const auto inner = readers_of(i.region->body, value);
    readers.insert(readers.end(), inner.begin(), inner.end());
  }
  return readers;
}

Diagnostic describe_claim(Session& session, const Repair& r) {
  const Claim& claim = session.claims()[*r.claim];
  Diagnostic d;
  d.code = r.code;
  d.name = r.name;
  d.message = "`" + name_of(session, r.value) + "` " + r.finding;
  d.subject.value = claim.name;
  d.subject.reference = claim.reference;
  d.labels.push_back({claim.span, "declared here: " + r.found, true});
  d.expected = r.expected;
  d.found = r.found;
  d.fix = ir::Fix{r.fix, {}, ir::Applicability::plausible};
  return d;
}

Diagnostic describe_change(const Repair& r) {
  Diagnostic d;
  d.code = r.code;
  d.name = r.name;
  d.message = "`" + r.subject + "` " + r.finding;
  d.subject.value = r.subject;
  d.labels.push_back({r.span, "here: " + r.found, true});
  d.expected = r.expected;
  d.found = r.found;
  d.fix = ir::Fix{r.fix, {}, ir::Applicability::plausible};
  return d;
}

Diagnostic describe(Session& session, const Repair& r) {
  if (r.claim) return describe_claim(session, r);
  if (r.change) return describe_change(r);
  const ir::Instruction& producer = *session.plan_run().steps()[r.step].instruction;
  // What a loop made is wrong where it is read.
  const auto readers = producer.region == nullptr ? std::vector<const ir::Instruction*>() : readers_of(session.plan_program().body, r.value);
  const ir::Instruction& instruction = readers.empty() ? producer : *readers.front();
  Diagnostic d;
  d.code = r.code;
  d.name = r.name;
  d.message = "`" + name_of(session, r.value) + "` " + r.finding;
  d.subject.value = name_of(session, r.value);
  d.subject.axis = r.axis;
  d.subject.instruction = ir::describe(session.plan_program(), instruction);
  d.labels.push_back({instruction.span, (readers.empty() ? "produced here: " : "read here: ") + r.found, true});
  d.expected = r.expected;
  d.found = r.found;
  if (!instruction.source.empty()) d.notes.push_back("the plan says this is " + instruction.source);
  d.fix = ir::Fix{r.fix, {}, ir::Applicability::plausible};
  return d;
}

// Equal faults at many places (the norm weights of all layers) are one defect.
struct Defect {
  Diagnostic diagnostic;
  std::vector<Repair> repairs;
};

bool apply_all(const Session& session, const std::vector<Repair>& repairs, Patch& patch) {
  bool all = true;
  for (const Repair& r : repairs) all = patch.apply(session, r) && all;
  return all;
}

Report verified_again(const Session& session, const VerifyOptions& options, const ir::Document& document) {
  VerifyOptions again = proof_alone(options);
  if (options.timeout_seconds > 0) again.timeout_seconds = std::max(session.seconds_left() - kReserveForVerdict * options.timeout_seconds, 0.001);
  return verify(document, again);
}
bool verifies(const Session& session, const VerifyOptions& options, const ir::Document& document) {
  return verified_again(session, options, document).verdict == Verdict::equivalent;
}

// Of all edits together: whether the edited plan verifies, or has at least more outputs and states that do.
enum class Outcome { verified, better, no_better };

// Adds the edits, and verifies the edited plan.
Outcome finish_fixes(Session& session, const VerifyOptions& options, bool all_found, std::int64_t proved_before, std::vector<Defect>& defects) {
  bool all_applied = true;
  Patch whole(session.document());
  for (Defect& defect : defects) {
    all_applied = apply_all(session, defect.repairs, whole) && all_applied;
    Patch own(session.document());
    if (apply_all(session, defect.repairs, own)) defect.diagnostic.fix->edits = own.edits();
  }
  if (defects.empty() || !all_applied) return Outcome::better;  // nobody knows
  const Report again = verified_again(session, options, whole.document());
  if (!all_found || again.verdict != Verdict::equivalent)
    return again.obligations.proved > proved_before || again.verdict == Verdict::equivalent ? Outcome::better : Outcome::no_better;
  for (Defect& defect : defects) defect.diagnostic.fix->applicability = ir::Applicability::verified;
  return Outcome::verified;
}

// Repairs are found one after the other, each as if those before it had been made to terms. The last one may be at the cause
// of all, and mend what another has mended downstream. Keeps a smaller part of the defects with which the edited plan verifies.
bool keep_what_suffices(const Session& session, const VerifyOptions& options, std::vector<Defect>& defects) {
  constexpr std::size_t most = 4;
  const std::size_t count = defects.size();
  if (count < 2 || count > most || session.plan_run().steps().size() > kPlanWork / (2 * most)) return false;
  const auto suffices = [&](const std::vector<std::size_t>& chosen) {
    Patch patch(session.document());
    const bool applied = std::all_of(chosen.begin(), chosen.end(), [&](std::size_t d) { return apply_all(session, defects[d].repairs, patch); });
    return applied && verifies(session, options, patch.document());
  };
  std::vector<std::vector<std::size_t>> parts;
  for (std::size_t d = count; d-- > 0;) parts.push_back({d});  // the last one first
  for (std::size_t left_out = 0; count > 2 && left_out < count; ++left_out) {
    std::vector<std::size_t>& rest = parts.emplace_back();
    for (std::size_t d = 0; d < count; ++d)
      if (d != left_out) rest.push_back(d);
  }
  for (const std::vector<std::size_t>& part : parts) {
    if (session.seconds_left() < kReserve * session.seconds_allowed()) return false;
    if (!suffices(part)) continue;
    std::vector<Defect> kept;
    for (const std::size_t d : part) kept.push_back(std::move(defects[d]));
    defects = std::move(kept);
    return true;
  }
  return false;
}

// The change with which the plan verifies, given the repairs before it.
std::optional<Defect> of_whole_plan(Session& session, const VerifyOptions& options, const std::vector<Repair>& changes, const std::vector<Defect>& before, double reserve) {
  const std::size_t limit = std::clamp<std::size_t>(kPlanWork / (session.plan_run().steps().size() + 1), 3, 40);
  std::size_t tried = 0;
  for (const Repair& repair : changes) {
    if (++tried > limit || session.seconds_left() < reserve * session.seconds_allowed()) break;
    Patch patch(session.document());
    for (const Defect& defect : before) apply_all(session, defect.repairs, patch);
    if (patch.apply(session, repair) && verifies(session, options, patch.document())) return Defect{describe(session, repair), {repair}};
  }
  return std::nullopt;
}

// One change that execution suggests, or all of one kind together: summands of each gradient where it is squared.
std::optional<Defect> of_hints(Session& session, const VerifyOptions& options) {
  const std::vector<Repair> hints = hinted_changes(session);
  if (auto one = of_whole_plan(session, options, hints, {}, kReserve)) return one;
  std::map<std::string, std::vector<Repair>> kinds;
  for (const Repair& hint : hints) kinds[hint.code + hint.fix].push_back(hint);
  for (auto& [kind, repairs] : kinds) {
    Patch patch(session.document());
    if (repairs.size() < 2 || session.seconds_left() < kReserve * session.seconds_allowed()) continue;
    if (!apply_all(session, repairs, patch) || !verifies(session, options, patch.document())) continue;
    Defect defect{describe(session, repairs.front()), repairs};
    defect.diagnostic.places = static_cast<std::int64_t>(repairs.size());
    return defect;
  }
  return std::nullopt;
}

// What looks odd by itself: a loop that leaves parts out, a layout that nothing else has; and the macro that the fault is in.
std::optional<Defect> odd_in_plan(Session& session, const VerifyOptions& options, Blame& blame, const std::vector<Defect>& before) {
  if (auto defect = of_whole_plan(session, options, loop_changes(session), before, kReserve)) return defect;
  if (auto defect = of_whole_plan(session, options, layout_changes(session), before, kReserve)) return defect;
  const std::optional<Suspect> suspect = blame.first_suspect();
  return suspect ? of_whole_plan(session, options, macro_changes(session, *suspect), before, kReserve) : std::nullopt;
}

// Of the next fault: its repair, or a change after which nothing is wrong any more.
struct Mended {
  std::optional<Repair> one;
  std::optional<Defect> last;
};

Mended next_mended(Session& session, const VerifyOptions& options, Search& search, const std::vector<Defect>& before) {
  if (auto odd = odd_in_plan(session, options, search.blame(), before)) return {{}, std::move(odd)};
  if (auto likely = search.next_likely()) return {std::move(likely), {}};
  if (auto unlike = of_whole_plan(session, options, sibling_changes(session, search.blame()), before, kReserve)) return {{}, std::move(unlike)};
  if (auto condition = of_whole_plan(session, options, search.of_conditions(), before, kReserve)) return {{}, std::move(condition)};
  if (auto members = of_whole_plan(session, options, member_changes(session), before, kReserve)) return {{}, std::move(members)};
  if (auto hidden = search.next_hidden()) return {std::move(hidden), {}};
  return {{}, of_whole_plan(session, options, declaration_changes(session, search.blame()), before, kReserveAtEnd)};
}

Diagnostic of_fault(const ir::Program& program, const Fault& fault, bool reference) {
  Diagnostic d;
  d.code = fault.code;
  d.name = fault.name;
  d.message = (reference ? "in the reference: " : "") + fault.message;
  d.expected = fault.expected;
  d.found = fault.found;
  d.subject.instruction = ir::describe(program, *fault.instruction);
  d.subject.value = program.value(fault.value).name;
  d.labels.push_back({fault.instruction->span, "here", true});
  return d;
}

// No repair: the place where the plan first leaves the reference.
Diagnostic place_of_fault(Session& session, Blame& blame) {
  const auto failed = std::count_if(session.claims().begin(), session.claims().end(), [](const Claim& c) { return !c.proved; });
  const auto claim = std::find_if(session.claims().begin(), session.claims().end(), [](const Claim& c) { return !c.proved; });
  Diagnostic d;
  d.code = "SP0207";
  d.name = "wrong-value";
  d.subject.reference = claim->reference;
  d.notes.push_back("claims that are not proved: " + std::to_string(failed) + ", first `" + claim->name + "`");
  const std::optional<Suspect> suspect = blame.first_suspect();
  if (suspect) {
    const ir::Instruction& instruction = *session.plan_run().steps()[suspect->step].instruction;
    const TermId term = session.plan_run().term(suspect->value);
    d.subject.value = name_of(session, suspect->value);
    d.subject.instruction = ir::describe(session.plan_program(), instruction);
    d.found = cut(session.pool().to_string(term));
    switch (suspect->why) {
      case Suspect::Why::unmatched:
        d.message = "`" + d.subject.value + "` matches no value of the reference, though all it reads does";
        if (const auto miss = session.folder().near_miss(term))
          d.expected = (miss->same_extents ? "a value like `" : "the whole of `") + session.pool().tensor(miss->tensor).name + "` of the reference";
        break;
      case Suspect::Why::scale: d.message = "`" + d.subject.value + "` has a factor that the reference does not have"; break;
      case Suspect::Why::unused: d.message = "`" + d.subject.value + "` is never used"; break;
      case Suspect::Why::summand: d.message = "`" + d.subject.value + "` is added up where the reference adds up something else"; break;
      case Suspect::Why::misplaced: d.message = "`" + d.subject.value + "` is a reference value, but not the one it should be"; break;
    }
    d.labels.push_back({instruction.span, "the plan leaves the reference here", true});
  } else {
    d.subject.value = claim->name;
    d.message = "`" + claim->name + "` is a reference value, but not the one it is declared to be";
    d.labels.push_back({claim->span, "declared here", true});
    d.expected = cut(session.pool().to_string(claim->expected));
    d.found = cut(session.pool().to_string(claim->found));
  }
  return d;
}

}  // namespace

void diagnose(Session& session, const VerifyOptions& options, Report& report) {
  std::vector<Diagnostic> found;
  // Instructions without a meaning. Terms that grew too large are debris unless nothing else explains the failure.
  std::vector<const Fault*> too_large;
  for (const Fault& fault : session.reference_run().faults()) found.push_back(of_fault(session.reference_program(), fault, true));
  for (const Fault& fault : session.plan_run().faults()) {
    if (fault.code == "SP0903") too_large.push_back(&fault);
    else found.push_back(of_fault(session.plan_program(), fault, false));
  }
  const auto failed = [&] {
    return std::count_if(session.claims().begin(), session.claims().end(), [](const Claim& c) { return !c.proved; });
  };
  const auto failed_at_first = failed();
  report.obligations.unknown += static_cast<std::int64_t>(failed_at_first);
  report.obligations.proved += static_cast<std::int64_t>(session.claims().size()) - static_cast<std::int64_t>(failed_at_first);

  if (failed_at_first > 0) {
    Search search(session);
    const Diagnostic first_place = place_of_fault(session, search.blame());
    std::optional<Diagnostic> place = first_place;
    std::vector<Defect> defects;
    bool verified = false;  // with the last repair, as a whole
    try {
      std::map<std::string, std::size_t> groups;
      int repaired = 0;
      while (options.suggest_fixes && failed() > 0 && repaired < 4 * options.max_defects && groups.size() < static_cast<std::size_t>(options.max_defects)) {
        if (options.progress) options.progress({"diagnosis", repaired, repaired + 1});
        Mended mended = next_mended(session, options, search, defects);
        if (mended.last) {
          defects.push_back(*std::move(mended.last));
          place.reset();
          verified = true;
        }
        if (!mended.one) break;
        ++repaired;
        const Repair& r = *mended.one;
        const std::string op = r.claim ? "claim" : std::string(ir::schema_of(session.plan_run().steps()[r.step].instruction->op).name);
        const auto [group, is_new] = groups.try_emplace(r.code + "|" + op + "|" + r.fix, defects.size());
        if (is_new) defects.push_back({describe(session, r), {r}});
        else defects[group->second].repairs.push_back(r);
        defects[group->second].diagnostic.places = static_cast<std::int64_t>(defects[group->second].repairs.size());
        place.reset();
      }
      if (failed() > 0 && !place && !verified) place = place_of_fault(session, search.blame());
      const std::int64_t proved_before = report.obligations.proved;
      Outcome outcome = finish_fixes(session, options, failed() == 0 || verified, proved_before, defects);
      if (keep_what_suffices(session, options, defects)) {
        outcome = finish_fixes(session, options, true, proved_before, defects);
        place.reset();
      }
      // One change that execution suggests is worth more than several, or than none.
      if (options.suggest_fixes && (outcome != Outcome::verified || defects.size() > 1)) {
        if (auto hinted = of_hints(session, options)) {
          defects = {*std::move(hinted)};
          outcome = finish_fixes(session, options, true, proved_before, defects);
          place.reset();
        }
      }
      // Instructions that have a meaning again after a change elsewhere are what that leads to.
      if (outcome == Outcome::verified && verified) found.clear();
      // A value that can be made right by undoing what follows it is no finding; a sum that is missing is one, though adding
      // it here may not be the cure.
      if (outcome == Outcome::no_better) {
        std::erase_if(defects, [](const Defect& d) { return d.diagnostic.code == "SP0207"; });
        for (Defect& defect : defects) defect.diagnostic.fix.reset();
        if (defects.empty()) place = first_place;
      }
    } catch (const solvers::BudgetExceeded& e) {
      if (e.what_kind != solvers::BudgetExceeded::What::time) throw;  // what was found so far is still true
    }
    // An instruction without a meaning has been named already.
    const bool named = place && std::any_of(found.begin(), found.end(), [&](const Diagnostic& d) { return d.subject.value == place->subject.value; });
    for (Defect& defect : defects) found.push_back(std::move(defect.diagnostic));
    if (place && !named) found.push_back(*std::move(place));
  }
  if (found.empty())
    for (const Fault* fault : too_large) {
      found.push_back(of_fault(session.plan_program(), *fault, false));
      break;
    }
  const bool proved = failed_at_first == 0 && found.empty();
  report.verdict = proved ? Verdict::equivalent : Verdict::unknown;
  if (!proved) report.unknown_reason = found.front().message;
  report.diagnostics.insert(report.diagnostics.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
}

}  // namespace shardproof::verifier

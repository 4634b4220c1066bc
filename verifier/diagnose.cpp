// The search for causes. One fault at a time, earliest first:
//
//   1 the place: the first value that matches nothing although all it is computed from is right, or what looks odd before
//     it (blame.h). It is named even if no repair is found or the time runs out
//   2 hypotheses about the place and what it reads (repairs.h) replace a term; what depends on it is run again, and most
//     are given up at the first place that does not get better
//   3 a hypothesis counts if more claims prove, or as many and fewer other values are left unmatched. The best is kept
//     as if the plan had been repaired, so that the next fault is found independently of the first
//
// A kept repair is therefore a proved statement about the edited plan; it is called verified if no claim is left that
// depends on the value.
#include "verifier/diagnose.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "ir/print.h"
#include "verifier/blame.h"
#include "verifier/repairs.h"

namespace shardproof::verifier {

using ir::Diagnostic;
using solvers::TermId;

namespace {

constexpr std::size_t kMaxCandidates = 160;   // looked at per fault
constexpr std::size_t kMaxRoots = 6;          // looked at per fault
constexpr int kMaxReruns = 240;               // per fault
constexpr int kMaxLost = 3;                   // values a hypothesis may make unrecognisable
constexpr double kMaxSeconds = 20;            // in all, unless the caller's time-out is shorter
constexpr double kReserve = 0.15;             // of the caller's time

struct Score {
  std::size_t failed_claims;
  std::size_t bad;  // unmatched values on the way to failed claims
  friend auto operator<=>(const Score&, const Score&) = default;
};

// The repaired value itself is matched by construction; a repair must do more than that.
bool improves(const Score& after, const Score& before, bool was_bad) {
  return after.failed_claims < before.failed_claims ||
         (after.failed_claims == before.failed_claims && after.bad + (was_bad ? 2 : 1) <= before.bad);
}

class Search {
 public:
  explicit Search(Session& session) : session_(session), blame_(session), start_(now()) {}

  // Finds and keeps the repair of one fault; nullopt if none was found.
  struct Finding {
    Repair repair;
    bool complete = false;  // no claim fails any more
  };
  std::optional<Finding> next() {
    const Score before = score();
    reruns_ = 0;
    std::vector<std::size_t> roots = blame_.roots();
    if (roots.size() > kMaxRoots) roots.resize(kMaxRoots);
    root_values_.clear();
    for (std::size_t root : roots)
      for (ir::ValueId out : session_.plan_run().steps()[root].instruction->outputs) root_values_.insert(out);
    const std::vector<std::size_t> suspects = suspected(roots);
    Best found;
    // A collective that is itself at fault (max for sum, another axis): a reduction in front of it could hide that, so it
    // is asked first, and has to explain everything.
    std::size_t collectives = 0;
    for (std::size_t i : suspects) {
      const ir::Instruction& instruction = *session_.plan_run().steps()[i].instruction;
      if (ir::schema_of(instruction.op).family != ir::OpFamily::communication || ++collectives > 8 || exhausted()) continue;
      std::vector<Repair> other = variations(session_, i);
      std::erase_if(other, [&](const Repair& r) {
        if (r.code == "SP0202") return !blame_.folded(instruction.inputs[0]);
        if (r.code == "SP0204" && r.expected == "avg") return true;  // leaving it out explains that better
        if (r.code == "SP0204") return r.term == session_.plan_run().term(instruction.inputs[0]);  // the same as no reduction
        if (r.code != "SP0203" || !r.replacement) return true;
        using Texts = std::vector<std::string>;
        return r.replacement->attributes.get<Texts>("axes").size() != instruction.attributes.get<Texts>("axes").size();
      });
      Best complete;
      if (try_all(other, before, complete, true)) return keep(*complete.repair);
    }
    // Reductions that are missing: the commonest fault, and the cheapest to recognise. Where parts of a sum are taken for
    // the sum, the last place is the cheapest to reduce at.
    std::vector<std::pair<std::size_t, ir::ValueId>> places = blame_.parts_before(roots);
    for (std::size_t i : blame_.bad_steps())
      for (ir::ValueId out : session_.plan_run().steps()[i].instruction->outputs)
        if (places.size() < kMaxCandidates && !blame_.folded(out)) places.emplace_back(i, out);
    for (const auto& [i, place] : places) {
      if (exhausted()) break;
      std::vector<Repair> reductions = missing_reductions(session_, i, [&](ir::ValueId v) { return v == place; });
      std::erase_if(reductions, [&](const Repair& r) { return !blame_.known_scale(r.term); });
      if (try_all(reductions, before, found, true)) return keep(*found.repair);
      if (found.repair) return keep(*found.repair);
    }
    for (std::size_t i : suspects) {
      if (exhausted()) break;
      if (try_all(variations(session_, i), before, found, true)) return keep(*found.repair);
    }
    // With another factor to be found later: a mean over a part taken for the mean.
    for (std::size_t k = 0; k < places.size() && k < kMaxRoots && !found.repair && !exhausted(); ++k)
      if (try_all(missing_reductions(session_, places[k].first, [&](ir::ValueId v) { return v == places[k].second; }), before, found)) return keep(*found.repair);
    if (found.repair) return keep(*found.repair);
    for (std::size_t i : suspects) {
      if (exhausted()) break;
      if (try_all(rescalings(session_, i), before, found, true)) return keep(*found.repair);
    }
    if (found.repair) return keep(*found.repair);
    // Everything else in the cone, last first: a wrong number near the end of a fully recognised plan.
    const std::vector<std::size_t> cone = blame_.cone();
    for (auto i = cone.rbegin(); i != cone.rend() && !exhausted(); ++i) {
      if (try_all(variations(session_, *i), before, found)) return keep(*found.repair);
      const ir::OpCode op = session_.plan_run().steps()[*i].instruction->op;
      if ((op == ir::OpCode::mul || op == ir::OpCode::div) && try_all(rescalings(session_, *i), before, found)) return keep(*found.repair);
    }
    if (found.repair) return keep(*found.repair);
    return std::nullopt;
  }

  Blame& blame() { return blame_; }

 private:
  // The likeliest steps first: the suspect, the roots, and what they read.
  std::vector<std::size_t> suspected(const std::vector<std::size_t>& roots) {
    std::vector<std::size_t> list;
    if (const auto first = blame_.first_suspect()) list.push_back(first->step);
    for (std::size_t root : roots) list.push_back(root);
    for (std::size_t next = 0, level_end = list.size(), level = 0; level < 3 && list.size() < 60; ++level, level_end = list.size())
      for (; next < level_end; ++next)
        for (ir::ValueId v : session_.plan_run().steps()[list[next]].instruction->inputs)
          if (blame_.definition(v) != Blame::npos) list.push_back(blame_.definition(v));
    // A collective behind a suspect may be one too many.
    const std::set<std::size_t> readers_of(list.begin(), list.end());
    for (std::size_t i : blame_.cone()) {
      const ir::Instruction& instruction = *session_.plan_run().steps()[i].instruction;
      if (ir::schema_of(instruction.op).family != ir::OpFamily::communication) continue;
      if (std::any_of(instruction.inputs.begin(), instruction.inputs.end(), [&](ir::ValueId v) { return readers_of.count(blame_.definition(v)) != 0; }))
        list.push_back(i);
    }
    std::set<std::size_t> listed;
    std::erase_if(list, [&](std::size_t i) { return !listed.insert(i).second || session_.plan_run().steps()[i].instruction->region != nullptr; });
    return list;
  }

  static double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
  // Ends before the caller's time-out, so that what was found is reported.
  bool exhausted() const { return reruns_ > kMaxReruns || now() - start_ > kMaxSeconds || session_.seconds_left() < kReserve * session_.seconds_allowed(); }

  Score score() {
    std::size_t failed = 0;
    for (Claim& claim : session_.claims()) failed += !claim.proved;
    return {failed, blame_.bad_count()};
  }

  bool defined_by_collective(ir::ValueId value) const {
    const std::size_t step = blame_.definition(value);
    return step != Blame::npos && ir::schema_of(session_.plan_run().steps()[step].instruction->op).family == ir::OpFamily::communication;
  }

  // Runs what depends on the value, then the failed claims.
  // `local`: give up at the first root that is no better, or collective that has strayed.
  Score apply(const Repair& repair, bool local) {
    ++reruns_;
    ProgramRun& run = session_.plan_run();
    run.override_value(repair.value, repair.term);
    // A right repair does not make values unrecognisable that were recognised; a wrong one soon does.
    int lost = 0;
    bool root_reached = false;
    try {
      run.rerun_dependents({repair.value}, [&](ir::ValueId value, TermId old, TermId changed) {
        if (value == repair.value) return true;
        const bool matches = blame_.folded_term(changed);
        if (blame_.folded_term(old) && !matches) ++lost;
        if (local && !root_reached && defined_by_collective(value) && session_.plan_run().containment().strayed(changed)) return false;
        if (local && root_values_.count(value) != 0 && !blame_.better(value, old, changed)) return false;
        root_reached = root_reached || root_values_.count(value) != 0;
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
    return {failed, failed == 0 ? 0 : blame_.bad_count()};
  }

  struct Best {
    std::optional<Repair> repair;
    Score score{};
  };

  // Tries the hypotheses; true if one leaves no failed claim (it is then in `best`).
  bool try_all(const std::vector<Repair>& repairs, const Score& before, Best& best, bool local = false) {
    ProgramRun& run = session_.plan_run();
    for (const Repair& repair : repairs) {
      if (exhausted()) break;
      // That a sum matches is evidence by itself; where a claim waits for it, the claim decides.
      const bool claimed = std::any_of(session_.claims().begin(), session_.claims().end(), [&](const Claim& c) { return c.value == repair.value; });
      const bool was_bad = !blame_.folded(repair.value) && (claimed || !repair.inserted);
      const std::vector<TermId> saved = run.snapshot();
      const Score after = apply(repair, local);
      run.clear_override(repair.value);
      run.restore(saved);
      if (!improves(after, before, was_bad) || (best.repair && !(after < best.score))) continue;
      best = {repair, after};
      if (after.failed_claims == 0) return true;
    }
    return false;
  }

  Finding keep(const Repair& repair) {
    ProgramRun& run = session_.plan_run();
    run.override_value(repair.value, repair.term);
    run.rerun_dependents({repair.value});
    bool complete = true;
    for (Claim& claim : session_.claims()) {
      if (!claim.proved) claim.proved = session_.check_claim(claim);
      complete = complete && claim.proved;
    }
    return {repair, complete};
  }

  Session& session_;
  Blame blame_;
  double start_;
  int reruns_ = 0;
  std::set<ir::ValueId> root_values_;
};

std::string cut(std::string text, std::size_t limit = 240) {
  if (text.size() > limit) text = text.substr(0, limit - 3) + "...";
  return text;
}

const std::string& name_of(Session& session, ir::ValueId value) { return session.plan_program().value(value).name; }

// A line break and the indentation of the line that the span starts on.
std::string line_break(Session& session, ir::Span span) {
  std::string text = "\n";
  if (session.document().source != nullptr) {
    const ir::LineColumn at = session.document().source->line_column(span.begin);
    text.append(at.column > 0 ? at.column - 1 : 0, ' ');
  }
  return text;
}

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

// The collective goes before the first instruction that reads the loop's result, and all read what it makes.
std::vector<ir::Edit> edits_behind_loop(Session& session, const Repair& repair) {
  const ir::StageProgram& stage = session.document().plan.stages.front();
  for (const ir::PlanState& state : stage.state)
    if (state.next == repair.value) return {};
  for (const ir::PlanOutput& output : stage.outputs)
    if (output.value == repair.value) return {};
  ir::Program scratch = stage.program;
  const ir::ValueId whole{static_cast<std::int32_t>(scratch.values.size())};
  scratch.values.push_back(scratch.value(repair.value));
  scratch.values.back().name += ".whole";
  std::vector<ir::Edit> edits;
  for (const ir::Instruction* reader : readers_of(stage.program.body, repair.value)) {
    if (reader->region != nullptr || !reader->span.known()) return {};
    ir::Instruction changed = *reader;
    std::replace(changed.inputs.begin(), changed.inputs.end(), repair.value, whole);
    std::string text = ir::instruction_json(scratch, changed);
    if (edits.empty()) {
      ir::Instruction collective = *repair.inserted;
      collective.inputs = {repair.value};
      collective.outputs = {whole};
      text = ir::instruction_json(scratch, collective) + "," + line_break(session, reader->span) + text;
    }
    edits.push_back({reader->span, std::move(text)});
  }
  return edits;
}

// The text edit of a repair: the instruction's line rewritten, with the new collective on a line behind it.
std::vector<ir::Edit> edits_of(Session& session, const Repair& repair) {
  const ir::Instruction& old = *session.plan_run().steps()[repair.step].instruction;
  const ir::Program& original = session.document().plan.stages.front().program;
  if (static_cast<std::size_t>(repair.value.index) >= original.values.size()) return {};  // part of a macro: the message has to do
  if (old.op == ir::OpCode::loop) return repair.inserted ? edits_behind_loop(session, repair) : std::vector<ir::Edit>();
  if (!old.span.known()) return {};
  if (repair.replacement) return {{old.span, ir::instruction_json(session.plan_program(), *repair.replacement)}};
  if (!repair.inserted) return {};
  // The old result becomes "<name>.partial"; the collective defines the name that everyone reads.
  ir::Program scratch = session.plan_program();
  const ir::ValueId partial{static_cast<std::int32_t>(scratch.values.size())};
  scratch.values.push_back(scratch.value(repair.value));
  scratch.values.back().name += ".partial";
  ir::Instruction producer = old;
  for (ir::ValueId& out : producer.outputs)
    if (out == repair.value) out = partial;
  ir::Instruction collective = *repair.inserted;
  collective.inputs = {partial};
  return {{old.span, ir::instruction_json(scratch, producer) + "," + line_break(session, old.span) + ir::instruction_json(scratch, collective)}};
}

Diagnostic describe(Session& session, const Search::Finding& finding) {
  const Repair& r = finding.repair;
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
  d.fix = ir::Fix{r.fix, edits_of(session, r), ir::Applicability::verified};
  return d;
}

// Equal faults at many places (the norm weights of all layers) are one defect.
void add_grouped(std::vector<Diagnostic>& list, std::map<std::string, std::size_t>& groups, Diagnostic d, const std::string& key) {
  const auto [it, added] = groups.try_emplace(key, list.size());
  if (added) {
    list.push_back(std::move(d));
    return;
  }
  Diagnostic& first = list[it->second];
  ++first.places;
  if (d.fix && first.fix) first.fix->edits.insert(first.fix->edits.end(), d.fix->edits.begin(), d.fix->edits.end());
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
    std::optional<Diagnostic> place = place_of_fault(session, search.blame());
    try {
      std::map<std::string, std::size_t> groups;
      int defects = 0;
      while (options.suggest_fixes && failed() > 0 && defects < 4 * options.max_defects && groups.size() < static_cast<std::size_t>(options.max_defects)) {
        if (options.progress) options.progress({"diagnosis", defects, defects + 1});
        const auto finding = search.next();
        if (!finding) break;
        ++defects;
        const Repair& r = finding->repair;
        const std::string op(ir::schema_of(session.plan_run().steps()[r.step].instruction->op).name);
        add_grouped(found, groups, describe(session, *finding), r.code + "|" + op + "|" + r.fix);
        place.reset();
      }
      if (failed() > 0 && !place) place = place_of_fault(session, search.blame());
    } catch (const solvers::BudgetExceeded& e) {
      if (e.what_kind != solvers::BudgetExceeded::What::time) throw;  // what was found so far is still true
    }
    if (failed() > 0) {
      for (Diagnostic& d : found)
        if (d.fix && d.fix->applicability == ir::Applicability::verified) d.fix->applicability = ir::Applicability::plausible;
      if (place) found.push_back(*std::move(place));
    }
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

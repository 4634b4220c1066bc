#include "mutations/campaign.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iomanip>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "ir/print.h"
#include "verifier/verify.h"

namespace shardproof::mutations {
namespace {

struct Job {
  const Subject* subject = nullptr;
  const Kind* kind = nullptr;
  Site site;
};

std::uint64_t seed_of(const std::string& text) {
  std::uint64_t hash = 1469598103934665603ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

// Ops without arithmetic on reals: they choose and move elements, or compute indices and conditions.
bool moves_only(const ir::Program& program, const ir::Instruction& instruction) {
  if (!instruction.outputs.empty() && !ir::is_float(program.value(instruction.outputs[0]).type.dtype)) return true;
  switch (instruction.op) {
    case ir::OpCode::reshape:
    case ir::OpCode::transpose:
    case ir::OpCode::broadcast:
    case ir::OpCode::slice:
    case ir::OpCode::concat:
    case ir::OpCode::cast:
    case ir::OpCode::select:
    case ir::OpCode::take:
    case ir::OpCode::take_along:
    case ir::OpCode::put_along:
      return true;
    default:
      return false;
  }
}

// Names of values that are computed from `names` by one step of arithmetic.
void readers(const ir::Program& program, const std::vector<ir::Instruction>& body, std::set<std::string>& names,
             std::set<std::string>& near) {
  for (const ir::Instruction& i : body) {
    bool reads = false;
    for (const ir::ValueId id : i.inputs) reads = reads || names.contains(program.value(id).name);
    if (i.region != nullptr) {
      for (const ir::Carry& c : i.region->carries)
        if (names.contains(program.value(c.init).name)) names.insert(program.value(c.argument).name);
      readers(program, i.region->body, names, near);
      for (const ir::Carry& c : i.region->carries) {
        if (names.contains(program.value(c.next).name)) names.insert(program.value(c.result).name);
      }
      continue;
    }
    if (!reads) continue;
    for (const ir::ValueId id : i.outputs) {
      near.insert(program.value(id).name);
      if (moves_only(program, i)) names.insert(program.value(id).name);
    }
  }
}

// Where what deleted instructions had read comes from, through ops without arithmetic.
void producers(const std::vector<ir::Instruction>& body, const ir::Program& program, std::set<std::string>& names) {
  for (auto i = body.rbegin(); i != body.rend(); ++i) {
    if (i->region != nullptr) {
      for (const ir::Carry& c : i->region->carries)
        if (names.contains(program.value(c.result).name)) names.insert(program.value(c.next).name);
      producers(i->region->body, program, names);
      continue;
    }
    if (!moves_only(program, *i)) continue;
    if (std::any_of(i->outputs.begin(), i->outputs.end(),
                    [&](ir::ValueId id) { return names.contains(program.value(id).name); }))
      for (const ir::ValueId id : i->inputs) names.insert(program.value(id).name);
  }
}

// "%dg = all_reduce[..](%x) : f32[4]" names dg; a part of an unfolded macro "dg/max" belongs to dg.
std::string value_of(const std::string& instruction) {
  if (!instruction.starts_with('%')) return instruction;
  return instruction.substr(1, instruction.find_first_of(", ") - 1);
}
bool is_of(const std::set<std::string>& names, const std::string& name) {
  return names.contains(name) || names.contains(name.substr(0, name.find('/')));
}

void judge(const Editor& editor, const ir::Document& document, const verifier::Report& report, Outcome& outcome) {
  std::set<std::string> changed(editor.touched().begin(), editor.touched().end());
  std::set<std::string> through = changed;
  std::set<std::string> near = changed;
  const ir::Program& program = document.plan.stages.front().program;
  // A carry that was changed is a matter of what it starts with and what the body makes of it.
  const auto carries = [&](const auto& self, const std::vector<ir::Instruction>& body) -> void {
    for (const ir::Instruction& i : body) {
      if (i.region == nullptr) continue;
      for (const ir::Carry& c : i.region->carries)
        if (changed.contains(program.value(c.result).name)) near.insert(program.value(c.next).name);
      // A loop that runs too often or too rarely is read by what its index picks.
      if (changed.contains(program.value(i.outputs.at(0)).name))
        for (const ir::Instruction& inner : i.region->body)
          if (inner.op == ir::OpCode::slice && !inner.attributes.get<ir::CoordExpr>("start").is_constant())
            through.insert(program.value(inner.outputs[0]).name);
      self(self, i.region->body);
    }
  };
  carries(carries, program.body);
  readers(program, program.body, through, near);
  near.insert(through.begin(), through.end());
  std::set<std::string> lost(editor.lost().begin(), editor.lost().end());
  producers(program.body, program, lost);
  near.insert(lost.begin(), lost.end());
  for (const std::string& name : editor.touched()) outcome.changed += (outcome.changed.empty() ? "" : " ") + name;
  for (const ir::Diagnostic& d : report.diagnostics) {
    if (outcome.blamed.empty())
      outcome.blamed = value_of(d.subject.instruction.empty() ? d.subject.value : d.subject.instruction);
    for (const std::string& name : {value_of(d.subject.instruction), d.subject.value}) {
      if (name.empty()) continue;
      outcome.blamed_at = outcome.blamed_at || is_of(changed, name);
      outcome.blamed_near = outcome.blamed_near || is_of(near, name);
    }
    outcome.names_instruction = outcome.names_instruction || !d.subject.instruction.empty();
    outcome.fix_verified = outcome.fix_verified || (d.fix && d.fix->applicability == ir::Applicability::verified);
  }
}

std::optional<Outcome> run(const Job& job, const CampaignOptions& options) {
  Editor editor(job.subject->document);
  try {
    job.site.edit(editor, job.site.at);
  } catch (const NotApplicable&) {
    return std::nullopt;
  }
  Outcome outcome;
  outcome.kind = job.kind->name;
  outcome.plan = job.subject->name;
  outcome.site = job.site.at;
  const ir::Document document = editor.take();
  verifier::VerifyOptions verify_options;
  verify_options.timeout_seconds = options.timeout_seconds;
  verify_options.suggest_fixes = options.fixes;
  verify_options.max_defects = options.max_defects;
  verify_options.find_counterexample = options.disprove;
  const verifier::Report report = verifier::verify(document, verify_options);
  outcome.verdict = report.verdict;
  outcome.seconds = report.statistics.seconds;
  outcome.defects = report.diagnostics.size();
  if (!report.diagnostics.empty()) outcome.code = report.diagnostics.front().code;
  judge(editor, document, report, outcome);
  const bool proved = report.verdict == verifier::Verdict::equivalent;
  if (proved || (options.check_all && report.verdict != verifier::Verdict::invalid)) outcome.parity = parity(document);
  if (!options.keep.empty() && (options.keep_all || proved || outcome.parity == Outcome::Parity::equal)) {
    std::string file = outcome.kind + "." + outcome.plan + "." + outcome.site + ".json";
    std::replace(file.begin(), file.end(), '/', '_');
    std::ofstream out(options.keep + "/" + file);
    ir::print_json(document, out);
  }
  return outcome;
}

}  // namespace

std::vector<Outcome> run_campaign(const std::vector<Subject>& plans, const Kinds& kinds,
                                  const CampaignOptions& options) {
  std::vector<std::vector<Job>> groups;  // of one kind, in the order of trial
  for (const Kind& kind : kinds) {
    if (!matches(options.kind, kind.name)) continue;
    std::mt19937_64 random(seed_of(kind.name));
    std::vector<std::vector<Job>> by_plan;
    for (const Subject& subject : plans) {
      if (!matches(options.plan, subject.name)) continue;
      std::vector<Job> jobs;
      for (Site& site : kind.find(subject)) jobs.push_back({&subject, &kind, std::move(site)});
      for (std::size_t i = jobs.size(); i > 1; --i) std::swap(jobs[i - 1], jobs[random() % i]);
      by_plan.push_back(std::move(jobs));
    }
    // Plans take turns, so that few sites still reach several plans.
    if (!by_plan.empty()) {
      const auto first = static_cast<std::ptrdiff_t>(random() % by_plan.size());
      std::rotate(by_plan.begin(), by_plan.begin() + first, by_plan.end());
    }
    std::vector<Job> group;
    std::size_t most = 0;
    for (const std::vector<Job>& jobs : by_plan) most = std::max(most, jobs.size());
    for (std::size_t turn = 0; turn < most; ++turn)
      for (std::vector<Job>& jobs : by_plan)
        if (turn < jobs.size()) group.push_back(std::move(jobs[turn]));
    groups.push_back(std::move(group));
  }
  std::vector<std::vector<Outcome>> results(groups.size());
  std::atomic<std::size_t> next = 0;
  std::mutex telling;
  const auto work = [&] {
    for (std::size_t g = next++; g < groups.size(); g = next++) {
      for (const Job& job : groups[g]) {
        if (results[g].size() == options.sites) break;
        auto outcome = run(job, options);
        if (!outcome) continue;
        results[g].push_back(std::move(*outcome));
        const std::lock_guard lock(telling);
        if (options.done) options.done(results[g].back());
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::clamp(std::thread::hardware_concurrency(), 1U, 4U); ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  std::vector<Outcome> all;
  for (std::vector<Outcome>& part : results) all.insert(all.end(), part.begin(), part.end());
  return all;
}

namespace {
struct Row {
  int mutants = 0, rejected = 0, refuted = 0, unknown = 0, late = 0, proved = 0, at = 0, near = 0, fixed = 0;

  void add(const Outcome& o) {
    ++mutants;
    switch (o.verdict) {
      case verifier::Verdict::invalid:
        ++rejected;
        return;
      case verifier::Verdict::not_equivalent:
        ++refuted;
        break;
      case verifier::Verdict::unknown:
        ++(o.code == "SP0901" ? late : unknown);
        break;
      case verifier::Verdict::equivalent:
        ++proved;
        return;
    }
    at += o.blamed_at ? 1 : 0;
    near += o.blamed_near ? 1 : 0;
    fixed += o.fix_verified ? 1 : 0;
  }
};

void line(std::ostream& out, const std::string& name, const Row& r) {
  out << std::left << std::setw(40) << name << std::right;
  for (const int n : {r.mutants, r.rejected, r.refuted, r.unknown, r.late, r.proved, r.at, r.near, r.fixed})
    out << std::setw(9) << n;
  out << '\n';
}
}  // namespace

std::string table(const std::vector<Outcome>& outcomes) {
  std::vector<std::string> order;
  std::map<std::string, Row> rows;
  Row total;
  for (const Outcome& o : outcomes) {
    if (!rows.contains(o.kind)) order.push_back(o.kind);
    rows[o.kind].add(o);
    total.add(o);
  }
  std::ostringstream out;
  out << std::left << std::setw(40) << "kind" << std::right;
  for (const char* head :
       {"mutants", "rejected", "refuted", "unknown", "time-out", "proved", "blamed", "or next", "fixed"})
    out << std::setw(9) << head;
  out << '\n';
  for (const std::string& name : order) line(out, name, rows[name]);
  line(out, std::to_string(order.size()) + " kinds", total);
  return out.str();
}

namespace {
double share(const std::vector<Outcome>& outcomes, const std::function<bool(const Outcome&)>& counts) {
  int all = 0, counted = 0;
  for (const Outcome& o : outcomes) {
    if (o.verdict == verifier::Verdict::invalid || o.parity == Outcome::Parity::equal) continue;
    ++all;
    counted += counts(o) ? 1 : 0;
  }
  return all == 0 ? 1 : static_cast<double>(counted) / all;
}
}  // namespace

double blamed_share(const std::vector<Outcome>& outcomes) {
  return share(outcomes, [](const Outcome& o) { return o.blamed_at || o.blamed_near; });
}

double fixed_share(const std::vector<Outcome>& outcomes) {
  return share(outcomes, [](const Outcome& o) { return o.fix_verified; });
}

}  // namespace shardproof::mutations
